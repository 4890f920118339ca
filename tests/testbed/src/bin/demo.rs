//! `cargo demo`: the entry point, signals and the exit code. What is shown is in `testbed::demo`.

use clap::Parser as _;
use std::io;
use std::process::ExitCode;
use std::time::Duration;
use testbed::demo::{self, Args, Screen};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

/// What a shell reports of a program that ended by Ctrl-C.
const INTERRUPTED: u8 = 130;
/// A first build of the control plane may be under way; it is not waited for.
const SHUTDOWN_MAX: Duration = Duration::from_secs(1);

fn main() -> io::Result<ExitCode> {
    let args = Args::parse();
    let runtime = Runtime::new()?;
    let code = runtime.block_on(show(&args));
    runtime.shutdown_timeout(SHUTDOWN_MAX);
    code
}

/// Whichever comes first ends the demo; what it started is stopped before this returns.
async fn show(args: &Args) -> io::Result<ExitCode> {
    let mut screen = Screen::default();
    let result = tokio::select! {
        result = demo::run(args, &mut screen) => result,
        interrupt = interrupt() => return interrupt.map(|()| ExitCode::from(INTERRUPTED)),
    };
    match result {
        Ok(stage) => {
            screen.write("\nAll as claimed.");
            if args.keep {
                stage.show_access(&mut screen);
                interrupt().await?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(failure) => {
            screen.write(&format!("\nFailed: {}", failure.chain()));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Returns at Ctrl-C or at a request to terminate.
async fn interrupt() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        result = tokio::signal::ctrl_c() => result,
        _ = terminate.recv() => Ok(()),
    }
}
