//! Reservations: the first job of a tenant and band that its tenant's limits have stopped for long
//! would wait for ever while the tenant's own smaller jobs keep these limits used up. So the tenant reserves for it: others of
//! its jobs start only if they fit under the limits together with all that it needs. Owns for whom a tenant reserves and until
//! when; what is reserved is taken off in `room`.
//!
//! Who waited longest is reserved for, one at a time, until it starts, leaves, is not the first any more, or could never run. A
//! job that is held back because of a worker that it avoids is still the first, and still reserved for. What was reserved before
//! may still start, which is a bounded number of jobs.

use orlop_core::id::{JobId, TenantName};

use super::Scheduler;
use super::round::Pick;
use super::timer::Timer;
use crate::class::{Class, Request};
use crate::queue::{Key, LaneEntry};
use crate::starvation::{ReservedJob, Watched};
use crate::table::NONE;

/// Where no job stands.
pub(super) const NOBODY: Key = (u8::MAX, u64::MAX);

impl Scheduler {
    /// Tenants that save their limits for a job, and the job. Cost: linear in tenants.
    pub fn quota_reservations(&self) -> impl Iterator<Item = (&TenantName, JobId)> {
        self.tenants.iter().filter_map(|tenant| {
            let target = tenant.reservation.target?;
            Some((&tenant.name, self.jobs.get(target.job)?.id))
        })
    }

    /// The job that a tenant reserves for.
    pub(super) fn quota_reserved_for(&self, tenant: u32) -> Option<JobId> {
        let target = self.tenants.get(tenant as usize)?.reservation.target?;
        self.jobs.get(target.job).map(|job| job.id)
    }

    /// What a tenant reserves of each of its limits, as far as that concerns a job, by where this stands in its band; nothing if
    /// it reserves for this one or for none. Cost: constant if it reserves for none.
    pub(super) fn reserved_quota(&self, tenant: u32, key: Key) -> Vec<u64> {
        let target = self.tenants.get(tenant as usize).and_then(|tenant| tenant.reservation.target);
        match target.filter(|target| target.key != key) {
            Some(target) => self.needs(tenant, target.queue),
            None => Vec::new(),
        }
    }

    /// The most that a queue's first job may need of each limit, by any request vector that the limits could ever allow.
    fn needs(&self, tenant: u32, queue: u32) -> Vec<u64> {
        let mut most: Vec<u64> = Vec::new();
        for (_, needs) in self.ever(tenant, queue) {
            most.resize(most.len().max(needs.len()), 0);
            most.iter_mut().zip(needs).for_each(|(most, need)| *most = need.max(*most));
        }
        most
    }

    /// Request vectors of a queue that the limits could ever allow, with what they need of each.
    fn ever(&self, tenant: u32, queue: u32) -> Vec<(u32, Vec<u64>)> {
        let tenant = self.tenants.get(tenant as usize);
        let class = self.queues.get(queue as usize).and_then(|queue| self.classes.get(queue.class));
        let (Some(tenant), Some(class)) = (tenant, class) else { return Vec::new() };
        let members = class.shape.gang.as_ref().map_or(1, |gang| u64::from(gang.size));
        let needs = |number: &u32| {
            let request = self.requests.get(*number)?;
            Some((*number, tenant.needs(request, &self.dims, members)?))
        };
        class.requests.iter().filter_map(needs).collect()
    }

    /// Whether a job may not even take over the slots of others: what is reserved is not there yet.
    pub(super) fn is_barred(&self, tenant: u32, key: Key, request: u32) -> bool {
        let reserved = self.reserved_quota(tenant, key);
        let (tenant, request) = (self.tenants.get(tenant as usize), self.requests.get(request));
        let spares =
            |(tenant, request): (&crate::tenant::Tenant, &Request)| tenant.spares(request, &self.dims, &reserved);
        !reserved.is_empty() && !tenant.zip(request).is_some_and(spares)
    }

    /// The first queue of a tenant and band that the limits could ever allow and the workers could ever hold, as far as that is
    /// known: who waits for other limits or workers stands in nobody's way. Cost: linear in the queues of the lane and in what is
    /// held back.
    pub(super) fn first_line(&self, tenant: u32, band: usize) -> Option<LaneEntry> {
        let record = self.tenants.get(tenant as usize)?;
        let impossible = |entry: &LaneEntry| record.reservation.possible.get(&entry.queue) == Some(&false);
        let stands = |entry: &LaneEntry| !impossible(entry) && self.could_allow(tenant, entry.queue);
        let lane = record.lanes.get(band)?;
        let lines = || lane.entries.iter().copied().chain(self.held_lines(tenant, band));
        let first = lines().min_by_key(|entry| entry.key)?;
        if stands(&first) {
            return Some(first);
        }
        let mut lines: Vec<LaneEntry> = lines().collect();
        lines.sort_unstable_by_key(|entry| entry.key);
        lines.into_iter().find(stands)
    }

    /// The same, by what workers there are. Cost: as said there, and linear in workers for each queue of which that is not
    /// known.
    fn first_possible(&mut self, tenant: u32, band: usize) -> Option<LaneEntry> {
        loop {
            let line = self.first_line(tenant, band)?;
            if self.is_possible(tenant, line.queue) {
                return Some(line);
            }
        }
    }

    /// Whether the workers that are there could ever hold the first job of a queue; what is found is kept.
    fn is_possible(&mut self, number: u32, queue: u32) -> bool {
        let known = |tenant: &crate::tenant::Tenant| tenant.reservation.possible.get(&queue).copied();
        if let Some(known) = self.tenants.get(number as usize).and_then(known) {
            return known;
        }
        let possible = self.could_ever(number, queue);
        if let Some(tenant) = self.tenants.get_mut(number as usize) {
            tenant.reservation.possible.insert(queue, possible);
        }
        possible
    }

    /// Limits or workers are others: what is reserved for may not be the first any more that could ever run.
    fn judge_goal(&mut self, number: u32) {
        let Some(tenant) = self.tenants.get_mut(number as usize) else { return };
        tenant.reservation.possible.clear();
        let Some(target) = tenant.reservation.target else { return };
        if self.first_possible(number, target.band).is_none_or(|line| line.queue != target.queue) {
            self.end_quota_reservation(number);
        }
    }

    /// Whether the limits could ever allow the jobs of a queue, by what workers are known to have.
    fn could_allow(&self, tenant: u32, queue: u32) -> bool {
        !self.ever(tenant, queue).is_empty()
    }

    /// A queue was stopped: if it is the first of its tenant and band, it is watched from now on.
    pub(super) fn watch_stopped(&mut self, turn: &Pick) {
        if self.first_possible(turn.tenant, turn.band).is_some_and(|first| first.class == turn.entry.class) {
            self.watch(turn.tenant, turn.band);
        }
    }

    /// Whether its tenant's limits are in the way of the first job of a queue, by any of its request vectors that they could
    /// ever allow.
    fn lacks(&self, tenant: u32, line: &LaneEntry) -> bool {
        let (ever, mut allowed) = (self.ever(tenant, line.queue), Vec::new());
        let numbers: Vec<u32> = ever.iter().map(|(number, _)| *number).collect();
        let members =
            self.classes.get(line.class).and_then(|class| class.shape.gang.as_ref()).map_or(1, |gang| gang.size);
        self.room(tenant, line.key, &numbers, members, &mut allowed);
        allowed.len() < numbers.len() && (line.stopped || allowed.is_empty())
    }

    /// Notes whether the limits stop the first job of a tenant and band, and since when. Who was stopped once stays noted until
    /// it leaves, also while only room is missing: else jobs that come and go would stop it now by the limits and now by what
    /// they hold, and it would never have waited long for either.
    pub(super) fn watch(&mut self, number: u32, band: usize) {
        let line = self.first_possible(number, band);
        let lacks = line.is_some_and(|line| self.lacks(number, &line));
        let first = line.and_then(|line| self.ids.get(line.key.1));
        let (now, due) = (self.now, self.now.saturating_add(self.config.reserve_after));
        let Some(tenant) = self.tenants.get_mut(number as usize) else { return };
        let Some(watched) = tenant.reservation.watched.get_mut(band) else { return };
        let known = watched.take();
        *watched = first.and_then(|job| {
            let same = known.filter(|known| known.job == job);
            same.or_else(|| lacks.then_some(Watched { job, since: now }))
        });
        if watched.is_some() && tenant.reservation.target.is_none() && !tenant.reservation.timer {
            tenant.reservation.timer = true;
            self.timers.set(due, Timer::QuotaReservation(number));
        }
    }

    /// The reservations of a tenant are to be looked at in the next round.
    pub(super) fn quota_reservation_due(&mut self, number: u32) {
        if self.reservations_due.last() != Some(&number) {
            self.reservations_due.push(number);
        }
    }

    /// Somebody may have been stopped for long enough.
    pub(super) fn quota_reservation_timed(&mut self, number: u32) {
        if let Some(tenant) = self.tenants.get_mut(number as usize) {
            tenant.reservation.timer = false;
            self.quota_reservation_due(number);
        }
    }

    /// A job starts, or nothing of it waits any more: nobody reserves for it any more, and it is watched no longer.
    pub(super) fn leave_quota_reservations(&mut self, job: u32) {
        let number = self.tenant_of(job);
        let Some(tenant) = self.tenants.get_mut(number as usize) else { return };
        for watched in &mut tenant.reservation.watched {
            *watched = watched.filter(|watched| watched.job != job);
        }
        if tenant.reservation.target.is_some_and(|target| target.job == job) {
            self.end_quota_reservation(number);
        }
    }

    /// A job waits in a queue, or may return to it: if it comes before the one that its tenant reserves for, that is not the
    /// first any more; if it is that one, nothing is reserved of what others of its queue were stopped by.
    pub(super) fn pass_quota_reservations(&mut self, number: u32, queue: u32, band: usize, key: Key) {
        let Some(target) = self.tenants.get(number as usize).and_then(|tenant| tenant.reservation.target) else {
            return;
        };
        if target.key == key {
            self.note_relief(number);
        }
        if target.band == band && key < target.key && self.could_allow(number, queue) && self.is_possible(number, queue)
        {
            self.end_quota_reservation(number);
        }
    }

    /// The limits of a tenant have changed: others may be the first of their bands that these could ever allow.
    pub(super) fn limits_changed(&mut self, number: u32) {
        self.judge_goal(number);
        self.quota_reservation_due(number);
    }

    fn end_quota_reservation(&mut self, number: u32) {
        if let Some(tenant) = self.tenants.get_mut(number as usize) {
            tenant.reservation.target = None;
        }
        self.note_relief(number);
        // Somebody else may have waited for it.
        self.quota_reservation_due(number);
    }

    /// Reservations end for what could never run by now. Cost: none unless limits or workers changed.
    pub(super) fn review_quota_reservations(&mut self) {
        if !std::mem::take(&mut self.fleet_moved) {
            return;
        }
        for number in (0..self.tenants.len()).filter_map(|number| u32::try_from(number).ok()) {
            let concerned = self.tenants.get(number as usize).is_some_and(|tenant| tenant.reservation.is_on());
            self.judge_goal(number);
            if concerned {
                self.reservations_due.push(number);
            }
        }
    }

    /// After a round: tenants reserve for who has been stopped long enough, the longest first.
    pub(super) fn begin_quota_reservations(&mut self) {
        let mut reservations_due = std::mem::take(&mut self.reservations_due);
        reservations_due.sort_unstable();
        reservations_due.dedup();
        reservations_due.into_iter().for_each(|number| self.reserve_quota(number));
    }

    fn reserve_quota(&mut self, number: u32) {
        (0..3).for_each(|band| self.watch(number, band));
        let Some(tenant) = self.tenants.get(number as usize).filter(|tenant| tenant.reservation.target.is_none())
        else {
            return;
        };
        let mut watched: Vec<(u64, u64, usize)> = Vec::new();
        for (band, known) in tenant.reservation.watched.iter().enumerate() {
            let id = known.and_then(|known| self.jobs.get(known.job)).map(|job| job.id.as_u64());
            watched.extend(
                known.zip(id).map(|(known, id)| (known.since.saturating_add(self.config.reserve_after), id, band)),
            );
        }
        watched.sort_unstable();
        let (due, early): (Vec<_>, Vec<_>) = watched.into_iter().partition(|(at, ..)| *at <= self.now);
        for (_, _, band) in due {
            let Some(line) = self.first_possible(number, band) else { continue };
            let Some(job) = self.ids.get(line.key.1) else { continue };
            if let Some(tenant) = self.tenants.get_mut(number as usize) {
                tenant.reservation.target = Some(ReservedJob { job, queue: line.queue, band, key: line.key });
            }
            return;
        }
        let tenant = self.tenants.get_mut(number as usize).filter(|tenant| !tenant.reservation.timer);
        if let (Some((at, ..)), Some(tenant)) = (early.first(), tenant) {
            tenant.reservation.timer = true;
            self.timers.set(*at, Timer::QuotaReservation(number));
        }
    }

    /// Whether the limits could ever allow the first job of a queue, and the workers that are there now could hold it if they
    /// were empty. Cost: linear in workers.
    fn could_ever(&self, tenant: u32, queue: u32) -> bool {
        let class = self.queues.get(queue as usize).and_then(|queue| self.classes.get(queue.class));
        let numbers: Vec<u32> = self.ever(tenant, queue).into_iter().map(|(number, _)| number).collect();
        class.is_some_and(|class| self.could_hold(class, &numbers, NONE))
    }

    /// Whether the workers that are there now, but for one, could hold a job of a class by some of its request vectors if they
    /// were empty. Cost: for a single job constant where the first one could, else linear in workers.
    pub(super) fn could_hold(&self, class: &Class, numbers: &[u32], but: u32) -> bool {
        let gang = class.shape.gang.as_ref();
        let (size, label) = gang.map_or((1, None), |gang| (gang.size, gang.same_label.as_deref()));
        let most = gang.and_then(|gang| gang.max_per_worker).unwrap_or(size);
        let mut groups: std::collections::BTreeMap<&str, u64> = std::collections::BTreeMap::new();
        for (_, worker) in self.workers.iter().filter(|(number, _)| *number != but) {
            let kind = self.table.kind(worker.place);
            if !self.could_open(worker) || !class.sees(kind) {
                continue;
            }
            let group = match label {
                None => Some(""),
                Some(label) => self.kinds.get(kind).and_then(|kind| kind.labels.get(label)).map(String::as_str),
            };
            let total =
                |(dim, amount): &(u8, i32)| self.table.total(usize::from(*dim), worker.place) / (*amount).max(1);
            let times = |number: &u32| self.requests.get(*number)?.need.iter().map(total).min();
            let times = numbers.iter().filter_map(times).max().and_then(|times| u32::try_from(times).ok()).unwrap_or(0);
            let Some(sum) = group.map(|group| groups.entry(group).or_default()) else { continue };
            *sum += u64::from(times.min(most));
            if *sum >= u64::from(size) {
                return true;
            }
        }
        false
    }
}
