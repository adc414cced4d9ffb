//! How many items no packing into a fleet exceeds. Owns the count, all in whole numbers.

use super::super::problem::{NONE, Problem};

/// What the whole fleet holds of a weighted sum.
const SCALE: u128 = 1 << 40;

/// Items that fit some empty bin. O(n·b·d) at worst; most items are seen to fit the first large bin.
pub(super) fn placeable(problem: &Problem, fleet: &[Vec<u64>]) -> Vec<u32> {
    let mut order: Vec<&Vec<u64>> = fleet.iter().collect();
    order.sort_by(|a, b| b.cmp(a));
    order.dedup();
    let fits = |item: &u32| {
        let demand = problem.demand(*item as usize);
        order.iter().any(|bin| demand.iter().zip(*bin).all(|(demand, room)| demand <= room))
    };
    (0..problem.len as u32).filter(fits).collect()
}

/// The least over dimensions, and their equal mixture, of how many of the smallest items have room in the sum of all bins;
/// and of one group no more than there are bins.
pub(super) fn upper_bound(problem: &Problem, fleet: &[Vec<u64>], candidates: &[u32]) -> usize {
    let room = |d: usize| fleet.iter().map(|bin| u128::from(bin[d])).sum::<u128>();
    let rooms: Vec<u128> = (0..problem.dimensions).map(room).collect();
    let mut most = of_groups(problem, fleet, candidates);
    for (d, room) in rooms.iter().enumerate() {
        let sizes = candidates.iter().map(|item| u128::from(problem.demand(*item as usize)[d])).collect();
        most = most.min(smallest_within(sizes, *room));
    }
    let share = |item: &u32| -> u128 {
        let terms = problem.demand(*item as usize).iter().zip(&rooms).filter(|(_, room)| **room > 0);
        terms.map(|(demand, room)| u128::from(*demand) * SCALE / room).sum()
    };
    let mixed = smallest_within(candidates.iter().map(share).collect(), SCALE * problem.dimensions as u128);
    most.min(mixed)
}

fn smallest_within(mut sizes: Vec<u128>, room: u128) -> usize {
    sizes.sort_unstable();
    let mut sum = 0_u128;
    let fits = |size: &&u128| {
        sum += **size;
        sum <= room
    };
    sizes.iter().take_while(fits).count()
}

fn of_groups(problem: &Problem, fleet: &[Vec<u64>], candidates: &[u32]) -> usize {
    let mut count = vec![0_usize; problem.group_count];
    let mut alone = 0;
    for item in candidates {
        let group = problem.group(*item as usize);
        match count.get_mut(group as usize) {
            Some(count) if group != NONE => *count += 1,
            _ => alone += 1,
        }
    }
    alone + count.into_iter().map(|count| count.min(fleet.len())).sum::<usize>()
}
