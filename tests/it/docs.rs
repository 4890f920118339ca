//! The documentation names everything that users can set, read or wait for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray,
};
use restow::api::{Reason, definition};

use crate::scene::BINARY;

const SPEC: &str = include_str!("../../docs/spec.md");

#[test]
fn spec_has_a_row_for_every_reason() {
    let missing: Vec<_> = Reason::ALL.iter().filter(|r| !SPEC.contains(&format!("\n| `{r}` | "))).collect();
    assert!(missing.is_empty(), "docs/spec.md lacks rows for {missing:?}");
}

#[test]
fn spec_names_every_field() {
    let crd = definition();
    let schema = crd.spec.versions[0].schema.as_ref().and_then(|s| s.open_api_v3_schema.as_ref());
    let properties = schema.and_then(|s| s.properties.as_ref()).expect("a schema");
    let mut fields = Vec::new();
    for root in ["spec", "status"] {
        collect(root, &properties[root], &mut fields);
    }
    assert!(fields.contains(&"spec.pace.maxInFlight".to_owned()), "{fields:?}");
    assert!(fields.contains(&"status.refusals[].name".to_owned()), "{fields:?}");
    assert_named(fields);
}

#[test]
fn spec_names_every_printer_column() {
    let columns = definition().spec.versions[0].additional_printer_columns.clone().expect("columns");
    assert_named(columns.into_iter().map(|column| column.name));
}

#[test]
fn spec_names_every_flag_and_its_environment_variable() {
    let help = ["controller", "leftovers", "migrate"].map(help).concat();
    let is_part_of_name = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let words = help.split(|c| !is_part_of_name(c));
    let names: Vec<_> = words.filter(|word| word.starts_with("--") || word.starts_with("RESTOW_")).collect();
    assert!(names.contains(&"--settle") && names.contains(&"RESTOW_SETTLE"), "{names:?}");
    assert_named(names);
}

#[test]
fn spec_names_every_exit_code() {
    let help = help("help");
    let (_, codes) = help.split_once("Exit codes:\n").expect("exit codes");
    let codes: Vec<_> = codes.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(codes.len(), 5, "{codes:?}");
    assert_named(codes);
}

#[test]
fn every_document_is_in_the_list_of_documents() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let list = fs::read_to_string(docs.join("README.md")).unwrap();
    let names = fs::read_dir(docs).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let missing: Vec<_> =
        names.filter(|name| name != "README.md" && !list.contains(&format!("]({name}): "))).collect();
    assert!(missing.is_empty(), "docs/README.md lacks {missing:?}");
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut documents: Vec<PathBuf> = ["README.md", "CHANGELOG.md", "manifests/charts/restow/README.md"]
        .iter()
        .map(|name| root.join(name))
        .collect();
    for directory in ["docs", "docs/runbooks"] {
        documents.extend(fs::read_dir(root.join(directory)).unwrap().map(|entry| entry.unwrap().path()));
    }
    documents.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    let mut followed = 0;
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link);
        for link in links.filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { document.clone() } else { document.with_file_name(file) };
            assert!(target.exists(), "{} links to {link}", document.display());
            if !anchor.is_empty() {
                let headings = fs::read_to_string(&target).unwrap();
                let found =
                    headings.lines().filter(|line| line.starts_with('#')).any(|line| slug(line) == anchor);
                assert!(found, "{} links to {link}", document.display());
            }
            followed += 1;
        }
    }
    assert!(followed > 20, "{followed} links");
}

/// The anchor that GitHub gives a heading.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    text.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
}

fn assert_named(names: impl IntoIterator<Item = impl AsRef<str>>) {
    let is_missing = |name: &str| !SPEC.contains(&format!("`{name}`"));
    let names = names.into_iter().map(|name| name.as_ref().to_owned());
    let missing: Vec<_> = names.filter(|name| is_missing(name)).collect();
    assert!(missing.is_empty(), "docs/spec.md doesn't name {missing:?}");
}

fn collect(path: &str, schema: &JSONSchemaProps, fields: &mut Vec<String>) {
    for (name, property) in schema.properties.iter().flatten() {
        let path = format!("{path}.{name}");
        collect(&path, property, fields);
        fields.push(path);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        collect(&format!("{path}[]"), items, fields);
    }
}

/// What `restow <command> --help` says; `help` is that of restow itself.
fn help(command: &str) -> String {
    let mut restow = Command::new(BINARY);
    if command != "help" {
        restow.arg(command);
    }
    let output = restow.arg("--help").output().expect("run restow");
    String::from_utf8(output.stdout).expect("UTF-8")
}
