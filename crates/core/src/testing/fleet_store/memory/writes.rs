//! How the double leads, commits, restores and forgets.

use std::collections::BTreeSet;
use std::ops::Bound;

use async_trait::async_trait;

use super::{Failure, JobEntry, MemoryFleet, State};
use crate::error::Problem;
use crate::id::{Epoch, JobId};
use crate::ports::fleet_store::{
    ElementRow, FleetStore, Holder, JobKind, Kind, NewSpec, Page, RestorePage, RestoredJob, Retained, Retention, Spans,
    WriteBatch,
};
use crate::task::TaskRef;
use crate::testing::wait::lock;

impl State {
    fn restored(&self, held: &JobEntry) -> RestoredJob {
        let id = held.row.job.id;
        let rows = held.elements.iter().map(|(&index, unit)| ElementRow { index, unit: unit.clone() });
        let elements = Spans::fold(&held.row.job.indices, &held.changes, rows);
        let array = held.row.job.kind == JobKind::Array;
        let lives = |index| !array || elements.live.binary_search_by_key(&index, |row| row.index).is_ok();
        let open = self.attempts_of(id).filter(|(id, row)| row.is_open() && lives(id.index));
        let attempts = open.map(|(_, row)| row.clone()).collect();
        RestoredJob { row: held.row.clone(), elements, attempts }
    }

    fn attempts_of(&self, job: JobId) -> impl Iterator<Item = (&TaskRef, &crate::ports::fleet_store::AttemptRow)> {
        let first = TaskRef { job, index: 0, member: 0, attempt: 0, epoch: Epoch(0) };
        self.attempts.range(first..).take_while(move |(id, _)| id.job == job)
    }

    fn forget_job(&mut self, id: JobId) {
        let Some(held) = self.jobs.remove(&id) else { return };
        if let Some((_, refs)) = self.specs.get_mut(&held.row.job.spec) {
            *refs = refs.saturating_sub(1);
        }
        let attempts: Vec<TaskRef> = self.attempts_of(id).map(|(id, _)| *id).collect();
        for attempt in attempts {
            self.attempts.remove(&attempt);
            self.details.remove(&attempt);
            self.finals.remove(&(id, attempt.index));
        }
    }

    fn forget(&mut self, policy: &Retention) -> Retained {
        let batch = policy.batch.max(1) as usize;
        let mut retained = Retained::default();
        let lives =
            |flow: &str| self.entries.get(&(Kind::Flow, flow.to_owned())).is_some_and(|entry| entry.ended_at.is_none());
        let ended = |held: &&JobEntry| {
            held.row.unit.finished_at.is_some_and(|at| at < policy.jobs_before)
                && !held.row.job.flow.as_deref().is_some_and(lives)
        };
        retained.jobs = self.jobs.values().filter(ended).map(|held| held.row.job.id).take(batch).collect();
        retained.jobs.clone().into_iter().for_each(|id| self.forget_job(id));
        retained.more = retained.jobs.len() == batch;
        let mut count = |gone: usize| {
            retained.others += gone as u64;
            retained.more |= gone == batch;
        };
        let ended = self.entries.iter().filter(|(_, entry)| entry.ended_at.is_some_and(|at| at < policy.jobs_before));
        let mut kinds = std::collections::BTreeMap::new();
        for (key, _) in ended {
            let of_kind: &mut Vec<_> = kinds.entry(key.0).or_default();
            if of_kind.len() < batch {
                of_kind.push(key.clone());
            }
        }
        for keys in kinds.into_values() {
            keys.iter().for_each(|key| drop(self.entries.remove(key)));
            count(keys.len());
        }
        let old = self.audit.iter().filter(|(_, entry)| entry.time < policy.audit_before);
        let old: Vec<u64> = old.map(|(&number, _)| number).take(batch).collect();
        old.iter().for_each(|number| drop(self.audit.remove(number)));
        count(old.len());
        let expired = self.keys.values().filter(|record| record.expires_at <= policy.now);
        let expired: Vec<_> = expired.map(|record| record.key.clone()).take(batch).collect();
        expired.iter().for_each(|key| drop(self.keys.remove(key)));
        count(expired.len());
        let unused: Vec<_> =
            self.specs.iter().filter(|(_, (_, refs))| *refs == 0).map(|(&hash, _)| hash).take(batch).collect();
        unused.iter().for_each(|hash| drop(self.specs.remove(hash)));
        count(unused.len());
        retained
    }
}

#[async_trait]
impl FleetStore for MemoryFleet {
    async fn acquire(&self, holder: &Holder) -> Result<Epoch, Problem> {
        let mut state = lock(&self.state);
        let newest = state.leader.as_ref().map_or(Epoch(0), |(_, epoch)| *epoch);
        state.leader = Some((holder.clone(), newest.next()));
        Ok(newest.next())
    }

    async fn renew(&self, epoch: Epoch) -> Result<(), Problem> {
        lock(&self.state).fence(epoch)
    }

    async fn release(&self, epoch: Epoch) -> Result<(), Problem> {
        let mut state = lock(&self.state);
        if let Some((holder, newest)) = state.leader.as_mut()
            && *newest == epoch
        {
            *holder = Holder { name: String::new(), url: String::new() };
        }
        Ok(())
    }

    async fn commit(&self, epoch: Epoch, turns: Vec<WriteBatch>) -> Result<(), Problem> {
        let mut state = lock(&self.state);
        let failure = if state.failures.is_empty() { None } else { Some(state.failures.remove(0)) };
        if let Some(Failure { class, written: false }) = failure {
            return Err(Problem::new(class, "the test had the store fail this commit"));
        }
        state.fence(epoch)?;
        state.check(&turns)?;
        turns.into_iter().flat_map(|turn| turn.records).for_each(|record| state.apply(record));
        state.commits += 1;
        match failure {
            None => Ok(()),
            Some(failure) => Err(Problem::new(failure.class, "the test had the store lose this answer")),
        }
    }

    async fn restore(&self, page: &Page<JobId>) -> Result<RestorePage, Problem> {
        let state = lock(&self.state);
        let after = page.after.map_or(Bound::Unbounded, Bound::Excluded);
        let rows = state.jobs.range((after, Bound::Unbounded)).map(|(_, held)| held);
        let live: Vec<&JobEntry> =
            rows.filter(|held| !held.row.unit.state.is_terminal()).take(page.size() + 1).collect();
        let next = (live.len() > page.size()).then(|| live.get(page.size() - 1).map(|held| held.row.job.id)).flatten();
        let jobs: Vec<RestoredJob> = live.iter().take(page.size()).map(|held| state.restored(held)).collect();
        let hashes: BTreeSet<_> = jobs.iter().map(|job| job.row.job.spec).collect();
        let spec = |hash| state.specs.get(&hash).map(|(body, _)| NewSpec { hash, body: body.clone() });
        Ok(RestorePage { specs: hashes.into_iter().filter_map(spec).collect(), jobs, next })
    }

    async fn confirm(&self, epoch: Epoch, ids: &[u64]) -> Result<(), Problem> {
        let mut state = lock(&self.state);
        state.fence(epoch)?;
        ids.iter().for_each(|id| drop(state.outbox.remove(id)));
        Ok(())
    }

    async fn retain(&self, epoch: Epoch, policy: &Retention) -> Result<Retained, Problem> {
        let mut state = lock(&self.state);
        state.fence(epoch)?;
        Ok(state.forget(policy))
    }
}
