//! Folding against its definition, read word by word.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{Edge, Folded, Graph, GroupKind, LEAST_MEMBERS, Spacing, fold, of};
use super::graphs::graphs;

/// Graphs in which some nodes stand side by side many times, and some are long paths.
pub(super) fn repetitive() -> impl Strategy<Value = Graph> {
    (graphs(), vec((1_u32..14, any::<bool>()), 50)).prop_map(|(graph, parts)| {
        let (mut next, mut copies) = (0, Vec::new());
        for (count, _) in parts.iter().take(graph.nodes()) {
            // Every third node is repeated.
            let count = if copies.len() % 3 == 0 { *count } else { 1 };
            copies.push(next..next + count);
            next += count;
        }
        let mut edges = BTreeSet::new();
        for (_, copies) in parts.iter().zip(&copies).filter(|((_, is_path), _)| *is_path) {
            edges.extend((copies.start + 1..copies.end).map(|to| Edge { from: to - 1, to }));
        }
        for Edge { from, to } in graph.edges() {
            let ends = |node: u32| (parts[node as usize].1, copies[node as usize].clone());
            let ((from_path, from), (to_path, to)) = (ends(*from), ends(*to));
            let from = if from_path { from.end - 1..from.end } else { from };
            let to = if to_path { to.start..to.start + 1 } else { to };
            edges.extend(from.flat_map(|from| to.clone().map(move |to| Edge { from, to })));
        }
        let upper = copies.get(graph.upper()).map_or(next, |copies| copies.start);
        Graph::new(next as usize).with_edges(edges).below(upper as usize)
    })
}

/// What the definition says of a pair of nodes.
struct Definition<'a> {
    graph: &'a Graph,
    kinds: &'a [u32],
    /// Dependencies and dependents of each node.
    edges: Vec<[BTreeSet<u32>; 2]>,
}

impl<'a> Definition<'a> {
    fn new(graph: &'a Graph, kinds: &'a [u32]) -> Self {
        let mut edges = vec![[BTreeSet::new(), BTreeSet::new()]; graph.nodes()];
        for Edge { from, to } in graph.edges() {
            edges[*to as usize][0].insert(*from);
            edges[*from as usize][1].insert(*to);
        }
        Self { graph, kinds, edges }
    }

    fn is_upper(&self, node: u32) -> bool {
        (node as usize) < self.graph.upper()
    }

    fn above(&self, node: u32) -> &BTreeSet<u32> {
        &self.edges[node as usize][0]
    }

    fn below(&self, node: u32) -> &BTreeSet<u32> {
        &self.edges[node as usize][1]
    }

    fn alike(&self, a: u32, b: u32) -> bool {
        let look = |node: u32| (self.is_upper(node), self.kinds[node as usize], self.above(node), self.below(node));
        look(a) == look(b)
    }

    fn is_link(&self, node: u32) -> bool {
        self.above(node).len() == 1 && self.below(node).len() == 1
    }

    /// All groups, as kinds and sets of members.
    fn groups(&self) -> BTreeSet<(bool, Vec<u32>)> {
        let nodes = self.graph.nodes() as u32;
        let mut groups = BTreeSet::new();
        for node in 0..nodes {
            groups.insert((false, (0..nodes).filter(|other| self.alike(node, *other)).collect::<Vec<_>>()));
            let mut path = vec![node];
            let step = |next: &BTreeSet<u32>, from: u32| {
                next.first().copied().filter(|next| self.is_link(*next) && self.is_upper(*next) == self.is_upper(from))
            };
            while let Some(before) = step(self.above(path[0]), path[0]) {
                path.insert(0, before);
            }
            while let Some(after) = step(self.below(path[path.len() - 1]), path[path.len() - 1]) {
                path.push(after);
            }
            if self.is_link(node) {
                groups.insert((true, path));
            }
        }
        groups.into_iter().filter(|(_, members)| members.len() >= LEAST_MEMBERS).collect()
    }
}

fn groups_of(folded: &Folded) -> BTreeSet<(bool, Vec<u32>)> {
    folded.groups.iter().map(|group| (group.kind == GroupKind::Chain, group.members.clone())).collect()
}

/// No node is lost, none is in two groups, and every edge leads between what its ends have become.
fn is_a_partition(graph: &Graph, folded: &Folded) {
    let mut of = vec![None; graph.nodes()];
    for (number, group) in (0..).zip(&folded.groups) {
        for member in &group.members {
            assert_eq!(of[*member as usize].replace(number), None, "in two groups");
        }
    }
    assert_eq!(of, folded.group_of);
    let stands = |node: usize| folded.group_of[node].map_or((1, node as u32), |group| (0, group));
    let boxes: BTreeSet<(i32, u32)> = (0..graph.nodes()).map(stands).collect();
    assert_eq!(boxes.len(), folded.graph.nodes());
    let pairs: BTreeSet<_> = (0..graph.nodes()).map(|node| (stands(node), folded.node_of[node])).collect();
    assert_eq!(pairs.len(), boxes.len(), "one node for each group and each other node");
    let moved = |edge: &Edge| Edge { from: folded.node_of[edge.from as usize], to: folded.node_of[edge.to as usize] };
    for (edge, became) in graph.edges().iter().zip(&folded.edge_of) {
        let drawn = became.map(|edge| folded.graph.edges()[edge as usize]);
        assert_eq!(drawn, Some(moved(edge)).filter(|edge| edge.from != edge.to));
    }
    let drawn: BTreeSet<Edge> = graph.edges().iter().map(moved).filter(|edge| edge.from != edge.to).collect();
    assert_eq!(drawn.into_iter().collect::<Vec<_>>(), folded.graph.edges());
}

proptest! {
    #[test]
    fn groups_are_those_of_the_definition_and_lose_no_node(graph in repetitive(), kinds in vec(0_u32..2, 50 * 14)) {
        let kinds: Vec<u32> = (0..graph.nodes()).map(|node| kinds[node / 20]).collect();
        let folded = fold(&graph, &kinds, &[]);
        prop_assert_eq!(groups_of(&folded), Definition::new(&graph, &kinds).groups());
        is_a_partition(&graph, &folded);
        let cut = folded.graph.upper() as u32;
        prop_assert!((0..graph.nodes()).all(|node| (node < graph.upper()) == (folded.node_of[node] < cut)));
        prop_assert!(of(&folded.graph, &Spacing::default()).is_ok());
    }

    #[test]
    fn other_numbers_of_the_nodes_give_the_same_groups(graph in repetitive()) {
        let upper = graph.upper() as u32;
        let turned = |node: u32| if node < upper { upper - 1 - node } else { graph.nodes() as u32 - 1 - (node - upper) };
        let edges = graph.edges().iter().rev().map(|edge| Edge { from: turned(edge.from), to: turned(edge.to) });
        let other = fold(&Graph::new(graph.nodes()).with_edges(edges).below(graph.upper()), &[], &[]);
        let sets = |folded: &Folded, name: &dyn Fn(u32) -> u32| -> BTreeSet<BTreeSet<u32>> {
            folded.groups.iter().map(|group| group.members.iter().map(|member| name(*member)).collect()).collect()
        };
        prop_assert_eq!(sets(&other, &turned), sets(&fold(&graph, &[], &[]), &|node| node));
    }
}

#[test]
fn edges_of_different_kinds_are_different_dependencies() {
    let graph = (1..=16).fold(Graph::new(17), |graph, part| graph.edge(0, part));
    let kinds: Vec<u32> = (0..16).map(|edge| edge / 8).collect();
    assert_eq!(fold(&graph, &[], &[]).groups.len(), 1);
    let members: Vec<usize> = fold(&graph, &[], &kinds).groups.iter().map(|group| group.members.len()).collect();
    assert_eq!(members, [8, 8]);
}

#[test]
fn the_ends_of_a_long_path_are_drawn_and_the_rest_is_one_box() {
    let folded = fold(&super::chain(100_000), &[], &[]);
    assert_eq!(folded.graph, super::chain(3));
    assert_eq!(folded.groups[0].members, (1..99_999).collect::<Vec<_>>());
}
