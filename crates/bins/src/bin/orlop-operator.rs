//! The program `orlop-operator`: the controllers of a cluster, as its own program; the same as `orlop operator`.

use std::process::ExitCode;

fn main() -> ExitCode {
    orlop::host::operator::program::main(std::env::args_os().collect())
}
