//! The checked form of a problem: demands as whole numbers and as shares of a capacity, groups numbered from 0, equal
//! items gathered into kinds. Owns the checks; never packs.

use std::collections::BTreeMap;

use super::error::PackError;
use super::items::Items;

/// No group, no bin.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) dimensions: usize,
    pub(super) len: usize,
    demands: Vec<u64>,
    /// Demand over capacity; 0 where there is no capacity.
    shares: Vec<f64>,
    pub(super) capacity: Vec<u64>,
    pub(super) totals: Vec<u64>,
    groups: Vec<u32>,
    pub(super) group_count: usize,
}

impl Problem {
    /// Checks items against the largest capacities there are, which are also what shares refer to.
    pub(super) fn new(items: &Items, capacity: &[u64]) -> Result<Self, PackError> {
        let dimensions = items.dimensions();
        if capacity.len() != dimensions {
            let what = "the capacity".to_owned();
            return Err(PackError::Shape { what, expected: dimensions, found: capacity.len() });
        }
        for (item, row) in items.rows().enumerate() {
            for (dimension, (&demand, &capacity)) in row.iter().zip(capacity).enumerate() {
                if demand > capacity {
                    return Err(match capacity {
                        0 => PackError::ZeroCapacity { item, dimension },
                        _ => PackError::Oversize { item, dimension, demand, capacity },
                    });
                }
            }
        }
        let totals = items.totals()?;
        Ok(Self::unchecked(items, capacity, totals))
    }

    /// The problem of items of which some may fit nowhere.
    pub(super) fn unchecked(items: &Items, capacity: &[u64], totals: Vec<u64>) -> Self {
        let mut numbers = BTreeMap::new();
        let mut groups = Vec::with_capacity(items.len());
        for item in 0..items.len() {
            let number = items.apart(item).map_or(NONE, |group| {
                let next = numbers.len() as u32;
                *numbers.entry(group).or_insert(next)
            });
            groups.push(number);
        }
        let demands: Vec<u64> = items.rows().flatten().copied().collect();
        let of = capacity.iter().cycle();
        let shares = demands.iter().zip(of).map(|(&demand, &capacity)| share(demand, capacity)).collect();
        let capacity = capacity.to_vec();
        let (dimensions, len, group_count) = (items.dimensions(), items.len(), numbers.len());
        Self { dimensions, len, demands, shares, capacity, totals, groups, group_count }
    }

    pub(super) fn demand(&self, item: usize) -> &[u64] {
        &self.demands[item * self.dimensions..(item + 1) * self.dimensions]
    }

    pub(super) fn shares(&self, item: usize) -> &[f64] {
        &self.shares[item * self.dimensions..(item + 1) * self.dimensions]
    }

    pub(super) fn group(&self, item: usize) -> u32 {
        self.groups[item]
    }

    /// Whether two items may share an empty bin.
    pub(super) fn compatible(&self, one: usize, other: usize) -> bool {
        let together = self.demand(one).iter().zip(self.demand(other));
        !(self.groups[one] != NONE && self.groups[one] == self.groups[other])
            && together
                .zip(&self.capacity)
                .all(|((a, b), capacity)| a.checked_add(*b).is_some_and(|sum| sum <= *capacity))
    }

    /// Equal items together, in order of their first member.
    pub(super) fn kinds(&self) -> Vec<Kind> {
        let mut order: Vec<u32> = (0..self.len as u32).collect();
        let key = |item: u32| (self.demand(item as usize), self.groups[item as usize]);
        order.sort_by(|&a, &b| key(a).cmp(&key(b)).then(a.cmp(&b)));
        let mut kinds: Vec<Kind> = Vec::new();
        for item in order {
            match kinds.last_mut() {
                Some(kind) if key(kind.first()) == key(item) => kind.items.push(item),
                _ => kinds.push(Kind { items: vec![item] }),
            }
        }
        kinds.sort_by_key(Kind::first);
        kinds
    }

    /// Mean share of each dimension over all items.
    pub(super) fn mean_shares(&self) -> Vec<f64> {
        let of = |(&total, &capacity): (&u64, &u64)| share(total, capacity) / self.len.max(1) as f64;
        self.totals.iter().zip(&self.capacity).map(of).collect()
    }
}

/// One over the other, 0 if there is no capacity.
pub(super) fn share(amount: u64, capacity: u64) -> f64 {
    if capacity == 0 { 0.0 } else { amount as f64 / capacity as f64 }
}

/// Items with the same demand and the same group; never empty.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub(super) items: Vec<u32>,
}

impl Kind {
    pub(super) fn first(&self) -> u32 {
        self.items.first().copied().unwrap_or(NONE)
    }
}
