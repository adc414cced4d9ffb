//! When flows that have ended are deleted: `ttlSecondsAfterFinished` after their end. Nothing polls: the next time is slept
//! for.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use orlop_core::ports::fleet_store::FleetFlow;
use orlop_core::ports::journal::FlowJournal as _;
use orlop_core::spec::flow::FlowSpec;
use orlop_core::time::Time;
use tokio::sync::Notify;

use super::Inner;
use super::journal::listed;
use crate::host::flow::{Clock as _, SystemClock};

/// Seconds after the end, where a flow does not say it: as long as its jobs are kept.
const DEFAULT_TTL: u32 = 7 * 86_400;
/// A flow stays at least so long, so that anyone who waits for its end sees it.
const SEEN: Duration = Duration::from_secs(5);
/// The longest sleep: a wall clock that is set moves the times.
const LOOK: Duration = Duration::from_secs(60);
/// Until what could not be deleted is tried again.
const AGAIN: Duration = Duration::from_secs(30);

/// Flows that have ended, by when they go.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    due: Mutex<BTreeSet<(Time, String)>>,
    changed: Notify,
}

/// How long a flow of a spec stays after its end, in seconds.
pub(super) fn ttl(spec: &FlowSpec) -> u32 {
    let policy = spec.execution_policy.as_ref();
    policy
        .and_then(|policy| policy.ttl_seconds_after_finished)
        .map_or(DEFAULT_TTL, |ttl| u32::try_from(ttl).unwrap_or(0))
}

/// When a flow goes; none while it lives.
fn due(flow: &FleetFlow) -> Option<Time> {
    let ttl = listed(flow).ttl.unwrap_or(DEFAULT_TTL);
    Some(flow.ended_at?.plus(Duration::from_secs(ttl.into()).max(SEEN)))
}

impl Expiry {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<(Time, String)>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets all of them: another server looks after them.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// A flow as it stands, ended or not.
    pub(super) fn note(&self, flow: &FleetFlow) {
        if let Some(at) = due(flow) {
            self.lock().insert((at, flow.id.clone()));
            self.changed.notify_one();
        }
    }

    /// The flows whose time has come; they are the caller's from now on.
    fn take(&self, now: Time) -> Vec<String> {
        let mut due = self.lock();
        let later = due.split_off(&(now.plus(Duration::from_millis(1)), String::new()));
        std::mem::replace(&mut *due, later).into_iter().map(|(_, flow)| flow).collect()
    }

    fn next(&self) -> Option<Time> {
        self.lock().first().map(|(at, _)| *at)
    }
}

impl Inner {
    /// Deletes the flows whose time has come. Gives how many went.
    pub(super) async fn expire(&self, now: Time) -> usize {
        let mut gone = 0;
        for uid in self.expiry.take(now) {
            // Whose it is nobody can say afterwards.
            let flow = if self.handle.changes().is_heard() { self.journal.document(&uid).await.ok() } else { None };
            match self.journal.delete(&uid).await {
                Ok(()) => {
                    gone += 1;
                    if let Some(flow) = flow {
                        self.handle.changes().flow(&uid, &flow.tenant, None);
                    }
                }
                Err(error) => {
                    let error = error.chain();
                    tracing::warn!(target: "orlop::flows", uid, error, "a flow that is over was not deleted; retrying");
                    self.expiry.lock().insert((now.plus(AGAIN), uid));
                }
            }
        }
        gone
    }
}

/// Deletes flows when their time comes, as long as their driver lives.
pub(super) async fn keep(flows: Weak<Inner>) {
    loop {
        let Some(inner) = flows.upgrade() else { return };
        // The clock by which their hosts write down when they ended.
        let now = SystemClock.now();
        let gone = inner.expire(now).await;
        if gone > 0 {
            tracing::info!(target: "orlop::flows", flows = gone, "deleted flows whose time after their end is over");
        }
        let expiry = Arc::clone(&inner.expiry);
        let wait = expiry.next().map_or(LOOK, |at| at.since(now)).min(LOOK);
        drop(inner);
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = expiry.changed.notified() => {}
        }
    }
}
