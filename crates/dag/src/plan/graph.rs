//! The frozen graph: compact adjacency arrays and one topological order. Owns the cycle check; petgraph stays in here.

use petgraph::graph::{DiGraph, NodeIndex};

/// An edge to a step that waits: for satisfaction, or only until its source is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Edge(u32);

/// The top bit marks an edge that only orders.
const REFERENCE: u32 = 1 << 31;

impl Edge {
    pub(crate) const fn new(target: u32, reference: bool) -> Self {
        Self(if reference { target | REFERENCE } else { target })
    }

    pub(crate) const fn target(self) -> u32 {
        self.0 & !REFERENCE
    }

    pub(crate) const fn is_reference(self) -> bool {
        self.0 & REFERENCE != 0
    }
}

/// Steps and edges, frozen.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    offsets: Vec<u32>,
    edges: Vec<Edge>,
    /// Edges into each step.
    pub(crate) in_degree: Vec<u32>,
    /// Steps in an order that respects every edge.
    pub(crate) order: Vec<u32>,
}

/// Edge list before freezing: source, target, whether it only orders. Sorted and without duplicates.
pub(crate) type EdgeList = Vec<(u32, Edge)>;

impl Graph {
    /// Freezes `edges` over `steps` steps.
    ///
    /// # Errors
    /// The steps of one cycle, in order, without repeating the first.
    pub(crate) fn freeze(steps: usize, edges: &EdgeList) -> Result<Self, Vec<u32>> {
        let mut graph = Self { offsets: vec![0; steps + 1], in_degree: vec![0; steps], ..Self::default() };
        graph.edges = edges.iter().map(|(_, edge)| *edge).collect();
        for (source, edge) in edges {
            if let Some(count) = graph.offsets.get_mut(*source as usize + 1) {
                *count += 1;
            }
            if let Some(degree) = graph.in_degree.get_mut(edge.target() as usize) {
                *degree += 1;
            }
        }
        let mut sum = 0;
        for offset in &mut graph.offsets {
            sum += *offset;
            *offset = sum;
        }
        graph.order = topological(steps, edges).ok_or_else(|| graph.cycle())?;
        Ok(graph)
    }

    /// Edges out of a step.
    pub(crate) fn successors(&self, step: u32) -> &[Edge] {
        let index = step as usize;
        let range = self.offsets.get(index).zip(self.offsets.get(index + 1));
        range.and_then(|(from, to)| self.edges.get(*from as usize..*to as usize)).unwrap_or_default()
    }

    /// Number of edges.
    pub(crate) fn edges(&self) -> usize {
        self.edges.len()
    }

    /// One cycle of a graph that has one: steps that no cycle reaches are peeled off, and any walk backwards in what is
    /// left must come back to itself.
    fn cycle(&self) -> Vec<u32> {
        let steps = self.in_degree.len();
        let mut degree = self.in_degree.clone();
        let mut free: Vec<u32> = (0..).zip(&degree).filter(|(_, degree)| **degree == 0).map(|(step, _)| step).collect();
        let mut left = vec![true; steps];
        while let Some(step) = free.pop() {
            if let Some(left) = left.get_mut(step as usize) {
                *left = false;
            }
            for edge in self.successors(step) {
                if let Some(degree) = degree.get_mut(edge.target() as usize) {
                    *degree -= 1;
                    if *degree == 0 {
                        free.push(edge.target());
                    }
                }
            }
        }
        let is_left = |step: u32| left.get(step as usize).copied().unwrap_or(false);
        let mut before = vec![None; steps];
        for step in (0..).take(steps).filter(|step| is_left(*step)) {
            for edge in self.successors(step) {
                if let Some(before) = before.get_mut(edge.target() as usize) {
                    *before = before.or(Some(step));
                }
            }
        }
        walk_back(&before, (0..).take(steps).find(|step| is_left(*step)))
    }
}

/// Follows predecessors until a step comes again, and returns the loop in forward order, smallest step first.
fn walk_back(before: &[Option<u32>], start: Option<u32>) -> Vec<u32> {
    let mut seen = vec![false; before.len()];
    let mut path = Vec::new();
    let mut current = start;
    while let Some(step) = current {
        match seen.get_mut(step as usize) {
            Some(seen) if !*seen => *seen = true,
            _ => break,
        }
        path.push(step);
        current = before.get(step as usize).copied().flatten();
    }
    let begin = path.iter().position(|step| Some(*step) == current).unwrap_or(0);
    let mut cycle: Vec<u32> = path.into_iter().skip(begin).rev().collect();
    if let Some(smallest) = cycle.iter().enumerate().min_by_key(|(_, step)| **step).map(|(at, _)| at) {
        cycle.rotate_left(smallest);
    }
    cycle
}

fn topological(steps: usize, edges: &EdgeList) -> Option<Vec<u32>> {
    let mut graph: DiGraph<(), (), u32> = DiGraph::with_capacity(steps, edges.len());
    for _ in 0..steps {
        graph.add_node(());
    }
    for (source, edge) in edges {
        graph.add_edge(NodeIndex::new(*source as usize), NodeIndex::new(edge.target() as usize), ());
    }
    let order = petgraph::algo::toposort(&graph, None).ok()?;
    Some(order.into_iter().map(|node| u32::try_from(node.index()).unwrap_or(u32::MAX)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(list: &[(u32, u32)]) -> EdgeList {
        let mut edges: EdgeList = list.iter().map(|(from, to)| (*from, Edge::new(*to, false))).collect();
        edges.sort_unstable();
        edges
    }

    #[test]
    fn names_one_cycle_without_what_leads_to_it() {
        let cycle = Graph::freeze(6, &edges(&[(0, 1), (1, 2), (2, 3), (3, 1), (3, 4), (5, 0)])).unwrap_err();
        assert_eq!(cycle, [1, 2, 3]);
    }

    #[test]
    fn names_a_self_loop() {
        assert_eq!(Graph::freeze(2, &edges(&[(1, 1)])).unwrap_err(), [1]);
    }

    #[test]
    fn order_respects_every_edge() {
        let list = [(3, 1), (1, 0), (3, 0), (2, 0)];
        let graph = Graph::freeze(4, &edges(&list)).unwrap();
        let place = |step| graph.order.iter().position(|other| *other == step).unwrap();
        for (from, to) in list {
            assert!(place(from) < place(to));
        }
    }

    #[test]
    fn a_chain_of_200_000_steps_does_not_overflow_and_neither_does_its_cycle() {
        let n = 200_000;
        let mut list: Vec<(u32, u32)> = (0..n - 1).map(|i| (i, i + 1)).collect();
        assert_eq!(Graph::freeze(n as usize, &edges(&list)).unwrap().order.len(), n as usize);
        list.push((n - 1, 0));
        assert_eq!(Graph::freeze(n as usize, &edges(&list)).unwrap_err().len(), n as usize);
    }
}
