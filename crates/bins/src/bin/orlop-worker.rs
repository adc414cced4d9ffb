//! The program `orlop-worker`. Owns nothing: the agent is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    orlop::host::worker::program::main()
}
