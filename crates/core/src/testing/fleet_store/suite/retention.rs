//! Checks of retention.

use super::{
    array, at, attempt, changed, ended, id, job, new_attempt, new_job, restored, spec, unit, with_jobs, write,
};
use crate::machine::attempt::AttemptState;
use crate::machine::job::JobState;
use crate::ports::fleet_store::{
    AttemptFilter, AuditEntry, AuditFilter, ElementChange, ElementFilter, Entry, EntryFilter, FleetStore,
    IdempotencyKey, IdempotencyRecord, Kind, Page, RangeChange, Record, Retained, Retention,
};
use crate::testing::suite::{CheckResult, holds, same};

fn policy(jobs_before: i64, batch: u32) -> Retention {
    Retention { now: at(100), jobs_before: at(jobs_before), audit_before: at(40), batch }
}

pub(super) async fn old_jobs_go_with_everything_of_them<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[2]).await?;
    let token = attempt(1, 3, 1);
    let element = ElementChange { job: id(1), index: 3, unit: unit(JobState::Completed) };
    let rest = RangeChange { job: id(1), first: 0, last: 9, state: JobState::Cancelled, reason: None, at: at(1) };
    let records = vec![
        new_job(array(1, &[(0, 9)])),
        Record::Element(Box::new(element)),
        Record::Ranges(rest),
        new_attempt(token),
        ended(token, AttemptState::Succeeded, true),
        changed(1, 1, unit(JobState::Cancelled)),
    ];
    write(store, epoch, records).await?;
    let gone = store.retain(epoch, &policy(51, 10)).await?;
    same("what went", &gone, &Retained { jobs: vec![id(1)], others: 0, more: false })?;
    same("the job", &store.job(id(1)).await?, &None)?;
    same("attempts", &store.attempts(id(1), &AttemptFilter::default(), &Page::first(9)).await?.items.len(), &0)?;
    same("elements", &store.elements(id(1), &ElementFilter::default(), &Page::first(9)).await?.items.len(), &0)?;
    write(store, epoch, vec![new_job(array(1, &[(0, 9)])), new_attempt(token)]).await?;
    let again = restored(store).await?;
    same(
        "what waits after the same id again",
        &again.first().map(|job| job.elements.waiting.clone()),
        &Some(vec![(0, 9)]),
    )
}

pub(super) async fn young_and_live_jobs_stay<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[1, 2]).await?;
    write(store, epoch, vec![changed(1, 1, unit(JobState::Failed))]).await?;
    same("what went", &store.retain(epoch, &policy(50, 10)).await?, &Retained::default())?;
    holds("both are there", store.job(id(1)).await?.is_some() && store.job(id(2)).await?.is_some())
}

pub(super) async fn jobs_of_a_flow_stay_while_it_lives<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[1]).await?;
    let flow = |ended: Option<i64>| {
        let (key, ended_at) = ("f".to_owned(), ended.map(at));
        Record::Put(Box::new(Entry { kind: Kind::Flow, key, tenant: None, ended_at, body: "{}".into() }))
    };
    let mut of_flow = job(2);
    of_flow.job.flow = Some("f".into());
    let ends = [1, 2].map(|number| changed(number, 1, unit(JobState::Completed)));
    write(store, epoch, [flow(None), new_job(of_flow)].into_iter().chain(ends).collect()).await?;
    same("what went", &store.retain(epoch, &policy(99, 10)).await?.jobs, &vec![id(1)])?;
    holds("that of the flow is there", store.job(id(2)).await?.is_some())?;
    write(store, epoch, vec![flow(Some(98))]).await?;
    let gone = store.retain(epoch, &policy(99, 10)).await?;
    same("what goes with the flow", &(gone.jobs, gone.others), &(vec![id(2)], 2))
}

pub(super) async fn jobs_go_in_batches<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[1, 2, 3, 4, 5]).await?;
    write(store, epoch, (1..=5).map(|number| changed(number, 1, unit(JobState::Completed))).collect()).await?;
    let first = store.retain(epoch, &policy(99, 2)).await?;
    holds("there is more", first.more)?;
    let second = store.retain(epoch, &policy(99, 2)).await?;
    let third = store.retain(epoch, &policy(99, 2)).await?;
    let mut all: Vec<_> = [first.jobs, second.jobs, third.jobs].concat();
    same("of the last call", &all.len(), &5)?;
    all.sort_unstable();
    same("what went", &all, &(1..=5).map(id).collect())
}

pub(super) async fn specs_go_with_their_last_job<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[1, 2]).await?;
    write(store, epoch, vec![changed(1, 1, unit(JobState::Completed))]).await?;
    store.retain(epoch, &policy(99, 10)).await?;
    same("the spec", &store.spec(&spec().hash).await?, &Some(spec()))?;
    write(store, epoch, vec![changed(2, 1, unit(JobState::Completed))]).await?;
    let gone = store.retain(epoch, &policy(99, 10)).await?;
    same("what went", &(gone.jobs, gone.others), &(vec![id(2)], 1))?;
    same("the spec", &store.spec(&spec().hash).await?, &None)?;
    let stored = write(store, epoch, vec![super::new_spec(), new_job(job(3))]).await;
    Ok(stored?)
}

pub(super) async fn other_rows_go_by_their_age<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_jobs(store, &[1]).await?;
    let document = |key: &str, ended: Option<i64>| {
        let (key, ended_at) = (key.to_owned(), ended.map(at));
        Record::Put(Box::new(Entry { kind: Kind::Worker, key, tenant: None, ended_at, body: "{}".into() }))
    };
    let audit = |millis| {
        let entry = AuditEntry {
            number: 0,
            time: at(millis),
            actor: "a".to_owned(),
            tenant: None,
            action: "b".into(),
            target: String::new(),
            outcome: "ok".into(),
            request_id: None,
        };
        Record::Audit(Box::new(entry))
    };
    let key = |name: &str| IdempotencyKey { tenant: super::tenant("t"), key: name.to_owned() };
    let answer = |name: &str, expires| {
        let (key, response) = (key(name), "{}".into());
        Record::Idempotency(Box::new(IdempotencyRecord {
            key,
            body_hash: [0; 32],
            status: 200,
            response,
            expires_at: at(expires),
        }))
    };
    let documents = [document("old", Some(9)), document("young", Some(50)), document("live", None)];
    let records = documents.into_iter().chain([audit(39), audit(40), answer("old", 100), answer("young", 101)]);
    write(store, epoch, records.collect()).await?;
    let gone = store.retain(epoch, &policy(50, 10)).await?;
    same("how much went", &(gone.others, gone.more), &(3, false))?;
    let left = store.entries(Kind::Worker, &EntryFilter::default(), &Page::first(9)).await?;
    same("documents left", &left.items.iter().map(|entry| entry.key.as_str()).collect(), &vec!["live", "young"])?;
    same("audit lines left", &store.audit(&AuditFilter::default(), &Page::first(9)).await?.items.len(), &1)?;
    same("the old key", &store.idempotency(&key("old"), at(0)).await?, &None)?;
    holds("the young key is there", store.idempotency(&key("young"), at(0)).await?.is_some())
}
