//! Straight paths: what leads from one vertex to the next and nowhere else passes as many layers as it can without a bend. A
//! vertex moves between its two neighbours only, so that nothing overlaps that did not before.

use super::table::number;
use super::units::{GRID, Units};

/// Edges that this visits for each edge between neighbouring layers.
pub(super) const WORK: u64 = 1;

/// Straightens all paths, those of nodes first.
pub(super) fn straighten(units: &mut Units<'_>) {
    let left = units.x.values().iter().min().copied().unwrap_or(0);
    let right = units.x.values().iter().max().copied().unwrap_or(0);
    let all = Free { from: left, to: right };
    let mut path = Vec::new();
    for first in 0..number(units.layers.vertices()) {
        if goes_on(units, first) {
            continue;
        }
        path.clear();
        path.extend(std::iter::successors(Some(first), |vertex| next(units, *vertex)));
        if path.len() > 1 {
            bend_late(units, &path, all);
        }
    }
}

/// The only vertex below, if nothing else leads to it.
fn next(units: &Units<'_>, vertex: u32) -> Option<u32> {
    let [below] = units.layers.down.of(vertex) else { return None };
    let single = |vertex: u32| units.members.of(units.of.at(vertex)).len() == 1;
    (units.layers.up.of(*below).len() == 1 && single(vertex) && single(*below)).then_some(*below)
}

/// Whether a vertex is the next of another.
fn goes_on(units: &Units<'_>, vertex: u32) -> bool {
    units.layers.up.of(vertex).first().is_some_and(|above| next(units, *above) == Some(vertex))
}

/// Cuts a path into the fewest straight parts.
fn bend_late(units: &mut Units<'_>, path: &[u32], all: Free) {
    let (mut begin, mut free) = (0, all);
    for (at, vertex) in path.iter().enumerate() {
        let here = Free::of(units, *vertex, all);
        let both = free.and(here);
        if both.is_empty() {
            align(units, path.get(begin..at).unwrap_or_default(), free);
            (begin, free) = (at, here);
        } else {
            free = both;
        }
    }
    align(units, path.get(begin..).unwrap_or_default(), free);
}

/// Puts vertices below each other, where they are free and near to where they were.
fn align(units: &mut Units<'_>, vertices: &[u32], free: Free) {
    let sum: i64 = vertices.iter().map(|vertex| units.centre(*vertex)).sum();
    let mean = sum.checked_div_euclid(vertices.len() as i64).unwrap_or(0);
    let x = (mean.div_euclid(GRID) * GRID).min(free.to).max(free.from);
    for vertex in vertices {
        units.x.set(units.of.at(*vertex), x);
    }
}

/// Where a vertex may lie.
#[derive(Clone, Copy)]
struct Free {
    from: i64,
    to: i64,
}

impl Free {
    /// Between the neighbours of a vertex, and not outside the drawing.
    fn of(units: &Units<'_>, vertex: u32, all: Self) -> Self {
        let unit = units.of.at(vertex);
        let beside = |other: Option<u32>| other.filter(|other| units.layer(*other) == units.layer(unit));
        let left = beside(unit.checked_sub(1)).map(|left| units.x.at(left) + units.distance(left, unit));
        let right = beside(unit.checked_add(1)).map(|right| units.x.at(right) - units.distance(unit, right));
        Self { from: left.unwrap_or(all.from), to: right.unwrap_or(all.to) }
    }

    fn and(self, other: Self) -> Self {
        Self { from: self.from.max(other.from), to: self.to.min(other.to) }
    }

    fn is_empty(self) -> bool {
        self.from > self.to
    }
}
