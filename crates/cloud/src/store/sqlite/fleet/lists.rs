//! Lists: filters and cursors as conditions of statements.

use orlop_core::id::{JobId, TenantName};
use orlop_core::named::Named as _;
use orlop_core::ports::fleet_store::{
    AttemptFilter, AttemptRow, AuditEntry, AuditFilter, ElementCounts, ElementFilter, ElementRow, Entry, EntryFilter,
    IdempotencyKey, IdempotencyRecord, JobFilter, JobRow, Kind, OutboxEvent, OutboxRow, Page, Paged, RangeChange,
    SortOrder, Spans,
};
use orlop_core::task::TaskRef;
use orlop_core::time::Time;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};

use super::read;
use crate::store::fleet::column::{above, integer, natural};
use crate::store::fleet::walk::{PART, Walk};
use crate::store::sqlite::error::CallError;

/// Conditions of a statement with their values.
#[derive(Debug, Default)]
struct Conditions {
    texts: Vec<String>,
    values: Vec<Value>,
}

impl Conditions {
    /// Adds a condition, in which `$` stands for the value.
    fn add(&mut self, condition: &str, value: impl Into<Value>) {
        self.values.push(value.into());
        self.texts.push(condition.replace('$', &format!("?{}", self.values.len())));
    }

    fn plain(&mut self, condition: &str) {
        self.texts.push(condition.to_owned());
    }

    /// One of several values.
    fn among<'a>(&mut self, column: &str, allowed: impl IntoIterator<Item = &'a str>) {
        let mut places = Vec::new();
        for value in allowed {
            self.values.push(value.to_owned().into());
            places.push(format!("?{}", self.values.len()));
        }
        self.texts.push(format!("{column} IN ({})", places.join(", ")));
    }

    fn tenants(&mut self, tenants: Option<&[TenantName]>) {
        if let Some(tenants) = tenants {
            self.among("tenant", tenants.iter().map(TenantName::as_str));
        }
    }

    /// Rows of a statement that holds for all conditions, one more than a page.
    fn rows<T>(
        self,
        connection: &Connection,
        select: &str,
        order: &str,
        size: usize,
        read: impl Fn(&Row<'_>) -> Result<T, CallError>,
    ) -> Result<Vec<T>, CallError> {
        let whole = if self.texts.is_empty() { "true".to_owned() } else { self.texts.join(" AND ") };
        let joint = if select.contains(" WHERE ") { "AND" } else { "WHERE" };
        let statement = format!("{select} {joint} {whole} ORDER BY {order} LIMIT {}", size + 1);
        let mut statement = connection.prepare_cached(&statement)?;
        let mut rows = statement.query(params_from_iter(self.values))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(read(row)?);
        }
        Ok(found)
    }
}

fn down(order: SortOrder) -> bool {
    order == SortOrder::Descending
}

pub(super) fn jobs(
    connection: &Connection,
    filter: &JobFilter,
    page: &Page<JobId>,
) -> Result<Paged<JobRow, JobId>, CallError> {
    let mut conditions = Conditions::default();
    if let Some(after) = page.after {
        conditions.add(if down(filter.order) { "jobs.id < $" } else { "jobs.id > $" }, integer(after.as_u64()));
    }
    conditions.tenants(filter.tenants.as_deref());
    if !filter.states.is_empty() {
        conditions.among("state", filter.states.iter().map(|state| state.as_str()));
        if filter.states.iter().all(|state| !state.is_terminal()) {
            // Says what the states imply, so that the index of live jobs serves.
            conditions.plain("finished_at IS NULL");
        }
    }
    if let Some(since) = filter.since {
        conditions.add("submitted_at >= $", since.millis());
    }
    if let Some(flow) = &filter.flow {
        conditions.add("flow_id = $", flow.clone());
    }
    for (key, value) in &filter.labels {
        // A path would need quotes around the key, which itself may hold some.
        conditions.values.push(key.clone().into());
        let condition = "EXISTS (SELECT 1 FROM json_each(labels) WHERE json_each.key = ?# AND json_each.value = $)";
        let condition = condition.replace('#', &conditions.values.len().to_string());
        conditions.add(&condition, value.clone());
    }
    let order = if down(filter.order) { "jobs.id DESC" } else { "jobs.id" };
    let found = conditions.rows(connection, &read::select_jobs(), order, page.size(), read::job)?;
    Ok(Paged::cut(found, page.size(), |row| row.job.id))
}

/// The later ranges of an array, in the order they were written.
fn changes(connection: &Connection, id: i64) -> Result<Vec<RangeChange>, CallError> {
    let mut changes = Vec::new();
    let mut statement = connection.prepare_cached(read::SELECT_RANGES)?;
    let mut rows = statement.query([id])?;
    while let Some(row) = rows.next()? {
        changes.push(read::range(row)?);
    }
    Ok(changes)
}

/// How many elements of an array are in which state.
pub(super) fn element_counts(connection: &Connection, job: &JobRow) -> Result<ElementCounts, CallError> {
    let id = integer(job.job.id.as_u64());
    let mut recorded = ElementCounts::new();
    let mut statement =
        connection.prepare_cached("SELECT state, count(*) FROM elements WHERE job_id = ?1 GROUP BY state")?;
    let mut rows = statement.query([id])?;
    while let Some(row) = rows.next()? {
        recorded.insert(read::state(row, 0)?, natural(row.get(1)?));
    }
    let mut within =
        connection.prepare_cached("SELECT count(*) FROM elements WHERE job_id = ?1 AND idx BETWEEN ?2 AND ?3")?;
    Spans::counts(&job.job.indices, &changes(connection, id)?, recorded, |first, last| {
        Ok(natural(within.query_row([id, i64::from(first), i64::from(last)], |row| row.get(0))?))
    })
}

/// Elements after a page's cursor: rows where there are some, else parts of ranges, in one order.
pub(super) fn elements(
    connection: &Connection,
    job: &JobRow,
    filter: &ElementFilter,
    page: &Page<u32>,
) -> Result<Paged<ElementRow, u32>, CallError> {
    let id = integer(job.job.id.as_u64());
    let changes = changes(connection, id)?;
    let mut walk = Walk::new(job, &changes, filter, page);
    let select = format!("{} AND idx BETWEEN ?2 AND ?3 ORDER BY idx LIMIT {PART}", read::select_elements());
    let mut statement = connection.prepare_cached(&select)?;
    while let Some((first, last)) = walk.wants() {
        let mut rows = statement.query([id, first, last])?;
        let mut part = Vec::new();
        while let Some(row) = rows.next()? {
            part.push(read::element(row)?);
        }
        walk.feed(part);
    }
    Ok(walk.finish())
}

pub(super) fn attempts(
    connection: &Connection,
    job: JobId,
    filter: &AttemptFilter,
    page: &Page<TaskRef>,
) -> Result<Paged<AttemptRow, TaskRef>, CallError> {
    let mut conditions = Conditions { texts: Vec::new(), values: vec![integer(job.as_u64()).into()] };
    if let Some(index) = filter.index {
        conditions.add("idx = $", i64::from(index));
    }
    if let Some(after) = page.after {
        let values =
            [i64::from(after.index), i64::from(after.attempt), i64::from(after.member), integer(after.epoch.0)];
        let from = conditions.values.len() + 1;
        conditions.values.extend(values.map(Value::from));
        let places: Vec<String> = (from..from + 4).map(|place| format!("?{place}")).collect();
        conditions.plain(&format!("(idx, attempt, member, epoch) > ({})", places.join(", ")));
    }
    let order = "idx, attempt, member, epoch";
    let found = conditions.rows(connection, &read::select_attempts(), order, page.size(), read::attempt)?;
    Ok(Paged::cut(found, page.size(), |row| row.attempt.id))
}

fn entry(kind: Kind, row: &Row<'_>) -> Result<Entry, CallError> {
    let ended_at = row.get::<_, Option<i64>>(2)?.map(Time::from_millis);
    let body: String = row.get(3)?;
    Ok(Entry { kind, key: row.get(0)?, tenant: read::tenant(row, 1)?, ended_at, body: body.into() })
}

pub(super) fn entries(
    connection: &Connection,
    kind: Kind,
    filter: &EntryFilter,
    page: &Page<String>,
) -> Result<Paged<Entry, String>, CallError> {
    let mut conditions = Conditions::default();
    if let Some(after) = &page.after {
        conditions.add("key > $", after.clone());
    }
    if !filter.prefix.is_empty() {
        conditions.add("key >= $", filter.prefix.clone());
        if let Some(bound) = above(&filter.prefix) {
            conditions.add("key < $", bound);
        }
    }
    conditions.tenants(filter.tenants.as_deref());
    if filter.live {
        conditions.plain("ended_at IS NULL");
    }
    let select = format!("SELECT key, tenant, ended_at, body FROM {kind}");
    let found = conditions.rows(connection, &select, "key", page.size(), |row| entry(kind, row))?;
    Ok(Paged::cut(found, page.size(), |entry| entry.key.clone()))
}

pub(super) fn one_entry(connection: &Connection, kind: Kind, key: &str) -> Result<Option<Entry>, CallError> {
    let mut conditions = Conditions::default();
    conditions.add("key = $", key.to_owned());
    let select = format!("SELECT key, tenant, ended_at, body FROM {kind}");
    Ok(conditions.rows(connection, &select, "key", 1, |row| entry(kind, row))?.pop())
}

fn answer(row: &Row<'_>) -> Result<IdempotencyRecord, CallError> {
    let tenant = read::tenant(row, 0)?.ok_or_else(|| crate::store::fleet::column::damaged("a tenant", ""))?;
    let response: String = row.get(4)?;
    Ok(IdempotencyRecord {
        key: IdempotencyKey { tenant, key: row.get(1)? },
        body_hash: row.get(2)?,
        status: row.get(3)?,
        response: response.into(),
        expires_at: Time::from_millis(row.get(5)?),
    })
}

const ANSWERS: &str = "SELECT tenant, key, body_hash, status, response, expires_at FROM idempotency";

pub(super) fn one_answer(
    connection: &Connection,
    key: &IdempotencyKey,
    now: Time,
) -> Result<Option<IdempotencyRecord>, CallError> {
    let mut conditions = Conditions::default();
    conditions.add("tenant = $", key.tenant.to_string());
    conditions.add("key = $", key.key.clone());
    conditions.add("expires_at > $", now.millis());
    Ok(conditions.rows(connection, ANSWERS, "key", 1, answer)?.pop())
}

pub(super) fn answers(
    connection: &Connection,
    now: Time,
    page: &Page<IdempotencyKey>,
) -> Result<Paged<IdempotencyRecord, IdempotencyKey>, CallError> {
    let mut conditions = Conditions::default();
    conditions.add("expires_at > $", now.millis());
    if let Some(after) = &page.after {
        conditions.values.push(after.tenant.to_string().into());
        conditions.add("(tenant, key) > (?2, $)", after.key.clone());
    }
    let found = conditions.rows(connection, ANSWERS, "tenant, key", page.size(), answer)?;
    Ok(Paged::cut(found, page.size(), |record| record.key.clone()))
}

pub(super) fn audit(
    connection: &Connection,
    filter: &AuditFilter,
    page: &Page<u64>,
) -> Result<Paged<AuditEntry, u64>, CallError> {
    let mut conditions = Conditions::default();
    if let Some(after) = page.after {
        conditions.add(if down(filter.order) { "number < $" } else { "number > $" }, integer(after));
    }
    conditions.tenants(filter.tenants.as_deref());
    if let Some(since) = filter.since {
        conditions.add("time >= $", since.millis());
    }
    let select = "SELECT number, time, actor, tenant, action, target, outcome, request_id FROM audit";
    let order = if down(filter.order) { "number DESC" } else { "number" };
    let line = |row: &Row<'_>| {
        let (action, outcome): (String, String) = (row.get(4)?, row.get(6)?);
        Ok(AuditEntry {
            number: natural(row.get(0)?),
            time: Time::from_millis(row.get(1)?),
            actor: row.get(2)?,
            tenant: read::tenant(row, 3)?,
            action: action.into(),
            target: row.get(5)?,
            outcome: outcome.into(),
            request_id: row.get(7)?,
        })
    };
    let found = conditions.rows(connection, select, order, page.size(), line)?;
    Ok(Paged::cut(found, page.size(), |entry| entry.number))
}

pub(super) fn outbox_len(connection: &Connection) -> Result<u64, CallError> {
    Ok(natural(connection.query_row("SELECT count(*) FROM outbox", [], |row| row.get(0))?))
}

pub(super) fn outbox(connection: &Connection, page: &Page<u64>) -> Result<Paged<OutboxRow, u64>, CallError> {
    let mut conditions = Conditions::default();
    if let Some(after) = page.after {
        conditions.add("id > $", integer(after));
    }
    let event = |row: &Row<'_>| {
        let (subject, body): (String, String) = (row.get(1)?, row.get(2)?);
        let event = OutboxEvent { subject: subject.into(), body: body.into() };
        Ok(OutboxRow { id: natural(row.get(0)?), event })
    };
    let found = conditions.rows(connection, "SELECT id, subject, body FROM outbox", "id", page.size(), event)?;
    Ok(Paged::cut(found, page.size(), |row| row.id))
}
