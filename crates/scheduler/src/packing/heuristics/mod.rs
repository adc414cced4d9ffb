//! Rules that build a packing from nothing, one family a file. Owns how a rule is run; never improves what stands.

pub(super) mod bin_centric;
pub(super) mod completion;
mod hints;
pub(super) mod item_centric;
pub(super) mod multi_bin;
mod tree;

use super::bins::Bins;
use super::options::{Budget, Rule, Weights};
use super::problem::Problem;
pub(super) use hints::Hints;
pub(super) use tree::Tree;

/// Runs one rule other than the portfolio; a rule that the deadline ends is finished by first-fit decreasing.
pub(super) fn run(problem: &Problem, rule: Rule, lower_bound: usize, budget: &mut Budget<'_>) -> Bins {
    let made = match rule {
        Rule::ItemCentric { fit, order, size } => Some(item_centric::pack(problem, fit, order, size)),
        Rule::BinCentric { score, weights, refresh } => bin_centric::pack(problem, score, weights, refresh, budget),
        Rule::MultiBin { score, weights, refresh } => {
            let range = lower_bound..=problem.len;
            multi_bin::climb(problem, score, weights, refresh, range, budget)
        }
        Rule::Completion => completion::pack(problem, Weights::MeanDemand, budget),
        Rule::Auto => None,
    };
    made.unwrap_or_else(|| first_fit_decreasing(problem))
}

/// The packing that always gets finished.
pub(super) fn first_fit_decreasing(problem: &Problem) -> Bins {
    match Rule::first_fit_decreasing() {
        Rule::ItemCentric { fit, order, size } => item_centric::pack(problem, fit, order, size),
        _ => Bins::new(problem),
    }
}

#[cfg(test)]
mod tests;
