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
    /// One longest path of the main steps, from root to leaf; `finally` comes after it in any case.
    pub critical_path: Vec<u32>,
    /// Number of main steps; those of `finally` come after them.
    main: usize,
}

impl Ranks {
    pub(super) fn new(graph: &Graph, main: usize) -> Self {
        let steps = graph.order.len();
        let mut ranks = Self { depth: vec![0; steps], height: vec![1; steps], critical_path: Vec::new(), main };
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
        let highest =
            (0..).zip(ranks.height.iter().take(main)).max_by_key(|(step, height)| (**height, std::cmp::Reverse(*step)));
        let mut current = highest.map(|(step, _)| step);
        while let Some(step) = current {
            ranks.critical_path.push(step);
            let next = graph.successors(step).iter().map(|edge| edge.target());
            current = next.max_by_key(|target| (at(&ranks.height, *target), std::cmp::Reverse(*target)));
        }
        ranks
    }

    /// Steps by wave: those of one wave could run at once. The waves of `finally` come after all others, so no wave holds
    /// steps of both.
    #[must_use]
    pub fn waves(&self) -> Vec<Vec<u32>> {
        let (main, finally) = self.depth.split_at(self.main.min(self.depth.len()));
        let count = |depths: &[u32]| depths.iter().max().map_or(0, |depth| *depth as usize + 1);
        let before = count(main);
        let mut waves = vec![Vec::new(); before + count(finally)];
        let from = std::iter::repeat_n(0, main.len()).chain(std::iter::repeat(before));
        for ((step, depth), from) in (0..).zip(&self.depth).zip(from) {
            if let Some(wave) = waves.get_mut(from + *depth as usize) {
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
        let ranks = Ranks::new(&Graph::freeze(5, &edges).unwrap(), 5);
        assert_eq!(ranks.waves(), [vec![0], vec![1, 2], vec![4], vec![3]]);
        assert_eq!(ranks.critical_path, [0, 2, 4, 3]);
        assert_eq!(ranks.height, [4, 2, 3, 1, 2]);
    }

    #[test]
    fn finally_has_waves_of_its_own_after_all_others_and_no_part_in_the_critical_path() {
        let edges: Vec<(u32, Edge)> = [(0, 1), (2, 3), (3, 4)].map(|(from, to)| (from, Edge::new(to, false))).to_vec();
        let ranks = Ranks::new(&Graph::freeze(6, &edges).unwrap(), 2);
        assert_eq!(ranks.waves(), [vec![0], vec![1], vec![2, 5], vec![3], vec![4]]);
        assert_eq!(ranks.critical_path, [0, 1]);
        assert_eq!(Ranks::default().waves(), Vec::<Vec<u32>>::new());
    }
}
