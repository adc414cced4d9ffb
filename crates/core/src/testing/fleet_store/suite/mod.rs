//! Conformance suite of the fleet's store: what every store must do, one check a function. Owns the list of checks and the
//! values they write.

mod admin;
mod arrays;
mod attempts;
mod commits;
mod entries;
mod jobs;
mod reopen;
mod retention;

use crate::error::Problem;
use crate::id::{Epoch, JobId, TenantName, WorkerId};
use crate::machine::attempt::AttemptState;
use crate::machine::job::JobState;
use crate::ports::fleet_store::{
    AttemptChange, AttemptEnd, FleetStore, Holder, JobChange, JobRow, NewAttempt, NewJob, NewSpec, Page, Record,
    RestoredJob, TaskStatus, WriteBatch,
};
use crate::task::{StartMode, TaskRef};
use crate::testing::suite::{Broken, Suite, SuiteFailure};
use crate::time::Time;

/// Runs each named check on a store of its own.
macro_rules! checks {
    ($suite:ident, $make:ident: $($module:ident::{$($check:ident),+ $(,)?}),+ $(,)?) => {
        $($({
            let store = $make($suite.next()).await;
            $suite.check(stringify!($check), $module::$check(&store)).await;
        })+)+
    };
}

/// Runs each named pair of checks: one writes, the other reads after the store was dropped and opened again.
macro_rules! reopened {
    ($suite:ident, $make:ident: $($check:ident),+ $(,)?) => {
        $({
            let number = $suite.next();
            let store = $make(number).await;
            let written = reopen::$check::write(&store).await;
            drop(store);
            let store = $make(number).await;
            $suite
                .check(stringify!($check), async {
                    written?;
                    reopen::$check::read(&store).await
                })
                .await;
        })+
    };
}

/// Checks a store against its port. `open` opens the store of a number: empty the first time, later with what was written to
/// it before it was dropped. Gives the names of the checks.
///
/// # Errors
/// Every check that does not hold, with the reason.
pub async fn fleet_store_suite<S: FleetStore>(open: impl AsyncFn(u32) -> S) -> Result<Vec<&'static str>, SuiteFailure> {
    let mut suite = Suite::new("fleet store");
    of_jobs(&mut suite, &open).await;
    of_the_rest(&mut suite, &open).await;
    reopened! { suite, open: jobs_survive, elements_and_attempts_survive, epochs_go_on, numbers_go_on }
    suite.finish()
}

/// Checks of commits and of what restoring a job needs.
async fn of_jobs<S: FleetStore>(suite: &mut Suite, open: &impl AsyncFn(u32) -> S) {
    checks! { suite, open:
        commits::{
            turns_of_one_commit_are_written_together,
            a_refused_commit_leaves_no_trace,
            a_job_exists_once,
            a_job_needs_its_spec,
            a_change_needs_its_job,
            a_change_of_an_attempt_needs_it,
            a_final_state_says_since_when,
            a_job_number_past_the_middle_is_refused,
            an_empty_commit_is_fine,
            commits_at_once_are_all_written,
            many_records_of_one_job_in_one_commit,
        },
        jobs::{
            a_job_comes_back_as_it_was_written,
            a_bare_job_comes_back,
            a_change_keeps_what_it_does_not_say,
            a_spec_is_stored_once_under_its_hash,
            an_unknown_job_is_absent,
            lists_are_paged_both_ways,
            lists_are_filtered,
            final_jobs_are_not_restored,
            restoring_is_paged_with_the_specs_of_the_page,
        },
        arrays::{
            a_new_array_waits,
            elements_come_back_by_state,
            ranges_change_what_was_never_assigned_only,
            elements_are_listed_with_those_never_assigned,
            elements_are_listed_by_state_and_page,
            elements_are_listed_by_index,
            elements_are_counted_by_state,
            a_large_array_is_one_row,
        },
        attempts::{
            an_attempt_comes_back_as_it_was_written,
            an_attempt_that_began_and_ended_in_one_commit,
            live_and_lost_attempts_are_restored,
            members_have_attempts_of_their_own,
            a_second_final_result_is_refused,
            a_second_final_result_in_one_commit_is_refused,
            the_same_final_result_again_is_fine,
            elements_have_final_results_of_their_own,
            attempts_are_listed_in_order,
            details_come_back,
        },
    }
}

/// Checks of everything beside jobs.
async fn of_the_rest<S: FleetStore>(suite: &mut Suite, open: &impl AsyncFn(u32) -> S) {
    checks! { suite, open:
        admin::{
            nobody_leads_at_first,
            epochs_grow_by_one,
            an_older_epoch_writes_nothing,
            leadership_given_up_writes_nothing,
            an_answer_is_found_under_its_key_until_it_expires,
            a_later_answer_replaces,
            audit_lines_are_numbered_and_filtered,
            events_come_back_in_order_until_confirmed,
        },
        entries::{
            documents_come_back_and_are_replaced,
            documents_are_listed_by_prefix_tenant_and_life,
            deleting_a_document_twice_is_fine,
            every_typed_document_comes_back,
        },
        retention::{
            old_jobs_go_with_everything_of_them,
            young_and_live_jobs_stay,
            jobs_of_a_flow_stay_while_it_lives,
            jobs_go_in_batches,
            specs_go_with_their_last_job,
            other_rows_go_by_their_age,
        },
    }
}

/// Takes leadership.
async fn lead<S: FleetStore + ?Sized>(store: &S) -> Result<Epoch, Broken> {
    Ok(store.acquire(&Holder { name: "suite".to_owned(), url: "http://suite:7070".to_owned() }).await?)
}

/// Commits one turn of records.
async fn write<S: FleetStore + ?Sized>(store: &S, epoch: Epoch, records: Vec<Record>) -> Result<(), Problem> {
    store.commit(epoch, vec![WriteBatch::new(records)]).await
}

/// A store in which these jobs are queued.
async fn with_jobs<S: FleetStore + ?Sized>(store: &S, ids: &[u64]) -> Result<Epoch, Broken> {
    let epoch = lead(store).await?;
    let jobs = ids.iter().map(|&id| new_job(job(id)));
    write(store, epoch, std::iter::once(new_spec()).chain(jobs).collect()).await?;
    Ok(epoch)
}

/// Everything that is restored, page by page.
async fn restored<S: FleetStore + ?Sized>(store: &S) -> Result<Vec<RestoredJob>, Broken> {
    let mut page = Page::first(7);
    let mut all = Vec::new();
    loop {
        let found = store.restore(&page).await?;
        all.extend(found.jobs);
        match found.next {
            Some(next) => page = Page::after(next, 7),
            None => return Ok(all),
        }
    }
}

fn at(millis: i64) -> Time {
    Time::from_millis(1_700_000_000_000 + millis)
}

fn id(number: u64) -> JobId {
    JobId::from_u64(number)
}

fn tenant(name: &str) -> TenantName {
    name.parse().unwrap_or_else(|error| unreachable!("{error}"))
}

fn worker(name: &str) -> WorkerId {
    name.parse().unwrap_or_else(|error| unreachable!("{error}"))
}

fn spec() -> NewSpec {
    NewSpec::new("{\"command\":[\"true\"]}")
}

fn new_spec() -> Record {
    Record::Spec(Box::new(spec()))
}

/// A queued single job.
fn job(number: u64) -> JobRow {
    JobRow::submitted(NewJob::new(id(number), tenant("t"), spec().hash, at(0)), JobState::Queued)
}

/// A queued array.
fn array(number: u64, indices: &[(u32, u32)]) -> JobRow {
    let mut row = job(number);
    row.job.kind = crate::ports::fleet_store::JobKind::Array;
    row.job.count = indices.iter().map(|(first, last)| last - first + 1).sum();
    row.job.indices = indices.to_vec();
    row
}

fn new_job(row: JobRow) -> Record {
    Record::JobNew(Box::new(row))
}

/// A unit in a state, with a time of its end if it is final.
fn unit(state: JobState) -> TaskStatus {
    TaskStatus { finished_at: state.is_terminal().then(|| at(50)), ..TaskStatus::new(state) }
}

fn changed(number: u64, revision: u64, unit: TaskStatus) -> Record {
    Record::Job(Box::new(JobChange { id: id(number), revision, unit }))
}

fn attempt(number: u64, index: u32, attempt: u32) -> TaskRef {
    TaskRef { job: id(number), index, member: 0, attempt, epoch: Epoch(1) }
}

fn issued(id: TaskRef) -> NewAttempt {
    NewAttempt { id, worker: worker("w1"), incarnation: 1, mode: StartMode::Now, assigned_at: at(10), gpu: None }
}

fn new_attempt(id: TaskRef) -> Record {
    Record::AttemptNew(Box::new(issued(id)))
}

fn ended(id: TaskRef, state: AttemptState, accepted_final: bool) -> Record {
    let end = AttemptEnd { accepted_final, exit_code: Some(0), ..AttemptEnd::default() };
    let finished_at = Some(at(30));
    Record::Attempt(Box::new(AttemptChange { finished_at, end: Some(end), ..AttemptChange::new(id, state) }))
}
