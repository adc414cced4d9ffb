//! The writer: batches that wait are written together in one transaction, and what they release is carried out in their order
//! once that is durable, and never before. Many small batches in a row cost a transaction each, so the writer then waits up to 2 ms for
//! more: nobody but workers who have something to do waits for what they release. Computes no batch.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use orlop_cloud::bus::local::LocalBus;
use orlop_core::id::{Epoch, JobId};
use orlop_core::ports::bus::BusEvent;
use orlop_core::ports::fleet_store::{FleetStore, WriteBatch};
use tokio::sync::{mpsc, oneshot};

use super::audit_buffer::PendingEntry;
use super::session::{Batch, Closing, Session};
use super::shared::Shared;
use super::snapshot::Snapshot;
use crate::telemetry::metrics::Metrics;

/// The most batches that wait for their commit while the next is computed.
pub(super) const IN_FLIGHT: usize = 4;
/// A commit that takes longer counts as failed.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many batches a percentile is taken of.
const SAMPLES: usize = 128;

/// A batch that was computed.
#[derive(Debug)]
pub(super) struct Staged {
    /// What is written.
    pub(super) turn: WriteBatch,
    /// What is done then.
    pub(super) releases: Vec<Release>,
    /// When the batch began.
    pub(super) begun: Instant,
}

impl Staged {
    /// Somebody waits for its answer.
    fn is_urgent(&self) -> bool {
        self.releases.iter().any(|release| matches!(release, Release::Reply(_) | Release::Waiters(_)))
    }
}

/// How far the writer is, for the loop.
#[derive(Debug, Default)]
pub(super) struct Progress {
    waiting: AtomicUsize,
    released: AtomicU64,
    failed: AtomicBool,
    /// The 99th percentile of the last batches from their beginning to their release, in microseconds; 0 = not known.
    batch_micros: AtomicU64,
}

impl Progress {
    /// The 99th percentile of the last batches in microseconds, once it is known anew.
    pub(super) fn take_batch_time(&self) -> Option<u64> {
        Some(self.batch_micros.swap(0, Ordering::SeqCst)).filter(|micros| *micros > 0)
    }

    /// Whether another batch may be computed.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) < IN_FLIGHT
    }

    /// Whether everything that was staged is written and released.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) == 0
    }

    /// How many batches were written and released in all.
    pub(super) fn released(&self) -> u64 {
        self.released.load(Ordering::SeqCst)
    }

    /// Whether a commit failed: memory is ahead of the store.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }
}

/// The loop's end of the writer of one term of leadership.
#[derive(Debug)]
pub(super) struct Writer {
    staged: mpsc::UnboundedSender<Staged>,
    pub(super) progress: Arc<Progress>,
}

impl Writer {
    /// Starts the writer of an epoch.
    pub(super) fn start(
        runtime: &tokio::runtime::Handle,
        store: Arc<dyn FleetStore>,
        epoch: Epoch,
        metrics: Arc<Metrics>,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Self {
        // Bounded by the loop, which computes no batch while IN_FLIGHT wait.
        let (staged, receiver) = mpsc::unbounded_channel();
        let progress = Arc::new(Progress::default());
        let work = Work { store, epoch, wake, progress: Arc::clone(&progress), metrics };
        runtime.spawn(work.run(receiver));
        Self { staged, progress }
    }

    /// Hands a batch over.
    pub(super) fn stage(&self, staged: Staged) {
        self.progress.waiting.fetch_add(1, Ordering::SeqCst);
        if self.staged.send(staged).is_err() {
            // The writer has gone: nobody will hear anything of this batch.
            self.progress.failed.store(true, Ordering::SeqCst);
        }
    }
}

/// The batches that are written with the first: those that wait, and those that are worth waiting for.
async fn gather(first: Staged, staged: &mut mpsc::UnboundedReceiver<Staged>, pace: &mut Pace) -> Vec<Staged> {
    let (mut group, mut urgent, mut until, mut next) = (Vec::new(), false, None, Some(first));
    while let Some(turn) = next {
        pace.came(turn.begun, turn.turn.records.len());
        urgent |= turn.is_urgent();
        group.push(turn);
        let until = *until.get_or_insert_with(|| pace.wait().map(|wait| tokio::time::Instant::now() + wait));
        next = match (staged.try_recv(), until) {
            (Ok(turn), _) => Some(turn),
            // With as many as may be in flight nothing more comes before these are written.
            (Err(_), Some(until)) if !urgent && group.len() < IN_FLIGHT => {
                tokio::time::timeout_at(until, staged.recv()).await.ok().flatten()
            }
            (Err(_), _) => None,
        };
    }
    group
}

struct Work {
    store: Arc<dyn FleetStore>,
    epoch: Epoch,
    wake: Arc<dyn Fn() + Send + Sync>,
    progress: Arc<Progress>,
    metrics: Arc<Metrics>,
}

impl Work {
    async fn run(self, mut staged: mpsc::UnboundedReceiver<Staged>) {
        let (mut times, mut pace) = (Vec::with_capacity(SAMPLES), Pace::default());
        while let Some(first) = staged.recv().await {
            let mut group = gather(first, &mut staged, &mut pace).await;
            let done = group.len();
            if let Err(error) = self.write(&mut group).await {
                tracing::error!(target: "orlop::scheduler", epoch = %self.epoch, error, "a commit failed; stops acting");
                self.metrics.store.errors.inc();
                self.progress.failed.store(true, Ordering::SeqCst);
                (self.wake)();
                return;
            }
            let released = Instant::now();
            for staged in group {
                self.metrics.scheduler.latency.observe(staged.begun.elapsed().as_secs_f64());
                times.push(u64::try_from(staged.begun.elapsed().as_micros()).unwrap_or(u64::MAX));
                staged.releases.into_iter().for_each(Release::carry_out);
            }
            self.metrics.scheduler.batch.of(["release"]).observe(released.elapsed().as_secs_f64());
            if times.len() >= SAMPLES {
                times.sort_unstable();
                let late = times.get(times.len() * 99 / 100).copied().unwrap_or_default();
                self.progress.batch_micros.store(late.max(1), Ordering::SeqCst);
                times.clear();
            }
            self.progress.released.fetch_add(done as u64, Ordering::SeqCst);
            self.progress.waiting.fetch_sub(done, Ordering::SeqCst);
            (self.wake)();
        }
    }

    async fn write(&self, group: &mut [Staged]) -> Result<(), String> {
        let turns = group.iter_mut().map(|staged| std::mem::take(&mut staged.turn));
        let turns: Vec<WriteBatch> = turns.filter(|turn| !turn.records.is_empty()).collect();
        if turns.is_empty() {
            return Ok(());
        }
        let (begun, records) = (Instant::now(), turns.iter().map(|turn| turn.records.len()).sum::<usize>());
        let written = match tokio::time::timeout(PATIENCE, self.store.commit(self.epoch, turns)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.chain()),
            Err(_) => Err(format!("it took longer than {} s", PATIENCE.as_secs())),
        };
        let seconds = begun.elapsed().as_secs_f64();
        self.metrics.scheduler.batch.of(["commit"]).observe(seconds);
        self.metrics.store.commit.observe(seconds);
        self.metrics.store.batch_size.observe(records as f64);
        written
    }
}

/// Something that waits for the commit of its batch.
pub(super) enum Release {
    /// An answer to the caller.
    Reply(Box<dyn FnOnce() + Send>),
    /// What goes out to a worker.
    Frame(Arc<Session>, Box<Batch>),
    /// A session or its stream ends.
    Close(Arc<Session>, Closing),
    /// Events of the batch.
    Events(Arc<LocalBus>, Vec<BusEvent>),
    /// Those who waited for the end or a change of a job.
    Waiters(Vec<oneshot::Sender<()>>),
    /// Lines of the audit trail are written.
    Audited(Vec<PendingEntry>),
    /// These jobs have changed.
    Changed(Arc<Shared>, Vec<JobId>),
    /// The fleet as this batch left it.
    Snapshot(Arc<Shared>, Arc<Snapshot>),
}

impl fmt::Debug for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reply(_) => "Reply",
            Self::Frame(..) => "Frame",
            Self::Close(..) => "Close",
            Self::Events(..) => "Events",
            Self::Waiters(_) => "Waiters",
            Self::Audited(_) => "Audited",
            Self::Changed(..) => "Changed",
            Self::Snapshot(..) => "Snapshot",
        })
    }
}

impl Release {
    /// The answer to a question, to be given after the commit. If that fails, the caller sees that nobody answers.
    pub(super) fn reply<T: Send + 'static>(to: oneshot::Sender<T>, answer: T) -> Self {
        // Who has gone away meanwhile needs no answer.
        Self::Reply(Box::new(move || drop(to.send(answer))))
    }

    /// Does it.
    fn carry_out(self) {
        match self {
            Self::Reply(reply) => reply(),
            Self::Frame(session, out) => session.send(*out),
            Self::Close(session, closing) => session.close(closing),
            Self::Events(bus, events) => {
                if let Err(error) = bus.publish_now(events) {
                    tracing::error!(target: "orlop::scheduler", error = error.chain(), "events were not published");
                }
            }
            Self::Waiters(waiters) => {
                waiters.into_iter().for_each(|waiter| waiter.send(()).unwrap_or_default());
            }
            Self::Audited(entries) => entries.into_iter().for_each(PendingEntry::written),
            Self::Changed(shared, jobs) => shared.changes.jobs(&jobs),
            Self::Snapshot(shared, snapshot) => shared.publish(snapshot),
        }
    }
}

/// How long the writer waits for more batches, at most.
const WAIT: Duration = Duration::from_millis(2);
/// Batches that follow each other closer than this, on average, are many.
const CLOSE: Duration = Duration::from_millis(1);
/// Batches with fewer records than this, on average, are small.
const SMALL: f64 = 16.0;
/// How much the newest batch counts in the averages.
const WEIGHT: f64 = 1.0 / 32.0;
/// A longer pause counts as this: after it the averages begin anew.
const PAUSE: Duration = Duration::from_millis(100);

/// What the last batches were like.
#[derive(Debug)]
struct Pace {
    gap: f64,
    records: f64,
    last: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { gap: PAUSE.as_secs_f64(), records: 0.0, last: None }
    }
}

impl Pace {
    /// A batch came.
    fn came(&mut self, at: Instant, records: usize) {
        let since = self.last.replace(at).map_or(PAUSE, |last| at.saturating_duration_since(last));
        if since >= PAUSE {
            *self = Self { last: Some(at), ..Self::default() };
        }
        self.gap += (since.min(PAUSE).as_secs_f64() - self.gap) * WEIGHT;
        self.records += (records as f64 - self.records) * WEIGHT;
    }

    /// How long others may be waited for.
    fn wait(&self) -> Option<Duration> {
        (self.gap < CLOSE.as_secs_f64() && self.records < SMALL).then_some(WAIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches at equal distances.
    fn after(turns: u32, gap: Duration, records: usize) -> Pace {
        let (mut pace, begun) = (Pace::default(), Instant::now());
        (0..turns).for_each(|turn| pace.came(begun + gap * turn, records));
        pace
    }

    #[test]
    fn many_small_turns_wait_for_each_other_and_few_or_large_ones_do_not() {
        let micros = Duration::from_micros;
        assert_eq!(after(1000, micros(300), 3).wait(), Some(WAIT));
        assert_eq!(after(3, micros(300), 3).wait(), None, "a burst of a single job");
        assert_eq!(after(1000, micros(6000), 3).wait(), None, "50 jobs a second");
        assert_eq!(after(1000, micros(300), 200).wait(), None, "they are large already");
        let mut pace = after(1000, micros(300), 3);
        pace.came(Instant::now() + Duration::from_secs(60), 3);
        assert_eq!(pace.wait(), None, "after a pause");
    }
}
