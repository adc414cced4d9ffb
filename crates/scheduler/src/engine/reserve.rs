//! Reservations: a blocked head that has waited long enough gets a worker, a gang a set of workers, that nobody
//! else may enter, save by backfill. Owns what is kept and for how long; who gets it is said in `grant`, where it
//! could start first is forecast, and who may pass is backfill. Workers that attempts were ended on are kept in the same way.

use serde::{Deserialize, Serialize};

use orlop_core::id::JobId;

use super::Scheduler;
use super::assign::Target;
use super::forecast::Forecast;
use super::heads::Head;
use super::round::RoundStats;
use super::timer::Timer;
use crate::effect::Effect;
use crate::fleet::Amounts;
use crate::table::NONE;
use crate::token::WorkerKey;

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
    pub(super) stamp: u32,
    /// One worker, or those of a gang; never none, and no worker twice.
    pub(super) seats: Vec<Seat>,
    /// When they are free for the job by the declared limits of what runs there; absent = nobody knows.
    pub(super) shadow: Option<u64>,
    pub(super) made: u64,
    /// Attempts were ended for it: the tenant that is charged as if it ran; else `NONE`.
    pub(super) payer: u32,
    /// The queue of the job, from which it follows.
    #[serde(skip)]
    pub(super) queue: u32,
    #[serde(skip)]
    pub(super) seen: Seen,
}

/// What was seen of a reservation and need not be looked at again until something changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// It can neither start nor has to be given up.
    pub(super) settled: bool,
    /// No other worker is free before its time, save those that changed since.
    pub(super) earliest: bool,
    /// Nobody may enter its workers, save heads that are fresh.
    pub(super) tried: bool,
    /// Which of its workers have changed since, by position.
    pub(super) touched: Vec<usize>,
    /// What each of its workers has left beside it, at most.
    pub(super) left: Vec<Amounts>,
}

impl Reservation {
    pub(super) fn new(head: &Head, forecast: Forecast, made: u64, payer: u32) -> Self {
        let Forecast { seats, shadow } = forecast;
        let queue = head.turn.entry.queue;
        Self { job: head.job, stamp: head.stamp, seats, shadow, made, payer, queue, seen: Seen::default() }
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
    /// more. Cost: linear in reservations, and in the workers of those of which something changed.
    pub(super) fn honour(&mut self, limit: u32, stats: &mut RoundStats, effects: &mut Vec<Effect>) {
        let mut at = 0;
        while let Some(kept) = self.reservations.get(at) {
            let many = self.reservations.len();
            if !kept.seen.settled {
                let kept = kept.clone();
                self.honour_one(kept, limit, stats, effects);
            }
            // Of those that were given back or have started none is left.
            at += usize::from(self.reservations.len() == many);
        }
    }

    fn honour_one(&mut self, kept: Reservation, limit: u32, stats: &mut RoundStats, effects: &mut Vec<Effect>) {
        let queue = self.sensible(&kept);
        let queue = queue.filter(|_| if kept.is_held() { self.is_owed(&kept) } else { self.is_allowed(&kept) });
        let Some(queue) = queue else {
            self.unreserve(kept.job, effects);
            return;
        };
        // What is held for somebody is looked at in every round: that is soon over.
        self.settle(kept.job, !kept.is_held());
        let kept = match self.held_task(kept.job) {
            Some(task) if kept.seats.iter().all(|seat| self.is_free(seat)) => {
                self.bring_back(task);
                kept
            }
            Some(_) => return,
            None => self.pass_on(kept, queue, effects),
        };
        let shunned = self.shunned(self.peek(kept.job));
        if kept.seats.iter().any(|seat| seat.worker == shunned) {
            self.unreserve(kept.job, effects);
            return;
        }
        let ready = self.head(queue).is_some_and(|(_, entry)| entry.job == kept.job);
        if ready && kept.seats.iter().all(|seat| self.is_free(seat)) {
            if stats.placed >= limit {
                self.settle(kept.job, false);
                return;
            }
            self.pay_back(kept.job);
            let entered = self.take_seats(queue, &kept.seats, effects);
            stats.placed += entered;
            if entered > 0 || kept.is_held() {
                self.unreserve(kept.job, effects);
            }
        }
    }

    fn settle(&mut self, job: u32, settled: bool) {
        if let Some(kept) = self.reservations.iter_mut().find(|kept| kept.job == job) {
            kept.seen.settled = settled;
        }
    }

    /// The queue of a reservation, if the job still waits and the workers may still run it.
    pub(super) fn sensible(&self, kept: &Reservation) -> Option<u32> {
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
        let shunned = self.shunned(self.held_task(kept.job).unwrap_or_else(|| self.peek(kept.job)));
        let usable = |seat: &Seat| holds(seat) == Some(true) && seat.worker != shunned;
        kept.seats.iter().all(usable).then_some(spec.queue)
    }

    /// Whether the job that a reservation was made for waits still, in its queue or held back.
    fn still_waits(&self, kept: &Reservation) -> bool {
        self.jobs.get(kept.job).is_some_and(|job| job.queued && job.stamp == kept.stamp)
            || self.held_task(kept.job).is_some()
    }

    /// Whether the limits of its tenant let a job have what is kept for it.
    pub(super) fn is_allowed(&self, kept: &Reservation) -> bool {
        let tenant = self.tenants.get(self.tenant_of(kept.job) as usize).filter(|tenant| tenant.runs());
        let room = |request: u32| {
            let request = self.requests.get(request);
            request.zip(tenant).map_or(0, |(request, tenant)| tenant.room(request, &self.dims))
        };
        kept.seats.iter().all(|seat| room(seat.request) >= u64::from(seat.times))
    }

    /// Whether all that is kept of a worker is free now.
    pub(super) fn is_free(&self, seat: &Seat) -> bool {
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
    pub(super) fn tell_reserved(&mut self, job: u32, kept: Option<&Reservation>, effects: &mut Vec<Effect>) {
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

    pub(super) fn mark_reserved(&mut self, number: u32, reserved: bool) {
        if let Some(worker) = self.workers.get_mut(number) {
            worker.reserved = reserved;
        }
        self.refresh_open(number);
    }

    /// A job that is held back returns to its queue: what is kept for it stays kept.
    pub(super) fn restamp(&mut self, job: u32) {
        let Some(stamp) = self.jobs.get(job).map(|job| job.stamp) else { return };
        for kept in self.reservations.iter_mut().filter(|kept| kept.job == job) {
            kept.stamp = stamp;
            kept.seen.settled = false;
        }
    }

    /// Gives reservations back whose jobs do not wait any more. Returns whether there were any.
    pub(super) fn unreserve_started(&mut self, effects: &mut Vec<Effect>) -> bool {
        let over = self.reservations.iter().filter(|kept| !kept.seen.settled && !self.still_waits(kept));
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
        // Others of its queue may have waited for it to go first.
        self.note_queue(kept.queue);
        kept.seats.iter().for_each(|seat| self.mark_reserved(seat.worker, false));
        self.tell_reserved(job, None, effects);
    }
}
