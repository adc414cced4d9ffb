//! Checks of attempts: what comes back, final results, details.

use super::{array, at, attempt, ended, id, issued, new_attempt, new_job, restored, with_jobs, worker, write};
use crate::error::{Class, Problem};
use crate::hardware::gpu::{GpuShape, ModelKey, Vendor};
use crate::id::Epoch;
use crate::machine::attempt::AttemptState;
use crate::ports::fleet_store::{
    AttemptChange, AttemptDetail, AttemptEnd, AttemptFilter, AttemptRow, FINAL_TWICE, FleetStore, NewAttempt, Page,
    Record,
};
use crate::task::{StartMode, TaskRef, Usage};
use crate::testing::suite::{Broken, CheckResult, fails, same};

async fn all<S: FleetStore>(store: &S, job: u64) -> Result<Vec<AttemptRow>, Broken> {
    Ok(store.attempts(id(job), &AttemptFilter::default(), &Page::first(100)).await?.items)
}

fn change(id: TaskRef, state: AttemptState) -> AttemptChange {
    AttemptChange::new(id, state)
}

/// A kind of GPU with so much memory.
fn gpu(gibi: u64) -> Option<Box<GpuShape>> {
    let (vendor, model) = (Vendor::Nvidia, ModelKey::new("a100").ok()?);
    Some(Box::new(GpuShape { vendor, model, memory_bytes: gibi << 30 }))
}

fn record(change: AttemptChange) -> Record {
    Record::Attempt(Box::new(change))
}

fn rich_end() -> AttemptEnd {
    AttemptEnd {
        accepted_final: true,
        exit_code: Some(-1),
        signal: Some(9),
        reason: Some("oom".into()),
        usage: Some(Usage { cpu_ms: 1, max_rss: 1 << 40, io_read: 3, io_write: 4 }),
        detail: None,
    }
}

pub(super) async fn an_attempt_comes_back_as_it_was_written<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[1]).await?;
    let token = attempt(1, 0, 1);
    let new =
        NewAttempt { worker: worker("w.9"), incarnation: 3, mode: StartMode::Inherit, gpu: gpu(40), ..issued(token) };
    write(store, epoch, vec![Record::AttemptNew(Box::new(new.clone()))]).await?;
    let mut wanted = AttemptRow::issued(new);
    same("the attempt", &all(store, 1).await?, &vec![wanted.clone()])?;
    let accepted = AttemptChange { accepted_at: Some(at(11)), ..change(token, AttemptState::Accepted) };
    write(store, epoch, vec![record(accepted.clone())]).await?;
    // It runs on the devices of the one before it, which are of another kind.
    let started = AttemptChange { started_at: Some(at(12)), gpu: gpu(80), ..change(token, AttemptState::Running) };
    write(store, epoch, vec![record(started.clone())]).await?;
    let end = AttemptChange { finished_at: Some(at(13)), end: Some(rich_end()), ..change(token, AttemptState::Failed) };
    write(store, epoch, vec![record(end.clone())]).await?;
    for change in [accepted, started, end] {
        wanted.change(change);
    }
    same("the ended attempt", &all(store, 1).await?, &vec![wanted])
}

pub(super) async fn an_attempt_that_began_and_ended_in_one_commit<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[1]).await?;
    let token = attempt(1, 0, 1);
    let started = AttemptChange { started_at: Some(at(12)), ..change(token, AttemptState::Running) };
    let records = vec![new_attempt(token), record(started.clone()), ended(token, AttemptState::Succeeded, true)];
    write(store, epoch, records).await?;
    let mut wanted = AttemptRow::issued(issued(token));
    wanted.change(started);
    wanted.state = AttemptState::Succeeded;
    wanted.finished_at = Some(at(30));
    wanted.end = Some(AttemptEnd { accepted_final: true, exit_code: Some(0), ..AttemptEnd::default() });
    same("the attempt", &all(store, 1).await?, &vec![wanted])
}

pub(super) async fn live_and_lost_attempts_are_restored<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[1, 2]).await?;
    let tokens: Vec<_> = (1..=4).map(|number| attempt(1, 0, number)).collect();
    write(store, epoch, tokens.iter().copied().map(new_attempt).collect()).await?;
    let states = [AttemptState::Lost, AttemptState::Failed, AttemptState::Suspect, AttemptState::Rejected];
    let changes = tokens.iter().zip(states).map(|(&token, state)| record(change(token, state)));
    write(store, epoch, changes.chain([new_attempt(attempt(2, 0, 1))]).collect()).await?;
    let found: Vec<Vec<_>> = restored(store)
        .await?
        .iter()
        .map(|job| job.attempts.iter().map(|row| (row.attempt.id.attempt, row.state)).collect())
        .collect();
    let first = vec![(1, AttemptState::Lost), (3, AttemptState::Suspect)];
    same("what is restored", &found, &vec![first, vec![(1, AttemptState::Assigned)]])
}

pub(super) async fn members_have_attempts_of_their_own<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[1]).await?;
    let member = |member| TaskRef { member, ..attempt(1, 0, 1) };
    write(store, epoch, (0..3).map(|number| new_attempt(member(number))).collect()).await?;
    write(store, epoch, vec![ended(member(1), AttemptState::Failed, true)]).await?;
    let states: Vec<_> = all(store, 1).await?.iter().map(|row| (row.attempt.id.member, row.state)).collect();
    use AttemptState::{Assigned, Failed};
    same("the members", &states, &vec![(0, Assigned), (1, Failed), (2, Assigned)])?;
    twice(write(store, epoch, vec![ended(member(2), AttemptState::Succeeded, true)]).await)
}

fn twice(result: Result<(), Problem>) -> CheckResult {
    same("the reason", &result.as_ref().err().and_then(|error| error.reason), &Some(FINAL_TWICE))?;
    fails("a second final result", result, Class::Fatal)
}

pub(super) async fn a_second_final_result_is_refused<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[1]).await?;
    write(store, epoch, vec![new_attempt(attempt(1, 0, 1)), new_attempt(attempt(1, 0, 2))]).await?;
    write(store, epoch, vec![ended(attempt(1, 0, 1), AttemptState::Succeeded, true)]).await?;
    twice(write(store, epoch, vec![ended(attempt(1, 0, 2), AttemptState::Succeeded, true)]).await)?;
    let other = TaskRef { epoch: Epoch(2), ..attempt(1, 0, 2) };
    twice(write(store, epoch, vec![new_attempt(other), ended(other, AttemptState::Failed, true)]).await)?;
    Ok(write(store, epoch, vec![ended(attempt(1, 0, 2), AttemptState::Succeeded, false)]).await?)
}

pub(super) async fn a_second_final_result_in_one_commit_is_refused<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[1]).await?;
    let (one, two) = (attempt(1, 0, 1), attempt(1, 0, 2));
    let ends = [one, two].map(|token| ended(token, AttemptState::Succeeded, true));
    twice(write(store, epoch, [one, two].map(new_attempt).into_iter().chain(ends).collect()).await)?;
    same("what is stored", &all(store, 1).await?, &Vec::new())
}

pub(super) async fn the_same_final_result_again_is_fine<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[1]).await?;
    let token = attempt(1, 0, 1);
    write(store, epoch, vec![new_attempt(token), ended(token, AttemptState::Succeeded, true)]).await?;
    Ok(write(store, epoch, vec![ended(token, AttemptState::Succeeded, true)]).await?)
}

pub(super) async fn elements_have_final_results_of_their_own<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[2]).await?;
    let tokens: Vec<_> = (0..3).map(|index| attempt(1, index, 1)).collect();
    let mut records = vec![new_job(array(1, &[(0, 9)]))];
    records.extend(tokens.iter().copied().map(new_attempt));
    records.extend(tokens.iter().map(|&token| ended(token, AttemptState::Succeeded, true)));
    write(store, epoch, records).await?;
    write(store, epoch, vec![new_attempt(attempt(1, 2, 2))]).await?;
    twice(write(store, epoch, vec![ended(attempt(1, 2, 2), AttemptState::Succeeded, true)]).await)
}

pub(super) async fn attempts_are_listed_in_order<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[1, 2]).await?;
    let member = |member, number| TaskRef { member, ..attempt(1, 0, number) };
    let tokens = [attempt(1, 1, 1), member(1, 2), member(0, 2), member(1, 1), member(0, 1), attempt(2, 0, 1)];
    write(store, epoch, tokens.iter().copied().map(new_attempt).collect()).await?;
    let all = AttemptFilter::default();
    let page = store.attempts(id(1), &all, &Page::first(3)).await?;
    let wanted = vec![member(0, 1), member(1, 1), member(0, 2)];
    same("the first page", &page.items.iter().map(|row| row.attempt.id).collect(), &wanted)?;
    same("the cursor", &page.next, &Some(member(0, 2)))?;
    let page = store.attempts(id(1), &all, &Page::after(member(0, 2), 3)).await?;
    let found: Vec<_> = page.items.iter().map(|row| row.attempt.id).collect();
    same("the second page", &(found, page.next), &(vec![member(1, 2), attempt(1, 1, 1)], None))?;
    let page = store.attempts(id(1), &AttemptFilter { index: Some(1) }, &Page::first(9)).await?;
    same("those of an element", &page.items.iter().map(|row| row.attempt.id).collect(), &vec![attempt(1, 1, 1)])
}

pub(super) async fn details_come_back<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[1]).await?;
    let token = attempt(1, 0, 1);
    let detail = AttemptDetail { body: "{\"outputs\":{\"a\":\"1\"}}".into(), tail: vec![0, 255, 10] };
    let end = AttemptEnd { detail: Some(Box::new(detail.clone())), ..rich_end() };
    let end = AttemptChange { end: Some(end), ..change(token, AttemptState::Succeeded) };
    write(store, epoch, vec![new_attempt(token), record(end)]).await?;
    same("the detail", &store.detail(&token).await?, &Some(detail))?;
    same("that of another", &store.detail(&attempt(1, 0, 2)).await?, &None)?;
    same("the end in the list", &all(store, 1).await?.remove(0).end, &Some(rich_end()))
}
