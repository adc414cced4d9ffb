//! The program `orlop-scheduler`: the server of a fleet, as its own program; the same as `orlop scheduler`.

use std::process::ExitCode;

fn main() -> ExitCode {
    orlop::host::scheduler::program::main(std::env::args_os().collect())
}
