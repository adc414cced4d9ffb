//! The laws about workers that failed a task: that task waits for another worker as long as one could hold it, a command that
//! cannot start is tried once more elsewhere and then fails, and who is distrusted for failed starts has failed enough tasks.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::machine::job::JobState;
use orlop_core::machine::worker::WorkerState;
use orlop_core::task::TaskRef;

use super::amounts::{NOTHING, alternatives, needs, totals};
use super::law::{Broken, Law};
use super::model::{Model, UnitId, span};
use super::room::{Key, Open};
use super::world::World;
use crate::effect::{Effect, Reason, WorkerReason};
use crate::event::Outcome;
use crate::token::WorkerKey;

/// Failed starts count for this long, in milliseconds.
const START_WINDOW: u64 = 60_000;

/// A job, an element or a member.
type Task = (UnitId, u32);

/// What is known of failures and workers.
#[derive(Clone, Debug, Default)]
pub(super) struct Avoids {
    /// The worker that failed a task last.
    failed_on: BTreeMap<UnitId, WorkerKey>,
    /// Tasks whose command could not be started there and has not started since.
    second: BTreeSet<UnitId>,
    /// Failed starts that count against a worker.
    counted: BTreeMap<WorkerKey, Vec<(u64, Task)>>,
}

impl Avoids {
    /// Workers have other keys after a restart, which forgets what was counted.
    pub(super) fn rename(&mut self, keys: &BTreeMap<WorkerKey, WorkerKey>) {
        self.failed_on.retain(|_, worker| {
            keys.get(worker).is_some_and(|new| {
                *worker = *new;
                true
            })
        });
        self.counted.clear();
    }

    /// A failed start that counts against a worker.
    fn count(&mut self, worker: WorkerKey, task: Task, now: u64) {
        let list = self.counted.entry(worker).or_default();
        list.retain(|(_, known)| *known != task);
        list.push((now, task));
    }

    fn change(&mut self, id: UnitId, from: JobState, to: JobState, reason: Reason, on: Option<WorkerKey>, now: u64) {
        let infra = matches!(reason, Reason::Rejected | Reason::StartFailed)
            || reason == Reason::WorkerLost && from == JobState::Running;
        let own = matches!(reason, Reason::Exit(_) | Reason::TimedOut | Reason::Command(_));
        let runs = to == JobState::Running
            || to == JobState::Completed
            || matches!(reason, Reason::Exit(_) | Reason::TimedOut);
        if runs
            && self.second.remove(&id)
            && let Some(first) = self.failed_on.get(&id).copied().filter(|first| Some(*first) != on)
        {
            self.count(first, (id, 0), now);
        }
        match to {
            JobState::Queued if matches!(reason, Reason::Command(_)) => drop(self.second.insert(id)),
            JobState::Backoff if own => drop(self.second.remove(&id)),
            JobState::Queued | JobState::Backoff if infra && !self.second.contains(&id) => {}
            _ if to.is_terminal() => {
                self.second.remove(&id);
                self.failed_on.remove(&id);
                return;
            }
            _ => return,
        }
        match on {
            Some(on) => drop(self.failed_on.insert(id, on)),
            None => drop(self.failed_on.remove(&id)),
        }
    }
}

impl Model {
    /// The worker that a unit must not get: it failed there, and another schedulable worker could hold it by its total.
    pub(super) fn shuns(&self, id: UnitId) -> Option<WorkerKey> {
        let avoided = *self.avoids.failed_on.get(&id)?;
        self.could_hold_elsewhere(id, avoided).then_some(avoided)
    }

    fn could_hold_elsewhere(&self, id: UnitId, but: WorkerKey) -> bool {
        let Some(spec) = self.spec(id.0) else { return false };
        let takes = |(key, machine): &(&WorkerKey, &super::model::Machine)| {
            let state = matches!(machine.state, WorkerState::Available | WorkerState::Running);
            **key != but && state && !machine.cordoned && !machine.draining
        };
        let empty: Vec<Open<'_>> =
            self.machines.iter().filter(takes).map(|(key, machine)| (*key, machine, totals(&machine.offer))).collect();
        let any: Vec<_> = alternatives(spec).into_iter().map(|gpu| needs(spec, gpu)).collect();
        self.place_for(spec, &any, &empty).is_some()
    }

    /// Workers that a unit may get.
    pub(super) fn open_for<'a>(&self, id: UnitId, open: &[Open<'a>]) -> Vec<Open<'a>> {
        let shunned = self.shuns(id);
        open.iter().filter(|(key, ..)| Some(*key) != shunned).copied().collect()
    }

    /// Where a unit could be placed now, the worker that it must not get left out.
    pub(super) fn could_start(
        &self,
        id: UnitId,
        open: &[Open<'_>],
        held: &super::amounts::Amounts,
    ) -> Option<WorkerKey> {
        if self.avoids.failed_on.contains_key(&id) {
            return self.could(id.0, &self.open_for(id, open), held);
        }
        self.could(id.0, open, held)
    }

    /// Whether a unit lets others of its line go first: only the worker that it must not get has room for it.
    pub(super) fn lets_pass(&self, id: UnitId) -> bool {
        if self.shuns(id).is_none() {
            return false;
        }
        let Some(spec) = self.spec(id.0) else { return false };
        let (open, vectors) = (self.open(), self.allowed(id.0, &NOTHING));
        self.place_for(spec, &vectors, &self.open_for(id, &open)).is_none()
            && self.place_for(spec, &vectors, &open).is_some()
    }
}

impl Model {
    /// Whether a unit that let others of its line pass may start before the first of these: workers that are kept for it, or
    /// whose slots it inherits, have room although others have none.
    pub(super) fn may_go_first(&self, key: Key, first: Option<Key>) -> bool {
        first.is_none_or(|first| key < first) && self.lets_pass(key.1)
    }
}

impl World<'_> {
    /// A unit is about to be placed on workers: none of them is one that it must not get.
    pub(super) fn judge_avoidance(&self, id: UnitId, workers: &[WorkerKey]) -> Result<(), Broken> {
        let shunned = self.model.shuns(id);
        let got = workers.iter().find(|worker| Some(**worker) == shunned);
        Law::Avoidance.demand(got.is_none(), || format!("{id:?} is placed on {got:?} again, where it failed"))
    }

    /// Takes an effect in, before the model does.
    pub(super) fn follow_failures(&mut self, effect: &Effect) -> Result<(), Broken> {
        let now = self.scheduler.now();
        match effect {
            Effect::JobChanged { job, part, from, to, reason, .. } => {
                let (first, last) = span(*part);
                let units: Vec<UnitId> =
                    self.model.units.range((*job, first)..=(*job, last)).map(|(id, _)| *id).collect();
                for id in units {
                    let on = self.failed_on(id);
                    if matches!(reason, Reason::Command(_)) {
                        self.judge_second_try(id, *to, on)?;
                    }
                    self.model.avoids.change(id, *from, *to, *reason, on, now);
                }
                Ok(())
            }
            Effect::WorkerChanged { worker, reason: WorkerReason::StartFailures, .. } => {
                let most = self.scheduler.config().start_failures as usize;
                let counted = self.model.avoids.counted.remove(worker).unwrap_or_default();
                let lately = counted.iter().filter(|(at, _)| at.saturating_add(START_WINDOW) > now).count();
                Law::Avoidance.demand(lately >= most, || {
                    format!("{worker} is distrusted after {lately} failed starts of different tasks: {counted:?}")
                })
            }
            _ => Ok(()),
        }
    }

    /// A command that cannot start is tried once more if another worker could hold it, and only then.
    fn judge_second_try(&self, id: UnitId, to: JobState, on: Option<WorkerKey>) -> Result<(), Broken> {
        let first = !self.model.avoids.second.contains(&id);
        let other = on.is_some_and(|on| self.model.could_hold_elsewhere(id, on));
        let again = to == JobState::Queued;
        Law::Avoidance.demand(again == (first && other) || to == JobState::Cancelled, || {
            format!("a command of {id:?} cannot start: {to}, for the first time {first}, another worker {other}")
        })
    }

    /// The worker on which the newest attempt of a unit ended: who says so, or who had it. Which member of a gang failed first
    /// only the scheduler knows.
    fn failed_on(&self, id: UnitId) -> Option<WorkerKey> {
        if self.model.spec(id.0)?.gang.is_some() {
            let row = self.scheduler.task_row(id.0, None)?;
            let ending = row.gang.and_then(|gang| gang.ending).and_then(|ending| ending.worker);
            // Where another attempt is out already only the unit knows.
            let failed = ending.or(row.avoid)?;
            let is_it = |key: &WorkerKey| self.scheduler.worker_row(*key).is_some_and(|row| row.worker == failed);
            return self.scheduler.worker_keys().find(is_it);
        }
        let about = |attempt: &TaskRef| (attempt.job, attempt.index) == id;
        if let Some((worker, attempts)) = &self.said
            && attempts.iter().any(about)
        {
            return Some(*worker);
        }
        self.model.sent.iter().rev().find(|(attempt, _)| about(attempt)).map(|(_, worker)| *worker)
    }

    /// A result was taken: a failed start counts against its worker, and a success forgives all that was counted.
    pub(super) fn note_start_failure(&mut self, attempt: TaskRef, worker: WorkerKey, outcome: Outcome) {
        let now = self.scheduler.now().max(self.now);
        match outcome {
            Outcome::Succeeded => drop(self.model.avoids.counted.remove(&worker)),
            Outcome::StartFailed { permanent: false } => {
                self.model.avoids.count(worker, ((attempt.job, attempt.index), attempt.member), now);
            }
            _ => {}
        }
    }
}
