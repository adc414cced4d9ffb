//! The program `orlop-helper`, which an operator places in pods.

use std::process::ExitCode;

fn main() -> ExitCode {
    orlop::cloud::helper::main(std::env::args_os().skip(1), &orlop::cloud::helper::Environment::of_process())
}
