//! Lower bounds: numbers of bins below which no packing exists. Owns their names and the choice among them; never packs.
//! All are computed in whole numbers, so that no rounding can make one too great.

mod clique;
#[cfg(feature = "exact-bounds")]
mod columns;
mod line;
mod matching;
mod pairs;
mod surrogate;

use std::fmt;

use super::error::PackError;
use super::items::Items;
use super::options::Effort;
use super::problem::Problem;
pub(super) use clique::cliques;
use line::Line;
pub(super) use surrogate::weight_vectors;

/// A way to find a lower bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Bound {
    /// The greatest over dimensions of ⌈Σ x_d/C_d⌉.
    Continuous,
    /// ⌈Σ f(x)⌉ over the dual feasible functions U_ε, u_k and φ_ε in each dimension (Fekete and Schepers, "New classes of
    /// fast lower bounds for bin packing problems", 2001).
    DualFeasible,
    /// L2 of Martello and Toth in each dimension ("Lower bounds and reduction procedures for the bin packing problem",
    /// 1990).
    MartelloToth,
    /// The bounds above on Σ λ_d·x_d/C_d for 64 convex weight vectors λ (Caprara and Toth, "Lower bounds and algorithms for
    /// the 2-dimensional vector packing problem", 2001).
    Surrogate,
    /// Items of which no two fit together, found greedily; members of one apart group among them.
    Clique,
    /// Items of which no three fit together, less the greatest number of pairs that do (Caprara and Toth 2001): Edmonds,
    /// "Paths, trees, and flowers", 1965.
    Pairs,
    /// The linear programme over all patterns of items that fit one bin (Gilmore and Gomory, "A linear programming approach
    /// to the cutting-stock problem", 1961), by column generation with Farley's bound (1990).
    Columns,
}

impl Bound {
    /// The name as it stands in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Continuous => "continuous",
            Self::DualFeasible => "dual-feasible",
            Self::MartelloToth => "martello-toth",
            Self::Surrogate => "surrogate",
            Self::Clique => "clique",
            Self::Pairs => "pairs",
            Self::Columns => "columns",
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// All lower bounds that an effort pays for, each with its name, in the order of [`Bound`]. The bounds are in bins.
///
/// Complexity: n·d for [`Effort::Continuous`]; for [`Effort::Simple`] about 10⁵ operations for each distinct demand, at most
/// 2,000³ for the pairs; columns are exponential in theory and bounded by a fixed number of steps.
///
/// ```
/// use orlop_scheduler::packing::{Bound, Effort, Items, lower_bounds};
///
/// let items = Items::from_rows(1, [[6], [6], [6]])?;
/// let bounds = lower_bounds(&items, &[10], Effort::Simple, 0)?;
/// assert_eq!(bounds.first(), Some(&(Bound::Continuous, 2)));
/// assert_eq!(bounds.iter().map(|(_, bins)| *bins).max(), Some(3));
/// # Ok::<(), orlop_scheduler::packing::PackError>(())
/// ```
///
/// # Errors
/// As [`pack`](super::pack).
pub fn lower_bounds(
    items: &Items,
    capacity: &[u64],
    effort: Effort,
    seed: u64,
) -> Result<Vec<(Bound, usize)>, PackError> {
    let problem = Problem::new(items, capacity)?;
    Ok(all(&problem, effort, seed, usize::MAX))
}

/// Bounds until one meets `enough`.
pub(super) fn all(problem: &Problem, effort: Effort, seed: u64, enough: usize) -> Vec<(Bound, usize)> {
    let mut found: Vec<(Bound, usize)> = vec![(Bound::Continuous, continuous(problem))];
    let more: &[Bound] = match effort {
        Effort::Continuous => &[],
        Effort::Simple | Effort::Exact => {
            &[Bound::DualFeasible, Bound::MartelloToth, Bound::Surrogate, Bound::Clique, Bound::Pairs]
        }
    };
    for bound in more {
        if strongest(&found).1 >= enough {
            return found;
        }
        let bins = match bound {
            Bound::DualFeasible => over_dimensions(problem, Line::dual_feasible),
            Bound::MartelloToth => over_dimensions(problem, Line::martello_toth),
            Bound::Surrogate => surrogate::bound(problem, seed),
            Bound::Clique => clique::bound(problem),
            _ => pairs::bound(problem),
        };
        found.push((*bound, bins));
    }
    let best = strongest(&found);
    if effort == Effort::Exact && best.1 < enough && prices_columns(problem) {
        found.push((Bound::Columns, with_columns(problem, best, enough).1));
    }
    found
}

/// The better of a bound and that by columns, where it is priced.
pub(super) fn with_columns(problem: &Problem, known: (Bound, usize), enough: usize) -> (Bound, usize) {
    #[cfg(feature = "exact-bounds")]
    if prices_columns(problem) {
        let bins = columns::bound(problem, known.1, enough);
        return if bins > known.1 { (Bound::Columns, bins) } else { known };
    }
    let _ = (problem, enough);
    known
}

fn prices_columns(problem: &Problem) -> bool {
    cfg!(feature = "exact-bounds") && problem.len <= MOST_COLUMN_ITEMS
}

/// The greatest bound, the simplest on a tie.
pub(super) fn strongest(found: &[(Bound, usize)]) -> (Bound, usize) {
    let better = |best: (Bound, usize), next: &(Bound, usize)| if next.1 > best.1 { *next } else { best };
    found.iter().fold((Bound::Continuous, 0), better)
}

/// For how many items the columns are priced.
const MOST_COLUMN_ITEMS: usize = 200;

fn continuous(problem: &Problem) -> usize {
    let of = |(&total, &capacity): (&u64, &u64)| if capacity == 0 { 0 } else { total.div_ceil(capacity) as usize };
    let volume = problem.totals.iter().zip(&problem.capacity).map(of).max().unwrap_or(0);
    volume.max(usize::from(problem.len > 0))
}

fn over_dimensions(problem: &Problem, bound: impl Fn(&Line) -> usize) -> usize {
    let of = |dimension: usize| {
        let sizes = (0..problem.len).map(|item| problem.demand(item)[dimension]).collect();
        bound(&Line::new(sizes, problem.capacity[dimension]))
    };
    (0..problem.dimensions).map(of).max().unwrap_or(0)
}
