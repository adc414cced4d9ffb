//! What events do to flows, steps and attempts.

use orlop_core::attempt::{Address, PodEnd};
use orlop_core::event::{AttemptResult, FlowEvent};
use orlop_core::spec::flow::{StopMode, SuspendMode};
use orlop_core::spec::status::{Decision, WaitsOn};
use orlop_core::time::Time;

use super::{ExpectedEffects, Model, St};

impl Model<'_> {
    /// Takes an event; answers what should be told.
    pub fn apply(&mut self, event: &FlowEvent, now: Time) -> ExpectedEffects {
        self.now = self.now.max(now);
        self.expected = ExpectedEffects::default();
        if self.over.is_some() {
            self.fenced += u64::from(event.attempt().is_some());
            self.written |= *event == FlowEvent::FinalStatusWritten;
        } else if let Some((at, attempt)) = event.attempt() {
            self.attempt_event(event, at, attempt);
        } else {
            self.flow_event(event);
        }
        self.close();
        std::mem::take(&mut self.expected)
    }

    fn flow_event(&mut self, event: &FlowEvent) {
        match event {
            FlowEvent::Admit if self.admitted.is_none() => self.admit(),
            FlowEvent::ResourcesReady { .. } => self.resources_asked = false,
            FlowEvent::ResourcesFailed { reason, .. } if self.resources_asked => {
                self.resources_asked = false;
                self.cause(reason);
                self.final_halt.get_or_insert("FlowFailed".to_owned());
                self.halt("FlowFailed", false);
                self.skip_rest(true, "FlowFailed");
            }
            FlowEvent::ItemsResolved { at, items } => self.items(*at, items.as_ref().ok().map(Vec::len)),
            FlowEvent::Approval { at, decision, .. } => self.approval(*at, *decision),
            FlowEvent::SetSuspend { on, mode } => self.set_suspend(*on, *mode),
            FlowEvent::Hold { on } => {
                self.held = *on;
                self.pause_changed();
            }
            FlowEvent::Stop { mode, replaced } => self.stop(*mode, *replaced),
            FlowEvent::Import { at, .. } if self.is_importable_instance(*at) => {
                self.imports.insert(*at);
            }
            FlowEvent::Import { at, .. } if self.is_importable(*at) => self.settle(*at, St::Succeeded, "Reused"),
            _ => {}
        }
    }

    fn admit(&mut self) {
        self.admitted = Some(self.now);
        self.deadline = self.case.deadline.map(|limit| self.now.plus(seconds(limit)));
        if self.paused_since.is_some() {
            self.paused_since = Some(self.now);
        }
        if self.case.resources {
            self.resources_asked = true;
            self.expected.resources = true;
        }
    }

    fn items(&mut self, at: Address, count: Option<usize>) {
        let step = at.step.0 as usize;
        let reads =
            self.case.steps.get(step).is_some_and(|step| matches!(step.items, Some(super::super::Items::Read(_))));
        let known = self.instances_of(at.step.0).is_some();
        if at.item.is_some() || !reads || known || self.st(at) != St::Queued {
            return;
        }
        match count {
            Some(count) => self.expand(at.step.0, u32::try_from(count).unwrap_or(u32::MAX)),
            None => self.fail_for_good(at, "ParameterUnresolved"),
        }
    }

    fn approval(&mut self, at: Address, decision: Decision) {
        let manual = at.item.is_none() && self.case.steps.get(at.step.0 as usize).is_some_and(|step| step.manual);
        if !manual || decision == Decision::TimedOut {
            return;
        }
        let Some(unit) = self.unit_mut(at).filter(|unit| unit.approval.is_none() && !unit.st.settled()) else { return };
        unit.approval = Some(decision);
        if matches!(unit.st, St::Awaiting | St::Queued) {
            self.decided(at);
        }
    }

    /// Steps of the main part may be imported before the flow is admitted.
    fn is_importable(&self, at: Address) -> bool {
        let waits = self.unit(at).is_some_and(|unit| unit.st == St::Waiting);
        self.admitted.is_none() && at.item.is_none() && waits && !self.is_finally(at)
    }

    /// Instances may be imported until their fan-out begins.
    fn is_importable_instance(&self, at: Address) -> bool {
        let items = self.case.steps.get(at.step.0 as usize).and_then(|step| step.items);
        let exists = match items {
            Some(super::super::Items::Listed(count)) => at.item.is_some_and(|item| item < count),
            Some(super::super::Items::Read(_)) => at.item.is_some(),
            None => false,
        };
        let step = Address::step(at.step.0);
        exists && !self.st(step).settled() && self.instances_of(at.step.0).is_none() && !self.is_finally(at)
    }

    /// A decision takes effect.
    pub(super) fn decided(&mut self, at: Address) {
        match self.unit(at).and_then(|unit| unit.approval) {
            Some(Decision::Approved) => self.settle(at, St::Succeeded, ""),
            Some(Decision::Rejected) => self.fail_for_good(at, "Rejected"),
            Some(Decision::TimedOut) => self.fail_for_good(at, "ApprovalTimedOut"),
            None => {}
        }
    }

    fn set_suspend(&mut self, on: bool, mode: SuspendMode) {
        let frozen_before = self.suspended && self.mode == SuspendMode::Suspend;
        (self.suspended, self.mode) = (on, mode);
        let frozen_now = on && mode == SuspendMode::Suspend;
        for at in self.units() {
            if frozen_now {
                self.freeze(at);
            } else if frozen_before {
                self.thaw(at);
            }
        }
        self.pause_changed();
    }

    fn freeze(&mut self, at: Address) {
        let now = self.now;
        let Some(unit) = self.unit(at).filter(|unit| unit.st == St::Active && unit.frozen.is_none()) else {
            return;
        };
        let attempt = unit.attempt();
        self.set_clock(at, |unit| unit.frozen = Some(now));
        self.expected.suspends.insert((at, attempt));
    }

    fn thaw(&mut self, at: Address) {
        let now = self.now;
        let Some(unit) = self.unit(at).filter(|unit| unit.frozen.is_some()) else { return };
        let attempt = unit.attempt();
        self.set_clock(at, |unit| {
            unit.frozen = None;
            if let Some((WaitsOn::FirstPod, since, _)) = &mut unit.waits {
                *since = now;
            }
        });
        self.expected.resumes.insert((at, attempt));
    }

    fn pause_changed(&mut self) {
        if self.paused_now() {
            self.paused_since.get_or_insert(self.now);
        } else {
            self.end_pause();
        }
    }

    pub(super) fn end_pause(&mut self) {
        if let (Some(since), true) = (self.paused_since.take(), self.admitted.is_some()) {
            let pause = self.now.since(since);
            self.paused += self.now.millis() - since.millis();
            self.deadline = self.deadline.map(|deadline| deadline.plus(pause));
        }
    }

    fn stop(&mut self, mode: StopMode, replaced: bool) {
        let hard = replaced || mode == StopMode::Terminate;
        let cause = match (replaced, mode) {
            (true, _) => "Replaced",
            (_, StopMode::Terminate) => "Terminated",
            (_, StopMode::Graceful) => "Stopped",
        };
        if self.final_halt.is_some() || (!hard && (self.halt.is_some() || self.finally)) {
            return;
        }
        self.cause(cause);
        if hard {
            self.final_halt = Some(cause.to_owned());
        }
        self.halt(cause, hard);
        if hard {
            self.skip_rest(true, cause);
        }
    }

    fn attempt_event(&mut self, event: &FlowEvent, at: Address, attempt: u32) {
        let Some(unit) = self.unit(at).filter(|unit| unit.st.live() && unit.attempt() == attempt) else {
            self.fenced += 1;
            return;
        };
        let halted = self.halted(self.is_finally(at));
        match (unit.st, event) {
            (St::Starting, FlowEvent::AttemptAccepted { .. }) => self.accepted(at),
            (St::Starting, FlowEvent::AttemptDelayed { reason, retry_at, .. }) => match halted {
                Some(cause) => self.skip_cut(at, &cause),
                None => self.delayed(at, reason, *retry_at),
            },
            (St::Starting, FlowEvent::AttemptRefused { reason, retryable, .. }) => match halted {
                Some(cause) => self.skip_cut(at, &cause),
                None => {
                    self.ended(at, self.now);
                    self.fail(at, reason, *retryable);
                }
            },
            (St::Cancelling, _) => self.cancelling(event, at),
            (St::Active, FlowEvent::AttemptWaiting { on, reason, since, .. }) => self.waits(at, *on, reason, *since),
            (_, FlowEvent::AttemptSucceeded { result, ended_at, .. }) => self.succeeded(at, result, *ended_at),
            (_, FlowEvent::AttemptFailed { reason, pods, result, ended_at, .. }) => {
                self.ran(at, *ended_at);
                self.failed(at, reason, pods, result);
            }
            (_, FlowEvent::AttemptGone { ended_at, .. }) => {
                self.ran(at, *ended_at);
                self.fail(at, "JobMissing", true);
            }
            (_, FlowEvent::AttemptLost { ended_at, .. }) => self.lose(at, *ended_at),
            _ => self.fenced += 1,
        }
    }

    fn accepted(&mut self, at: Address) {
        let (now, finally) = (self.now, self.is_finally(at));
        let Some(unit) = self.unit_mut(at) else { return };
        unit.reason.clear();
        unit.started = Some(now);
        unit.due = None;
        self.set(at, St::Active);
        self.group_started(at, now);
        let cancel = if finally { self.final_halt.clone() } else { self.cancel.clone() };
        match cancel {
            Some(cause) => self.begin_cancel(at, &cause),
            None if self.suspended && self.mode == SuspendMode::Suspend => self.freeze(at),
            None => {}
        }
    }

    fn group_started(&mut self, at: Address, started: Time) {
        if at.item.is_some()
            && let Some(step) = self.steps.get_mut(at.step.0 as usize)
        {
            step.started.get_or_insert(started);
        }
    }

    fn delayed(&mut self, at: Address, reason: &str, retry_at: Time) {
        let due = retry_at.max(self.now);
        if let Some(unit) = self.unit_mut(at) {
            unit.reason = reason.to_owned();
            unit.due = Some(due);
        }
    }

    fn ended(&mut self, at: Address, ended_at: Time) {
        let now = self.now;
        let Some(unit) = self.unit_mut(at) else { return };
        let ended = ended_at.min(now);
        let started = *unit.started.get_or_insert(ended);
        unit.ended = Some(ended.max(started));
        (unit.due, unit.frozen) = (None, None);
        (unit.waits, unit.blocked) = (None, false);
    }

    /// An attempt that existed has ended; the fan-out has begun with it, if nothing was heard of it before.
    fn ran(&mut self, at: Address, ended_at: Time) {
        self.ended(at, ended_at);
        if let Some(unit) = self.unit_mut(at) {
            unit.left = true;
        }
        if let Some(started) = self.unit(at).and_then(|unit| unit.started) {
            self.group_started(at, started);
        }
    }

    fn succeeded(&mut self, at: Address, result: &AttemptResult, ended_at: Time) {
        self.ran(at, ended_at);
        match self.outputs(at, result, true) {
            Ok(()) => self.settle(at, St::Succeeded, ""),
            Err(reason) => self.fail(at, &reason, reason != "OutputTooLarge"),
        }
    }

    /// Takes outputs; with `all`, what is promised must be there.
    fn outputs(&mut self, at: Address, result: &AttemptResult, all: bool) -> Result<(), String> {
        if let Some((reason, _)) = &result.trouble {
            return Err(reason.clone());
        }
        let promised = self.case.steps.get(at.step.0 as usize).is_some_and(|step| step.output);
        let value = result.outputs.get("o").filter(|_| promised).cloned();
        if promised && all && value.is_none() {
            return Err("OutputMissing".to_owned());
        }
        if let Some(unit) = self.unit_mut(at) {
            unit.output = value;
        }
        Ok(())
    }

    /// The case's rules ignore exit code 3, count 4 and do not retry 5.
    fn failed(&mut self, at: Address, reason: &str, pods: &[PodEnd], result: &AttemptResult) {
        let exits = |code: i32| {
            pods.iter().flat_map(|pod| &pod.containers).any(|end| end.name == "main" && end.exit_code == code)
        };
        let word = match () {
            () if exits(3) => "FailureIgnored",
            () if exits(4) => "FailureCounted",
            // What a failed attempt gave may be read where the step is not tried again.
            () => {
                let promised = self.case.steps.get(at.step.0 as usize).is_some_and(|step| step.output);
                if let Some(unit) = self.unit_mut(at) {
                    unit.output = result.outputs.get("o").filter(|_| promised).cloned();
                }
                return self.fail(at, reason, !exits(5));
            }
        };
        if let Err(reason) = self.outputs(at, result, false) {
            return self.fail(at, &reason, false);
        }
        if word == "FailureCounted" {
            self.retries += 1;
            if let Some(unit) = self.unit_mut(at) {
                unit.counted += 1;
            }
        }
        self.settle(at, St::Succeeded, word);
        if word == "FailureCounted" && self.retries > self.case.budget {
            self.over_budget(at);
        }
    }

    fn lose(&mut self, at: Address, ended_at: Time) {
        let finally = self.is_finally(at);
        let again = self.unit(at).is_some_and(|unit| unit.lost < self.case.lost_limit);
        self.ran(at, ended_at);
        match (again, self.halted(finally)) {
            (true, None) => self.run_again(at, false),
            (true, Some(cause)) => {
                self.cut.insert(cause);
                self.fail(at, "Lost", true);
            }
            (false, _) => self.fail(at, "Lost", true),
        }
    }

    /// Back to the queue under the next number.
    pub(super) fn run_again(&mut self, at: Address, retry: bool) {
        let Some(unit) = self.unit_mut(at) else { return };
        if retry {
            unit.retries += 1;
        } else {
            unit.lost += 1;
        }
        unit.reason.clear();
        (unit.started, unit.ended, unit.due, unit.frozen) = (None, None, None, None);
        unit.stood = 0;
        self.set(at, St::Queued);
        if retry {
            self.retries += 1;
        }
    }

    pub(super) fn begin_cancel(&mut self, at: Address, cause: &str) {
        let Some(unit) = self.unit_mut(at) else { return };
        unit.reason = cause.to_owned();
        (unit.due, unit.frozen) = (None, None);
        let attempt = unit.attempt();
        self.set(at, St::Cancelling);
        self.expected.cancels.insert((at, attempt, cause.to_owned()));
    }

    fn cancelling(&mut self, event: &FlowEvent, at: Address) {
        let cause = self.unit(at).map(|unit| unit.reason.clone()).unwrap_or_default();
        match event {
            FlowEvent::AttemptSucceeded { result, ended_at, .. } if cause != "Timeout" => {
                self.succeeded(at, result, *ended_at);
            }
            FlowEvent::CancelBlocked { .. } => {
                if let Some(unit) = self.unit_mut(at) {
                    unit.blocked = true;
                }
            }
            FlowEvent::GoneConfirmed { .. } if !self.unit(at).is_some_and(|unit| unit.blocked) => self.fenced += 1,
            FlowEvent::GoneConfirmed { ended_at, .. }
            | FlowEvent::AttemptSucceeded { ended_at, .. }
            | FlowEvent::AttemptFailed { ended_at, .. }
            | FlowEvent::AttemptGone { ended_at, .. }
            | FlowEvent::AttemptLost { ended_at, .. }
            | FlowEvent::CancelConfirmed { ended_at, .. } => {
                self.ended(at, *ended_at);
                if matches!(cause.as_str(), "Timeout" | "PendingTimeout") {
                    self.fail(at, &cause, true);
                } else {
                    self.cut.insert(cause.clone());
                    if let Some(unit) = self.unit_mut(at) {
                        unit.cancelled = true;
                    }
                    self.settle(at, St::Failed, &cause);
                }
            }
            _ => self.fenced += 1,
        }
    }
}

pub(super) fn seconds(n: u32) -> std::time::Duration {
    std::time::Duration::from_secs(u64::from(n))
}
