//! What comes back from work and from the substrate, as events.

use orlop_core::attempt::Address;
use orlop_core::error::{Class, Problem};
use orlop_core::event::FlowEvent;
use orlop_core::machine::step::StepState;
use orlop_core::ports::substrate::{AttemptDelay, AttemptReport, DelayCause};
use orlop_core::spec::meta::ObjectReference;
use orlop_dag::attempt;
use orlop_dag::engine::step_status;

use super::FlowHost;
use super::admission::AdmissionDecision;
use super::work::{Done, StepAttempt};

/// The concurrency limiter cannot be asked.
fn unasked(error: Problem) -> Problem {
    Problem { message: format!("the concurrency limiter cannot be asked: {}", error.chain()), ..error }
}

impl FlowHost {
    /// Takes in the end of a piece of work.
    pub(super) fn settle(&mut self, done: Done) -> Result<(), Problem> {
        match done {
            Done::Event(event) => self.pending.push(event),
            Done::ResourcesLater(error, tries) => self.wait_for_resources(error, tries),
            Done::ResourcesAgain(tries) => self.ensure_resources(tries),
            Done::Started(unit, outcome) => self.started(unit, outcome),
            Done::Bound(purpose, scope) => self.bound(purpose, scope),
            Done::Clock(unit, on) => {
                if let Some(wanted) = self.work.frozen(unit, on) {
                    self.set_clock(unit, wanted);
                }
            }
            Done::Adopted(unit) => {
                for effect in self.work.adopted(unit) {
                    self.change_attempt(effect);
                }
            }
            Done::Unwatchable(unit, why) => self.abandon(unit, why),
            Done::Abandoned(unit, message) => {
                let ((at, attempt), ended_at) = (unit, self.parts.clock.now());
                self.pending.push(FlowEvent::AttemptLost { at, attempt, message, ended_at });
            }
            Done::Overdue((at, attempt)) => {
                if self.state.attempt(at) == Some((StepState::Cancelling, attempt)) {
                    let left = self.what_is_left(at);
                    self.pending.push(FlowEvent::CancelBlocked { at, attempt, left });
                }
            }
            Done::Gate(gate, verdict) => match verdict.map_err(unasked)? {
                AdmissionDecision::Begin => self.pending.push(FlowEvent::Admit),
                AdmissionDecision::Wait { message } => {
                    self.pending.push(FlowEvent::Blocked { reason: "ConcurrencyBlocked".to_owned(), message });
                    self.ask(gate);
                }
            },
            Done::Forgotten => self.work.tidying = self.work.tidying.saturating_sub(1),
            Done::Tidied => {}
        }
        Ok(())
    }

    /// What a cancelled attempt has left, as people call it.
    fn what_is_left(&self, at: Address) -> String {
        match step_status(&self.plan, &self.state, at).job_ref {
            Some(ObjectReference { kind, name, .. }) => match kind.as_str() {
                "Process" => format!("process {name}"),
                "Container" => format!("container {name}"),
                "FleetJob" => format!("job {name} of the fleet"),
                _ => format!("{kind} {name}"),
            },
            None => "what the attempt has started".to_owned(),
        }
    }

    fn started(&mut self, unit: StepAttempt, outcome: Result<ObjectReference, Problem>) {
        let (at, attempt) = unit;
        let again = outcome.as_ref().is_err_and(|error| error.class.is_retryable());
        let delays = self.work.start_answered(unit, again);
        let event = match &outcome {
            Ok(reference) => FlowEvent::AttemptAccepted { at, attempt, reference: reference.clone() },
            Err(error) => attempt::start_failed(at, attempt, error, delays, self.parts.clock.now()),
        };
        if let (FlowEvent::AttemptDelayed { reason, message, .. }, Err(error)) = (&event, &outcome)
            && error.class == Class::Capacity
        {
            self.work.wait_for_room(unit, reason.clone(), message.clone());
        }
        self.pending.push(event);
        if outcome.is_ok() {
            self.offer_room();
        }
        for report in self.work.take_kept_back(unit) {
            self.report(report);
        }
    }

    /// Takes in what keeps an attempt from running, or that nothing does any more.
    pub(super) fn delayed(&mut self, delay: AttemptDelay) {
        let Some(at) = attempt::address(&self.plan, self.state.meta(), &delay.key) else { return };
        let (attempt, since) = (delay.key.attempt, delay.since);
        let (on, reason, message) = match delay.cause {
            Some(DelayCause { on, reason, message }) => (Some(on), reason, message),
            None => Default::default(),
        };
        self.pending.push(FlowEvent::AttemptWaiting { at, attempt, on, reason, message, since });
    }

    /// Takes in the end of an attempt.
    pub(super) fn report(&mut self, report: AttemptReport) {
        let Some(at) = attempt::address(&self.plan, self.state.meta(), &report.key) else {
            tracing::warn!(attempt = %report.key, "an attempt of another flow was reported");
            return;
        };
        let unit = (at, report.key.attempt);
        if self.work.is_abandoned(unit) {
            return;
        }
        let Some(report) = self.work.keep_back(unit, report) else { return };
        let cancelling = self.state.attempt(at) == Some((StepState::Cancelling, unit.1));
        self.pending.push(attempt::event(&self.plan, at, unit.1, report.end, cancelling));
        self.work.ended.push(unit);
        self.offer_room();
    }

    /// There may be room: the first attempt that waits for it asks again at once, and the next one when that was let in.
    /// So every end costs one question too many at most, however many wait.
    fn offer_room(&mut self) {
        let retry_at = self.parts.clock.now();
        while let Some(((at, attempt), (reason, message))) = self.work.next_roomless() {
            if self.state.attempt(at) == Some((StepState::Starting, attempt)) {
                self.pending.push(FlowEvent::AttemptDelayed { at, attempt, reason, message, retry_at });
                return;
            }
        }
    }
}
