//! Statuses of flows that have no plan: of one that was refused, of one whose spec is another than that it began with, and of
//! such a one that was told to end. Owns their form; what is known of steps stays as it was recorded.

use orlop_core::machine::flow::FlowPhase;
use orlop_core::machine::step::StepPhase;
use orlop_core::spec::status::{Condition, ConditionStatus, FlowStatus, Progress, cut_message};
use orlop_core::time::Time;

use super::{phrase, reason};

/// The status of a flow whose spec was refused: it is Failed at once.
#[must_use]
pub fn refused(steps: usize, cause: &str, message: &str, now: Time) -> FlowStatus {
    let total = u32::try_from(steps).unwrap_or(u32::MAX);
    let condition = |kind: &str, status| Condition {
        kind: kind.to_owned(),
        status,
        last_transition_time: Some(now),
        reason: cause.to_owned(),
        message: cut_message(message),
    };
    FlowStatus {
        phase: FlowPhase::Failed,
        message: cut_message(message),
        conditions: vec![condition("Failed", ConditionStatus::True), condition("Ready", ConditionStatus::False)],
        start_time: Some(now),
        completion_time: Some(now),
        progress: Progress { total_steps: total, summary: format!("0/{total}"), ..Progress::default() },
        ..FlowStatus::default()
    }
}

/// Why a host holds a flow that has begun: it has no plan of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldReason<'a> {
    /// The stored spec was changed; the flow goes on once the old one is restored.
    SpecChanged,
    /// This version of the program cannot plan it, because of this violation; it goes on under one that can.
    NotUnderstood(&'a str),
    /// The records of its steps cannot be read, for this reason; it goes on when they can.
    Unreadable(&'a str),
}

/// The status of a flow that has begun and of which a host has no plan: the same status, marked as held. A state rebuilt from it
/// later goes on from there.
#[must_use]
pub fn held(mut status: FlowStatus, why: HoldReason<'_>, now: Time) -> FlowStatus {
    let kind = match why {
        HoldReason::SpecChanged => "SpecChanged",
        HoldReason::NotUnderstood(_) | HoldReason::Unreadable(_) => "NotUnderstood",
    };
    let since = since_true(&status, kind).unwrap_or(now);
    let message = cut_message(&match why {
        HoldReason::SpecChanged => phrase::held(since),
        HoldReason::NotUnderstood(violation) => phrase::not_understood(since, violation),
        HoldReason::Unreadable(fault) => phrase::unreadable(since, fault),
    });
    for (kind, holds, why) in [("Ready", ConditionStatus::False, "FlowSuspended"), (kind, ConditionStatus::True, kind)]
    {
        put(&mut status, kind, holds, why, &message, now);
    }
    // It is held for one reason.
    let other = if kind == "SpecChanged" { "NotUnderstood" } else { "SpecChanged" };
    if since_true(&status, other).is_some() {
        put(&mut status, other, ConditionStatus::False, kind, "", now);
    }
    status.phase = FlowPhase::Suspended;
    status.message = message;
    status
}

/// Since when a condition is true, if it is.
fn since_true(status: &FlowStatus, kind: &str) -> Option<Time> {
    let known = status.conditions.iter().find(|condition| condition.kind == kind)?;
    known.last_transition_time.filter(|_| known.status == ConditionStatus::True)
}

/// The status of a held flow that was told to end at once, for a host that does not know the spec it began
/// with and has ended its attempts; `replaced` where another flow takes its place. Records that are packed stay as they are: only
/// the spec would tell whose they are.
#[must_use]
pub fn terminated(mut status: FlowStatus, replaced: bool, now: Time) -> FlowStatus {
    let cause = if replaced { reason::REPLACED } else { reason::TERMINATED };
    let mut unmade = 0_u32;
    for step in &mut status.steps {
        let (phase, message) = match step.phase {
            StepPhase::Running => (StepPhase::Failed, phrase::CANCELLED),
            StepPhase::Failed if step.next_retry_time.take().is_some() => {
                let (word, text) = phrase::split_word(&step.message);
                (step.reason, step.message) = (word.to_owned(), cut_message(&phrase::unmade(text)));
                unmade = unmade.saturating_add(1);
                continue;
            }
            StepPhase::Pending | StepPhase::PendingApproval => (StepPhase::Skipped, ""),
            _ => continue,
        };
        let ended = (phase == StepPhase::Failed).then_some(now);
        (step.phase, step.completion_time) = (phase, ended);
        (step.reason, step.message) = (cause.to_owned(), message.to_owned());
    }
    let Progress { total_steps: total, successful_steps: succeeded, failed_steps, running_steps, .. } = status.progress;
    let failed = failed_steps.saturating_add(running_steps).saturating_add(unmade);
    status.progress = Progress {
        completed_steps: total,
        total_steps: total,
        successful_steps: succeeded,
        failed_steps: failed,
        skipped_steps: total.saturating_sub(succeeded).saturating_sub(failed),
        running_steps: 0,
        summary: format!("{total}/{total}"),
    };
    let message = phrase::with_word(cause, "the flow was asked to stop while it was held");
    for (kind, holds) in [("Failed", ConditionStatus::True), ("Ready", ConditionStatus::False)] {
        put(&mut status, kind, holds, cause, &message, now);
    }
    (status.phase, status.message) = (FlowPhase::Failed, message);
    (status.completion_time, status.estimated_completion_time) = (Some(now), None);
    status
}

/// Puts a condition in the place of the one of its type; its time moves only when it flips.
fn put(status: &mut FlowStatus, kind: &str, holds: ConditionStatus, why: &str, message: &str, now: Time) {
    let known = status.conditions.iter_mut().find(|condition| condition.kind == kind);
    let at = known.as_ref().filter(|known| known.status == holds).and_then(|known| known.last_transition_time);
    let condition = Condition {
        kind: kind.to_owned(),
        status: holds,
        last_transition_time: at.or(Some(now)),
        reason: why.to_owned(),
        message: message.to_owned(),
    };
    match known {
        Some(known) => *known = condition,
        None => status.conditions.push(condition),
    }
}
