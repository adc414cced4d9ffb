//! Which jobs make enough room for a gang on a set of workers: the fewest, then those of the worst priority, then those that
//! lose the least run time. Owns the choice among given jobs; knows nothing of attempts and tenants.

use std::cmp::Reverse;

use super::victim_choice::Cost;
use crate::fleet::Amounts;

/// A worker that could take members.
#[derive(Clone, Debug)]
pub(super) struct CandidateWorker {
    pub(super) free: Amounts,
    /// What a member takes, by each request vector that would do, the best first.
    pub(super) vectors: Vec<(u32, Amounts)>,
    /// The most members that it may take.
    pub(super) most: u32,
}

/// A job that may be ended, a gang as a whole.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) priority: u8,
    /// How long its attempts have run together, in milliseconds.
    pub(super) ran: u64,
    /// What it gives back, by site; no site twice.
    pub(super) gives: Vec<(usize, Amounts)>,
}

/// How many more jobs the greedy choice may try before it drops those that are not needed.
const SPARE: usize = 8;

/// Sites with what chosen jobs give back.
struct Field<'a> {
    sites: Vec<CandidateWorker>,
    /// How many members each site takes, and all together.
    takes: Vec<u32>,
    sum: u64,
    holders: &'a [Holder],
    size: u64,
}

/// The cheapest jobs, at most `most`, whose end makes room for `size` members, by position. The search is exact as long as
/// `budget` lasts, which it uses up by one a step, and greedy after that. None if no jobs do, or none need to end.
pub(super) fn cheapest_set(
    sites: &[CandidateWorker],
    holders: &[Holder],
    size: u32,
    most: usize,
    budget: &mut u32,
) -> Option<(Cost, Vec<usize>)> {
    let mut field = Field::new(sites, holders, size);
    if field.is_enough() {
        return None;
    }
    let mut order: Vec<usize> = (0..holders.len()).collect();
    order.sort_by_key(|at| holders.get(*at).map(|holder| (Reverse(holder.priority), holder.ran)));
    let greedy = field.greedy(&order, most.saturating_mul(2).saturating_add(SPARE))?;
    for count in 1..=greedy.len().min(most) {
        if let Some(found) = field.exactly(&order, count, budget) {
            return Some(found);
        }
        if *budget == 0 {
            break;
        }
    }
    (greedy.len() <= most).then(|| (cost(holders, &greedy), greedy))
}

/// By which request vector most members fit a site, and how many; of equals the best.
pub(super) fn hosts(site: &CandidateWorker) -> (u32, u32) {
    let times = |need: &Amounts| {
        let each = site.free.iter().zip(need).filter(|(_, need)| **need > 0).map(|(free, need)| free.max(&0) / need);
        each.min().and_then(|times| u32::try_from(times).ok()).unwrap_or(0).min(site.most)
    };
    let all = site.vectors.iter().map(|(number, need)| (*number, times(need)));
    all.rev().max_by_key(|(_, times)| *times).unwrap_or((0, 0))
}

/// What ending jobs costs.
fn cost(holders: &[Holder], chosen: &[usize]) -> Cost {
    let each = || chosen.iter().filter_map(|at| holders.get(*at));
    let ran = each().fold(0_u64, |sum, holder| sum.saturating_add(holder.ran));
    (chosen.len(), Reverse(each().map(|holder| u64::from(holder.priority)).sum()), ran)
}

impl<'a> Field<'a> {
    fn new(sites: &[CandidateWorker], holders: &'a [Holder], size: u32) -> Self {
        let takes: Vec<u32> = sites.iter().map(|site| hosts(site).1).collect();
        let sum = takes.iter().map(|times| u64::from(*times)).sum();
        Self { sites: sites.to_vec(), takes, sum, holders, size: u64::from(size) }
    }

    fn is_enough(&self) -> bool {
        self.sum >= self.size
    }

    /// Lets a job end, or takes that back.
    fn toggle(&mut self, at: usize, ends: bool) {
        for (number, gives) in self.holders.get(at).map_or(&[][..], |holder| &holder.gives) {
            let (Some(site), Some(takes)) = (self.sites.get_mut(*number), self.takes.get_mut(*number)) else {
                continue;
            };
            for (free, gives) in site.free.iter_mut().zip(gives) {
                *free = if ends { free.saturating_add(*gives) } else { free.saturating_sub(*gives) };
            }
            let now = hosts(site).1;
            self.sum = self.sum - u64::from(*takes) + u64::from(now);
            *takes = now;
        }
    }

    /// What the end of a job is worth: members that fit more, then how far it goes towards the next ones, in thousandths.
    fn worth(&mut self, at: usize) -> (u64, i64) {
        let towards = |(number, gives): &(usize, Amounts)| {
            let (site, times) = (self.sites.get(*number)?, *self.takes.get(*number)?);
            let next = i64::from(times) + 1;
            let vector = |need: &Amounts| {
                let part = |((free, need), gives): ((&i32, &i32), &i32)| {
                    let short = (i64::from(*need) * next - i64::from(*free)).max(0);
                    if *need > 0 { i64::from(*gives).min(short) * 1000 / i64::from(*need) } else { 0 }
                };
                site.free.iter().zip(need).zip(gives).map(part).sum::<i64>()
            };
            site.vectors.iter().filter(|_| times < site.most).map(|(_, need)| vector(need)).max()
        };
        let gives = self.holders.get(at).map_or(&[][..], |holder| &holder.gives);
        let towards = gives.iter().filter_map(towards).sum();
        let before = self.sum;
        self.toggle(at, true);
        let after = self.sum;
        self.toggle(at, false);
        (after.saturating_sub(before), towards)
    }

    /// One job after the other whose end is worth most, at most `limit`, then without those that turn out not to be needed.
    fn greedy(&mut self, order: &[usize], limit: usize) -> Option<Vec<usize>> {
        let mut here: Vec<Vec<usize>> = vec![Vec::new(); self.sites.len()];
        for (at, holder) in self.holders.iter().enumerate() {
            for (site, _) in &holder.gives {
                here.get_mut(*site)?.push(at);
            }
        }
        let mut worths: Vec<(u64, i64)> = (0..self.holders.len()).map(|at| self.worth(at)).collect();
        let mut chosen: Vec<usize> = Vec::new();
        while !self.is_enough() && chosen.len() < limit {
            let mut best: Option<((u64, i64), usize)> = None;
            for at in order {
                let worth = worths.get(*at).copied().unwrap_or_default();
                if worth > (0, 0) && best.is_none_or(|(known, _)| worth > known) {
                    best = Some((worth, *at));
                }
            }
            let Some((_, at)) = best else { break };
            self.toggle(at, true);
            chosen.push(at);
            for (site, _) in self.holders.get(at).map_or(&[][..], |holder| &holder.gives) {
                for other in here.get(*site).into_iter().flatten() {
                    let worth = if chosen.contains(other) { (0, 0) } else { self.worth(*other) };
                    *worths.get_mut(*other)? = worth;
                }
            }
        }
        let enough = self.is_enough();
        for at in chosen.clone() {
            self.toggle(at, false);
            if enough && self.is_enough() {
                chosen.retain(|other| *other != at);
            } else {
                self.toggle(at, true);
            }
        }
        chosen.iter().for_each(|at| self.toggle(*at, false));
        enough.then_some(chosen)
    }

    /// The cheapest `count` jobs that are enough, found by depth first search in order of preference.
    fn exactly(&mut self, order: &[usize], count: usize, budget: &mut u32) -> Option<(Cost, Vec<usize>)> {
        let mut best: Option<(Cost, Vec<usize>)> = None;
        // Positions in the order.
        let (mut chosen, mut next): (Vec<usize>, usize) = (Vec::new(), 0);
        loop {
            if chosen.len() == count {
                let jobs: Vec<usize> = chosen.iter().filter_map(|at| order.get(*at).copied()).collect();
                let cost = cost(self.holders, &jobs);
                if best.as_ref().is_none_or(|(known, _)| cost < *known) && self.is_enough() {
                    best = Some((cost, jobs));
                }
            }
            if chosen.len() < count && next + (count - chosen.len()) <= order.len() && *budget > 0 {
                *budget -= 1;
                self.toggle(order.get(next).copied()?, true);
                chosen.push(next);
                next += 1;
            } else {
                let Some(last) = chosen.pop() else { break };
                self.toggle(order.get(last).copied()?, false);
                next = last + 1;
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amounts(list: &[i32]) -> Amounts {
        std::array::from_fn(|dim| list.get(dim).copied().unwrap_or(0))
    }

    fn site(free: &[i32], need: &[i32], most: u32) -> CandidateWorker {
        CandidateWorker { free: amounts(free), vectors: vec![(0, amounts(need))], most }
    }

    fn holder(priority: u8, ran: u64, gives: &[(usize, &[i32])]) -> Holder {
        Holder { priority, ran, gives: gives.iter().map(|(site, gives)| (*site, amounts(gives))).collect() }
    }

    fn chosen(sites: &[CandidateWorker], holders: &[Holder], size: u32) -> Option<Vec<usize>> {
        let mut found = cheapest_set(sites, holders, size, 9, &mut 10_000)?.1;
        found.sort_unstable();
        Some(found)
    }

    #[test]
    fn a_set_ends_fewest_then_of_the_worst_priority_then_those_that_lose_least() {
        let sites = [site(&[1], &[1], 9), site(&[0], &[1], 9)];
        // One that gives two places rather than two that give one each, though these are less urgent.
        let list = [holder(9, 0, &[(0, &[1])]), holder(9, 0, &[(1, &[1])]), holder(7, 50, &[(1, &[2])])];
        assert_eq!(chosen(&sites, &list, 3), Some(vec![2]));
        assert_eq!(chosen(&sites, &list, 4), Some(vec![0, 2]), "of two that would do the one at the end is as good");
        assert_eq!(chosen(&sites, &list[..2], 2), Some(vec![0]));
        let list = [holder(8, 0, &[(0, &[1])]), holder(9, 30, &[(0, &[1])]), holder(9, 10, &[(1, &[1])])];
        assert_eq!(chosen(&sites, &list, 2), Some(vec![2]));
        assert_eq!(chosen(&sites, &list, 5), None, "all together are not enough");
        assert_eq!(chosen(&sites, &list, 1), None, "nobody needs to end");
        assert_eq!(cheapest_set(&sites, &list, 3, 1, &mut 10_000), None, "more than may be ended");
    }

    #[test]
    fn a_gang_that_ends_counts_once_wherever_its_members_are() {
        let sites = [site(&[0], &[1], 1), site(&[0], &[1], 1)];
        let spread = holder(6, 90, &[(0, &[1]), (1, &[1])]);
        assert_eq!(chosen(&sites, &[holder(9, 0, &[(0, &[1])]), holder(9, 0, &[(1, &[1])]), spread], 2), Some(vec![2]));
    }

    #[test]
    fn members_per_worker_and_every_dimension_count() {
        let list = [holder(9, 0, &[(0, &[4, 1])]), holder(9, 0, &[(0, &[0, 4])])];
        assert_eq!(chosen(&[site(&[0, 0], &[1, 1], 9)], &list, 2), Some(vec![0, 1]));
        assert_eq!(chosen(&[site(&[0, 0], &[1, 1], 1)], &list, 2), None);
    }

    type Drawn = (u8, u64, Vec<Vec<i32>>);

    proptest! {
        #[test]
        fn the_search_over_sets_finds_what_trying_all_finds(
            free in proptest::collection::vec(proptest::collection::vec(0_i32..3, 2), 1..4),
            list in proptest::collection::vec((6_u8..10, 0_u64..4, proptest::collection::vec(proptest::collection::vec(0_i32..3, 2), 3)), 0..7),
            size in 1_u32..6,
        ) {
            let sites: Vec<CandidateWorker> = free.iter().map(|free| site(free, &[1, 2], 3)).collect();
            let build = |(priority, ran, gives): &Drawn| {
                let gives = gives.iter().take(sites.len()).enumerate().map(|(at, gives)| (at, amounts(gives)));
                Holder { priority: *priority, ran: *ran, gives: gives.collect() }
            };
            let holders: Vec<Holder> = list.iter().map(build).collect();
            let mut field = Field::new(&sites, &holders, size);
            prop_assume!(!field.is_enough());
            let mut best: Option<Cost> = None;
            for set in 1_u32..1 << holders.len() {
                let jobs: Vec<usize> = (0..holders.len()).filter(|at| set >> at & 1 == 1).collect();
                jobs.iter().for_each(|at| field.toggle(*at, true));
                if field.is_enough() {
                    best = Some(best.map_or(cost(&holders, &jobs), |known| known.min(cost(&holders, &jobs))));
                }
                jobs.iter().for_each(|at| field.toggle(*at, false));
            }
            prop_assert_eq!(cheapest_set(&sites, &holders, size, 9, &mut 100_000).map(|(cost, _)| cost), best);
            // Without a budget the choice is enough, and has nobody to spare.
            let greedy = cheapest_set(&sites, &holders, size, 9, &mut 0).map(|(_, jobs)| jobs);
            prop_assert_eq!(greedy.is_some(), best.is_some());
            for spare in greedy.iter().flatten() {
                let others: Vec<usize> = greedy.iter().flatten().copied().filter(|at| at != spare).collect();
                others.iter().for_each(|at| field.toggle(*at, true));
                prop_assert!(!field.is_enough());
                others.iter().for_each(|at| field.toggle(*at, false));
            }
        }
    }
}
