//! The `restow` binary: parses, dispatches, exits.

use clap::Parser;
use restow::cli::{Cli, Exit};

#[tokio::main]
async fn main() -> Exit {
    Box::pin(Cli::parse().run()).await
}
