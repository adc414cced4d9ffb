//! How much waits, by band, tenant and class, and by why. Owns these views; they are for reports and decide nothing.

use orlop_core::id::{JobId, TenantName};

use super::Scheduler;
use super::order::valid;
use crate::class::Class;
use crate::job::{Band, Resources};
use crate::queue::{Fifo, LaneEntry, Queue};
use crate::tenant::Tenant;

/// How many entries that were given up are looked through for a job that stands for a queue.
const LOOK: usize = 64;

/// Jobs in queues, arrays counting as one each; by band, the most urgent first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Those whose turn can come in the next round.
    pub ready: [u64; 3],
    /// Those whose class fits no worker now, or only a worker that they avoid.
    pub blocked: [u64; 3],
    /// Those that their tenant's quota stops.
    pub quota: [u64; 3],
    /// Classes with queues that are not blocked.
    pub classes_ready: u64,
    /// Classes with queues that are.
    pub classes_blocked: u64,
    /// Reservations of workers.
    pub reservations: u64,
}

/// What waits of one tenant in one band: jobs, arrays counting as one each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantQueue {
    /// The tenant.
    pub tenant: TenantName,
    /// The band.
    pub band: Band,
    /// Those whose turn can come in the next round.
    pub ready: u64,
    /// Those whose class fits no worker now, or only a worker that they avoid.
    pub blocked: u64,
    /// Those that the tenant's quota stops.
    pub quota: u64,
}

/// Jobs of one tenant, band and class that fits no worker now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedQueue {
    /// The tenant.
    pub tenant: TenantName,
    /// The band.
    pub band: Band,
    /// What one attempt asks.
    pub resources: Resources,
    /// How many jobs wait, arrays counting as one.
    pub jobs: u64,
    /// Since when the class fits nowhere, in monotonic milliseconds.
    pub since: u64,
    /// The first of the jobs: [`Scheduler::explain`] says of it what it does of all.
    pub first: JobId,
}

impl Scheduler {
    /// Every queue with jobs: whose it is, its band and its entry in the lane.
    fn lined(&self) -> impl Iterator<Item = (&Tenant, Band, &LaneEntry)> {
        self.tenants.iter().flat_map(|tenant| {
            let lanes = Band::ALL.into_iter().zip(&tenant.lanes);
            lanes.flat_map(move |(band, lane)| lane.entries.iter().map(move |entry| (tenant, band, entry)))
        })
    }

    fn class_of_line(&self, entry: &LaneEntry) -> Option<&Class> {
        self.classes.get(entry.class)
    }

    /// What waits by tenant and band, in the order of tenants' names; nothing of those of whom nothing waits. Cost: linear
    /// in queues with jobs.
    #[must_use]
    pub fn queues(&self) -> Vec<TenantQueue> {
        let mut all: Vec<TenantQueue> = Vec::new();
        for (tenant, band, entry) in self.lined() {
            let count = self.queues.get(entry.queue as usize).map_or(0, Queue::len);
            let of_last = all.last_mut().filter(|last| last.tenant == tenant.name && last.band == band);
            let blocked = self.class_of_line(entry).is_some_and(Class::is_blocked);
            let (quota, blocked) = (entry.stopped, blocked && !entry.stopped);
            let counts = [!quota && !blocked, blocked, quota].map(|here| if here { count } else { 0 });
            let [ready, blocked, quota] = counts;
            match of_last {
                Some(row) => {
                    row.ready += ready;
                    row.blocked += blocked;
                    row.quota += quota;
                }
                None => all.push(TenantQueue { tenant: tenant.name.clone(), band, ready, blocked, quota }),
            }
        }
        for (number, blocked) in self.held_jobs() {
            let Some(queue) = self.queues.get(number as usize) else { continue };
            let (Some(tenant), Some(band)) = (self.tenants.get(queue.tenant as usize), Band::ALL.get(queue.band))
            else {
                continue;
            };
            match all.iter_mut().find(|row| row.tenant == tenant.name && row.band == *band) {
                Some(row) => row.blocked += blocked,
                None => {
                    let (tenant, band) = (tenant.name.clone(), *band);
                    all.push(TenantQueue { tenant, band, ready: 0, blocked, quota: 0 });
                }
            }
        }
        all.retain(|row| row.ready + row.blocked + row.quota > 0);
        all.sort_by(|a, b| (&a.tenant, a.band.index()).cmp(&(&b.tenant, b.band.index())));
        all
    }

    /// What fits no worker now, at most `most` rows, those that wait longest first. Cost: linear in queues with jobs.
    #[must_use]
    pub fn blocked(&self, most: usize) -> Vec<BlockedQueue> {
        let mut rows: Vec<_> = self
            .lined()
            .filter(|(_, _, entry)| !entry.stopped)
            .filter_map(|(tenant, band, entry)| {
                let class = self.class_of_line(entry).filter(|class| class.is_blocked())?;
                Some((class, tenant, band, entry))
            })
            .collect();
        rows.sort_by_key(|(class, _, band, entry)| (class.since, band.index(), entry.queue));
        let row = |(class, tenant, band, entry): (&Class, &Tenant, Band, &LaneEntry)| {
            let queue = self.queues.get(entry.queue as usize)?;
            let entries = queue.lists.iter().flat_map(Fifo::iter).take(LOOK);
            let first = entries.into_iter().find(|entry| valid(&self.jobs, *entry))?;
            Some(BlockedQueue {
                tenant: tenant.name.clone(),
                band,
                resources: class.shape.resources.clone(),
                jobs: queue.len(),
                since: class.since,
                first: self.jobs.get(first.job)?.id,
            })
        };
        rows.into_iter().filter_map(row).take(most).collect()
    }

    /// How much waits. Cost: linear in queues with jobs, and in classes.
    #[must_use]
    pub fn waiting(&self) -> Waiting {
        let mut all = Waiting { reservations: self.reservations.len() as u64, ..Waiting::default() };
        for tenant in &self.tenants {
            for (band, lane) in tenant.lanes.iter().enumerate() {
                for entry in &lane.entries {
                    let count = self.queues.get(entry.queue as usize).map_or(0, Queue::len);
                    let blocked = self.classes.get(entry.class).is_some_and(Class::is_blocked);
                    let of = match (entry.stopped, blocked) {
                        (true, _) => &mut all.quota,
                        (false, true) => &mut all.blocked,
                        (false, false) => &mut all.ready,
                    };
                    if let Some(sum) = of.get_mut(band) {
                        *sum += count;
                    }
                }
            }
        }
        for (queue, count) in self.held_jobs() {
            let band = self.queues.get(queue as usize).map_or(0, |queue| queue.band);
            if let Some(sum) = all.blocked.get_mut(band) {
                *sum += count;
            }
        }
        for (_, class) in self.classes.iter().filter(|(_, class)| class.queues > 0) {
            if class.is_blocked() {
                all.classes_blocked += 1;
            } else {
                all.classes_ready += 1;
            }
        }
        all
    }
}
