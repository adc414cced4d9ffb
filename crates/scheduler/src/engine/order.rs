//! Whose turn it is: entries of queues, lanes of tenants, turns of tenants in their band. Owns that these agree with each
//! other; placing and finishing call it.

use super::Scheduler;
use super::record::Job;
use crate::queue::{Entry, Key, LaneEntry};
use crate::table::Slab;

/// Whether an entry still stands for a waiting job.
pub(super) fn valid(jobs: &Slab<Job>, entry: Entry) -> bool {
    jobs.get(entry.job).is_some_and(|job| job.queued && job.stamp == entry.stamp)
}

impl Scheduler {
    /// Puts a job into its queue by its original sequence. Cost: constant for a new job, else logarithmic.
    pub(super) fn enqueue(&mut self, slot: u32) {
        let Some(job) = self.jobs.get_mut(slot) else { return };
        let Some(spec) = self.specs.get(job.spec as usize) else { return };
        self.stamp = self.stamp.wrapping_add(1);
        job.stamp = self.stamp;
        job.queued = true;
        let (id, entry) = (job.id.as_u64(), Entry { job: slot, stamp: job.stamp });
        let step = spec.spec.priority.step();
        let Some(queue) = self.queues.get_mut(spec.queue as usize) else { return };
        if let Some(list) = queue.lists.get_mut(step) {
            list.push(id, entry);
        }
        let key: Key = (u8::try_from(step).unwrap_or(0), id);
        let (number, tenant, band, class) = (spec.queue, queue.tenant, queue.band, queue.class);
        let lined = std::mem::replace(&mut queue.lined, true);
        self.note_queue(number);
        self.pass_quota_reservations(tenant, number, band, key);
        let Some(lane) = self.tenants.get_mut(tenant as usize).and_then(|tenant| tenant.lanes.get_mut(band)) else {
            return;
        };
        if lined {
            if let Some(entry) = lane.get_mut(class) {
                entry.key = entry.key.min(key);
            }
        } else {
            lane.insert(LaneEntry { class, queue: number, key, stopped: false });
            self.class_gains(class);
            self.turn(tenant);
        }
    }

    /// Takes a job out of its queue from wherever it stands.
    pub(super) fn dequeue(&mut self, slot: u32) {
        if self.held_task(slot).is_none() {
            self.leave_quota_reservations(slot);
        }
        let Some(job) = self.jobs.get_mut(slot).filter(|job| job.queued) else { return };
        job.queued = false;
        let Some(spec) = self.jobs.get(slot).and_then(|job| self.specs.get(job.spec as usize)) else { return };
        let (number, step) = (spec.queue, spec.spec.priority.step());
        let jobs = &self.jobs;
        if let Some(list) = self.queues.get_mut(number as usize).and_then(|queue| queue.lists.get_mut(step)) {
            list.give_up(|entry| valid(jobs, entry));
        }
        self.refresh_head(number);
    }

    /// The first job of a queue.
    pub(super) fn head(&mut self, queue: u32) -> Option<(Key, Entry)> {
        let jobs = &self.jobs;
        self.queues.get_mut(queue as usize)?.head(|entry| valid(jobs, entry))
    }

    /// Takes the head of a queue out; `refresh_head` has to follow.
    pub(super) fn pop(&mut self, queue: u32, key: Key, entry: Entry) {
        if let Some(queue) = self.queues.get_mut(queue as usize) {
            queue.pop(key);
        }
        if let Some(job) = self.jobs.get_mut(entry.job) {
            job.queued = false;
        }
    }

    /// Makes lane and turn agree with a queue whose head may have changed.
    pub(super) fn refresh_head(&mut self, number: u32) {
        let head = self.head(number);
        self.note_queue(number);
        let Some(queue) = self.queues.get_mut(number as usize) else { return };
        let (tenant, class) = (queue.tenant, queue.class);
        let lane = self.tenants.get_mut(tenant as usize).and_then(|tenant| tenant.lanes.get_mut(queue.band));
        let Some(lane) = lane.filter(|_| queue.lined) else { return };
        if let Some((key, _)) = head {
            if let Some(entry) = lane.get_mut(class) {
                entry.key = key;
            }
            return;
        }
        queue.lined = false;
        lane.remove(class);
        self.class_loses(class);
        self.turn(tenant);
    }

    /// Makes the turns of a tenant agree with its lanes.
    pub(super) fn turn(&mut self, number: u32) {
        let Some(tenant) = self.tenants.get(number as usize) else { return };
        let runs = tenant.runs();
        for (tree, lane) in self.turns.iter_mut().zip(&tenant.lanes) {
            tree.set(number, tenant.share.to_bits(), if runs { lane.mask } else { 0 });
        }
    }

    /// Works a tenant's share out again after it gained or gave back capacity.
    pub(super) fn weigh_tenant(&mut self, number: u32) {
        if let Some(tenant) = self.tenants.get_mut(number as usize) {
            tenant.share = tenant.weighted_share(&self.table);
            self.turn(number);
            self.note_tenant(number);
        }
    }

    /// A queue of the class got its first job.
    fn class_gains(&mut self, number: u32) {
        let Some(class) = self.classes.get_mut(number) else { return };
        class.queues += 1;
        if class.queues == 1 && !class.is_blocked() {
            self.open_classes.set(number, true);
        }
    }

    /// A queue of the class has no job left.
    fn class_loses(&mut self, number: u32) {
        let Some(class) = self.classes.get_mut(number) else { return };
        class.queues = class.queues.saturating_sub(1);
        if class.queues == 0 && !class.is_blocked() {
            self.open_classes.set(number, false);
        }
    }

    /// Whether a class takes part in rounds.
    pub(super) fn is_open(&self, class: u32) -> bool {
        self.open_classes.has(class)
    }
}
