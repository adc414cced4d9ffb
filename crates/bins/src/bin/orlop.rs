//! The program `orlop`: the command line and every role.

use std::process::ExitCode;

fn main() -> ExitCode {
    orlop::program::main()
}
