//! Layout: any edges give a reason why there is no layout, or a layout in which no box lies on another and every edge leads downwards.
//! Folding loses no node.

use std::collections::BTreeSet;

use orlop_dag::layout::{Edge, Graph, LEAST_MEMBERS, Layout, Spacing, budget, fold, of};

/// A graph: the first bytes say how many nodes it has, how many of them lie above the rule and how many boxes fit into a row; then
/// two bytes are an edge.
pub fn layout(bytes: &[u8]) {
    let [nodes, upper, columns, rest @ ..] = bytes else { return };
    let edges = rest.as_chunks().0.iter().map(|[from, to]| Edge { from: u32::from(*from), to: u32::from(*to) });
    let graph = Graph::new(usize::from(*nodes)).with_edges(edges).below(usize::from(*upper));
    let mut spacing = Spacing::default();
    spacing.columns = u16::from(*columns);
    match of(&graph, &spacing) {
        Ok(layout) => {
            check(&graph, &spacing, &layout);
            assert_eq!(Ok(layout), of(&graph, &spacing), "the same graph has another layout");
            check_fold(&graph);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn check(graph: &Graph, spacing: &Spacing, layout: &Layout) {
    assert!(layout.work <= budget(graph), "{} visits of {}", layout.work, budget(graph));
    let (width, height) = (i64::from(spacing.width), i64::from(spacing.height));
    for (number, at) in layout.nodes.iter().enumerate() {
        let inside = at.x >= 0 && at.x + width <= layout.size.width && at.y >= 0 && at.y + height <= layout.size.height;
        assert!(inside, "{at:?} is outside {:?}", layout.size);
        let apart = |(x, y): (i64, i64)| x.abs() >= width || y.abs() >= height;
        let others = layout.nodes.iter().take(number);
        assert!(others.map(|other| (other.x - at.x, other.y - at.y)).all(apart), "a box lies on that at {at:?}");
    }
    let of = |node: u32| layout.ranks.get(node as usize).zip(layout.nodes.get(node as usize));
    for (number, edge) in (0..).zip(graph.edges()) {
        let (Some((rank, from)), Some((below, to))) = (of(edge.from), of(edge.to)) else { unreachable!("{edge:?}") };
        assert!(rank < below && from.y + height < to.y, "{edge:?} does not lead downwards");
        let heights = layout.bends(number).iter().map(|bend| bend.y);
        assert!([from.y].into_iter().chain(heights).chain([to.y]).is_sorted(), "{edge:?} turns back");
    }
}

fn check_fold(graph: &Graph) {
    let folded = fold(graph, &[], &[]);
    let members: Vec<u32> = folded.groups.iter().flat_map(|group| group.members.iter().copied()).collect();
    assert_eq!(members.iter().collect::<BTreeSet<_>>().len(), members.len(), "a node is in two groups");
    assert!(folded.groups.iter().all(|group| group.members.len() >= LEAST_MEMBERS));
    assert_eq!(folded.graph.nodes(), graph.nodes() - members.len() + folded.groups.len(), "a node is lost");
    assert!(of(&folded.graph, &Spacing::default()).is_ok(), "the groups form a cycle");
}
