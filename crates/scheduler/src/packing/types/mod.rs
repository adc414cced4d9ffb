//! Packing onto types of bins that differ in capacity, count and cost: the cheapest mix. Owns the entry and what it
//! answers; how mixes are built and bounded stands beside.

mod bound;
mod build;
mod improve;

use super::error::PackError;
use super::items::Items;
use super::options::Options;
use super::problem::Problem;
use super::random::Random;
use super::{MAX_COUNT, MAX_DIMENSIONS};
use build::{Mix, Stock};

/// A type of bin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BinType {
    /// What one holds, in the units of the items.
    pub capacity: Vec<u64>,
    /// How many there are; `None` if as many as wanted.
    pub count: Option<usize>,
    /// What one costs, in any unit.
    pub cost: u64,
}

/// Where each item goes, on which types, and what that costs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct TypedPacking {
    /// The bin of each item. Bins are numbered from 0 in order of their first item.
    pub bin_of: Vec<u32>,
    /// The type of each bin, as a position in the list of types.
    pub type_of: Vec<u32>,
    /// The sum of costs of the bins.
    pub cost: u128,
    /// A cost below which no packing exists.
    pub lower_bound: u128,
    /// Whether no packing is cheaper: the bound is met.
    pub optimal: bool,
}

/// Packs items onto bins of several types at the least cost it can find. Heuristic, seeded and deterministic like
/// [`pack`](super::pack); the rule of the options does not matter here.
///
/// Several rules open one bin after the other, each time of the type whose best filling costs least for what it holds;
/// every bin then becomes the cheapest type that holds what lies in it; then some bins at a time are emptied and packed
/// anew (ruin and recreate: Schrimpf, Schneider, Stamm-Wilbrandt and Dueck, "Record breaking optimization results using the
/// ruin and recreate principle", 2000) while there is budget. O(t·n·k·d) for t types, n items of k kinds, plus the moves.
///
/// ```
/// use orlop_scheduler::packing::{BinType, Items, Options, pack_types};
///
/// // Six jobs of 2 cores: three small machines are dearer than one large and one small.
/// let items = Items::from_rows(1, [[2000]; 6])?;
/// let small = BinType { capacity: vec![4000], count: None, cost: 10 };
/// let large = BinType { capacity: vec![8000], count: Some(1), cost: 15 };
/// let packing = pack_types(&items, &[small, large], Options::new())?;
/// assert_eq!(packing.cost, 25);
/// assert!(packing.optimal);
/// # Ok::<(), orlop_scheduler::packing::PackError>(())
/// ```
///
/// # Errors
/// As [`pack`](super::pack) against the largest capacity in each dimension; [`PackError::FitsNoType`] for an item that no
/// single type holds; [`PackError::NoRoom`] if no assignment to the counted bins was found.
pub fn pack_types(items: &Items, types: &[BinType], options: Options<'_>) -> Result<TypedPacking, PackError> {
    let usable = check(items, types)?;
    let problem = Problem::new(items, &largest(items.dimensions(), &usable))?;
    let holds =
        |item: usize, of: &BinType| problem.demand(item).iter().zip(&of.capacity).all(|(want, has)| want <= has);
    if let Some(item) = (0..problem.len).find(|item| !usable.iter().any(|(_, of)| holds(*item, of))) {
        return Err(PackError::FitsNoType { item });
    }
    let seed = options.seed;
    let mut budget = options.budget();
    let stock = Stock::new(&usable, problem.len);
    let lower_bound = bound::lower_bound(&problem, &usable, seed);
    let mut best: Option<Mix> = None;
    let mut least_unplaced = problem.len;
    for how in build::HOWS {
        if best.as_ref().is_some_and(|best| best.cost(&stock) <= lower_bound || !budget.work(1)) {
            break;
        }
        match build::mix(&problem, &stock, how, &mut budget) {
            Ok(mix) if best.as_ref().is_none_or(|best| mix.cost(&stock) < best.cost(&stock)) => best = Some(mix),
            Ok(_) => {}
            Err(unplaced) => least_unplaced = least_unplaced.min(unplaced),
        }
    }
    let Some(best) = best else {
        return Err(PackError::NoRoom { unplaced: least_unplaced, items: problem.len });
    };
    let best = improve::improve(&problem, &stock, best, lower_bound, &mut Random::new(seed), &mut budget);
    let cost = best.cost(&stock);
    let (bin_of, order) = best.bins.renumbered();
    let type_of = order.iter().map(|bin| stock.name(best.type_of[*bin as usize])).collect();
    Ok(TypedPacking { bin_of, type_of, cost, lower_bound, optimal: cost <= lower_bound })
}

/// The types there are any of, with their positions.
fn check<'a>(items: &Items, types: &'a [BinType]) -> Result<Vec<(u32, &'a BinType)>, PackError> {
    debug_assert!(items.dimensions() <= MAX_DIMENSIONS, "a list of items has been checked");
    if types.len() > MAX_COUNT {
        return Err(PackError::TooMany { what: "types", count: types.len() });
    }
    for (at, of) in types.iter().enumerate() {
        if of.capacity.len() != items.dimensions() {
            let (expected, found) = (items.dimensions(), of.capacity.len());
            return Err(PackError::Shape { what: format!("the capacity of type {at}"), expected, found });
        }
    }
    let numbered = types.iter().enumerate().map(|(at, of)| (at as u32, of));
    Ok(numbered.filter(|(_, of)| of.count != Some(0)).collect())
}

fn largest(dimensions: usize, types: &[(u32, &BinType)]) -> Vec<u64> {
    let of = |d: usize| types.iter().map(|(_, of)| of.capacity[d]).max().unwrap_or(0);
    (0..dimensions).map(of).collect()
}
