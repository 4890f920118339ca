//! The product's binary under test: run as its ServiceAccount, guarded, with its output kept.
//!
//! The caller says where the binary is (`env!("CARGO_BIN_EXE_restow")`). What its flags mean is not known here.

use std::ffi::OsString;
use std::io::Write as _;
use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

use crate::access;
use crate::control_plane::ControlPlane;
use crate::process::{Exit, Launch, Process, ProcessError};

/// How long a one-shot command may run.
const RUN_DEADLINE: Duration = Duration::from_mins(5);

/// A running product. It is killed when dropped; if a test panics meanwhile, its log goes to standard error.
#[derive(Debug)]
pub struct Restow {
    process: Process,
}

/// What a one-shot command left.
#[derive(Clone, Debug)]
pub struct Output {
    /// How it ended.
    pub exit: Exit,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

/// A command line of the product, yet to be run.
#[derive(Debug)]
pub struct RestowCommand {
    launch: Launch,
}

impl Restow {
    /// Starts `restow controller` with further arguments, as the product's ServiceAccount. [`access::install`] comes
    /// first.
    ///
    /// # Errors
    /// If it can't be started.
    pub async fn controller<A: Into<OsString>>(
        binary: impl AsRef<Path>,
        plane: &ControlPlane,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Self, ProcessError> {
        let command = RestowCommand::new(binary, plane, &access::token(plane).await);
        command.args(["controller"]).args(args).start()
    }

    /// Runs a one-shot command to its end, as the product's ServiceAccount.
    ///
    /// # Errors
    /// If it can't be started, or does not end in five minutes. That it failed is in the output.
    pub async fn run<A: Into<OsString>>(
        binary: impl AsRef<Path>,
        plane: &ControlPlane,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Output, ProcessError> {
        RestowCommand::new(binary, plane, &access::token(plane).await).args(args).run().await
    }
}

impl RestowCommand {
    /// The product as whoever this token stands for.
    #[must_use]
    pub fn new(binary: impl AsRef<Path>, plane: &ControlPlane, token: &str) -> Self {
        Self::with_kubeconfig(binary, plane, &plane.kubeconfig_file(token))
    }

    /// The product with a kubeconfig of the caller's, for instance one that leads through a proxy.
    #[must_use]
    pub fn with_kubeconfig(binary: impl AsRef<Path>, plane: &ControlPlane, kubeconfig: &Path) -> Self {
        let output = plane.new_path("restow");
        let launch = Launch::new(binary.as_ref(), output.with_extension("log"))
            .stdout(output.with_extension("out"))
            .env("KUBECONFIG", kubeconfig);
        Self { launch }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(self, args: impl IntoIterator<Item = A>) -> Self {
        Self { launch: self.launch.args(args) }
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(self, name: &str, value: &str) -> Self {
        Self { launch: self.launch.env(name, value) }
    }

    /// Starts it and lets it run.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn start(self) -> Result<Restow, ProcessError> {
        Ok(Restow { process: self.launch.spawn()? })
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// If it can't be started, or does not end in five minutes.
    pub async fn run(self) -> Result<Output, ProcessError> {
        let restow = self.start()?;
        let exit = restow.wait_exit(RUN_DEADLINE).await?;
        Ok(Output { exit, stdout: restow.stdout(), stderr: restow.stderr() })
    }
}

impl Deref for Restow {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl Drop for Restow {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = writeln!(
                std::io::stderr(),
                "restow ({:?}) wrote:\n{}",
                self.process.exit(),
                self.process.log()
            );
        }
    }
}
