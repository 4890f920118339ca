//! The directory of a control plane, removed when its owner ends, however that ends.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

/// Environment variable that keeps the directories, to read the logs after a run.
const KEEP: &str = "RESTOW_TESTBED_KEEP";

/// Waits for the owner's end of the pipe to close, then removes the directory. Servers that die at the same moment may
/// still write into it, so it tries for some seconds.
const REMOVER: &str = r#"
read -r _
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    rm -rf "$1" && exit
    sleep 0.2
done
"#;

/// A temporary directory that goes with its owner: also after SIGKILL, and for a `static`, which is never dropped.
#[derive(Debug)]
pub(super) struct WorkDir {
    path: PathBuf,
    remover: Option<(Child, ChildStdin)>,
}

impl WorkDir {
    pub(super) fn create() -> io::Result<Self> {
        let path = tempfile::Builder::new().prefix("restow-testbed-").tempdir()?.keep();
        let remover = if std::env::var_os(KEEP).is_some() { None } else { Some(spawn_remover(&path)?) };
        Ok(Self { path, remover })
    }

    pub(super) fn path(&self) -> &Path {
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
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Out of reach of Ctrl-C, like the servers' supervisors.
        .process_group(0)
        .spawn()?;
    let lifeline = remover.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    Ok((remover, lifeline))
}
