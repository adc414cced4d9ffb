//! The order within each layer: sweeps down and up sort a layer by where the neighbours of its vertices lie, and the order with
//! the fewest crossings is kept.

use super::rank::Layers;
use super::table::{Lists, Table, number};

/// Sweeps at most.
const SWEEPS: u32 = 24;

/// Sweeps in a row without fewer crossings, after which no more are made.
const PATIENCE: u32 = 4;

/// The vertices of each layer from left to right.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) rows: Lists<u32>,
    /// Crossings of edges between neighbouring layers.
    pub(super) crossings: u64,
    /// Whether the sweeps ended before the work they may cost did.
    pub(super) complete: bool,
    /// Edges that were visited.
    pub(super) work: u64,
}

/// Orders the layers with at most so many visits of edges; the first order is made in any case.
pub(super) fn order(layers: &Layers, most_work: u64) -> Order {
    let mut sorter = Sorter::new(layers);
    let mut crossings = sorter.crossings();
    let mut best = sorter.rows.clone();
    let (mut complete, mut without_gain) = (true, 0);
    for sweep in 0..SWEEPS {
        if crossings == 0 || without_gain == PATIENCE {
            break;
        }
        if sorter.work + 2 * layers.segments() > most_work {
            complete = false;
            break;
        }
        sorter.sweep(Sweep::number(sweep));
        let now = sorter.crossings();
        if now < crossings {
            (crossings, without_gain) = (now, 0);
            best.clone_from(&sorter.rows);
        } else {
            without_gain += 1;
        }
    }
    Order { rows: best, crossings, complete, work: sorter.work }
}

/// How a sweep sorts.
#[derive(Clone, Copy)]
struct Sweep {
    /// From the first layer to the last, by neighbours above; otherwise from the last to the first, by neighbours below.
    down: bool,
    /// By the median of the neighbours' places; otherwise by their mean.
    median: bool,
    /// Vertices with equal keys change sides.
    turn_ties: bool,
}

impl Sweep {
    fn number(sweep: u32) -> Self {
        Self { down: sweep.is_multiple_of(2), median: (sweep / 2) % 2 == 1, turn_ties: (sweep / 4) % 2 == 1 }
    }
}

/// A vertex that moves: its key, the place that decides between equal keys, its number.
type Moved = (u64, u32, u32);

/// Layers while they are sorted.
struct Sorter<'a> {
    layers: &'a Layers,
    rows: Lists<u32>,
    /// Place of each vertex in its layer.
    place: Table<u32>,
    work: u64,
    /// Memory that is used again for each layer.
    moved: Vec<Moved>,
    places: Vec<u32>,
    sums: Vec<u32>,
}

impl<'a> Sorter<'a> {
    fn new(layers: &'a Layers) -> Self {
        let rows = first_order(layers);
        let mut place = Table::new(layers.vertices(), 0);
        for layer in 0..layers.count {
            for (at, vertex) in (0..).zip(rows.of(layer)) {
                place.set(*vertex, at);
            }
        }
        let work = layers.segments();
        Self { layers, rows, place, work, moved: Vec::new(), places: Vec::new(), sums: Vec::new() }
    }

    fn sweep(&mut self, sweep: Sweep) {
        self.work += self.layers.segments();
        if sweep.down {
            (1..self.layers.count).for_each(|layer| self.sort(layer, sweep));
        } else {
            (1..self.layers.count).rev().for_each(|layer| self.sort(layer - 1, sweep));
        }
    }

    /// Sorts one layer. A vertex without neighbours on that side stays where it is.
    fn sort(&mut self, layer: u32, sweep: Sweep) {
        let Self { layers, rows, place, moved, places, .. } = self;
        moved.clear();
        for (at, vertex) in (0..).zip(rows.of(layer)) {
            let neighbours = if sweep.down { layers.up.of(*vertex) } else { layers.down.of(*vertex) };
            let key = if sweep.median { median(neighbours, place, places) } else { mean(neighbours, place) };
            if let Some(key) = key {
                moved.push((key, if sweep.turn_ties { u32::MAX - at } else { at }, *vertex));
            }
        }
        moved.sort_unstable();
        let mut sorted = moved.iter().map(|(_, _, vertex)| *vertex);
        for vertex in rows.of_mut(layer) {
            let neighbours = if sweep.down { layers.up.of(*vertex) } else { layers.down.of(*vertex) };
            if let Some(next) = (!neighbours.is_empty()).then(|| sorted.next()).flatten() {
                *vertex = next;
            }
        }
        for (at, vertex) in (0..).zip(rows.of(layer)) {
            place.set(*vertex, at);
        }
    }

    /// Crossings between all neighbouring layers.
    fn crossings(&mut self) -> u64 {
        self.work += self.layers.segments();
        let Self { layers, rows, place, sums, .. } = self;
        let between = |layer| crossings_below(layers, rows, place, sums, layer);
        (0..layers.count).map(between).fold(0, u64::saturating_add)
    }
}

/// The first order: a walk from each node of the first layers in depth, so that what hangs together lies together.
fn first_order(layers: &Layers) -> Lists<u32> {
    let vertices = number(layers.vertices());
    let mut seen = Table::new(layers.vertices(), false);
    let mut visited = Vec::with_capacity(layers.vertices());
    let by_layer = Lists::gather(layers.count as usize, (0..vertices).map(|vertex| (layers.of.at(vertex), vertex)));
    let mut stack = Vec::new();
    for layer in 0..layers.count {
        for start in by_layer.of(layer) {
            stack.push(*start);
            while let Some(vertex) = stack.pop() {
                if seen.at(vertex) {
                    continue;
                }
                seen.set(vertex, true);
                visited.push((layers.of.at(vertex), vertex));
                stack.extend(layers.down.of(vertex).iter().rev().filter(|next| !seen.at(**next)));
            }
        }
    }
    Lists::gather(layers.count as usize, visited.iter().copied())
}

/// Bits behind the point in a key.
const FRACTION: u32 = 20;

/// Mean place of the neighbours; places and numbers of neighbours are below 2^32, so nothing overflows.
fn mean(neighbours: &[u32], place: &Table<u32>) -> Option<u64> {
    let count = neighbours.len() as u64;
    let sum: u64 = neighbours.iter().map(|vertex| u64::from(place.at(*vertex))).sum();
    let (whole, rest) = (sum.checked_div(count)?, sum.checked_rem(count)?);
    Some((whole << FRACTION) + ((rest << FRACTION) / count))
}

/// Median place of the neighbours; between the two in the middle where their number is even.
fn median(neighbours: &[u32], place: &Table<u32>, places: &mut Vec<u32>) -> Option<u64> {
    places.clear();
    places.extend(neighbours.iter().map(|vertex| place.at(*vertex)));
    let count = places.len();
    if count == 0 {
        return None;
    }
    let (before, middle, _) = places.select_nth_unstable(count / 2);
    let upper = *middle;
    let lower = if count.is_multiple_of(2) { before.iter().max().copied().unwrap_or(upper) } else { upper };
    Some((u64::from(lower) + u64::from(upper)) << (FRACTION - 1))
}

/// Crossings between a layer and the next: for each edge, the edges of vertices further left that end further right. `sums` is a
/// binary indexed tree over the places of the lower layer.
fn crossings_below(layers: &Layers, rows: &Lists<u32>, place: &Table<u32>, sums: &mut Vec<u32>, layer: u32) -> u64 {
    let width = rows.of(layer + 1).len();
    sums.clear();
    sums.resize(width + 1, 0);
    let (mut crossings, mut ended) = (0_u64, 0_u32);
    for vertex in rows.of(layer) {
        let neighbours = layers.down.of(*vertex);
        for neighbour in neighbours {
            let not_right = ended_until(sums, place.at(*neighbour) as usize + 1);
            crossings += u64::from(ended - not_right);
        }
        for neighbour in neighbours {
            end_at(sums, place.at(*neighbour) as usize + 1);
            ended += 1;
        }
    }
    crossings
}

/// Edges that end at the first `count` places.
fn ended_until(sums: &[u32], count: usize) -> u32 {
    let (mut sum, mut at) = (0, count);
    while at > 0 {
        sum += sums.get(at).copied().unwrap_or(0);
        at &= at - 1;
    }
    sum
}

/// Counts an edge that ends at a place, from 1 on.
fn end_at(sums: &mut [u32], place: usize) {
    let mut at = place;
    while let Some(sum) = sums.get_mut(at) {
        *sum += 1;
        at += at & at.wrapping_neg();
    }
}
