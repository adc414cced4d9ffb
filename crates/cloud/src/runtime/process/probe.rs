//! What this machine allows. Owns trying it in a process of its own, so that a trial changes nothing for this one.

use std::io::{self, Write};
use std::process::ExitCode;

use nix::unistd::Uid;
use serde::{Deserialize, Serialize};

use super::cgroup::Limits;
use super::paths::Paths;

/// What a [`ProcessRuntime`](super::ProcessRuntime) can do on this machine, for warnings to users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// How absolute paths become real.
    pub paths: Paths,
    /// Why not better, where paths are rewritten.
    pub why: Option<String>,
    /// Which limits are enforced.
    pub limits: Limits,
}

/// What a trial found.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) paths: Paths,
    pub(crate) why: Option<String>,
}

/// Tries in this process and writes what it found to standard output.
pub(super) fn answer() -> ExitCode {
    let kind = if Uid::effective().is_root() { Paths::Namespace } else { Paths::UserNamespace };
    let found = match try_view(kind == Paths::UserNamespace) {
        Ok(()) => Found { paths: kind, why: None },
        // Root without the right to mount may still have it in a user namespace.
        Err(first) if kind == Paths::Namespace => match try_view(true) {
            Ok(()) => Found { paths: Paths::UserNamespace, why: None },
            Err(second) => Found { paths: Paths::Rewritten, why: Some(format!("{first}; {second}")) },
        },
        Err(error) => Found { paths: Paths::Rewritten, why: Some(error) },
    };
    let mut out = io::stdout();
    match serde_json::to_writer(&mut out, &found).map_err(io::Error::from).and_then(|()| out.write_all(b"\n")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn try_view(user_namespace: bool) -> Result<(), String> {
    super::shim::try_view(user_namespace).map_err(|failure| failure.to_string())
}

/// Parses what [`answer`] wrote.
pub(super) fn parse(bytes: &[u8]) -> io::Result<Found> {
    Ok(serde_json::from_slice(bytes)?)
}
