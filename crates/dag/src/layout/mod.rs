//! Draws a graph in layers, from top to bottom: where each box lies, and where each edge bends. Pure, and the same on every
//! platform: whole numbers only, no clock, no randomness; what it may cost is counted in visits of edges.
//!
//! ```
//! use orlop_dag::layout::{Graph, Point, Spacing, of};
//! let diamond = Graph::new(4).edge(0, 1).edge(0, 2).edge(1, 3).edge(2, 3);
//! let layout = of(&diamond, &Spacing::default())?;
//! assert_eq!(layout.ranks, [0, 1, 1, 2]);
//! assert_eq!(layout.nodes[0], Point { x: 92, y: 0 });
//! assert_eq!(layout.nodes[1].y, layout.nodes[2].y);
//! assert_eq!(layout.crossings, 0);
//! # Ok::<(), orlop_dag::layout::Error>(())
//! ```
//!
//! | to do this | call |
//! |---|---|
//! | lay out any directed acyclic graph | [`of`] |
//! | find the groups that can be drawn as one box | [`fold()`] |
//! | draw a plan, as one value that serializes | [`of_plan`] |
//!
//! # How
//!
//! 1. *Layers.* A node lies one layer below the lowest node that it waits for. A node that waits for nothing is moved down to its
//!    first dependent. An edge that passes layers gets a virtual vertex in each, as long as there are no more than four for each
//!    node and 40,000; the longest edges get none and go by a channel on the right side.
//! 2. *Order.* Sweeps down and up sort each layer by the mean or the median place of the neighbours of its vertices. At most 24 are
//!    made, and none after four that found no order with fewer crossings; the best order is kept.
//! 3. *Places.* Each vertex is drawn to the mean of its neighbours; those that would overlap share the least sum of squared
//!    distances. Paths and long edges are then made straight where there is room.
//!
//! A layer with more boxes than [`Spacing::columns`] has several rows. The order goes down each column, then to the next, so that the
//! order from left to right is kept and edges pass between the columns.
//!
//! All that takes at most [`budget`] visits of edges. Where that does not suffice, fewer sweeps are made and [`Layout::complete`] is
//! false; layers and places always fit.
//!
//! # Groups that open without a new layout
//!
//! The drawing of a folded plan is that of the graph in which each group is one node. Each group has a layout of its own, of its
//! members alone: their places count from the corner of its frame, and the frame has a size. Who opens a group puts the frame where
//! its box was and moves the rest apart: all boxes and bends that begin at or right of the right side of the closed box, by as much
//! as the frame is wider; and all that begin at or below its lower side, by as much as it is higher. Each opened group is measured
//! in the closed drawing. Distances add up, but of groups with the same right or the same lower side only the greatest counts.
//!
//! So any groups may be open at once, in any order, and still no box lies on another and every edge leads downwards. Nothing has to
//! be asked again, and closing is the way back.

mod fold;
mod graph;
mod layered;
mod order;
mod place;
mod plan;
mod rank;
mod route;
mod straight;
mod table;
mod units;

pub use fold::{Folded, Group, GroupKind, LEAST_MEMBERS, fold};
pub use graph::{Edge, Error, Graph, MOST_EDGES, MOST_NODES, Point, Size, Spacing};
pub use layered::{Layout, VERSION, budget, of};
pub use plan::{
    Bends, Edges, FOLDED_ABOVE, Facts, Fold, Groups, MOST_BENDS, Needs, NodeKind, Nodes, PlanLayout, of_plan,
};

#[cfg(test)]
mod tests;
