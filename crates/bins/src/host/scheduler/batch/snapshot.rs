//! The snapshot of the fleet that readers take: made by the loop between batches, at most ten times a second while it is
//! busy.

use std::sync::Arc;

use super::super::session::Closing;
use super::super::snapshot::{BLOCKED, DrainSnapshot, EVERY, REPORTS, Snapshot, WorkerSnapshot};
use super::Core;

impl Core {
    /// A new snapshot, if the last one is old enough. What it shows is committed with the batch that was computed last.
    pub(in super::super) fn due_snapshot(&mut self) -> Option<Arc<Snapshot>> {
        self.now = self.clock.monotonic();
        if self.snapshot_at > 0 && self.next_snapshot().is_none_or(|at| self.now < at) {
            return None;
        }
        (self.snapshot_at, self.outdated, self.heard) = (self.now, false, false);
        let scheduler = &self.scheduler;
        self.registry.workers.retain(|key| scheduler.worker_view(key).is_some());
        Some(Arc::new(self.snapshot()))
    }

    /// When the next snapshot is due; none while nothing is new.
    pub(super) fn next_snapshot(&self) -> Option<u64> {
        let wait = if self.outdated { Some(EVERY) } else { self.heard.then_some(REPORTS) };
        wait.map(|wait| self.snapshot_at.saturating_add(wait))
    }

    fn snapshot(&self) -> Snapshot {
        let workers = self.registry.workers.iter().filter_map(|(key, live)| {
            // Of an id that came back only its newest incarnation is found by it.
            let newest = self.scheduler.worker_key(&live.id) == Some(key);
            let (row, view) = (self.scheduler.worker_row(key)?, self.scheduler.worker_view(key)?);
            newest.then(|| {
                let drain = row.drain.map(|order| DrainSnapshot {
                    reason: live.drain_reason.clone(),
                    deadline: order.deadline.map(|at| self.wall_of(at)),
                    host_shutdown: order.host_shutdown,
                });
                let worker = WorkerSnapshot {
                    view,
                    capabilities: row.capabilities,
                    agent_version: live.agent_version.clone(),
                    since: live.since,
                    reason: live.reason.clone(),
                    registered_at: live.registered_at,
                    status: live.status.clone(),
                    connected: live.stream.is_some(),
                    drain,
                };
                (live.id.clone(), worker)
            })
        });
        let tenants =
            self.scheduler.tenant_names().filter_map(|name| Some((name.clone(), self.scheduler.tenant(name)?)));
        let blocked = self.scheduler.blocked(BLOCKED).into_iter().map(|row| {
            let since = self.wall_of(row.since);
            (row, since)
        });
        Snapshot {
            epoch: self.epoch,
            at: self.wall,
            jobs: self.registry.jobs.len() as u64,
            fleet: self.scheduler.fleet_use(),
            workers: workers.collect(),
            tenants: tenants.collect(),
            verdicts: self.verdicts,
            waiting: self.scheduler.waiting(),
            gated: self.gated,
            queues: self.scheduler.queues(),
            blocked: blocked.collect(),
            totals: self.totals,
        }
    }

    /// Ends all sessions: this server does not act any more.
    pub(in super::super) fn close_sessions(&self) {
        let sessions = self.registry.workers.iter().filter_map(|(_, live)| live.session.as_ref());
        sessions.for_each(|session| session.close(Closing::Stopped));
    }
}
