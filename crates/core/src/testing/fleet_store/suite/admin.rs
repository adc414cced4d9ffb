//! Checks of leadership, idempotency keys, the audit trail and the outbox.

use super::{at, lead, new_spec, spec, tenant, write};
use crate::error::{Class, Problem};
use crate::ports::fleet_store::{
    AuditEntry, AuditFilter, FENCED, FleetStore, Holder, IdempotencyKey, IdempotencyRecord, OutboxEvent, Page, Record,
    SortOrder,
};
use crate::testing::suite::{CheckResult, fails, holds, same};

fn fenced(result: Result<(), Problem>) -> CheckResult {
    same("the reason", &result.as_ref().err().and_then(|error| error.reason), &Some(FENCED))?;
    fails("it", result, Class::Denied)
}

pub(super) async fn nobody_leads_at_first<S: FleetStore>(store: &S) -> CheckResult {
    same("the leader", &store.leader().await?, &None)?;
    fenced(write(store, crate::id::Epoch(0), vec![new_spec()]).await)?;
    fenced(write(store, crate::id::Epoch(1), vec![new_spec()]).await)
}

pub(super) async fn epochs_grow_by_one<S: FleetStore>(store: &S) -> CheckResult {
    let first = lead(store).await?;
    let leader = store.leader().await?.map(|leader| (leader.holder, leader.url, leader.epoch));
    same("the leader", &leader, &Some(("suite".to_owned(), "http://suite:7070".to_owned(), first)))?;
    store.renew(first).await?;
    store.release(first).await?;
    let next = store.acquire(&Holder { name: "other".to_owned(), url: "u".to_owned() }).await?;
    same("the next epoch", &next, &first.next())?;
    fenced(store.renew(first).await)?;
    store.release(first).await?;
    Ok(store.renew(next).await?)
}

pub(super) async fn an_older_epoch_writes_nothing<S: FleetStore>(store: &S) -> CheckResult {
    let first = lead(store).await?;
    store.release(first).await?;
    let next = lead(store).await?;
    fenced(write(store, first, vec![new_spec()]).await)?;
    fenced(write(store, next.next(), vec![new_spec()]).await)?;
    fenced(store.confirm(first, &[1]).await)?;
    same("the spec", &store.spec(&spec().hash).await?, &None)?;
    write(store, next, vec![new_spec()]).await?;
    same("the spec", &store.spec(&spec().hash).await?, &Some(spec()))
}

pub(super) async fn leadership_given_up_writes_nothing<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = lead(store).await?;
    store.release(epoch).await?;
    fenced(store.renew(epoch).await)?;
    fenced(write(store, epoch, vec![new_spec()]).await)?;
    let leader = store.leader().await?.map(|leader| (leader.holder, leader.epoch));
    same("the leader", &leader, &Some((String::new(), epoch)))
}

fn key(key: &str) -> IdempotencyKey {
    IdempotencyKey { tenant: tenant("t"), key: key.to_owned() }
}

fn answer(name: &str, status: u16, expires: i64) -> IdempotencyRecord {
    let response = format!("{{\"status\":{status}}}").into();
    IdempotencyRecord {
        key: key(name),
        body_hash: [status.to_le_bytes()[0]; 32],
        status,
        response,
        expires_at: at(expires),
    }
}

fn stored(record: IdempotencyRecord) -> Record {
    Record::Idempotency(Box::new(record))
}

pub(super) async fn an_answer_is_found_under_its_key_until_it_expires<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = lead(store).await?;
    let answers = [answer("a", 202, 100), answer("b/'", 200, 50), answer("c", 202, 100)];
    write(store, epoch, answers.iter().cloned().map(stored).collect()).await?;
    same("the answer", &store.idempotency(&key("a"), at(99)).await?, &Some(answer("a", 202, 100)))?;
    same("the answer", &store.idempotency(&key("b/'"), at(0)).await?, &Some(answer("b/'", 200, 50)))?;
    same("the expired answer", &store.idempotency(&key("b/'"), at(50)).await?, &None)?;
    let other = IdempotencyKey { tenant: tenant("u"), key: "a".to_owned() };
    same("another tenant's", &store.idempotency(&other, at(0)).await?, &None)?;
    let page = store.idempotency_keys(at(60), &Page::first(1)).await?;
    same("the first page", &page.items, &vec![answer("a", 202, 100)])?;
    let next = page.next.map_or(Page::first(5), |next| Page::after(next, 5));
    let page = store.idempotency_keys(at(60), &next).await?;
    same("the second page", &page.items, &vec![answer("c", 202, 100)])?;
    same("its cursor", &page.next, &None)
}

pub(super) async fn a_later_answer_replaces<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = lead(store).await?;
    write(store, epoch, vec![stored(answer("a", 202, 10))]).await?;
    write(store, epoch, vec![stored(answer("a", 200, 90)), stored(answer("a", 201, 99))]).await?;
    same("the answer", &store.idempotency(&key("a"), at(60)).await?, &Some(answer("a", 201, 99)))
}

fn line(number: u64, of: Option<&str>, millis: i64) -> AuditEntry {
    AuditEntry {
        number,
        time: at(millis),
        actor: "token/abc".to_owned(),
        tenant: of.map(tenant),
        action: "jobs.submit".into(),
        target: "j1 'quoted' \u{1f980}".to_owned(),
        outcome: "ok".into(),
        request_id: of.map(|_| "r-1".to_owned()),
    }
}

pub(super) async fn audit_lines_are_numbered_and_filtered<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = lead(store).await?;
    let record = |entry: AuditEntry| Record::Audit(Box::new(entry));
    write(store, epoch, vec![record(line(0, Some("t"), 1)), record(line(0, None, 2))]).await?;
    write(store, epoch, vec![record(line(7, Some("u"), 3))]).await?;
    let all = store.audit(&AuditFilter::default(), &Page::first(10)).await?;
    same("the lines", &all.items, &vec![line(1, Some("t"), 1), line(2, None, 2), line(3, Some("u"), 3)])?;
    let filter =
        AuditFilter { tenants: Some(vec![tenant("t"), tenant("u")]), since: None, order: SortOrder::Descending };
    let page = store.audit(&filter, &Page::first(1)).await?;
    same("the last line", &page.items, &vec![line(3, Some("u"), 3)])?;
    same("the cursor", &page.next, &Some(3))?;
    let page = store.audit(&filter, &Page::after(3, 1)).await?;
    same("the line before", &page.items, &vec![line(1, Some("t"), 1)])?;
    let filter = AuditFilter { since: Some(at(2)), ..AuditFilter::default() };
    same("late lines", &store.audit(&filter, &Page::first(9)).await?.items.len(), &2)
}

pub(super) async fn events_come_back_in_order_until_confirmed<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = lead(store).await?;
    let event = |number: usize| {
        let subject = "orlop.events.job.created".into();
        Record::Event(Box::new(OutboxEvent { subject, body: format!("{{\"n\":{number}}}").into() }))
    };
    write(store, epoch, (0..3).map(event).collect()).await?;
    write(store, epoch, (3..5).map(event).collect()).await?;
    let page = store.outbox(&Page::first(4)).await?;
    same("how many wait", &store.outbox_len().await?, &5)?;
    let bodies: Vec<_> = page.items.iter().map(|row| row.event.body.to_string()).collect();
    same("the bodies", &bodies, &(0..4).map(|number| format!("{{\"n\":{number}}}")).collect())?;
    holds("ids grow", page.items.windows(2).all(|pair| matches!(pair, [a, b] if a.id < b.id)))?;
    let ids: Vec<u64> = page.items.iter().map(|row| row.id).collect();
    store.confirm(epoch, &ids).await?;
    store.confirm(epoch, &ids).await?;
    store.confirm(epoch, &[]).await?;
    let rest = store.outbox(&Page::first(4)).await?;
    same("what is left", &rest.items.len(), &1)?;
    holds("it is the last", rest.items.first().map(|row| row.id) > ids.last().copied())?;
    store.confirm(epoch, &[rest.items.first().map_or(0, |row| row.id)]).await?;
    write(store, epoch, vec![event(9)]).await?;
    let last = store.outbox(&Page::first(4)).await?.items.first().map_or(0, |row| row.id);
    holds("ids are never used again", last > rest.items.first().map_or(u64::MAX, |row| row.id))
}
