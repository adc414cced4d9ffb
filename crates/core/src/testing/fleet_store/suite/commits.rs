//! Checks of commits as such: all or nothing, in order, refused with a reason.

use super::{
    attempt, changed, ended, id, job, lead, new_attempt, new_job, new_spec, restored, spec, unit, with_jobs, write,
};
use crate::error::Class;
use crate::id::JobId;
use crate::machine::attempt::AttemptState;
use crate::machine::job::JobState;
use crate::ports::fleet_store::{FleetStore, MAX_JOB_ID, TaskStatus, WriteBatch};
use crate::testing::suite::{CheckResult, fails, same};
use crate::testing::wait::{Pinned, all};

pub(super) async fn turns_of_one_commit_are_written_together<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = lead(store).await?;
    let turns = vec![
        WriteBatch::new(vec![new_spec(), new_job(job(1))]),
        WriteBatch::default(),
        WriteBatch::new(vec![new_job(job(2)), changed(1, 1, unit(JobState::Assigned))]),
    ];
    store.commit(epoch, turns).await?;
    let states: Vec<_> = restored(store).await?.into_iter().map(|job| job.row.unit.state).collect();
    same("the states", &states, &vec![JobState::Assigned, JobState::Queued])
}

pub(super) async fn a_refused_commit_leaves_no_trace<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[1]).await?;
    let turns = vec![
        WriteBatch::new(vec![changed(1, 1, unit(JobState::Completed)), new_job(job(2)), new_attempt(attempt(1, 0, 1))]),
        WriteBatch::new(vec![changed(9, 1, unit(JobState::Completed))]),
    ];
    fails("the commit", store.commit(epoch, turns).await, Class::Invalid)?;
    same("the job", &store.job(id(1)).await?, &Some(job(1)))?;
    same("the other job", &store.job(id(2)).await?, &None)?;
    same("the attempts", &restored(store).await?.iter().map(|job| job.attempts.len()).sum(), &0)?;
    write(store, epoch, vec![new_job(job(2))]).await?;
    same("the job after a good commit", &store.job(id(2)).await?, &Some(job(2)))
}

pub(super) async fn a_job_exists_once<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[1]).await?;
    fails("a second one", write(store, epoch, vec![new_job(job(1))]).await, Class::Invalid)?;
    fails("two in one commit", write(store, epoch, vec![new_job(job(2)), new_job(job(2))]).await, Class::Invalid)
}

pub(super) async fn a_job_needs_its_spec<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = lead(store).await?;
    fails("a job without a spec", write(store, epoch, vec![new_job(job(1))]).await, Class::Invalid)?;
    fails("a spec after it", write(store, epoch, vec![new_job(job(1)), new_spec()]).await, Class::Invalid)?;
    same("the spec", &store.spec(&spec().hash).await?, &None)
}

pub(super) async fn a_change_needs_its_job<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[1]).await?;
    let nobody = attempt(2, 0, 1);
    fails("a change", write(store, epoch, vec![changed(2, 1, unit(JobState::Running))]).await, Class::Invalid)?;
    fails("an end", write(store, epoch, vec![changed(2, 1, unit(JobState::Failed))]).await, Class::Invalid)?;
    fails("an attempt", write(store, epoch, vec![new_attempt(nobody)]).await, Class::Invalid)
}

pub(super) async fn a_change_of_an_attempt_needs_it<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[1]).await?;
    let end = || ended(attempt(1, 0, 1), AttemptState::Succeeded, true);
    fails("an end", write(store, epoch, vec![end()]).await, Class::Invalid)?;
    write(store, epoch, vec![new_attempt(attempt(1, 0, 1))]).await?;
    fails("a second attempt", write(store, epoch, vec![new_attempt(attempt(1, 0, 1))]).await, Class::Invalid)?;
    Ok(write(store, epoch, vec![end()]).await?)
}

pub(super) async fn a_final_state_says_since_when<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[1]).await?;
    let bare = TaskStatus::new(JobState::Completed);
    fails("an end without a time", write(store, epoch, vec![changed(1, 1, bare)]).await, Class::Invalid)?;
    let early = TaskStatus { state: JobState::Running, ..unit(JobState::Failed) };
    fails("a time without an end", write(store, epoch, vec![changed(1, 1, early)]).await, Class::Invalid)
}

pub(super) async fn a_job_number_past_the_middle_is_refused<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[MAX_JOB_ID]).await?;
    same("the last job", &store.job(id(MAX_JOB_ID)).await?, &Some(job(MAX_JOB_ID)))?;
    fails("one more", write(store, epoch, vec![new_job(job(MAX_JOB_ID + 1))]).await, Class::Invalid)?;
    same("it", &store.job(JobId::from_u64(u64::MAX)).await?, &None)
}

pub(super) async fn an_empty_commit_is_fine<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = lead(store).await?;
    store.commit(epoch, Vec::new()).await?;
    Ok(store.commit(epoch, vec![WriteBatch::default(), WriteBatch::default()]).await?)
}

pub(super) async fn commits_at_once_are_all_written<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[]).await?;
    let calls = (1..=40_u64).map(|number| {
        // The second half changes what the first half wrote: the order of calls is kept.
        let record = if number <= 20 { new_job(job(number)) } else { changed(number - 20, 1, unit(JobState::Running)) };
        Box::pin(write(store, epoch, vec![record])) as Pinned<'_, Result<(), crate::error::Problem>>
    });
    for result in all(calls.collect()).await {
        result?;
    }
    let states: Vec<_> = restored(store).await?.into_iter().map(|job| job.row.unit.state).collect();
    same("the states", &states, &vec![JobState::Running; 20])
}

pub(super) async fn many_records_of_one_job_in_one_commit<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = lead(store).await?;
    let mut records = vec![new_spec(), new_job(job(1))];
    for number in 1..=3 {
        let token = attempt(1, 0, number);
        records.push(changed(1, u64::from(number) * 2, TaskStatus { attempt: number, ..unit(JobState::Assigned) }));
        records.push(new_attempt(token));
        let last = number == 3;
        let state = if last { AttemptState::Succeeded } else { AttemptState::Rejected };
        records.push(ended(token, state, last));
    }
    records.push(changed(1, 9, TaskStatus { attempt: 3, answered: true, ..unit(JobState::Completed) }));
    write(store, epoch, records).await?;
    let mut wanted = job(1);
    wanted.revision = 9;
    wanted.unit =
        TaskStatus { attempt: 3, answered: true, queued_at: wanted.unit.queued_at, ..unit(JobState::Completed) };
    same("the job", &store.job(id(1)).await?, &Some(wanted))?;
    let page = store.attempts(id(1), &Default::default(), &crate::ports::fleet_store::Page::first(9)).await?;
    let states: Vec<_> = page.items.iter().map(|row| row.state).collect();
    same("its attempts", &states, &vec![AttemptState::Rejected, AttemptState::Rejected, AttemptState::Succeeded])
}
