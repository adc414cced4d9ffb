//! The program `orlop`. Owns nothing: the command line is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    // A shim must be the only thread of its process, so this comes before everything else.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == orlop::cli::SHIM) {
        return orlop_cloud::runtime::process::shim::main();
    }
    #[cfg(all(feature = "fleet", target_os = "linux"))]
    if let Some(code) = orlop::host::worker::roles::play() {
        return code;
    }
    orlop::cli::main()
}
