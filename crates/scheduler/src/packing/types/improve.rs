//! Improves a mix: some bins are emptied and their items packed anew, with costs that are stretched at random so that other
//! types come into play. Owns which bins and when the new ones stay; never accepts a dearer mix.

use super::super::improve::search_sizes;
use super::super::options::Budget;
use super::super::problem::Problem;
use super::super::random::Random;
use super::build::{Build, How, Mix, Stock};

/// The most bins emptied at once.
const MOST_BINS: usize = 6;

pub(super) fn improve(
    problem: &Problem,
    stock: &Stock,
    start: Mix,
    lower_bound: u128,
    random: &mut Random,
    budget: &mut Budget<'_>,
) -> Mix {
    let sizes = search_sizes(problem);
    let (mut best, mut cost) = (start.clone(), start.cost(stock));
    while cost > lower_bound && best.bins.len() > 0 && budget.left() > 0 {
        let mut tried = best.clone();
        let emptied = 1 + random.below(MOST_BINS.min(tried.bins.len()));
        let mut items = Vec::new();
        for _ in 0..emptied {
            items.extend(tried.close(problem, random.below(tried.bins.len())));
        }
        items.sort_by(|a, b| sizes[*b as usize].total_cmp(&sizes[*a as usize]).then(a.cmp(b)));
        budget.spend((items.len() * (tried.bins.len().min(32) + stock.len()) + problem.len / 8) as u64 + 1);
        if random.below(2) == 0 {
            insert(problem, &mut tried, &mut items, random);
        }
        let stretch = |cost: &u64| cost.saturating_mul(random.within(16, 24)) / 16;
        let costs: Vec<u64> = stock.costs.iter().map(stretch).collect();
        let how = if random.below(2) == 0 { How::Largest } else { How::Efficient };
        if (Build { problem, stock, sizes: &sizes, how, costs: &costs }).add(&mut tried, items, budget) > 0 {
            continue;
        }
        tried.shrink(problem, stock);
        let new = tried.cost(stock);
        if new <= cost {
            (best, cost) = (tried, new);
        }
    }
    best
}

/// Puts what fits into bins that stay, from a random one on.
fn insert(problem: &Problem, mix: &mut Mix, items: &mut Vec<u32>, random: &mut Random) {
    let count = mix.bins.len();
    let from = random.below(count);
    items.retain(|item| {
        let bin = (from..count).chain(0..from).take(32).find(|bin| mix.bins.fits(problem, *item as usize, *bin));
        if let Some(bin) = bin {
            mix.bins.put(problem, *item as usize, bin);
        }
        bin.is_none()
    });
}
