//! When and where a job that waits could start at the earliest (section 2.7), by the declared time limits of what runs:
//! workers for a job, sets of workers for a gang. Owns the forecast; reservations are made of it elsewhere.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::Scheduler;
use super::gang::Room;
use super::record::{Attempt, Worker};
use super::reserve::{Head, Seat, gather};
use crate::class::request::Request;
use crate::fleet::Amounts;
use crate::score::scan::tie;
use crate::table::NONE;

/// Workers for a job, and when all of them have room at the latest; absent = nobody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Forecast {
    pub(super) seats: Vec<Seat>,
    pub(super) shadow: Option<u64>,
}

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
    /// least. Workers that are reserved count only where `counts` says so. None if the head fits no such workers at all.
    ///
    /// Cost: linear in workers and their attempts, times the logarithm of the members.
    pub(super) fn earliest(&self, head: &Head, counts: &dyn Fn(u32) -> bool) -> Option<Forecast> {
        let class = self.classes.get(head.turn.entry.class)?;
        let gang = class.shape.gang.as_ref();
        let size = gang.map_or(1, |gang| gang.size) as usize;
        let most = gang.map_or(1, |gang| gang.max_per_worker.unwrap_or(gang.size).min(gang.size)) as usize;
        let mut allowed = Vec::new();
        if self.room(head.turn.line(), (&class.requests, gang.map_or(1, |gang| gang.size)), &mut allowed) == 0 {
            return None;
        }
        let shunned = self.shunned(head.unit);
        let mut groups: BTreeMap<&str, Vec<Site>> = BTreeMap::new();
        for (number, worker) in self.workers.iter().filter(|(_, worker)| worker.place != NONE) {
            let kind = self.table.kind(worker.place);
            if number == shunned
                || (worker.reserved && !counts(number))
                || !self.could_open(worker)
                || !class.sees(kind)
            {
                continue;
            }
            let label = gang.and_then(|gang| gang.same_label.as_deref());
            let group = label.map_or(Some(""), |label| self.kinds.get(kind)?.labels.get(label).map(String::as_str));
            let sites = allowed.iter().filter_map(|request| self.site(number, worker, *request, most));
            let first = |site: &Site| {
                (Reverse(site.openings.len()), site.openings.first().copied(), site.lacks.first().copied())
            };
            if let (Some(group), Some(site)) = (group, sites.min_by_key(first)) {
                groups.entry(group).or_default().push(site);
            }
        }
        let best = groups.values().filter_map(|sites| earliest_of(sites, size).map(|(key, seats)| (key, seats, sites)));
        let ((at, _), seats, sites) = best.min_by_key(|(key, ..)| *key)?;
        let shadow = (at != u64::MAX).then_some(at);
        // Once it is known when, a gang takes the fewest workers that will do by then.
        let seats = if shadow.is_some() && size > 1 { self.seats_at(head, size, sites, at) } else { seats };
        Some(Forecast { seats, shadow })
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
        let lack = |(dim, amount): &(u8, i32), times: usize| {
            let dim = usize::from(*dim);
            let asked = i64::from(*amount).saturating_mul(i64::try_from(times).unwrap_or(i64::MAX));
            let lacks = asked.saturating_sub(i64::from(self.table.free(dim, place))).max(0);
            lacks.saturating_mul(1_000_000) / i64::from(self.table.total(dim, place).max(1))
        };
        let lacks =
            (1..=openings.len()).map(|times| vector.need.iter().map(|need| lack(need, times)).max().unwrap_or(0));
        let (lacks, tie) = (lacks.collect(), tie(self.seed, place));
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
        if openings.len() < could {
            let attempts = self.attempts_on(worker).into_iter().filter_map(|slot| self.attempts.get(slot));
            let attempts = attempts.filter(|attempt| !attempt.waiting);
            let mut ends: Vec<(u64, u32)> = attempts.map(|attempt| (self.ends_by(attempt), attempt.request)).collect();
            ends.sort_unstable();
            for (end, ended) in ends.into_iter().take_while(|(end, _)| *end != u64::MAX) {
                for (dim, amount) in self.requests.get(ended).map_or(&[][..], |request| &request.need) {
                    if let Some(free) = free.get_mut(usize::from(*dim)) {
                        *free = free.saturating_add(*amount);
                    }
                }
                let now = times(&|dim| free.get(dim).copied().unwrap_or(0)).min(could);
                openings.resize(openings.len().max(now), end.max(self.now));
            }
        }
        openings.resize(could, u64::MAX);
        openings
    }

    /// When an attempt ends at the latest by its declared limit; `u64::MAX` = nobody knows.
    pub(super) fn ends_by(&self, attempt: &Attempt) -> u64 {
        let Some(spec) = self.spec_of(attempt.unit.job).filter(|spec| spec.timeout_ms > 0) else { return u64::MAX };
        let begin = if attempt.started { attempt.started_at } else { self.now };
        begin.saturating_add(spec.timeout_ms).saturating_add(spec.grace_ms)
    }

    /// Deals the members of a gang to what is free at a time.
    fn seats_at(&self, head: &Head, size: usize, sites: &[Site], at: u64) -> Vec<Seat> {
        let mut rooms = Vec::new();
        for site in sites {
            let times = site.openings.iter().filter(|opening| **opening <= at).count();
            if let Some(times) = u32::try_from(times).ok().filter(|times| *times > 0) {
                rooms.push(Room {
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
