//! When and where a job that waits could start at the earliest, by the declared time limits of what runs:
//! workers for a job, sets of workers for a gang. Owns the forecast; reservations are made of it elsewhere.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::Scheduler;
use super::avoid::group_of;
use super::gang::GangCandidate;
use super::heads::Head;
use super::record::{Attempt, Worker};
use super::reserve::{Seat, gather};
use crate::class::{Class, Request};
use crate::fleet::Amounts;
use crate::job::Gang;
use crate::score::tie;
use crate::table::NONE;

/// Workers for a job, and when all of them have room at the latest; absent = nobody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Forecast {
    pub(super) seats: Vec<Seat>,
    pub(super) shadow: Option<u64>,
}

/// What is found for a head.
#[derive(Clone, Debug, Default)]
pub(super) struct Look {
    /// None if it fits no such workers at all, or its tenant's limits allow nothing of it.
    pub(super) forecast: Option<Forecast>,
    /// When the first worker that is not its own has room for an attempt of it: exact where that is before the forecast's time,
    /// or before the one that was asked for.
    pub(super) earlier: u64,
}

/// What is looked for: request vectors of a class that the limits allow, and the worker that the job avoids.
pub(super) struct Wanted<'a> {
    pub(super) class: &'a Class,
    pub(super) allowed: &'a [u32],
    pub(super) shunned: u32,
}

/// By what workers are compared: when there is room, what is missing for it now, and a tie.
type Rank = (u64, i64, u64);

/// A worker that could hold some members of a job, one after the other.
struct Site {
    worker: u32,
    place: u32,
    request: u32,
    tie: u64,
    /// When the first member fits, the first two, and so on; `u64::MAX` = nobody knows.
    openings: Vec<u64>,
    /// What is missing for the first member now, for the first two, and so on, in millionths of the worker.
    lacks: Vec<i64>,
}

/// Which members come first: by when they fit, then by what is missing, then by the worker.
type Next = Reverse<(u64, i64, u64, usize, usize)>;

impl Scheduler {
    /// The workers that fit a head earliest by the declared limits of what runs there; without limits those that lack
    /// least. Workers that others reserved do not count. `own` says which the head has reserved itself, and `before` when all of
    /// these are free.
    ///
    /// Cost: linear in workers, and in the attempts with limits of those that may be among the earliest; of a gang times the
    /// logarithm of the members.
    pub(super) fn earliest(&self, head: &Head, own: &[Seat], before: u64) -> Look {
        let Some(class) = self.classes.get(head.turn.entry.class) else { return Look::default() };
        let mut allowed = Vec::new();
        let members = class.shape.gang.as_ref().map_or(1, |gang| gang.size);
        if self.room(head.turn.tenant, head.turn.entry.key, &class.requests, members, &mut allowed) == 0 {
            return Look::default();
        }
        let wanted = Wanted { class, allowed: &allowed, shunned: self.shunned(head.task) };
        match &class.shape.gang {
            None => self.earliest_worker(&wanted, own, before),
            Some(gang) => self.earliest_set(head, &wanted, gang, own),
        }
    }

    /// The worker for a job that is no gang.
    fn earliest_worker(&self, wanted: &Wanted<'_>, own: &[Seat], before: u64) -> Look {
        let mut best: Option<(Rank, Seat)> = None;
        let mut earlier = u64::MAX;
        let own_places = own.iter().filter_map(|seat| Some(self.workers.get(seat.worker)?.place));
        for place in self.table.open_places(wanted.class.kinds).chain(own_places) {
            let worker = self.table.owner(place);
            let is_own = own.iter().any(|seat| seat.worker == worker);
            if worker == wanted.shunned
                || !wanted.class.sees(self.table.kind(place))
                || is_own && !self.workers.get(worker).is_some_and(|own| self.could_open(own))
            {
                continue;
            }
            for number in wanted.allowed {
                let Some(request) = self.requests.get(*number).filter(|request| self.could(place, request)) else {
                    continue;
                };
                // What cannot be the earliest need not be known exactly.
                let (known, soonest) = (best.map_or(u64::MAX, |(rank, _)| rank.0), self.soonest(worker, request));
                if soonest > known && soonest >= before {
                    continue;
                }
                let opening = if soonest == u64::MAX { soonest } else { self.opening(worker, request) };
                earlier = if is_own { earlier } else { earlier.min(opening) };
                let rank = (opening, self.lack(place, request, 1), tie(self.seed, place));
                if best.is_none_or(|(known, _)| rank < known) {
                    best = Some((rank, Seat { worker, request: *number, times: 1 }));
                }
            }
        }
        let Some(((at, ..), seat)) = best else { return Look::default() };
        let forecast = Forecast { seats: vec![seat], shadow: (at != u64::MAX).then_some(at) };
        Look { forecast: Some(forecast), earlier }
    }

    /// The workers for a gang.
    fn earliest_set(&self, head: &Head, wanted: &Wanted<'_>, gang: &Gang, own: &[Seat]) -> Look {
        let size = gang.size as usize;
        let most = gang.max_per_worker.unwrap_or(gang.size).min(gang.size) as usize;
        let mut groups: BTreeMap<&str, Vec<Site>> = BTreeMap::new();
        let mut earlier = u64::MAX;
        for (number, worker) in self.workers.iter().filter(|(_, worker)| worker.place != NONE) {
            let kind = self.table.kind(worker.place);
            let is_own = own.iter().any(|seat| seat.worker == number);
            if number == wanted.shunned
                || (worker.reserved && !is_own)
                || !self.could_open(worker)
                || !wanted.class.sees(kind)
            {
                continue;
            }
            let sites = wanted.allowed.iter().filter_map(|request| self.site(number, worker, *request, most));
            let first = |site: &Site| {
                (Reverse(site.openings.len()), site.openings.first().copied(), site.lacks.first().copied())
            };
            if let (Some(group), Some(site)) = (group_of(Some(gang), self.kinds.get(kind)), sites.min_by_key(first)) {
                earlier = if is_own { earlier } else { earlier.min(*site.openings.first().unwrap_or(&u64::MAX)) };
                groups.entry(group).or_default().push(site);
            }
        }
        let best = groups.values().filter_map(|sites| earliest_of(sites, size).map(|(key, seats)| (key, seats, sites)));
        let Some(((at, _), seats, sites)) = best.min_by_key(|(key, ..)| *key) else { return Look::default() };
        let shadow = (at != u64::MAX).then_some(at);
        // Once it is known when, a gang takes the fewest workers that will do by then.
        let seats = if shadow.is_some() && size > 1 { self.seats_at(head, size, sites, at) } else { seats };
        Look { forecast: Some(Forecast { seats, shadow }), earlier }
    }

    /// Whether a worker that nobody reserved could take the first attempt of a head before some time. Whatever limits allow of it
    /// is in `allowed`.
    pub(super) fn opens_before(&self, worker: u32, wanted: &Wanted<'_>, before: u64) -> bool {
        let Some(record) = self.workers.get(worker).filter(|record| !record.reserved && self.could_open(record)) else {
            return false;
        };
        let place = record.place;
        if worker == wanted.shunned || !wanted.class.sees(self.table.kind(place)) {
            return false;
        }
        wanted.allowed.iter().filter_map(|number| self.requests.get(*number)).any(|request| {
            self.could(place, request)
                && self.soonest(worker, request) < before
                && self.opening(worker, request) < before
        })
    }

    /// A time before which a request does not fit a worker.
    fn soonest(&self, worker: u32, request: &Request) -> u64 {
        let place = self.workers.get(worker).map_or(NONE, |worker| worker.place);
        if request.need.iter().all(|(dim, amount)| self.table.free(usize::from(*dim), place) >= *amount) {
            return self.now;
        }
        self.changes.end_times.of(worker).soonest(self.now).max(self.now)
    }

    /// Whether a request fits into the whole capacity of a place.
    fn could(&self, place: u32, request: &Request) -> bool {
        request.need.iter().all(|(dim, amount)| self.table.total(usize::from(*dim), place) >= *amount)
    }

    /// When the first attempt of a request fits a worker that could hold it.
    fn opening(&self, worker: u32, request: &Request) -> u64 {
        self.openings(worker, request, 1).first().copied().unwrap_or(u64::MAX)
    }

    /// What is missing for so many attempts of a request on a place now, in millionths of the worker.
    fn lack(&self, place: u32, request: &Request, times: usize) -> i64 {
        let lack = |(dim, amount): &(u8, i32)| {
            let dim = usize::from(*dim);
            let asked = i64::from(*amount).saturating_mul(i64::try_from(times).unwrap_or(i64::MAX));
            let lacks = asked.saturating_sub(i64::from(self.table.free(dim, place))).max(0);
            lacks.saturating_mul(1_000_000) / i64::from(self.table.total(dim, place).max(1))
        };
        request.need.iter().map(lack).max().unwrap_or(0)
    }

    /// Whether jobs could be placed on a worker if nobody had reserved it.
    pub(super) fn could_open(&self, worker: &Worker) -> bool {
        worker.state.is_schedulable()
            && !worker.cordoned
            && worker.drain.is_none()
            && worker.place != NONE
            && self.table.is_whole(worker.place)
    }

    fn site(&self, number: u32, worker: &Worker, request: u32, most: usize) -> Option<Site> {
        let (place, vector) = (worker.place, self.requests.get(request)?);
        let openings = self.openings(number, vector, most);
        let lacks = (1..=openings.len()).map(|times| self.lack(place, vector, times)).collect();
        let tie = tie(self.seed, place);
        (!openings.is_empty()).then_some(Site { worker: number, place, request, tie, openings, lacks })
    }

    /// When the first of up to `most` attempts of a request fits a worker, the first two, and so on, as far as its whole
    /// capacity goes; `u64::MAX` = nobody knows.
    fn openings(&self, worker: u32, request: &Request, most: usize) -> Vec<u64> {
        let place = self.workers.get(worker).map_or(NONE, |worker| worker.place);
        let times = |amount: &dyn Fn(usize) -> i32| {
            let times = request.need.iter().map(|(dim, need)| amount(usize::from(*dim)) / (*need).max(1)).min();
            times.and_then(|times| usize::try_from(times).ok()).unwrap_or(0).min(most)
        };
        let could = times(&|dim| self.table.total(dim, place));
        let mut free: Amounts = std::array::from_fn(|dim| self.table.free(dim, place));
        let mut openings = vec![self.now; times(&|dim| free.get(dim).copied().unwrap_or(0)).min(could)];
        for (end, ended) in self.changes.end_times.of(worker).in_order(self.now) {
            if openings.len() >= could {
                break;
            }
            for (dim, amount) in self.requests.get(ended).map_or(&[][..], |request| &request.need) {
                if let Some(free) = free.get_mut(usize::from(*dim)) {
                    *free = free.saturating_add(*amount);
                }
            }
            let now = times(&|dim| free.get(dim).copied().unwrap_or(0)).min(could);
            openings.resize(openings.len().max(now), end.max(self.now));
        }
        openings.resize(could, u64::MAX);
        openings
    }

    /// When an attempt ends at the latest by its declared limit; `u64::MAX` = nobody knows.
    pub(super) fn ends_by(&self, attempt: &Attempt) -> u64 {
        let Some(spec) = self.spec_of(attempt.task.job).filter(|spec| spec.timeout_ms > 0) else { return u64::MAX };
        let begin = if attempt.started { attempt.started_at } else { self.now };
        begin.saturating_add(spec.timeout_ms).saturating_add(spec.grace_ms)
    }

    /// Deals the members of a gang to what is free at a time.
    fn seats_at(&self, head: &Head, size: usize, sites: &[Site], at: u64) -> Vec<Seat> {
        let mut rooms = Vec::new();
        for site in sites {
            let times = site.openings.iter().filter(|opening| **opening <= at).count();
            if let Some(times) = u32::try_from(times).ok().filter(|times| *times > 0) {
                rooms.push(GangCandidate {
                    fewer: u32::MAX - times,
                    tie: site.tie,
                    place: site.place,
                    request: site.request,
                    times,
                });
            }
        }
        rooms.sort_unstable();
        gather(&self.deal(head.turn, u32::try_from(size).unwrap_or(u32::MAX), rooms))
    }
}

/// When `size` members fit together and what is missing for it now, and where they go; none if they never do.
fn earliest_of(sites: &[Site], size: usize) -> Option<((u64, i64), Vec<Seat>)> {
    let entry = |at: usize, times: usize| {
        let site = sites.get(at)?;
        Some(Reverse((*site.openings.get(times)?, *site.lacks.get(times)?, site.tie, at, times)))
    };
    let mut next: BinaryHeap<Next> = (0..sites.len()).filter_map(|at| entry(at, 0)).collect();
    let mut seats: BTreeMap<usize, Seat> = BTreeMap::new();
    let mut key = (0, 0);
    for _ in 0..size {
        let Reverse((opening, lack, _, at, times)) = next.pop()?;
        key = (key.0.max(opening), key.1.max(lack));
        let site = sites.get(at)?;
        seats.entry(at).or_insert(Seat { worker: site.worker, request: site.request, times: 0 }).times += 1;
        next.extend(entry(at, times + 1));
    }
    Some((key, seats.into_values().collect()))
}
