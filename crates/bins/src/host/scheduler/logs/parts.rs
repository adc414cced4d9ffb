//! Logs of several elements of an array, or of the members of a gang: in the order of their indices, or as they come where
//! they are followed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use orlop_core::error::{Code, Problem};
use orlop_core::machine::job::JobState;
use orlop_core::ports::fleet_store::{ElementFilter, ElementRow, JobKind, MAX_PAGE, NewJob, Page};
use orlop_core::spec::job::Indices;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::super::live::ANY;
use super::super::{Handle, Stop, error};
use super::read::{LogNews, LogOrder, LogReader, LoggedTask};
use crate::wire::attempt::LogChunk;

/// Logs that are read ahead of the one that is given.
const AHEAD: usize = 16;
/// Logs that are followed at once. Others wait until one of these has ended.
const AT_ONCE: usize = 256;
/// News that wait for the reader.
const WAITING: usize = 16;
/// News of one log that are read ahead.
const NEWS: usize = 4;
/// The least time between two looks for parts that have begun; a look may take a fifth of the time at most.
const LOOK: Duration = Duration::from_millis(200);

/// What a reading of several logs brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartNews {
    /// Chunks of a part, at least one.
    Chunks(u32, Vec<LogChunk>),
    /// Nothing follows of a part. Its state.
    PartEnd(u32, JobState),
    /// Nothing follows. The state of the job.
    End(JobState),
}

/// Several logs of one job that are read.
#[derive(Debug)]
pub struct PartsReader {
    news: mpsc::Receiver<Result<PartNews, Problem>>,
}

impl PartsReader {
    /// Begins to read; without indices all parts. The index of the order says nothing.
    ///
    /// # Errors
    /// This server does not lead, so it has not seen the latest; or there is no such job, or no such element.
    pub async fn open(handle: Handle, stop: Stop, order: LogOrder, indices: Option<Indices>) -> Result<Self, Problem> {
        handle.leader_snapshot()?;
        let row = handle.job(order.job).await?;
        if let Some(missing) = indices.as_ref().and_then(|indices| first_missing(indices, &row.job)) {
            return Err(error::not_found(format_args!("element {missing} of job {}", order.job)));
        }
        let begin = row.job.indices.first().map_or(0, |(first, _)| *first);
        let begin = indices.as_ref().and_then(|indices| Some(indices.from(0)?.0)).unwrap_or(begin);
        let parts = Arc::new(Parts { handle, stop, order, kind: row.job.kind, count: row.job.count, indices, begin });
        let (sender, news) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            let done = if order.follow { parts.follow(&sender).await } else { parts.in_order(&sender).await };
            let last = match done {
                Ok(Some(state)) => Ok(PartNews::End(state)),
                Ok(None) => return,
                Err(error) => Err(error),
            };
            // A reader that has gone needs no end.
            drop(sender.send(last).await);
        });
        Ok(Self { news })
    }

    /// What comes next; none when the server ends.
    ///
    /// # Errors
    /// The store or the storage cannot be read now.
    pub async fn next(&mut self) -> Result<Option<PartNews>, Problem> {
        self.news.recv().await.transpose()
    }
}

/// The first of some indices that a job does not have.
pub(in super::super) fn first_missing(indices: &Indices, job: &NewJob) -> Option<u32> {
    let whole = [(0, job.count.saturating_sub(1))];
    let has: &[(u32, u32)] = if job.kind == JobKind::Array { &job.indices } else { &whole };
    let missing = |&(first, last): &(u32, u32)| {
        let range = has.get(has.partition_point(|(_, end)| *end < first));
        match range.filter(|(begin, _)| *begin <= first) {
            Some((_, end)) if *end >= last => None,
            Some((_, end)) => Some(end + 1),
            None => Some(first),
        }
    };
    indices.ranges().iter().find_map(missing)
}

type News = mpsc::Sender<Result<PartNews, Problem>>;

/// What is read.
struct Parts {
    handle: Handle,
    stop: Stop,
    order: LogOrder,
    kind: JobKind,
    count: u32,
    indices: Option<Indices>,
    /// The first index that is read.
    begin: u32,
}

/// Some of the parts that have begun, in order.
struct Begun {
    parts: Vec<(u32, LoggedTask)>,
    /// Behind which index there may be more.
    next: Option<u32>,
}

/// The beginning of a log.
struct Head {
    index: u32,
    reader: LogReader,
    news: Vec<LogNews>,
    /// The server ends.
    cut: bool,
}

impl Parts {
    fn wants(&self, index: u32) -> bool {
        self.indices.as_ref().is_none_or(|indices| indices.contains(index))
    }

    /// Parts behind an index that have begun.
    async fn begun(&self, after: Option<u32>) -> Result<Begun, Problem> {
        if self.kind == JobKind::Array {
            let filter = ElementFilter { indices: self.indices.clone(), assigned: true, ..ElementFilter::default() };
            let page = Page { after, limit: MAX_PAGE };
            let found = self.handle.store().elements(self.order.job, &filter, &page).await;
            let found = found?;
            let part = |row: ElementRow| (row.index, LoggedTask { kind: self.kind, unit: row.unit });
            return Ok(Begun { parts: found.items.into_iter().map(part).collect(), next: found.next });
        }
        let unit = self.handle.job(self.order.job).await?.unit;
        let begun = unit.attempt > 0 && after.is_none();
        let indices = (0..self.count).filter(|index| begun && self.wants(*index));
        let parts = indices.map(|index| (index, LoggedTask { kind: self.kind, unit: unit.clone() }));
        Ok(Begun { parts: parts.collect(), next: None })
    }

    /// Begins to read a log; none where it has not the attempt that is asked for.
    fn reader(&self, index: u32, part: LoggedTask, follow: bool) -> Result<Option<LogReader>, Problem> {
        let order = LogOrder { index, follow, ..self.order };
        match LogReader::of_part(self.handle.clone(), self.stop.clone(), order, part) {
            Ok(reader) => Ok(Some(reader)),
            Err(none) if none.code == Code::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn head(&self, index: u32, part: LoggedTask) -> Result<Option<Head>, Problem> {
        let Some(reader) = self.reader(index, part, false)? else { return Ok(None) };
        let mut head = Head { index, reader, news: Vec::new(), cut: false };
        while head.news.len() < NEWS && !matches!(head.news.last(), Some(LogNews::End(_))) {
            match head.reader.next().await? {
                Some(news) => head.news.push(news),
                None => {
                    head.cut = true;
                    break;
                }
            }
        }
        Ok(Some(head))
    }

    /// Gives one log after the other; then the state of the job. None when the server ends or the reader has gone.
    async fn in_order(&self, to: &News) -> Result<Option<JobState>, Problem> {
        let mut after = None;
        loop {
            let begun = self.begun(after).await?;
            let heads = stream::iter(begun.parts).map(|(index, part)| self.head(index, part)).buffered(AHEAD);
            let mut heads = std::pin::pin!(heads);
            while let Some(head) = heads.next().await {
                let Some(head) = head? else { continue };
                if !self.whole(head, to).await? {
                    return Ok(None);
                }
            }
            match begun.next {
                Some(next) => after = Some(next),
                None => return Ok(Some(self.handle.job(self.order.job).await?.unit.state)),
            }
        }
    }

    /// Gives one log to its end. Whether to go on with the next.
    async fn whole(&self, head: Head, to: &News) -> Result<bool, Problem> {
        let Head { index, mut reader, news, cut } = head;
        for news in news {
            match send(index, news, to).await {
                Sent::More => {}
                Sent::Last => return Ok(true),
                Sent::Gone => return Ok(false),
            }
        }
        if cut { Ok(false) } else { pass(index, &mut reader, to).await }
    }

    /// Gives what comes of all parts until the job has ended; then its state. None as of [`Parts::in_order`].
    async fn follow(self: &Arc<Self>, to: &News) -> Result<Option<JobState>, Problem> {
        let (places, mut readers) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
        let mut seen = Seen { begin: self.begin, ranges: BTreeMap::new() };
        let state = loop {
            // Before anything is read: what changes after that is not missed.
            let mut change = self.handle.watch(self.order.job, ANY).await?;
            let mut looking = Duration::ZERO;
            let state = self.handle.job(self.order.job).await?.unit.state;
            let mut after = seen.all_to();
            loop {
                let looked = Instant::now();
                let begun = self.begun(after).await?;
                looking += looked.elapsed();
                for (index, part) in begun.parts {
                    // What is only assigned has written nothing yet: a worker may have many of those.
                    if seen.has(index) || part.unit.state == JobState::Assigned {
                        continue;
                    }
                    seen.add(index);
                    let place = tokio::select! {
                        place = Arc::clone(&places).acquire_owned() => place,
                        () = to.closed() => return Ok(None),
                        () = self.stop.stopped() => return Ok(None),
                    };
                    let (parts, to) = (Arc::clone(self), to.clone());
                    readers.spawn(async move {
                        let _place = place;
                        // What has ended changes no more.
                        let follow = !part.unit.state.is_terminal();
                        let Some(mut reader) = parts.reader(index, part, follow)? else { return Ok(true) };
                        pass(index, &mut reader, &to).await
                    });
                    while let Some(done) = readers.try_join_next() {
                        if !ended(done)? {
                            return Ok(None);
                        }
                    }
                }
                match begun.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
            if state.is_terminal() {
                break state;
            }
            let rest = LOOK.max(looking * 4);
            loop {
                tokio::select! {
                    changed = &mut change => match changed {
                        Ok(()) => break,
                        Err(_) => return Ok(None),
                    },
                    Some(done) = readers.join_next() => if !ended(done)? { return Ok(None) },
                    () = to.closed() => return Ok(None),
                    () = self.stop.stopped() => return Ok(None),
                }
            }
            tokio::time::sleep(rest).await;
        };
        while let Some(done) = readers.join_next().await {
            if !ended(done)? {
                return Ok(None);
            }
        }
        Ok(Some(state))
    }
}

/// Whether the log of a part was given to its end.
fn ended(done: Result<Result<bool, Problem>, tokio::task::JoinError>) -> Result<bool, Problem> {
    done.map_err(|panic| Problem::coded(Code::Internal, panic.to_string()))?
}

/// What became of news.
enum Sent {
    More,
    /// They were the last of a log.
    Last,
    /// The reader has gone.
    Gone,
}

async fn send(index: u32, news: LogNews, to: &News) -> Sent {
    let (news, sent) = match news {
        LogNews::Chunks(chunks) => (PartNews::Chunks(index, chunks), Sent::More),
        LogNews::End(state) => (PartNews::PartEnd(index, state), Sent::Last),
    };
    if to.send(Ok(news)).await.is_ok() { sent } else { Sent::Gone }
}

/// Gives what a log brings to its end. Whether it came there: the server may end, or the reader go.
async fn pass(index: u32, reader: &mut LogReader, to: &News) -> Result<bool, Problem> {
    loop {
        let news = match reader.next().await {
            Ok(Some(news)) => news,
            Ok(None) => return Ok(false),
            // It ended without the attempt that is asked for.
            Err(none) if none.code == Code::NotFound => return Ok(true),
            Err(error) => return Err(error),
        };
        match send(index, news, to).await {
            Sent::More => {}
            Sent::Last => return Ok(true),
            Sent::Gone => return Ok(false),
        }
    }
}

/// Indices that were seen, as ranges that do not touch: the first with the last.
struct Seen {
    begin: u32,
    ranges: BTreeMap<u32, u32>,
}

impl Seen {
    fn has(&self, index: u32) -> bool {
        self.ranges.range(..=index).next_back().is_some_and(|(_, last)| *last >= index)
    }

    fn add(&mut self, index: u32) {
        let last = index.checked_add(1).and_then(|next| self.ranges.remove(&next)).unwrap_or(index);
        let before = index.checked_sub(1).and_then(|before| self.ranges.range_mut(..=before).next_back());
        match before.filter(|(_, end)| **end + 1 == index) {
            Some((_, end)) => *end = last,
            None => {
                self.ranges.insert(index, last);
            }
        }
    }

    /// Up to which index all were seen.
    fn all_to(&self) -> Option<u32> {
        self.ranges.first_key_value().filter(|(first, _)| **first <= self.begin).map(|(_, last)| *last)
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::id::JobId;
    use orlop_core::ports::fleet_store::SpecHash;
    use orlop_core::time::Time;

    use super::*;

    #[test]
    fn indices_that_were_seen_are_kept_as_ranges() {
        let mut seen = Seen { begin: 3, ranges: BTreeMap::new() };
        assert_eq!(seen.all_to(), None);
        for index in [5, 3, 9, 4, 8] {
            seen.add(index);
        }
        assert_eq!(seen.ranges, [(3, 5), (8, 9)].into());
        assert_eq!(
            (seen.all_to(), seen.has(4), seen.has(6), seen.has(9), seen.has(10)),
            (Some(5), true, false, true, false)
        );
        [6, 7].into_iter().for_each(|index| seen.add(index));
        assert_eq!((seen.ranges.len(), seen.all_to()), (1, Some(9)));
    }

    #[test]
    fn indices_that_a_job_does_not_have_are_named() {
        let tenant = "default".parse().unwrap();
        let mut job = NewJob::new(JobId::from_u64(1), tenant, SpecHash::of("x"), Time::EPOCH);
        let missing = |job: &NewJob, text: &str| first_missing(&text.parse().unwrap(), job);
        assert_eq!((missing(&job, "0"), missing(&job, "0-1")), (None, Some(1)));
        (job.kind, job.indices) = (JobKind::Array, vec![(0, 9), (20, 29)]);
        assert_eq!((missing(&job, "0-9,25"), missing(&job, "5-12"), missing(&job, "15")), (None, Some(10), Some(15)));
        assert_eq!(missing(&job, "30"), Some(30));
    }
}
