//! Reservations (section 2.7): a blocked head that has waited long enough gets a worker, a gang a set of workers, that nobody
//! else may enter, save by backfill. Owns who reserves what and for how long; where it could start first is forecast, and who
//! may pass is backfill. Workers that attempts were ended on are kept in the same way.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use orlop_core::id::JobId;

use super::Scheduler;
use super::assign::Target;
use super::avoid::{Avoiding, HeldBack};
use super::forecast::Forecast;
use super::record::Unit;
use super::round::{RoundStats, Turn};
use super::timer::Timer;
use crate::effect::Effect;
use crate::fault::{Fault, fault};
use crate::queue::LaneEntry;
use crate::table::NONE;
use crate::token::WorkerKey;

/// So many reservations are made for others before whoever waits longest has its turn.
const PASSES: u32 = 3;

/// A worker that is kept for a job, or for some members of a gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seat {
    pub(super) worker: u32,
    pub(super) request: u32,
    /// How many members it is for; 1 if it is no gang.
    pub(super) times: u32,
}

/// Targets of members as seats, in the order in which the workers come first.
pub(super) fn gather(targets: &[Target]) -> Vec<Seat> {
    let mut seats: Vec<Seat> = Vec::new();
    for target in targets {
        match seats.iter_mut().rev().find(|seat| seat.worker == target.worker) {
            Some(seat) => seat.times += 1,
            None => seats.push(Seat { worker: target.worker, request: target.request, times: 1 }),
        }
    }
    seats
}

/// Workers that are kept for a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Reservation {
    pub(super) job: u32,
    stamp: u32,
    /// One worker, or those of a gang; never none, and no worker twice.
    pub(super) seats: Vec<Seat>,
    /// When they are free for the job by the declared limits of what runs there; absent = nobody knows.
    pub(super) shadow: Option<u64>,
    pub(super) made: u64,
    /// Attempts were ended for it: the tenant that is charged as if it ran; else `NONE`.
    pub(super) payer: u32,
}

impl Reservation {
    pub(super) fn new(head: &Head, forecast: Forecast, made: u64, payer: u32) -> Self {
        let Forecast { seats, shadow } = forecast;
        Self { job: head.job, stamp: head.stamp, seats, shadow, made, payer }
    }

    /// Whether attempts were ended for it.
    pub(super) const fn is_held(&self) -> bool {
        self.payer != NONE
    }

    /// What it keeps of a worker.
    pub(super) fn seat(&self, worker: u32) -> Option<&Seat> {
        self.seats.iter().find(|seat| seat.worker == worker)
    }
}

/// A head that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) turn: Turn,
    pub(super) job: u32,
    pub(super) unit: Unit,
    /// It is held back outside its queue.
    pub(super) held: bool,
    pub(super) stamp: u32,
    submitted: u64,
}

impl Scheduler {
    /// Reserved workers: the job, the worker, and when all workers of the job are free for it at the latest, if anybody
    /// knows. A gang has an entry for each of its workers. Cost: linear in them.
    pub fn reservations(&self) -> impl Iterator<Item = (JobId, WorkerKey, Option<u64>)> {
        self.reservations.iter().flat_map(move |kept| {
            let job = self.jobs.get(kept.job).map(|job| job.id);
            kept.seats.iter().filter_map(move |seat| Some((job?, self.key_of(seat.worker), kept.shadow)))
        })
    }

    /// A class fits nowhere: in a while its head may want a reservation.
    pub(super) fn await_reservation(&mut self) {
        if !self.reserve_timer && self.config.max_reservations > 0 {
            self.reserve_timer = true;
            self.timers.set(self.now.saturating_add(self.config.reserve_after), Timer::Reserve);
        }
    }

    /// Places who has a reservation and fits, up to the limit of the round, and gives up reservations that make no sense any
    /// more.
    pub(super) fn honour(&mut self, limit: u32, stats: &mut RoundStats, effects: &mut Vec<Effect>) {
        for kept in self.reservations.clone() {
            let queue = self.sensible(&kept);
            let queue = queue.filter(|_| if kept.is_held() { self.is_owed(&kept) } else { self.is_allowed(&kept) });
            let Some(queue) = queue else {
                self.unreserve(kept.job, effects);
                continue;
            };
            let kept = match self.held_unit(kept.job) {
                Some(unit) if kept.seats.iter().all(|seat| self.is_free(seat)) => {
                    self.release_held(unit);
                    self.line_up_unit(unit);
                    kept
                }
                Some(_) => continue,
                None => self.pass_on(kept, queue, effects),
            };
            let shunned = self.shunned(self.peek(kept.job));
            if kept.seats.iter().any(|seat| seat.worker == shunned) {
                self.unreserve(kept.job, effects);
                continue;
            }
            let ready = self.head(queue).is_some_and(|(_, entry)| entry.job == kept.job);
            if ready && stats.placed < limit && kept.seats.iter().all(|seat| self.is_free(seat)) {
                self.pay_back(kept.job);
                let entered = self.take_seats(queue, &kept.seats, effects);
                stats.placed += entered;
                if entered > 0 || kept.is_held() {
                    self.unreserve(kept.job, effects);
                }
            }
        }
    }

    /// The queue of a reservation, if the job still waits and the workers may still run it.
    fn sensible(&self, kept: &Reservation) -> Option<u32> {
        let job = self.jobs.get(kept.job).filter(|_| self.still_waits(kept))?;
        let spec = self.specs.get(job.spec as usize)?;
        let class = self.classes.get(spec.class)?;
        let holds = |seat: &Seat| {
            let worker = self.workers.get(seat.worker).filter(|worker| worker.state.is_schedulable())?;
            let place = Some(worker).filter(|worker| !worker.cordoned && worker.drain.is_none())?.place;
            let total = |dim: u8| i64::from(self.table.total(usize::from(dim), place));
            let need = |amount: i32| i64::from(amount).saturating_mul(i64::from(seat.times));
            let could = self.requests.get(seat.request)?.need.iter().all(|(dim, amount)| total(*dim) >= need(*amount));
            Some(could && class.sees(self.table.kind(place)))
        };
        let shunned = self.shunned(self.held_unit(kept.job).unwrap_or_else(|| self.peek(kept.job)));
        let usable = |seat: &Seat| holds(seat) == Some(true) && seat.worker != shunned;
        kept.seats.iter().all(usable).then_some(spec.queue)
    }

    /// Whether the job that a reservation was made for waits still, in its queue or held back.
    fn still_waits(&self, kept: &Reservation) -> bool {
        self.jobs.get(kept.job).is_some_and(|job| job.queued && job.stamp == kept.stamp)
            || self.held_unit(kept.job).is_some()
    }

    /// Whether the limits of its tenant let a job have what is kept for it.
    fn is_allowed(&self, kept: &Reservation) -> bool {
        let tenant = self.tenants.get(self.tenant_of(kept.job) as usize).filter(|tenant| tenant.runs());
        let room = |request: u32| {
            let request = self.requests.get(request);
            request.zip(tenant).map_or(0, |(request, tenant)| tenant.room(request, &self.dims))
        };
        kept.seats.iter().all(|seat| room(seat.request) >= u64::from(seat.times))
    }

    /// Whether all that is kept of a worker is free now.
    fn is_free(&self, seat: &Seat) -> bool {
        let place = self.workers.get(seat.worker).map_or(NONE, |worker| worker.place);
        let hosts = self.requests.get(seat.request).map_or(0, |request| self.table.hosts(place, &request.need));
        hosts >= seat.times && self.table.is_whole(place)
    }

    /// A job that came before the reserved one in its own queue since takes its place: each would wait for the other.
    fn pass_on(&mut self, kept: Reservation, queue: u32, effects: &mut Vec<Effect>) -> Reservation {
        let Some((_, entry)) = self.head(queue) else { return kept };
        if self.reservations.iter().any(|other| other.job == entry.job) {
            return kept;
        }
        let Some(known) = self.reservations.iter_mut().find(|known| known.job == kept.job) else { return kept };
        (known.job, known.stamp) = (entry.job, entry.stamp);
        let passed = known.clone();
        self.tell_reserved(kept.job, None, effects);
        self.tell_reserved(passed.job, Some(&passed), effects);
        passed
    }

    /// Says which workers a job reserves now.
    fn tell_reserved(&mut self, job: u32, kept: Option<&Reservation>, effects: &mut Vec<Effect>) {
        let revision = self.next_revision();
        let job = self.jobs.get(job).map_or(JobId::from_u64(0), |job| job.id);
        let seats = kept.map_or(&[][..], |kept| &kept.seats);
        let workers = seats.iter().map(|seat| self.key_of(seat.worker)).collect();
        effects.push(Effect::ReservationChanged { job, workers, shadow: kept.and_then(|kept| kept.shadow), revision });
    }

    /// Keeps workers for a job.
    pub(super) fn keep_workers(&mut self, kept: Reservation, effects: &mut Vec<Effect>) {
        self.tell_reserved(kept.job, Some(&kept), effects);
        for seat in &kept.seats {
            self.mark_reserved(seat.worker, true);
            self.revoke_waiting(seat.worker, effects);
        }
        self.reservations.push(kept);
    }

    fn mark_reserved(&mut self, number: u32, reserved: bool) {
        if let Some(worker) = self.workers.get_mut(number) {
            worker.reserved = reserved;
        }
        self.refresh_open(number);
    }

    /// Lets in whom a reservation does not hold up, then makes new reservations if it is time to and the round is not over.
    pub(super) fn reserve(&mut self, limit: u32, stats: &mut RoundStats, effects: &mut Vec<Effect>) {
        if self.reservations.is_empty() && !self.reserve_due {
            return;
        }
        let heads = self.waiting_heads();
        let queued: Vec<Head> = heads.iter().filter(|head| !head.held).copied().collect();
        self.backfill(&queued, limit, stats, effects);
        stats.limited = stats.placed >= limit;
        if self.reserve_due && !stats.limited {
            self.reserve_due = false;
            self.make_reservations(&heads, effects);
            self.watch_blocked(&queued);
            if !heads.is_empty() {
                self.await_reservation();
            }
        }
    }

    /// Whether a queue waits because its class fits nowhere, or because what its tenant's limits allow of it does: of several
    /// kinds of devices these may allow one that is taken and never the other.
    fn is_crowded_out(&self, tenant: u32, entry: &LaneEntry) -> bool {
        let Some(class) = self.classes.get(entry.class) else { return false };
        let members = class.shape.gang.as_ref().map_or(1, |gang| gang.size);
        let allowed = || self.room((tenant, entry.queue), (&class.requests, members), &mut Vec::new()) > 0;
        if entry.stopped { class.requests.len() > 1 && allowed() } else { class.is_blocked() }
    }

    /// The first of those that are held back, by queue and the worker that they avoid: they wait for others as well.
    fn held_heads(&self) -> Vec<Head> {
        let head = |(queue, _): &Avoiding, held: &HeldBack| {
            let (step, id, unit) = *held.first()?;
            let record = self.queues.get(*queue as usize)?;
            let job = self.jobs.get(unit.job)?;
            let entry = LaneEntry { class: record.class, queue: *queue, key: (step, id), stopped: false };
            let turn = Turn { band: record.band, tenant: record.tenant, entry };
            Some(Head { turn, job: unit.job, unit, held: true, stamp: job.stamp, submitted: job.submitted })
        };
        self.held_back.iter().filter_map(|(key, held)| head(key, held)).collect()
    }

    /// A job that is held back returns to its queue: what is kept for it stays kept.
    pub(super) fn restamp(&mut self, job: u32) {
        let Some(stamp) = self.jobs.get(job).map(|job| job.stamp) else { return };
        self.reservations.iter_mut().filter(|kept| kept.job == job).for_each(|kept| kept.stamp = stamp);
    }

    /// Heads of queues that wait because they fit nowhere, and those that are held back, the longest waiting first.
    pub(super) fn waiting_heads(&mut self) -> Vec<Head> {
        let mut turns = Vec::new();
        for (number, tenant) in (0_u32..).zip(&self.tenants) {
            for (band, lane) in tenant.lanes.iter().enumerate() {
                let blocked = |entry: &&LaneEntry| self.is_crowded_out(number, entry);
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
            {
                let unit = self.peek(entry.job);
                let (stamp, submitted) = (entry.stamp, job.submitted);
                heads.push(Head { turn, job: entry.job, unit, held: false, stamp, submitted });
            }
        }
        heads.extend(self.held_heads());
        heads.sort_unstable_by_key(|head| (head.submitted, self.jobs.get(head.job).map(|job| job.id)));
        heads
    }

    /// Reservations move to workers that are free earlier, if there are any by now and it is time to look. Returns whether
    /// one did, so that there may be something to place.
    pub(super) fn move_reservations(&mut self, effects: &mut Vec<Effect>) -> bool {
        if self.reservations.is_empty() || !self.reserve_due {
            return false;
        }
        let heads = self.waiting_heads();
        let mut moves = false;
        for kept in self.reservations.clone() {
            let head = heads.iter().find(|head| head.job == kept.job && head.stamp == kept.stamp && !kept.is_held());
            let Some(forecast) = head.and_then(|head| self.earliest(head, &|worker| kept.seat(worker).is_some()))
            else {
                continue;
            };
            let elsewhere = forecast.seats.iter().any(|seat| kept.seat(seat.worker).is_none());
            if !elsewhere || forecast.shadow.unwrap_or(u64::MAX) >= kept.shadow.unwrap_or(u64::MAX) {
                continue;
            }
            let moved = Reservation { seats: forecast.seats, shadow: forecast.shadow, made: self.now, ..kept.clone() };
            self.tell_reserved(moved.job, Some(&moved), effects);
            kept.seats.iter().for_each(|seat| self.mark_reserved(seat.worker, false));
            moved.seats.iter().for_each(|seat| self.mark_reserved(seat.worker, true));
            if let Some(known) = self.reservations.iter_mut().find(|known| known.job == kept.job) {
                *known = moved;
            }
            moves = true;
        }
        moves
    }

    /// The first blocked head of each band, the longest waiting first, then the next by waiting time, each once it has
    /// waited long enough and its tenant's limits let it start. First is who would be next in the band: of the tenant with
    /// the least share, by priority and sequence. Who fits no worker at all is first of nothing: else others of the band
    /// might never have a turn. A first head that must wait for workers which others reserved lets nobody reserve more of
    /// them: else a gang might never find all its workers free of reservations at once.
    ///
    /// Every fourth reservation is for whoever waits longest: a tenant that holds much elsewhere is first in no band as long
    /// as others keep coming, and would never get a worker that all of them need.
    fn make_reservations(&mut self, heads: &[Head], effects: &mut Vec<Effect>) {
        let waited = |head: &&Head| head.submitted.saturating_add(self.config.reserve_after) <= self.now;
        let old: Vec<Head> = heads.iter().filter(waited).filter(|head| self.affords(head)).copied().collect();
        let (mut firsts, hopeless) = self.first_heads(&old);
        let served = |head: &Head| self.reservations.iter().any(|kept| kept.job == head.job);
        let could = |head: &Head| {
            !hopeless.contains(&head.turn.entry.class) && (served(head) || self.earliest(head, &|_| true).is_some())
        };
        let eldest = old.iter().find(|head| could(head)).copied();
        if eldest.as_ref().is_none_or(served) {
            self.passed_over = 0;
        } else if self.passed_over >= PASSES && !fault(Fault::ForgetEldest) {
            firsts.extend(eldest);
        }
        let is_first = |head: &Head| firsts.iter().any(|first| first.job == head.job);
        let (mut first, next): (Vec<Head>, Vec<Head>) = old.iter().copied().partition(is_first);
        // They are in the order of waiting: if the eldest is among them because it was passed over, it is in front.
        first.extend(next);
        for head in first {
            let full = self.reservations.iter().filter(|kept| !kept.is_held()).count()
                >= self.config.max_reservations as usize;
            if full {
                break;
            }
            if self.reservations.iter().any(|kept| kept.job == head.job) {
                continue;
            }
            match self.earliest(&head, &|_| false) {
                Some(forecast) => {
                    let is_eldest = eldest.is_some_and(|eldest| eldest.job == head.job);
                    self.passed_over = if is_eldest { 0 } else { self.passed_over.saturating_add(1) };
                    self.keep_workers(Reservation::new(&head, forecast, self.now, NONE), effects);
                }
                None if is_first(&head) && self.earliest(&head, &|_| true).is_some() => break,
                None => {}
            }
        }
    }

    /// Of each band the head that would be next, if some workers could ever hold it; and classes that none could, of those
    /// that were looked at.
    fn first_heads(&self, heads: &[Head]) -> (Vec<Head>, BTreeSet<u32>) {
        let share = |head: &Head| self.tenants.get(head.turn.tenant as usize).map_or(0.0, |tenant| tenant.share);
        let mut ranked: Vec<(f64, Head)> = heads.iter().map(|head| (share(head), *head)).collect();
        ranked
            .sort_by(|(a, one), (b, other)| a.total_cmp(b).then_with(|| one.turn.entry.key.cmp(&other.turn.entry.key)));
        let mut hopeless = BTreeSet::new();
        let mut firsts: Vec<Head> = Vec::new();
        for (_, head) in ranked {
            let class = head.turn.entry.class;
            if hopeless.contains(&class) || firsts.iter().any(|first| first.turn.band == head.turn.band) {
                continue;
            }
            let has = self.reservations.iter().any(|kept| kept.job == head.job);
            if has || self.earliest(&head, &|_| true).is_some() {
                firsts.push(head);
            } else {
                hopeless.insert(class);
            }
        }
        (firsts, hopeless)
    }

    /// Gives reservations back whose jobs do not wait any more. Returns whether there were any.
    pub(super) fn unreserve_started(&mut self, effects: &mut Vec<Effect>) -> bool {
        let over = self.reservations.iter().filter(|kept| !self.still_waits(kept));
        let over: Vec<u32> = over.map(|kept| kept.job).collect();
        over.iter().for_each(|job| self.unreserve(*job, effects));
        !over.is_empty()
    }

    /// Gives a reservation back.
    pub(super) fn unreserve(&mut self, job: u32, effects: &mut Vec<Effect>) {
        self.pay_back(job);
        let Some(at) = self.reservations.iter().position(|kept| kept.job == job) else { return };
        let kept = self.reservations.remove(at);
        self.reserve_due = true;
        kept.seats.iter().for_each(|seat| self.mark_reserved(seat.worker, false));
        self.tell_reserved(job, None, effects);
    }
}
