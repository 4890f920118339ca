//! Exit codes, and how an error is shown.

use std::error::Error;
use std::io;
use std::process::{ExitCode, Termination};

use crate::cluster::chain;

/// What `--help` says of exit codes.
pub(super) const HELP: &str = "\
Exit codes:
  0  done: every object is stored in the storage version
  1  failed, or given up before it was done
  2  the command line can't be understood
  3  finished, but objects were refused and nothing was trimmed
  4  blocked: nothing was written";

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is done.
    Done,
    /// It failed, or was given up.
    Failed,
    /// The command line makes no sense.
    Misused,
    /// Objects were refused, and nothing was trimmed.
    Refused,
    /// Something stood in the way, and nothing was written.
    Blocked,
    /// What was looked for was found, and is still to be dealt with.
    Found,
}

impl Exit {
    /// The exit code.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Misused => 2,
            Self::Refused | Self::Found => 3,
            Self::Blocked => 4,
        }
    }

    /// The one of two that matters more.
    #[must_use]
    pub(super) fn worse(self, other: Self) -> Self {
        let rank = |exit| match exit {
            Self::Done => 0,
            Self::Blocked => 1,
            Self::Refused | Self::Found => 2,
            Self::Failed => 3,
            Self::Misused => 4,
        };
        if rank(other) > rank(self) { other } else { self }
    }

    /// How a command ends whose output was written like this. A reader that has read enough is no failure.
    pub(super) fn after_output(self, written: io::Result<()>) -> Self {
        match written {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Self::fail(&error),
            Ok(()) | Err(_) => self,
        }
    }

    /// Shows what is wrong with the command line, in clap's words.
    pub(super) fn misused(fault: &str) -> Self {
        show(&format!("error: {fault}\n\nFor more information, try '--help'."));
        Self::Misused
    }

    /// Shows an error with its causes, and fails.
    pub(super) fn fail(error: &dyn Error) -> Self {
        show(&format!("error: {}", chain(error)));
        Self::Failed
    }
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        self.code().into()
    }
}

#[expect(clippy::print_stderr, reason = "the place where errors reach the user")]
fn show(line: &str) {
    eprintln!("{line}");
}
