//! Hosts that differ in nothing but their names: an API server derives its identity from the name of its host.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::StartError;

/// Gives the new host its name and becomes the program, under the same process id.
const ON_HOST: &str = r#"hostname "$1" && shift && exec "$@""#;

/// A namespace of one's own for the name. Who isn't root needs one for users as well, and is root in there.
fn namespaces() -> &'static str {
    if rustix::process::geteuid().is_root() { "--uts" } else { "-Ur --uts" }
}

fn unshare(host: &str, rest: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let own = namespaces().split(' ').chain(["sh", "-c", ON_HOST, "host", host]);
    own.map(OsString::from).chain(rest).collect()
}

/// The command that runs a program as if on a host of that name.
pub(super) fn command(host: &str, program: PathBuf, args: Vec<String>) -> (PathBuf, Vec<OsString>) {
    let rest = [program.into_os_string()].into_iter().chain(args.into_iter().map(Into::into));
    (PathBuf::from("unshare"), unshare(host, rest))
}

/// Whether hosts can be had here.
///
/// # Errors
/// If they can't: with what the system said.
pub(super) fn check(host: &str) -> Result<(), StartError> {
    let mut unshared = Command::new("unshare");
    unshared.args(unshare(host, [OsString::from("true")])).stdin(Stdio::null());
    let refused = |said: String| StartError::Host { host: host.to_owned(), said };
    let output = unshared.output().map_err(|error| refused(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(refused(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}
