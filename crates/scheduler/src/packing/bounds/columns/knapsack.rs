//! The pattern of greatest worth under given prices: a knapsack in several dimensions, by depth-first search with
//! Dantzig's bound on one weighted sum of dimensions and ratio bounds on each. Owns the search; a search that is cut short
//! still says what no pattern can exceed.

use super::super::super::problem::Problem;
use super::Type;

/// What rounding of bounds may cost; bounds are made greater by it.
const SAFE: f64 = 1.0 + 1e-9;

/// What a search found.
pub(super) struct BestPattern {
    /// The worth of the best pattern.
    pub(super) profit: u64,
    /// Types of the pattern, as positions, with counts.
    pub(super) pattern: Vec<(usize, u32)>,
    /// No pattern is worth more than this.
    pub(super) most: u64,
    /// Whether the search saw everything, so that `most` is `profit`.
    pub(super) complete: bool,
    /// Steps taken.
    pub(super) nodes: u64,
}

struct Candidate<'a> {
    position: usize,
    count: u32,
    profit: u64,
    demand: &'a [u64],
    weight: f64,
}

pub(super) struct Knapsack<'a> {
    capacity: &'a [u64],
    /// Those with a price, the most worth for their weight first.
    candidates: Vec<Candidate<'a>>,
    /// For each candidate and dimension the greatest profit per unit of demand from there on.
    ratios: Vec<f64>,
    weights: Vec<f64>,
}

impl<'a> Knapsack<'a> {
    pub(super) fn new(problem: &'a Problem, types: &[Type], prices: &[u64]) -> Self {
        let weights = problem.mean_shares();
        let weight = |item: usize| problem.shares(item).iter().zip(&weights).map(|(share, of)| share * of).sum::<f64>();
        let priced = types.iter().zip(prices).enumerate().filter(|(_, (_, price))| **price > 0);
        let mut candidates: Vec<Candidate<'a>> = priced
            .map(|(position, (of, price))| Candidate {
                position,
                count: of.count,
                profit: *price,
                demand: problem.demand(of.item),
                weight: weight(of.item).max(f64::MIN_POSITIVE),
            })
            .collect();
        let worth = |of: &Candidate<'_>| of.profit as f64 / of.weight;
        candidates.sort_by(|a, b| worth(b).total_cmp(&worth(a)).then(a.position.cmp(&b.position)));
        let d = problem.dimensions;
        let mut ratios = vec![0.0; (candidates.len() + 1) * d];
        for (at, of) in candidates.iter().enumerate().rev() {
            for dimension in 0..d {
                let demand = of.demand[dimension];
                let ratio = if demand == 0 { f64::INFINITY } else { of.profit as f64 / demand as f64 };
                ratios[at * d + dimension] = ratio.max(ratios[(at + 1) * d + dimension]);
            }
        }
        Self { capacity: &problem.capacity, candidates, ratios, weights }
    }

    /// Looks for the best pattern in so many steps.
    pub(super) fn search(&mut self, limit: u64) -> BestPattern {
        let best = BestPattern { profit: 0, pattern: Vec::new(), most: 0, complete: true, nodes: 0 };
        let mut search = Search { of: self, left: limit, best, chosen: Vec::new() };
        search.from(0, self.capacity, 0);
        let mut found = search.best;
        found.nodes = limit - search.left;
        found.most = found.most.max(found.profit);
        found
    }

    /// What candidates from `at` on can add at most to what is left.
    fn most(&self, at: usize, free: &[u64]) -> u64 {
        let d = free.len();
        let mut most = f64::INFINITY;
        for (ratio, free) in self.ratios[at * d..(at + 1) * d].iter().zip(free) {
            if ratio.is_finite() {
                most = most.min(ratio * *free as f64);
            }
        }
        let shares = free.iter().zip(self.capacity).map(|(free, of)| super::super::super::problem::share(*free, *of));
        let mut room: f64 = shares.zip(&self.weights).map(|(share, weight)| share * weight).sum::<f64>() * SAFE;
        let mut sum = 0.0;
        for of in &self.candidates[at..] {
            let all = of.weight * f64::from(of.count);
            if all > room {
                sum += of.profit as f64 * room / of.weight;
                break;
            }
            room -= all;
            sum += of.profit as f64 * f64::from(of.count);
        }
        (most.min(sum) * SAFE).ceil() as u64
    }
}

struct Search<'a> {
    of: &'a Knapsack<'a>,
    left: u64,
    best: BestPattern,
    chosen: Vec<(usize, u32)>,
}

impl Search<'_> {
    /// Adds candidates from `at` on in every way that may beat the best. As deep as a bin holds items.
    fn from(&mut self, at: usize, free: &[u64], profit: u64) {
        if profit > self.best.profit {
            self.best.profit = profit;
            self.best.pattern.clone_from(&self.chosen);
        }
        let of = self.of;
        for (next, candidate) in of.candidates.iter().enumerate().skip(at) {
            let fits = candidate.demand.iter().zip(free).all(|(demand, free)| demand <= free);
            let used = self.chosen.last().filter(|(last, _)| *last == candidate.position).map_or(0, |(_, used)| *used);
            if !fits || used >= candidate.count {
                continue;
            }
            let most = profit.saturating_add(of.most(next, free));
            if most <= self.best.profit {
                return;
            }
            if self.left == 0 {
                self.best.complete = false;
                self.best.most = self.best.most.max(most);
                return;
            }
            self.left -= 1;
            let left: Vec<u64> = free.iter().zip(candidate.demand).map(|(free, demand)| free - demand).collect();
            match self.chosen.last_mut() {
                Some((last, used)) if *last == candidate.position => *used += 1,
                _ => self.chosen.push((candidate.position, 1)),
            }
            self.from(next, &left, profit.saturating_add(candidate.profit));
            match self.chosen.last_mut() {
                Some((_, used)) if *used > 1 => *used -= 1,
                _ => drop(self.chosen.pop()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packing::Items;
    use crate::packing::random::Random;

    /// The best worth by trying everything.
    fn every(rows: &[[u64; 2]], prices: &[u64], free: [u64; 2], at: usize) -> u64 {
        let Some(row) = rows.get(at) else { return 0 };
        let without = every(rows, prices, free, at + 1);
        let fits = row[0] <= free[0] && row[1] <= free[1];
        let with = || prices[at] + every(rows, prices, [free[0] - row[0], free[1] - row[1]], at + 1);
        if fits { without.max(with()) } else { without }
    }

    #[test]
    fn it_finds_what_trying_everything_finds_and_never_promises_less() {
        let mut random = Random::new(17);
        for _ in 0..200 {
            let mut rows: Vec<[u64; 2]> = (0..8).map(|_| [random.within(1, 60), random.within(0, 60)]).collect();
            rows.sort_unstable();
            rows.dedup();
            let prices: Vec<u64> = rows.iter().map(|_| random.within(0, 50)).collect();
            let items = Items::from_rows(2, &rows).unwrap();
            let problem = Problem::new(&items, &[100, 100]).unwrap();
            let types: Vec<Type> = (0..rows.len()).map(|item| Type { item, count: 1 }).collect();
            let wanted = every(&rows, &prices, [100, 100], 0);
            let found = Knapsack::new(&problem, &types, &prices).search(100_000);
            assert_eq!((found.profit, found.most, found.complete), (wanted, wanted, true));
            let worth: u64 = found.pattern.iter().map(|(at, count)| prices[*at] * u64::from(*count)).sum();
            assert_eq!(worth, wanted);
            for limit in [0, 1, 3] {
                assert!(Knapsack::new(&problem, &types, &prices).search(limit).most >= wanted);
            }
        }
    }
}
