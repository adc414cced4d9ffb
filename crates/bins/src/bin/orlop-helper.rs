//! The program `orlop-helper`, which an operator places in pods.

use std::process::ExitCode;

fn main() -> ExitCode {
    orlop::cloud::porter::main(std::env::args_os().skip(1), &orlop::cloud::porter::Environment::of_process())
}
