//! The layered layout of a graph, from layers over order to places.

use super::graph::{Error, Graph, Point, Size, Spacing};
use super::route::{self, Places};
use super::table::Lists;
use super::units::Units;
use super::{order, place, rank, straight};

/// Changes whenever the same graph would be laid out differently.
pub const VERSION: u32 = 1;

/// A graph that is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layout {
    /// Upper left corner of the box of each node.
    pub nodes: Vec<Point>,
    /// Layer of each node, from 0 on; it grows along every edge.
    pub ranks: Vec<u32>,
    /// What all boxes and bends lie in.
    pub size: Size,
    /// Where the rule between the nodes above and below it lies, from the top; absent unless there are both.
    pub rule: Option<i64>,
    /// Crossings of edges between neighbouring layers; those of the side channel are not counted.
    pub crossings: u64,
    /// Whether the order could be improved for as long as that helped; otherwise the graph was too large for it.
    pub complete: bool,
    /// Visits of edges that the layout took.
    pub work: u64,
    bends: Lists<Point>,
}

impl Layout {
    /// Where an edge bends on its way from the lower side of one box to the upper side of the other.
    #[must_use]
    pub fn bends(&self, edge: u32) -> &[Point] {
        self.bends.of(edge)
    }
}

/// Visits of edges that the layout of a graph may take: 60 for each node and edge, and 2,000,000.
#[must_use]
pub fn budget(graph: &Graph) -> u64 {
    60 * (graph.nodes() as u64 + graph.edges().len() as u64) + 2_000_000
}

/// Lays a graph out. The same graph and spacing give the same layout on every platform, as long as [`VERSION`] is the same.
///
/// # Errors
/// If an edge names a node that does not exist, the edges form a cycle, or one leads from below the rule to above it; or if the graph
/// is larger than [`MOST_NODES`](super::MOST_NODES) and [`MOST_EDGES`](super::MOST_EDGES).
pub fn of(graph: &Graph, spacing: &Spacing) -> Result<Layout, Error> {
    let layers = rank::layers(graph)?;
    let placing = layers.segments() * (place::WORK + straight::WORK);
    let left = budget(graph).saturating_sub(layers.work + placing);
    let order = order::order(&layers, left);
    let mut units = Units::new(&layers, &order, spacing);
    place::place(&mut units);
    straight::straighten(&mut units);
    let Places { nodes, bends, size, rule } = route::finish(graph, &units);
    let work = layers.work + order.work + placing;
    let ranks = layers.of.values().iter().copied().take(graph.nodes()).collect();
    Ok(Layout { nodes, ranks, size, rule, crossings: order.crossings, complete: order.complete, work, bends })
}
