//! The way of events from the store's outbox to a bus outside: taken in order by the server that leads, published, deleted
//! once that is confirmed.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use orlop_cloud::bus::outbox::drain_outbox;
use orlop_core::error::Problem;
use orlop_core::id::Epoch;
use orlop_core::ports::bus::{EventBus, SubjectFilter, Subscription as _};
use orlop_core::ports::fleet_store::FENCED;

use super::{Handle, Status, Stop};

/// The first wait after a failure, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Without a sign that something waits it is looked as often.
const LOOK: Duration = Duration::from_secs(1);
/// From so many waiting events on that is worth a warning, and again with each further as many.
const MANY: u64 = 100_000;

/// Carries events until asked to stop. `open` connects to the bus.
pub async fn publish_events<B, F>(handle: Handle, open: impl Fn() -> F + Send, stop: Stop)
where
    B: EventBus,
    F: Future<Output = Result<B, Problem>> + Send,
{
    let mut publisher = EventPublisher { handle, bus: None, wait: RETRY.0, failing: false, warned: 0 };
    // Events in this process say that there are some in the outbox. Anyone who misses one looks every second.
    let mut heard = publisher.handle.subscribe(SubjectFilter::all()).ok();
    loop {
        let rest = match publisher.handle.status() {
            Status::Leading { epoch } => publisher.pass(epoch, &open).await,
            _ => LOOK,
        };
        let news = async {
            match heard.as_mut() {
                // Not after a failure: then the bus is left alone for a while.
                Some(heard) if rest >= LOOK => drop(heard.next().await),
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.stopped() => break,
            () = news => {}
            () = tokio::time::sleep(rest) => {}
        }
    }
}

/// Whether so many waiting events are worth a warning, after the last one.
fn is_worth_a_warning(waiting: u64, warned: &mut u64) -> bool {
    let steps = waiting / MANY;
    std::mem::replace(warned, steps.max(*warned)) < steps
}

struct EventPublisher<B> {
    handle: Handle,
    bus: Option<Arc<B>>,
    wait: Duration,
    failing: bool,
    /// At how many waiting events was warned last.
    warned: u64,
}

impl<B: EventBus> EventPublisher<B> {
    /// Publishes what waits. Gives how long to wait before the next look.
    async fn pass<F>(&mut self, epoch: Epoch, open: &impl Fn() -> F) -> Duration
    where
        F: Future<Output = Result<B, Problem>>,
    {
        let metrics = Arc::clone(&self.handle.options().metrics);
        let done = match self.drained(epoch, open).await {
            Ok(count) => {
                metrics.store.events_published.inc_by(count);
                if std::mem::take(&mut self.failing) {
                    tracing::info!(target: "orlop::bus", count, "the event bus takes events again");
                }
                (self.wait, self.warned) = (RETRY.0, 0);
                LOOK
            }
            // Another server leads: it carries on.
            Err(error) if error.reason == Some(FENCED) => LOOK,
            Err(error) => {
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(target: "orlop::bus", error = error.chain(), "events wait for the event bus");
                }
                let pause = self.wait;
                self.wait = (pause * 2).min(RETRY.1);
                pause
            }
        };
        if let Ok(waiting) = self.handle.store().outbox_len().await {
            metrics.store.outbox_pending.set(i64::try_from(waiting).unwrap_or(i64::MAX));
            if is_worth_a_warning(waiting, &mut self.warned) {
                tracing::warn!(target: "orlop::bus", waiting, "many events wait for the event bus; bring it back soon");
            }
        }
        done
    }

    async fn drained<F>(&mut self, epoch: Epoch, open: &impl Fn() -> F) -> Result<u64, Problem>
    where
        F: Future<Output = Result<B, Problem>>,
    {
        let bus = match &self.bus {
            Some(bus) => Arc::clone(bus),
            None => Arc::clone(self.bus.insert(Arc::new(open().await?))),
        };
        drain_outbox(&**self.handle.store(), &*bus, epoch).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_thousand_waiting_events_are_worth_a_warning_once() {
        let mut warned = 0;
        let warnings: Vec<u64> = [99_999, 100_000, 100_001, 199_999, 150_000, 200_000, 450_000, 400_000]
            .into_iter()
            .filter(|waiting| is_worth_a_warning(*waiting, &mut warned))
            .collect();
        assert_eq!(warnings, [100_000, 200_000, 450_000]);
    }
}
