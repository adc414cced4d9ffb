//! The program `orlop-worker`: the agent of a fleet, as its own program; the same as `orlop worker`.

use std::process::ExitCode;

fn main() -> ExitCode {
    orlop::host::worker::program::main(std::env::args_os().collect())
}
