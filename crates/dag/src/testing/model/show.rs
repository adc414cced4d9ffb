//! What a flow shows, from the model's plain records, to be compared with the engine's view.

use orlop_core::attempt::Address;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::machine::step::StepPhase;
use orlop_core::spec::status::{ConditionStatus, FlowStatus, Progress, StepStatus, WaitsOn};
use orlop_core::time::Time;

use super::{Model, St};
use crate::testing::case::{Items, name};

/// What a record shows of a step or instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    name: String,
    phase: StepPhase,
    reason: String,
    start: Option<Time>,
    completion: Option<Time>,
    next_retry: Option<Time>,
    retries: u32,
    attempt: u32,
    lost: u32,
    counted: u32,
    waits: Option<(WaitsOn, Option<Time>, String)>,
    waited: u64,
}

/// What a flow shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    phase: FlowPhase,
    cause: Option<String>,
    tolerated: Option<String>,
    start: Option<Time>,
    completion: Option<Time>,
    retries: u32,
    suspended_seconds: u64,
    progress: Progress,
    blocked: bool,
    rows: Vec<Row>,
}

impl From<&FlowStatus> for Shown {
    fn from(status: &FlowStatus) -> Self {
        let condition = |kind: &str| status.conditions.iter().find(|condition| condition.kind == kind);
        Self {
            phase: status.phase,
            cause: condition("Failed").map(|failed| failed.reason.clone()),
            tolerated: condition("FailuresTolerated").map(|tolerated| tolerated.message.clone()),
            start: status.start_time,
            completion: status.completion_time,
            retries: status.retries,
            suspended_seconds: status.suspended_seconds,
            progress: status.progress.clone(),
            blocked: condition("CancelBlocked").is_some_and(|blocked| blocked.status == ConditionStatus::True),
            rows: status.steps.iter().map(Row::from).collect(),
        }
    }
}

impl From<&StepStatus> for Row {
    fn from(step: &StepStatus) -> Self {
        Self {
            name: step.name.clone(),
            phase: step.phase,
            reason: step.reason.clone(),
            start: step.start_time,
            completion: step.completion_time,
            next_retry: step.next_retry_time,
            retries: step.retry_count,
            attempt: step.attempt,
            lost: step.lost_count,
            counted: step.counted_failures,
            waits: step.waiting.as_ref().map(|waiting| (waiting.on, waiting.since, waiting.reason.clone())),
            waited: step.waited_seconds,
        }
    }
}

impl Model<'_> {
    /// What the flow should show.
    #[must_use]
    pub fn show(&self) -> Shown {
        let tolerated: Vec<String> = self.tolerated_steps().map(|step| name(step as usize)).collect();
        Shown {
            phase: self.phase(),
            cause: self.over.and(self.fixed.clone()).flatten(),
            tolerated: (!tolerated.is_empty()).then(|| tolerated.join(", ")),
            start: self.admitted,
            completion: self.over,
            retries: self.retries,
            suspended_seconds: u64::try_from(self.paused / 1000).unwrap_or(0),
            progress: self.progress(),
            blocked: self.all().into_iter().filter_map(|at| self.unit(at)).any(|unit| unit.blocked),
            rows: self.all().into_iter().map(|at| self.row(at)).collect(),
        }
    }

    fn phase(&self) -> FlowPhase {
        let any = |what: fn(&super::ModelStep) -> bool| self.all().into_iter().filter_map(|at| self.unit(at)).any(what);
        match () {
            () if self.over.is_some() && self.good => FlowPhase::Succeeded,
            () if self.over.is_some() => FlowPhase::Failed,
            () if self.paused_now() => FlowPhase::Suspended,
            () if any(|unit| unit.st == St::Awaiting) => FlowPhase::Paused,
            () if self.admitted.is_some() && (self.finally || any(|unit| unit.left)) => FlowPhase::Running,
            () => FlowPhase::Pending,
        }
    }

    /// Settled units; a fan-out counts as its instances, as one until they are known.
    fn progress(&self) -> Progress {
        let mut progress = Progress::default();
        for at in self.units() {
            let Some(unit) = self.unit(at) else { continue };
            let listed = match self.case.steps.get(at.step.0 as usize).and_then(|step| step.items) {
                Some(Items::Listed(count)) if at.item.is_none() => count,
                _ => 1,
            };
            progress.total_steps += listed;
            match unit.st {
                St::Succeeded => progress.successful_steps += listed,
                St::Failed => progress.failed_steps += listed,
                St::Skipped => progress.skipped_steps += listed,
                St::Active | St::Cancelling => progress.running_steps += listed,
                _ => {}
            }
        }
        progress.completed_steps = progress.successful_steps + progress.failed_steps + progress.skipped_steps;
        progress.summary = format!("{}/{}", progress.completed_steps, progress.total_steps);
        progress
    }

    fn row(&self, at: Address) -> Row {
        let unit = self.unit(at).cloned().unwrap_or_default();
        let group = self.instances_of(at.step.0).filter(|_| at.item.is_none());
        let step = name(at.step.0 as usize);
        let (phase, reason) = match unit.st {
            St::Queued if group.is_some_and(|group| group.iter().any(|unit| unit.left)) => (StepPhase::Running, ""),
            St::Waiting => (StepPhase::Pending, ""),
            St::Queued => (StepPhase::Pending, "Queued"),
            St::Starting if unit.reason.is_empty() => (StepPhase::Pending, "Starting"),
            St::Starting => (StepPhase::Pending, unit.reason.as_str()),
            St::Active => (StepPhase::Running, ""),
            St::Cancelling => (StepPhase::Running, "Cancelling"),
            St::Backoff => (StepPhase::Failed, "RetryScheduled"),
            St::Awaiting => (StepPhase::PendingApproval, ""),
            St::Succeeded => (StepPhase::Succeeded, unit.reason.as_str()),
            St::Failed => (StepPhase::Failed, unit.reason.as_str()),
            St::Skipped => (StepPhase::Skipped, unit.reason.as_str()),
        };
        Row {
            name: at.item.map_or_else(|| step.clone(), |item| format!("{step}-i{item}")),
            phase,
            reason: reason.to_owned(),
            start: unit.started,
            completion: unit.ended,
            next_retry: unit.due.filter(|_| unit.st == St::Backoff),
            retries: unit.retries,
            attempt: if unit.asked { unit.attempt() } else { 0 },
            lost: unit.lost,
            counted: unit.counted,
            waits: unit.waits.map(|(on, since, reason)| (on, Some(since), reason)),
            waited: u64::try_from(unit.stood / 1000).unwrap_or(0),
        }
    }
}
