//! The command line: what can be typed, what it means, what is printed and which code it exits with.

mod controller;
mod crd;
mod election;
mod exit;
mod leftovers;
mod logging;
mod migrate;
mod pace;
mod progress;
mod rbac;
mod resource;
mod session;
mod signals;
mod summary;
mod termination;

use clap::{Parser, Subcommand};

pub use exit::Exit;

/// Moves the stored objects of custom resources to their current storage version, proves that it did, and only then drops
/// the old versions from status.storedVersions.
#[derive(Debug, Parser)]
#[command(name = "restow", version, about, after_help = exit::HELP)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Acts on the StorageMigrations in the cluster until it is told to stop
    Controller(controller::Args),
    /// Migrates custom resources now, without any StorageMigration in the cluster
    #[command(after_help = exit::HELP)]
    Migrate(migrate::Args),
    /// Finds objects whose metadata names old versions of a custom resource: what is still to do before one leaves
    #[command(after_help = leftovers::HELP)]
    Leftovers(leftovers::Args),
    /// Prints the CustomResourceDefinition of StorageMigration as YAML
    Crd,
    /// Prints what lets a controller migrate custom resources, as YAML: for the owners of their CustomResourceDefinitions
    Rbac(rbac::Args),
}

impl Cli {
    /// Does what was typed.
    pub async fn run(self) -> Exit {
        match self.command {
            Command::Controller(args) => controller::run(args).await,
            Command::Migrate(args) => migrate::run(args).await,
            Command::Leftovers(args) => leftovers::run(args).await,
            Command::Crd => crd::run(),
            Command::Rbac(args) => rbac::run(&args),
        }
    }
}
