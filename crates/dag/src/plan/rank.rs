//! Ranks of a planned graph: waves from the roots, longest paths to the leaves, one critical path. Counts steps, not
//! time.

use super::graph::Graph;

/// Ranks of a planned graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranks {
    /// Per step: length of the longest path from a root to it; roots have 0.
    pub depth: Vec<u32>,
    /// Per step: number of steps on the longest path from it to a leaf, itself included.
    pub height: Vec<u32>,
    /// One longest path, from root to leaf.
    pub critical_path: Vec<u32>,
}

impl Ranks {
    pub(super) fn new(graph: &Graph) -> Self {
        let steps = graph.order.len();
        let mut ranks = Self { depth: vec![0; steps], height: vec![1; steps], critical_path: Vec::new() };
        let at = |list: &[u32], step: u32| list.get(step as usize).copied().unwrap_or(0);
        for step in &graph.order {
            let below = at(&ranks.depth, *step) + 1;
            for edge in graph.successors(*step) {
                if let Some(depth) = ranks.depth.get_mut(edge.target() as usize) {
                    *depth = (*depth).max(below);
                }
            }
        }
        for step in graph.order.iter().rev() {
            let above = graph.successors(*step).iter().map(|edge| at(&ranks.height, edge.target()) + 1).max();
            if let (Some(height), Some(above)) = (ranks.height.get_mut(*step as usize), above) {
                *height = above;
            }
        }
        let highest = (0..).zip(&ranks.height).max_by_key(|(step, height)| (**height, std::cmp::Reverse(*step)));
        let mut current = highest.map(|(step, _)| step);
        while let Some(step) = current {
            ranks.critical_path.push(step);
            let next = graph.successors(step).iter().map(|edge| edge.target());
            current = next.max_by_key(|target| (at(&ranks.height, *target), std::cmp::Reverse(*target)));
        }
        ranks
    }

    /// Steps by wave: those of one wave could run at once.
    #[must_use]
    pub fn waves(&self) -> Vec<Vec<u32>> {
        let count = self.depth.iter().max().map_or(0, |depth| *depth as usize + 1);
        let mut waves = vec![Vec::new(); count];
        for (step, depth) in (0..).zip(&self.depth) {
            if let Some(wave) = waves.get_mut(*depth as usize) {
                wave.push(step);
            }
        }
        waves
    }
}

#[cfg(test)]
mod tests {
    use super::super::graph::Edge;
    use super::*;

    #[test]
    fn a_diamond_with_a_tail_has_waves_and_a_critical_path() {
        let mut edges: Vec<(u32, Edge)> =
            [(0, 1), (0, 2), (1, 3), (2, 4), (4, 3)].map(|(from, to)| (from, Edge::new(to, false))).to_vec();
        edges.sort_unstable();
        let ranks = Ranks::new(&Graph::freeze(5, &edges).unwrap());
        assert_eq!(ranks.waves(), [vec![0], vec![1, 2], vec![4], vec![3]]);
        assert_eq!(ranks.critical_path, [0, 2, 4, 3]);
        assert_eq!(ranks.height, [4, 2, 3, 1, 2]);
    }
}
