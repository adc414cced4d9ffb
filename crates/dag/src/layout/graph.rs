//! What is laid out and what comes of it, apart from how.

use serde::Serialize;

/// A graph has at most this many nodes.
pub const MOST_NODES: usize = 1 << 24;

/// A graph has at most this many edges.
pub const MOST_EDGES: usize = 1 << 27;

/// An edge by the numbers of its ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The upper end.
    pub from: u32,
    /// The lower end.
    pub to: u32,
}

/// A directed acyclic graph: nodes from 0 on, and edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    nodes: usize,
    upper: usize,
    edges: Vec<Edge>,
}

impl Graph {
    /// A graph without edges.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self { nodes, upper: nodes, edges: Vec::new() }
    }

    /// Adds an edge.
    #[must_use]
    pub fn edge(mut self, from: u32, to: u32) -> Self {
        self.edges.push(Edge { from, to });
        self
    }

    /// Adds edges.
    #[must_use]
    pub fn with_edges(mut self, edges: impl IntoIterator<Item = Edge>) -> Self {
        self.edges.extend(edges);
        self
    }

    /// The nodes from `first` on are drawn below all others, below a rule: what runs at the end in any case.
    #[must_use]
    pub fn below(mut self, first: usize) -> Self {
        self.upper = first.min(self.nodes);
        self
    }

    /// Number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Number of nodes above the rule; they come first.
    #[must_use]
    pub fn upper(&self) -> usize {
        self.upper
    }

    /// The edges in the order in which they were added.
    #[must_use]
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }
}

/// Why a graph cannot be laid out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It has more nodes or edges than [`MOST_NODES`] and [`MOST_EDGES`].
    #[error("the graph has {nodes} nodes and {edges} edges, at most {MOST_NODES} and {MOST_EDGES} can be laid out")]
    TooLarge {
        /// Its nodes.
        nodes: usize,
        /// Its edges.
        edges: usize,
    },
    /// An edge ends at a node that does not exist.
    #[error("edge {edge} leads from node {from} to node {to}, but the graph has {nodes} nodes", from = ends.from, to = ends.to)]
    UnknownNode {
        /// Number of the edge.
        edge: usize,
        /// Its ends.
        ends: Edge,
        /// Nodes of the graph.
        nodes: usize,
    },
    /// An edge leads from a node below the rule to one above it.
    #[error("edge {edge} leads upwards, from node {from} below the rule to node {to} above it", from = ends.from, to = ends.to)]
    Upwards {
        /// Number of the edge.
        edge: usize,
        /// Its ends.
        ends: Edge,
    },
    /// The edges form a cycle.
    #[error("the edges form a cycle through node {node}")]
    Cycle {
        /// One of its nodes.
        node: u32,
    },
}

/// Sizes and distances of a drawing, in pixels or any other unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spacing {
    /// Width of each box.
    pub width: u16,
    /// Height of each box.
    pub height: u16,
    /// Least distance between two boxes side by side.
    pub gap: u16,
    /// Width that an edge takes on its way past boxes.
    pub lane: u16,
    /// Distance between two layers.
    pub layer_gap: u16,
    /// Distance between two rows of one layer.
    pub row_gap: u16,
    /// Height of the band around the rule, in place of `layer_gap`.
    pub rule_gap: u16,
    /// Boxes in one row; a layer with more has several rows. 0 counts as 1.
    pub columns: u16,
}

impl Default for Spacing {
    fn default() -> Self {
        Self { width: 160, height: 40, gap: 24, lane: 8, layer_gap: 56, row_gap: 16, rule_gap: 96, columns: 100 }
    }
}

/// A place: x grows to the right, y grows downwards, and both begin at 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Point {
    /// From the left.
    pub x: i64,
    /// From the top.
    pub y: i64,
}

/// A size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Size {
    /// From left to right.
    pub width: i64,
    /// From top to bottom.
    pub height: i64,
}
