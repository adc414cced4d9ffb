//! Backfill (section 2.7): who may enter a reserved worker without holding the reservation up. Owns the two rules, by time
//! and by room, and what it takes to enter; who reserves what is decided in `reserve`.

use super::Scheduler;
use super::assign::Target;
use super::reserve::{Head, Reservation, Seat};
use super::round::RoundStats;
use crate::effect::{CancelReason, Effect};
use crate::fault::{Fault, fault};
use crate::fleet::Amounts;
use crate::table::NONE;

/// How many heads of queues are looked at for one reserved worker in one round.
const HEADS: usize = 64;

impl Scheduler {
    /// Lets in whom reservations do not hold up, up to the limit of the round.
    pub(super) fn backfill(&mut self, heads: &[Head], limit: u32, stats: &mut RoundStats, effects: &mut Vec<Effect>) {
        let (gangs, jobs): (Vec<Head>, Vec<Head>) =
            heads.iter().take(HEADS).copied().partition(|head| self.is_gang(head.job));
        for kept in self.reservations.clone() {
            for seat in &kept.seats {
                for head in &jobs {
                    if stats.placed >= limit {
                        return;
                    }
                    if let Some(request) = self.may_pass(&kept, seat, head) {
                        let seat = Seat { worker: seat.worker, request, times: 1 };
                        stats.placed += self.take_seats(head.turn.entry.queue, &[seat], effects);
                    }
                }
            }
        }
        for head in &gangs {
            let passes = |kept: &Reservation| kept.seats.iter().any(|seat| self.may_pass(kept, seat, head).is_some());
            if stats.placed < limit && self.reservations.iter().any(passes) {
                stats.placed += self.pass_gang(head, effects);
            }
        }
    }

    /// Places a gang whose members may be on reserved workers, where reservations allow it; returns how many members.
    fn pass_gang(&mut self, head: &Head, effects: &mut Vec<Effect>) -> u32 {
        let Some(class) = self.classes.get(head.turn.entry.class) else { return 0 };
        let size = class.shape.gang.as_ref().map_or(0, |gang| gang.size);
        let first = class.requests.first().and_then(|number| self.requests.get(*number));
        let share = first.map_or(0.0, |first| first.share(&self.table));
        let mut allowed = Vec::new();
        let room = self.room(head.turn.line(), (&class.requests, size), &mut allowed);
        if room == 0 || self.tenants.get(head.turn.tenant as usize).is_none_or(|tenant| !tenant.runs()) {
            return 0;
        }
        let placed = self.place_gang(head.turn, &allowed, Some(head), effects);
        self.charge_band(head.turn.band, share * f64::from(placed));
        placed
    }

    /// The request vector by which a head, of a gang one member, may enter a reserved worker without holding the
    /// reservation up.
    fn may_pass(&self, kept: &Reservation, seat: &Seat, head: &Head) -> Option<u32> {
        let current = self.jobs.get(head.job).is_some_and(|job| job.queued && job.stamp == head.stamp);
        let class = self.classes.get(head.turn.entry.class).filter(|_| current && kept.job != head.job)?;
        let place = self.workers.get(seat.worker)?.place;
        if !class.sees(self.table.kind(place)) || self.shunned(head.unit) == seat.worker {
            return None;
        }
        let mut allowed = Vec::new();
        self.room(head.turn.line(), (&class.requests, 1), &mut allowed);
        allowed.into_iter().find(|number| self.passing(kept, seat, head, *number) > 0)
    }

    /// How many attempts of a head, by a request vector, a reserved worker may take without holding the reservation up:
    /// as many as fit if these end in time, else as many as fit beside what is reserved.
    pub(super) fn passing(&self, kept: &Reservation, seat: &Seat, head: &Head, number: u32) -> u32 {
        let (Some(worker), Some(request), Some(spec)) =
            (self.workers.get(seat.worker), self.requests.get(number), self.spec_of(head.job))
        else {
            return 0;
        };
        if !self.could_open(worker) {
            return 0;
        }
        let hosts = self.table.hosts(worker.place, &request.need);
        let ends = self.now.saturating_add(spec.timeout_ms).saturating_add(spec.grace_ms);
        if kept.job == head.job || spec.timeout_ms > 0 && kept.shadow.is_some_and(|shadow| ends <= shadow) {
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
        if !(kept.is_held() && fault(Fault::NoHold)) {
            take(seat.request, seat.times);
        }
        for slot in self.attempts_on(seat.worker) {
            let attempt = self.attempts.get(slot)?;
            let stays = match kept.shadow {
                _ if attempt.waiting => false,
                _ if kept.is_held() => attempt.ending != Some(CancelReason::Preempt),
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
        let Some(unit) = self.take(queue) else { return 0 };
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
        if !self.assign(unit, &targets, effects) {
            self.give_up(unit, effects);
        }
        self.charge_band(band, share);
        self.weigh_tenant(number);
        self.refresh_head(queue);
        count
    }
}
