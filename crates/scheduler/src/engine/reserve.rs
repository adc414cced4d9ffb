//! Reservations and backfill (section 2.7): a blocked head that has waited long enough gets a worker that nobody else may
//! enter, save who leaves in time or fits beside it. Owns which worker and who may pass; the rounds ask. A worker that
//! attempts were ended on is kept in the same way.

use serde::{Deserialize, Serialize};

use orlop_core::id::JobId;

use super::Scheduler;
use super::assign::Target;
use super::record::Attempt;
use super::round::{RoundStats, Turn};
use super::timer::Timer;
use crate::class::request::Request;
use crate::effect::{CancelReason, Effect};
use crate::fault::{Fault, fault};
use crate::fleet::Amounts;
use crate::queue::LaneEntry;
use crate::score::scan::tie;
use crate::table::NONE;
use crate::token::WorkerKey;

/// How many heads of queues are looked at for one reserved worker in one round.
const HEADS: usize = 64;

/// A worker that is kept for a job.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Reservation {
    pub(super) job: u32,
    stamp: u32,
    pub(super) worker: u32,
    pub(super) request: u32,
    /// When it is free for the job by the declared limits of what runs there; absent = nobody knows.
    pub(super) shadow: Option<u64>,
    made: u64,
    /// Attempts were ended for it: the tenant that is charged as if it ran; else `NONE`.
    #[serde(default = "nobody")]
    pub(super) payer: u32,
}

/// Snapshots from before preemption name no payer.
const fn nobody() -> u32 {
    NONE
}

impl Reservation {
    pub(super) const fn new(
        head: &Head,
        (worker, request, shadow): (u32, u32, Option<u64>),
        made: u64,
        payer: u32,
    ) -> Self {
        Self { job: head.job, stamp: head.stamp, worker, request, shadow, made, payer }
    }

    /// Whether attempts were ended for it.
    pub(super) const fn is_held(&self) -> bool {
        self.payer != NONE
    }
}

/// A head that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) turn: Turn,
    pub(super) job: u32,
    stamp: u32,
    submitted: u64,
}

impl Scheduler {
    /// Reserved workers: the job, the worker, and when it is free for it at the latest, if anybody knows.
    pub fn reservations(&self) -> impl Iterator<Item = (JobId, WorkerKey, Option<u64>)> {
        self.reservations
            .iter()
            .filter_map(|kept| Some((self.jobs.get(kept.job)?.id, self.key_of(kept.worker), kept.shadow)))
    }

    /// A class fits nowhere: in a while its head may want a reservation.
    pub(super) fn await_reservation(&mut self) {
        if !self.reserve_timer && self.config.max_reservations > 0 {
            self.reserve_timer = true;
            self.timers.set(self.now.saturating_add(self.config.reserve_after), Timer::Reserve);
        }
    }

    /// Places who has a reservation and fits, and gives up reservations that make no sense any more.
    pub(super) fn honour(&mut self, stats: &mut RoundStats, effects: &mut Vec<Effect>) {
        for kept in self.reservations.clone() {
            let queue = self.sensible(&kept).filter(|_| !kept.is_held() || self.is_owed(&kept));
            let Some((place, queue)) = queue else {
                self.unreserve(kept.job, effects);
                continue;
            };
            let kept = self.pass_on(kept, queue, effects);
            let ready = self.head(queue).is_some_and(|(_, entry)| entry.job == kept.job);
            let fits =
                self.requests.get(kept.request).is_some_and(|request| self.table.hosts(place, &request.need) > 0);
            if ready && fits && self.table.is_whole(place) {
                self.pay_back(kept.job);
                let entered = self.enter_reserved(queue, (kept.worker, kept.request), effects);
                stats.placed += u32::from(entered);
                if entered || kept.is_held() {
                    self.unreserve(kept.job, effects);
                }
            }
        }
    }

    /// The place and the queue of a reservation, if the job still waits and the worker may still run it.
    fn sensible(&self, kept: &Reservation) -> Option<(u32, u32)> {
        let job = self.jobs.get(kept.job).filter(|job| job.queued && job.stamp == kept.stamp)?;
        let spec = self.specs.get(job.spec as usize)?;
        let worker = self.workers.get(kept.worker).filter(|worker| worker.state.is_schedulable())?;
        let place = Some(worker).filter(|worker| !worker.cordoned && worker.drain.is_none())?.place;
        let request = self.requests.get(kept.request)?;
        let could = request.need.iter().all(|(dim, amount)| self.table.total(usize::from(*dim), place) >= *amount);
        let sees = self.classes.get(spec.class).is_some_and(|class| class.sees(self.table.kind(place)));
        (sees && could).then_some((place, spec.queue))
    }

    /// A job that came before the reserved one in its own queue since takes its place: each would wait for the other.
    fn pass_on(&mut self, kept: Reservation, queue: u32, effects: &mut Vec<Effect>) -> Reservation {
        let Some((_, entry)) = self.head(queue) else { return kept };
        if self.reservations.iter().any(|other| other.job == entry.job) {
            return kept;
        }
        let Some(known) = self.reservations.iter_mut().find(|known| known.job == kept.job) else { return kept };
        (known.job, known.stamp) = (entry.job, entry.stamp);
        let passed = *known;
        self.tell_reserved(kept.job, (Vec::new(), None), effects);
        self.tell_reserved(passed.job, (vec![self.key_of(passed.worker)], passed.shadow), effects);
        passed
    }

    fn tell_reserved(&mut self, job: u32, (workers, shadow): (Vec<WorkerKey>, Option<u64>), effects: &mut Vec<Effect>) {
        let revision = self.next_revision();
        let job = self.jobs.get(job).map_or(JobId::from_u64(0), |job| job.id);
        effects.push(Effect::ReservationChanged { job, workers, shadow, revision });
    }

    /// Keeps a worker for a job.
    pub(super) fn keep_worker(&mut self, kept: Reservation, effects: &mut Vec<Effect>) {
        self.reservations.push(kept);
        if let Some(worker) = self.workers.get_mut(kept.worker) {
            worker.reserved = true;
        }
        self.refresh_open(kept.worker);
        self.tell_reserved(kept.job, (vec![self.key_of(kept.worker)], kept.shadow), effects);
    }

    /// Lets in whom a reservation does not hold up, then makes new reservations if it is time to.
    pub(super) fn reserve(&mut self, stats: &mut RoundStats, effects: &mut Vec<Effect>) {
        if self.reservations.is_empty() && !self.reserve_due {
            return;
        }
        let heads = self.waiting_heads();
        for kept in self.reservations.clone() {
            for head in heads.iter().take(HEADS) {
                if let Some(request) = self.may_pass(&kept, head)
                    && self.enter_reserved(head.turn.entry.queue, (kept.worker, request), effects)
                {
                    stats.placed += 1;
                }
            }
        }
        if self.reserve_due {
            self.reserve_due = false;
            self.make_reservations(&heads, effects);
            if !heads.is_empty() {
                self.await_reservation();
            }
        }
    }

    /// Heads of queues that wait because their class fits nowhere, the longest waiting first.
    pub(super) fn waiting_heads(&mut self) -> Vec<Head> {
        let mut turns = Vec::new();
        for (number, tenant) in (0_u32..).zip(&self.tenants) {
            for (band, lane) in tenant.lanes.iter().enumerate() {
                let blocked = |entry: &&LaneEntry| {
                    !entry.stopped && self.classes.get(entry.class).is_some_and(crate::class::Class::is_blocked)
                };
                turns.extend(lane.entries.iter().filter(blocked).map(|entry| Turn {
                    band,
                    tenant: number,
                    entry: *entry,
                }));
            }
        }
        let mut heads = Vec::new();
        for turn in turns {
            if let Some((_, entry)) = self.head(turn.entry.queue)
                && let Some(job) = self.jobs.get(entry.job)
                && !self.is_gang(entry.job)
            {
                heads.push(Head { turn, job: entry.job, stamp: entry.stamp, submitted: job.submitted });
            }
        }
        heads.sort_unstable_by_key(|head| (head.submitted, self.jobs.get(head.job).map(|job| job.id)));
        heads
    }

    /// The first blocked head of each band, then the next by waiting time, each once it has waited long enough.
    fn make_reservations(&mut self, heads: &[Head], effects: &mut Vec<Effect>) {
        let waited = |head: &&Head| head.submitted.saturating_add(self.config.reserve_after) <= self.now;
        let old: Vec<Head> = heads.iter().filter(waited).copied().collect();
        let of_band =
            |band| old.iter().filter(move |head| head.turn.band == band).min_by_key(|head| head.turn.entry.key);
        let firsts: Vec<Head> = (0..3).filter_map(of_band).copied().collect();
        for head in firsts.into_iter().chain(old.iter().copied()) {
            let full = self.reservations.iter().filter(|kept| !kept.is_held()).count()
                >= self.config.max_reservations as usize;
            if full || self.reservations.iter().any(|kept| kept.job == head.job) {
                continue;
            }
            let Some(choice) = self.earliest(&head) else { continue };
            self.keep_worker(Reservation::new(&head, choice, self.now, NONE), effects);
        }
    }

    /// The worker that fits a head earliest by the declared limits of what runs there; without limits the one lacking least.
    fn earliest(&self, head: &Head) -> Option<(u32, u32, Option<u64>)> {
        let class = self.classes.get(head.turn.entry.class)?;
        let mut best: Option<((u64, i64, u64), u32, u32)> = None;
        for (number, worker) in self.workers.iter().filter(|(_, worker)| worker.place != NONE && !worker.reserved) {
            let place = worker.place;
            if !self.table.is_open(place) || !class.sees(self.table.kind(place)) {
                continue;
            }
            for request in &class.requests {
                let Some(vector) = self.requests.get(*request) else { continue };
                let could =
                    vector.need.iter().all(|(dim, amount)| self.table.total(usize::from(*dim), place) >= *amount);
                if !could {
                    continue;
                }
                let shadow = self.free_for(number, vector).unwrap_or(u64::MAX);
                let lack = |(dim, amount): &(u8, i32)| {
                    let free = self.table.free(usize::from(*dim), place);
                    i64::from(*amount).saturating_sub(i64::from(free)).max(0) * 1_000_000
                        / i64::from(self.table.total(usize::from(*dim), place).max(1))
                };
                let key = (shadow, vector.need.iter().map(lack).max().unwrap_or(0), tie(self.seed, place));
                if best.is_none_or(|(known, ..)| key < known) {
                    best = Some((key, number, *request));
                }
            }
        }
        best.map(|((shadow, ..), worker, request)| (worker, request, (shadow != u64::MAX).then_some(shadow)))
    }

    /// When an attempt ends at the latest by its declared limit.
    fn ends_by(&self, attempt: &Attempt) -> u64 {
        let Some(spec) = self.spec_of(attempt.unit.job).filter(|spec| spec.timeout_ms > 0) else { return u64::MAX };
        let begin = if attempt.started { attempt.started_at } else { self.now };
        begin.saturating_add(spec.timeout_ms).saturating_add(spec.grace_ms)
    }

    /// When a request fits a worker at the latest; none if nobody knows.
    fn free_for(&self, worker: u32, request: &Request) -> Option<u64> {
        let place = self.workers.get(worker)?.place;
        let mut ends: Vec<(u64, u32)> = Vec::new();
        for slot in self.attempts_on(worker) {
            let attempt = self.attempts.get(slot)?;
            ends.push((self.ends_by(attempt), attempt.request));
        }
        ends.sort_unstable();
        let mut free: Amounts = std::array::from_fn(|dim| self.table.free(dim, place));
        let mut at = self.now;
        let mut ends = ends.into_iter();
        loop {
            if request.need.iter().all(|(dim, amount)| free.get(usize::from(*dim)).is_some_and(|free| free >= amount)) {
                return Some(at);
            }
            let (end, ended) = ends.next().filter(|(end, _)| *end != u64::MAX)?;
            at = at.max(end);
            for (dim, amount) in self.requests.get(ended).map_or(&[][..], |request| &request.need) {
                if let Some(free) = free.get_mut(usize::from(*dim)) {
                    *free = free.saturating_add(*amount);
                }
            }
        }
    }

    /// The request vector by which a head may enter a reserved worker without holding the reservation up.
    fn may_pass(&self, kept: &Reservation, head: &Head) -> Option<u32> {
        let current = self.jobs.get(head.job).is_some_and(|job| job.queued && job.stamp == head.stamp);
        let worker = self
            .workers
            .get(kept.worker)
            .filter(|worker| current && worker.state.is_schedulable() && !worker.cordoned)?;
        let (place, class) = (worker.place, self.classes.get(head.turn.entry.class)?);
        if kept.job == head.job
            || !class.sees(self.table.kind(place))
            || !self.table.is_whole(place)
            || worker.drain.is_some()
        {
            return None;
        }
        let spec = self.spec_of(head.job)?;
        let ends = self.now.saturating_add(spec.timeout_ms).saturating_add(spec.grace_ms);
        let in_time = spec.timeout_ms > 0 && kept.shadow.is_some_and(|shadow| ends <= shadow);
        let beside = self.left_beside(kept, place)?;
        let tenant = self.tenants.get(head.turn.tenant as usize)?;
        let fits = |number: &u32| {
            let Some(request) = self.requests.get(*number) else { return false };
            let together = request
                .need
                .iter()
                .all(|(dim, amount)| beside.get(usize::from(*dim)).is_some_and(|left| left >= amount));
            self.table.hosts(place, &request.need) > 0 && (in_time || together) && tenant.room(request, &self.dims) > 0
        };
        class.requests.iter().copied().find(fits)
    }

    /// What a reserved worker has beside the reserved request and what will still be there when it starts.
    pub(super) fn left_beside(&self, kept: &Reservation, place: u32) -> Option<Amounts> {
        let mut left: Amounts = std::array::from_fn(|dim| self.table.total(dim, place));
        let mut take = |request: u32| {
            for (dim, amount) in self.requests.get(request).map_or(&[][..], |request| &request.need) {
                if let Some(left) = left.get_mut(usize::from(*dim)) {
                    *left = left.saturating_sub(*amount);
                }
            }
        };
        if !(kept.is_held() && fault(Fault::NoHold)) {
            take(kept.request);
        }
        for slot in self.attempts_on(kept.worker) {
            let attempt = self.attempts.get(slot)?;
            let stays = match kept.shadow {
                _ if kept.is_held() => attempt.ending != Some(CancelReason::Preempt),
                Some(shadow) => self.ends_by(attempt) > shadow,
                None => attempt.assigned_at >= kept.made,
            };
            if stays {
                take(attempt.request);
            }
        }
        Some(left)
    }

    /// Places the head of a queue on a reserved worker, charges included.
    fn enter_reserved(&mut self, queue: u32, (worker, request): (u32, u32), effects: &mut Vec<Effect>) -> bool {
        let Some(record) = self.queues.get(queue as usize) else { return false };
        let (tenant, band) = (record.tenant, record.band);
        let Some(vector) = self.requests.get(request) else { return false };
        if self.tenants.get(tenant as usize).is_none_or(|tenant| tenant.room(vector, &self.dims) == 0 || !tenant.runs())
        {
            return false;
        }
        let share = vector.share(&self.table);
        let Some(unit) = self.take(queue) else { return false };
        let place = self.workers.get(worker).map_or(NONE, |worker| worker.place);
        if let Some(vector) = self.requests.get(request) {
            self.table.charge(place, &vector.need, 1);
            if let Some(tenant) = self.tenants.get_mut(tenant as usize) {
                tenant.charge(vector, 1);
            }
        }
        let target = Target { worker, request, tenant };
        if !self.assign(unit, &[target], effects) {
            self.give_up(unit, effects);
        }
        self.charge_band(band, share);
        self.weigh_tenant(tenant);
        self.refresh_head(queue);
        true
    }

    /// Gives a reservation back.
    pub(super) fn unreserve(&mut self, job: u32, effects: &mut Vec<Effect>) {
        self.pay_back(job);
        let Some(at) = self.reservations.iter().position(|kept| kept.job == job) else { return };
        let kept = self.reservations.remove(at);
        self.reserve_due = true;
        if let Some(worker) = self.workers.get_mut(kept.worker) {
            worker.reserved = false;
        }
        self.refresh_open(kept.worker);
        self.tell_reserved(job, (Vec::new(), None), effects);
    }
}
