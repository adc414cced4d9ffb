//! The search that empties a pool of items into a fixed number of bins. Owns the pool, the loads and the order in which
//! kinds of moves are tried; what a move does to a bin stands in [`super::exchange`].

use super::super::bins::Bins;
use super::super::options::Budget;
use super::super::problem::Problem;
use super::super::random::Random;

pub(in crate::packing) struct Search<'a> {
    pub(super) problem: &'a Problem,
    pub(super) sizes: &'a [f64],
    pub(super) bins: Bins,
    pub(super) pool: Vec<u32>,
    pub(super) load: Vec<f64>,
    /// The round until which an item that a kick put somewhere stays there.
    pub(super) held: Vec<u64>,
    pub(super) round: u64,
}

impl<'a> Search<'a> {
    pub(in crate::packing) fn new(problem: &'a Problem, sizes: &'a [f64], bins: Bins, pool: Vec<u32>) -> Self {
        let load = bins.members.iter().map(|members| members.iter().map(|item| sizes[*item as usize]).sum()).collect();
        Self { problem, sizes, bins, pool, load, held: vec![0; problem.len], round: 0 }
    }

    pub(in crate::packing) fn into_bins(self) -> Bins {
        self.bins
    }

    /// Whether the pool was emptied before the budget was.
    pub(in crate::packing) fn run(&mut self, random: &mut Random, budget: &mut Budget<'_>) -> bool {
        if self.bins.len() == 0 {
            return self.pool.is_empty();
        }
        loop {
            self.insert_all(random, budget);
            if self.pool.is_empty() {
                return true;
            }
            if budget.left() == 0 {
                return false;
            }
            self.round += 1;
            let _improved = self.exchange_with_pool(random, budget)
                || self.chain(random, budget)
                || self.pack_tighter(random, budget)
                || self.kick(random, budget);
        }
    }

    pub(super) fn size(&self, item: u32) -> f64 {
        self.sizes[item as usize]
    }

    pub(super) fn put(&mut self, item: u32, bin: usize) {
        self.bins.put(self.problem, item as usize, bin);
        self.load[bin] += self.size(item);
    }

    pub(super) fn take(&mut self, item: u32) {
        let bin = self.bins.bin_of[item as usize] as usize;
        self.bins.take(self.problem, item as usize);
        self.load[bin] -= self.size(item);
    }

    /// Puts every item of the pool that fits somewhere there, the largest first.
    fn insert_all(&mut self, random: &mut Random, budget: &mut Budget<'_>) {
        let mut pool = std::mem::take(&mut self.pool);
        pool.sort_by(|a, b| self.size(*b).total_cmp(&self.size(*a)).then(a.cmp(b)));
        for item in pool {
            if !self.insert(item, random, budget) {
                self.pool.push(item);
            }
        }
    }

    /// Puts an item into the first bin with room, from a random one on.
    pub(super) fn insert(&mut self, item: u32, random: &mut Random, budget: &mut Budget<'_>) -> bool {
        let count = self.bins.len();
        let from = random.below(count);
        for bin in (from..count).chain(0..from) {
            if !budget.spend(1) {
                return false;
            }
            if self.bins.fits(self.problem, item as usize, bin) {
                self.put(item, bin);
                return true;
            }
        }
        false
    }
}
