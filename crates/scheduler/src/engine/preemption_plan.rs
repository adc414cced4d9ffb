//! Where a blocked head makes room, and whom that ends: one worker for a job, a set for a gang. Owns which
//! workers and victims are compared; the choices among these are made in `victims` and `sites`, and nothing changes here.

use std::collections::BTreeMap;

use super::Scheduler;
use super::candidates::{CandidateWorker, Holder, cheapest_set, hosts};
use super::gang::GangCandidate;
use super::heads::Head;
use super::preempt::{Choice, Offers};
use super::record::Worker;
use super::reserve::{Seat, gather};
use super::victim_choice::{Cost, Victim, cheapest};
use crate::class::Class;
use crate::fleet::Amounts;
use crate::score::tie;
use crate::table::NONE;

/// Steps that the search for one job's victims may take on all workers together.
const STEPS: u32 = 100_000;
/// Steps that the search for one gang's victims may take for all labels together.
const SET_STEPS: u32 = 10_000;

/// By what choices on different workers are compared, the least first.
type Rank = (Cost, u64);

impl Scheduler {
    /// Where making room for a head costs least among offers of at least priority number `least`, and whom it ends there: at
    /// most so many.
    pub(super) fn choose(&self, head: &Head, least: u8, offers: &Offers, most: usize) -> Option<Choice> {
        let class = self.classes.get(head.turn.entry.class).filter(|_| self.affords(head))?;
        let mut allowed = Vec::new();
        let members = class.shape.gang.as_ref().map_or(1, |gang| gang.size);
        self.room(head.turn.tenant, head.turn.entry.key, &class.requests, members, &mut allowed);
        match &class.shape.gang {
            None => self.choose_worker(head, class, &allowed, least, most, offers),
            Some(_) => self.choose_set(head, class, &allowed, least, most, offers),
        }
    }

    /// Whether a head may be placed on a worker: nobody else reserved it, and it may run the class.
    fn may_use(&self, head: &Head, class: &Class, number: u32, worker: &Worker) -> bool {
        let own = || self.reservations.iter().any(|kept| kept.job == head.job && kept.seat(number).is_some());
        let shunned = || self.shunned(head.task) == number;
        self.could_open(worker)
            && !shunned()
            && class.sees(self.table.kind(worker.place))
            && (!worker.reserved || own())
    }

    fn choose_worker(
        &self,
        head: &Head,
        class: &Class,
        allowed: &[u32],
        least: u8,
        most: usize,
        offers: &Offers,
    ) -> Option<Choice> {
        let (mut best, mut steps): (Option<(Rank, Choice)>, u32) = (None, STEPS);
        for (worker, here) in &offers.on {
            let Some(record) = self.workers.get(*worker).filter(|record| self.may_use(head, class, *worker, record))
            else {
                continue;
            };
            let place = record.place;
            for number in allowed {
                let Some(need) = self.requests.get(*number).map(|request| &request.need) else { continue };
                let lacks = |(dim, amount): &(u8, i32)| amount - self.table.free(usize::from(*dim), place);
                let short: Vec<(u8, i64)> =
                    need.iter().map(|need| (need.0, i64::from(lacks(need)))).filter(|(_, lacks)| *lacks > 0).collect();
                let victim = |at: &usize| {
                    let offer = offers.list.get(*at).filter(|offer| offer.priority >= least)?;
                    let given = |dim: u8| {
                        let here = offer.attempts.iter().filter(|(_, on, _)| on == worker);
                        let requests = here.filter_map(|(.., request)| self.requests.get(*request));
                        requests.map(|request| i64::from(request.amount(usize::from(dim)))).sum()
                    };
                    let gives = short.iter().map(|(dim, _)| given(*dim)).collect();
                    Some(Victim { slot: u32::try_from(*at).ok()?, priority: offer.priority, ran: offer.ran, gives })
                };
                let victims = here.iter().filter_map(victim).collect();
                let amounts: Vec<i64> = short.iter().map(|(_, lacks)| *lacks).collect();
                let at_most = best.as_ref().map_or(most, |(((count, ..), _), _)| most.min(*count));
                let Some((cost, victims)) = cheapest(&amounts, victims, at_most, &mut steps) else { continue };
                let key = (cost, tie(self.seed, place));
                if !victims.is_empty() && best.as_ref().is_none_or(|(known, _)| key < *known) {
                    let seats = vec![Seat { worker: *worker, request: *number, times: 1 }];
                    let victims = victims.into_iter().map(|at| at as usize).collect();
                    best = Some((key, Choice { seats, victims }));
                }
            }
        }
        best.map(|(_, choice)| choice)
    }

    fn choose_set(
        &self,
        head: &Head,
        class: &Class,
        allowed: &[u32],
        least: u8,
        most: usize,
        offers: &Offers,
    ) -> Option<Choice> {
        let gang = class.shape.gang.as_ref()?;
        let size = gang.size;
        let mut groups: BTreeMap<&str, (Vec<u32>, Vec<CandidateWorker>)> = BTreeMap::new();
        for (number, worker) in self.workers.iter().filter(|(_, worker)| worker.place != NONE) {
            if !self.may_use(head, class, number, worker) {
                continue;
            }
            let kind = self.kinds.get(self.table.kind(worker.place));
            let group = match &gang.same_label {
                None => Some(""),
                Some(label) => kind.and_then(|kind| kind.labels.get(label)).map(String::as_str),
            };
            let Some((workers, sites)) = group.map(|group| groups.entry(group).or_default()) else { continue };
            let free = std::array::from_fn(|dim| self.table.free(dim, worker.place));
            let vectors = allowed.iter().map(|number| (*number, self.amounts(*number))).collect();
            workers.push(number);
            sites.push(CandidateWorker { free, vectors, most: gang.max_per_worker.unwrap_or(size).min(size) });
        }
        let (mut best, mut steps): (Option<(Cost, Choice)>, u32) = (None, SET_STEPS);
        for (workers, sites) in groups.into_values() {
            let (numbers, holders) = self.holders(&workers, least, offers);
            let Some((cost, chosen)) = cheapest_set(&sites, &holders, size, most, &mut steps) else { continue };
            if best.as_ref().is_none_or(|(known, _)| cost < *known) {
                let given = chosen.iter().filter_map(|at| holders.get(*at)).flat_map(|holder| &holder.gives);
                let seats = self.seats_after(head, size, &workers, sites, given);
                let victims = chosen.iter().filter_map(|at| numbers.get(*at).copied()).collect();
                best = Some((cost, Choice { seats, victims }));
            }
        }
        best.map(|(_, choice)| choice)
    }

    /// What one attempt of a request vector takes, by dimension.
    fn amounts(&self, request: u32) -> Amounts {
        let request = self.requests.get(request);
        std::array::from_fn(|dim| request.map_or(0, |request| request.amount(dim)))
    }

    /// Offers with attempts on some workers, with their numbers, as what they give back there.
    fn holders(&self, workers: &[u32], least: u8, offers: &Offers) -> (Vec<usize>, Vec<Holder>) {
        let at: BTreeMap<u32, usize> = workers.iter().enumerate().map(|(at, worker)| (*worker, at)).collect();
        let mut found = (Vec::new(), Vec::new());
        for (number, offer) in offers.list.iter().enumerate().filter(|(_, offer)| offer.priority >= least) {
            let mut gives: BTreeMap<usize, Amounts> = BTreeMap::new();
            for (_, worker, request) in &offer.attempts {
                let Some(site) = at.get(worker) else { continue };
                let sum = gives.entry(*site).or_default();
                sum.iter_mut().zip(self.amounts(*request)).for_each(|(sum, more)| *sum = sum.saturating_add(more));
            }
            if !gives.is_empty() {
                found.0.push(number);
                let gives = gives.into_iter().collect();
                found.1.push(Holder { priority: offer.priority, ran: offer.ran, gives });
            }
        }
        found
    }

    /// Deals the members of a gang to workers where the victims have ended.
    fn seats_after<'a>(
        &self,
        head: &Head,
        size: u32,
        workers: &[u32],
        mut sites: Vec<CandidateWorker>,
        given: impl Iterator<Item = &'a (usize, Amounts)>,
    ) -> Vec<Seat> {
        for (site, gives) in given {
            let Some(site) = sites.get_mut(*site) else { continue };
            site.free.iter_mut().zip(gives).for_each(|(free, more)| *free = free.saturating_add(*more));
        }
        let room = |(worker, site): (&u32, &CandidateWorker)| {
            let place = self.workers.get(*worker)?.place;
            let (request, times) = hosts(site);
            let room = GangCandidate { fewer: u32::MAX - times, tie: tie(self.seed, place), place, request, times };
            (times > 0).then_some(room)
        };
        let mut rooms: Vec<GangCandidate> = workers.iter().zip(&sites).filter_map(room).collect();
        rooms.sort_unstable();
        gather(&self.deal(head.turn, size, rooms))
    }
}
