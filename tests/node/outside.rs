//! Outside: what the node needs is built, and after it has ended the machine is looked at.

use std::io::{BufRead as _, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use testbed::binaries::{BinaryError, Program};
use testbed::image::ImageError;
use testbed::node::{self, Enclosure, Machine};

use crate::images::Images;

/// Makes a copy of this program the one that is killed.
pub(crate) const VICTIM: &str = "victim";
/// What the victim says when everything is at work.
pub(crate) const AT_WORK: &str = "at work";
/// How long after a kill something may still be there.
const GONE_WITHIN: Duration = Duration::from_mins(1);

/// Why the test failed outside.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Lack(#[from] node::Lack),
    #[error("build the cluster's programs: {0}")]
    Binary(#[from] BinaryError),
    #[error("build the images: {0}")]
    Image(#[from] ImageError),
    #[error("prepare or look at the machine: {0}")]
    System(#[from] std::io::Error),
    #[error("the tests inside ended with {0}")]
    Inside(std::process::ExitStatus),
    #[error("the machine is not as it was.\nbefore: {before:#?}\nafter: {after:#?}")]
    Changed { before: Box<Machine>, after: Box<Machine> },
    #[error("left behind: {0:?}")]
    LeftBehind(Vec<String>),
    #[error("the copy that was to be killed ended before it was at work")]
    NoVictim,
}

pub(crate) fn run() -> ExitCode {
    let begun = Instant::now();
    match try_run() {
        Ok(()) => {
            eprintln!("node: all of it, in {} s", begun.elapsed().as_secs());
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("node: FAILED: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn try_run() -> Result<(), Failure> {
    node::check_needs()?;
    node::build_programs()?;
    Program::Helm.path()?;
    let before = Machine::look()?;
    let enclosure = Enclosure::create()?;
    eprintln!(
        "node: building images in {}, a release build of restow first …",
        enclosure.directory().display()
    );
    Images::build(enclosure.directory())?;
    let status = enclosure.run(&[])?;
    if !status.success() {
        return Err(Failure::Inside(status));
    }
    kill_a_copy(enclosure.directory())?;
    let directory = enclosure.directory().to_owned();
    drop(enclosure);
    is_as_it_was(&before, &directory)
}

/// A run that is killed with SIGKILL has no time to tidy up.
fn kill_a_copy(images: &Path) -> Result<(), Failure> {
    let before = Machine::look()?;
    let mut copy = Command::new(std::env::current_exe()?)
        .arg(VICTIM)
        .current_dir(images)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(copy.stdout.take().ok_or(Failure::NoVictim)?).lines();
    let directory = PathBuf::from(next(&mut lines)?);
    let at_work = next(&mut lines);
    let at_its_height = node::processes_of(&directory)?.len();
    copy.kill()?;
    copy.wait()?;
    at_work?;
    eprintln!("node: killed a copy in {}, with {at_its_height} processes", directory.display());
    let deadline = Instant::now() + GONE_WITHIN;
    loop {
        match is_as_it_was(&before, &directory) {
            Err(Failure::LeftBehind(_) | Failure::Changed { .. }) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(200));
            }
            outcome => return outcome,
        }
    }
}

fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> Result<String, Failure> {
    lines.next().ok_or(Failure::NoVictim)?.map_err(Failure::from)
}

/// The part of the copy that is killed. It finds the images in its working directory, and says where its own is.
pub(crate) fn be_victim() -> ExitCode {
    let enclosure = Enclosure::create().expect("an enclosure");
    Images::copy(Path::new("."), enclosure.directory());
    println!("{}", enclosure.directory().display());
    let status = enclosure.run(&[VICTIM]);
    panic!("was to be killed, but ended with {status:?}");
}

fn is_as_it_was(before: &Machine, directory: &Path) -> Result<(), Failure> {
    let mut left = node::processes_of(directory)?;
    if directory.exists() {
        left.push(directory.display().to_string());
    }
    if !left.is_empty() {
        return Err(Failure::LeftBehind(left));
    }
    let after = Machine::look()?;
    if after == *before {
        eprintln!("node: the machine is as it was");
        return Ok(());
    }
    Err(Failure::Changed { before: Box::new(before.clone()), after: Box::new(after) })
}
