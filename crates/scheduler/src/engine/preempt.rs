//! Preemption (section 2.7): a blocked head ends running attempts that may be ended for more urgent work, and what they
//! held is kept for it until it starts. Owns who may end whom, where and how often; which attempts of one worker is chosen
//! in `victims`, and what is kept is a reservation.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::id::JobId;
use orlop_core::machine::attempt::AttemptState;
use orlop_core::machine::job::JobState;

use super::Scheduler;
use super::forecast::Forecast;
use super::reserve::{Head, Reservation, Seat};
use super::timer::Timer;
use super::victims::{Cost, Victim, cheapest};
use crate::effect::{CancelReason, Effect};
use crate::fault::{Fault, fault};
use crate::score::scan::tie;
use crate::table::NONE;
use crate::token::WorkerKey;

/// A victim's priority number is at least this much worse.
const WORSE: u8 = 4;
/// The rate counts over this long, in milliseconds.
const WINDOW: u64 = 60_000;
/// Steps that the search for one head's victims may take on all workers together.
const STEPS: u32 = 100_000;

/// An attempt that some head may end.
#[derive(Clone, Copy, Debug)]
struct Preemptible {
    slot: u32,
    priority: u8,
    ran: u64,
    request: u32,
}

/// A worker and whom somebody may end there.
type Offer = (u32, Vec<Preemptible>);

/// Where a head gets room, by which request vector, and whom that ends.
struct Choice {
    worker: u32,
    request: u32,
    victims: Vec<u32>,
}

/// By what choices on different workers are compared, the least first.
type Rank = (Cost, u64);

impl Scheduler {
    /// Jobs for which attempts were ended and that have not started yet, and the workers that are kept for them. Each of
    /// these is among [`Scheduler::reservations`], and its tenant is charged as if it ran.
    pub fn preemptions(&self) -> impl Iterator<Item = (JobId, WorkerKey)> {
        let held = self.reservations.iter().filter(|kept| kept.is_held());
        held.flat_map(move |kept| {
            let job = self.jobs.get(kept.job).map(|job| job.id);
            kept.seats.iter().filter_map(move |seat| Some((job?, self.key_of(seat.worker))))
        })
    }

    /// Ends attempts for blocked heads, the most urgent first. Returns whether a reservation was given back for it, so that
    /// there may be something to place.
    ///
    /// Cost: nothing while nothing that runs may be preempted; else one look at every waiting queue and, if one of them is
    /// urgent enough, at every attempt that its head may end, then per class with such a head at the workers of these.
    pub(super) fn preempt(&mut self, effects: &mut Vec<Effect>) -> bool {
        if !self.config.preemption {
            return false;
        }
        let worse = if fault(Fault::AnyVictim) { 0 } else { WORSE };
        let Some(worst) = self.preemptibles.worst() else { return false };
        let mut heads: Vec<(u8, Head)> = Vec::new();
        for head in self.waiting_heads() {
            let priority = self.spec_of(head.job).map_or(u8::MAX, |spec| spec.priority.0);
            let served = self.reservations.iter().any(|kept| kept.job == head.job && kept.is_held());
            if !served && !self.is_gang(head.job) && priority.saturating_add(worse) <= worst {
                heads.push((priority, head));
            }
        }
        // Heads come by waiting time, which a stable sort keeps.
        heads.sort_by_key(|(priority, _)| *priority);
        let Some((urgent, _)) = heads.first() else { return false };
        let offers = self.offers(urgent.saturating_add(worse));
        let (mut hopeless, mut gave_back) = (BTreeSet::new(), false);
        for (priority, head) in heads {
            let most = self.may_preempt();
            let class = head.turn.entry.class;
            if most == 0 || hopeless.contains(&class) {
                continue;
            }
            match self.choose(&head, priority, &offers, most) {
                Some(choice) => gave_back |= self.displace(&head, &choice, effects),
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

    /// How many attempts may be ended now.
    fn may_preempt(&mut self) -> usize {
        while self.preempted.front().is_some_and(|at| at.saturating_add(WINDOW) <= self.now) {
            self.preempted.pop_front();
        }
        let most = if fault(Fault::HastyPreemption) { u32::MAX } else { self.config.preempt_per_minute };
        (most as usize).saturating_sub(self.preempted.len())
    }

    /// Attempts with at least this priority number that somebody may end now, by worker: they run, nobody told them to end
    /// yet, and they are whole jobs. Cost: what the index knows of them.
    fn offers(&self, least: u8) -> Vec<Offer> {
        let mut offers: BTreeMap<u32, Vec<Preemptible>> = BTreeMap::new();
        for (number, slot) in self.preemptibles.from(least) {
            let worker = self.workers.get(number).filter(|worker| worker.place != NONE);
            let open = worker
                .is_some_and(|worker| worker.state.is_schedulable() && !worker.cordoned && worker.drain.is_none());
            if let Some(offer) = self.offer(slot).filter(|_| open) {
                offers.entry(number).or_default().push(offer);
            }
        }
        offers.into_iter().collect()
    }

    fn offer(&self, slot: u32) -> Option<Preemptible> {
        let attempt = self.attempts.get(slot)?;
        let life = self.life(attempt.unit)?;
        let runs = attempt.state == AttemptState::Running && life.state == JobState::Running && life.live == slot;
        let priority = attempt.preemptible.filter(|_| runs && attempt.ending.is_none())?;
        let ran = self.now.saturating_sub(attempt.started_at);
        Some(Preemptible { slot, priority, ran, request: attempt.request })
    }

    /// Whether the limits of a head's tenant let it start at all.
    fn affords(&self, head: &Head) -> bool {
        let numbers = self.classes.get(head.turn.entry.class).map_or(&[][..], |class| &class.requests);
        let tenant = self.tenants.get(head.turn.tenant as usize);
        tenant.is_some_and(crate::tenant::Tenant::runs) && self.room(head.turn.tenant, numbers, &mut Vec::new()) > 0
    }

    /// The worker where making room costs least, and whom it ends there.
    fn choose(&self, head: &Head, priority: u8, offers: &[Offer], most: usize) -> Option<Choice> {
        let class = self.classes.get(head.turn.entry.class).filter(|_| self.affords(head))?;
        let mut allowed = Vec::new();
        self.room(head.turn.tenant, &class.requests, &mut allowed);
        let worse = if fault(Fault::AnyVictim) { 0 } else { WORSE };
        let (mut best, mut steps): (Option<(Rank, Choice)>, u32) = (None, STEPS);
        for (worker, list) in offers {
            let Some(record) = self.workers.get(*worker) else { continue };
            let place = record.place;
            let own = self.reservations.iter().any(|kept| kept.job == head.job && kept.seat(*worker).is_some());
            if (!self.table.is_open(place) && !own)
                || !self.table.is_whole(place)
                || !class.sees(self.table.kind(place))
            {
                continue;
            }
            for number in &allowed {
                let Some(need) = self.requests.get(*number).map(|request| &request.need) else { continue };
                let lacks = |(dim, amount): &(u8, i32)| amount - self.table.free(usize::from(*dim), place);
                let short: Vec<(u8, i64)> =
                    need.iter().map(|need| (need.0, i64::from(lacks(need)))).filter(|(_, lacks)| *lacks > 0).collect();
                let gives = |known: &Preemptible| {
                    let request = self.requests.get(known.request);
                    let amount = |dim: u8| request.map_or(0, |request| i64::from(request.amount(usize::from(dim))));
                    short.iter().map(|(dim, _)| amount(*dim)).collect()
                };
                let victim = |known: &Preemptible| Victim {
                    slot: known.slot,
                    priority: known.priority,
                    ran: known.ran,
                    gives: gives(known),
                };
                let least = priority.saturating_add(worse);
                let victims = list.iter().filter(|known| known.priority >= least).map(victim).collect();
                let amounts: Vec<i64> = short.iter().map(|(_, lacks)| *lacks).collect();
                let at_most = best.as_ref().map_or(most, |(((count, ..), _), _)| most.min(*count));
                let Some((cost, victims)) = cheapest(&amounts, victims, at_most, &mut steps) else { continue };
                let key = (cost, tie(self.seed, place));
                if !victims.is_empty() && best.as_ref().is_none_or(|(known, _)| key < *known) {
                    best = Some((key, Choice { worker: *worker, request: *number, victims }));
                }
            }
        }
        best.map(|(_, choice)| choice)
    }

    /// Keeps the worker for the head, charges its tenant, and tells the victims to end. Returns whether the head gave
    /// another reservation back.
    fn displace(&mut self, head: &Head, choice: &Choice, effects: &mut Vec<Effect>) -> bool {
        let had = self.reservations.iter().any(|kept| kept.job == head.job);
        if had {
            self.unreserve(head.job, effects);
        }
        let Choice { worker, request, .. } = *choice;
        let payer = head.turn.tenant;
        let forecast = Forecast { seats: vec![Seat { worker, request, times: 1 }], shadow: None };
        self.keep_workers(Reservation::new(head, forecast, self.now, payer), effects);
        if let (Some(request), Some(tenant)) = (self.requests.get(request), self.tenants.get_mut(payer as usize)) {
            tenant.charge(request, 1);
        }
        self.weigh_tenant(payer);
        for slot in &choice.victims {
            self.preempted.push_back(self.now);
            self.tell_to_end(*slot, CancelReason::Preempt, effects);
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
