//! Graphs for tests: seeded ones that any language can make again, and random ones of proptest.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{Edge, Graph, Spacing};

/// Marsaglia's xorshift of 32 bits.
pub(super) struct Random(u32);

impl Random {
    pub(super) fn new(seed: u32) -> Self {
        Self(seed.wrapping_mul(2_654_435_761) | 1)
    }

    pub(super) fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 % bound
    }
}

/// A graph of 20 to 200 nodes: flat or deep, with few or many edges, as the seed says.
pub(super) fn seeded(seed: u32) -> Graph {
    let mut random = Random::new(seed);
    let nodes = 20 + random.below(181);
    let reach = [nodes, 10, 30, nodes / 2][seed as usize % 4];
    let mut edges = BTreeSet::new();
    for to in 1..nodes {
        let parents = match seed % 3 {
            0 => 1 + random.below(2),
            1 => random.below(3),
            _ => 1 + u32::from(random.below(4) == 0),
        };
        for _ in 0..parents {
            edges.insert(Edge { from: to - 1 - random.below(reach.min(to)), to });
        }
    }
    Graph::new(nodes as usize).with_edges(edges)
}

/// Nodes of which each needs the one before.
pub(super) fn chain(nodes: u32) -> Graph {
    Graph::new(nodes as usize).with_edges((1..nodes).map(|to| Edge { from: to - 1, to }))
}

/// Nodes of which all need the first.
pub(super) fn star(nodes: u32) -> Graph {
    Graph::new(nodes as usize).with_edges((1..nodes).map(|to| Edge { from: 0, to }))
}

/// Two sets of nodes: each node of the second needs all of the first.
pub(super) fn bipartite(half: u32) -> Graph {
    let edges = (0..half).flat_map(|from| (half..2 * half).map(move |to| Edge { from, to }));
    Graph::new(2 * half as usize).with_edges(edges)
}

/// Any small graph, some of it below the rule, with edges that come twice, and numbers that follow no order.
pub(super) fn graphs() -> impl Strategy<Value = Graph> {
    (1_u32..50, any::<prop::sample::Index>(), vec((any::<u32>(), any::<u32>()), 0..120), any::<u32>()).prop_map(
        |(nodes, upper, pairs, seed)| {
            let upper = upper.index(nodes as usize + 1);
            let names = shuffled(nodes, upper, seed);
            let ends = pairs.into_iter().map(|(a, b)| (a % nodes, b % nodes)).filter(|(a, b)| a != b);
            let edge = |(a, b): (u32, u32)| Edge { from: names[a.min(b) as usize], to: names[a.max(b) as usize] };
            Graph::new(nodes as usize).with_edges(ends.map(edge).collect::<Vec<_>>()).below(upper)
        },
    )
}

/// The numbers below `nodes` in another order, those below `upper` among themselves.
fn shuffled(nodes: u32, upper: usize, seed: u32) -> Vec<u32> {
    let mut random = Random::new(seed);
    let mut numbers: Vec<u32> = (0..nodes).collect();
    let (above, below) = numbers.split_at_mut(upper);
    for part in [above, below] {
        for at in (1..part.len()).rev() {
            part.swap(at, random.below(at as u32 + 1) as usize);
        }
    }
    numbers
}

/// Any distances, with few boxes in a row.
pub(super) fn spacings() -> impl Strategy<Value = Spacing> {
    (0_u16..300, 1_u16..99, 0_u16..40, 0_u16..20, 1_u16..99, 0_u16..20, 0_u16..8).prop_map(
        |(width, height, gap, lane, layer_gap, row_gap, columns)| Spacing {
            width,
            height,
            gap,
            lane,
            layer_gap,
            row_gap,
            rule_gap: layer_gap + 7,
            columns,
        },
    )
}
