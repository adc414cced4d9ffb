//! The program `orlop-scheduler`. Owns nothing: the server is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    orlop::host::scheduler::program::main()
}
