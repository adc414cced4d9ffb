//! Moves of the local search: exchanges between pool and bins, ejection chains, swaps between bins, kicks. Owns what each
//! does and when it counts as better; never opens or closes a bin.

use super::super::options::Budget;
use super::super::problem::{NONE, Problem};
use super::super::random::Random;
use super::search::Search;

/// How much better is better, so that rounding cannot make a circle.
const EPSILON: f64 = 1e-9;

/// How many bins a round of swaps looks at.
const SWAP_BINS: usize = 24;

/// Whether `incoming` fits a bin with this room once `outgoing` have left it.
fn fits_after(problem: &Problem, free: &[u64], incoming: &[u32], outgoing: &[u32]) -> bool {
    (0..problem.dimensions).all(|d| {
        let of = |items: &[u32]| items.iter().map(|item| u128::from(problem.demand(*item as usize)[d])).sum::<u128>();
        of(incoming) <= u128::from(free[d]) + of(outgoing)
    })
}

impl Search<'_> {
    /// Whether groups let `incoming` into a bin that `outgoing` leave.
    fn groups_allow(&self, bin: usize, incoming: &[u32], outgoing: &[u32]) -> bool {
        if self.problem.group_count == 0 {
            return true;
        }
        let group = |item: &u32| self.problem.group(*item as usize);
        incoming.iter().enumerate().all(|(at, item)| {
            let of = group(item);
            let leaves = || outgoing.iter().any(|other| group(other) == of);
            of == NONE
                || ((!self.bins.meets(of, bin) || leaves()) && incoming[..at].iter().all(|other| group(other) != of))
        })
    }

    fn may_exchange(&self, bin: usize, incoming: &[u32], outgoing: &[u32]) -> bool {
        fits_after(self.problem, self.bins.free(bin), incoming, outgoing) && self.groups_allow(bin, incoming, outgoing)
    }

    fn held(&self, item: u32) -> bool {
        self.held[item as usize] > self.round
    }

    /// Exchanges items of the pool for smaller ones of a bin: one for one, two for one, one for two.
    pub(super) fn exchange_with_pool(&mut self, random: &mut Random, budget: &mut Budget<'_>) -> bool {
        let count = self.bins.len();
        let from = random.below(count);
        for bin in (from..count).chain(0..from) {
            for at in 0..self.pool.len() {
                let item = self.pool[at];
                if let Some(out) = self.better_without(bin, item, budget) {
                    self.pool.swap_remove(at);
                    self.swap_in(bin, &[item], &out);
                    return true;
                }
                if let Some((other, out)) = self.better_with_two(bin, at, budget) {
                    let items = [item, self.pool[other]];
                    self.pool.retain(|in_pool| !items.contains(in_pool));
                    self.swap_in(bin, &items, &[out]);
                    return true;
                }
                if budget.left() == 0 {
                    return false;
                }
            }
        }
        false
    }

    fn swap_in(&mut self, bin: usize, incoming: &[u32], outgoing: &[u32]) {
        for &out in outgoing {
            self.take(out);
            self.pool.push(out);
        }
        for &item in incoming {
            self.put(item, bin);
        }
    }

    /// One or two members whose place an item can take, if they are smaller than it.
    fn better_without(&self, bin: usize, item: u32, budget: &mut Budget<'_>) -> Option<Vec<u32>> {
        let (members, size) = (&self.bins.members[bin], self.size(item));
        let mut best: Option<(f64, Vec<u32>)> = None;
        for (at, &one) in members.iter().enumerate() {
            if self.held(one) || self.size(one) + EPSILON >= size {
                continue;
            }
            if !budget.spend(1) {
                return None;
            }
            if self.may_exchange(bin, &[item], &[one]) {
                if best.as_ref().is_none_or(|(least, _)| self.size(one) < *least) {
                    best = Some((self.size(one), vec![one]));
                }
                continue;
            }
            for &two in &members[..at] {
                let both = self.size(one) + self.size(two);
                let worse = both + EPSILON >= size || best.as_ref().is_some_and(|(least, _)| both >= *least);
                if !worse && !self.held(two) && budget.spend(1) && self.may_exchange(bin, &[item], &[one, two]) {
                    best = Some((both, vec![one, two]));
                }
            }
        }
        best.map(|(_, out)| out)
    }

    /// A member smaller than two items of the pool that can take its place together.
    fn better_with_two(&self, bin: usize, at: usize, budget: &mut Budget<'_>) -> Option<(usize, u32)> {
        let item = self.pool[at];
        for (other, &second) in self.pool.iter().enumerate().take(at) {
            for &one in &self.bins.members[bin] {
                let smaller = self.size(one) + EPSILON < self.size(item) + self.size(second);
                if smaller && !self.held(one) && budget.spend(1) && self.may_exchange(bin, &[item, second], &[one]) {
                    return Some((other, one));
                }
            }
        }
        None
    }

    /// Ejection chains of length two and three: an item of the pool takes the place of any member, that one finds room
    /// elsewhere, or takes the place of a third that finds room.
    pub(super) fn chain(&mut self, random: &mut Random, budget: &mut Budget<'_>) -> bool {
        let count = self.bins.len();
        let at = random.below(self.pool.len());
        let item = self.pool[at];
        let from = random.below(count);
        let mut thirds = 3_u32;
        for bin in (from..count).chain(0..from) {
            for one in self.bins.members[bin].clone() {
                if self.held(one) || !budget.spend(1) || !self.may_exchange(bin, &[item], &[one]) {
                    continue;
                }
                self.take(one);
                self.put(item, bin);
                if self.insert(one, random, budget) || (thirds > 0 && self.displace(one, bin, random, budget)) {
                    self.pool.swap_remove(at);
                    return true;
                }
                thirds = thirds.saturating_sub(1);
                self.take(item);
                self.put(one, bin);
            }
            if budget.left() == 0 {
                return false;
            }
        }
        false
    }

    /// Puts an item in the place of another that finds room elsewhere.
    fn displace(&mut self, item: u32, not_in: usize, random: &mut Random, budget: &mut Budget<'_>) -> bool {
        for bin in (0..self.bins.len()).filter(|bin| *bin != not_in) {
            for one in self.bins.members[bin].clone() {
                let larger = self.size(one) >= self.size(item);
                if larger || self.held(one) || !budget.spend(1) || !self.may_exchange(bin, &[item], &[one]) {
                    continue;
                }
                self.take(one);
                self.put(item, bin);
                if self.insert(one, random, budget) {
                    return true;
                }
                self.take(item);
                self.put(one, bin);
            }
        }
        false
    }

    /// Swaps one for one, two for one and one for none between bins that raise the sum of squared loads, which gathers
    /// room in few bins.
    pub(super) fn pack_tighter(&mut self, random: &mut Random, budget: &mut Budget<'_>) -> bool {
        let count = self.bins.len();
        let one = random.below(count);
        let from = random.below(count);
        let mut improved = false;
        for other in (from..count).chain(0..from).filter(|other| *other != one).take(SWAP_BINS) {
            while let Some((give, get)) = self.better_swap(one, other, budget) {
                for &item in give.iter().chain(&get) {
                    self.take(item);
                }
                give.iter().for_each(|&item| self.put(item, other));
                get.iter().for_each(|&item| self.put(item, one));
                improved = true;
            }
        }
        improved
    }

    /// Items that `one` gives and gets so that the sum of squared loads grows.
    fn better_swap(&self, one: usize, other: usize, budget: &mut Budget<'_>) -> Option<(Vec<u32>, Vec<u32>)> {
        let (high, low) = if self.load[one] >= self.load[other] { (one, other) } else { (other, one) };
        let oriented =
            |to_high: Vec<u32>, to_low: Vec<u32>| if high == one { (to_low, to_high) } else { (to_high, to_low) };
        let gap = self.load[high] - self.load[low];
        for (at, &up) in self.bins.members[low].iter().enumerate() {
            if !budget.spend(1) {
                return None;
            }
            if self.bins.fits(self.problem, up as usize, high) {
                return Some(oriented(vec![up], Vec::new()));
            }
            for &down in &self.bins.members[high] {
                // Moving δ from low to high raises Σ load² by 2δ(gap + δ).
                let raises = |gain: f64| gain > EPSILON || gain + gap < -EPSILON;
                let allowed = |up: &[u32], down: &[u32], budget: &mut Budget<'_>| {
                    budget.spend(1) && self.may_exchange(high, up, down) && self.may_exchange(low, down, up)
                };
                if raises(self.size(up) - self.size(down)) && allowed(&[up], &[down], budget) {
                    return Some(oriented(vec![up], vec![down]));
                }
                for &second in &self.bins.members[low][..at] {
                    let gain = self.size(up) + self.size(second) - self.size(down);
                    if raises(gain) && allowed(&[up, second], &[down], budget) {
                        return Some(oriented(vec![up, second], vec![down]));
                    }
                }
            }
        }
        None
    }

    /// Forces a random item of the pool into a random bin, if that could hold it alone: members leave in random order until
    /// it fits.
    pub(super) fn kick(&mut self, random: &mut Random, budget: &mut Budget<'_>) -> bool {
        let bin = random.below(self.bins.len());
        let at = random.below(self.pool.len());
        let mut members = self.bins.members[bin].clone();
        if !fits_after(self.problem, self.bins.free(bin), &[self.pool[at]], &members) {
            return false;
        }
        let item = self.pool.swap_remove(at);
        random.shuffle(&mut members);
        while !self.bins.fits(self.problem, item as usize, bin) {
            let Some(out) = members.pop() else { break };
            self.take(out);
            self.pool.push(out);
            budget.spend(1);
        }
        self.put(item, bin);
        self.held[item as usize] = self.round + 2 + random.below(self.pool.len() + 8) as u64;
        true
    }
}
