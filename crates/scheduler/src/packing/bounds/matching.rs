//! The greatest matching of a general graph: Edmonds' blossoms (1965) with labels of their bases, O(n³). Owns the search;
//! never knows what the vertices are.

use std::collections::VecDeque;

const NONE: u32 = u32::MAX;

/// How many edges of a graph without loops, given as neighbours of each vertex, can be chosen without a common end.
pub(super) fn greatest_matching(neighbours: &[Vec<u32>]) -> usize {
    let mut search = Search {
        neighbours,
        mate: vec![NONE; neighbours.len()],
        parent: Vec::new(),
        base: Vec::new(),
        reached: Vec::new(),
        queue: VecDeque::new(),
    };
    for vertex in 0..neighbours.len() as u32 {
        if search.mate(vertex) == NONE
            && let Some(&free) = neighbours[vertex as usize].iter().find(|other| search.mate(**other) == NONE)
        {
            search.join(vertex, free);
        }
    }
    for vertex in 0..neighbours.len() as u32 {
        if search.mate(vertex) == NONE
            && let Some(end) = search.path_from(vertex)
        {
            search.augment(end);
        }
    }
    search.mate.iter().filter(|mate| **mate != NONE).count() / 2
}

struct Search<'a> {
    neighbours: &'a [Vec<u32>],
    mate: Vec<u32>,
    /// The vertex before, for those at odd distance from the root.
    parent: Vec<u32>,
    /// The first vertex of the blossom a vertex lies in.
    base: Vec<u32>,
    /// Whether a vertex is at even distance.
    reached: Vec<bool>,
    queue: VecDeque<u32>,
}

impl Search<'_> {
    fn mate(&self, vertex: u32) -> u32 {
        self.mate[vertex as usize]
    }

    fn base(&self, vertex: u32) -> u32 {
        self.base[vertex as usize]
    }

    fn join(&mut self, one: u32, other: u32) {
        self.mate[one as usize] = other;
        self.mate[other as usize] = one;
    }

    /// The free end of an alternating path from a free vertex.
    fn path_from(&mut self, root: u32) -> Option<u32> {
        let count = self.neighbours.len();
        self.parent = vec![NONE; count];
        self.base = (0..count as u32).collect();
        self.reached = vec![false; count];
        self.queue.clear();
        self.reached[root as usize] = true;
        self.queue.push_back(root);
        let neighbours = self.neighbours;
        while let Some(vertex) = self.queue.pop_front() {
            for &other in &neighbours[vertex as usize] {
                if self.base(vertex) == self.base(other) || self.mate(vertex) == other {
                    continue;
                }
                let mate = self.mate(other);
                if other == root || (mate != NONE && self.parent[mate as usize] != NONE) {
                    self.shrink(vertex, other);
                } else if self.parent[other as usize] == NONE {
                    self.parent[other as usize] = vertex;
                    if mate == NONE {
                        return Some(other);
                    }
                    self.reached[mate as usize] = true;
                    self.queue.push_back(mate);
                }
            }
        }
        None
    }

    /// Makes one blossom of the circle that an edge between two even vertices closes.
    fn shrink(&mut self, one: u32, other: u32) {
        let base = self.common_base(one, other);
        let mut inside = vec![false; self.neighbours.len()];
        self.mark(one, base, other, &mut inside);
        self.mark(other, base, one, &mut inside);
        for vertex in 0..self.neighbours.len() {
            if inside[self.base[vertex] as usize] {
                self.base[vertex] = base;
                if !std::mem::replace(&mut self.reached[vertex], true) {
                    self.queue.push_back(vertex as u32);
                }
            }
        }
    }

    fn common_base(&self, one: u32, other: u32) -> u32 {
        let mut passed = vec![false; self.neighbours.len()];
        let mut at = one;
        loop {
            at = self.base(at);
            passed[at as usize] = true;
            if self.mate(at) == NONE {
                break;
            }
            at = self.parent[self.mate(at) as usize];
        }
        let mut at = self.base(other);
        while !passed[at as usize] {
            at = self.base(self.parent[self.mate(at) as usize]);
        }
        at
    }

    fn mark(&mut self, from: u32, base: u32, child: u32, inside: &mut [bool]) {
        let (mut at, mut child) = (from, child);
        while self.base(at) != base {
            let mate = self.mate(at);
            inside[self.base(at) as usize] = true;
            inside[self.base(mate) as usize] = true;
            self.parent[at as usize] = child;
            child = mate;
            at = self.parent[mate as usize];
        }
    }

    /// Flips the edges of the path that ends here.
    fn augment(&mut self, end: u32) {
        let mut at = end;
        while at != NONE {
            let before = self.parent[at as usize];
            let next = self.mate(before);
            self.join(at, before);
            at = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(count: usize, edges: &[(u32, u32)]) -> Vec<Vec<u32>> {
        let mut neighbours = vec![Vec::new(); count];
        for (one, other) in edges {
            neighbours[*one as usize].push(*other);
            neighbours[*other as usize].push(*one);
        }
        neighbours
    }

    /// The greatest matching by trying every one.
    fn every(edges: &[(u32, u32)], used: u32) -> usize {
        let mut best = 0;
        for (at, (one, other)) in edges.iter().enumerate() {
            let both = (1 << one) | (1 << other);
            if used & both == 0 {
                best = best.max(1 + every(&edges[at + 1..], used | both));
            }
        }
        best
    }

    #[test]
    fn an_odd_circle_with_tails_needs_its_blossom() {
        let edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (2, 5), (4, 6), (6, 7)];
        assert_eq!(greatest_matching(&graph(8, &edges)), 4);
    }

    #[test]
    fn it_is_what_trying_every_matching_finds() {
        let mut random = crate::packing::random::Random::new(11);
        for round in 0..400 {
            let count = 2 + random.below(7);
            let mut edges = Vec::new();
            for one in 0..count as u32 {
                for other in 0..one {
                    if random.below(100) < 20 + round % 50 {
                        edges.push((other, one));
                    }
                }
            }
            assert_eq!(greatest_matching(&graph(count, &edges)), every(&edges, 0), "{edges:?}");
        }
    }

    #[test]
    fn empty_graphs_have_no_edge() {
        assert_eq!(greatest_matching(&[]), 0);
        assert_eq!(greatest_matching(&[vec![], vec![]]), 0);
    }
}
