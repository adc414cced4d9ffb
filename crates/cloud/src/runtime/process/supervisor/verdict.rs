//! How a pod ended, in words. Owns the translation of exit codes and signals to reasons; never looks at a process.

use std::time::Duration;

use crate::runtime::failure;
use crate::runtime::pod::{ContainerExit, PodResult};
use crate::runtime::process::tree::Ended;

/// Bytes of last words kept.
pub(super) const WORDS_MAX: usize = 4096;
/// Exit code of a container whose process could not be made.
pub(super) const CANNOT_START: i32 = 128;

/// Why a pod is being ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Asked to.
    Stop,
    /// It ran too long.
    Deadline,
    /// Its supervisor was asked to end, by nobody who knows what it is.
    Supervisor,
}

/// Exit code and signal, as shells count.
pub(super) const fn code(ended: Ended) -> (i32, Option<i32>) {
    match ended {
        Ended::Exited(code) => (code, None),
        Ended::Signalled(signal) => (128 + signal, Some(signal)),
    }
}

/// What became of a pod that was ended.
pub(super) fn cut_off(cause: Cause, limit: Option<Duration>) -> PodResult {
    match cause {
        Cause::Stop => PodResult::Cancelled,
        Cause::Deadline => {
            let limit = limit.map_or_else(String::new, |limit| format!(" of {} s", limit.as_secs_f64()));
            let message = format!("the pod ran longer than its limit{limit}");
            PodResult::Failed { reason: "DeadlineExceeded".to_owned(), message }
        }
        Cause::Supervisor => PodResult::Lost,
    }
}

/// What became of a pod one of whose containers failed.
pub(super) fn failed(last: Option<&ContainerExit>, cannot_start: bool) -> PodResult {
    match last {
        Some(exit) => failure::container(exit, !cannot_start),
        None => failure::pod("no container was started".to_owned()),
    }
}

/// Last words as text, cut to what may be kept.
pub(super) fn words(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut end = WORDS_MAX.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use orlop_core::time::Time;

    use super::*;

    fn exit(ended: Ended, message: &str) -> ContainerExit {
        let (exit_code, signal) = code(ended);
        ContainerExit {
            name: "main".to_owned(),
            exit_code,
            signal,
            oom_killed: false,
            message: message.to_owned(),
            masked: false,
            restarts: 0,
            started_at: Time::EPOCH,
            ended_at: Time::EPOCH,
        }
    }

    #[test]
    fn reasons_are_those_off_kubernetes() {
        let show = |exit: &ContainerExit, cannot_start| match failed(Some(exit), cannot_start) {
            PodResult::Failed { reason, message } => format!("{reason}: {message}"),
            other => format!("{other:?}"),
        };
        let mut oom = exit(Ended::Signalled(9), "");
        oom.oom_killed = true;
        let shown = [
            show(&exit(Ended::Exited(3), ""), false),
            show(&exit(Ended::Exited(3), "no input"), false),
            show(&exit(Ended::Signalled(11), ""), false),
            show(&exit(Ended::Signalled(40), ""), false),
            show(&oom, false),
            show(&exit(Ended::Exited(128), "mounting `/x`: Permission denied"), true),
            format!("{:?}", cut_off(Cause::Deadline, Some(Duration::from_millis(1500)))),
        ];
        insta::assert_snapshot!(shown.join("\n"), @r#"
        NonZeroExit: container `main` ended with exit code 3
        NonZeroExit: container `main` ended with exit code 3: no input
        Signalled: container `main` was ended by SIGSEGV
        Signalled: container `main` was ended by signal 40
        OOMKilled: container `main` ran out of memory
        NonZeroExit: container `main` could not be started: mounting `/x`: Permission denied
        Failed { reason: "DeadlineExceeded", message: "the pod ran longer than its limit of 1.5 s" }
        "#);
        assert_eq!(exit(Ended::Signalled(9), "").exit_code, 137);
    }

    #[test]
    fn last_words_are_cut_between_characters() {
        assert_eq!(words(b"ok\xff"), "ok\u{fffd}");
        let long = "x".repeat(WORDS_MAX - 1) + "\u{e9}";
        assert_eq!(words(long.as_bytes()).len(), WORDS_MAX - 1);
    }
}
