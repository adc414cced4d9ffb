//! The drawing as it is handed out: corners of boxes, heights of layers, and where edges bend.

use super::graph::{Edge, Graph, Point, Size, Spacing};
use super::rank::{Layers, Route};
use super::table::{Lists, Table};
use super::units::Units;

/// Where everything lies.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) nodes: Vec<Point>,
    pub(super) bends: Lists<Point>,
    pub(super) size: Size,
    pub(super) rule: Option<i64>,
}

/// Heights of the layers.
struct Tops {
    top: Table<i64>,
    bottom: Table<i64>,
    rule: Option<i64>,
    height: i64,
}

impl Tops {
    fn new(layers: &Layers, rows: &Table<u32>, spacing: &Spacing) -> Self {
        let len = layers.count as usize;
        let mut tops = Self { top: Table::new(len, 0), bottom: Table::new(len, 0), rule: None, height: 0 };
        let mut y = 0;
        for layer in 0..layers.count {
            if layer == layers.upper && layer > 0 {
                y += i64::from(spacing.rule_gap);
                tops.rule = Some(y - i64::from(spacing.rule_gap) / 2);
            } else if layer > 0 {
                y += i64::from(spacing.layer_gap);
            }
            tops.top.set(layer, y);
            let rows = i64::from(rows.at(layer)).max(1);
            y += rows * i64::from(spacing.height) + (rows - 1) * i64::from(spacing.row_gap);
            tops.bottom.set(layer, y);
        }
        tops.height = y;
        tops
    }
}

/// Hands out the places, moved so that both coordinates begin at 0.
pub(super) fn finish(graph: &Graph, units: &Units<'_>) -> Places {
    let (layers, spacing) = (units.layers, units.spacing);
    let tops = Tops::new(layers, &units.rows, spacing);
    let (width, height) = (i64::from(spacing.width), i64::from(spacing.height));
    let half = |unit| if units.is_lane(unit) { 0 } else { width / 2 };
    let all = 0..units.members.len();
    let left = all.clone().map(|unit| units.x.at(unit) - half(unit)).min().unwrap_or(0);
    let full = |unit| if units.is_lane(unit) { 0 } else { width };
    let right = all.clone().map(|unit| units.x.at(unit) - half(unit) + full(unit)).max().unwrap_or(0);
    let mut nodes = Table::new(graph.nodes(), Point::default());
    for unit in all.filter(|unit| !units.is_lane(*unit)) {
        let x = units.x.at(unit) - half(unit) - left;
        for (row, node) in (0..).zip(units.members.of(unit)) {
            let top = tops.top.at(layers.of.at(*node));
            nodes.set(*node, Point { x, y: top + row * (height + i64::from(spacing.row_gap)) });
        }
    }
    let has_side = layers.routes.contains(&Route::Side);
    let channel = right - left + i64::from(spacing.gap);
    let size = Size { width: if has_side { channel } else { right - left }, height: tops.height };
    let bends = Bends { units, tops: &tops, left, channel, out: Vec::new() }.all(graph);
    Places { nodes: nodes.into_values(), bends, size, rule: tops.rule }
}

/// Bends while they are gathered.
struct Bends<'a> {
    units: &'a Units<'a>,
    tops: &'a Tops,
    /// What is 0 in the drawing.
    left: i64,
    /// Where the side channel is.
    channel: i64,
    out: Vec<(u32, Point)>,
}

impl Bends<'_> {
    fn all(mut self, graph: &Graph) -> Lists<Point> {
        for ((number, edge), route) in (0..).zip(graph.edges()).zip(&self.units.layers.routes) {
            match *route {
                Route::Direct => {}
                Route::Virtual { first, count } => self.lane(number, first..first + count),
                Route::Side => self.side(number, *edge),
            }
        }
        Lists::gather(graph.edges().len(), self.out.iter().copied())
    }

    /// An edge by virtual vertices: it passes each layer upright.
    fn lane(&mut self, edge: u32, vertices: std::ops::Range<u32>) {
        let mut last = None;
        for vertex in vertices {
            let x = self.units.centre(vertex) - self.left;
            let layer = self.units.layers.of.at(vertex);
            if last == Some(x) {
                self.out.pop();
            } else {
                self.out.push((edge, Point { x, y: self.tops.top.at(layer) }));
            }
            self.out.push((edge, Point { x, y: self.tops.bottom.at(layer) }));
            last = Some(x);
        }
    }

    /// An edge by the side channel: to it below its upper end, and back above its lower end.
    fn side(&mut self, edge: u32, ends: Edge) {
        let gap = i64::from(self.units.spacing.layer_gap) / 2;
        let layer = |vertex| self.units.layers.of.at(vertex);
        let x = |vertex| self.units.centre(vertex) - self.left;
        let leaves = self.tops.bottom.at(layer(ends.from)) + gap;
        let arrives = self.tops.top.at(layer(ends.to)) - gap;
        let way = [(x(ends.from), leaves), (self.channel, leaves), (self.channel, arrives), (x(ends.to), arrives)];
        self.out.extend(way.map(|(x, y)| (edge, Point { x, y })));
    }
}
