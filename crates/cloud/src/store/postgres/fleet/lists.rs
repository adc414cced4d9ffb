//! Reads and lists: filters and cursors as conditions of statements.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use orlop_core::error::Problem;
use orlop_core::id::{JobId, TenantName};
use orlop_core::machine::job::JobState;
use orlop_core::named::Named as _;
use orlop_core::ports::fleet_store::{
    AttemptDetail, AttemptFilter, AttemptRow, AuditEntry, AuditFilter, ElementCounts, ElementFilter, ElementRow, Entry,
    EntryFilter, FleetReads, IdempotencyKey, IdempotencyRecord, JobFilter, JobRow, Kind, Leader, NewSpec, OutboxEvent,
    OutboxRow, Page, Paged, SortOrder, Spans, SpecHash,
};
use orlop_core::task::TaskRef;
use orlop_core::time::Time;
use tokio_postgres::Row;

use super::connection::{Param, Session};
use super::{PostgresFleet, read, restore};
use crate::store::fleet::column::{above, damaged, integer, natural, small};
use crate::store::fleet::walk::{PART, Walk};

/// Conditions of a statement with their values.
#[derive(Default)]
struct Conditions {
    texts: Vec<String>,
    params: Vec<Param>,
}

impl Conditions {
    /// Adds a condition, in which `?` stands for the value.
    fn add(&mut self, condition: &str, value: Param) {
        self.params.push(value);
        self.texts.push(condition.replace('?', &format!("${}", self.params.len())));
    }

    fn plain(&mut self, condition: &str) {
        self.texts.push(condition.to_owned());
    }

    fn text(&mut self, condition: &str, value: &str) {
        self.add(condition, Box::new(value.to_owned()));
    }

    fn number(&mut self, condition: &str, value: i64) {
        self.add(condition, Box::new(value));
    }

    fn tenants(&mut self, tenants: Option<&[TenantName]>) {
        if let Some(tenants) = tenants {
            self.add("tenant = ANY(?)", Box::new(tenants.iter().map(ToString::to_string).collect::<Vec<_>>()));
        }
    }

    /// Rows for which all conditions hold, one more than a page.
    async fn rows<T>(
        self,
        session: &Session,
        select: &str,
        order: &str,
        size: usize,
        read: impl Fn(&Row) -> Result<T, Problem>,
    ) -> Result<Vec<T>, Problem> {
        let whole = if self.texts.is_empty() { "true".to_owned() } else { self.texts.join(" AND ") };
        let text = format!("{select} WHERE {whole} ORDER BY {order} LIMIT {}", size + 1);
        session.query(&text, &self.params).await?.iter().map(read).collect()
    }
}

fn down(order: SortOrder) -> bool {
    order == SortOrder::Descending
}

/// A text as it was written: the database knows no character zero.
fn stored(text: &str) -> String {
    super::columns::clean(text)
}

fn entry(kind: Kind, row: &Row) -> Result<Entry, Problem> {
    let body: &str = read::get(row, 3)?;
    let (key, tenant, ended_at) = (read::get(row, 0)?, read::tenant(row, 1)?, read::time(row, 2)?);
    Ok(Entry { kind, key, tenant, ended_at, body: body.into() })
}

const ANSWERS: &str = "SELECT tenant, key, body_hash, status, response, expires_at FROM idempotency";

fn answer(row: &Row) -> Result<IdempotencyRecord, Problem> {
    let tenant = read::tenant(row, 0)?.ok_or_else(|| damaged("a tenant", ""))?;
    let (hash, response): (&[u8], &str) = (read::get(row, 2)?, read::get(row, 4)?);
    Ok(IdempotencyRecord {
        key: IdempotencyKey { tenant, key: read::get(row, 1)? },
        body_hash: hash.try_into().map_err(|_| damaged("a hash", "other bytes"))?,
        status: small(read::get(row, 3)?)?,
        response: response.into(),
        expires_at: read::time(row, 5)?.unwrap_or_default(),
    })
}

fn line(row: &Row) -> Result<AuditEntry, Problem> {
    let (action, outcome): (String, String) = (read::get(row, 4)?, read::get(row, 6)?);
    Ok(AuditEntry {
        number: natural(read::get(row, 0)?),
        time: read::time(row, 1)?.unwrap_or_default(),
        actor: read::get(row, 2)?,
        tenant: read::tenant(row, 3)?,
        action: action.into(),
        target: read::get(row, 5)?,
        outcome: outcome.into(),
        request_id: read::get(row, 7)?,
    })
}

#[async_trait]
impl FleetReads for PostgresFleet {
    async fn job(&self, id: JobId) -> Result<Option<JobRow>, Problem> {
        let Ok(number) = i64::try_from(id.as_u64()) else { return Ok(None) };
        let session = self.reader().await?;
        let mut conditions = Conditions::default();
        conditions.number("jobs.id = ?", number);
        Ok(conditions.rows(&session, &read::select_jobs(), "jobs.id", 1, read::job).await?.pop())
    }

    async fn some_jobs(&self, ids: &BTreeSet<JobId>) -> Result<Vec<JobRow>, Problem> {
        let numbers: Vec<i64> = ids.iter().filter_map(|id| i64::try_from(id.as_u64()).ok()).collect();
        let (session, size) = (self.reader().await?, numbers.len());
        let mut conditions = Conditions::default();
        conditions.add("jobs.id = ANY(?)", Box::new(numbers));
        conditions.rows(&session, &read::select_jobs(), "jobs.id", size, read::job).await
    }

    async fn jobs(&self, filter: &JobFilter, page: &Page<JobId>) -> Result<Paged<JobRow, JobId>, Problem> {
        let session = self.reader().await?;
        let mut conditions = Conditions::default();
        if let Some(after) = page.after {
            conditions.number(if down(filter.order) { "jobs.id < ?" } else { "jobs.id > ?" }, integer(after.as_u64()));
        }
        conditions.tenants(filter.tenants.as_deref());
        if !filter.states.is_empty() {
            let states: Vec<&str> = filter.states.iter().map(|state| state.as_str()).collect();
            conditions.add("state = ANY(?)", Box::new(states));
            if filter.states.iter().all(|state| !state.is_terminal()) {
                // Says what the states imply, so that the index of live jobs serves.
                conditions.plain("finished_at IS NULL");
            }
        }
        if let Some(since) = filter.since {
            conditions.number("submitted_at >= ?", since.millis());
        }
        if let Some(flow) = &filter.flow {
            conditions.text("flow_id = ?", &stored(flow));
        }
        for (key, value) in &filter.labels {
            conditions.params.push(Box::new(stored(key)));
            let condition = format!("labels::jsonb ->> ${} = ?", conditions.params.len());
            conditions.text(&condition, &stored(value));
        }
        let order = if down(filter.order) { "jobs.id DESC" } else { "jobs.id" };
        let found = conditions.rows(&session, &read::select_jobs(), order, page.size(), read::job).await?;
        Ok(Paged::cut(found, page.size(), |row| row.job.id))
    }

    async fn spec(&self, hash: &SpecHash) -> Result<Option<NewSpec>, Problem> {
        let session = self.reader().await?;
        Ok(restore::specs(&session, &BTreeSet::from([*hash])).await?.pop())
    }

    async fn elements(
        &self,
        job: JobId,
        filter: &ElementFilter,
        page: &Page<u32>,
    ) -> Result<Paged<ElementRow, u32>, Problem> {
        let Some(job) = self.job(job).await? else { return Ok(Paged { items: Vec::new(), next: None }) };
        let session = self.reader().await?;
        let id = integer(job.job.id.as_u64());
        let changes = restore::ranges(&session, vec![id]).await?;
        let changes = changes.get(&job.job.id).map_or(&[][..], Vec::as_slice);
        let mut walk = Walk::new(&job, changes, filter, page);
        let select = format!("{} AND idx BETWEEN $2 AND $3 ORDER BY idx LIMIT {PART}", read::select_elements());
        while let Some((first, last)) = walk.wants() {
            let params: Vec<Param> = vec![Box::new(id), Box::new(first), Box::new(last)];
            let rows = session.query(&select, &params).await?;
            walk.feed(rows.iter().map(read::element).collect::<Result<_, _>>()?);
        }
        Ok(walk.finish())
    }

    async fn element_counts(&self, jobs: &BTreeSet<JobId>) -> Result<BTreeMap<JobId, ElementCounts>, Problem> {
        let arrays: Vec<JobRow> = self.some_jobs(jobs).await?;
        let arrays: Vec<JobRow> = arrays.into_iter().filter(|row| !row.job.indices.is_empty()).collect();
        let ids: Vec<i64> = arrays.iter().map(|row| integer(row.job.id.as_u64())).collect();
        let session = self.reader().await?;
        let changes = restore::ranges(&session, ids.clone()).await?;
        let select = "SELECT job_id, state, count(*) FROM elements WHERE job_id = ANY($1) GROUP BY job_id, state";
        let mut recorded: BTreeMap<i64, ElementCounts> = BTreeMap::new();
        for row in session.query(select, &[Box::new(ids) as Param]).await? {
            let counts = recorded.entry(read::get(&row, 0)?).or_default();
            counts.insert(read::state(&row, 1)?, natural(read::get(&row, 2)?));
        }
        let mut all = BTreeMap::new();
        for row in arrays {
            let id = integer(row.job.id.as_u64());
            let changes = changes.get(&row.job.id).map_or(&[][..], Vec::as_slice);
            // What was never assigned and has another state is looked up first: there is little of it.
            let parts = Spans::never_assigned(&row.job.indices, changes);
            let mut within = BTreeMap::new();
            for (first, last, _) in parts.iter().filter(|(_, _, unit)| unit.state != JobState::Queued) {
                let select = "SELECT count(*) FROM elements WHERE job_id = $1 AND idx BETWEEN $2 AND $3";
                let params: Vec<Param> = vec![Box::new(id), Box::new(i64::from(*first)), Box::new(i64::from(*last))];
                let rows = session.query(select, &params).await?;
                let count = rows.first().map_or(Ok(0), |row| read::get(row, 0).map(natural))?;
                within.insert((*first, *last), count);
            }
            let recorded = recorded.remove(&id).unwrap_or_default();
            let within = |first, last| Ok::<_, Problem>(within.get(&(first, last)).copied().unwrap_or_default());
            all.insert(row.job.id, Spans::counts(&row.job.indices, changes, recorded, within)?);
        }
        Ok(all)
    }

    async fn attempts(
        &self,
        job: JobId,
        filter: &AttemptFilter,
        page: &Page<TaskRef>,
    ) -> Result<Paged<AttemptRow, TaskRef>, Problem> {
        let session = self.reader().await?;
        let mut conditions = Conditions::default();
        conditions.number("job_id = ?", integer(job.as_u64()));
        if let Some(index) = filter.index {
            conditions.number("idx = ?", i64::from(index));
        }
        if let Some(after) = page.after {
            let values =
                [i64::from(after.index), i64::from(after.attempt), i64::from(after.member), integer(after.epoch.0)];
            let from = conditions.params.len() + 1;
            conditions.params.extend(values.map(|value| Box::new(value) as Param));
            let places: Vec<String> = (from..from + 4).map(|place| format!("${place}")).collect();
            conditions.plain(&format!("(idx, attempt, member, epoch) > ({})", places.join(", ")));
        }
        let order = "idx, attempt, member, epoch";
        let found = conditions.rows(&session, read::SELECT_ATTEMPTS, order, page.size(), read::attempt).await?;
        Ok(Paged::cut(found, page.size(), |row| row.attempt.id))
    }

    async fn detail(&self, attempt: &TaskRef) -> Result<Option<AttemptDetail>, Problem> {
        let session = self.reader().await?;
        let mut conditions = Conditions::default();
        conditions.number("job_id = ?", integer(attempt.job.as_u64()));
        conditions.number("idx = ?", i64::from(attempt.index));
        conditions.number("attempt = ?", i64::from(attempt.attempt));
        conditions.number("member = ?", i64::from(attempt.member));
        conditions.number("epoch = ?", integer(attempt.epoch.0));
        let detail = |row: &Row| {
            let (body, tail): (&str, Vec<u8>) = (read::get(row, 0)?, read::get(row, 1)?);
            Ok(AttemptDetail { body: body.into(), tail })
        };
        let select = "SELECT body, tail FROM attempt_details";
        Ok(conditions.rows(&session, select, "job_id", 1, detail).await?.pop())
    }

    async fn entry(&self, kind: Kind, key: &str) -> Result<Option<Entry>, Problem> {
        let session = self.reader().await?;
        let mut conditions = Conditions::default();
        conditions.text("key = ?", &stored(key));
        let select = format!("SELECT key, tenant, ended_at, body FROM {kind}");
        Ok(conditions.rows(&session, &select, "key", 1, |row| entry(kind, row)).await?.pop())
    }

    async fn entries(
        &self,
        kind: Kind,
        filter: &EntryFilter,
        page: &Page<String>,
    ) -> Result<Paged<Entry, String>, Problem> {
        let session = self.reader().await?;
        let mut conditions = Conditions::default();
        if let Some(after) = &page.after {
            conditions.text("key > ?", &stored(after));
        }
        if !filter.prefix.is_empty() {
            let prefix = stored(&filter.prefix);
            conditions.text("key >= ?", &prefix);
            if let Some(bound) = above(&prefix) {
                conditions.text("key < ?", &bound);
            }
        }
        conditions.tenants(filter.tenants.as_deref());
        if filter.live {
            conditions.plain("ended_at IS NULL");
        }
        let select = format!("SELECT key, tenant, ended_at, body FROM {kind}");
        let found = conditions.rows(&session, &select, "key", page.size(), |row| entry(kind, row)).await?;
        Ok(Paged::cut(found, page.size(), |entry| entry.key.clone()))
    }

    async fn idempotency(&self, key: &IdempotencyKey, now: Time) -> Result<Option<IdempotencyRecord>, Problem> {
        let session = self.reader().await?;
        let mut conditions = Conditions::default();
        conditions.text("tenant = ?", key.tenant.as_str());
        conditions.text("key = ?", &stored(&key.key));
        conditions.number("expires_at > ?", now.millis());
        Ok(conditions.rows(&session, ANSWERS, "key", 1, answer).await?.pop())
    }

    async fn idempotency_keys(
        &self,
        now: Time,
        page: &Page<IdempotencyKey>,
    ) -> Result<Paged<IdempotencyRecord, IdempotencyKey>, Problem> {
        let session = self.reader().await?;
        let mut conditions = Conditions::default();
        conditions.number("expires_at > ?", now.millis());
        if let Some(after) = &page.after {
            conditions.params.push(Box::new(after.tenant.to_string()));
            conditions.text("(tenant, key) > ($2, ?)", &stored(&after.key));
        }
        let found = conditions.rows(&session, ANSWERS, "tenant, key", page.size(), answer).await?;
        Ok(Paged::cut(found, page.size(), |record| record.key.clone()))
    }

    async fn audit(&self, filter: &AuditFilter, page: &Page<u64>) -> Result<Paged<AuditEntry, u64>, Problem> {
        let session = self.reader().await?;
        let mut conditions = Conditions::default();
        if let Some(after) = page.after {
            conditions.number(if down(filter.order) { "number < ?" } else { "number > ?" }, integer(after));
        }
        conditions.tenants(filter.tenants.as_deref());
        if let Some(since) = filter.since {
            conditions.number("time >= ?", since.millis());
        }
        let select = "SELECT number, time, actor, tenant, action, target, outcome, request_id FROM audit";
        let order = if down(filter.order) { "number DESC" } else { "number" };
        let found = conditions.rows(&session, select, order, page.size(), line).await?;
        Ok(Paged::cut(found, page.size(), |entry| entry.number))
    }

    async fn outbox(&self, page: &Page<u64>) -> Result<Paged<OutboxRow, u64>, Problem> {
        let session = self.reader().await?;
        let mut conditions = Conditions::default();
        if let Some(after) = page.after {
            conditions.number("id > ?", integer(after));
        }
        let event = |row: &Row| {
            let (subject, body): (String, &str) = (read::get(row, 1)?, read::get(row, 2)?);
            let event = OutboxEvent { subject: subject.into(), body: body.into() };
            Ok(OutboxRow { id: natural(read::get(row, 0)?), event })
        };
        let found = conditions.rows(&session, "SELECT id, subject, body FROM outbox", "id", page.size(), event).await?;
        Ok(Paged::cut(found, page.size(), |row| row.id))
    }

    async fn outbox_len(&self) -> Result<u64, Problem> {
        let session = self.reader().await?;
        let rows = session.query("SELECT count(*) FROM outbox", &[]).await?;
        rows.first().map_or(Ok(0), |row| read::get(row, 0).map(natural))
    }

    async fn leader(&self) -> Result<Option<Leader>, Problem> {
        let session = self.reader().await?;
        read::leader(&session).await
    }
}
