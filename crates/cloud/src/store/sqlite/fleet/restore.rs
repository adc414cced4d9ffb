//! Restoring live jobs, and forgetting old ones.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::id::JobId;
use orlop_core::named::Named as _;
use orlop_core::ports::fleet_store::{
    AttemptRow, ElementRow, JobKind, JobRow, Kind, Page, RestorePage, RestoredJob, Retained, Retention, Spans, SpecHash,
};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, params};

use super::{read, specs};
use crate::store::fleet::column::{integer, natural};
use crate::store::sqlite::error::CallError;

/// A page of live jobs.
pub(super) fn restore(connection: &Connection, page: &Page<JobId>) -> Result<RestorePage, CallError> {
    let statement = format!(
        "{} WHERE jobs.finished_at IS NULL AND jobs.id > ?1 ORDER BY jobs.id LIMIT {}",
        read::select_jobs(),
        page.size() + 1
    );
    let mut statement = connection.prepare_cached(&statement)?;
    let mut rows = statement.query([page.after.map_or(-1, |after| integer(after.as_u64()))])?;
    let mut attempts = Attempts::prepare(connection)?;
    let mut jobs = Vec::new();
    let mut more = false;
    while let Some(row) = rows.next()? {
        if jobs.len() == page.size() {
            more = true;
            break;
        }
        jobs.push(restored(connection, &mut attempts, read::job(row)?)?);
    }
    let hashes: BTreeSet<SpecHash> = jobs.iter().map(|job: &RestoredJob| job.row.job.spec).collect();
    let specs = hashes.iter().filter_map(|hash| specs::find(connection, hash).transpose()).collect::<Result<_, _>>()?;
    let next = if more { jobs.last().map(|job| job.row.job.id) } else { None };
    Ok(RestorePage { jobs, specs, next })
}

fn restored(connection: &Connection, attempts: &mut Attempts<'_>, row: JobRow) -> Result<RestoredJob, CallError> {
    let mut found = Vec::new();
    if row.job.kind != JobKind::Array {
        attempts.open(row.job.id, None, &mut found)?;
        return Ok(RestoredJob { row, elements: Spans::default(), attempts: found });
    }
    let elements = spans(connection, &row)?;
    for element in &elements.live {
        attempts.open(row.job.id, Some(element.index), &mut found)?;
    }
    Ok(RestoredJob { row, elements, attempts: found })
}

fn spans(connection: &Connection, job: &JobRow) -> Result<Spans, CallError> {
    let id = integer(job.job.id.as_u64());
    let mut changes = Vec::new();
    let mut statement = connection.prepare_cached(read::SELECT_RANGES)?;
    let mut rows = statement.query([id])?;
    while let Some(row) = rows.next()? {
        changes.push(read::range(row)?);
    }
    let mut statement = connection.prepare_cached(&format!("{} ORDER BY idx", read::select_elements()))?;
    let mut rows = statement.query([id])?;
    let mut failure = None;
    let elements = std::iter::from_fn(|| {
        let next: Result<Option<ElementRow>, CallError> =
            rows.next().map_err(CallError::from).and_then(|row| row.map(read::element).transpose());
        next.unwrap_or_else(|trouble| {
            failure = Some(trouble);
            None
        })
    });
    let spans = Spans::fold(&job.job.indices, &changes, elements);
    failure.map_or(Ok(spans), Err)
}

/// The statements that find attempts, prepared once for many jobs.
struct Attempts<'a> {
    of_job: CachedStatement<'a>,
    of_element: CachedStatement<'a>,
}

impl<'a> Attempts<'a> {
    fn prepare(connection: &'a Connection) -> Result<Self, CallError> {
        let order = "ORDER BY idx, attempt, member, epoch";
        Ok(Self {
            of_job: connection.prepare_cached(&format!("{} {order}", read::select_attempts()))?,
            of_element: connection.prepare_cached(&format!("{} AND idx = ?2 {order}", read::select_attempts()))?,
        })
    }

    /// Adds the attempts of a job or an element that a server has to know.
    fn open(&mut self, job: JobId, index: Option<u32>, found: &mut Vec<AttemptRow>) -> Result<(), CallError> {
        let id = integer(job.as_u64());
        let mut rows = match index {
            Some(index) => self.of_element.query(params![id, index])?,
            None => self.of_job.query([id])?,
        };
        while let Some(row) = rows.next()? {
            let attempt = read::attempt(row)?;
            if attempt.is_open() {
                found.push(attempt);
            }
        }
        Ok(())
    }
}

/// Forgets what is old.
pub(super) fn retain(connection: &Connection, policy: &Retention) -> Result<Retained, CallError> {
    let batch = i64::from(policy.batch.max(1));
    let mut retained = Retained { jobs: old_jobs(connection, policy)?, ..Retained::default() };
    let mut uses: BTreeMap<i64, i64> = BTreeMap::new();
    for id in &retained.jobs {
        let id = integer(id.as_u64());
        for table in ["array_ranges", "elements", "attempts", "attempt_details"] {
            connection.prepare_cached(&format!("DELETE FROM {table} WHERE job_id = ?1"))?.execute([id])?;
        }
        let mut statement = connection.prepare_cached("DELETE FROM jobs WHERE id = ?1 RETURNING spec_id")?;
        let spec: Option<i64> = statement.query_row([id], |row| row.get(0)).optional()?;
        *uses.entry(spec.unwrap_or(0)).or_default() += 1;
    }
    for (spec, gone) in uses {
        let mut statement = connection.prepare_cached("UPDATE specs SET refs = max(refs - ?2, 0) WHERE id = ?1")?;
        statement.execute([spec, gone])?;
    }
    retained.more = retained.jobs.len() as u64 == natural(batch);
    let mut count = |gone: usize| {
        retained.others += gone as u64;
        retained.more |= gone as u64 == natural(batch);
    };
    let ended = policy.jobs_before.millis();
    for kind in Kind::ALL {
        let kind = kind.as_str();
        let mut statement = connection.prepare_cached(&format!(
            "DELETE FROM {kind} WHERE key IN (SELECT key FROM {kind} WHERE ended_at < ?1 ORDER BY key LIMIT ?2)"
        ))?;
        count(statement.execute([ended, batch])?);
    }
    // Lines are in order of their times but for steps of the clock: only the oldest are looked at.
    let mut statement = connection.prepare_cached(
        "DELETE FROM audit WHERE number IN (SELECT number FROM audit ORDER BY number LIMIT ?2) AND time < ?1",
    )?;
    count(statement.execute([policy.audit_before.millis(), batch])?);
    let mut statement = connection.prepare_cached(
        "DELETE FROM idempotency WHERE (tenant, key) IN
            (SELECT tenant, key FROM idempotency WHERE expires_at <= ?1 LIMIT ?2)",
    )?;
    count(statement.execute([policy.now.millis(), batch])?);
    count(specs::forget_unused(connection, batch)?);
    Ok(retained)
}

/// Jobs that ended before the policy's time. Ids are in order of submission, and a job ends after its submit: the walk ends
/// at the first job that is too young to have ended before.
fn old_jobs(connection: &Connection, policy: &Retention) -> Result<Vec<JobId>, CallError> {
    let mut statement = connection.prepare_cached(
        "SELECT id, submitted_at, finished_at, flow_id IS NOT NULL
            AND EXISTS (SELECT 1 FROM flows WHERE key = flow_id AND ended_at IS NULL) FROM jobs ORDER BY id",
    )?;
    let mut rows = statement.query([])?;
    let before = policy.jobs_before.millis();
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (id, submitted, finished): (i64, i64, Option<i64>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if submitted >= before || found.len() >= policy.batch.max(1) as usize {
            break;
        }
        // What a flow has done is read as long as it lives.
        let of_live_flow: bool = row.get(3)?;
        if finished.is_some_and(|at| at < before) && !of_live_flow {
            found.push(JobId::from_u64(natural(id)));
        }
    }
    Ok(found)
}
