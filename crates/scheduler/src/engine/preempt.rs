//! Preemption: a blocked head ends running attempts that may be ended for more urgent work, and what they
//! held is kept for it until it starts. Owns who may end whom and how often; where that costs least is chosen in `preemption_plan`,
//! and what is kept is a reservation. A gang is one victim: all its members end.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::id::JobId;
use orlop_core::machine::attempt::AttemptState;
use orlop_core::machine::job::JobState;

use super::Scheduler;
use super::forecast::Forecast;
use super::heads::Head;
use super::reserve::{Reservation, Seat};
use super::timer::Timer;
use crate::effect::{CancelReason, Effect};
use crate::table::NONE;
use crate::token::WorkerKey;

/// A victim's priority number is at least this much worse.
const WORSE: u8 = 4;
/// The rate counts over this long, in milliseconds.
const WINDOW: u64 = 60_000;
/// A job, element or gang that some head may end as a whole.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    pub(super) priority: u8,
    /// How long its attempts have run together, in milliseconds.
    pub(super) ran: u64,
    /// Its attempts: slot, worker and request vector.
    pub(super) attempts: Vec<(u32, u32, u32)>,
}

/// Everything that may be ended, and which of it is on which worker.
#[derive(Clone, Debug, Default)]
pub(super) struct Offers {
    pub(super) list: Vec<Offer>,
    pub(super) on: BTreeMap<u32, Vec<usize>>,
}

/// Where a head gets room, by which request vectors, and which offers that takes up.
pub(super) struct Choice {
    pub(super) seats: Vec<Seat>,
    pub(super) victims: Vec<usize>,
}

impl Scheduler {
    /// Jobs for which attempts were ended and that have not started yet, and the workers that are kept for them. Each of
    /// these is among [`Scheduler::reservations`], and its tenant is charged as if it ran. Cost: linear in reservations.
    pub fn preemptions(&self) -> impl Iterator<Item = (JobId, WorkerKey)> {
        let held = self.reservations.iter().filter(|kept| kept.is_held());
        held.flat_map(move |kept| {
            let job = self.jobs.get(kept.job).map(|job| job.id);
            let members = kept.seats.iter().flat_map(|seat| (0..seat.times).map(|_| seat.worker));
            members.filter_map(move |worker| Some((job?, self.key_of(worker))))
        })
    }

    /// Ends attempts for blocked heads, the most urgent first. Returns whether a reservation was given back for it, so that
    /// there may be something to place.
    ///
    /// Cost: nothing while nothing that runs may be preempted; else one look at every waiting queue and, if one of them is
    /// urgent enough, at every attempt that its head may end, then per class with such a head at the workers of these; for
    /// a gang at all workers.
    pub(super) fn preempt(&mut self, effects: &mut Vec<Effect>) -> bool {
        if !self.config.preemption {
            return false;
        }
        let Some(worst) = self.preemptibles.worst() else { return false };
        let mut heads: Vec<(u8, Head)> = Vec::new();
        for head in self.waiting_heads() {
            let priority = self.spec_of(head.job).map_or(u8::MAX, |spec| spec.priority.0);
            let served = self.reservations.iter().any(|kept| kept.job == head.job && kept.is_held());
            if !served && priority.saturating_add(WORSE) <= worst {
                heads.push((priority, head));
            }
        }
        // Heads come by waiting time, which a stable sort keeps.
        heads.sort_by_key(|(priority, _)| *priority);
        let Some((urgent, _)) = heads.first() else { return false };
        let mut offers = self.offers(urgent.saturating_add(WORSE));
        let (mut hopeless, mut gave_back) = (BTreeSet::new(), false);
        for (priority, head) in heads {
            let most = self.may_preempt();
            let class = head.turn.entry.class;
            if most == 0 || hopeless.contains(&class) {
                continue;
            }
            match self.choose(&head, priority.saturating_add(WORSE), &offers, most) {
                Some(choice) => gave_back |= self.displace(&head, choice, &mut offers, effects),
                // Who is less urgent and asks the same finds no more; whose limits are in the way says nothing of others.
                None if self.affords(&head) => drop(hopeless.insert(class)),
                None => {}
            }
        }
        self.await_rate();
        gave_back
    }

    /// Asks for a round when more attempts may be ended.
    fn await_rate(&mut self) {
        if let Some(first) = self.preempted.front().filter(|_| !self.preempt_timer) {
            self.preempt_timer = true;
            self.timers.set(first.saturating_add(WINDOW), Timer::Preempt);
        }
    }

    /// How many victims may be ended now.
    fn may_preempt(&mut self) -> usize {
        while self.preempted.front().is_some_and(|at| at.saturating_add(WINDOW) <= self.now) {
            self.preempted.pop_front();
        }
        (self.config.preempt_per_minute as usize).saturating_sub(self.preempted.len())
    }

    /// Jobs, elements and gangs with at least this priority number that somebody may end now: all their attempts run, and
    /// nobody told any of them to end yet. Cost: what the index knows of them.
    fn offers(&self, least: u8) -> Offers {
        let mut offers = Offers::default();
        for offer in self.preemptibles.from(least).filter_map(|(_, slot)| self.offer(slot)) {
            let number = offers.list.len();
            for (_, worker, _) in &offer.attempts {
                let here = offers.on.entry(*worker).or_default();
                if here.last() != Some(&number) {
                    here.push(number);
                }
            }
            offers.list.push(offer);
        }
        offers
    }

    /// The task of an attempt, if that is its newest and first and somebody may end it.
    fn offer(&self, slot: u32) -> Option<Offer> {
        let attempt = self.attempts.get(slot)?;
        let life = self.life(attempt.task)?;
        let priority = attempt.preemptible?;
        if life.live != slot || life.state != JobState::Running {
            return None;
        }
        let mut offer = Offer { priority, ran: 0, attempts: Vec::new() };
        for slot in self.attempts_of(attempt.task, &life) {
            let attempt = self.attempts.get(slot)?;
            if attempt.state != AttemptState::Running || attempt.ending.is_some() {
                return None;
            }
            offer.ran = offer.ran.saturating_add(self.now.saturating_sub(attempt.started_at));
            offer.attempts.push((slot, attempt.worker, attempt.request));
        }
        Some(offer)
    }

    /// Whether the limits of a head's tenant let it start at all.
    pub(super) fn affords(&self, head: &Head) -> bool {
        let numbers = self.classes.get(head.turn.entry.class).map_or(&[][..], |class| &class.requests);
        let tenant = self.tenants.get(head.turn.tenant as usize);
        let members = self.spec_of(head.job).map_or(1, crate::job::Demand::members);
        tenant.is_some_and(crate::tenant::Tenant::runs)
            && self.room(head.turn.tenant, head.turn.entry.key, numbers, members, &mut Vec::new()) > 0
    }

    /// Keeps the workers for the head, charges its tenant, and tells the victims to end. Returns whether the head gave another
    /// reservation back.
    fn displace(&mut self, head: &Head, choice: Choice, offers: &mut Offers, effects: &mut Vec<Effect>) -> bool {
        let had = self.reservations.iter().any(|kept| kept.job == head.job);
        if had {
            self.unreserve(head.job, effects);
        }
        let payer = head.turn.tenant;
        for seat in &choice.seats {
            if let (Some(request), Some(tenant)) =
                (self.requests.get(seat.request), self.tenants.get_mut(payer as usize))
            {
                tenant.charge(request, seat.times);
            }
        }
        let forecast = Forecast { seats: choice.seats, shadow: None };
        self.keep_workers(Reservation::new(head, forecast, self.now, payer), effects);
        self.weigh_tenant(payer);
        for victim in choice.victims {
            let Some(offer) = offers.list.get_mut(victim) else { continue };
            self.preempted.push_back(self.now);
            // Without attempts it gives nobody anything any more.
            for (slot, ..) in std::mem::take(&mut offer.attempts) {
                self.tell_to_end(slot, CancelReason::Preempted, effects);
            }
        }
        had
    }

    /// Whether workers still have what was made free on them for a job, beside those that stay, and its tenant may have it.
    pub(super) fn is_owed(&mut self, kept: &Reservation) -> bool {
        let left = |seat: &Seat| self.left_beside(kept, seat).is_some_and(|left| left.iter().all(|left| *left >= 0));
        let enough = kept.seats.iter().all(left);
        let Some(tenant) = self.tenants.get_mut(kept.payer as usize) else { return false };
        let members = u64::from(kept.seats.iter().map(|seat| seat.times).sum::<u32>());
        let requests = || kept.seats.iter().filter_map(|seat| Some((self.requests.get(seat.request)?, seat.times)));
        for (request, times) in requests() {
            (0..times).for_each(|_| tenant.release(request));
        }
        let room = requests().map(|(request, _)| tenant.room(request, &self.dims)).min();
        requests().for_each(|(request, times)| tenant.charge(request, times));
        enough && room.is_some_and(|room| room >= members) && tenant.runs()
    }

    /// What is held for a job is charged to its tenant no more.
    pub(super) fn pay_back(&mut self, job: u32) {
        let Some(kept) = self.reservations.iter_mut().find(|kept| kept.job == job && kept.is_held()) else { return };
        let payer = std::mem::replace(&mut kept.payer, NONE);
        for seat in &kept.seats {
            if let (Some(request), Some(tenant)) =
                (self.requests.get(seat.request), self.tenants.get_mut(payer as usize))
            {
                (0..seat.times).for_each(|_| tenant.release(request));
            }
        }
        self.weigh_tenant(payer);
        self.note_relief(payer);
    }
}
