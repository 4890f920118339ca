//! No process of the bench outlives the run, however the run ends.
#![expect(clippy::expect_used, reason = "tests")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testbed::process::{Exit, Launch, Process, Signal};

const DEADLINE: Duration = Duration::from_secs(10);
/// Set in the copy of this test binary that plays the test run that is killed.
const VICTIM: &str = "TESTBED_VICTIM_DIRECTORY";

fn sleeper(directory: &Path) -> Process {
    Launch::new("sleep", directory.join("sleep.log")).arg("1000").spawn().expect("sleep starts")
}

fn is_alive(pid: i32) -> bool {
    // A zombie has its name in parentheses and then the letter Z; whoever inherits it may take its time to reap it.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
}

fn wait_until_gone(pid: i32) {
    let begun = Instant::now();
    while is_alive(pid) {
        assert!(begun.elapsed() < DEADLINE, "process {pid} is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_dropped_process_is_gone() {
    let directory = tempfile::tempdir().expect("a directory");
    let process = sleeper(directory.path());
    let pid = process.pid();
    assert!(is_alive(pid));
    drop(process);
    wait_until_gone(pid);
}

#[test]
fn a_paused_process_is_killed_with_its_owner() {
    let directory = tempfile::tempdir().expect("a directory");
    let process = sleeper(directory.path());
    process.signal(Signal::Stop);
    let pid = process.pid();
    drop(process);
    wait_until_gone(pid);
}

#[tokio::test]
async fn an_exit_is_told_as_it_was() {
    let directory = tempfile::tempdir().expect("a directory");
    let launch = |script: &str| Launch::new("sh", directory.path().join("log")).args(["-c", script]);
    let failed = launch("echo out; echo err >&2; exit 7")
        .stdout(directory.path().join("out"))
        .spawn()
        .expect("starts");
    assert_eq!(failed.wait_exit(DEADLINE).await.expect("it ends"), Exit::Code(7));
    assert_eq!((failed.stdout().as_str(), failed.stderr().as_str()), ("out\n", "err\n"));
    assert!(!failed.is_running());

    let killed = launch("sleep 1000").spawn().expect("starts");
    assert!(killed.wait_exit(Duration::from_millis(1)).await.is_err(), "it runs until it is told otherwise");
    killed.signal(Signal::Term);
    assert_eq!(killed.wait_exit(DEADLINE).await.expect("it ends"), Exit::Signal(15));
}

#[test]
fn a_program_that_is_missing_says_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let process =
        Launch::new("no-such-program", directory.path().join("log")).spawn().expect("the supervisor starts");
    let begun = Instant::now();
    while process.is_running() && begun.elapsed() < DEADLINE {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(process.exit(), Some(Exit::Code(127)));
    assert!(process.log().contains("no-such-program"), "{}", process.log());
}

/// Not a test of its own: the run that `nothing_outlives_a_run_that_is_killed` kills.
#[test]
fn victim() {
    let Some(directory) = std::env::var_os(VICTIM) else { return };
    let processes = [sleeper(Path::new(&directory)), sleeper(Path::new(&directory))];
    let mut stdout = std::io::stdout();
    for process in &processes {
        writeln!(stdout, "\nsleeping: {}", process.pid()).expect("the parent listens");
    }
    std::thread::sleep(Duration::from_secs(1000));
}

#[test]
fn nothing_outlives_a_run_that_is_killed() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut victim = Command::new(std::env::current_exe().expect("this test's own path"))
        .args(["--exact", "victim", "--nocapture"])
        .env(VICTIM, directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a copy of this test starts");
    let lines = BufReader::new(victim.stdout.take().expect("its output")).lines();
    let pids: Vec<i32> = lines
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix("sleeping: ")?.parse().ok())
        .take(2)
        .collect();
    assert_eq!(pids.len(), 2, "two processes sleep");
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    victim.kill().expect("it can be killed");
    victim.wait().expect("it was killed");
    pids.into_iter().for_each(wait_until_gone);
}
