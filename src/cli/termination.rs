//! The termination message: what Kubernetes shows of a container that has ended.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;

/// What Kubernetes keeps of it, in bytes (`pkg/kubelet/container`, `MaxContainerTerminationMessageLength`).
const MESSAGE_MAX: usize = 4096;

/// Where it goes.
#[derive(Clone, Debug, Args)]
pub(super) struct TerminationArgs {
    /// The file that takes the outcome in one line, if it exists: the termination message of a container
    #[arg(long, value_name = "PATH", env = "RESTOW_TERMINATION_LOG", default_value = "/dev/termination-log")]
    termination_log: PathBuf,
}

impl TerminationArgs {
    /// Leaves `message` where Kubernetes looks for it. Outside of a container there is no such file, and none is made.
    ///
    /// What is wrong with it is logged: what was done counts, whether or not it can be told here.
    pub(super) fn leave(&self, message: &str) {
        let line = message.replace('\n', " ");
        let line = &line[..line.floor_char_boundary(MESSAGE_MAX)];
        let opened = OpenOptions::new().write(true).truncate(true).open(&self.termination_log);
        match opened.and_then(|mut file| file.write_all(line.as_bytes())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(file = %self.termination_log.display(), %error, "leave the termination message");
            }
            Ok(()) | Err(_) => {}
        }
    }
}
