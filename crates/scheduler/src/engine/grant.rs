//! Who gets a reservation next, and who moves to a worker that is free earlier. Owns the order in which heads
//! that wait are asked; where they could start first is forecast.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::Scheduler;
use super::forecast::Wanted;
use super::heads::{Head, Walk};
use super::reserve::Reservation;
use super::round::RoundStats;
use crate::effect::Effect;
use crate::queue::Key;
use crate::table::NONE;

/// So many reservations are made for others before whoever waits longest has its turn.
const PASSES: u32 = 3;

impl Scheduler {
    /// Lets in whom a reservation does not hold up, then makes new reservations if it is time to and the round is not over.
    pub(super) fn reserve(&mut self, limit: u32, stats: &mut RoundStats, effects: &mut Vec<Effect>) {
        if self.reservations.is_empty() && !self.reserve_due {
            return;
        }
        self.backfill(limit, stats, effects);
        stats.limited = stats.placed >= limit;
        if self.reserve_due && !stats.limited {
            self.reserve_due = false;
            self.make_reservations(effects);
            self.watch_blocked();
            let mut walk = self.walk_heads();
            if self.next_head(&mut walk).is_some() {
                self.await_reservation();
            }
        }
    }

    /// Reservations move to workers that are free earlier, if there are any by now and it is time to look. Returns whether
    /// one did, so that there may be something to place. Cost: what workers cost that changed since the last look, unless one of
    /// them is earlier.
    pub(super) fn move_reservations(&mut self, effects: &mut Vec<Effect>) -> bool {
        if self.reservations.is_empty() || !self.reserve_due {
            return false;
        }
        self.know_end_times();
        let freed = std::mem::take(&mut self.changes.freed);
        let mut moves = false;
        for at in 0..self.reservations.len() {
            let Some(kept) = self.reservations.get(at).filter(|kept| !kept.is_held()) else { continue };
            let (job, queue, stamp) = (kept.job, kept.queue, kept.stamp);
            let head = self.head_of(queue, job).filter(|head| head.stamp == stamp);
            let Some(kept) = self.reservations.get(at) else { continue };
            let Some(head) = head else {
                self.see_earliest(at, false);
                continue;
            };
            // Those that others gave back just now are noted anew.
            let changed = || freed.iter().chain(self.changes.freed.iter());
            if kept.seen.earliest && !self.is_any_earlier(kept, &head, changed()) {
                continue;
            }
            let before = kept.shadow.unwrap_or(u64::MAX);
            let look = self.earliest(&head, &kept.seats, before);
            let elsewhere = look.forecast.filter(|forecast| {
                let other = forecast.seats.iter().any(|seat| kept.seat(seat.worker).is_none());
                other && forecast.shadow.unwrap_or(u64::MAX) < before
            });
            let Some(forecast) = elsewhere else {
                self.see_earliest(at, look.earlier >= before && self.is_alike(&head));
                continue;
            };
            let old = kept.seats.clone();
            let mut moved = Reservation::new(&head, forecast, self.now, NONE);
            moved.seen.earliest = self.is_alike(&head) && !self.is_gang(job);
            self.tell_reserved(moved.job, Some(&moved), effects);
            old.iter().for_each(|seat| self.mark_reserved(seat.worker, false));
            moved.seats.iter().for_each(|seat| self.mark_reserved(seat.worker, true));
            if let Some(known) = self.reservations.get_mut(at) {
                *known = moved;
            }
            moves = true;
        }
        moves
    }

    fn see_earliest(&mut self, at: usize, earliest: bool) {
        if let Some(kept) = self.reservations.get_mut(at) {
            kept.seen.earliest = earliest;
        }
    }

    /// Whether only workers can change what is earliest for a head: it avoids none of them, and limits of its tenant do not
    /// tell its request vectors apart.
    fn is_alike(&self, head: &Head) -> bool {
        if self.shunned(head.task) != NONE {
            return false;
        }
        let vectors = self.classes.get(head.turn.entry.class).map_or(0, |class| class.requests.len());
        vectors == 1 || self.tenants.get(head.turn.tenant as usize).is_some_and(|tenant| !tenant.is_limited())
    }

    /// Whether one of these workers could take an attempt of a job before the ones that it has reserved are free. If its limits
    /// allow nothing of it now, that is to be looked at again.
    fn is_any_earlier(&self, kept: &Reservation, head: &Head, mut workers: impl Iterator<Item = u32>) -> bool {
        let Some(class) = self.classes.get(head.turn.entry.class) else { return true };
        let mut allowed = Vec::new();
        let members = class.shape.gang.as_ref().map_or(1, |gang| gang.size);
        if self.room(head.turn.tenant, head.turn.entry.key, &class.requests, members, &mut allowed) == 0 {
            return true;
        }
        let wanted = Wanted { class, allowed: &allowed, shunned: self.shunned(head.task) };
        let before = kept.shadow.unwrap_or(u64::MAX);
        workers.any(|worker| self.opens_before(worker, &wanted, before))
    }

    /// The first blocked head of each band, the longest waiting first, then the next by waiting time, each once it has
    /// waited long enough and its tenant's limits let it start. First is who would be next in the band: of the tenant with
    /// the least share, by priority and sequence. Who fits no worker at all is first of nothing: else others of the band
    /// might never have a turn. A first head that must wait for workers which others reserved lets nobody reserve more of
    /// them: else a gang might never find all its workers free of reservations at once.
    ///
    /// Every fourth reservation is for whoever waits longest: a tenant that holds much elsewhere is first in no band as long
    /// as others keep coming, and would never get a worker that all of them need.
    ///
    /// Cost: that of the heads that are asked until there are enough reservations, and one look at all workers for each that
    /// gets one.
    fn make_reservations(&mut self, effects: &mut Vec<Effect>) {
        self.know_end_times();
        let mut firsts = self.first_heads();
        let eldest = self.eldest();
        if eldest.as_ref().is_none_or(|head| self.is_served(head.job)) {
            self.passed_over = 0;
        } else if self.passed_over >= PASSES {
            firsts.extend(eldest);
        }
        firsts.sort_by_key(|head| (head.submitted, head.turn.entry.key.1));
        firsts.dedup_by_key(|head| head.job);
        let eldest = eldest.map(|head| head.job);
        for head in &firsts {
            if self.is_full() {
                return;
            }
            if !self.is_served(head.job) && !self.grant(head, eldest, effects) && self.could_start(head) {
                return;
            }
        }
        let (mut walk, mut taken) = (self.walk_heads(), BTreeSet::new());
        while !self.is_full()
            && let Some(head) = self.next_old(&mut walk)
        {
            let class = head.turn.entry.class;
            if self.is_served(head.job) || taken.contains(&class) || firsts.iter().any(|first| first.job == head.job) {
                continue;
            }
            // Who asks the same under no limits and avoids nobody finds nothing either.
            if !self.grant(&head, eldest, effects) && self.is_plain(&head) {
                taken.insert(class);
            }
        }
    }

    /// Reserves for a head the workers that it could have first; returns whether there are any.
    fn grant(&mut self, head: &Head, eldest: Option<u32>, effects: &mut Vec<Effect>) -> bool {
        let look = self.earliest(head, &[], 0);
        let Some(forecast) = look.forecast else { return false };
        self.passed_over = if eldest == Some(head.job) { 0 } else { self.passed_over.saturating_add(1) };
        let mut kept = Reservation::new(head, forecast, self.now, NONE);
        // It was the earliest of all that nobody has reserved.
        kept.seen.earliest = self.is_alike(head) && !self.is_gang(head.job);
        self.keep_workers(kept, effects);
        true
    }

    fn is_full(&self) -> bool {
        let kept = self.reservations.iter().filter(|kept| !kept.is_held()).count();
        kept >= self.config.max_reservations as usize
    }

    fn is_served(&self, job: u32) -> bool {
        self.reservations.iter().any(|kept| kept.job == job)
    }

    fn has_or_could(&mut self, head: &Head) -> bool {
        !self.changes.hopeless.contains(&head.turn.entry.class) && (self.is_served(head.job) || self.could_start(head))
    }

    /// Whoever waits longest of those that some workers could ever hold.
    fn eldest(&mut self) -> Option<Head> {
        let mut walk = self.walk_heads();
        loop {
            let head = self.next_old(&mut walk)?;
            if self.has_or_could(&head) {
                return Some(head);
            }
        }
    }

    /// The next head that has waited long enough and that its tenant's limits let start.
    fn next_old(&mut self, walk: &mut Walk) -> Option<Head> {
        loop {
            let head = self.next_head(walk)?;
            if !self.is_old(&head) {
                return None;
            }
            if self.affords(&head) {
                return Some(head);
            }
        }
    }

    fn is_old(&self, head: &Head) -> bool {
        head.submitted.saturating_add(self.config.reserve_after) <= self.now
    }

    /// Whether nothing sets a head apart from others of its class: its tenant has no limits, and it avoids no worker.
    fn is_plain(&self, head: &Head) -> bool {
        let limited = self.tenants.get(head.turn.tenant as usize).is_none_or(crate::tenant::Tenant::is_limited);
        !limited && self.shunned(head.task) == NONE
    }

    /// Whether any workers could ever hold a head, as the fleet is. Cost: constant where the first one could, or where that was
    /// asked for its class before.
    fn could_start(&mut self, head: &Head) -> bool {
        let number = head.turn.entry.class;
        let plain = self.is_plain(head);
        if plain && self.changes.hopeless.contains(&number) {
            return false;
        }
        let Some(class) = self.classes.get(number) else { return false };
        let mut allowed = Vec::new();
        let members = class.shape.gang.as_ref().map_or(1, |gang| gang.size);
        let could = self.room(head.turn.tenant, head.turn.entry.key, &class.requests, members, &mut allowed) > 0
            && self.could_hold(class, &allowed, self.shunned(head.task));
        if plain && !could {
            self.changes.hopeless.insert(number);
        }
        could
    }

    /// Of each band the head that would be next, if some workers could ever hold it.
    fn first_heads(&mut self) -> Vec<Head> {
        (0..3).filter_map(|band| self.first_of_band(band)).collect()
    }

    fn first_of_band(&mut self, band: usize) -> Option<Head> {
        let lined = |lane: &crate::queue::Lane| !lane.entries.is_empty();
        let tenants = (0_u32..)
            .zip(&self.tenants)
            .filter(|(_, tenant)| !self.held_back.is_empty() || tenant.lanes.get(band).is_some_and(lined));
        let mut tenants: Vec<(f64, u32)> = tenants.map(|(number, tenant)| (tenant.share, number)).collect();
        tenants.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        for group in tenants.chunk_by(|(one, _), (other, _)| one.total_cmp(other).is_eq()) {
            let tenants: BTreeSet<u32> = group.iter().map(|(_, number)| *number).collect();
            let of_them = |head: &Head| head.turn.band == band && tenants.contains(&head.turn.tenant);
            let held: Vec<Head> = self.held_heads().into_iter().filter(of_them).collect();
            let mut lines = self.lines_of(band, &tenants);
            lines.extend(
                (0..).zip(&held).map(|(at, head)| Reverse((head.turn.entry.key, head.turn.entry.queue, Some(at)))),
            );
            // Most often the first one does.
            while let Some(Reverse((_, queue, at))) = lines.pop() {
                let head = match at {
                    Some(at) => held.get::<usize>(at).copied(),
                    None => self.crowded_head(queue),
                };
                let head = head.filter(|head| self.is_old(head) && self.affords(head));
                if let Some(head) = head
                    && self.has_or_could(&head)
                {
                    return Some(head);
                }
            }
        }
        None
    }

    /// Queues with jobs in a band of some tenants, by what they are compared, the first one at hand.
    fn lines_of(&self, band: usize, tenants: &BTreeSet<u32>) -> BinaryHeap<Reverse<(Key, u32, Option<usize>)>> {
        let lanes = tenants.iter().filter_map(|number| self.tenants.get(*number as usize)?.lanes.get(band));
        lanes.flat_map(|lane| &lane.entries).map(|entry| Reverse((entry.key, entry.queue, None))).collect()
    }

    /// Heads of blocked classes may be stopped by limits as well. Cost: none of tenants without limits, else linear in their
    /// queues.
    fn watch_blocked(&mut self) {
        for number in (0..self.tenants.len()).filter_map(|number| u32::try_from(number).ok()) {
            for band in 0..3 {
                if self.lacks_in(number, band) {
                    self.watch(number, band);
                }
            }
        }
    }

    /// Whether limits are in the way of a head of a tenant and band that waits for room.
    fn lacks_in(&mut self, number: u32, band: usize) -> bool {
        let Some(tenant) = self.tenants.get(number as usize).filter(|tenant| tenant.is_limited() || !tenant.runs())
        else {
            return false;
        };
        let queues: Vec<u32> =
            tenant.lanes.get(band).into_iter().flat_map(|lane| &lane.entries).map(|entry| entry.queue).collect();
        queues.into_iter().any(|queue| self.crowded_head(queue).is_some_and(|head: Head| !self.affords(&head)))
    }
}
