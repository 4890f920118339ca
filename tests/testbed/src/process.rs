//! Child processes that never outlive the test run, however it ends.
//!
//! Each child gets a supervisor, a small shell in a process group of its own, which blocks reading a pipe whose other
//! end only this process holds. When that end closes (dropped, or the kernel closing it because this process was
//! killed) the supervisor kills its whole group. Ctrl-C at the terminal does not reach the group; it reaches us, and
//! through the pipe it reaches them. What is run, and with which flags, is not decided here.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal as RawSignal, kill_process};
use tokio::sync::watch;

/// Starts `"$@"`, says its process id and then its exit status on descriptor 4, and kills the group at the end of
/// standard input or of the child. The kill includes the supervisor and any grandchild, and a stopped process too.
const SUPERVISOR: &str = r#"
exec 3<&0 </dev/null 4>&1 1>&5 5>&-
"$@" 3<&- 4>&- &
child=$!
echo "$child" >&4
{ read -r _ <&3; kill -KILL 0; } 4>&- &
exec 3<&-
wait "$child"
echo "$?" >&4
kill -KILL 0
"#;

/// A program to be run as a guarded [`Process`].
#[derive(Debug)]
pub struct Launch {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    stdout: PathBuf,
    stderr: PathBuf,
}

/// A running child process. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    pid: Pid,
    supervisor: Child,
    lifeline: Option<ChildStdin>,
    exit: watch::Receiver<Option<Exit>>,
    stdout: PathBuf,
    stderr: PathBuf,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// It was ended by this signal.
    Signal(i32),
    /// Its supervisor was killed before it could tell.
    Unknown,
}

/// The signals a test sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Ask to end.
    Term,
    /// What Ctrl-C sends.
    Interrupt,
    /// End without a chance to tidy up.
    Kill,
    /// Pause.
    Stop,
    /// Go on after [`Signal::Stop`].
    Continue,
}

/// Why a process could not be started or waited for.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The log could not be opened or the supervisor not started.
    #[error("start {program}")]
    Start {
        /// The program that was to run.
        program: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It was still running at the deadline.
    #[error("wait for {program} to end: still running after {waited:?}")]
    StillRunning {
        /// The program that runs.
        program: String,
        /// How long it was waited for.
        waited: Duration,
    },
}

impl Launch {
    /// A launch of `program` whose output goes to `log`, appended.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Self {
        let log = log.into();
        Self { program: program.into(), args: vec![], env: vec![], stdout: log.clone(), stderr: log }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable, on top of the inherited ones.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Sends standard output to a file of its own; the log keeps standard error.
    #[must_use]
    pub fn stdout(mut self, path: impl Into<PathBuf>) -> Self {
        self.stdout = path.into();
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// If a log file can't be opened or the supervisor not started. A program that does not exist is seen as an exit
    /// with code 127 and a line in its log.
    pub fn spawn(self) -> Result<Process, ProcessError> {
        let name =
            self.program.file_name().unwrap_or(self.program.as_os_str()).to_string_lossy().into_owned();
        self.supervise(&name).map_err(|source| ProcessError::Start { program: name, source })
    }

    fn supervise(self, name: &str) -> io::Result<Process> {
        let open = |path: &Path| File::options().create(true).append(true).open(path);
        drop(open(&self.stdout)?);
        let mut supervisor = Command::new("sh")
            // The shell opens the output itself: a descriptor can't be handed over by number without unsafe code.
            .args(["-c", &format!(r#"exec 5>>"$1"; shift; {SUPERVISOR}"#), "supervisor"])
            .arg(&self.stdout)
            .arg(&self.program)
            .args(&self.args)
            .envs(self.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(open(&self.stderr)?)
            .process_group(0)
            .spawn()?;
        let lifeline = supervisor.stdin.take();
        let mut reports = BufReader::new(supervisor.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?);
        let mut line = String::new();
        reports.read_line(&mut line)?;
        let pid = line.trim().parse().ok().and_then(Pid::from_raw).ok_or_else(|| {
            io::Error::other(format!("the supervisor of {name} did not say which process it started"))
        })?;
        let (told, exit) = watch::channel(None);
        std::thread::Builder::new().name(format!("wait for {name}")).spawn(move || {
            let mut line = String::new();
            let read = reports.read_line(&mut line);
            told.send_replace(Some(Exit::from_shell(read.ok().and_then(|_| line.trim().parse().ok()))));
        })?;
        Ok(Process {
            name: name.to_owned(),
            pid,
            supervisor,
            lifeline,
            exit,
            stdout: self.stdout,
            stderr: self.stderr,
        })
    }
}

impl Process {
    /// The child's process id (not its supervisor's).
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// The name of its program.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it has not ended yet. A paused process runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.exit.borrow().is_none()
    }

    /// How it ended, if it has.
    #[must_use]
    pub fn exit(&self) -> Option<Exit> {
        *self.exit.borrow()
    }

    /// Sends a signal. To a process that has ended this does nothing.
    pub fn signal(&self, signal: Signal) {
        if self.is_running() {
            // It may end between the check and the call; then there is nobody to signal, which is no fault.
            let _ = kill_process(self.pid, signal.raw());
        }
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// If it still runs after `deadline`.
    pub async fn wait_exit(&self, deadline: Duration) -> Result<Exit, ProcessError> {
        let mut exit = self.exit.clone();
        let ended = tokio::time::timeout(deadline, exit.wait_for(Option::is_some)).await;
        match ended {
            Ok(known) => Ok(known.ok().and_then(|exit| *exit).unwrap_or(Exit::Unknown)),
            Err(_) => Err(ProcessError::StillRunning { program: self.name.clone(), waited: deadline }),
        }
    }

    /// Kills it and waits until it is gone.
    pub fn kill(&mut self) {
        drop(self.lifeline.take());
        let _ = self.supervisor.wait();
    }

    /// What it has written so far: its log, and standard output if that has a file of its own.
    #[must_use]
    pub fn log(&self) -> String {
        let mut text = read(&self.stderr);
        if self.stdout != self.stderr {
            text.push_str(&self.stdout());
        }
        text
    }

    /// What it has written to standard output so far (and to standard error, if they share a file).
    #[must_use]
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// What it has written to standard error so far (and to standard output, if they share a file).
    #[must_use]
    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Exit {
    /// Whether it exited with code 0.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }

    /// From what a shell shows in `$?`, where a signal is 128 more than its number.
    fn from_shell(status: Option<i32>) -> Self {
        match status {
            None => Self::Unknown,
            Some(status @ 129..) => Self::Signal(status - 128),
            Some(status) => Self::Code(status),
        }
    }
}

impl Signal {
    fn raw(self) -> RawSignal {
        match self {
            Self::Term => RawSignal::TERM,
            Self::Interrupt => RawSignal::INT,
            Self::Kill => RawSignal::KILL,
            Self::Stop => RawSignal::STOP,
            Self::Continue => RawSignal::CONT,
        }
    }
}

/// Sends a signal to a process that is not a child of ours. One that has ended gets none.
pub(crate) fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal.raw());
    }
}

fn read(path: &Path) -> String {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}
