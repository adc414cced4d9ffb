//! Rules that take items in order and find a bin for each. Owns next, first, best and worst fit; never reorders a bin.

use super::super::bins::Bins;
use super::super::measure::{Waiting, decreasing, refresh_interval, size, sizes};
use super::super::options::{Fit, ItemOrder, Refresh, Size};
use super::super::problem::{Problem, share};
use super::hints::Hints;
use super::tree::Tree;

/// Items in the order of a rule.
struct Queue<'a> {
    problem: &'a Problem,
    by: Size,
    /// Last first.
    order: Vec<u32>,
    waiting: Waiting,
    until_refresh: usize,
    dynamic: bool,
}

impl<'a> Queue<'a> {
    fn new(problem: &'a Problem, order: ItemOrder, by: Size) -> Self {
        let mut items = match order {
            ItemOrder::Arrival => (0..problem.len as u32).collect(),
            ItemOrder::Decreasing => decreasing(&sizes(problem, by)),
        };
        items.reverse();
        let dynamic = order == ItemOrder::Decreasing && by.refresh == Refresh::Dynamic;
        let until_refresh = refresh_interval(problem.len);
        Self { problem, by, order: items, waiting: Waiting::all(problem), until_refresh, dynamic }
    }

    fn next(&mut self, bins: &Bins) -> Option<usize> {
        if self.dynamic && self.until_refresh == 0 {
            self.until_refresh = refresh_interval(self.problem.len);
            let weights = self.waiting.weights(self.by.weights, &remaining(self.problem, bins));
            let key = |item: u32| size(self.by.norm, &weights, self.problem.shares(item as usize));
            let mut keyed: Vec<(f64, u32)> = self.order.iter().map(|&item| (key(item), item)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
            self.order = keyed.into_iter().map(|(_, item)| item).collect();
        }
        self.until_refresh = self.until_refresh.saturating_sub(1);
        let item = self.order.pop()? as usize;
        self.waiting.packed(self.problem.shares(item));
        Some(item)
    }
}

/// The room of all open bins, in capacities.
pub(super) fn remaining(problem: &Problem, bins: &Bins) -> Vec<f64> {
    let mut room = vec![0.0; problem.dimensions];
    for bin in 0..bins.len() {
        let of = bins.free(bin).iter().zip(&problem.capacity);
        for (sum, (&free, &capacity)) in room.iter_mut().zip(of) {
            *sum += share(free, capacity);
        }
    }
    room
}

pub(in crate::packing) fn pack(problem: &Problem, fit: Fit, order: ItemOrder, by: Size) -> Bins {
    match fit {
        Fit::First => first_fit(problem, order, by),
        Fit::Next | Fit::Best | Fit::Worst => scan(problem, fit, order, by),
    }
}

fn first_fit(problem: &Problem, order: ItemOrder, by: Size) -> Bins {
    let mut bins = Bins::new(problem);
    let mut tree = Tree::new(problem.len.max(1), &problem.capacity);
    let mut hints = Hints::new(&problem.capacity);
    let mut queue = Queue::new(problem, order, by);
    // Room only shrinks, so an item equal to the last one cannot fit before it.
    let mut last: Option<(usize, usize)> = None;
    while let Some(item) = queue.next(&bins) {
        let same =
            |other: usize| problem.demand(other) == problem.demand(item) && problem.group(other) == problem.group(item);
        let from = last.filter(|(other, _)| same(*other)).map_or(0, |(_, bin)| bin);
        let from = from.max(hints.from(&tree, problem.demand(item)));
        let open = bins.len();
        let accepts = |bin: usize| bin >= open || bins.fits(problem, item, bin);
        let found = tree.first(problem.demand(item), from, accepts).unwrap_or(open);
        let bin = if found < open { found } else { bins.open(&problem.capacity) };
        bins.put(problem, item, bin);
        tree.set(bin, bins.free(bin));
        last = Some((item, bin));
    }
    bins
}

fn scan(problem: &Problem, fit: Fit, order: ItemOrder, by: Size) -> Bins {
    let mut bins = Bins::new(problem);
    let mut queue = Queue::new(problem, order, by);
    let mut weights = Waiting::all(problem).weights(by.weights, &vec![1.0; problem.dimensions]);
    let mut placed = 0_usize;
    while let Some(item) = queue.next(&bins) {
        if by.refresh == Refresh::Dynamic && placed.is_multiple_of(refresh_interval(problem.len)) {
            weights = queue.waiting.weights(by.weights, &remaining(problem, &bins));
        }
        placed += 1;
        let open = bins.len();
        let candidates = if fit == Fit::Next { open.saturating_sub(1)..open } else { 0..open };
        let mut best: Option<(f64, usize)> = None;
        for bin in candidates.filter(|bin| bins.fits(problem, item, *bin)) {
            let left = residual(problem, &bins, item, bin, by, &weights);
            let left = if fit == Fit::Worst { -left } else { left };
            if best.is_none_or(|(least, _)| left < least) {
                best = Some((left, bin));
            }
        }
        let bin = best.map_or_else(|| bins.open(&problem.capacity), |(_, bin)| bin);
        bins.put(problem, item, bin);
    }
    bins
}

/// The size of what would be left.
fn residual(problem: &Problem, bins: &Bins, item: usize, bin: usize, by: Size, weights: &[f64]) -> f64 {
    let mut left = [0.0; super::super::MAX_DIMENSIONS];
    let left = &mut left[..problem.dimensions];
    let of = bins.free(bin).iter().zip(problem.demand(item)).zip(&problem.capacity);
    for (left, ((&free, &demand), &capacity)) in left.iter_mut().zip(of) {
        *left = share(free - demand, capacity);
    }
    size(by.norm, weights, left)
}
