//! Packing into a fixed fleet: as many items as can be placed, then the least stranded room. Owns the entry and what it
//! answers; how items are placed and counted stands beside.

mod bound;
mod place;

use super::error::PackError;
use super::items::Items;
use super::options::Options;
use super::problem::{NONE, Problem, share};
use super::random::Random;
use super::{MAX_COUNT, bins::Bins};

/// Where each item goes, if anywhere.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct FleetPacking {
    /// The bin of each item, as a position in the fleet; `None` for an item without a place.
    pub bin_of: Vec<Option<u32>>,
    /// How many items have a place.
    pub placed: usize,
    /// A number of items that no packing exceeds.
    pub upper_bound: usize,
    /// Room that nothing can use because another dimension of its bin is fuller: for each bin the mean over its dimensions
    /// of the free share beyond the least free share; then the mean over the fleet. 0 to 1.
    pub stranded: f64,
    /// Whether no packing places more: the bound is met.
    pub optimal: bool,
}

/// Places as many items as it can find room for in bins that are there, each with its own room; of packings with as many
/// items the one that strands less. An item that fits no bin is left out, and so is whatever more than fits. Heuristic,
/// seeded and deterministic like [`pack`](super::pack); the rule of the options does not matter here.
///
/// For several measures of size the greatest number k is sought of which the k smallest items fit, largest first, each into
/// the bin where ‖ρ‖₂ + (max ρ − min ρ) of the free shares ρ is least afterwards; what still fits is added; local search
/// then makes room for one item more at a time. O(n·b·d·log n) for n items and b bins, plus the moves; past 2·10⁷ pairs of item and bin
/// by first fit and one measure alone.
///
/// ```
/// use orlop_scheduler::packing::{Items, Options, pack_into};
///
/// // Of these jobs four fit the room that is left on two machines.
/// let jobs = Items::from_rows(2, [[3000, 1024], [1000, 2048], [500, 512], [1500, 512], [1000, 1024]])?;
/// let room = [vec![2000, 3072], vec![2000, 4096]];
/// let placed = pack_into(&jobs, &room, Options::new())?;
/// assert_eq!((placed.placed, placed.upper_bound), (4, 4));
/// assert_eq!(placed.bin_of.first(), Some(&None));
/// # Ok::<(), orlop_scheduler::packing::PackError>(())
/// ```
///
/// # Errors
/// A bin with another number of dimensions, more than 2³¹ bins, or demands whose sum is no `u64`.
pub fn pack_into(items: &Items, fleet: &[Vec<u64>], options: Options<'_>) -> Result<FleetPacking, PackError> {
    if fleet.len() > MAX_COUNT {
        return Err(PackError::TooMany { what: "bins", count: fleet.len() });
    }
    for (at, bin) in fleet.iter().enumerate() {
        if bin.len() != items.dimensions() {
            let (expected, found) = (items.dimensions(), bin.len());
            return Err(PackError::Shape { what: format!("bin {at}"), expected, found });
        }
    }
    let largest: Vec<u64> =
        (0..items.dimensions()).map(|d| fleet.iter().map(|bin| bin[d]).max().unwrap_or(0)).collect();
    let problem = Problem::unchecked(items, &largest, items.totals()?);
    let seed = options.seed;
    let mut budget = options.budget();
    let candidates = bound::placeable(&problem, fleet);
    let upper_bound = bound::upper_bound(&problem, fleet, &candidates);
    let bins = place::place(&problem, fleet, &candidates, upper_bound, &mut Random::new(seed), &mut budget);
    let placed = bins.bin_of.iter().filter(|bin| **bin != NONE).count();
    let stranded = stranded(&bins, fleet);
    let bin_of = bins.bin_of.iter().map(|bin| Some(*bin).filter(|bin| *bin != NONE)).collect();
    Ok(FleetPacking { bin_of, placed, upper_bound, stranded, optimal: placed >= upper_bound })
}

/// Mean stranded share of the fleet.
fn stranded(bins: &Bins, fleet: &[Vec<u64>]) -> f64 {
    let of = |(bin, capacity): (usize, &Vec<u64>)| {
        let parts = bins.free(bin).iter().zip(capacity).filter(|(_, capacity)| **capacity > 0);
        let free: Vec<f64> = parts.map(|(free, capacity)| share(*free, *capacity)).collect();
        let least = free.iter().copied().fold(1.0, f64::min);
        free.iter().map(|free| free - least).sum::<f64>() / free.len().max(1) as f64
    };
    fleet.iter().enumerate().map(of).sum::<f64>() / fleet.len().max(1) as f64
}
