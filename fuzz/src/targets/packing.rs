//! Packing: any numbers give a packing that keeps its laws, or an error with words, on equal bins, on types and on a fleet.

use std::collections::BTreeSet;

use orlop_scheduler::packing::{
    BinType, Effort, Fit, ItemOrder, Items, Norm, Options, Refresh, Rule, Score, Size, Weights, lower_bounds, pack,
    pack_into, pack_types,
};

/// The most items of an input: what is slow teaches little.
const MOST_ITEMS: usize = 40;

/// Numbers from bytes; zeros when they have run out.
struct Numbers<'a>(std::slice::Iter<'a, u8>);

impl Numbers<'_> {
    fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    /// Small, middle and extreme amounts.
    fn amount(&mut self) -> u64 {
        let byte = u64::from(self.byte());
        match byte {
            0..=199 => byte,
            200..=239 => byte << (self.below(56)),
            _ => u64::MAX - (byte - 240),
        }
    }

    fn vector(&mut self, dimensions: usize) -> Vec<u64> {
        (0..dimensions).map(|_| self.amount()).collect()
    }

    fn pick<T: Copy>(&mut self, of: &[T], otherwise: T) -> T {
        let at = self.below(of.len().max(1));
        of.get(at).copied().unwrap_or(otherwise)
    }

    fn rule(&mut self) -> Rule {
        let weights = [
            Weights::Unit,
            Weights::MeanDemand,
            Weights::Reciprocal,
            Weights::Exponential,
            Weights::DemandOverRemaining,
        ];
        let weights = self.pick(&weights, Weights::Unit);
        let refresh = self.pick(&[Refresh::Static, Refresh::Dynamic], Refresh::Static);
        let score = self.pick(&[Score::DotProduct, Score::L2Norm], Score::DotProduct);
        match self.below(5) {
            0 => Rule::ItemCentric {
                fit: self.pick(&[Fit::Next, Fit::First, Fit::Best, Fit::Worst], Fit::First),
                order: self.pick(&[ItemOrder::Arrival, ItemOrder::Decreasing], ItemOrder::Arrival),
                size: Size { norm: self.pick(&[Norm::L1, Norm::L2, Norm::LInf], Norm::L1), weights, refresh },
            },
            1 => Rule::BinCentric { score, weights, refresh },
            2 => Rule::MultiBin { score, weights, refresh },
            3 => Rule::Completion,
            _ => Rule::Auto,
        }
    }

    fn items(&mut self, dimensions: usize) -> Option<Items> {
        let mut items = Items::new(dimensions).ok()?;
        for _ in 0..self.below(MOST_ITEMS + 1) {
            let demand = self.vector(dimensions);
            let group = self.byte();
            let added = if group < 200 { items.push(&demand) } else { items.push_apart(&demand, u32::from(group % 4)) };
            added.ok()?;
        }
        Some(items)
    }
}

/// A rule, a list of items, bins of one size, of several types and of a fleet.
pub fn packing(bytes: &[u8]) {
    let mut numbers = Numbers(bytes.iter());
    let (dimensions, moves, seed) =
        (1 + numbers.below(16).min(numbers.below(16)), numbers.below(256) as u64 * 8, numbers.byte());
    let rule = numbers.rule();
    let options = || Options::new().rule(rule).moves(moves).seed(u64::from(seed)).effort(Effort::Exact);
    let capacity = numbers.vector(dimensions);
    let count = numbers.below(4);
    let others: Vec<(Vec<u64>, u8, u64)> =
        (0..count).map(|_| (numbers.vector(dimensions), numbers.byte(), numbers.amount())).collect();
    let Some(items) = numbers.items(dimensions) else { return };
    equal_bins(&items, &capacity, &options);
    types(&items, &others, &options);
    fleet(&items, &capacity, &others, &options);
}

/// The loads of bins, if no group meets and every sum is a number.
fn loads<'a>(items: &Items, bin_of: impl Iterator<Item = Option<&'a u32>>, bins: usize) -> Vec<Vec<u64>> {
    let mut loads = vec![vec![0_u64; items.dimensions()]; bins];
    let mut groups = BTreeSet::new();
    for (item, bin) in bin_of.enumerate() {
        let Some(bin) = bin else { continue };
        let load = loads.get_mut(*bin as usize);
        assert!(load.is_some(), "item {item} is in bin {bin} of {bins}");
        for (load, demand) in load.into_iter().flatten().zip(items.demand(item)) {
            let sum = load.checked_add(*demand);
            assert!(sum.is_some(), "bin {bin} overflows");
            *load = sum.unwrap_or_default();
        }
        assert!(items.apart(item).is_none_or(|group| groups.insert((bin, group))), "a group meets in bin {bin}");
    }
    loads
}

fn holds(capacity: &[u64], load: &[u64]) -> bool {
    load.iter().zip(capacity).all(|(load, capacity)| load <= capacity)
}

fn equal_bins<'a>(items: &Items, capacity: &[u64], options: &impl Fn() -> Options<'a>) {
    match pack(items, capacity, options()) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(packing) => {
            let loads = loads(items, packing.bin_of.iter().map(Some), packing.bins);
            assert!(loads.iter().all(|load| holds(capacity, load)));
            assert!(packing.lower_bound <= packing.bins && packing.optimal == (packing.lower_bound == packing.bins));
            assert_eq!(pack(items, capacity, options()).as_ref(), Ok(&packing), "the same again");
            for (bound, bins) in lower_bounds(items, capacity, Effort::Exact, 1).unwrap_or_default() {
                assert!(bins <= packing.bins, "{bound} says {bins} where {} do", packing.bins);
            }
        }
    }
}

fn types<'a>(items: &Items, others: &[(Vec<u64>, u8, u64)], options: &impl Fn() -> Options<'a>) {
    let count = |byte: u8| (byte < 128).then(|| usize::from(byte) / 4);
    let of = |(capacity, byte, cost): &(Vec<u64>, u8, u64)| BinType {
        capacity: capacity.clone(),
        count: count(*byte),
        cost: *cost,
    };
    let types: Vec<BinType> = others.iter().map(of).collect();
    match pack_types(items, &types, options()) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(packing) => {
            let loads = loads(items, packing.bin_of.iter().map(Some), packing.type_of.len());
            let used: Vec<&BinType> = packing.type_of.iter().filter_map(|of| types.get(*of as usize)).collect();
            assert_eq!(used.len(), packing.type_of.len());
            assert!(used.iter().zip(&loads).all(|(of, load)| holds(&of.capacity, load)));
            assert_eq!(packing.cost, used.iter().map(|of| u128::from(of.cost)).sum::<u128>());
            assert!(packing.lower_bound <= packing.cost, "{packing:?}");
            for (at, of) in types.iter().enumerate() {
                let used = packing.type_of.iter().filter(|other| **other as usize == at).count();
                assert!(of.count.is_none_or(|count| used <= count));
            }
        }
    }
}

fn fleet<'a>(items: &Items, capacity: &[u64], others: &[(Vec<u64>, u8, u64)], options: &impl Fn() -> Options<'a>) {
    let fleet: Vec<Vec<u64>> = others.iter().map(|other| other.0.clone()).chain([capacity.to_vec()]).collect();
    match pack_into(items, &fleet, options()) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(packing) => {
            let loads = loads(items, packing.bin_of.iter().map(Option::as_ref), fleet.len());
            assert!(fleet.iter().zip(&loads).all(|(room, load)| holds(room, load)));
            assert_eq!(packing.placed, packing.bin_of.iter().flatten().count());
            assert!(packing.placed <= packing.upper_bound && (0.0..=1.0).contains(&packing.stranded), "{packing:?}");
        }
    }
}
