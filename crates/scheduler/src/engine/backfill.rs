//! Backfill: who may enter a reserved worker without holding the reservation up. Owns the two rules, by time
//! and by room, and what it takes to enter; who reserves what is decided in `reserve`.

use super::Scheduler;
use super::assign::Target;
use super::heads::Head;
use super::reserve::{Reservation, Seat};
use super::round::RoundStats;
use crate::effect::{CancelReason, Effect};
use crate::fleet::Amounts;
use crate::table::NONE;

/// A worker of a reservation and a head that may enter it, by position.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    kept: usize,
    seat: usize,
    head: usize,
}

impl Scheduler {
    /// Lets in whom reservations do not hold up, up to the limit of the round. Cost: linear in reservations, and for each worker
    /// of theirs that changed in the heads that are looked at, for each of these that changed in reserved workers.
    pub(super) fn backfill(&mut self, limit: u32, stats: &mut RoundStats, effects: &mut Vec<Effect>) {
        if self.reservations.is_empty() {
            return;
        }
        self.refresh_oldest();
        self.heads.trying = true;
        if self.try_all(limit, stats, effects) {
            for kept in &mut self.reservations {
                kept.seen.tried = true;
                kept.seen.touched.clear();
            }
            self.heads.note_tried();
            self.changes.grown.clear();
        }
        self.heads.trying = false;
    }

    /// Tries whom something has changed for; returns whether the limit of the round left time for all of them.
    fn try_all(&mut self, limit: u32, stats: &mut RoundStats, effects: &mut Vec<Effect>) -> bool {
        let workers = self.reservations.iter().any(|kept| !kept.seen.tried || !kept.seen.touched.is_empty());
        let heads = self.heads.bits(|old| old.fresh) != 0;
        if workers || heads {
            self.measure_left();
            if !self.let_in(limit, stats, effects) {
                return false;
            }
        }
        self.let_gangs_in(workers, limit, stats, effects)
    }

    /// Works out again what workers that changed have left beside what is reserved.
    fn measure_left(&mut self) {
        for at in 0..self.reservations.len() {
            let Some(kept) = self.reservations.get(at) else { continue };
            let seats: Vec<usize> =
                if kept.seen.tried { kept.seen.touched.clone() } else { (0..kept.seats.len()).collect() };
            for number in seats {
                let Some(kept) = self.reservations.get(at) else { continue };
                let left = kept.seats.get(number).and_then(|seat| self.left_beside(kept, seat)).unwrap_or_default();
                let Some(kept) = self.reservations.get_mut(at) else { continue };
                kept.seen.left.resize(kept.seats.len(), Amounts::default());
                kept.seen.left.get_mut(number).into_iter().for_each(|known| *known = left);
            }
        }
    }

    /// Lets single jobs in; returns whether all that may enter were looked at.
    fn let_in(&mut self, limit: u32, stats: &mut RoundStats, effects: &mut Vec<Effect>) -> bool {
        let mut from = Pair::default();
        loop {
            // Who leaves may let others of its tenant have more.
            let single = self.heads.bits(|old| !old.gang);
            let fresh = single & self.heads.bits(|old| old.fresh);
            let Some((pair, request)) = self.next_pair(from, single, fresh) else { return true };
            let (Some(kept), Some(old)) = (self.reservations.get(pair.kept), self.heads.oldest.get(pair.head)) else {
                return false;
            };
            let Some(seat) = kept.seats.get(pair.seat).filter(|_| stats.placed < limit) else { return false };
            let (queue, seat) = (old.head.turn.entry.queue, Seat { worker: seat.worker, request, times: 1 });
            stats.placed += self.take_seats(queue, &[seat], effects);
            from = Pair { head: pair.head + 1, ..pair };
        }
    }

    /// The next worker that changed and the next head that may enter it, or the other way round, in the order of reservations,
    /// their workers and the age of heads. Of the heads those are given by position that are no gangs, and of these the fresh ones.
    fn next_pair(&self, from: Pair, single: u64, fresh: u64) -> Option<(Pair, u32)> {
        for (number, kept) in self.reservations.iter().enumerate().skip(from.kept) {
            let first = if number == from.kept { from.seat } else { 0 };
            for (place, seat) in kept.seats.iter().enumerate().skip(first) {
                let changed = !kept.seen.tried || kept.seen.touched.contains(&place);
                let begin = if (number, place) == (from.kept, from.seat) { from.head } else { 0 };
                let mut left = if changed { single } else { fresh };
                while left != 0 {
                    let at = left.trailing_zeros() as usize;
                    left &= left - 1;
                    let Some(old) = self.heads.oldest.get(at).filter(|_| at >= begin) else { continue };
                    if self.might_pass(kept, place, &old.head)
                        && let Some(request) = self.may_pass(kept, seat, &old.head)
                    {
                        return Some((Pair { kept: number, seat: place, head: at }, request));
                    }
                }
            }
        }
        None
    }

    /// Whether a head may fit a reserved worker, by what is at hand: whoever does not now must not be looked at closely.
    fn might_pass(&self, kept: &Reservation, seat: usize, head: &Head) -> bool {
        let (Some(class), Some(worker)) = (
            self.classes.get(head.turn.entry.class),
            kept.seats.get(seat).and_then(|seat| self.workers.get(seat.worker)),
        ) else {
            return false;
        };
        let left = kept.seen.left.get(seat);
        let fits = |(dim, amount): &(u8, i32), amounts: Option<&Amounts>| {
            amounts.and_then(|amounts| amounts.get(usize::from(*dim))).is_some_and(|left| left >= amount)
        };
        class.requests.iter().filter_map(|number| self.requests.get(*number)).any(|request| {
            let free = |(dim, amount): &(u8, i32)| self.table.free(usize::from(*dim), worker.place) >= *amount;
            request.need.iter().all(free)
                && (request.need.iter().all(|need| fits(need, left)) || self.leaves_in_time(kept, head))
        })
    }

    /// Whether a head would end before the workers of a reservation are free for it.
    fn leaves_in_time(&self, kept: &Reservation, head: &Head) -> bool {
        let Some(spec) = self.spec_of(head.job).filter(|spec| spec.timeout_ms > 0) else { return false };
        let ends = self.now.saturating_add(spec.timeout_ms).saturating_add(spec.grace_ms);
        kept.shadow.is_some_and(|shadow| ends <= shadow)
    }

    /// Lets gangs in that may have members on reserved workers; returns whether all that may enter were looked at. `workers` says
    /// whether reserved ones changed.
    fn let_gangs_in(&mut self, workers: bool, limit: u32, stats: &mut RoundStats, effects: &mut Vec<Effect>) -> bool {
        let mut gangs = self.heads.bits(|old| old.gang);
        while gangs != 0 {
            let at = gangs.trailing_zeros() as usize;
            gangs &= gangs - 1;
            let Some(old) = self.heads.oldest.get(at).copied() else { continue };
            if !workers && !old.fresh && !self.changes.grown.iter().any(|worker| self.takes_member(worker, &old.head)) {
                continue;
            }
            let passes =
                |kept: &Reservation| kept.seats.iter().any(|seat| self.may_pass(kept, seat, &old.head).is_some());
            if self.reservations.iter().any(passes) {
                if stats.placed >= limit {
                    return false;
                }
                stats.placed += self.pass_gang(&old.head, effects);
            }
        }
        true
    }

    /// Whether a worker has room for a member of a gang now.
    fn takes_member(&self, worker: u32, head: &Head) -> bool {
        let (Some(class), Some(worker)) = (self.classes.get(head.turn.entry.class), self.workers.get(worker)) else {
            return false;
        };
        class.fits(&self.table.spot(worker.place), &self.requests)
    }

    /// Places a gang whose members may be on reserved workers, where reservations allow it; returns how many members.
    fn pass_gang(&mut self, head: &Head, effects: &mut Vec<Effect>) -> u32 {
        let Some(class) = self.classes.get(head.turn.entry.class) else { return 0 };
        let size = class.shape.gang.as_ref().map_or(0, |gang| gang.size);
        let first = class.requests.first().and_then(|number| self.requests.get(*number));
        let share = first.map_or(0.0, |first| first.share(&self.table));
        let mut allowed = Vec::new();
        let room = self.room(head.turn.tenant, head.turn.entry.key, &class.requests, size, &mut allowed);
        if room == 0 || self.tenants.get(head.turn.tenant as usize).is_none_or(|tenant| !tenant.runs()) {
            return 0;
        }
        let placed = self.place_gang(head.turn, &allowed, Some(head), effects);
        self.charge_band(head.turn.band, share * f64::from(placed));
        placed
    }

    /// The request vector by which a head, of a gang one member, may enter a reserved worker without holding the
    /// reservation up.
    pub(super) fn may_pass(&self, kept: &Reservation, seat: &Seat, head: &Head) -> Option<u32> {
        let current = self.jobs.get(head.job).is_some_and(|job| job.queued && job.stamp == head.stamp);
        let class = self.classes.get(head.turn.entry.class).filter(|_| current && kept.job != head.job)?;
        let place = self.workers.get(seat.worker)?.place;
        if !class.sees(self.table.kind(place)) || self.shunned(head.task) == seat.worker {
            return None;
        }
        let mut allowed = Vec::new();
        self.room(head.turn.tenant, head.turn.entry.key, &class.requests, 1, &mut allowed);
        allowed.into_iter().find(|number| self.passing(kept, seat, head, *number) > 0)
    }

    /// How many attempts of a head, by a request vector, a reserved worker may take without holding the reservation up:
    /// as many as fit if these end in time, else as many as fit beside what is reserved.
    pub(super) fn passing(&self, kept: &Reservation, seat: &Seat, head: &Head, number: u32) -> u32 {
        let (Some(worker), Some(request)) = (self.workers.get(seat.worker), self.requests.get(number)) else {
            return 0;
        };
        if !self.could_open(worker) {
            return 0;
        }
        let hosts = self.table.hosts(worker.place, &request.need);
        if kept.job == head.job || self.leaves_in_time(kept, head) {
            return hosts;
        }
        let Some(left) = self.left_beside(kept, seat) else { return 0 };
        let times = |(dim, amount): &(u8, i32)| left.get(usize::from(*dim)).map_or(0, |left| left / (*amount).max(1));
        let beside = request.need.iter().map(times).min().and_then(|times| u32::try_from(times).ok());
        hosts.min(beside.unwrap_or(0))
    }

    /// What a reserved worker has beside what is reserved of it and what will still be there when the job starts.
    pub(super) fn left_beside(&self, kept: &Reservation, seat: &Seat) -> Option<Amounts> {
        let place = self.workers.get(seat.worker)?.place;
        let mut left: Amounts = std::array::from_fn(|dim| self.table.total(dim, place));
        let mut take = |request: u32, times: u32| {
            for (dim, amount) in self.requests.get(request).map_or(&[][..], |request| &request.need) {
                if let Some(left) = left.get_mut(usize::from(*dim)) {
                    let times = i32::try_from(times).unwrap_or(i32::MAX);
                    *left = left.saturating_sub(amount.saturating_mul(times));
                }
            }
        };
        take(seat.request, seat.times);
        for slot in self.attempts_on(seat.worker) {
            let attempt = self.attempts.get(slot)?;
            let stays = match kept.shadow {
                _ if attempt.waiting => false,
                _ if kept.is_held() => attempt.ending != Some(CancelReason::Preempted),
                Some(shadow) => self.ends_by(attempt) > shadow,
                None => attempt.assigned_at >= kept.made,
            };
            if stays {
                take(attempt.request, 1);
            }
        }
        Some(left)
    }

    /// Places the head of a queue on reserved workers, charges included; returns how many attempts that makes, 0 if its
    /// tenant's limits are in the way.
    pub(super) fn take_seats(&mut self, queue: u32, seats: &[Seat], effects: &mut Vec<Effect>) -> u32 {
        let Some(record) = self.queues.get(queue as usize) else { return 0 };
        let (number, band) = (record.tenant, record.band);
        let Some(tenant) = self.tenants.get(number as usize).filter(|tenant| tenant.runs()) else { return 0 };
        let count: u32 = seats.iter().map(|seat| seat.times).sum();
        let room = |seat: &Seat| self.requests.get(seat.request).map_or(0, |request| tenant.room(request, &self.dims));
        if seats.iter().map(room).min().is_none_or(|room| room < u64::from(count)) {
            return 0;
        }
        let Some(task) = self.take(queue) else { return 0 };
        let (mut targets, mut share) = (Vec::new(), 0.0);
        for seat in seats {
            let place = self.workers.get(seat.worker).map_or(NONE, |worker| worker.place);
            let Some(request) = self.requests.get(seat.request) else { continue };
            share += request.share(&self.table) * f64::from(seat.times);
            self.table.charge(place, &request.need, i32::try_from(seat.times).unwrap_or(0));
            if let Some(tenant) = self.tenants.get_mut(number as usize) {
                tenant.charge(request, seat.times);
            }
            let target = Target { worker: seat.worker, request: seat.request, tenant: number };
            targets.extend((0..seat.times).map(|_| target));
        }
        if !self.assign(task, &targets, effects) {
            self.give_up(task, effects);
        }
        self.charge_band(band, share);
        self.weigh_tenant(number);
        self.refresh_head(queue);
        count
    }
}
