//! The program `orlop`. Owns nothing: the command line is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    // A shim must be the only thread of its process, so this comes before everything else.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == orlop::cli::SHIM) {
        return orlop_cloud::runtime::process::shim::main();
    }
    #[cfg(feature = "fleet")]
    if std::env::args_os().nth(1).is_some_and(|argument| argument == orlop::cli::SUPERVISOR) {
        return orlop_cloud::runtime::worker::process::supervise::main();
    }
    #[cfg(all(feature = "fleet", target_os = "linux"))]
    if std::env::args_os().nth(1).is_some_and(|argument| argument == orlop::host::step::ARGUMENT) {
        return orlop::host::step::main(std::env::args_os().skip(2), orlop::cli::SHIM);
    }
    orlop::cli::main()
}
