//! `restow crd`.

use super::Exit;
use crate::api::definition_yaml;

#[expect(clippy::print_stdout, reason = "the output of the command")]
pub(super) fn run() -> Exit {
    match definition_yaml() {
        Ok(yaml) => {
            print!("{yaml}");
            Exit::Done
        }
        Err(error) => Exit::fail(&error),
    }
}
