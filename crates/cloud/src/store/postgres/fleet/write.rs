//! Statements of a commit: one for each table it touches. Owns the statements; the transaction is the worker's.

use orlop_core::named::Named as _;
use orlop_core::ports::fleet_store::{AttemptEnd, Kind};
use orlop_core::task::{TaskRef, Usage};
use orlop_core::time::Time;

use super::columns::Columns;
use super::connection::Param;
use crate::store::fleet::batch::Batch;
use crate::store::fleet::column::{gpu_text, indices_text, integer};

/// A statement with the number of rows it must touch.
pub(super) struct Step {
    pub(super) text: String,
    pub(super) params: Vec<Param>,
    /// So many rows, or something of this name is missing.
    pub(super) expects: Option<(u64, &'static str)>,
}

impl Step {
    fn plain((text, params): (String, Vec<Param>)) -> Self {
        Self { text, params, expects: None }
    }

    fn expecting(text: String, params: Vec<Param>, rows: usize, what: &'static str) -> Self {
        Self { text, params, expects: Some((rows as u64, what)) }
    }
}

/// What a change leaves where it says nothing.
const KEPT: [&str; 3] = ["queued_at", "started_at", "exit_code"];

fn millis(time: Option<Time>) -> Option<i64> {
    time.map(Time::millis)
}

/// The statements of a batch, in order.
pub(super) fn steps(batch: &Batch) -> Vec<Step> {
    let mut steps = Vec::new();
    let named: Vec<i64> = batch.named_jobs().iter().map(|id| integer(id.as_u64())).collect();
    if !named.is_empty() {
        let count = named.len();
        let text = "SELECT 1 WHERE (SELECT count(*) FROM jobs WHERE id = ANY($1)) = $2";
        let params: Vec<Param> = vec![Box::new(named), Box::new(integer(count as u64))];
        steps.push(Step::expecting(text.to_owned(), params, 1, "a job that a record names"));
    }
    specs(batch, &mut steps);
    jobs(batch, &mut steps);
    arrays(batch, &mut steps);
    attempts(batch, &mut steps);
    rest(batch, &mut steps);
    steps
}

fn specs(batch: &Batch, steps: &mut Vec<Step>) {
    let needed: Vec<_> = batch.needed.iter().collect();
    if !needed.is_empty() {
        let columns = Columns::default().bytes("hash", &needed, |(hash, _)| hash.0.to_vec()).integers(
            "refs",
            &needed,
            |(_, uses)| Some(integer(**uses)),
        );
        let text =
            format!("UPDATE specs SET refs = specs.refs + u.refs FROM {} WHERE specs.hash = u.hash", columns.table());
        steps.push(Step::expecting(text, columns.into_params(), needed.len(), "the spec of a new job"));
    }
    if !batch.specs.is_empty() {
        let columns = Columns::default()
            .bytes("hash", &batch.specs, |(spec, _)| spec.hash.0.to_vec())
            .texts("body", &batch.specs, |(spec, _)| Some((&*spec.body).into()))
            .integers("refs", &batch.specs, |(_, uses)| Some(integer(*uses)));
        let merge = "ON CONFLICT (hash) DO UPDATE SET refs = specs.refs + excluded.refs";
        steps.push(Step::plain(columns.insert("specs", merge)));
    }
}

fn jobs(batch: &Batch, steps: &mut Vec<Step>) {
    let rows = &batch.jobs;
    if !rows.is_empty() {
        let columns = Columns::default()
            .integers("id", rows, |row| Some(integer(row.job.id.as_u64())))
            .texts("tenant", rows, |row| Some(row.job.tenant.as_str().into()))
            .texts("kind", rows, |row| Some(row.job.kind.as_str().into()))
            .integers("count", rows, |row| Some(i64::from(row.job.count)))
            .texts("indices", rows, |row| indices_text(&row.job.indices).map(Into::into))
            .integers("priority", rows, |row| Some(i64::from(row.job.priority)))
            .texts("name", rows, |row| row.job.name.as_deref().map(Into::into))
            .texts("labels", rows, |row| row.job.labels.as_deref().map(Into::into))
            .integers("not_before", rows, |row| millis(row.job.not_before))
            .integers("expires_at", rows, |row| millis(row.job.expires_at))
            .integers("submitted_at", rows, |row| Some(row.job.submitted_at.millis()))
            .texts("flow_id", rows, |row| row.job.flow.as_deref().map(Into::into))
            .texts("step", rows, |row| row.job.step.as_deref().map(Into::into))
            .integers("retry_of", rows, |row| row.job.retry_of.map(|id| integer(id.as_u64())))
            .texts("correlation_id", rows, |row| row.job.correlation_id.as_deref().map(Into::into))
            .texts("traceparent", rows, |row| row.job.traceparent.as_deref().map(Into::into))
            .integers("revision", rows, |row| Some(integer(row.revision)))
            .units(rows, |row| &row.unit);
        let names = columns.names();
        let selected = names.split(", ").map(|name| format!("u.{name}")).collect::<Vec<_>>().join(", ");
        // The hash comes last, as it is no column of the table.
        let columns = columns.bytes("hash", rows, |row| row.job.spec.0.to_vec());
        let text = format!(
            "INSERT INTO jobs ({names}, spec_id) SELECT {selected}, specs.id FROM {} JOIN specs ON specs.hash = u.hash",
            columns.table()
        );
        steps.push(Step::expecting(text, columns.into_params(), rows.len(), "the spec of a new job"));
    }
    let changes = &batch.job_changes;
    if !changes.is_empty() {
        let columns = Columns::default()
            .integers("id", changes, |change| Some(integer(change.id.as_u64())))
            .integers("revision", changes, |change| Some(integer(change.revision)))
            .units(changes, |change| &change.unit);
        let set = columns.assignments(&["id"], &KEPT, "jobs");
        let text = format!("UPDATE jobs SET {set} FROM {} WHERE jobs.id = u.id", columns.table());
        steps.push(Step::expecting(text, columns.into_params(), changes.len(), "a job that changed"));
    }
}

fn arrays(batch: &Batch, steps: &mut Vec<Step>) {
    let ranges = &batch.ranges;
    if !ranges.is_empty() {
        let columns = Columns::default()
            .integers("job_id", ranges, |range| Some(integer(range.job.as_u64())))
            .integers("first", ranges, |range| Some(i64::from(range.first)))
            .integers("last", ranges, |range| Some(i64::from(range.last)))
            .texts("state", ranges, |range| Some(range.state.as_str().into()))
            .texts("reason", ranges, |range| range.reason.as_deref().map(Into::into))
            .integers("at", ranges, |range| Some(range.at.millis()));
        steps.push(Step::plain(columns.insert("array_ranges", "")));
    }
    let elements = &batch.elements;
    if !elements.is_empty() {
        let columns = Columns::default()
            .integers("job_id", elements, |element| Some(integer(element.job.as_u64())))
            .integers("idx", elements, |element| Some(i64::from(element.index)))
            .units(elements, |element| &element.unit);
        let set = columns.assignments(&["job_id", "idx"], &KEPT, "elements").replace("u.", "excluded.");
        let merge = format!("ON CONFLICT (job_id, idx) DO UPDATE SET {set}");
        steps.push(Step::plain(columns.insert("elements", &merge)));
    }
}

/// The columns of the keys of attempts.
fn keys<T>(rows: &[T], id: impl Fn(&T) -> &TaskRef + Copy) -> Columns {
    Columns::default()
        .integers("job_id", rows, |row| Some(integer(id(row).job.as_u64())))
        .integers("idx", rows, |row| Some(i64::from(id(row).index)))
        .integers("attempt", rows, |row| Some(i64::from(id(row).attempt)))
        .integers("member", rows, |row| Some(i64::from(id(row).member)))
        .integers("epoch", rows, |row| Some(integer(id(row).epoch.0)))
}

/// The columns of how attempts ended.
fn ends<T>(columns: Columns, rows: &[T], end: impl Fn(&T) -> Option<&AttemptEnd> + Copy) -> Columns {
    let used = |row: &T, value: fn(&Usage) -> u64| Some(integer(value(end(row)?.usage.as_ref()?)));
    columns
        .flags("final", rows, |row| end(row).map(|end| end.accepted_final))
        .integers("exit_code", rows, |row| end(row)?.exit_code.map(i64::from))
        .integers("signal", rows, |row| end(row)?.signal.map(i64::from))
        .texts("reason", rows, |row| end(row)?.reason.as_deref().map(Into::into))
        .integers("cpu_ms", rows, |row| used(row, |usage| usage.cpu_ms))
        .integers("max_rss", rows, |row| used(row, |usage| usage.max_rss))
        .integers("io_read", rows, |row| used(row, |usage| usage.io_read))
        .integers("io_write", rows, |row| used(row, |usage| usage.io_write))
}

fn attempts(batch: &Batch, steps: &mut Vec<Step>) {
    let rows = &batch.attempts;
    if !rows.is_empty() {
        let columns = keys(rows, |row| &row.attempt.id)
            .texts("worker", rows, |row| Some(row.attempt.worker.as_str().into()))
            .integers("incarnation", rows, |row| Some(i64::from(row.attempt.incarnation)))
            .texts("mode", rows, |row| Some(row.attempt.mode.as_str().into()))
            .integers("assigned_at", rows, |row| Some(row.attempt.assigned_at.millis()))
            .texts("state", rows, |row| Some(row.state.as_str().into()))
            .integers("accepted_at", rows, |row| millis(row.accepted_at))
            .integers("started_at", rows, |row| millis(row.started_at))
            .integers("finished_at", rows, |row| millis(row.finished_at))
            .texts("gpu", rows, |row| gpu_text(row.attempt.gpu.as_deref()).map(Into::into));
        steps.push(Step::plain(ends(columns, rows, |row| row.end.as_ref()).insert("attempts", "")));
    }
    let changes = &batch.attempt_changes;
    if !changes.is_empty() {
        let columns = keys(changes, |change| &change.id)
            .texts("state", changes, |change| Some(change.state.as_str().into()))
            .integers("accepted_at", changes, |change| millis(change.accepted_at))
            .integers("started_at", changes, |change| millis(change.started_at))
            .integers("finished_at", changes, |change| millis(change.finished_at))
            .texts("gpu", changes, |change| gpu_text(change.gpu.as_deref()).map(Into::into));
        let columns = ends(columns, changes, |change| change.end.as_ref());
        let end = ["final", "exit_code", "signal", "reason", "cpu_ms", "max_rss", "io_read", "io_write"]
            .map(|name| format!("{name} = CASE WHEN u.final IS NULL THEN attempts.{name} ELSE u.{name} END"));
        let text = format!(
            "UPDATE attempts SET state = u.state, accepted_at = coalesce(u.accepted_at, attempts.accepted_at), \
             started_at = coalesce(u.started_at, attempts.started_at), \
             finished_at = coalesce(u.finished_at, attempts.finished_at), gpu = coalesce(u.gpu, attempts.gpu), {} FROM {} \
             WHERE attempts.job_id = u.job_id AND attempts.idx = u.idx AND attempts.attempt = u.attempt \
             AND attempts.member = u.member AND attempts.epoch = u.epoch",
            end.join(", "),
            columns.table()
        );
        steps.push(Step::expecting(text, columns.into_params(), changes.len(), "an attempt that changed"));
    }
    // Later details of an attempt replace earlier ones, and one statement touches a row once.
    let latest: std::collections::BTreeMap<_, _> = batch.details.iter().map(|(id, detail)| (*id, detail)).collect();
    let details: Vec<_> = latest.into_iter().collect();
    if !details.is_empty() {
        let columns = keys(&details, |(id, _)| id)
            .texts("body", &details, |(_, detail)| Some((&*detail.body).into()))
            .bytes("tail", &details, |(_, detail)| detail.tail.clone());
        let merge = "ON CONFLICT (job_id, idx, attempt, member, epoch) DO UPDATE SET body = excluded.body, tail = excluded.tail";
        steps.push(Step::plain(columns.insert("attempt_details", merge)));
    }
}

fn rest(batch: &Batch, steps: &mut Vec<Step>) {
    for kind in Kind::ALL {
        let of_kind = || batch.entries.iter().filter(|(of, ..)| of == kind);
        let gone: Vec<String> =
            of_kind().filter(|(.., entry)| entry.is_none()).map(|(_, key, _)| key.clone()).collect();
        if !gone.is_empty() {
            steps.push(Step::plain((format!("DELETE FROM {kind} WHERE key = ANY($1)"), vec![Box::new(gone)])));
        }
        let put: Vec<_> = of_kind().filter_map(|(.., entry)| entry.as_ref()).collect();
        if !put.is_empty() {
            let columns = Columns::default()
                .texts("key", &put, |entry| Some(entry.key.as_str().into()))
                .texts("tenant", &put, |entry| entry.tenant.as_ref().map(|tenant| tenant.as_str().into()))
                .integers("ended_at", &put, |entry| millis(entry.ended_at))
                .texts("body", &put, |entry| Some((&*entry.body).into()));
            let merge = "ON CONFLICT (key) DO UPDATE SET tenant = excluded.tenant, ended_at = excluded.ended_at, body = excluded.body";
            steps.push(Step::plain(columns.insert(kind.as_str(), merge)));
        }
    }
    let keys = &batch.keys;
    if !keys.is_empty() {
        let columns = Columns::default()
            .texts("tenant", keys, |record| Some(record.key.tenant.as_str().into()))
            .texts("key", keys, |record| Some(record.key.key.as_str().into()))
            .bytes("body_hash", keys, |record| record.body_hash.to_vec())
            .integers("status", keys, |record| Some(i64::from(record.status)))
            .texts("response", keys, |record| Some((&*record.response).into()))
            .integers("expires_at", keys, |record| Some(record.expires_at.millis()));
        let merge = "ON CONFLICT (tenant, key) DO UPDATE SET body_hash = excluded.body_hash, status = excluded.status, \
                     response = excluded.response, expires_at = excluded.expires_at";
        steps.push(Step::plain(columns.insert("idempotency", merge)));
    }
    let lines = &batch.audit;
    if !lines.is_empty() {
        let columns = Columns::default()
            .integers("time", lines, |line| Some(line.time.millis()))
            .texts("actor", lines, |line| Some(line.actor.as_str().into()))
            .texts("tenant", lines, |line| line.tenant.as_ref().map(|tenant| tenant.as_str().into()))
            .texts("action", lines, |line| Some((&*line.action).into()))
            .texts("target", lines, |line| Some(line.target.as_str().into()))
            .texts("outcome", lines, |line| Some((&*line.outcome).into()))
            .texts("request_id", lines, |line| line.request_id.as_deref().map(Into::into));
        steps.push(Step::plain(columns.insert("audit", "")));
    }
    let events = &batch.events;
    if !events.is_empty() {
        let columns = Columns::default().texts("subject", events, |event| Some((&*event.subject).into())).texts(
            "body",
            events,
            |event| Some((&*event.body).into()),
        );
        steps.push(Step::plain(columns.insert("outbox", "")));
    }
}
