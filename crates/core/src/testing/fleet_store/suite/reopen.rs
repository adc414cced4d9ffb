//! Checks in two halves: what was written is read after the store was dropped and opened again.

use super::{array, attempt, changed, ended, id, job, lead, new_attempt, new_job, restored, unit, with_jobs, write};
use crate::id::Epoch;
use crate::machine::attempt::AttemptState;
use crate::machine::job::JobState;
use crate::ports::fleet_store::{ElementChange, FleetStore, OutboxEvent, Page, Record};
use crate::testing::suite::{CheckResult, holds, same};

pub(super) mod jobs_survive {
    use super::*;

    pub(in super::super) async fn write<S: FleetStore>(store: &S) -> CheckResult {
        let epoch = with_jobs(store, &[1, 2]).await?;
        super::write(store, epoch, vec![changed(2, 1, unit(JobState::Completed))]).await?;
        Ok(store.release(epoch).await?)
    }

    pub(in super::super) async fn read<S: FleetStore>(store: &S) -> CheckResult {
        same("the job", &store.job(id(1)).await?, &Some(job(1)))?;
        same("the state of the other", &store.job(id(2)).await?.map(|row| row.unit.state), &Some(JobState::Completed))?;
        same("what is restored", &restored(store).await?.len(), &1)
    }
}

pub(super) mod elements_and_attempts_survive {
    use super::*;

    pub(in super::super) async fn write<S: FleetStore>(store: &S) -> CheckResult {
        let epoch = with_jobs(store, &[]).await?;
        let element = ElementChange { job: id(1), index: 2, unit: unit(JobState::Running) };
        let records = vec![
            new_job(array(1, &[(0, 9)])),
            Record::Element(Box::new(element)),
            new_attempt(attempt(1, 2, 1)),
            new_attempt(attempt(1, 2, 2)),
            ended(attempt(1, 2, 1), AttemptState::Failed, false),
        ];
        super::write(store, epoch, records).await?;
        Ok(store.release(epoch).await?)
    }

    pub(in super::super) async fn read<S: FleetStore>(store: &S) -> CheckResult {
        let all = restored(store).await?;
        let found = all.first().map(|job| (job.elements.waiting.clone(), job.elements.live.len(), job.attempts.len()));
        same("the array", &found, &Some((vec![(0, 1), (3, 9)], 1, 1)))
    }
}

pub(super) mod epochs_go_on {
    use super::*;

    pub(in super::super) async fn write<S: FleetStore>(store: &S) -> CheckResult {
        let epoch = lead(store).await?;
        Ok(store.release(epoch).await?)
    }

    pub(in super::super) async fn read<S: FleetStore>(store: &S) -> CheckResult {
        same("the next epoch", &lead(store).await?, &Epoch(2))
    }
}

pub(super) mod numbers_go_on {
    use super::*;

    fn event() -> Record {
        Record::Event(Box::new(OutboxEvent { subject: "orlop.events.job.created".into(), body: "{}".into() }))
    }

    pub(in super::super) async fn write<S: FleetStore>(store: &S) -> CheckResult {
        let epoch = lead(store).await?;
        super::write(store, epoch, vec![event(), event()]).await?;
        let ids: Vec<u64> = store.outbox(&Page::first(9)).await?.items.iter().map(|row| row.id).collect();
        store.confirm(epoch, &ids).await?;
        Ok(store.release(epoch).await?)
    }

    pub(in super::super) async fn read<S: FleetStore>(store: &S) -> CheckResult {
        let epoch = lead(store).await?;
        super::write(store, epoch, vec![event()]).await?;
        let first = store.outbox(&Page::first(9)).await?.items.first().map_or(0, |row| row.id);
        holds("ids go on after a restart", first > 2)
    }
}
