//! Records that tests write.

use orlop_core::id::{Epoch, JobId};
use orlop_core::machine::attempt::AttemptState;
use orlop_core::machine::job::JobState;
use orlop_core::ports::fleet_store::{AttemptChange, AttemptEnd, Holder, JobRow, NewAttempt, NewJob, NewSpec, Record};
use orlop_core::task::{StartMode, TaskRef};
use orlop_core::time::Time;

pub(super) fn holder() -> Holder {
    Holder { name: "test".to_owned(), url: "http://localhost:7070".to_owned() }
}

pub(super) fn spec() -> NewSpec {
    NewSpec::new("{\"command\":[\"true\"]}")
}

pub(super) fn new_job(number: u64) -> Record {
    let job = NewJob::new(JobId::from_u64(number), "t".parse().unwrap(), spec().hash, Time::from_millis(1_000));
    Record::JobNew(Box::new(JobRow::submitted(job, JobState::Queued)))
}

pub(super) fn attempt(job: u64, attempt: u32) -> TaskRef {
    TaskRef { job: JobId::from_u64(job), index: 0, member: 0, attempt, epoch: Epoch(1) }
}

pub(super) fn new_attempt(id: TaskRef) -> Record {
    let (worker, assigned_at) = ("w1".parse().unwrap(), Time::from_millis(2_000));
    Record::AttemptNew(Box::new(NewAttempt {
        id,
        worker,
        incarnation: 1,
        mode: StartMode::Now,
        assigned_at,
        gpu: None,
    }))
}

pub(super) fn ended(id: TaskRef, accepted_final: bool) -> Record {
    let end = Some(AttemptEnd { accepted_final, exit_code: Some(0), ..AttemptEnd::default() });
    let finished_at = Some(Time::from_millis(3_000));
    let state = AttemptState::Succeeded;
    Record::Attempt(Box::new(AttemptChange { finished_at, end, ..AttemptChange::new(id, state) }))
}
