//! Folding: many nodes that stand in the graph in the same way become one box. Only the structure counts, so that a graph folds
//! the same way at every time.

use std::cmp::Ordering;

use serde::Serialize;

use super::graph::{Edge, Graph};
use super::table::{Lists, Table, number};

/// A group has at least this many members.
pub const LEAST_MEMBERS: usize = 8;

/// Why nodes are a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum GroupKind {
    /// They are of one kind, wait for the same nodes, and the same nodes wait for them.
    Parallel,
    /// A path: each has one edge from the one before and one to the next.
    Chain,
}

/// Nodes that are drawn as one box.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Group {
    /// Why they are a group.
    pub kind: GroupKind,
    /// The nodes: those of a chain in its order, others by number.
    pub members: Vec<u32>,
}

/// A graph whose groups are one node each.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Folded {
    /// Each group, and each node that is in none, as one node; ordered by the first node of each. No edge comes twice.
    pub graph: Graph,
    /// The groups, ordered by the first node of each.
    pub groups: Vec<Group>,
    /// Group of each node, if it is in one.
    pub group_of: Vec<Option<u32>>,
    /// Node of `graph` that each node is or is in.
    pub node_of: Vec<u32>,
    /// Edge of `graph` that each edge has become; absent inside a group.
    pub edge_of: Vec<Option<u32>>,
}

/// Folds a graph. Nodes of different kinds are no group, and edges of different kinds are different edges; a kind that is not
/// given counts as 0. Costs O((nodes + edges) · log nodes).
///
/// ```
/// use orlop_dag::layout::{Graph, fold};
/// let parts = (1..=9).fold(Graph::new(11), |graph, part| graph.edge(0, part).edge(part, 10));
/// let folded = fold(&parts, &[], &[]);
/// assert_eq!(folded.groups[0].members, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
/// assert_eq!(folded.graph, Graph::new(3).edge(0, 1).edge(1, 2));
/// ```
#[must_use]
pub fn fold(graph: &Graph, node_kinds: &[u32], edge_kinds: &[u32]) -> Folded {
    let looks = Looks::new(graph, node_kinds, edge_kinds);
    let mut groups = looks.parallel();
    groups.extend(looks.chains());
    contract(graph, groups)
}

/// What a node is like, apart from its number.
struct Looks {
    upper: u32,
    kinds: Table<u32>,
    /// Nodes and kinds of the edges into each node, sorted.
    above: Lists<(u32, u32)>,
    /// The same of the edges out of it.
    below: Lists<(u32, u32)>,
}

impl Looks {
    fn new(graph: &Graph, node_kinds: &[u32], edge_kinds: &[u32]) -> Self {
        let nodes = graph.nodes();
        let kinds = || edge_kinds.iter().copied().chain(std::iter::repeat(0));
        let above = graph.edges().iter().zip(kinds()).map(|(edge, kind)| (edge.to, (edge.from, kind)));
        let below = graph.edges().iter().zip(kinds()).map(|(edge, kind)| (edge.from, (edge.to, kind)));
        let (mut above, mut below) = (Lists::gather(nodes, above), Lists::gather(nodes, below));
        for node in 0..number(nodes) {
            above.of_mut(node).sort_unstable();
            below.of_mut(node).sort_unstable();
        }
        Self { upper: number(graph.upper()), kinds: node_kinds.to_vec().into(), above, below }
    }

    fn nodes(&self) -> u32 {
        self.above.len()
    }

    fn compare(&self, a: u32, b: u32) -> Ordering {
        let plain =
            |node: u32| (node < self.upper, self.kinds.at(node), self.above.of(node).len(), self.below.of(node).len());
        let edges = |node: u32| (self.above.of(node), self.below.of(node));
        plain(a).cmp(&plain(b)).then_with(|| edges(a).cmp(&edges(b)))
    }

    /// Nodes that look alike.
    fn parallel(&self) -> Vec<Group> {
        let mut nodes: Vec<u32> = (0..self.nodes()).collect();
        nodes.sort_unstable_by(|a, b| self.compare(*a, *b).then(a.cmp(b)));
        let alike = nodes.chunk_by(|a, b| self.compare(*a, *b).is_eq());
        let group = |members: &[u32]| Group { kind: GroupKind::Parallel, members: members.to_vec() };
        alike.filter(|members| members.len() >= LEAST_MEMBERS).map(group).collect()
    }

    /// Paths of nodes with one edge in and one out. No member of a parallel group is on one: what it waits for has many dependents.
    fn chains(&self) -> Vec<Group> {
        let is_link = |node: u32| self.above.of(node).len() == 1 && self.below.of(node).len() == 1;
        let beside = |edges: &[(u32, u32)], node: u32| {
            let other = edges.first().map(|(other, _)| *other)?;
            (is_link(other) && (other < self.upper) == (node < self.upper)).then_some(other)
        };
        let begins = |node: &u32| is_link(*node) && beside(self.above.of(*node), *node).is_none();
        let path = |first: u32| std::iter::successors(Some(first), |node| beside(self.below.of(*node), *node));
        let group = |first: u32| Group { kind: GroupKind::Chain, members: path(first).collect() };
        let groups = (0..self.nodes()).filter(begins).map(group);
        groups.filter(|group| group.members.len() >= LEAST_MEMBERS).collect()
    }
}

/// Makes one node of each group.
fn contract(graph: &Graph, mut groups: Vec<Group>) -> Folded {
    let nodes = graph.nodes();
    groups.sort_by_cached_key(|group| group.members.iter().min().copied());
    let mut group_of = Table::new(nodes, None);
    for (group, of) in (0..).zip(&groups) {
        of.members.iter().for_each(|member| group_of.set(*member, Some(group)));
    }
    let (mut node_of, mut begun) = (Table::new(nodes, 0), Table::new(groups.len(), None));
    let (mut count, mut upper) = (0, 0);
    for node in 0..number(nodes) {
        let known = group_of.at(node).and_then(|group| begun.at(group));
        node_of.set(node, known.unwrap_or(count));
        if known.is_none() {
            group_of.at(node).into_iter().for_each(|group| begun.set(group, Some(count)));
            count += 1;
            upper += usize::from((node as usize) < graph.upper());
        }
    }
    let moved = graph.edges().iter().map(|edge| Edge { from: node_of.at(edge.from), to: node_of.at(edge.to) });
    let mut moved: Vec<(Edge, u32)> = moved.zip(0..).filter(|(edge, _)| edge.from != edge.to).collect();
    moved.sort_unstable();
    let mut edges: Vec<Edge> = Vec::new();
    let mut edge_of = Table::new(graph.edges().len(), None);
    for (edge, of) in moved {
        if edges.last() != Some(&edge) {
            edges.push(edge);
        }
        edge_of.set(of, Some(number(edges.len()) - 1));
    }
    Folded {
        graph: Graph::new(count as usize).with_edges(edges).below(upper),
        groups,
        group_of: group_of.into_values(),
        node_of: node_of.into_values(),
        edge_of: edge_of.into_values(),
    }
}
