//! What a pod does next, as a function of what is recorded of it and what its containers are seen to do. Owns the
//! sequence of init containers and main, restarts in place, deadline, cancellation and the verdict; never calls an engine
//! and reads no clock.

use orlop_core::time::Time;
use serde::{Deserialize, Serialize};

use super::record::{Control, Record, Why};
use crate::runtime::failure;
use crate::runtime::job::backoff::restart_delay;
use crate::runtime::pod::{ContainerExit, PodResult};

/// What a container is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) enum Phase {
    /// There is none.
    Missing,
    /// It never ran.
    Created,
    /// It runs.
    Running,
    /// Its clock stands still.
    Paused,
    /// It ran and ended.
    Ended,
    /// Somebody is deleting it.
    Removing,
}

/// What a container is seen to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::runtime) struct Observed {
    /// What it is doing.
    pub(in crate::runtime) phase: Phase,
    /// When its last execution started, exactly as the engine writes it: the name of that execution.
    pub(in crate::runtime) execution: Option<String>,
    /// The same as a time.
    pub(in crate::runtime) started_at: Option<Time>,
    /// When its last execution ended.
    pub(in crate::runtime) ended_at: Option<Time>,
    /// What its last execution ended with.
    pub(in crate::runtime) exit_code: i32,
    /// Whether it ran out of memory.
    pub(in crate::runtime) oom_killed: bool,
    /// Why it could not be started.
    pub(in crate::runtime) error: String,
}

impl Observed {
    /// No container.
    pub(in crate::runtime) fn missing() -> Self {
        Self {
            phase: Phase::Missing,
            execution: None,
            started_at: None,
            ended_at: None,
            exit_code: 0,
            oom_killed: false,
            error: String::new(),
        }
    }
}

/// What is recorded of the executions of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::runtime::docker) struct Progress {
    /// The last execution that was counted.
    pub(in crate::runtime::docker) execution: Option<String>,
    /// Number of executions that failed.
    pub(in crate::runtime::docker) failures: u32,
    /// How the last one ended.
    pub(in crate::runtime::docker) exit: Option<ContainerExit>,
    /// Whether it ended because its machine or its engine did.
    pub(in crate::runtime::docker) lost: bool,
}

impl Progress {
    fn succeeded(&self) -> bool {
        self.exit.as_ref().is_some_and(|exit| exit.exit_code == 0)
    }
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::runtime::docker) enum Next {
    /// Start this container.
    Start(usize),
    /// Count the end of this container's last execution.
    Absorb(usize),
    /// Wait for the end of this container.
    Watch(usize),
    /// Wait until this container is gone.
    Vanish(usize),
    /// Nothing before that time, or before something changes.
    Sleep(Option<Time>),
    /// The deadline is over: record that, then look again.
    Expire,
    /// The pod has ended; none when a container that is needed is not there.
    End(Option<PodResult>),
}

/// When a pod's time is over; none while it is frozen or without a limit.
pub(in crate::runtime::docker) fn deadline(record: &Record, control: &Control) -> Option<Time> {
    let limit = record.active_deadline?;
    if control.frozen_since.is_some() {
        return None;
    }
    Some(record.created_at.plus(limit).plus(control.frozen))
}

/// What to do next with a pod. `progress` and `seen` have one entry a container, init containers first.
pub(in crate::runtime::docker) fn next(
    record: &Record,
    control: &Control,
    progress: &[Progress],
    seen: &[Observed],
    now: Time,
) -> Next {
    let is = |phase: Phase| seen.iter().position(|container| container.phase == phase);
    let uncounted =
        |(seen, counted): &(&Observed, &Progress)| seen.phase == Phase::Ended && seen.execution != counted.execution;
    if let Some(ended) = seen.iter().zip(progress).position(|pair| uncounted(&pair)) {
        return Next::Absorb(ended);
    }
    let current = progress.iter().rposition(|container| container.exit.is_some());
    let verdict = match current {
        Some(index) => finished(record, control, progress, index),
        None => None,
    };
    if let Some(result) = verdict {
        return Next::End(Some(result));
    }
    if control.stop.is_none() && deadline(record, control).is_some_and(|due| due <= now) {
        return Next::Expire;
    }
    if let Some(index) = is(Phase::Running).or_else(|| is(Phase::Paused)) {
        return Next::Watch(index);
    }
    if let Some(index) = is(Phase::Removing) {
        return Next::Vanish(index);
    }
    if let Some(stop) = &control.stop {
        return Next::End(Some(stopped(stop.why)));
    }
    let (index, due) = following(progress, current);
    if seen.get(index).is_none_or(|container| container.phase == Phase::Missing) {
        return Next::End(None);
    }
    let wake = earliest(due, deadline(record, control));
    match due {
        _ if control.frozen_since.is_some() => Next::Sleep(None),
        Some(due) if due > now => Next::Sleep(wake),
        _ => Next::Start(index),
    }
}

fn earliest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    [a, b].into_iter().flatten().min()
}

/// The container that runs next and when: the one after the last success, or the one that failed again.
fn following(progress: &[Progress], current: Option<usize>) -> (usize, Option<Time>) {
    let Some(index) = current else { return (0, None) };
    match progress.get(index) {
        Some(container) if !container.succeeded() => {
            let due = container.exit.as_ref().map(|exit| exit.ended_at.plus(restart_delay(container.failures)));
            (index, due)
        }
        _ => (index + 1, None),
    }
}

/// The verdict when the end of container `index` is the end of the pod.
fn finished(record: &Record, control: &Control, progress: &[Progress], index: usize) -> Option<PodResult> {
    let exit = progress.get(index)?.exit.as_ref()?;
    if progress.iter().any(|container| container.lost) {
        return Some(PodResult::Lost);
    }
    let result = if exit.exit_code == 0 {
        (index + 1 == progress.len()).then_some(PodResult::Succeeded)?
    } else if may_restart(record, progress) {
        return None;
    } else {
        failure::container(exit, progress.get(index)?.execution.is_some())
    };
    // What ended before it was asked to ended by itself.
    match &control.stop {
        Some(stop) if exit.ended_at >= stop.at => Some(stopped(stop.why)),
        _ => Some(result),
    }
}

/// Every failure but the last one was followed by a restart.
fn may_restart(record: &Record, progress: &[Progress]) -> bool {
    let failures = progress.iter().fold(0_u32, |sum, container| sum.saturating_add(container.failures));
    record.restart_on_failure && failures <= record.restart_limit
}

fn stopped(why: Why) -> PodResult {
    match why {
        Why::Cancel => PodResult::Cancelled,
        Why::Deadline => PodResult::Failed {
            reason: "DeadlineExceeded".to_owned(),
            message: "the pod ran longer than its activeDeadlineSeconds".to_owned(),
        },
    }
}

/// The signal behind an exit code above 128, as shells and engines write it.
pub(in crate::runtime::docker) fn signal(exit_code: i32) -> Option<i32> {
    exit_code.checked_sub(128).filter(|signal| (1..=64).contains(signal))
}

#[cfg(test)]
mod tests;
