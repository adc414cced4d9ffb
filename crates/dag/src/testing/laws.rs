//! Laws that need no model: order, one live attempt, numbers without gaps, finality, quiescence, limits, sums.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use orlop_core::attempt::Address;
use orlop_core::effect::{FlowEffect, FlowNotice};
use orlop_core::event::FlowEvent;
use orlop_core::machine::step::StepPhase;
use orlop_core::spec::policy::SkipPolicy;
use orlop_core::spec::status::{FlowStatus, StepStatus};
use orlop_core::time::Time;

use super::case::{Case, name};
use crate::engine::{State, apply, next_deadline, view};
use crate::plan::Plan;

/// A law that was broken, and everything that led to it.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The law and how it was broken.
    pub law: String,
    /// The flow.
    pub case: String,
    /// Events with their times, and what the engine told.
    pub trace: Vec<String>,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.case)?;
        for line in &self.trace {
            writeln!(f, "{line}")?;
        }
        write!(f, "broken: {}", self.law)
    }
}

impl std::error::Error for Broken {}

/// Both sides must be the same.
pub(super) fn same<T: PartialEq + fmt::Debug>(what: &str, engine: &T, right: &T) -> Result<(), String> {
    if engine == right { Ok(()) } else { Err(format!("{what}:\n  engine {engine:?}\n  right  {right:?}")) }
}

fn law(holds: bool, text: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(text()) }
}

/// Reasons of notices that nobody has to act on.
const NORMAL: &[&str] = &[
    "JobFlowCreated",
    "JobFlowStarted",
    "JobFlowCompleted",
    "StepCreated",
    "StepSucceeded",
    "StepRetry",
    "StepSkipped",
    "StepPendingApproval",
    "StepApproved",
    "FlowPaused",
    "FlowResumed",
    "FlowSuspended",
    "FlowStopped",
    "ResourceCreated",
    "ConcurrencyBlocked",
    "ConcurrencyReplaced",
    "GoneConfirmed",
];
/// Reasons of warnings.
const WARNINGS: &[&str] = &[
    "JobFlowFailed",
    "StepFailed",
    "StepTimeout",
    "StepWaiting",
    "StepRejected",
    "CancelBlocked",
    "QuotaExceeded",
    "NameConflict",
    "ResourceConflict",
    "SpecChanged",
    "NotUnderstood",
    "ArtifactTooLarge",
    "ValidationFailed",
    "StatusTooLarge",
    "ActiveDeadlineExceeded",
];

/// A notice has one of the documented reasons, and is a warning where people may have to act.
fn kind_of(notice: &FlowNotice) -> Result<(), String> {
    let known = if notice.warning { WARNINGS } else { NORMAL };
    law(known.contains(&&*notice.reason), || format!("the notice {} is a warning: {}", notice.reason, notice.warning))
}

/// What the laws remember.
pub(super) struct Laws<'a> {
    case: &'a Case,
    plan: &'a Plan,
    /// The highest attempt asked for.
    started: BTreeMap<Address, u32>,
    /// Attempts whose end was told.
    ended: BTreeSet<(Address, u32)>,
    /// Records of settled units.
    settled: BTreeMap<String, StepStatus>,
    last: Option<(FlowStatus, u64)>,
    deleted: bool,
    fenced: u64,
    /// Situations that have come about.
    pub(super) seen: BTreeSet<String>,
}

impl<'a> Laws<'a> {
    pub(super) fn new(case: &'a Case, plan: &'a Plan) -> Self {
        let (started, ended, settled) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Self { case, plan, started, ended, settled, last: None, deleted: false, fenced: 0, seen: BTreeSet::new() }
    }

    /// Checks what an event has done.
    pub(super) fn after(
        &mut self,
        event: Option<&FlowEvent>,
        state: &State,
        effects: &[FlowEffect],
        now: Time,
    ) -> Result<(), String> {
        let mut status = view(self.plan, state, 0..usize::MAX).status;
        // An estimate moves with the clock and is never the reason of a write.
        status.estimated_completion_time = None;
        self.look(&status, effects);
        self.finality(&status, effects)?;
        self.writes(&status, state, effects)?;
        // What came too early or too late has done nothing, and what follows from the same call may make it fit.
        let event = event.filter(|_| state.fenced() == self.fenced);
        self.fenced = state.fenced();
        self.ended.extend(event.and_then(ending));
        let asked = |effect: &FlowEffect| matches!(effect, FlowEffect::ResolveItems { .. });
        let reported = event.filter(|_| !effects.iter().any(asked)).filter(|event| !self.too_early(event));
        for effect in effects {
            match effect {
                FlowEffect::StartAttempt { at, attempt, .. } => self.start(&status, *at, *attempt)?,
                FlowEffect::RecordEvent(notice) => kind_of(notice)?,
                _ => {}
            }
        }
        self.limits(&status, state)?;
        self.quiet(reported, state, now)?;
        self.last = Some((status, state.revision()));
        Ok(())
    }

    /// Notes what has come about.
    fn look(&mut self, status: &FlowStatus, effects: &[FlowEffect]) {
        let failed = status.conditions.iter().find(|condition| condition.kind == "Failed");
        self.seen.insert(format!("{} {}", status.phase, failed.map_or("", |failed| failed.reason.as_str())));
        for step in &status.steps {
            let kind = if step.instances.is_some() { "fan-out" } else { "step" };
            self.seen.insert(format!("{kind} {}/{}", step.phase, step.reason));
        }
        for effect in effects {
            match effect {
                FlowEffect::RecordEvent(notice) => self.seen.insert(format!("told {}", notice.reason)),
                FlowEffect::CancelAttempt { cause, .. } => self.seen.insert(format!("cancel {cause}")),
                FlowEffect::SuspendAttempt { .. } => self.seen.insert("suspend".to_owned()),
                FlowEffect::ResumeAttempt { .. } => self.seen.insert("resume".to_owned()),
                FlowEffect::StartAttempt { attempt, .. } => self.seen.insert(format!("start {attempt}")),
                _ => false,
            };
        }
    }

    /// Settled records never change; after the end there is no effect but one deletion.
    fn finality(&mut self, status: &FlowStatus, effects: &[FlowEffect]) -> Result<(), String> {
        for step in &status.steps {
            let known = self.settled.get(&step.name);
            if let Some(known) = known {
                same("a settled step never changes", step, known)?;
            } else if matches!(step.phase, StepPhase::Succeeded | StepPhase::Failed | StepPhase::Skipped)
                && step.reason != "RetryScheduled"
            {
                self.settled.insert(step.name.clone(), step.clone());
            }
        }
        if let Some((last, _)) = self.last.as_ref().filter(|(last, _)| last.phase.is_terminal()) {
            same("a flow that is over never changes", status, last)?;
            let deletes = effects == [FlowEffect::DeleteFlow];
            law(effects.is_empty() || (deletes && !self.deleted), || format!("effects after the end: {effects:?}"))?;
        }
        self.deleted |= effects.contains(&FlowEffect::DeleteFlow);
        law(!self.deleted || status.phase.is_terminal(), || "only a flow that is over is deleted".to_owned())
    }

    /// The status is written exactly when it may have changed.
    fn writes(&self, status: &FlowStatus, state: &State, effects: &[FlowEffect]) -> Result<(), String> {
        let revisions: Vec<u64> = effects.iter().filter_map(revision).collect();
        let (before, last) = self.last.as_ref().map_or((None, 0), |(status, revision)| (Some(status), *revision));
        let right = if state.revision() == last { vec![] } else { vec![last + 1] };
        same("a revision for every write", &revisions, &right)?;
        if state.revision() == last
            && let Some(before) = before
        {
            same("what is shown without a write", status, before)?;
            law(effects.iter().all(|effect| matches!(effect, FlowEffect::DeleteFlow)), || {
                format!("effects without a change: {effects:?}")
            })?;
        }
        Ok(())
    }

    /// An attempt is asked for only when it may: dependencies satisfied, the attempt before it gone.
    fn start(&mut self, status: &FlowStatus, at: Address, attempt: u32) -> Result<(), String> {
        let last = self.started.get(&at).copied().unwrap_or(0);
        let again = attempt == last && !self.ended.contains(&(at, attempt));
        let next = attempt == last + 1 && (last == 0 || self.ended.contains(&(at, last)));
        law(again || next, || format!("attempt {attempt} of {at:?} starts after attempt {last}"))?;
        self.started.insert(at, attempt);
        let Some(case) = self.case.steps.get(at.step.0 as usize) else { return Ok(()) };
        for need in &case.needs {
            let step = status.steps.iter().find(|step| step.name == name(*need));
            let satisfied = step.is_some_and(|step| match step.phase {
                StepPhase::Succeeded => true,
                StepPhase::Failed => {
                    step.reason != "RetryScheduled" && self.case.steps.get(*need).is_some_and(|need| need.continues)
                }
                StepPhase::Skipped => step.reason == "ConditionFalse" && self.case.skip == SkipPolicy::Lenient,
                _ => false,
            });
            law(satisfied, || format!("{at:?} starts before s{need} is satisfied"))?;
        }
        Ok(())
    }

    fn limits(&self, status: &FlowStatus, state: &State) -> Result<(), String> {
        let live: Vec<Address> = state.live().map(|(at, _)| at).collect();
        let within = |count: usize, limit: Option<u32>| limit.is_none_or(|limit| count <= limit as usize);
        law(within(live.len(), self.case.parallelism), || format!("{} live attempts", live.len()))?;
        for (number, step) in (0_u32..).zip(&self.case.steps) {
            let own = live.iter().filter(|at| at.step.0 == number).count();
            law(within(own, step.parallelism), || format!("{own} live instances of s{number}"))?;
        }
        let sum = |what: fn(&StepStatus) -> u32| -> u32 { status.steps.iter().map(what).sum() };
        let (retries, counted) = (sum(|step| step.retry_count), sum(|step| step.counted_failures));
        same("retries of the flow are those of its steps", &status.retries, &(retries + counted))?;
        law(retries <= self.case.budget, || format!("{retries} retries, {} allowed", self.case.budget))?;
        let progress = &status.progress;
        let completed = progress.successful_steps + progress.failed_steps + progress.skipped_steps;
        same("progress adds up", &progress.completed_steps, &completed)?;
        law(progress.completed_steps + progress.running_steps <= progress.total_steps, || format!("{progress:?}"))?;
        law(!status.phase.is_terminal() || progress.completed_steps == progress.total_steps, || format!("{progress:?}"))
    }

    /// The final status is said to be written while the flow was not over: what was due in the same call ended it.
    fn too_early(&self, event: &FlowEvent) -> bool {
        let over = self.last.as_ref().is_some_and(|(last, _)| last.phase.is_terminal());
        matches!(event, FlowEvent::FinalStatusWritten) && !over
    }

    /// What has been told already, and time in which nothing is due, change nothing.
    fn quiet(&self, event: Option<&FlowEvent>, state: &State, now: Time) -> Result<(), String> {
        let due = next_deadline(state);
        law(due.is_none_or(|due| due > now), || format!("{due:?} is due at {now} and has not fired"))?;
        let mut times = vec![(FlowEvent::Tick, now)];
        times.extend(due.map(|due| (FlowEvent::Tick, Time::from_millis(due.millis() - 1))));
        match event {
            // A start that is asked for again may be delayed again.
            Some(FlowEvent::AttemptDelayed { retry_at, .. }) if *retry_at <= now => {}
            Some(event) => times.push((event.clone(), now)),
            None => {}
        }
        for (event, now) in times {
            let (mut twin, mut effects) = (state.clone(), Vec::new());
            apply(self.plan, &mut twin, &event, now, &mut effects);
            law(effects.is_empty() && twin.revision() == state.revision(), || {
                format!("quiescence: {event:?} at {now} causes {effects:?}")
            })?;
        }
        Ok(())
    }
}

fn revision(effect: &FlowEffect) -> Option<u64> {
    match effect {
        FlowEffect::StatusChanged { revision, .. } => Some(*revision),
        _ => None,
    }
}

/// The attempt whose end an event tells.
fn ending(event: &FlowEvent) -> Option<(Address, u32)> {
    match event {
        FlowEvent::AttemptAccepted { .. }
        | FlowEvent::AttemptDelayed { .. }
        | FlowEvent::AttemptWaiting { .. }
        | FlowEvent::CancelBlocked { .. } => None,
        event => event.attempt(),
    }
}
