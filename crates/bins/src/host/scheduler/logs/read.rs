//! The log of a job, read to its end or followed while more comes. It is woken by what is appended and by changes of the job;
//! it never polls.

use std::time::Duration;

use orlop_cloud::logs::{Chunk, LogKey, LogStore};
use orlop_core::error::{Code, Problem};
use orlop_core::id::{Epoch, JobId};
use orlop_core::machine::job::JobState;
use orlop_core::ports::fleet_store::{AttemptFilter, AttemptRow, ElementFilter, JobKind, Page, TaskStatus};
use orlop_core::task::{LogGap, LogStream, TaskRef};
use orlop_core::time::Time;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::super::{Handle, Stop, error};
use crate::wire::attempt::LogChunk;

/// About the bytes of one reading.
const BYTES: usize = 1 << 20;
/// Between two looks whether something came, where many logs are read beside each other.
const OTHERS: Duration = Duration::from_millis(20);
/// About the bytes of one reading there.
const PIECE: usize = 64 << 10;
/// How long the rest of a log may take that comes behind its result, without any of it coming.
const REST: Duration = Duration::from_secs(5);

/// From this age of the result on it is not waited for any more.
const LATE: Duration = Duration::from_secs(60);

/// Which log is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOrder {
    /// Of which job.
    pub job: JobId,
    /// Of which element of an array or member of a gang; else 0.
    pub index: u32,
    /// Only of this attempt; none = of the one reading begins with and, where it is followed, of those after it.
    pub attempt: Option<u32>,
    /// The attempt reading begins with; none = the latest.
    pub from: Option<u32>,
    /// Chunks of the first attempt up to this one are known already.
    pub after: u64,
    /// Of which stream; none = of all.
    pub stream: Option<LogStream>,
    /// What was written before is left out; what nobody knows the time of stays.
    pub since: Option<Time>,
    /// Whether what comes later is read too, until the job has ended.
    pub follow: bool,
}

impl LogOrder {
    /// All of what there is of a job's latest attempt.
    #[must_use]
    pub fn of(job: JobId) -> Self {
        let (index, attempt, from, after, stream, since) = (0, None, None, 0, None, None);
        Self { job, index, attempt, from, after, stream, since, follow: false }
    }
}

/// What a reading brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogNews {
    /// Chunks, at least one. One without data only tells what is missing.
    Chunks(Vec<LogChunk>),
    /// Nothing follows. The state of the job or element.
    End(JobState),
}

enum Step {
    News(LogNews),
    Again,
    /// Until something happens, or for so long.
    Wait(Option<Duration>),
}

/// The attempt that is read.
struct Current {
    id: TaskRef,
    /// The last chunk that was given.
    after: u64,
    /// The last chunk of any stream that was there.
    seen: u64,
    /// Its tail was given.
    tail: bool,
    /// Since when the rest of it is waited for.
    waiting: Option<Instant>,
    /// The attempt, where it has ended and nothing is followed.
    ended: Option<AttemptRow>,
}

/// A log that is read.
pub struct LogReader {
    handle: Handle,
    stop: Stop,
    order: LogOrder,
    store: Option<(LogStore, watch::Receiver<u64>)>,
    change: Option<oneshot::Receiver<()>>,
    current: Option<Current>,
    /// Many logs are read beside this one.
    beside: bool,
    /// What is read where nothing is followed: as it was when reading began.
    part: Option<LoggedTask>,
}

/// Where the job, element or member stands whose log is read.
#[derive(Clone, Debug)]
pub(super) struct LoggedTask {
    pub(super) kind: JobKind,
    pub(super) unit: TaskStatus,
}

impl std::fmt::Debug for LogReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogReader").field("order", &self.order).finish_non_exhaustive()
    }
}

impl LogReader {
    /// Begins to read.
    ///
    /// # Errors
    /// This server does not lead, so it has not seen the latest; or there is no such job, element or attempt.
    pub async fn open(handle: Handle, stop: Stop, order: LogOrder) -> Result<Self, Problem> {
        handle.leader_snapshot()?;
        let mut reader = Self::new(handle, stop, order);
        let part = reader.part().await?;
        reader.begin_with(part)?;
        Ok(reader)
    }

    /// Begins to read a part of a job that was looked up before. It reads in small pieces, for there are many beside it.
    ///
    /// # Errors
    /// There is no such attempt.
    pub(super) fn of_part(handle: Handle, stop: Stop, order: LogOrder, part: LoggedTask) -> Result<Self, Problem> {
        let mut reader = Self { beside: true, ..Self::new(handle, stop, order) };
        reader.begin_with(part)?;
        Ok(reader)
    }

    fn new(handle: Handle, stop: Stop, order: LogOrder) -> Self {
        let store = handle.options().logs.clone().map(|store| {
            let changes = store.changes();
            (store, changes)
        });
        Self { handle, stop, order, store, change: None, current: None, beside: false, part: None }
    }

    fn begin_with(&mut self, part: LoggedTask) -> Result<(), Problem> {
        let named = self.order.attempt.or(self.order.from);
        if !self.order.follow && named.is_some_and(|attempt| attempt == 0 || attempt > part.unit.attempt) {
            return Err(self.no_attempt());
        }
        self.part = (!self.order.follow).then_some(part);
        Ok(())
    }

    /// What comes next; none when the server ends.
    ///
    /// # Errors
    /// The store or the storage cannot be read now; or the attempt that was named never came.
    pub async fn next(&mut self) -> Result<Option<LogNews>, Problem> {
        loop {
            // Before anything is read: what changes after that is not missed.
            if self.order.follow && self.change.is_none() {
                self.change = Some(self.handle.watch(self.order.job, self.order.index).await?);
            }
            if let Some((_, appended)) = &mut self.store {
                appended.mark_unchanged();
            }
            match self.step().await? {
                Step::News(news) => return Ok(Some(news)),
                Step::Again => {}
                Step::Wait(limit) => {
                    if !self.wait(limit).await {
                        return Ok(None);
                    }
                }
            }
        }
    }

    async fn step(&mut self) -> Result<Step, Problem> {
        let part = match &self.part {
            Some(part) => part.clone(),
            None => self.part().await?,
        };
        let unit = &part.unit;
        let Some(current) = &self.current else { return self.first(&part).await };
        let attempt = match current.ended.clone() {
            Some(ended) => ended,
            None => self.attempt(part.kind, current.id.attempt).await?.ok_or_else(|| self.no_attempt())?,
        };
        if let Some(current) = self.current.as_mut().filter(|_| attempt.state.is_end() && !self.order.follow) {
            current.ended = Some(attempt.clone());
        }
        let chunks = self.kept().await?;
        if !chunks.is_empty() {
            return Ok(if chunks.iter().any(|chunk| self.wanted(chunk)) {
                Step::News(LogNews::Chunks(chunks.into_iter().filter(|chunk| self.wanted(chunk)).collect()))
            } else {
                Step::Again
            });
        }
        if !attempt.state.is_end() {
            return Ok(if self.order.follow { Step::Wait(None) } else { Step::News(LogNews::End(unit.state)) });
        }
        if let Some(step) = self.rest(&attempt).await? {
            return Ok(step);
        }
        self.after_end(&part, &attempt).await
    }

    /// Finds the attempt that reading begins with.
    async fn first(&mut self, LoggedTask { kind, unit }: &LoggedTask) -> Result<Step, Problem> {
        let named = self.order.attempt.or(self.order.from);
        let number = named.unwrap_or(unit.attempt).max(1);
        if let Some(found) = self.attempt(*kind, number).await? {
            self.begin(found.attempt.id, self.order.after);
            return Ok(Step::Again);
        }
        match (unit.state.is_terminal() || !self.order.follow, named) {
            (true, Some(_)) => Err(self.no_attempt()),
            (true, None) => Ok(Step::News(LogNews::End(unit.state))),
            (false, _) => Ok(Step::Wait(None)),
        }
    }

    fn begin(&mut self, id: TaskRef, after: u64) {
        self.current = Some(Current { id, after, seen: after, tail: false, waiting: None, ended: None });
    }

    /// What is still to come of an attempt that has ended: its tail, or chunks that come behind the result.
    async fn rest(&mut self, attempt: &AttemptRow) -> Result<Option<Step>, Problem> {
        let detail = self.handle.store().detail(&attempt.attempt.id).await?;
        let (Some(detail), Some(current)) = (detail, &mut self.current) else { return Ok(None) };
        let body: serde_json::Value = serde_json::from_str(&detail.body).unwrap_or_default();
        let last = body["log"]["last_seq"].as_u64().unwrap_or_default();
        if last == 0 {
            let given = std::mem::replace(&mut current.tail, true) || current.after > 0 || detail.tail.is_empty();
            let tail = LogChunk::new(current.id, LogStream::Stdout, 1, detail.tail)
                .with_time_and_gap(attempt.finished_at, None);
            let reported =
                !given && self.order.stream.is_none_or(|stream| stream == LogStream::Stdout) && self.wanted(&tail);
            return Ok(reported.then(|| Step::News(LogNews::Chunks(vec![tail]))));
        }
        // Of a log that nobody keeps nothing comes.
        if last <= current.seen.max(current.after) || self.store.is_none() {
            return Ok(None);
        }
        let waited = current.waiting.get_or_insert_with(Instant::now).elapsed();
        let over = attempt.finished_at.is_some_and(|at| at.plus(LATE) < self.handle.clock().wall());
        if let Some(left) = REST.checked_sub(waited).filter(|left| !left.is_zero() && !over) {
            return Ok(Some(Step::Wait(Some(left))));
        }
        let missing = LogGap { chunks: last - current.seen.max(current.after), bytes: 0 };
        (current.after, current.seen) = (last, last);
        let gap = LogChunk::new(current.id, LogStream::System, last, Vec::new()).with_time_and_gap(None, Some(missing));
        Ok(Some(Step::News(LogNews::Chunks(vec![gap]))))
    }

    /// Goes on to the next attempt, if it is wanted and there is or may be one.
    async fn after_end(&mut self, LoggedTask { kind, unit }: &LoggedTask, ended: &AttemptRow) -> Result<Step, Problem> {
        let goes_on = self.order.attempt.is_none() && (self.order.follow || self.order.from.is_some());
        if !goes_on {
            return Ok(Step::News(LogNews::End(unit.state)));
        }
        if let Some(next) = self.attempt(*kind, ended.attempt.id.attempt + 1).await? {
            self.begin(next.attempt.id, 0);
            return Ok(Step::Again);
        }
        let over = unit.state.is_terminal() || !self.order.follow;
        Ok(if over { Step::News(LogNews::End(unit.state)) } else { Step::Wait(None) })
    }

    /// Waits until there may be something new. False when the server ends.
    async fn wait(&mut self, limit: Option<Duration>) -> bool {
        let current = self.current.as_ref();
        let mark = current.map(|current| (key(&current.id), current.seen));
        let appended = async {
            let (Some((store, appended)), Some((key, seen))) = (&mut self.store, mark) else {
                return std::future::pending().await;
            };
            while appended.changed().await.is_ok() {
                if store.has_above(&key, seen) {
                    return;
                }
                // Others write all the time: not each of many readers looks each time.
                if self.beside {
                    tokio::time::sleep(OTHERS).await;
                }
            }
        };
        let changed = async {
            match &mut self.change {
                Some(change) => change.await.is_ok(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.stop.stopped() => false,
            () = appended => true,
            () = tokio::time::sleep(limit.unwrap_or(Duration::MAX)), if limit.is_some() => true,
            acts = changed => {
                self.change = None;
                acts
            }
        }
    }

    /// Where the part stands that is read.
    async fn part(&self) -> Result<LoggedTask, Problem> {
        let LogOrder { job, index, .. } = self.order;
        let store = self.handle.store();
        let row = store.job(job).await?;
        let row = row.ok_or_else(|| error::not_found(format_args!("job {job}")))?;
        let none = || error::not_found(format_args!("element {index} of job {job}"));
        let unit = match row.job.kind {
            JobKind::Array => {
                let page = index.checked_sub(1).map_or(Page::first(1), |before| Page::after(before, 1));
                let found = store.elements(job, &ElementFilter::default(), &page).await;
                let found = found?.items.into_iter().next();
                found.filter(|element| element.index == index).ok_or_else(none)?.unit
            }
            JobKind::Gang if index < row.job.count => row.unit.clone(),
            _ if index == 0 => row.unit.clone(),
            _ => return Err(none()),
        };
        Ok(LoggedTask { kind: row.job.kind, unit })
    }

    /// The attempt with this number.
    async fn attempt(&self, kind: JobKind, number: u32) -> Result<Option<AttemptRow>, Problem> {
        let LogOrder { job, index, .. } = self.order;
        let (index, member) = if kind == JobKind::Gang { (0, index) } else { (index, 0) };
        // Epochs begin with 1: this comes before all attempts of the number.
        let before = TaskRef { job, index, member, attempt: number, epoch: Epoch(0) };
        let page = Page::after(before, 1);
        let found = self.handle.store().attempts(job, &AttemptFilter { index: Some(index) }, &page).await;
        let found = found?.items.into_iter().next();
        Ok(found.filter(|found| (found.attempt.id.member, found.attempt.id.attempt) == (member, number)))
    }

    fn no_attempt(&self) -> Problem {
        let number = self.order.attempt.or(self.order.from).unwrap_or(1);
        error::not_found(format_args!("attempt {number} of job {}", self.order.job))
    }

    fn wanted(&self, chunk: &LogChunk) -> bool {
        self.order.since.is_none_or(|since| chunk.written().is_none_or(|time| time >= since))
    }

    /// Chunks that are kept beyond the last that was given.
    async fn kept(&mut self) -> Result<Vec<LogChunk>, Problem> {
        let (Some((store, _)), Some(current)) = (&self.store, &mut self.current) else { return Ok(Vec::new()) };
        let (store, key, after) = (store.clone(), key(&current.id), current.after);
        let (stream, bytes) = (self.order.stream, if self.beside { PIECE } else { BYTES });
        let read = tokio::task::spawn_blocking(move || {
            let seen = store.summary(&key)?.last_seq;
            Ok::<_, Problem>((seen, store.read(&key, stream, after, bytes)?))
        });
        let read = read.await.map_err(|panic| Problem::coded(Code::Internal, panic.to_string()))?;
        let (seen, chunks) = read?;
        if seen > current.seen {
            (current.seen, current.waiting) = (seen, None);
        }
        let mut reported = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            let before = std::mem::replace(&mut current.after, chunk.seq);
            // Of one stream others are left out; nothing is missing for that.
            let missing = if stream.is_none() { chunk.seq.saturating_sub(before + 1) } else { 0 };
            reported.push(log_chunk(&current.id, chunk, missing));
        }
        Ok(reported)
    }
}

fn key(id: &TaskRef) -> LogKey {
    LogKey { job: id.job, index: id.index, member: id.member, attempt: id.attempt }
}

/// A chunk as it is reported; `missing` are the positions between it and the one before.
fn log_chunk(id: &TaskRef, chunk: Chunk, missing: u64) -> LogChunk {
    let gap = LogGap { chunks: u64::from(chunk.gap.chunks).max(missing), bytes: chunk.gap.bytes };
    let gap = (gap != LogGap::default()).then_some(gap);
    LogChunk::new(*id, chunk.stream, chunk.seq, chunk.data).with_time_and_gap(Some(chunk.time), gap)
}
