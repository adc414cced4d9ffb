//! Rules that open a number of bins and take the best pair of item and bin until done. Owns the choice of the pair; never
//! opens a bin on the way.

use super::super::bins::Bins;
use super::super::measure::{Waiting, refresh_interval};
use super::super::options::{Budget, Refresh, Score, Weights};
use super::super::problem::{Problem, share};
use super::bin_centric::score;
use super::item_centric::remaining;

/// Tries ever more bins from `from` to `to`. `None` if no number does or the deadline passes.
pub(in crate::packing) fn climb(
    problem: &Problem,
    by: Score,
    of: Weights,
    refresh: Refresh,
    range: std::ops::RangeInclusive<usize>,
    budget: &mut Budget<'_>,
) -> Option<Bins> {
    for count in range {
        if let Some(bins) = pack(problem, by, of, refresh, count, budget) {
            return Some(bins);
        }
        if !budget.work(1) {
            return None;
        }
    }
    None
}

/// The best pair an item is part of.
#[derive(Clone, Copy)]
struct Pair {
    score: f64,
    bin: usize,
}

struct Search<'a> {
    problem: &'a Problem,
    by: Score,
    bins: Bins,
    /// Bins from here on are empty, and so all alike.
    fresh: usize,
    room: Vec<f64>,
    weights: Vec<f64>,
}

impl Search<'_> {
    fn score(&self, item: usize, bin: usize) -> Option<f64> {
        let d = self.problem.dimensions;
        let room = self.room.get(bin * d..(bin + 1) * d)?;
        let fits = self.bins.fits(self.problem, item, bin);
        fits.then(|| score(self.by, &self.weights, self.problem.shares(item), room))
    }

    fn best(&self, item: usize) -> Option<Pair> {
        let mut best: Option<Pair> = None;
        for bin in 0..self.bins.len().min(self.fresh + 1) {
            if let Some(score) = self.score(item, bin)
                && best.is_none_or(|best| score > best.score)
            {
                best = Some(Pair { score, bin });
            }
        }
        best
    }

    fn put(&mut self, item: usize, bin: usize) {
        let d = self.problem.dimensions;
        self.bins.put(self.problem, item, bin);
        self.fresh = self.fresh.max(bin + 1);
        let of = self.bins.free(bin).iter().zip(&self.problem.capacity);
        for (room, (free, capacity)) in self.room[bin * d..].iter_mut().zip(of) {
            *room = share(*free, *capacity);
        }
    }
}

/// Packs into exactly so many bins, if the rule finds how.
pub(in crate::packing) fn pack(
    problem: &Problem,
    by: Score,
    of: Weights,
    refresh: Refresh,
    count: usize,
    budget: &mut Budget<'_>,
) -> Option<Bins> {
    let bins = Bins::opened(problem, count);
    let mut waiting = Waiting::all(problem);
    let weights = waiting.weights(of, &remaining(problem, &bins));
    let room = problem.capacity.iter().map(|capacity| share(*capacity, *capacity));
    let room = std::iter::repeat_n(room, count).flatten().collect();
    let mut search = Search { problem, by, bins, fresh: 0, room, weights };
    let mut left: Vec<(u32, Pair)> = Vec::with_capacity(problem.len);
    for item in 0..problem.len {
        left.push((item as u32, search.best(item)?));
    }
    // Weights that follow every single item would make each step a scan of all pairs.
    let interval = refresh_interval(problem.len).max(problem.len / 16);
    while !left.is_empty() {
        let most = left.iter().enumerate().max_by(|(_, a), (_, b)| a.1.score.total_cmp(&b.1.score).then(b.0.cmp(&a.0)));
        let at = most.map_or(0, |(at, _)| at);
        let (item, pair) = left.swap_remove(at);
        let was_fresh = pair.bin == search.fresh;
        search.put(item as usize, pair.bin);
        waiting.packed(problem.shares(item as usize));
        let refreshed = refresh == Refresh::Dynamic && left.len().is_multiple_of(interval);
        if refreshed {
            search.weights = waiting.weights(of, &remaining(problem, &search.bins));
        }
        for (item, best) in &mut left {
            let item = *item as usize;
            if refreshed || best.bin == pair.bin {
                *best = search.best(item)?;
                continue;
            }
            for bin in [Some(pair.bin), was_fresh.then_some(search.fresh)].into_iter().flatten() {
                if bin < search.bins.len()
                    && let Some(score) = search.score(item, bin)
                    && score > best.score
                {
                    *best = Pair { score, bin };
                }
            }
        }
        if !budget.work(left.len() as u64 / 16 + 1) {
            return None;
        }
    }
    search.bins.close_empty(problem);
    Some(search.bins)
}
