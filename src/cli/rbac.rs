//! `restow rbac`.

use std::io::{self, Write};

use super::Exit;
use super::resource::Resource;
use crate::api::grants_yaml;

#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// The resources, each by its plural name and its group, for example crontabs.example.com
    #[arg(value_name = "PLURAL.GROUP", required = true)]
    resources: Vec<Resource>,
}

pub(super) fn run(args: &Args) -> Exit {
    match grants_yaml(args.resources.iter().map(|resource| &resource.0)) {
        Ok(yaml) => Exit::Done.after_output(io::stdout().write_all(yaml.as_bytes())),
        Err(error) => Exit::fail(&error),
    }
}
