//! What moves from left to right as one: a virtual vertex, or the boxes of a column.

use super::graph::Spacing;
use super::order::Order;
use super::rank::Layers;
use super::table::{Lists, Table, number};

/// What may lie anywhere lies on multiples of this: what is nearly above each other is then exactly so.
pub(super) const GRID: i64 = 4;

/// The units of all layers: numbered from left to right, layer after layer. A column has one box, unless its layer has several rows.
pub(super) struct Units<'a> {
    pub(super) layers: &'a Layers,
    pub(super) spacing: &'a Spacing,
    /// Rows of boxes in each layer.
    pub(super) rows: Table<u32>,
    /// Units of each layer from left to right.
    pub(super) by_layer: Lists<u32>,
    /// Vertices of each unit from top to bottom.
    pub(super) members: Lists<u32>,
    /// Unit of each vertex.
    pub(super) of: Table<u32>,
    /// Centre of each unit.
    pub(super) x: Table<i64>,
    /// Distance of each unit from the first of its layer when all lie as close as they may.
    pub(super) offset: Table<i64>,
}

impl<'a> Units<'a> {
    pub(super) fn new(layers: &'a Layers, order: &Order, spacing: &'a Spacing) -> Self {
        let mut rows = Table::new(layers.count as usize, 0);
        let (mut by_layer, mut members) = (Vec::new(), Vec::with_capacity(layers.vertices()));
        for layer in 0..layers.count {
            let row = order.rows.of(layer);
            let boxes = number(row.iter().filter(|vertex| !layers.is_virtual(**vertex)).count());
            let high = boxes.div_ceil(u32::from(spacing.columns).max(1));
            rows.set(layer, high);
            columns(layers, row, high, |first, vertex| {
                if first {
                    by_layer.push((layer, number(by_layer.len())));
                }
                members.push((number(by_layer.len()) - 1, vertex));
            });
        }
        let mut of = Table::new(layers.vertices(), 0);
        for (unit, vertex) in &members {
            of.set(*vertex, *unit);
        }
        let count = by_layer.len();
        let mut units = Self {
            layers,
            spacing,
            rows,
            by_layer: Lists::gather(layers.count as usize, by_layer.iter().copied()),
            members: Lists::gather(count, members.iter().copied()),
            of,
            x: Table::new(count, 0),
            offset: Table::new(count, 0),
        };
        units.pack();
        units
    }

    /// Whether a unit is a virtual vertex.
    pub(super) fn is_lane(&self, unit: u32) -> bool {
        self.members.of(unit).first().is_some_and(|vertex| self.layers.is_virtual(*vertex))
    }

    /// Least distance of the centres of two neighbours.
    pub(super) fn distance(&self, left: u32, right: u32) -> i64 {
        let (width, gap, lane) =
            (i64::from(self.spacing.width), i64::from(self.spacing.gap), i64::from(self.spacing.lane));
        match (self.is_lane(left), self.is_lane(right)) {
            (false, false) => width + gap,
            (true, true) => lane,
            // Two boxes with a lane between them are not nearer than without.
            _ => (width + 1) / 2 + lane.max((gap + 1) / 2),
        }
    }

    /// Lets all units of a layer lie as close as they may, the layers centred above each other.
    fn pack(&mut self) {
        for layer in 0..self.layers.count {
            let units = self.by_layer.of(layer);
            let mut x = 0;
            for (at, unit) in units.iter().enumerate() {
                let before = at.checked_sub(1).and_then(|at| units.get(at));
                x += before.map_or(0, |before| self.distance(*before, *unit));
                self.offset.set(*unit, x);
            }
            for unit in units {
                self.x.set(*unit, self.offset.at(*unit) - x / 2);
            }
        }
    }

    /// Centre of a vertex.
    pub(super) fn centre(&self, vertex: u32) -> i64 {
        self.x.at(self.of.at(vertex))
    }

    /// Layer of a unit; absent where there is no such unit.
    pub(super) fn layer(&self, unit: u32) -> Option<u32> {
        self.members.of(unit).first().map(|vertex| self.layers.of.at(*vertex))
    }
}

/// Cuts a layer into columns of `high` boxes; a virtual vertex that would lie inside a column comes after it. Tells of each vertex
/// whether it begins a unit.
fn columns(layers: &Layers, row: &[u32], high: u32, mut tell: impl FnMut(bool, u32)) {
    let (mut filled, mut postponed) = (0, Vec::new());
    for vertex in row {
        if layers.is_virtual(*vertex) && filled > 0 {
            postponed.push(*vertex);
            continue;
        }
        tell(filled == 0, *vertex);
        if !layers.is_virtual(*vertex) {
            filled = (filled + 1) % high.max(1);
        }
        if filled == 0 {
            postponed.drain(..).for_each(|vertex| tell(true, vertex));
        }
    }
    postponed.into_iter().for_each(|vertex| tell(true, vertex));
}
