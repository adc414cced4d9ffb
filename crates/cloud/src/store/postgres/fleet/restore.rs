//! Restoring live jobs, and forgetting old ones.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::error::Problem;
use orlop_core::id::{Epoch, JobId};
use orlop_core::named::Named as _;
use orlop_core::ports::fleet_store::{
    ElementSpan, JobKind, Kind, NewSpec, Page, RangeChange, RestorePage, RestoredJob, Retained, Retention, Spans,
    SpecHash,
};

use super::connection::{Connection, Param, Session};
use super::error::classify;
use super::{read, worker};
use crate::store::fleet::column::{damaged, integer, named, natural, small};

/// Specs of these hashes, in order of the hashes.
pub(super) async fn specs(session: &Session, hashes: &BTreeSet<SpecHash>) -> Result<Vec<NewSpec>, Problem> {
    let params: Vec<Param> = vec![Box::new(hashes.iter().map(|hash| hash.0.to_vec()).collect::<Vec<_>>())];
    let rows = session.query("SELECT hash, body FROM specs WHERE hash = ANY($1) ORDER BY hash", &params).await?;
    let spec = |row: &tokio_postgres::Row| {
        let (hash, body): (&[u8], &str) = (read::get(row, 0)?, read::get(row, 1)?);
        let hash = SpecHash(hash.try_into().map_err(|_| damaged("a hash", "other bytes"))?);
        Ok(NewSpec { hash, body: body.into() })
    };
    rows.iter().map(spec).collect()
}

/// Ranges of arrays that were written after their submit.
pub(super) async fn ranges(session: &Session, jobs: Vec<i64>) -> Result<BTreeMap<JobId, Vec<RangeChange>>, Problem> {
    let mut all: BTreeMap<JobId, Vec<RangeChange>> = BTreeMap::new();
    if !jobs.is_empty() {
        let params: Vec<Param> = vec![Box::new(jobs)];
        for row in session.query(read::SELECT_RANGES, &params).await? {
            let range = read::range(&row)?;
            all.entry(range.job).or_default().push(range);
        }
    }
    Ok(all)
}

/// A page of live jobs.
pub(super) async fn restore(session: &Session, page: &Page<JobId>) -> Result<RestorePage, Problem> {
    let select =
        format!("{} WHERE finished_at IS NULL AND jobs.id > $1 ORDER BY jobs.id LIMIT $2", read::select_jobs());
    let after = page.after.map_or(-1, |after| integer(after.as_u64()));
    let params: Vec<Param> = vec![Box::new(after), Box::new(integer(page.size() as u64 + 1))];
    let rows = session.query(&select, &params).await?;
    let mut jobs = Vec::new();
    for row in rows.iter().take(page.size()) {
        jobs.push(RestoredJob { row: read::job(row)?, elements: Spans::default(), attempts: Vec::new() });
    }
    let next = if rows.len() > page.size() { jobs.last().map(|job| job.row.job.id) } else { None };
    let of_kind = |arrays: bool| -> Vec<i64> {
        let some = jobs.iter().filter(|job| (job.row.job.kind == JobKind::Array) == arrays);
        some.map(|job| integer(job.row.job.id.as_u64())).collect()
    };
    let changes = ranges(session, of_kind(true)).await?;
    let mut attempts = BTreeMap::new();
    let select = format!(
        "{} WHERE job_id = ANY($1) AND state NOT IN {ENDED} ORDER BY job_id, idx, attempt, member, epoch",
        read::SELECT_ATTEMPTS
    );
    let params: Vec<Param> = vec![Box::new(of_kind(false))];
    for row in session.query(&select, &params).await? {
        let attempt = read::attempt(&row)?;
        attempts.entry(attempt.attempt.id.job).or_insert_with(Vec::new).push(attempt);
    }
    for job in &mut jobs {
        let id = job.row.job.id;
        if job.row.job.kind == JobKind::Array {
            array(session, job, changes.get(&id).map_or(&[], Vec::as_slice)).await?;
        } else {
            job.attempts = attempts.remove(&id).unwrap_or_default();
        }
    }
    let hashes = jobs.iter().map(|job| job.row.job.spec).collect();
    Ok(RestorePage { specs: specs(session, &hashes).await?, jobs, next })
}

/// States of attempts that nobody has to know after a restart.
const ENDED: &str =
    "('Succeeded', 'Failed', 'TimedOut', 'Cancelled', 'Preempted', 'StartFailed', 'Rejected', 'Revoked')";

/// Neighbouring final elements as one row each, so that an array that is nearly done is restored in little room.
const SPANS: &str = "
    SELECT min(idx), max(idx), state, attempt, epoch, answered FROM (
        SELECT idx, state, attempt, epoch, flags & 1 AS answered,
               idx - row_number() OVER (PARTITION BY state, attempt, epoch, flags & 1 ORDER BY idx) AS island
        FROM elements WHERE job_id = $1 AND finished_at IS NOT NULL) AS done
    GROUP BY island, state, attempt, epoch, answered ORDER BY 1";

async fn array(session: &Session, job: &mut RestoredJob, changes: &[RangeChange]) -> Result<(), Problem> {
    let id: Vec<Param> = vec![Box::new(integer(job.row.job.id.as_u64()))];
    let mut done = Vec::new();
    for row in session.query(SPANS, &id).await? {
        done.push(ElementSpan {
            first: small(read::get(&row, 0)?)?,
            last: small(read::get(&row, 1)?)?,
            state: named(read::get(&row, 2)?)?,
            attempt: small(read::get(&row, 3)?)?,
            epoch: Epoch(natural(read::get(&row, 4)?)),
            answered: read::get::<i64>(&row, 5)? != 0,
        });
    }
    let select = format!("{} AND finished_at IS NULL ORDER BY idx", read::select_elements());
    let live = session.query(&select, &id).await?.iter().map(read::element).collect::<Result<_, _>>()?;
    job.elements = Spans::join(&job.row.job.indices, changes, done, live);
    let select = format!(
        "{} WHERE job_id = $1 AND state NOT IN {ENDED}
         AND idx IN (SELECT idx FROM elements WHERE job_id = $1 AND finished_at IS NULL)
         ORDER BY idx, attempt, member, epoch",
        read::SELECT_ATTEMPTS
    );
    job.attempts = session.query(&select, &id).await?.iter().map(read::attempt).collect::<Result<_, _>>()?;
    Ok(())
}

/// Forgets what is old, in one transaction.
pub(super) async fn retain(connection: &Connection, epoch: Epoch, policy: &Retention) -> Result<Retained, Problem> {
    let session = connection.session().await?;
    session.client.batch_execute("BEGIN").await.map_err(|error| classify("writing", &error))?;
    let forgotten = async {
        worker::fence(&session, epoch).await?;
        forget(&session, policy).await
    };
    let verdict = forgotten.await;
    worker::end(&session, verdict).await
}

async fn forget(session: &Session, policy: &Retention) -> Result<Retained, Problem> {
    let batch = policy.batch.max(1);
    let old = |before: i64| -> Vec<Param> { vec![Box::new(before), Box::new(i64::from(batch))] };
    let select = "SELECT id FROM jobs WHERE finished_at < $1 AND NOT EXISTS
                      (SELECT 1 FROM flows WHERE key = jobs.flow_id AND ended_at IS NULL)
                  ORDER BY finished_at, id LIMIT $2";
    let rows = session.query(select, &old(policy.jobs_before.millis())).await?;
    let jobs = rows.iter().map(|row| read::job_id(row, 0)).collect::<Result<Vec<JobId>, _>>()?;
    let ids: Vec<i64> = jobs.iter().map(|id| integer(id.as_u64())).collect();
    let these = || -> Vec<Param> { vec![Box::new(ids.clone())] };
    let release = "UPDATE specs SET refs = greatest(refs - gone.uses, 0) FROM
                       (SELECT spec_id, count(*) AS uses FROM jobs WHERE id = ANY($1) GROUP BY spec_id) AS gone
                   WHERE specs.id = gone.spec_id";
    session.execute(release, &these()).await?;
    for table in ["array_ranges", "elements", "attempts", "attempt_details"] {
        session.execute(&format!("DELETE FROM {table} WHERE job_id = ANY($1)"), &these()).await?;
    }
    session.execute("DELETE FROM jobs WHERE id = ANY($1)", &these()).await?;
    let mut retained = Retained { more: jobs.len() as u64 == u64::from(batch), jobs, others: 0 };
    let mut deletions = Vec::new();
    for kind in Kind::ALL {
        let kind = kind.as_str();
        let text = format!(
            "DELETE FROM {kind} WHERE key IN (SELECT key FROM {kind} WHERE ended_at < $1 ORDER BY key LIMIT $2)"
        );
        deletions.push((text, old(policy.jobs_before.millis())));
    }
    // Lines are in order of their times but for steps of the clock: only the oldest are looked at.
    let lines = "DELETE FROM audit WHERE number IN (SELECT number FROM audit ORDER BY number LIMIT $2) AND time < $1";
    deletions.push((lines.to_owned(), old(policy.audit_before.millis())));
    let keys = "DELETE FROM idempotency WHERE (tenant, key) IN
                    (SELECT tenant, key FROM idempotency WHERE expires_at <= $1 LIMIT $2)";
    deletions.push((keys.to_owned(), old(policy.now.millis())));
    let specs = "DELETE FROM specs WHERE id IN (SELECT id FROM specs WHERE refs = 0 LIMIT $1)";
    deletions.push((specs.to_owned(), vec![Box::new(i64::from(batch))]));
    for (text, params) in deletions {
        let gone = session.execute(&text, &params).await?;
        retained.others += gone;
        retained.more |= gone == u64::from(batch);
    }
    Ok(retained)
}
