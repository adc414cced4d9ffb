//! The scores of the packing policies, least is best, in 16-bit fixed point. Owns the formulas over a block
//! of 64 workers and the bound over a block's summaries. Only additions, multiplications and square roots of `f32`, which
//! are exact by IEEE 754, in one order: equal on every platform, and monotone, so that a bound is never above a score.

use crate::class::Request;
use crate::config::Policy;
use crate::fleet::MAX_DIMS;
use crate::fleet::table::{BLOCK, Table};

/// 1 ÷ mean worker capacity, per dimension; 0 where the fleet has none.
pub(crate) type Scale = [f32; MAX_DIMS];

/// The scale of a fleet.
pub(crate) fn scale(table: &Table) -> Scale {
    let mut scale = [0.0; MAX_DIMS];
    for (dim, scale) in scale.iter_mut().enumerate() {
        let sum = table.sum(dim);
        if sum > 0 {
            *scale = (table.workers() as f64 / sum as f64) as f32;
        }
    }
    scale
}

/// A score in 16-bit fixed point; saturates.
pub(crate) fn fixed(score: f32) -> u32 {
    (score * 65_536.0) as u32
}

/// ρ of one dimension: what is left after placing, in mean workers.
#[inline]
fn rest(free: i32, amount: i32, scale: f32) -> f32 {
    free.saturating_sub(amount) as f32 * scale
}

/// Scores of all workers of a block; only those that fit mean anything.
pub(crate) fn block(policy: Policy, table: &Table, block: usize, request: &Request, scale: &Scale) -> [f32; BLOCK] {
    let mut squares = [0.0_f32; BLOCK];
    let mut sum = [0.0_f32; BLOCK];
    let mut most = [0.0_f32; BLOCK];
    let mut least = [f32::INFINITY; BLOCK];
    for (dim, amount) in &request.ranked {
        let dim = usize::from(*dim);
        let (column, scale) = (table.column(dim, block), scale.get(dim).copied().unwrap_or(0.0));
        for lane in 0..BLOCK {
            let rest = (column[lane].wrapping_sub(*amount)) as f32 * scale;
            squares[lane] += rest * rest;
            sum[lane] += rest;
            most[lane] = if rest > most[lane] { rest } else { most[lane] };
            least[lane] = if rest < least[lane] { rest } else { least[lane] };
        }
    }
    match policy {
        Policy::FirstFit => return [0.0; BLOCK],
        Policy::MostAllocated => return sum,
        Policy::Spread => {
            for least in &mut least {
                *least = SPREAD_TOP - if *least < SPREAD_TOP { *least } else { SPREAD_TOP };
            }
            return least;
        }
        Policy::BestFit | Policy::DotProduct | Policy::Balanced => {}
    }
    let mut scores = [0.0_f32; BLOCK];
    for lane in 0..BLOCK {
        scores[lane] = squares[lane].sqrt() + (most[lane] - least[lane]);
    }
    for dim in &request.foreign {
        let column = table.column(usize::from(*dim), block);
        for lane in 0..BLOCK {
            scores[lane] += column[lane].max(0) as f32;
        }
    }
    scores
}

/// Above any rest that matters for `spread`, in mean workers: its score is this less the least rest.
const SPREAD_TOP: f32 = 128.0;

/// A bound below the score of every worker of a block that fits.
pub(crate) fn bound(policy: Policy, table: &Table, block: usize, request: &Request, scale: &Scale) -> f32 {
    let (mut squares, mut sum) = (0.0_f32, 0.0_f32);
    // The greatest of the least rests, the least of the greatest ones.
    let (mut low, mut high) = (0.0_f32, f32::INFINITY);
    for (dim, amount) in &request.ranked {
        let dim = usize::from(*dim);
        let (most, least) = table.bounds(dim, block);
        let scale = scale.get(dim).copied().unwrap_or(0.0);
        let (near, far) = (rest(least.max(*amount), *amount, scale), rest(most.max(*amount), *amount, scale));
        squares += near * near;
        sum += near;
        low = if near > low { near } else { low };
        high = if far < high { far } else { high };
    }
    match policy {
        Policy::BestFit | Policy::DotProduct => {
            let spread = low - high;
            let mut bound = squares.sqrt() + if spread > 0.0 { spread } else { 0.0 };
            for dim in &request.foreign {
                bound += table.bounds(usize::from(*dim), block).1.clamp(0, i32::MAX - 1) as f32;
            }
            bound
        }
        Policy::MostAllocated => sum,
        Policy::Spread => SPREAD_TOP - if high < SPREAD_TOP { high } else { SPREAD_TOP },
        Policy::FirstFit | Policy::Balanced => 0.0,
    }
}
