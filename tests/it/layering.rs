//! The order of the layers: `api <- plan <- metrics <- cluster <- engine <- controller <- cli <- main`. None names a higher one.

use std::fs;
use std::path::{Path, PathBuf};

/// Each layer and the layers below it, which it may name.
const MAY_NAME: [(&str, &[&str]); 7] = [
    ("api", &[]),
    ("plan", &["api"]),
    ("metrics", &["api", "plan"]),
    ("cluster", &["api", "plan", "metrics"]),
    ("engine", &["api", "plan", "metrics", "cluster"]),
    ("controller", &["api", "plan", "metrics", "cluster", "engine"]),
    ("cli", &["api", "plan", "metrics", "cluster", "engine", "controller"]),
];

/// What pure decisions have no use for: words, and paths.
const IMPURE_WORDS: [&str; 7] = ["async", "await", "kube", "tokio", "tracing", "Instant", "SystemTime"];
const IMPURE_PATHS: [&str; 6] = ["std::env", "std::fs", "std::io", "std::net", "std::process", "::now("];

/// Modules that are named after nothing.
const NAMELESS: [&str; 6] = ["common", "helpers", "misc", "types", "util", "utils"];

const LINES_MAX: usize = 400;

#[test]
fn a_layer_names_no_layer_above_it() {
    for (layer, may_name) in MAY_NAME {
        let files = files_of(layer);
        assert!(!files.is_empty(), "there is no layer {layer}");
        for (path, code) in files {
            for named in layers_named(&code) {
                let allowed = named == layer || may_name.contains(&named.as_str());
                assert!(allowed, "{} names {named}, which is above {layer}", path.display());
            }
        }
    }
}

#[test]
fn the_library_has_no_other_layers() {
    let library = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let mut layers: Vec<_> = library
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
        .map(str::to_owned)
        .collect();
    let mut known = MAY_NAME.map(|(layer, _)| layer);
    layers.sort();
    known.sort_unstable();
    assert_eq!(layers, known);
}

#[test]
fn plan_neither_waits_nor_sends_nor_asks_for_the_time() {
    // The model check is a test: it may tell how long it took.
    let product = |(path, _): &(PathBuf, String)| !path.ends_with("plan/check.rs");
    for (path, code) in files_of("plan").into_iter().filter(product) {
        let words: Vec<_> = words(&code).collect();
        let impure = IMPURE_WORDS.into_iter().filter(|word| words.contains(word));
        let impure: Vec<_> = impure.chain(IMPURE_PATHS.into_iter().filter(|it| code.contains(it))).collect();
        assert!(impure.is_empty(), "{} has {impure:?}", path.display());
        assert!(!code.contains("use std::{"), "{} hides paths of std in braces", path.display());
    }
}

#[test]
fn files_are_short_and_named_for_what_they_are() {
    for directory in ["src", "tests"] {
        for path in rust_files(&root().join(directory)) {
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            assert!(lines <= LINES_MAX, "{} has {lines} lines, which is too many", path.display());
            let name = path.file_stem().unwrap().to_str().unwrap();
            assert!(!NAMELESS.contains(&name), "{} is named after nothing", path.display());
        }
    }
}

#[test]
fn a_layer_is_seen_however_it_is_named() {
    let code =
        "use crate::{api::{Reason, cli}, plan};\nuse crate::engine::Engine;\nsuper::super::cluster::x();";
    assert_eq!(layers_named(code), ["api", "plan", "engine", "cluster"]);
    assert_eq!(layers_named("use super::{Cluster, call};\nself.crate_name()"), Vec::<String>::new());
    assert_eq!(words("a.await; b_await").collect::<Vec<_>>(), ["a", "await", "b_await"]);
}

/// The layers that are named by a path from the root of the crate.
fn layers_named(code: &str) -> Vec<String> {
    let roots = code.match_indices("crate::").map(|(at, root)| &code[at + root.len()..]);
    let supers = code.match_indices("super::").map(|(at, parent)| &code[at + parent.len()..]);
    roots.chain(supers).flat_map(first_names).filter(|name| MAY_NAME.iter().any(|(l, _)| l == name)).collect()
}

/// The first name of a path, or of each path within braces.
fn first_names(path: &str) -> Vec<String> {
    let Some(group) = path.strip_prefix('{') else {
        return words(path).next().map(str::to_owned).into_iter().collect();
    };
    let mut depth = 1;
    let own: String = group
        .chars()
        .take_while(|c| {
            depth += match c {
                '{' => 1,
                '}' => -1,
                _ => 0,
            };
            depth > 0
        })
        .collect();
    let mut depth = 0;
    let paths = own.split(|c: char| {
        depth += match c {
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        depth == 0 && c == ','
    });
    paths.filter_map(|path| words(path).next().map(str::to_owned)).collect()
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The files of a layer, without comments.
fn files_of(layer: &str) -> Vec<(PathBuf, String)> {
    let source = root().join("src");
    let mut files = rust_files(&source.join(layer));
    files.push(source.join(layer).with_extension("rs"));
    let code = |path: &Path| {
        let text = fs::read_to_string(path).unwrap();
        text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
    };
    files.into_iter().map(|path| (path.clone(), code(&path))).collect()
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
    found
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
