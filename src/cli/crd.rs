//! `restow crd`.

use std::io::{self, Write};

use super::Exit;
use crate::api::definition_yaml;

pub(super) fn run() -> Exit {
    match definition_yaml() {
        Ok(yaml) => Exit::Done.after_output(io::stdout().write_all(yaml.as_bytes())),
        Err(error) => Exit::fail(&error),
    }
}
