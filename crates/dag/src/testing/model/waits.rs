//! What accepted attempts wait for, and when their timers are due.

use orlop_core::attempt::Address;
use orlop_core::spec::status::WaitsOn;
use orlop_core::time::Time;

use super::events::seconds;
use super::{Model, ModelStep};

impl ModelStep {
    /// Whether a queue holds its attempt back.
    pub(super) fn is_queued(&self) -> bool {
        matches!(self.waits, Some((WaitsOn::Suspended, ..)))
    }
}

impl Model<'_> {
    pub(super) fn timeout(&self, at: Address) -> Option<std::time::Duration> {
        let step = self.case.steps.get(at.step.0 as usize)?;
        step.timeout.or(step.finally.then_some(3600)).map(seconds)
    }

    /// Since when the timeout of a unit stands still.
    fn stands(&self, at: Address) -> Option<Time> {
        let pending = self.case.steps.get(at.step.0 as usize).is_some_and(|step| step.pending.is_some());
        let unit = self.unit(at)?;
        let waits = unit.waits.as_ref().filter(|(on, ..)| match on {
            WaitsOn::Suspended => true,
            WaitsOn::FirstPod => pending,
            WaitsOn::Runtime | WaitsOn::NextPod => false,
        });
        unit.frozen.into_iter().chain(waits.map(|(_, since, _)| *since)).min()
    }

    /// While the clock stands, the time is added up.
    pub(super) fn set_clock(&mut self, at: Address, change: impl FnOnce(&mut ModelStep)) {
        let before = self.stands(at);
        if let Some(unit) = self.unit_mut(at) {
            change(unit);
        }
        let after = self.stands(at).unwrap_or(self.now);
        if let (Some(before), Some(unit)) = (before, self.unit_mut(at)) {
            unit.stood += (after.millis() - before.millis()).max(0);
        }
    }

    /// When the timer of an accepted attempt is due.
    pub(super) fn limit(&self, at: Address) -> Option<Time> {
        let pending = self.case.steps.get(at.step.0 as usize)?.pending;
        let unit = self.unit(at)?;
        match (&unit.waits, pending) {
            _ if unit.frozen.is_some() => None,
            (Some((WaitsOn::Suspended, ..)), _) => None,
            (Some((WaitsOn::FirstPod, since, _)), Some(pending)) => Some(since.plus(seconds(pending))),
            _ => Some(Time::from_millis(unit.started?.plus(self.timeout(at)?).millis() + unit.stood)),
        }
    }

    /// What keeps an accepted attempt from running has changed.
    pub(super) fn waits(&mut self, at: Address, on: Option<WaitsOn>, reason: &str, since: Time) {
        let started = self.unit(at).and_then(|unit| unit.started).unwrap_or(self.now);
        let since = since.max(started).min(self.now);
        let waits = on.map(|on| (on, since, reason.to_owned()));
        self.set_clock(at, |unit| unit.waits = waits);
        match self.halted(self.is_finally(at)) {
            Some(cause) if self.unit(at).is_some_and(ModelStep::is_queued) => self.begin_cancel(at, &cause),
            _ => {}
        }
    }
}
