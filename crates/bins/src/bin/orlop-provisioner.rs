//! The program `orlop-provisioner`: leased servers, as its own program; the same as `orlop provisioner`.

use std::process::ExitCode;

fn main() -> ExitCode {
    orlop::host::provisioner::program::main(std::env::args_os().collect())
}
