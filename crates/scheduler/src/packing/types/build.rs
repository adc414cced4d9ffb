//! Builds a mix of bins from nothing or from what others left over. Owns the choice of the next bin's type and filling;
//! never undoes one.

use super::super::bins::Bins;
use super::super::heuristics::Tree;
use super::super::improve::search_sizes;
use super::super::measure::{Waiting, decreasing};
use super::super::options::{Budget, Weights};
use super::super::problem::{NONE, Problem, share};
use super::BinType;

/// Work that building bin by bin may take, in looks at an item; past it only first fit is run.
const LIMIT: usize = 400_000_000;

/// What can be opened.
pub(super) struct Stock {
    names: Vec<u32>,
    pub(super) capacities: Vec<Vec<u64>>,
    pub(super) costs: Vec<u64>,
    /// How many there are; never more than items.
    counts: Vec<usize>,
}

impl Stock {
    pub(super) fn new(types: &[(u32, &BinType)], items: usize) -> Self {
        Self {
            names: types.iter().map(|(name, _)| *name).collect(),
            capacities: types.iter().map(|(_, of)| of.capacity.clone()).collect(),
            costs: types.iter().map(|(_, of)| of.cost).collect(),
            counts: types.iter().map(|(_, of)| of.count.unwrap_or(items).min(items)).collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.costs.len()
    }

    /// The position of a type in the caller's list.
    pub(super) fn name(&self, of: u32) -> u32 {
        self.names.get(of as usize).copied().unwrap_or(NONE)
    }

    pub(super) fn holds(&self, of: usize, demand: &[u64]) -> bool {
        demand.iter().zip(&self.capacities[of]).all(|(demand, capacity)| demand <= capacity)
    }
}

/// Bins with their types, and how many of each type are left.
#[derive(Clone)]
pub(super) struct Mix {
    pub(super) bins: Bins,
    pub(super) type_of: Vec<u32>,
    pub(super) left: Vec<usize>,
}

impl Mix {
    pub(super) fn new(problem: &Problem, stock: &Stock) -> Self {
        Self { bins: Bins::new(problem), type_of: Vec::new(), left: stock.counts.clone() }
    }

    pub(super) fn cost(&self, stock: &Stock) -> u128 {
        self.type_of.iter().map(|of| u128::from(stock.costs[*of as usize])).sum()
    }

    pub(super) fn open(&mut self, stock: &Stock, of: usize) -> usize {
        self.left[of] -= 1;
        self.type_of.push(of as u32);
        self.bins.open(&stock.capacities[of])
    }

    /// Empties a bin and gives it back; the last bin gets its name.
    pub(super) fn close(&mut self, problem: &Problem, bin: usize) -> Vec<u32> {
        let of = self.type_of.swap_remove(bin);
        self.left[of as usize] += 1;
        self.bins.close(problem, bin)
    }

    /// Exchanges every bin for the cheapest one that holds what lies in it.
    pub(super) fn shrink(&mut self, problem: &Problem, stock: &Stock) {
        for bin in 0..self.bins.len() {
            let now = self.type_of[bin] as usize;
            let load = self.load(problem, bin);
            let cheaper =
                |of: &usize| stock.costs[*of] < stock.costs[now] && self.left[*of] > 0 && stock.holds(*of, &load);
            if let Some(of) = (0..stock.len()).filter(cheaper).min_by_key(|of| stock.costs[*of]) {
                self.left[now] += 1;
                self.left[of] -= 1;
                self.type_of[bin] = of as u32;
                self.bins.resize(bin, &stock.capacities[of], &load);
            }
        }
    }

    fn load(&self, problem: &Problem, bin: usize) -> Vec<u64> {
        let members = &self.bins.members[bin];
        (0..problem.dimensions).map(|d| members.iter().map(|item| problem.demand(*item as usize)[d]).sum()).collect()
    }
}

/// A way to build a mix.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// Items in decreasing order into the first bin with room, new bins of the type cheapest for its capacity.
    FirstFit,
    /// The type and filling that cost least for what they hold.
    Efficient,
    /// The same, but the largest item left is part of the filling.
    Largest,
}

/// All ways, the one that is always affordable first.
pub(super) const HOWS: [How; 3] = [How::FirstFit, How::Largest, How::Efficient];

/// A whole mix, or how many items have no place.
pub(super) fn mix(problem: &Problem, stock: &Stock, how: How, budget: &mut Budget<'_>) -> Result<Mix, usize> {
    let sizes = search_sizes(problem);
    let mut mix = Mix::new(problem, stock);
    let unplaced = match how {
        How::FirstFit => first_fit(problem, stock, &sizes, &mut mix),
        How::Efficient | How::Largest => {
            let work =
                problem.len.saturating_mul(problem.kinds().len()).saturating_mul(problem.dimensions * stock.len());
            let items = decreasing(&sizes);
            if work > LIMIT {
                items.len()
            } else {
                Build { problem, stock, sizes: &sizes, how, costs: &stock.costs }.add(&mut mix, items, budget)
            }
        }
    };
    if unplaced > 0 {
        return Err(unplaced);
    }
    mix.shrink(problem, stock);
    Ok(mix)
}

fn first_fit(problem: &Problem, stock: &Stock, sizes: &[f64], mix: &mut Mix) -> usize {
    let mut tree = Tree::closed(problem.len.max(1), &problem.capacity);
    let value = |of: usize| -> f64 {
        let held =
            stock.capacities[of].iter().zip(&problem.capacity).map(|(has, most)| share(*has, *most)).sum::<f64>();
        stock.costs[of] as f64 / held.max(1e-12)
    };
    let mut order: Vec<usize> = (0..stock.len()).collect();
    order.sort_by(|a, b| value(*a).total_cmp(&value(*b)).then(a.cmp(b)));
    let mut unplaced = 0;
    for item in decreasing(sizes) {
        let item = item as usize;
        let open = mix.bins.len();
        let accepts = |bin: usize| bin < open && mix.bins.fits(problem, item, bin);
        let bin = tree.first(problem.demand(item), 0, accepts).or_else(|| {
            let usable = |of: &&usize| mix.left[**of] > 0 && stock.holds(**of, problem.demand(item));
            order.iter().find(usable).copied().map(|of| mix.open(stock, of))
        });
        match bin {
            Some(bin) => {
                mix.bins.put(problem, item, bin);
                tree.set(bin, mix.bins.free(bin));
            }
            None => unplaced += 1,
        }
    }
    unplaced
}

/// What a bin of a type would hold.
struct Filling {
    of: usize,
    items: Vec<u32>,
    /// Cost for each unit of size.
    price: f64,
}

/// Builds bin by bin.
pub(super) struct Build<'a> {
    pub(super) problem: &'a Problem,
    pub(super) stock: &'a Stock,
    pub(super) sizes: &'a [f64],
    pub(super) how: How,
    /// What ranks the types.
    pub(super) costs: &'a [u64],
}

impl Build<'_> {
    /// Opens bins until every item has a place or no type is left; how many have none. Items come largest first.
    pub(super) fn add(&self, mix: &mut Mix, mut items: Vec<u32>, budget: &mut Budget<'_>) -> usize {
        let problem = self.problem;
        let mut waiting = Waiting::all(problem);
        while !items.is_empty() {
            let weights = waiting.weights(Weights::MeanDemand, &vec![1.0; problem.dimensions]);
            let seed = (self.how == How::Largest).then(|| items.first().copied()).flatten();
            let mut best: Option<Filling> = None;
            for of in (0..self.stock.len()).filter(|of| mix.left[*of] > 0) {
                let chosen = fill(problem, &self.stock.capacities[of], &items, seed, &weights);
                let held: f64 = chosen.iter().map(|item| self.sizes[*item as usize]).sum();
                let price = (self.costs[of] as f64 + 1e-9) / held;
                if !chosen.is_empty() && best.as_ref().is_none_or(|best| price < best.price) {
                    best = Some(Filling { of, items: chosen, price });
                }
                budget.work(items.len() as u64 / 16 + 1);
            }
            let Some(Filling { of, items: chosen, .. }) = best else { return items.len() };
            let bin = mix.open(self.stock, of);
            for &item in &chosen {
                mix.bins.put(problem, item as usize, bin);
                waiting.packed(problem.shares(item as usize));
            }
            items.retain(|item| mix.bins.bin_of[*item as usize] == NONE);
        }
        0
    }
}

/// Items for one bin by the dot-product rule, beginning with `seed` if it is given; nothing if that does not fit.
fn fill(problem: &Problem, capacity: &[u64], items: &[u32], seed: Option<u32>, weights: &[f64]) -> Vec<u32> {
    let mut free = capacity.to_vec();
    let mut groups: Vec<u32> = Vec::new();
    let mut chosen: Vec<u32> = Vec::new();
    let mut left: Vec<u32> = items.to_vec();
    let mut next = seed;
    loop {
        if next.is_none() {
            let room: Vec<f64> = free.iter().zip(&problem.capacity).map(|(free, most)| share(*free, *most)).collect();
            let score = |item: u32| -> f64 {
                let of = weights.iter().zip(problem.shares(item as usize)).zip(&room);
                of.map(|((weight, x), r)| weight * x * r).sum()
            };
            left.retain(|item| {
                let group = problem.group(*item as usize);
                fits(problem, *item, &free) && (group == NONE || !groups.contains(&group))
            });
            next = best(&left, score);
        }
        let Some(item) = next.take() else { return chosen };
        if !fits(problem, item, &free) {
            return Vec::new();
        }
        free.iter_mut().zip(problem.demand(item as usize)).for_each(|(free, demand)| *free -= demand);
        groups.extend(Some(problem.group(item as usize)).filter(|group| *group != NONE));
        chosen.push(item);
        left.retain(|other| *other != item);
    }
}

fn fits(problem: &Problem, item: u32, free: &[u64]) -> bool {
    problem.demand(item as usize).iter().zip(free).all(|(demand, free)| demand <= free)
}

/// The item of greatest score, the first on a tie.
fn best(items: &[u32], score: impl Fn(u32) -> f64) -> Option<u32> {
    let mut best: Option<(f64, u32)> = None;
    for &item in items {
        let score = score(item);
        if best.is_none_or(|(most, _)| score > most) {
            best = Some((score, item));
        }
    }
    best.map(|(_, item)| item)
}
