//! A directory that is removed when its owner ends, however that ends, and with it the control groups of the same name.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

/// Environment variable that keeps the directories, to read the logs after a run.
const KEEP: &str = "RESTOW_TESTBED_KEEP";

/// Waits for the owner's end of the pipe to close, then removes the directory (unless it is to be kept) and the control
/// groups. Processes that die at the same moment may still write into the one or live in the other, so it tries for some
/// seconds.
const REMOVER: &str = r#"
read -r _
remove() {
    failed=
    test -n "$2" || rm -rf "$1" || failed=1
    while read -r _ mounted type _; do
        case $type in cgroup | cgroup2) ;; *) continue ;; esac
        group=$mounted/${1##*/}
        test ! -d "$group" || find "$group" -depth -type d -exec rmdir {} + || failed=1
    done </proc/self/mounts
    test -z "$failed"
}
tries=100
while ! remove "$@" && test "$((tries -= 1))" -gt 0; do sleep 0.2; done
"#;

/// A temporary directory that goes with its owner: also after SIGKILL, and for a `static`, which is never dropped.
#[derive(Debug)]
pub(crate) struct WorkDir {
    path: PathBuf,
    remover: Option<(Child, ChildStdin)>,
}

impl WorkDir {
    pub(crate) fn create() -> io::Result<Self> {
        let path = tempfile::Builder::new().prefix("restow-testbed-").tempdir()?.keep();
        let remover = Some(spawn_remover(&path)?);
        Ok(Self { path, remover })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if let Some((mut remover, lifeline)) = self.remover.take() {
            drop(lifeline);
            let _ = remover.wait();
        }
    }
}

fn spawn_remover(path: &Path) -> io::Result<(Child, ChildStdin)> {
    let mut remover = Command::new("sh")
        .args(["-c", REMOVER, "remover"])
        .arg(path)
        .arg(if std::env::var_os(KEEP).is_some() { "keep" } else { "" })
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Out of reach of Ctrl-C, like the servers' supervisors.
        .process_group(0)
        .spawn()?;
    let lifeline = remover.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    Ok((remover, lifeline))
}
