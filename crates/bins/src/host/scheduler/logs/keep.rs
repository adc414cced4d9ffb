//! Logs on their way from agents to their storage: chunks of a session that its worker may write, kept before their frame is
//! acknowledged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use orlop_cloud::logs::{Chunk, Gap};
use orlop_core::error::{Class, Problem};
use orlop_core::named::Named as _;
use orlop_core::ports::bus::EventBody;
use orlop_core::ports::fleet_store::{AttemptFilter, FleetReads, Page};
use orlop_core::task::TaskRef;
use serde_json::json;

use super::super::command::Command;
use super::super::ingress::Lane;
use super::super::session::Session;
use super::super::shared::Shared;
use super::key;
use crate::wire::attempt::{JobResult, LogChunk};

/// Attempts of a job that are looked at.
const PAGE: u32 = 10_000;

/// Keeps the chunks of a frame that belong to the session's worker, and counts them; others are given up, with a word in the
/// server's log. Where the disk has no room, or logs are kept nowhere, they are given up too, so that nothing waits behind
/// them.
///
/// # Errors
/// The store cannot be asked, or the disk does not take them for another reason: the stream ends, and its agent sends them
/// again.
pub(in super::super) async fn keep(shared: &Shared, session: &Session, chunks: Vec<LogChunk>) -> Result<(), Problem> {
    let Some(logs) = &shared.options.logs else {
        give_up(shared, chunks.iter().map(|chunk| chunk.data.len() as u64).sum());
        count_missing(shared, &chunks.iter().filter_map(Missing::before).collect::<Vec<_>>());
        return Ok(());
    };
    let chunks = own(&*shared.store, session, chunks).await?;
    let mut missing: Vec<Missing> = chunks.iter().filter_map(Missing::before).collect();
    let chunk_events = if shared.options.frequent.chunks { chunk_events(shared, &chunks) } else { Vec::new() };
    let attempts: Vec<TaskRef> = chunks.iter().map(LogChunk::attempt).collect();
    let mut kept: Vec<Chunk> = chunks.into_iter().map(stored).collect();
    let guard = &shared.disk_guard;
    if guard.has_none_for_logs() {
        give_up(shared, guard.give_up(&kept));
        count_missing(shared, &missing);
        return Ok(());
    }
    let reported = guard.mark_gaps(&mut kept);
    // What this server gave up stands in the log with what the worker did, and is not to be taken for it later.
    let marked = kept.iter().filter(|chunk| reported.contains_key(&chunk.key));
    missing.extend(marked.filter_map(|chunk| {
        let attempt = attempts.iter().find(|attempt| key(**attempt) == chunk.key)?;
        Some(Missing { attempt: *attempt, seq: chunk.seq, bytes: 0 })
    }));
    let (logs, losses) = (logs.clone(), Arc::clone(&shared.losses));
    let writing = tokio::task::spawn_blocking(move || {
        let learned = missing.iter().try_for_each(|of| losses.learn(of.attempt, || logs.summary(&key(of.attempt))));
        (learned.and_then(|()| logs.append(&kept)), kept, missing)
    });
    let (written, kept, missing) = match writing.await {
        Ok(done) => done,
        Err(panic) => (Err(Problem::new(Class::Fatal, panic.to_string())), Vec::new(), Vec::new()),
    };
    // Who leads by now may have looked at the logs before this was written.
    let late = shared.until.load(Ordering::SeqCst) <= shared.clock.monotonic();
    match written {
        Ok(_) if late => return Err(Problem::new(Class::Transient, "this server is no longer the leader")),
        Ok(bytes) => {
            shared.options.metrics.transport.log_bytes.inc_by(bytes);
            for body in chunk_events {
                // Where the loop has no room for it, it is lost: events tell of what is stored anyway.
                drop(shared.ingress.push(Lane::Control, Command::Publish(Box::new(body))));
            }
        }
        Err(full) if full.class == Class::Capacity => {
            give_up(shared, guard.give_up(&kept));
        }
        Err(other) => {
            // They come again, as they came now.
            guard.remember(reported);
            return Err(other);
        }
    }
    count_missing(shared, &missing);
    Ok(())
}

/// The events of chunks: one for those of a stream that follow one another.
fn chunk_events(shared: &Shared, chunks: &[LogChunk]) -> Vec<EventBody> {
    let time = shared.clock.wall().to_string();
    let runs = chunks.chunk_by(|one, next| (one.r#ref, one.stream) == (next.r#ref, next.stream));
    let body = |run: &[LogChunk]| {
        let (first, last) = (run.first()?, run.last()?);
        let bytes: usize = run.iter().map(|chunk| chunk.data.len()).sum();
        let (attempt, stream) = (first.attempt(), first.log_stream().as_str());
        let data = json!({ "stream": stream, "first_seq": first.seq, "last_seq": last.seq, "bytes": bytes });
        Some(EventBody {
            kind: "log.chunk".to_owned(),
            time: time.clone(),
            job: Some(attempt.job.to_string()),
            index: Some(attempt.index),
            attempt: Some(attempt.attempt),
            epoch: Some(attempt.epoch.0),
            data,
            ..EventBody::default()
        })
    };
    runs.filter_map(body).collect()
}

/// Before ends come that tell of output that is missing: finds out what was counted of it before this server started.
pub(in super::super) async fn expect_ends(shared: &Shared, results: &[JobResult]) {
    let Some(logs) = &shared.options.logs else { return };
    let lost = results.iter().filter(|result| result.log_summary().dropped_bytes > 0);
    let attempts: Vec<TaskRef> = lost.map(JobResult::attempt).collect();
    if attempts.is_empty() {
        return;
    }
    let (logs, losses) = (logs.clone(), Arc::clone(&shared.losses));
    let looking = tokio::task::spawn_blocking(move || {
        attempts.into_iter().try_for_each(|attempt| losses.learn(attempt, || logs.summary(&key(attempt))))
    });
    let looked = looking.await.unwrap_or_else(|panic| Err(Problem::new(Class::Fatal, panic.to_string())));
    if let Err(error) = looked {
        // Bytes that were counted before this server led are counted again.
        tracing::warn!(target: "orlop::scheduler", error = error.chain(), "the stored logs cannot be read");
    }
}

/// Output that its worker dropped before a chunk.
#[derive(Clone, Copy, Debug)]
struct Missing {
    attempt: TaskRef,
    seq: u64,
    bytes: u64,
}

impl Missing {
    fn before(chunk: &LogChunk) -> Option<Self> {
        Some(Self { attempt: chunk.attempt(), seq: chunk.seq, bytes: chunk.gap?.bytes })
    }
}

fn count_missing(shared: &Shared, missing: &[Missing]) {
    let bytes = missing.iter().map(|missing| shared.losses.gap(missing.attempt, missing.seq, missing.bytes)).sum();
    if bytes > 0 {
        shared.options.metrics.transport.log_dropped_bytes.of(["worker"]).inc_by(bytes);
    }
}

/// Counts what this server gives up.
fn give_up(shared: &Shared, bytes: u64) {
    if bytes > 0 {
        shared.options.metrics.transport.log_dropped_bytes.of(["server"]).inc_by(bytes);
    }
}

/// The chunks that the session's worker may write.
async fn own(reads: &dyn FleetReads, session: &Session, chunks: Vec<LogChunk>) -> Result<Vec<LogChunk>, Problem> {
    let mut known: BTreeMap<TaskRef, bool> = BTreeMap::new();
    let mut own = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let attempt = chunk.attempt();
        let owned = match known.get(&attempt).copied().or_else(|| session.owns(attempt)) {
            Some(owned) => owned,
            None => {
                let owned = assigned(reads, session, attempt).await?;
                session.remember(attempt, owned);
                owned
            }
        };
        known.insert(attempt, owned);
        if owned {
            own.push(chunk);
        } else {
            let worker = &session.facts().worker;
            tracing::warn!(target: "orlop::scheduler", %worker, %attempt, "a log of another's attempt was refused");
        }
    }
    Ok(own)
}

/// Whether an attempt was assigned to the session's worker.
async fn assigned(reads: &dyn FleetReads, session: &Session, attempt: TaskRef) -> Result<bool, Problem> {
    let filter = AttemptFilter { index: Some(attempt.index) };
    let found = reads.attempts(attempt.job, &filter, &Page::first(PAGE)).await?;
    Ok(found.items.iter().any(|row| row.attempt.id == attempt && row.attempt.worker == session.facts().worker))
}

fn stored(chunk: LogChunk) -> Chunk {
    let gap = chunk.log_gap().unwrap_or_default();
    Chunk {
        key: key(chunk.attempt()),
        stream: chunk.log_stream(),
        seq: chunk.seq,
        time: chunk.written().unwrap_or_default(),
        gap: Gap { chunks: u32::try_from(gap.chunks).unwrap_or(u32::MAX), bytes: gap.bytes },
        data: chunk.data.to_vec(),
    }
}
