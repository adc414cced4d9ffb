//! How a container failed, in words: one mapping for everything that runs pods (reasons off Kubernetes).
//! Owns reasons and sentences; never looks at a process or an engine.

use nix::sys::signal::Signal;

use super::pod::{ContainerExit, PodResult};

/// Reason of whatever failed neither by a signal nor for want of memory: a container that could not be started, too.
const NON_ZERO_EXIT: &str = "NonZeroExit";

/// What became of a pod whose container failed; `ran` is false when it could not even be started, and then its last words
/// say why.
pub(crate) fn container(exit: &ContainerExit, ran: bool) -> PodResult {
    let (reason, what) = match exit.signal {
        _ if !ran => (NON_ZERO_EXIT, format!("could not be started: {}", exit.message)),
        _ if exit.oom_killed => ("OOMKilled", "ran out of memory".to_owned()),
        Some(signal) => ("Signalled", format!("was ended by {}", signal_name(signal))),
        None => (NON_ZERO_EXIT, format!("ended with exit code {}", exit.exit_code)),
    };
    let times = match exit.restarts {
        0 => String::new(),
        1 => " after 1 restart".to_owned(),
        n => format!(" after {n} restarts"),
    };
    let words = match exit.signal {
        None if ran && !exit.oom_killed && !exit.message.is_empty() => format!(": {}", exit.message),
        _ => String::new(),
    };
    PodResult::Failed { reason: reason.to_owned(), message: format!("container `{}` {what}{times}{words}", exit.name) }
}

/// What became of a pod that could not go on.
#[cfg(all(feature = "process", target_os = "linux"))]
pub(crate) fn pod(message: String) -> PodResult {
    PodResult::Failed { reason: NON_ZERO_EXIT.to_owned(), message }
}

fn signal_name(signal: i32) -> String {
    Signal::try_from(signal).map_or_else(|_| format!("signal {signal}"), |signal| signal.as_str().to_owned())
}
