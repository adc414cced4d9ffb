//! The program `orlop-operator`. Owns nothing: the operator is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    orlop::host::operator::program::main()
}
