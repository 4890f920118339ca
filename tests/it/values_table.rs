//! The table of a chart's values, made of values.yaml: each value with the comment above it.

use std::fmt::Write as _;

use serde_json::Value;

/// The table. A value without a comment stops it: it would ship undescribed.
pub(crate) fn table(values_yaml: &str) -> String {
    let values: Value = serde_saphyr::from_str(values_yaml).unwrap();
    let mut table = String::from("| value | default | meaning |\n|---|---|---|\n");
    for (path, comment) in described(values_yaml) {
        let default = path.split('.').fold(&values, |value, key| &value[key]);
        writeln!(table, "| `{path}` | `{default}` | {comment} |").unwrap();
    }
    table
}

/// The values that are described: their paths and comments, in the order of the file. What lies below one is a part of its
/// default.
fn described(values_yaml: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut parents: Vec<(usize, String)> = Vec::new();
    let mut comment = Vec::new();
    let mut inside: Option<usize> = None;
    for line in values_yaml.lines() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if inside.is_some_and(|outer| !text.is_empty() && indent <= outer) {
            inside = None;
        }
        if text.is_empty() {
            comment.clear();
        } else if let Some(said) = text.strip_prefix("# ") {
            comment.push(said.to_owned());
        } else if inside.is_none() {
            parents.retain(|(outer, _)| *outer < indent);
            let (key, value) = text.split_once(':').expect("a key");
            parents.push((indent, key.to_owned()));
            let path = parents.iter().map(|(_, key)| key.as_str()).collect::<Vec<_>>().join(".");
            if comment.is_empty() {
                assert!(value.is_empty(), "{path} has no comment in values.yaml");
            } else {
                found.push((path, comment.join(" ")));
                inside = Some(indent);
                comment.clear();
            }
        }
    }
    found
}

#[test]
fn a_value_is_shown_with_its_path_its_default_and_its_comment() {
    let yaml =
        "# A file.\n\na:\n  # How many\n  b: 1\n  c:\n    # What\n    d: []\n\n# All\n# of it\ne:\n  f: x\n";
    let rows: Vec<String> = table(yaml).lines().skip(2).map(str::to_owned).collect();
    assert_eq!(
        rows,
        ["| `a.b` | `1` | How many |", "| `a.c.d` | `[]` | What |", "| `e` | `{\"f\":\"x\"}` | All of it |"]
    );
}

#[test]
#[should_panic(expected = "a.b has no comment")]
fn a_value_without_a_comment_is_found() {
    table("a:\n  b: 1\n");
}
