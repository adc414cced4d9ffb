//! Places from left to right: a vertex is drawn to the mean of its neighbours, and where several would overlap they share the
//! least sum of squared distances (pool adjacent violators). Whole numbers only, so that every platform gives the same drawing.

use super::units::{GRID, Units};

/// Which neighbours draw in each round; the last ones settle what the sweeps pull to and fro.
const ROUNDS: [Side; 8] =
    [Side::Above, Side::Below, Side::Above, Side::Below, Side::Above, Side::Below, Side::Both, Side::Both];

/// How much harder a virtual vertex pulls than a node: a long edge should be straight.
const VIRTUAL_WEIGHT: i64 = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Above,
    Below,
    Both,
}

/// Edges that placing visits for each edge between neighbouring layers.
pub(super) const WORK: u64 = ROUNDS.len() as u64;

/// Places all units.
pub(super) fn place(units: &mut Units<'_>) {
    let mut placer = Placer { units, pools: Vec::new() };
    for side in ROUNDS {
        placer.round(side);
    }
    placer.centre_below_rule();
}

/// Units that touch, and so move as one.
#[derive(Clone, Copy)]
struct Pool {
    sum: i128,
    weight: i128,
    units: usize,
}

impl Pool {
    /// The mean, rounded to the grid; of several pools they stay in order.
    fn mean(&self) -> i128 {
        let grid = i128::from(GRID);
        (2 * self.sum + self.weight * grid).div_euclid(2 * self.weight * grid) * grid
    }
}

struct Placer<'a, 'b> {
    units: &'a mut Units<'b>,
    pools: Vec<Pool>,
}

impl Placer<'_, '_> {
    fn round(&mut self, side: Side) {
        let count = self.units.layers.count;
        if side == Side::Below {
            (0..count).rev().for_each(|layer| self.settle(layer, side));
        } else {
            (0..count).for_each(|layer| self.settle(layer, side));
        }
    }

    /// Moves all below the rule under the middle of what is above it; no edge between them says where they should be.
    fn centre_below_rule(&mut self) {
        let (layers, x) = (self.units.layers, &self.units.x);
        let last = layers.upper.saturating_sub(1);
        let mut above = self.units.by_layer.of(last).iter().flat_map(|unit| self.units.members.of(*unit));
        let first_below = self.units.by_layer.of(layers.upper).first().copied();
        let Some(first_below) = first_below.filter(|_| above.all(|vertex| layers.down.of(*vertex).is_empty())) else {
            return;
        };
        let middle = |units: std::ops::Range<u32>| {
            let from = units.clone().map(|unit| x.at(unit)).min().unwrap_or(0);
            from + (units.map(|unit| x.at(unit)).max().unwrap_or(0) - from) / 2
        };
        let units = self.units.members.len();
        let distance = (middle(0..first_below) - middle(first_below..units)).div_euclid(GRID) * GRID;
        for unit in (first_below..units).filter(|_| first_below > 0) {
            self.units.x.change(unit, |x| *x += distance);
        }
    }

    /// Moves the units of one layer as near to the means of their neighbours as they can be together.
    fn settle(&mut self, layer: u32, side: Side) {
        self.pools.clear();
        for unit in self.units.by_layer.of(layer) {
            let (target, weight) = self.target(*unit, side);
            let sum = i128::from(target - self.units.offset.at(*unit)) * i128::from(weight);
            let mut pool = Pool { sum, weight: i128::from(weight), units: 1 };
            while let Some(before) = self.pools.pop_if(|before| before.mean() >= pool.mean()) {
                pool.sum += before.sum;
                pool.weight += before.weight;
                pool.units += before.units;
            }
            self.pools.push(pool);
        }
        let means = self.pools.iter().flat_map(|pool| std::iter::repeat_n(pool.mean(), pool.units));
        for (unit, mean) in self.units.by_layer.of(layer).iter().zip(means) {
            let mean = i64::try_from(mean).unwrap_or(0);
            self.units.x.set(*unit, mean + self.units.offset.at(*unit));
        }
    }

    /// Mean of the neighbours of a unit, and how hard it pulls; a unit without neighbours on that side would stay.
    fn target(&self, unit: u32, side: Side) -> (i64, i64) {
        let (mut sum, mut count, mut weight) = (0, 0, 0);
        for vertex in self.units.members.of(unit) {
            let above = if side == Side::Below { &[] } else { self.units.layers.up.of(*vertex) };
            let below = if side == Side::Above { &[] } else { self.units.layers.down.of(*vertex) };
            for neighbour in above.iter().chain(below) {
                sum += self.units.centre(*neighbour);
                count += 1;
            }
            weight += if self.units.layers.is_virtual(*vertex) { VIRTUAL_WEIGHT } else { 1 };
        }
        if count == 0 { (self.units.x.at(unit), 1) } else { (sum.div_euclid(count), weight) }
    }
}
