//! Compares what the product asked for in a run of the tests with what its manifests grant: `rights DIRECTORY MANIFESTS`.

use std::error::Error;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use testbed::rights::Rights;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [logs, manifests] = paths.as_slice() else { return Err("usage: rights DIRECTORY MANIFESTS".into()) };
    let mut rights = Rights::new(
        &documents(&manifests.join("install.yaml"))?,
        &documents(&manifests.join("samples/targets.yaml"))?,
    );
    for log in std::fs::read_dir(logs)? {
        rights.read(&log?.path())?;
    }
    let mut out = io::stdout();
    writeln!(out, "{} requests of the product", rights.requests())?;
    for right in rights.lacking() {
        writeln!(out, "asked for and not granted: {right}")?;
    }
    for right in rights.unused() {
        writeln!(out, "granted and never used: {right}")?;
    }
    let is_exact = rights.requests() > 0 && rights.lacking().is_empty() && rights.unused().is_empty();
    Ok(if is_exact { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn documents(file: &Path) -> Result<Vec<serde_json::Value>, Box<dyn Error>> {
    Ok(serde_saphyr::from_multiple(&std::fs::read_to_string(file)?)?)
}
