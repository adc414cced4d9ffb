//! What each move of the local search does, on bins small enough to follow by hand.

use super::*;
use crate::packing::Items;
use crate::packing::options::Options;

fn problem(sizes: &[u64]) -> Problem {
    Problem::new(&Items::from_rows(1, sizes.iter().map(|size| [*size])).unwrap(), &[10]).unwrap()
}

/// A search over given bins; everything else waits in the pool.
fn search<'a>(problem: &'a Problem, sizes: &'a [f64], bins: &[&[usize]]) -> Search<'a> {
    let mut made = Bins::opened(problem, bins.len());
    for (bin, items) in bins.iter().enumerate() {
        items.iter().for_each(|item| made.put(problem, *item, bin));
    }
    let placed: Vec<usize> = bins.iter().flat_map(|items| items.iter().copied()).collect();
    let pool = (0..problem.len).filter(|item| !placed.contains(item)).map(|item| item as u32).collect();
    Search::new(problem, sizes, made, pool)
}

fn sorted(search: &Search<'_>) -> Vec<Vec<u32>> {
    let mut bins = search.bins.members.clone();
    bins.iter_mut().for_each(|bin| bin.sort_unstable());
    bins.sort();
    bins
}

#[test]
fn an_item_takes_the_place_of_a_smaller_one() {
    let problem = problem(&[6, 3, 4]);
    let sizes = search_sizes(&problem);
    let mut search = search(&problem, &sizes, &[&[0, 1]]);
    assert!(search.exchange_with_pool(&mut Random::new(0), &mut Options::new().budget()));
    assert_eq!((sorted(&search), &search.pool), (vec![vec![0, 2]], &vec![1]));
}

#[test]
fn an_item_takes_the_place_of_two_smaller_ones() {
    let problem = problem(&[5, 2, 2, 5]);
    let sizes = search_sizes(&problem);
    let mut search = search(&problem, &sizes, &[&[0, 1, 2]]);
    assert!(search.exchange_with_pool(&mut Random::new(0), &mut Options::new().budget()));
    assert_eq!(sorted(&search), [vec![0, 3]]);
}

#[test]
fn two_items_take_the_place_of_a_smaller_one() {
    let problem = problem(&[6, 3, 2, 2]);
    let sizes = search_sizes(&problem);
    let mut search = search(&problem, &sizes, &[&[0, 1]]);
    assert!(search.exchange_with_pool(&mut Random::new(0), &mut Options::new().budget()));
    assert_eq!(sorted(&search), [vec![0, 2, 3]]);
}

#[test]
fn a_chain_of_two_makes_room_elsewhere() {
    // 4 takes the place of 3, and 3 goes where 7 is.
    let problem = problem(&[6, 3, 7, 4]);
    let sizes = search_sizes(&problem);
    let mut search = search(&problem, &sizes, &[&[0, 1], &[2]]);
    assert!(search.chain(&mut Random::new(0), &mut Options::new().budget()));
    assert_eq!((sorted(&search), search.pool.len()), (vec![vec![0, 3], vec![1, 2]], 0));
}

#[test]
fn a_chain_of_three_makes_room_twice() {
    // 4 takes the place of 3, 3 that of 2, and 2 goes to 8.
    let problem = problem(&[6, 3, 7, 2, 8, 4]);
    let sizes = search_sizes(&problem);
    let mut search = search(&problem, &sizes, &[&[0, 1], &[2, 3], &[4]]);
    assert!(search.chain(&mut Random::new(0), &mut Options::new().budget()));
    assert_eq!((sorted(&search), search.pool.len()), (vec![vec![0, 5], vec![1, 2], vec![3, 4]], 0));
}

#[test]
fn swaps_gather_room_in_few_bins() {
    for (sizes_of, bins, wanted) in [
        // One for one: 5 for 4.
        (vec![5, 4, 5, 2], [&[0_usize, 1][..], &[2, 3]], vec![vec![0, 2], vec![1, 3]]),
        // Two for one: 2 and 2 for 3.
        (vec![6, 3, 2, 2], [&[0, 1][..], &[2, 3]], vec![vec![0, 2, 3], vec![1]]),
    ] {
        let problem = problem(&sizes_of);
        let sizes = search_sizes(&problem);
        let mut search = search(&problem, &sizes, &bins);
        assert!(search.pack_tighter(&mut Random::new(0), &mut Options::new().budget()));
        assert_eq!(sorted(&search), wanted);
    }
}

#[test]
fn a_kick_puts_an_item_in_and_others_out() {
    let problem = problem(&[6, 3, 7]);
    let sizes = search_sizes(&problem);
    let mut search = search(&problem, &sizes, &[&[0, 1]]);
    assert!(search.kick(&mut Random::new(0), &mut Options::new().budget()));
    assert!(search.bins.members[0].contains(&2) && !search.pool.contains(&2) && search.pool.contains(&0));
}

#[test]
fn nothing_moves_without_budget() {
    let problem = problem(&[6, 3, 4]);
    let sizes = search_sizes(&problem);
    let mut search = search(&problem, &sizes, &[&[0, 1]]);
    assert!(!search.run(&mut Random::new(0), &mut Options::new().moves(0).budget()));
    assert_eq!(sorted(&search), [vec![0, 1]]);
}

#[test]
fn the_search_ends_at_the_lower_bound() {
    // Four bins of halves and a start that wastes three more.
    let problem = problem(&[6, 6, 6, 6, 4, 4, 4, 4]);
    let mut start = Bins::opened(&problem, 8);
    (0..8).for_each(|item| start.put(&problem, item, item));
    let found = improve(&problem, start, 4, &mut Random::new(1), &mut Options::new().moves(5000).budget());
    assert_eq!(found.len(), 4);
}
