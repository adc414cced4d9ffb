//! The program `orlop-provisioner`. Owns nothing: the provisioner is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    orlop::host::provisioner::program::main()
}
