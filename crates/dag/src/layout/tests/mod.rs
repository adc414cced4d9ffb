//! Layouts of random, large and known graphs.

mod check;
mod folding;
mod graphs;
mod plans;

use proptest::prelude::*;

use self::check::checked;
use self::graphs::{bipartite, chain, graphs, seeded, spacings, star};
use super::{Edge, Error, Graph, Layout, MOST_NODES, Point, Spacing, VERSION, of, order, rank};

/// Crossings of straight lines over the 200 seeded graphs as `@dagrejs/dagre` 3.1.3 draws them with boxes of 160 × 40 and no other
/// option: the same graphs made in JavaScript, `dagre.layout`, then pairs of lines between the centres of boxes counted as here.
const DAGRE: u64 = 42_808;

proptest! {
    #[test]
    fn boxes_never_overlap_and_every_edge_leads_downwards(graph in graphs(), spacing in spacings()) {
        checked(&graph, &spacing);
    }

    #[test]
    fn the_same_graph_gives_the_same_layout(graph in graphs()) {
        prop_assert_eq!(of(&graph, &Spacing::default()), of(&graph.clone(), &Spacing::default()));
    }
}

/// Straight lines between the centres of boxes that cross; lines that only touch do not.
fn straight_crossings(graph: &Graph, layout: &Layout) -> u64 {
    let side = |a: Point, b: Point, c: Point| ((b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x)).signum();
    let ends = |edge: &Edge| (layout.nodes[edge.from as usize], layout.nodes[edge.to as usize]);
    let mut crossings = 0;
    for (number, edge) in graph.edges().iter().enumerate() {
        let (a, b) = ends(edge);
        for (c, d) in graph.edges()[..number].iter().map(ends) {
            crossings += u64::from(side(a, b, c) * side(a, b, d) < 0 && side(c, d, a) * side(c, d, b) < 0);
        }
    }
    crossings
}

#[test]
fn straight_lines_cross_no_more_often_than_those_of_dagre() {
    let crossings = |seed| {
        let graph = seeded(seed);
        straight_crossings(&graph, &checked(&graph, &Spacing::default()))
    };
    let sum: u64 = (0..200).map(crossings).sum();
    println!("{sum} crossings, dagre {DAGRE}");
    assert!(sum * 100 <= DAGRE * 105, "{sum} crossings, dagre {DAGRE}");
}

#[test]
fn every_platform_gives_the_same_places_and_another_layout_is_another_version() {
    let fold = |hash: u64, value: i64| (hash ^ value.cast_unsigned()).wrapping_mul(0x0100_0000_01b3);
    let mut hash = 0xcbf2_9ce4_8422_2325;
    for graph in (0..200).map(seeded) {
        let layout = of(&graph, &Spacing::default()).unwrap();
        let edges = 0..graph.edges().len() as u32;
        let bends = edges.flat_map(|edge| layout.bends(edge).to_vec());
        hash = layout.nodes.iter().copied().chain(bends).flat_map(|at| [at.x, at.y]).fold(hash, fold);
    }
    assert_eq!((VERSION, hash), (1, 6_447_763_896_111_958_529));
}

#[test]
fn large_graphs_of_one_shape_take_no_more_work_than_they_may() {
    let chain = checked(&chain(100_000), &Spacing::default());
    assert_eq!((chain.size.width, chain.crossings, chain.complete), (160, 0, true));
    let star = checked(&star(100_000), &Spacing::default());
    assert_eq!((star.ranks.iter().max(), star.crossings), (Some(&1), 0));
    checked(&bipartite(1_000), &Spacing::default());
    assert!(checked(&Graph::new(100_000), &Spacing::default()).complete);
}

#[test]
fn a_layer_of_more_boxes_than_fit_into_a_row_has_rows() {
    let layout = checked(&star(252), &Spacing::default());
    let rows: std::collections::BTreeSet<i64> = layout.nodes[1..].iter().map(|at| at.y).collect();
    assert_eq!(rows.into_iter().collect::<Vec<_>>(), [96, 152, 208]);
}

#[test]
fn a_node_that_waits_for_nothing_lies_above_its_first_dependent() {
    let graph = chain(4).nodes() + 1;
    let graph = Graph::new(graph).with_edges(chain(4).edges().iter().copied()).edge(4, 3).edge(4, 2);
    assert_eq!(of(&graph, &Spacing::default()).unwrap().ranks, [0, 1, 2, 3, 1]);
    let across = Graph::new(4).edge(0, 2).edge(2, 3).edge(1, 3).below(2);
    assert_eq!(of(&across, &Spacing::default()).unwrap().ranks, [0, 0, 1, 2]);
}

#[test]
fn edges_that_are_too_long_for_virtual_vertices_go_by_the_side() {
    let graph = chain(500).with_edges((0..249).map(|from| Edge { from, to: 499 - from }));
    let layout = checked(&graph, &Spacing::default());
    let channel = layout.size.width;
    assert_eq!(layout.nodes.iter().map(|at| at.x + 160 + 24).max(), Some(channel));
    let side = |edge: &u32| layout.bends(*edge).iter().any(|bend| bend.x == channel);
    let by_side: Vec<u32> = (499..748).filter(side).collect();
    // The first of these edges are the longest. Those after them pass 498 - 2 * from layers each, at most 42,000 together.
    let first = (0..249_u32).find(|first| (*first..249).map(|from| 498 - 2 * from).sum::<u32>() <= 42_000).unwrap();
    assert_eq!(by_side, (499..499 + first).collect::<Vec<_>>());
    assert!(first > 0);
}

#[test]
fn an_order_that_may_cost_no_more_is_the_first_and_not_complete() {
    let layers = rank::layers(&seeded(4)).unwrap();
    let (first, best) = (order::order(&layers, 0), order::order(&layers, u64::MAX));
    assert!(!first.complete && best.complete);
    assert!(first.work < best.work && first.crossings > best.crossings);
    let vertices = |order: &order::Order| {
        let mut rows: Vec<Vec<u32>> = (0..layers.count).map(|layer| order.rows.of(layer).to_vec()).collect();
        rows.iter_mut().for_each(|row| row.sort_unstable());
        rows
    };
    assert_eq!(vertices(&first), vertices(&best));
}

#[test]
fn a_chain_past_which_an_edge_leads_stays_straight() {
    let layout = checked(&chain(6).edge(0, 5), &Spacing::default());
    assert!(layout.nodes[1..5].iter().all(|at| at.x == layout.nodes[1].x), "{:?}", layout.nodes);
    assert_eq!(layout.bends(5).len(), 2);
    assert!(layout.bends(0).is_empty());
}

#[test]
fn what_is_no_graph_in_layers_is_refused_with_the_reason() {
    let reason = |graph: Graph| of(&graph, &Spacing::default()).unwrap_err();
    assert_eq!(reason(Graph::new(4).edge(2, 1).edge(1, 3).edge(3, 1).edge(3, 0)), Error::Cycle { node: 3 });
    insta::assert_snapshot!(reason(Graph::new(1).edge(0, 0)), @"the edges form a cycle through node 0");
    insta::assert_snapshot!(reason(Graph::new(2).edge(0, 1).edge(1, 2)), @"edge 1 leads from node 1 to node 2, but the graph has 2 nodes");
    insta::assert_snapshot!(reason(Graph::new(2).edge(1, 0).below(1)), @"edge 0 leads upwards, from node 1 below the rule to node 0 above it");
    insta::assert_snapshot!(reason(Graph::new(MOST_NODES + 1)), @"the graph has 16777217 nodes and 0 edges, at most 16777216 and 134217728 can be laid out");
}

#[test]
fn an_empty_graph_has_an_empty_drawing() {
    let layout = checked(&Graph::new(0), &Spacing::default());
    assert_eq!((layout.size.width, layout.size.height, layout.complete), (0, 0, true));
}
