//! What holds for every layout.

use std::collections::BTreeMap;

use super::super::{Edge, Graph, Layout, Point, Spacing, budget, of};

/// Lays a graph out, and holds what comes of it to every rule.
pub(super) fn checked(graph: &Graph, spacing: &Spacing) -> Layout {
    let layout = of(graph, spacing).unwrap();
    assert_eq!((layout.nodes.len(), layout.ranks.len()), (graph.nodes(), graph.nodes()));
    assert!(layout.work <= budget(graph), "{} visits of {}", layout.work, budget(graph));
    boxes_keep_their_distance(spacing, &layout);
    ranks_grow(graph, spacing, &layout);
    lower_nodes_lie_below_the_rule(graph, spacing, &layout);
    bends_lead_downwards(graph, spacing, &layout);
    layout
}

/// All boxes lie on rows, within the drawing; rows and the boxes of one row keep their distances, and no row is longer than it may be.
fn boxes_keep_their_distance(spacing: &Spacing, layout: &Layout) {
    let mut rows: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for at in &layout.nodes {
        rows.entry(at.y).or_default().push(at.x);
        assert!(at.x >= 0 && at.x + i64::from(spacing.width) <= layout.size.width, "{at:?} in {:?}", layout.size);
        assert!(at.y >= 0 && at.y + i64::from(spacing.height) <= layout.size.height, "{at:?} in {:?}", layout.size);
    }
    let between = i64::from(spacing.height) + i64::from(spacing.row_gap.min(spacing.layer_gap));
    assert!(rows.keys().is_sorted_by(|above, below| **above + between <= **below));
    for row in rows.values_mut() {
        row.sort_unstable();
        let between = i64::from(spacing.width) + i64::from(spacing.gap);
        assert!(row.is_sorted_by(|left, right| left + between <= *right), "{row:?}");
        assert!(row.len() <= usize::from(spacing.columns).max(1));
    }
}

fn ranks_grow(graph: &Graph, spacing: &Spacing, layout: &Layout) {
    for Edge { from, to } in graph.edges() {
        let (from, to) = (*from as usize, *to as usize);
        assert!(layout.ranks[from] < layout.ranks[to]);
        let apart = i64::from(spacing.height) + i64::from(spacing.layer_gap);
        assert!(layout.nodes[from].y + apart <= layout.nodes[to].y);
    }
}

fn lower_nodes_lie_below_the_rule(graph: &Graph, spacing: &Spacing, layout: &Layout) {
    let (upper, lower) = layout.nodes.split_at(graph.upper());
    assert_eq!(layout.rule.is_some(), !upper.is_empty() && !lower.is_empty());
    if let Some(rule) = layout.rule {
        assert!(upper.iter().all(|at| at.y + i64::from(spacing.height) <= rule));
        assert!(lower.iter().all(|at| at.y >= rule));
    }
}

/// Edges lead downwards at every bend, and where they stand upright they pass no box.
fn bends_lead_downwards(graph: &Graph, spacing: &Spacing, layout: &Layout) {
    for (number, edge) in (0..).zip(graph.edges()) {
        let bends = layout.bends(number);
        let (top, bottom) = (layout.nodes[edge.from as usize], layout.nodes[edge.to as usize]);
        let heights: Vec<i64> = [top.y].into_iter().chain(bends.iter().map(|bend| bend.y)).chain([bottom.y]).collect();
        assert!(heights.is_sorted(), "{heights:?}");
        assert!(bends.iter().all(|bend| (0..=layout.size.width).contains(&bend.x)), "{bends:?}");
        if layout.nodes.len() <= 100 {
            for (from, to) in bends.iter().zip(bends.iter().skip(1)).filter(|(from, to)| from.x == to.x) {
                assert!(!layout.nodes.iter().any(|at| crosses(*from, *to, *at, spacing)), "{from:?} {to:?}");
            }
        }
    }
}

/// Whether an upright line leads through the inside of a box.
fn crosses(from: Point, to: Point, corner: Point, spacing: &Spacing) -> bool {
    let inside = corner.x < from.x && from.x < corner.x + i64::from(spacing.width);
    inside && from.y < corner.y + i64::from(spacing.height) && corner.y < to.y
}
