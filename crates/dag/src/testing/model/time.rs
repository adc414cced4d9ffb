//! What time does: timers in the order in which they are due, retry delays, the next deadline.

use std::time::Duration;

use orlop_core::attempt::Address;
use orlop_core::backoff::{Backoff, Growth, fraction};
use orlop_core::spec::status::{Decision, WaitsOn};
use orlop_core::time::Time;

use super::events::seconds;
use super::{Model, St};
use crate::testing::case::name;

impl Model<'_> {
    pub(super) fn delay(&self, at: Address) -> Duration {
        let Some(unit) = self.unit(at) else { return Duration::ZERO };
        let Some(retry) = self.case.steps.get(at.step.0 as usize).and_then(|step| step.retry) else {
            return Duration::ZERO;
        };
        let step = name(at.step.0 as usize);
        let step = at.item.map_or_else(|| step.clone(), |item| format!("{step}-i{item}"));
        let growth = if retry.doubles { Growth::Exponential } else { Growth::Linear };
        let jitter = if retry.jitter { 0.5 } else { 0.0 };
        let formula = Backoff { growth, base: seconds(retry.base), factor: 2.0, ceiling: None, jitter };
        formula.delay(unit.retries, fraction(&[&self.uid, &step, &unit.attempt().to_string()]))
    }

    /// The timer that is due first; no address means the deadline of the flow.
    fn first_timer(&self) -> Option<(Time, Option<Address>)> {
        let paused = self.paused_now();
        let deadline = self.deadline.filter(|_| !paused && !self.finally);
        let mut timers: Vec<(Time, Option<Address>)> = deadline.map(|due| (due, None)).into_iter().collect();
        for at in self.units() {
            let Some(unit) = self.unit(at) else { continue };
            let due = if unit.st == St::Active { self.limit(at) } else { unit.due };
            let Some(due) = due else { continue };
            let runs = match unit.st {
                St::Active => true,
                St::Awaiting => true,
                St::Backoff | St::Starting => !paused,
                _ => false,
            };
            if runs {
                timers.push((due, Some(at)));
            }
        }
        timers.into_iter().min()
    }

    /// When time alone will change something.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        match self.over {
            Some(_) if self.deleted || (self.case.ttl == 0 && !self.written) => None,
            Some(over) => Some(over.plus(seconds(self.case.ttl))),
            None => self.first_timer().map(|(due, _)| due),
        }
    }

    /// Lets due timers act.
    pub(super) fn timers(&mut self) {
        if self.over.is_some() {
            if self.next_deadline().is_some_and(|due| due <= self.now) {
                self.deleted = true;
                self.expected.delete = true;
            }
            return;
        }
        while let Some((_, at)) = self.first_timer().filter(|(due, _)| *due <= self.now) {
            match at {
                None => {
                    self.deadline = None;
                    self.cause("ActiveDeadlineExceeded");
                    self.halt("ActiveDeadlineExceeded", true);
                }
                Some(at) => self.due(at),
            }
            self.settle_all();
        }
    }

    fn due(&mut self, at: Address) {
        match self.st(at) {
            St::Active => {
                let pending = self.case.steps.get(at.step.0 as usize).is_some_and(|step| step.pending.is_some());
                let waits = self.unit(at).is_some_and(|unit| matches!(unit.waits, Some((WaitsOn::FirstPod, ..))));
                self.begin_cancel(at, if pending && waits { "PendingTimeout" } else { "Timeout" });
            }
            St::Awaiting => {
                if let Some(unit) = self.unit_mut(at) {
                    unit.approval = Some(Decision::TimedOut);
                }
                self.decided(at);
            }
            St::Starting => {
                let Some(unit) = self.unit_mut(at) else { return };
                unit.due = None;
                let attempt = unit.attempt();
                self.expected.starts.push((at, attempt));
            }
            St::Backoff if self.retries >= self.case.budget => {
                let reason = self.unit(at).map(|unit| unit.reason.clone()).unwrap_or_default();
                self.fail_over_budget(at, &reason);
            }
            St::Backoff => self.run_again(at, true),
            _ => {}
        }
    }
}
