//! The program `orlop-helper`, which an operator places in pods. Owns nothing: what it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    orlop::cloud::porter::main(std::env::args_os().skip(1), &orlop::cloud::porter::Environment::of_process())
}
