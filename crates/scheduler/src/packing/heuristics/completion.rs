//! The rule that fills one bin at a time with the largest item left and the pair of others that leaves least room, again
//! until nothing fits: minimum bin slack of Gupta and Ho (1999) for vectors. Owns the search for the pair, bounded by the
//! budget; never returns to a bin.

use super::super::bins::Bins;
use super::super::measure::{Waiting, size};
use super::super::options::{Budget, Norm, Weights};
use super::super::problem::{Kind, Problem, share};

/// Rounding of sizes must not hide a pair that fills a bin exactly.
const SLACK: f64 = 1e-9;

/// One of the kinds that still fit, with the size of an item.
struct Candidate {
    size: f64,
    kind: usize,
    item: usize,
    many: bool,
}

/// What to add to a bin: one or two kinds.
#[derive(Clone, Copy)]
struct Choice {
    size: f64,
    first: usize,
    second: Option<usize>,
}

/// The completion rule under given weights. `None` if the deadline passed first.
pub(in crate::packing) fn pack(problem: &Problem, of: Weights, budget: &mut Budget<'_>) -> Option<Bins> {
    let mut kinds = problem.kinds();
    let mut bins = Bins::new(problem);
    let mut waiting = Waiting::all(problem);
    while !kinds.is_empty() {
        let weights = waiting.weights(of, &vec![1.0; problem.dimensions]);
        let sizes: Vec<f64> = kinds.iter().map(|kind| of_kind(problem, kind, &weights)).collect();
        let bin = bins.open(&problem.capacity);
        let largest = (0..kinds.len()).max_by(|&a, &b| sizes[a].total_cmp(&sizes[b]).then(b.cmp(&a)))?;
        move_one(problem, &mut kinds, largest, &mut bins, bin, &mut waiting);
        loop {
            let candidates = candidates(problem, &kinds, &sizes, &bins, bin);
            let Some(choice) = choose(problem, &candidates, &bins, bin, &weights, budget) else { break };
            for kind in [Some(choice.first), choice.second].into_iter().flatten() {
                move_one(problem, &mut kinds, kind, &mut bins, bin, &mut waiting);
            }
        }
        kinds.retain(|kind| !kind.items.is_empty());
        if !budget.work(kinds.len() as u64 / 4 + 1) {
            return None;
        }
    }
    Some(bins)
}

fn of_kind(problem: &Problem, kind: &Kind, weights: &[f64]) -> f64 {
    size(Norm::L1, weights, problem.shares(kind.first() as usize))
}

fn move_one(problem: &Problem, kinds: &mut [Kind], kind: usize, bins: &mut Bins, bin: usize, waiting: &mut Waiting) {
    if let Some(item) = kinds.get_mut(kind).and_then(|kind| kind.items.pop()) {
        bins.put(problem, item as usize, bin);
        waiting.packed(problem.shares(item as usize));
    }
}

/// The kinds that fit, largest first.
fn candidates(problem: &Problem, kinds: &[Kind], sizes: &[f64], bins: &Bins, bin: usize) -> Vec<Candidate> {
    let of = |(kind, of): (usize, &Kind)| {
        let item = *of.items.last()? as usize;
        let many = of.items.len() > 1 && problem.group(item) == super::super::problem::NONE;
        bins.fits(problem, item, bin).then_some(Candidate { size: sizes[kind], kind, item, many })
    };
    let mut candidates: Vec<Candidate> = kinds.iter().enumerate().filter_map(of).collect();
    candidates.sort_by(|a, b| b.size.total_cmp(&a.size).then(a.kind.cmp(&b.kind)));
    candidates
}

/// The pair, or single kind, of greatest size that fits. Sizes add up, so for each first kind the second is the largest
/// that fits beside it, and no more needs to be looked at than lies between the best so far and the room there is.
fn choose(
    problem: &Problem,
    candidates: &[Candidate],
    bins: &Bins,
    bin: usize,
    weights: &[f64],
    budget: &mut Budget<'_>,
) -> Option<Choice> {
    let first = candidates.first()?;
    let mut best = Choice { size: first.size, first: first.kind, second: None };
    let free = bins.free(bin);
    let room: Vec<f64> = free.iter().zip(&problem.capacity).map(|(free, capacity)| share(*free, *capacity)).collect();
    let room = size(Norm::L1, weights, &room) * (1.0 + SLACK) + SLACK;
    for (at, one) in candidates.iter().enumerate() {
        if 2.0 * one.size <= best.size || best.size >= room - 2.0 * SLACK || budget.left() == 0 {
            break;
        }
        let from = candidates.partition_point(|other| other.size > room - one.size).max(at);
        for (offset, other) in candidates.iter().enumerate().skip(from) {
            if one.size + other.size <= best.size || !budget.spend(1) {
                break;
            }
            if (offset != at || one.many) && both_fit(problem, one.item, other.item, free) {
                best = Choice { size: one.size + other.size, first: one.kind, second: Some(other.kind) };
                break;
            }
        }
    }
    Some(best)
}

fn both_fit(problem: &Problem, one: usize, other: usize, free: &[u64]) -> bool {
    let group = problem.group(one);
    let together = problem.demand(one).iter().zip(problem.demand(other)).zip(free);
    (group == super::super::problem::NONE || group != problem.group(other))
        && together.into_iter().all(|((a, b), free)| a.checked_add(*b).is_some_and(|sum| sum <= *free))
}
