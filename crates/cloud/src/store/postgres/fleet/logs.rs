//! Logs in the database that servers share: chunks as rows, and a row for each attempt that sums them up. Only who leads writes,
//! checked by the database with every append.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use orlop_core::error::{Class, Problem};
use orlop_core::id::Epoch;
use orlop_core::named::Named as _;
use orlop_core::task::LogStream;
use orlop_core::time::Time;
use tokio::runtime::Handle;

use super::PostgresFleet;
use super::connection::{Connection, Param};
use super::read::get;
use crate::logs::{Chunk, Gap, LogBackend, LogKey, LogSummary};
use crate::store::fleet::column::{integer, named, natural, small};

/// Rows that are read at once.
const ROWS: i64 = 32;
/// Logs that are deleted at once.
const BATCH: i64 = 200;
/// Attempts whose last position is remembered, in each of two generations.
const REMEMBERED: usize = 65_536;

/// Logs in the database of a [`PostgresFleet`]. Its calls block, and are made outside of asynchronous code.
#[derive(Debug)]
pub struct PostgresLogs {
    runtime: Handle,
    writer: Connection,
    reader: Connection,
    term: Mutex<Term>,
}

/// What is known in a term of leadership.
#[derive(Debug, Default)]
struct Term {
    /// None while this server does not lead.
    epoch: Option<Epoch>,
    /// The last positions that were written in it, and before those.
    last: [BTreeMap<LogKey, u64>; 2],
}

impl Term {
    fn note(&mut self, chunk: &Chunk) {
        let [recent, older] = &mut self.last;
        if recent.len() >= REMEMBERED {
            *older = std::mem::take(recent);
        }
        let last = recent.entry(chunk.key).or_default();
        *last = chunk.seq.max(*last);
    }
}

/// The values of a key, in the order of the columns.
fn parameters(key: &LogKey) -> Vec<Param> {
    let LogKey { job, index, member, attempt } = *key;
    let small = [index, member, attempt].map(|number| Box::new(i64::from(number)) as Param);
    std::iter::once(Box::new(integer(job.as_u64())) as Param).chain(small).collect()
}

const APPEND: &str = "
    WITH fence AS (SELECT 1 FROM leader WHERE id = 1 AND epoch = $1 AND holder <> '' FOR SHARE),
    new AS (
        INSERT INTO log_chunks
        SELECT * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[],
                             $8::bigint[], $9::bigint[], $10::bigint[], $11::bytea[])
        WHERE EXISTS (SELECT 1 FROM fence)
        ON CONFLICT DO NOTHING
        RETURNING job_id, idx, member, attempt, seq, time, gap_bytes, length(data) AS bytes
    ),
    sums AS (
        SELECT job_id, idx, member, attempt, sum(bytes)::bigint AS bytes, count(*) AS chunks,
               sum(gap_bytes)::bigint AS dropped, max(seq) AS last_seq, max(time) AS newest
        FROM new GROUP BY job_id, idx, member, attempt
    ),
    noted AS (
        INSERT INTO logs SELECT * FROM sums
        ON CONFLICT (job_id, idx, member, attempt) DO UPDATE SET
            bytes = logs.bytes + excluded.bytes, chunks = logs.chunks + excluded.chunks,
            dropped = logs.dropped + excluded.dropped, last_seq = greatest(logs.last_seq, excluded.last_seq),
            newest = greatest(logs.newest, excluded.newest)
    )
    SELECT EXISTS (SELECT 1 FROM fence), (SELECT coalesce(sum(bytes), 0)::bigint FROM new)";

const READ: &str = "
    SELECT seq, stream, time, gap_chunks, gap_bytes, data FROM log_chunks
    WHERE job_id = $1 AND idx = $2 AND member = $3 AND attempt = $4 AND seq > $5 AND ($6::text IS NULL OR stream = $6)
    ORDER BY seq LIMIT $7";

const SUMMARY: &str = "
    SELECT bytes, chunks, dropped, last_seq FROM logs WHERE job_id = $1 AND idx = $2 AND member = $3 AND attempt = $4";

/// Deletes the oldest logs that end before a time; gives how many, and their bytes.
const DELETE: &str = "
    WITH fence AS (SELECT 1 FROM leader WHERE id = 1 AND epoch = $3 AND holder <> '' FOR SHARE),
    old AS (
        DELETE FROM logs USING (
            SELECT job_id, idx, member, attempt FROM logs WHERE newest < $1 ORDER BY newest LIMIT $2
        ) AS o
        WHERE (logs.job_id, logs.idx, logs.member, logs.attempt) = (o.job_id, o.idx, o.member, o.attempt)
            AND EXISTS (SELECT 1 FROM fence)
        RETURNING logs.*
    ),
    chunks AS (
        DELETE FROM log_chunks AS c USING old
        WHERE (c.job_id, c.idx, c.member, c.attempt) = (old.job_id, old.idx, old.member, old.attempt)
    )
    SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM old";

fn stands_by() -> Problem {
    Problem::new(Class::Transient, "this server is not the leader, so it stores no logs; try again")
}

impl PostgresFleet {
    /// Logs in this database.
    #[must_use]
    pub fn logs(&self) -> PostgresLogs {
        let (writer, reader) = (self.target.writer(), self.target.reader());
        PostgresLogs { runtime: Handle::current(), writer, reader, term: Mutex::default() }
    }
}

impl PostgresLogs {
    fn term(&self) -> MutexGuard<'_, Term> {
        self.term.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn delete(&self, before: Time, most: i64) -> Result<(u64, u64), Problem> {
        let Some(epoch) = self.term().epoch else { return Ok((0, 0)) };
        let params: Vec<Param> = vec![Box::new(before.millis()), Box::new(most), Box::new(integer(epoch.0))];
        let rows = self.writer.session().await?.query(DELETE, &params).await?;
        let Some(row) = rows.first() else { return Ok((0, 0)) };
        Ok((natural(get(row, 0)?), natural(get(row, 1)?)))
    }

    async fn total(&self) -> Result<u64, Problem> {
        let rows = self.reader.session().await?.query("SELECT coalesce(sum(bytes), 0)::bigint FROM logs", &[]).await?;
        rows.first().map_or(Ok(0), |row| Ok(natural(get(row, 0)?)))
    }
}

impl LogBackend for PostgresLogs {
    fn lead(&self, epoch: Epoch) -> Result<(), Problem> {
        *self.term() = Term { epoch: Some(epoch), ..Term::default() };
        Ok(())
    }

    fn resign(&self) {
        *self.term() = Term::default();
    }

    fn append(&self, chunks: &[Chunk]) -> Result<u64, Problem> {
        let epoch = self.term().epoch.ok_or_else(stands_by)?;
        let numbers = |of: fn(&Chunk) -> i64| Box::new(chunks.iter().map(of).collect::<Vec<_>>()) as Param;
        let params: Vec<Param> = vec![
            Box::new(integer(epoch.0)),
            numbers(|chunk| integer(chunk.key.job.as_u64())),
            numbers(|chunk| chunk.key.index.into()),
            numbers(|chunk| chunk.key.member.into()),
            numbers(|chunk| chunk.key.attempt.into()),
            numbers(|chunk| integer(chunk.seq)),
            Box::new(chunks.iter().map(|chunk| chunk.stream.as_str()).collect::<Vec<_>>()),
            numbers(|chunk| chunk.time.millis()),
            numbers(|chunk| chunk.gap.chunks.into()),
            numbers(|chunk| integer(chunk.gap.bytes)),
            Box::new(chunks.iter().map(|chunk| chunk.data.clone()).collect::<Vec<_>>()),
        ];
        let rows = self.runtime.block_on(async { self.writer.session().await?.query(APPEND, &params).await })?;
        let row = rows.first().ok_or_else(stands_by)?;
        if !get::<bool>(row, 0)? {
            return Err(stands_by());
        }
        let mut term = self.term();
        chunks.iter().for_each(|chunk| term.note(chunk));
        Ok(natural(get(row, 1)?))
    }

    fn read(&self, key: &LogKey, stream: Option<LogStream>, after: u64, bytes: usize) -> Result<Vec<Chunk>, Problem> {
        self.runtime.block_on(async {
            let session = self.reader.session().await?;
            let (mut found, mut after, mut room) = (Vec::new(), after, bytes.max(1));
            loop {
                let mut params = parameters(key);
                params.push(Box::new(integer(after)));
                params.push(Box::new(stream.map(LogStream::as_str)));
                params.push(Box::new(ROWS));
                let rows = session.query(READ, &params).await?;
                for row in &rows {
                    let chunk = Chunk {
                        key: *key,
                        seq: natural(get(row, 0)?),
                        stream: named(get(row, 1)?)?,
                        time: Time::from_millis(get(row, 2)?),
                        gap: Gap { chunks: small(get(row, 3)?)?, bytes: natural(get(row, 4)?) },
                        data: get(row, 5)?,
                    };
                    (after, room) = (chunk.seq, room.saturating_sub(chunk.data.len().max(1)));
                    found.push(chunk);
                    if room == 0 {
                        return Ok(found);
                    }
                }
                if rows.len() as u64 != natural(ROWS) {
                    return Ok(found);
                }
            }
        })
    }

    fn summary(&self, key: &LogKey) -> Result<LogSummary, Problem> {
        let rows =
            self.runtime.block_on(async { self.reader.session().await?.query(SUMMARY, &parameters(key)).await })?;
        let Some(row) = rows.first() else { return Ok(LogSummary::default()) };
        let number = |at| Ok::<_, Problem>(natural(get(row, at)?));
        Ok(LogSummary { bytes: number(0)?, chunks: number(1)?, dropped: number(2)?, last_seq: number(3)? })
    }

    fn has_above(&self, key: &LogKey, seq: u64) -> bool {
        self.term().last.iter().any(|last| last.get(key).is_some_and(|last| *last > seq))
    }

    fn retain(&self, before: Time, bytes: u64) -> Result<u64, Problem> {
        self.runtime.block_on(async {
            let mut gone = 0;
            loop {
                let (logs, bytes) = self.delete(before, BATCH).await?;
                gone += bytes;
                if logs < natural(BATCH) {
                    break;
                }
            }
            let mut total = self.total().await?;
            while total > bytes {
                // One by one near the limit, so that no more goes than must.
                let (logs, deleted) = self.delete(Time::from_millis(i64::MAX), 1).await?;
                if logs == 0 {
                    break;
                }
                gone += deleted;
                total = total.saturating_sub(deleted);
            }
            Ok(gone)
        })
    }
}
