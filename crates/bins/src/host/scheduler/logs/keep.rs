//! Logs on their way from agents to their storage: chunks of a session that its worker may write, kept before their frame is
//! acknowledged. Owns that check and the order; the files are the storage's.

use std::collections::BTreeMap;

use orlop_cloud::logs::{Chunk, Gap, LogStore};
use orlop_core::error::{Class, PortError};
use orlop_core::ports::fleet_store::{AttemptFilter, FleetReads, Page};
use orlop_scheduler::token::AttemptRef;

use super::super::room::Room;
use super::super::session::Session;
use super::{key, stored_stream};
use crate::wire::result::LogChunk;

/// Attempts of a job that are looked at.
const PAGE: u32 = 10_000;

/// Keeps the chunks of a frame that belong to the session's worker; others are given up, with a word in the server's log.
/// Where the disk has no room they are given up too, so that nothing waits behind them: how many bytes is returned.
///
/// # Errors
/// The store cannot be asked, or the disk does not take them for another reason: the stream ends, and its agent sends them
/// again.
pub(in super::super) async fn keep(
    logs: &LogStore,
    reads: &dyn FleetReads,
    (session, room): (&Session, &Room),
    chunks: Vec<LogChunk>,
) -> Result<u64, PortError> {
    let mut own: BTreeMap<AttemptRef, bool> = BTreeMap::new();
    let mut kept = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let known = own.get(&chunk.attempt).copied().or_else(|| session.owns(chunk.attempt));
        let owned = match known {
            Some(owned) => owned,
            None => {
                let owned = assigned(reads, session, chunk.attempt).await?;
                session.remember(chunk.attempt, owned);
                owned
            }
        };
        own.insert(chunk.attempt, owned);
        if owned {
            kept.push(stored(chunk));
        } else {
            let (worker, attempt) = (&session.facts().worker, chunk.attempt);
            tracing::warn!(target: "orlop::scheduler", %worker, %attempt, "a log of another's attempt was refused");
        }
    }
    let bytes = |chunks: &[Chunk]| chunks.iter().map(|chunk| chunk.data.len() as u64).sum();
    if room.has_none_for_logs() {
        room.give_up(&kept);
        return Ok(bytes(&kept));
    }
    let told = room.mark_gaps(&mut kept);
    let logs = logs.clone();
    let writing = tokio::task::spawn_blocking(move || {
        let written = logs.append(&kept).and_then(|()| logs.sync());
        (written, kept)
    });
    let (written, kept) = match writing.await {
        Ok(done) => done,
        Err(panic) => (Err(PortError::new(Class::Fatal, panic.to_string())), Vec::new()),
    };
    match written {
        Ok(()) => Ok(0),
        Err(full) if full.class == Class::Capacity => {
            room.give_up(&kept);
            Ok(bytes(&kept))
        }
        Err(other) => {
            // They come again, as they came now.
            room.remember(told);
            Err(other)
        }
    }
}

/// Whether an attempt was assigned to the session's worker.
async fn assigned(reads: &dyn FleetReads, session: &Session, attempt: AttemptRef) -> Result<bool, PortError> {
    let filter = AttemptFilter { index: Some(attempt.index) };
    let found = reads.attempts(attempt.job, &filter, &Page::first(PAGE)).await?;
    let is_it = |id: &orlop_core::ports::fleet_store::AttemptId| {
        (id.member, id.attempt, id.epoch) == (attempt.member, attempt.attempt, attempt.epoch)
    };
    Ok(found.items.iter().any(|row| is_it(&row.attempt.id) && row.attempt.worker == session.facts().worker))
}

fn stored(chunk: LogChunk) -> Chunk {
    let gap = chunk.gap.unwrap_or_default();
    Chunk {
        key: key(chunk.attempt),
        stream: stored_stream(chunk.stream),
        seq: chunk.seq,
        time: chunk.time.unwrap_or_default(),
        gap: Gap { chunks: u32::try_from(gap.chunks).unwrap_or(u32::MAX), bytes: gap.bytes },
        data: chunk.data.to_vec(),
    }
}
