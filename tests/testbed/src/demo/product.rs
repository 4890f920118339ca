//! The product's binary, built from the sources that the demo was built from.

use super::claim::{Doing as _, Failure};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use tokio::process::Command;

/// Builds `restow` with the profile and into the target directory of the running demo, and says where it is.
pub(super) async fn build() -> Result<PathBuf, Failure> {
    let demo = std::env::current_exe().doing("find the demo's own binary")?;
    let directory = demo.parent().ok_or_else(|| misplaced(&demo)).doing("find the target directory")?;
    let target = directory.parent().ok_or_else(|| misplaced(&demo)).doing("find the target directory")?;
    let profile = match directory.file_name().and_then(OsStr::to_str) {
        None | Some("debug") => "dev",
        Some(other) => other,
    };
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "build",
            "--quiet",
            "--package",
            "restow",
            "--bin",
            "restow",
            "--profile",
            profile,
            "--target-dir",
        ])
        .arg(target)
        .current_dir(workspace()?)
        // Set by the cargo that runs the demo: build scripts that see it are run again by every other build.
        .env_remove("CARGO_MANIFEST_DIR")
        .kill_on_drop(true)
        .status()
        .await
        .doing("run cargo")?;
    if !status.success() {
        return Err(io::Error::other(format!("cargo ended with {status}"))).doing("build restow");
    }
    Ok(directory.join("restow"))
}

/// What a cluster is given before the product runs in it.
pub(super) fn manifest() -> Result<PathBuf, Failure> {
    Ok(workspace()?.join("manifests/install.yaml"))
}

/// The root of the workspace; cargo tells a program that it runs where its package is.
fn workspace() -> Result<PathBuf, Failure> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let root = package.as_deref().and_then(Path::parent).and_then(Path::parent);
    root.map(Path::to_owned)
        .ok_or_else(|| io::Error::other("CARGO_MANIFEST_DIR is not set: run it as `cargo demo`"))
        .doing("find the workspace")
}

fn misplaced(demo: &Path) -> io::Error {
    io::Error::other(format!("{} is not in a target directory", demo.display()))
}
