//! The loop: one thread that leads, acts in batches, and starts over when a commit fails. Nothing waits for a tick.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use orlop_core::error::{Code, Problem};
use orlop_core::ports::fleet_store::HELD;

use super::batch::Core;
use super::commit::Writer;
use super::error;
use super::lead::{Ground, Term};
use super::shared::{Shared, Status};

/// The first wait after a failure, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How often a standby asks: a leader that ends in good order gives its term up early, and one that was killed leaves a
/// term that is over at any moment.
const ASK: Duration = Duration::from_millis(500);

/// What is no more than a busy machine.
const BUSY: Duration = Duration::from_secs(5);

/// Notices that the loop was held up: the process was stopped, or its host. Meanwhile everybody was silent to it, and what
/// they sent waits unread; to act on that silence would take running work for lost.
struct Pulse {
    /// When the loop was to go on; none = when it was woken.
    back: Option<Instant>,
}

impl Pulse {
    fn start() -> Self {
        Self { back: Some(Instant::now()) }
    }

    /// The loop sleeps for so long at most; none = until it is woken.
    fn sleeps(&mut self, patience: Option<Duration>) {
        self.back = patience.and_then(|patience| Instant::now().checked_add(patience));
    }

    /// The loop goes on: how late.
    fn late(&mut self) -> Duration {
        let now = Instant::now();
        self.back.replace(now).map_or(Duration::ZERO, |back| now.saturating_duration_since(back))
    }
}

/// The loop of a server.
pub(super) struct Loop {
    pub(super) shared: Arc<Shared>,
    pub(super) runtime: tokio::runtime::Handle,
}

/// How a term ended.
enum End {
    /// Everything is written and released; the server is to end.
    Stopped,
    /// Memory is ahead of the store, or another server leads.
    Failed,
}

impl Loop {
    /// Runs until the server is asked to stop.
    pub(super) fn run(self) {
        self.shared.ingress.wake().enlist();
        self.shared.pause.enlist();
        let (mut wait, mut reported) = (RETRY.0, None);
        while !self.stopping() {
            match self.runtime.block_on(self.lead()) {
                Ok((core, term)) => {
                    (wait, reported) = (RETRY.0, None);
                    if matches!(self.act(core, &term), End::Stopped) {
                        self.resign(&term);
                        break;
                    }
                }
                Err(refused) => {
                    // Once for each reason: a standby stands by for long.
                    if reported.as_ref() != Some(&refused.message) {
                        tracing::warn!(target: "orlop::scheduler", error = refused.message, "does not act yet");
                        reported = Some(refused.message.clone());
                    }
                    if refused.code == Code::NotLeader {
                        self.rest(ASK);
                        continue;
                    }
                    self.rest(wait);
                    wait = (wait * 2).min(RETRY.1);
                }
            }
            self.refuse_waiting();
        }
        self.shared.status.send_replace(Status::Stopped);
        self.refuse_waiting();
    }

    fn stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::SeqCst)
    }

    fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        let shared = Arc::clone(&self.shared);
        Arc::new(move || {
            shared.ingress.wake().wake();
            shared.pause.wake();
        })
    }

    /// Takes the epoch and reads everything that lives.
    async fn lead(&self) -> Result<(Core, Term), Problem> {
        let shared = &self.shared;
        let ground = Ground {
            store: Arc::clone(&shared.store),
            clock: Arc::clone(&shared.clock),
            wake: self.waker(),
            until: Arc::clone(&shared.until),
        };
        let term = match Term::take(ground, &shared.options.holder).await {
            Ok(term) => term,
            Err(held) if held.reason == Some(HELD) => {
                let leader = shared.store.leader().await.ok().flatten().map(|leader| leader.url);
                shared.status.send_replace(Status::Standby { leader: leader.clone() });
                // What it saw while it led is old.
                shared.snapshot.store(Arc::default());
                return Err(error::not_leader(leader));
            }
            Err(trouble) => return Err(trouble),
        };
        shared.status.send_replace(Status::Restoring);
        if let Some(logs) = shared.options.logs.clone() {
            let epoch = term.epoch();
            let opened = tokio::task::spawn_blocking(move || logs.lead(epoch)).await;
            let opened = opened.map_err(|panic| Problem::coded(Code::Internal, panic.to_string()))?;
            opened?;
        }
        let mut core = Core::restore(shared, term.epoch()).await?;
        // Anyone who sees that this server leads sees the fleet as it was found.
        if let Some(snapshot) = core.due_snapshot() {
            shared.publish(snapshot);
        }
        shared.status.send_replace(Status::Leading { epoch: term.epoch() });
        tracing::info!(target: "orlop::scheduler", epoch = %term.epoch(), "leads");
        Ok((core, term))
    }

    /// Acts until a commit fails, leadership is lost, or the server is to stop.
    fn act(&self, mut core: Core, term: &Term) -> End {
        let shared = &*self.shared;
        let writer = Writer::start(
            &self.runtime,
            Arc::clone(&shared.store),
            term.epoch(),
            Arc::clone(&shared.options.metrics),
            self.waker(),
        );
        let progress = Arc::clone(&writer.progress);
        let silent = Duration::from_millis(shared.options.core.heartbeat_timeout / 2).max(BUSY);
        let (mut pulse, mut resigned) = (Pulse::start(), false);
        let end = loop {
            if progress.has_failed() || term.until() <= shared.clock.monotonic() {
                break End::Failed;
            }
            let late = pulse.late();
            if late > silent {
                let seconds = late.as_secs_f64();
                tracing::warn!(target: "orlop::scheduler", seconds, "was delayed; starting a new term, and no worker counts as silent");
                break End::Failed;
            }
            if !progress.has_room() {
                pulse.sleeps(None);
                // Only the writer is waited for: anyone who brings something now need not wake the loop.
                shared.pause.sleep(None, || !progress.has_room() && !progress.has_failed());
                continue;
            }
            if let Some(staged) = core.run_batch(&shared.ingress, &progress) {
                writer.stage(staged);
                continue;
            }
            if self.stopping() && progress.is_idle() {
                if !shared.audit_buffer.is_empty() {
                    shared.audit_buffer.hurry();
                    continue;
                }
                if std::mem::replace(&mut resigned, true) {
                    break End::Stopped;
                }
                core.publish_end();
                continue;
            }
            if progress.is_idle()
                && let Some(snapshot) = core.due_snapshot()
            {
                shared.publish(snapshot);
            }
            let until = core.next_deadline(&progress).unwrap_or(u64::MAX).min(term.until());
            let me = std::thread::current();
            let patience = if until == u64::MAX { None } else { shared.clock.patience(until, &me) };
            pulse.sleeps(patience);
            shared.ingress.wake().sleep(patience, || {
                let came = !shared.ingress.is_empty() || shared.audit_buffer.are_due();
                let news = came || core.may_open(progress.released()) || progress.has_failed();
                let over = self.stopping() && progress.is_idle();
                !news && !over
            });
        };
        // From here on nothing is released: the writer's queue ends with it.
        shared.status.send_replace(Status::Restoring);
        drop(writer);
        core.close_sessions();
        if let Some(logs) = &shared.options.logs {
            logs.resign();
        }
        end
    }

    /// Lets another server lead at once.
    fn resign(&self, term: &Term) {
        if let Err(error) = self.runtime.block_on(self.shared.store.release(term.epoch())) {
            let error = error.chain();
            tracing::warn!(target: "orlop::scheduler", error, "leadership was not released; it expires");
        }
    }

    /// Drops what waits: the caller learns that nothing can be written now.
    fn refuse_waiting(&self) {
        while self.shared.ingress.drain(usize::MAX, |_| true) > 0 {}
        self.shared.audit_buffer.give_up();
    }

    /// Waits before the next try, unless the server is to stop.
    fn rest(&self, wait: Duration) {
        self.refuse_waiting();
        self.shared.pause.sleep(Some(wait), || !self.stopping());
    }
}
