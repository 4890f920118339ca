//! The binary.
#![allow(clippy::print_stdout)]
fn main() {
    println!("{}", restow::api::definition_yaml().unwrap());
}
