//! Who may speak of which attempt in a random world: a worker of its own, also of those that an earlier incarnation of it
//! had, and of nobody else's. Owns that law, and what the model learns of an attempt
//! that another incarnation brings back.

use std::collections::BTreeSet;

use orlop_core::machine::job::JobState;
use orlop_core::task::TaskRef;

use super::amounts::needs;
use super::law::{Broken, Law};
use super::model::{Live, span};
use super::world::World;
use crate::effect::Effect;
use crate::event::{Event, Kept};
use crate::token::WorkerKey;

/// The worker whose message an event is, and the attempts that it is about.
pub(super) fn said(event: &Event) -> Option<(WorkerKey, Vec<TaskRef>)> {
    match event {
        Event::Connected { worker, kept } => Some((*worker, kept.iter().map(|kept| kept.attempt).collect())),
        Event::Accepted { attempt, worker }
        | Event::Started { attempt, worker }
        | Event::Revoked { attempt, worker }
        | Event::Rejected { attempt, worker, .. }
        | Event::Result { attempt, worker, .. } => Some((*worker, vec![*attempt])),
        _ => None,
    }
}

impl World<'_> {
    /// Newest attempts of what waits again.
    pub(super) fn given_up(&self) -> Vec<TaskRef> {
        let waits = |attempt: &&TaskRef| {
            self.model.units.get(&(attempt.job, attempt.index)).is_some_and(|unit| {
                unit.issued == attempt.attempt && matches!(unit.state, JobState::Queued | JobState::Backoff)
            })
        };
        self.model.owners.keys().filter(waits).copied().collect()
    }

    /// A worker that comes back says that it runs what an earlier incarnation of it had.
    pub(super) fn claim(&mut self, worker: WorkerKey, kept: &mut Vec<Kept>) {
        let Some(id) = self.model.machines.get(&worker).and_then(|machine| machine.id.clone()) else { return };
        let had = |attempt: &TaskRef| self.model.owners.get(attempt) == Some(&id);
        let here = |attempt: &TaskRef| self.model.sent.contains(&(*attempt, worker));
        let own: Vec<TaskRef> = self.given_up().into_iter().filter(|attempt| had(attempt) && !here(attempt)).collect();
        for attempt in own {
            if self.choices.once_in(2) {
                kept.push(Kept { attempt, started: !self.choices.once_in(4) });
            }
        }
    }

    /// Notes by what id a worker goes.
    pub(super) fn name(&mut self, effect: &Effect) {
        if let Effect::WorkerChanged { worker, from: None, .. } = effect
            && let Some(machine) = self.model.machines.get_mut(worker)
        {
            machine.id = self.scheduler.worker_view(*worker).map(|view| view.id);
        }
    }

    /// A message counts only if the attempt was its worker's. Live work that was given up and is adopted passes no limit.
    pub(super) fn follow_claim(&mut self, effect: &Effect) -> Result<(), Broken> {
        let Some((worker, attempts)) = self.said.clone() else { return Ok(()) };
        match effect {
            Effect::Verdict { attempt, verdict } if verdict.counts() => {
                let speaker = self.model.machines.get(&worker).and_then(|machine| machine.id.as_ref());
                let owner = self.model.owners.get(attempt);
                Law::Answers.demand(speaker.is_some() && owner == speaker, || {
                    format!("{worker}, which is {speaker:?}, is heard about {attempt}, which {owner:?} had")
                })
            }
            Effect::JobChanged {
                job, part, from: JobState::Queued | JobState::Backoff, to: JobState::Running, ..
            } => {
                let index = span(*part).0;
                let runs = |attempt: &TaskRef| {
                    let row = self.scheduler.attempt_row(*attempt, worker);
                    (attempt.job, attempt.index) == (*job, index) && row.is_some_and(|row| !row.lost)
                };
                let adopted: BTreeSet<TaskRef> = attempts.into_iter().filter(runs).collect();
                if self.model.spec(*job).is_some_and(|spec| spec.gang.is_some()) {
                    return self.adopt_gang(*job, &adopted);
                }
                adopted.first().map_or(Ok(()), |attempt| self.adopt(*attempt, worker))
            }
            _ => Ok(()),
        }
    }

    fn adopt(&mut self, attempt: TaskRef, worker: WorkerKey) -> Result<(), Broken> {
        let gpu = self.scheduler.attempt_row(attempt, worker).and_then(|row| row.gpu);
        let gpu = gpu.as_ref().and_then(super::amounts::dim_of);
        let Some(holds) = self.model.spec(attempt.job).map(|spec| needs(spec, gpu)) else { return Ok(()) };
        let fresh = !self.model.live.contains_key(&attempt);
        let live = self.model.live.entry(attempt).or_insert(Live { worker, holds, charged: true, waiting: false });
        (live.worker, live.charged) = (worker, true);
        let (holds, waiting) = (live.holds, live.waiting);
        if fresh {
            self.model.capacity(worker)?;
            let sent = self.model.sent.iter_mut().find(|(known, _)| *known == attempt);
            sent.into_iter().for_each(|(_, on)| *on = worker);
        }
        if waiting { Ok(()) } else { self.model.quota(attempt.job, &holds) }
    }
}
