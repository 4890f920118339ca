//! What is committed although it is made of something else: `GENERATE=1 cargo test --test it generated` writes it anew.

use std::fs;
use std::process::Command;

use crate::manifests::render;
use crate::scene::{BINARY, manifests};

#[test]
fn the_generated_files_are_what_their_sources_say() {
    let crd = printed(&["crd"]);
    settle("crd/crd.yaml", &crd);
    settle("install.yaml", &render(&manifests().join("default")));
    let targets = printed(&["rbac", "crontabs.example.com"]);
    settle("samples/targets.yaml", &format!("# restow rbac crontabs.example.com\n{targets}"));
}

/// Compares a file with what it is to be, or writes it.
fn settle(file: &str, expected: &str) {
    let path = manifests().join(file);
    if std::env::var_os("GENERATE").is_some() {
        fs::write(path, expected).unwrap();
    } else {
        let found = fs::read_to_string(path).unwrap_or_default();
        assert!(found == expected, "manifests/{file} is stale: GENERATE=1 cargo test --test it generated");
    }
}

fn printed(args: &[&str]) -> String {
    let output = Command::new(BINARY).args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}
