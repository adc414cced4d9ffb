//! Checks of jobs and specs: what comes back, lists, restoring.

use super::{at, changed, id, job, lead, new_job, new_spec, restored, spec, tenant, unit, with_jobs, worker, write};
use crate::id::Epoch;
use crate::machine::job::JobState;
use crate::ports::fleet_store::{FleetStore, JobFilter, JobRow, NewSpec, Page, Record, SortOrder, TaskStatus};
use crate::testing::suite::{CheckResult, holds, same};

/// A job with something in every field.
fn rich(number: u64) -> JobRow {
    let mut row = job(number);
    row.job.priority = 0;
    row.job.name = Some("name 'quoted' \u{1f980}".into());
    row.job.labels = Some("{\"team\":\"a\",\"x.y/z\":\"it's\"}".into());
    row.job.not_before = Some(at(-5));
    row.job.expires_at = Some(at(99));
    row.job.flow = Some("flow-1".into());
    row.job.step = Some("build".into());
    row.job.retry_of = Some(id(3));
    row.job.correlation_id = Some("c-1".into());
    row.job.traceparent = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into());
    row.revision = 7;
    row.unit = rich_unit(JobState::Failed);
    row
}

pub(super) fn rich_unit(state: JobState) -> TaskStatus {
    TaskStatus {
        reason: Some("exit".into()),
        attempt: 4,
        epoch: Epoch(2),
        answered: true,
        lost: true,
        second_try: true,
        retries: 2,
        infra: 3,
        worker: Some(worker("w1")),
        avoid: Some(worker("w.2")),
        due_at: Some(at(20)),
        queued_at: Some(at(1)),
        started_at: Some(at(2)),
        exit_code: Some(-7),
        ..unit(state)
    }
}

pub(super) async fn a_job_comes_back_as_it_was_written<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = lead(store).await?;
    write(store, epoch, vec![new_spec(), new_job(rich(5))]).await?;
    same("the job", &store.job(id(5)).await?, &Some(rich(5)))?;
    write(store, epoch, vec![new_job(job(2))]).await?;
    same("some jobs", &store.some_jobs(&[id(5), id(2)].into()).await?, &vec![job(2), rich(5)])
}

pub(super) async fn a_bare_job_comes_back<S: FleetStore>(store: &S) -> CheckResult {
    with_jobs(store, &[0]).await?;
    same("the job", &store.job(id(0)).await?, &Some(job(0)))?;
    same("what is restored", &restored(store).await?.into_iter().map(|job| job.row).collect(), &vec![job(0)])
}

pub(super) async fn a_change_keeps_what_it_does_not_say<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[1]).await?;
    let started = TaskStatus { started_at: Some(at(3)), worker: Some(worker("w1")), ..unit(JobState::Running) };
    write(store, epoch, vec![changed(1, 1, started)]).await?;
    let later = TaskStatus { due_at: Some(at(9)), exit_code: Some(1), ..unit(JobState::Backoff) };
    write(store, epoch, vec![changed(1, 2, later.clone())]).await?;
    let mut wanted = job(1);
    wanted.revision = 2;
    wanted.unit = TaskStatus { queued_at: wanted.unit.queued_at, started_at: Some(at(3)), ..later };
    same("the job", &store.job(id(1)).await?, &Some(wanted.clone()))?;
    write(store, epoch, vec![changed(1, 3, unit(JobState::Cancelled))]).await?;
    wanted.revision = 3;
    let TaskStatus { queued_at, started_at, exit_code, .. } = wanted.unit;
    wanted.unit = TaskStatus { queued_at, started_at, exit_code, ..unit(JobState::Cancelled) };
    same("the final job", &store.job(id(1)).await?, &Some(wanted))
}

pub(super) async fn a_spec_is_stored_once_under_its_hash<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = lead(store).await?;
    write(store, epoch, vec![new_spec(), new_spec()]).await?;
    write(store, epoch, vec![new_spec(), new_job(job(1))]).await?;
    same("the spec", &store.spec(&spec().hash).await?, &Some(spec()))?;
    same("another", &store.spec(&NewSpec::new("x").hash).await?, &None)?;
    same("specs restored", &store.restore(&Page::first(9)).await?.specs, &vec![spec()])
}

pub(super) async fn an_unknown_job_is_absent<S: FleetStore>(store: &S) -> CheckResult {
    with_jobs(store, &[1]).await?;
    same("the job", &store.job(id(2)).await?, &None)?;
    let page = store.attempts(id(2), &Default::default(), &Page::first(9)).await?;
    same("its attempts", &page.items, &Vec::new())?;
    let page = store.elements(id(2), &Default::default(), &Page::first(9)).await?;
    same("its elements", &page.items, &Vec::new())?;
    let some = [id(0), id(1), id(2)].into();
    same("those that are there", &store.some_jobs(&some).await?, &vec![job(1)])
}

fn ids(rows: &[JobRow]) -> Vec<u64> {
    rows.iter().map(|row| row.job.id.as_u64()).collect()
}

pub(super) async fn lists_are_paged_both_ways<S: FleetStore>(store: &S) -> CheckResult {
    with_jobs(store, &[5, 1, 9, 7, 3]).await?;
    let up = JobFilter::default();
    let page = store.jobs(&up, &Page::first(2)).await?;
    same("the first page", &(ids(&page.items), page.next), &(vec![1, 3], Some(id(3))))?;
    let page = store.jobs(&up, &Page::after(id(3), 3)).await?;
    same("the last page", &(ids(&page.items), page.next), &(vec![5, 7, 9], None))?;
    let down = JobFilter { order: SortOrder::Descending, ..JobFilter::default() };
    let page = store.jobs(&down, &Page::first(2)).await?;
    same("the first page down", &(ids(&page.items), page.next), &(vec![9, 7], Some(id(7))))?;
    let page = store.jobs(&down, &Page::after(id(7), 0)).await?;
    same("a page of one at least", &(ids(&page.items), page.next), &(vec![5], Some(id(5))))
}

pub(super) async fn lists_are_filtered<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = lead(store).await?;
    let mut other = job(2);
    other.job.tenant = tenant("u");
    other.job.submitted_at = at(10);
    let mut labelled = job(3);
    labelled.job.labels = Some("{\"team\":\"b\"}".into());
    let records = vec![new_spec(), new_job(job(1)), new_job(other), new_job(labelled), new_job(rich(5))];
    write(store, epoch, records).await?;
    let all = JobFilter::default;
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let cases = [
        (JobFilter { tenants: Some(vec![tenant("u"), tenant("x")]), ..all() }, vec![2]),
        (JobFilter { tenants: Some(Vec::new()), ..all() }, vec![]),
        (JobFilter { states: vec![JobState::Failed, JobState::Running], ..all() }, vec![5]),
        (JobFilter { states: vec![JobState::Queued], tenants: Some(vec![tenant("t")]), ..all() }, vec![1, 3]),
        (JobFilter { labels: vec![label("team", "a")], ..all() }, vec![5]),
        (JobFilter { labels: vec![label("team", "a"), label("x.y/z", "it's")], ..all() }, vec![5]),
        (JobFilter { labels: vec![label("team", "a"), label("x.y/z", "")], ..all() }, vec![]),
        (JobFilter { since: Some(at(10)), ..all() }, vec![2]),
        (JobFilter { flow: Some("flow-1".to_owned()), ..all() }, vec![5]),
        (all(), vec![1, 2, 3, 5]),
    ];
    for (filter, wanted) in cases {
        same(&format!("the list of {filter:?}"), &ids(&store.jobs(&filter, &Page::first(9)).await?.items), &wanted)?;
    }
    Ok(())
}

pub(super) async fn final_jobs_are_not_restored<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[1, 2, 3]).await?;
    write(store, epoch, vec![changed(2, 1, unit(JobState::TimedOut)), new_job(rich(4))]).await?;
    let found: Vec<u64> = restored(store).await?.iter().map(|job| job.row.job.id.as_u64()).collect();
    same("what is restored", &found, &vec![1, 3])
}

pub(super) async fn restoring_is_paged_with_the_specs_of_the_page<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = lead(store).await?;
    let specs: Vec<NewSpec> = (0..30).map(|number| NewSpec::new(format!("{{\"n\":{number}}}"))).collect();
    let mut records = Vec::new();
    for (spec, number) in specs.iter().zip(1..) {
        let mut row = job(number);
        row.job.spec = spec.hash;
        records.extend([Record::Spec(Box::new(spec.clone())), new_job(row)]);
    }
    write(store, epoch, records).await?;
    let page = store.restore(&Page::after(id(10), 10)).await?;
    same("the page", &page.jobs.iter().map(|job| job.row.job.id.as_u64()).collect(), &(11..=20).collect::<Vec<u64>>())?;
    let mut wanted: Vec<NewSpec> = specs.get(10..20).unwrap_or_default().to_vec();
    wanted.sort_by_key(|spec| spec.hash);
    same("its specs", &page.specs, &wanted)?;
    holds("there is more", page.next == Some(id(20)))?;
    holds("the last page says so", store.restore(&Page::after(id(20), 10)).await?.next.is_none())
}
