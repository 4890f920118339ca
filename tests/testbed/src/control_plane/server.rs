//! A server process that can be stopped, paused and started again in place, with the same flags, port and data.

use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::StartError;
use crate::process::{Exit, Launch, Process, ProcessError, Signal};

/// How long a program may take until it is ready.
const READY_DEADLINE: Duration = Duration::from_mins(1);
/// How long a program may take to end when it is told to.
const STOP_DEADLINE: Duration = Duration::from_secs(90);
/// Between two looks whether it is ready.
const READY_POLL: Duration = Duration::from_millis(50);
/// Lines of its log in an error.
const TAIL_LINES: usize = 30;

#[derive(Debug)]
pub(super) struct Server {
    name: &'static str,
    program: PathBuf,
    args: Vec<OsString>,
    log: PathBuf,
    process: Mutex<Option<Process>>,
}

impl Server {
    pub(super) fn new(name: &'static str, program: PathBuf, args: Vec<OsString>, log: PathBuf) -> Self {
        Self { name, program, args, log, process: Mutex::new(None) }
    }

    /// Starts it, unless it runs, and waits until `ready` says so.
    pub(super) async fn start<F: Future<Output = bool>>(
        &self,
        ready: impl Fn() -> F,
    ) -> Result<(), StartError> {
        if !self.is_running() {
            let process = Launch::new(&self.program, &self.log).args(&self.args).spawn()?;
            *self.slot() = Some(process);
        }
        let waited = tokio::time::timeout(READY_DEADLINE, async {
            while self.is_running() {
                let ready = tokio::time::timeout(Duration::from_secs(5), ready()).await;
                if ready == Ok(true) {
                    return true;
                }
                tokio::time::sleep(READY_POLL).await;
            }
            false
        });
        match waited.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.not_ready(format!("it ended ({:?})", self.exit()))),
            Err(_) => Err(self.not_ready(format!("it is not after {READY_DEADLINE:?}"))),
        }
    }

    /// Sends it a signal.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(process) = self.slot().as_ref() {
            process.signal(signal);
        }
    }

    /// Sends it a signal that ends it and waits until it has ended.
    pub(super) async fn stop(&self, signal: Signal) -> Result<Exit, ProcessError> {
        // Taken out, for the lock is not to be held while waiting.
        let process = self.slot().take();
        let Some(process) = process else { return Ok(Exit::Unknown) };
        process.signal(signal);
        process.wait_exit(STOP_DEADLINE).await
    }

    pub(super) fn is_running(&self) -> bool {
        self.slot().as_ref().is_some_and(Process::is_running)
    }

    pub(super) fn pid(&self) -> Option<i32> {
        self.slot().as_ref().map(Process::pid)
    }

    pub(super) fn log(&self) -> String {
        std::fs::read(&self.log).map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default()
    }

    fn exit(&self) -> Option<Exit> {
        self.slot().as_ref().and_then(Process::exit)
    }

    fn not_ready(&self, problem: String) -> StartError {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        let log = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
        StartError::NotReady { program: self.name, problem, log }
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
