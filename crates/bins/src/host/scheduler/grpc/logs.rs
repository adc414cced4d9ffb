//! Logs for clients: what is kept, then what comes. Owns the reading page by page; a short log is the tail of its result.

use futures::Stream;
use orlop_cloud::logs::{Chunk, LogKey, LogStore};
use orlop_core::id::JobId;
use orlop_core::ports::fleet_store::{AttemptFilter, AttemptId, AttemptRow, Page};
use orlop_scheduler::token::AttemptRef;
use tokio::sync::watch::Receiver;

use super::super::{Error, Handle, Stop, error, logs};
use crate::wire::grpc::Refusal;
use crate::wire::problem::Code;
use crate::wire::query::{LogPage, LogQuery};
use crate::wire::result::{LogChunk, LogGap, LogStream};

/// About the bytes of one page.
const BYTES: usize = 1 << 20;

struct Reading {
    handle: Handle,
    stop: Stop,
    store: Option<(LogStore, Receiver<u64>)>,
    query: LogQuery,
    id: AttemptId,
    /// The last chunk that was given.
    after: u64,
    over: bool,
}

/// The pages of a log.
pub(super) async fn pages(
    handle: Handle,
    stop: Stop,
    query: LogQuery,
) -> Result<impl Stream<Item = Result<LogPage, Refusal>> + Send, Error> {
    handle.job(query.job).await?;
    let id = attempt(&handle, &query).await?.attempt.id;
    let store = handle.options().logs.clone().map(|store| {
        let changes = store.changes();
        (store, changes)
    });
    let after = query.since_seq.saturating_sub(1);
    let reading = Reading { handle, stop, store, query, id, after, over: false };
    Ok(futures::stream::unfold(reading, async |mut reading: Reading| {
        let page = reading.next().await?;
        Some((page, reading))
    }))
}

/// The attempt that is asked for: the latest, unless one is named.
async fn attempt(handle: &Handle, query: &LogQuery) -> Result<AttemptRow, Error> {
    let filter = AttemptFilter { index: Some(query.index.unwrap_or(0)) };
    let rows = handle.store().attempts(query.job, &filter, &Page::first(10_000)).await;
    let rows = rows.map_err(|wrong| error::port(&wrong))?;
    let wanted = |row: &AttemptRow| query.attempt.is_none_or(|number| row.attempt.id.attempt == number);
    let row = rows.items.into_iter().rfind(wanted);
    row.ok_or_else(|| error::not_found(format_args!("an attempt of job {}", query.job)))
}

impl Reading {
    async fn next(&mut self) -> Option<Result<LogPage, Refusal>> {
        loop {
            if self.over {
                return None;
            }
            match self.page().await {
                Ok(page) if page.chunks.is_empty() && !page.end => {
                    let changes = &mut self.store.as_mut()?.1;
                    tokio::select! {
                        () = self.stop.stopped() => return None,
                        changed = changes.changed() => changed.ok()?,
                        // An end that came without a chunk is seen too.
                        ended = self.handle.ended(self.query.job) => if ended.is_err() { return None },
                    }
                }
                Ok(page) => {
                    self.over = page.end;
                    return Some(Ok(page));
                }
                Err(wrong) => {
                    self.over = true;
                    return Some(Err(wrong));
                }
            }
        }
    }

    /// What is there beyond the last page; an end where nothing can follow.
    async fn page(&mut self) -> Result<LogPage, Error> {
        // Asked before the reading: what is written after that is read by the next page.
        let row = attempt(&self.handle, &LogQuery { attempt: Some(self.id.attempt), ..self.query.clone() }).await?;
        let ended = row.state.is_end();
        let chunks = self.kept().await?;
        if !chunks.is_empty() {
            self.after = chunks.last().map_or(self.after, |chunk| chunk.seq);
            let wanted = |chunk: &Chunk| self.query.since.is_none_or(|since| chunk.time >= since);
            let chunks = chunks.into_iter().filter(wanted).map(|chunk| self.told(chunk)).collect();
            return Ok(LogPage { chunks, end: false });
        }
        if self.after == 0 && ended {
            return Ok(LogPage { chunks: self.tail().await?.into_iter().collect(), end: true });
        }
        Ok(LogPage { chunks: Vec::new(), end: ended || !self.query.follow || self.store.is_none() })
    }

    async fn kept(&self) -> Result<Vec<Chunk>, Error> {
        let Some((store, _)) = &self.store else { return Ok(Vec::new()) };
        let (store, stream, after) = (store.clone(), self.query.stream.map(logs::stream), self.after);
        let AttemptId { job, index, member, attempt, .. } = self.id;
        let key = LogKey { job, index, member, attempt };
        let read = tokio::task::spawn_blocking(move || store.read(&key, stream, after, BYTES)).await;
        let read = read.map_err(|panic| error::problem(Code::Internal, panic.to_string()))?;
        read.map_err(|wrong| error::port(&wrong))
    }

    /// All of a log that was so short that it came with the result.
    async fn tail(&self) -> Result<Option<LogChunk>, Error> {
        let detail = self.handle.store().detail(&self.id).await.map_err(|wrong| error::port(&wrong))?;
        let tail = detail.map(|detail| detail.tail).filter(|tail| !tail.is_empty());
        let (attempt, stream) = (self.reference(), LogStream::Stdout);
        Ok(tail.map(|data| LogChunk { attempt, stream, seq: 1, time: None, data: data.into(), gap: None }))
    }

    fn reference(&self) -> AttemptRef {
        let AttemptId { job, index, member, attempt, epoch } = self.id;
        AttemptRef { job: JobId::from_u64(job.as_u64()), index, member, attempt, epoch }
    }

    fn told(&self, chunk: Chunk) -> LogChunk {
        let gap = LogGap { chunks: u64::from(chunk.gap.chunks), bytes: chunk.gap.bytes };
        LogChunk {
            attempt: self.reference(),
            stream: logs::wire_stream(chunk.stream),
            seq: chunk.seq,
            time: Some(chunk.time),
            data: chunk.data.into(),
            gap: (gap != LogGap::default()).then_some(gap),
        }
    }
}
