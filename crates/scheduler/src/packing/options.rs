//! How to pack: the rule, the budget and the seed. Owns the choices a caller has; never acts on them.

use std::fmt;

/// How many moves the local search makes unless told otherwise.
pub const DEFAULT_MOVES: u64 = 100_000;

/// How the size of a vector is measured: a norm of w_d·x_d/C_d over the dimensions d, where x is the demand, C the
/// capacity and w the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// The sum.
    L1,
    /// The square root of the sum of squares.
    L2,
    /// The greatest.
    LInf,
}

/// What a dimension weighs. Demands are shares of the capacity here.
///
/// Source: Panigrahy, Talwar, Uyeda and Wieder, "Heuristics for vector bin packing", Microsoft Research 2011 (the first
/// four); Gabay and Zaourar, "Vector bin packing with heterogeneous bins", 2016 (the last).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// All dimensions the same.
    Unit,
    /// The mean demand.
    MeanDemand,
    /// One over the mean demand.
    Reciprocal,
    /// exp(0.01·mean demand), the demand in percent of the capacity.
    Exponential,
    /// The demand still to be packed over the capacity that remains in the open bins.
    DemandOverRemaining,
}

/// When weights are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    /// Once, over all items.
    Static,
    /// Again and again over the items not yet packed: after each for up to 1,024 items, 1,024 times in all for more.
    Dynamic,
}

/// A measure of size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The norm.
    pub norm: Norm,
    /// The weights.
    pub weights: Weights,
    /// When the weights are computed.
    pub refresh: Refresh,
}

/// Which open bin takes an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The bin opened last, or a new one.
    Next,
    /// The bin opened first of those it fits.
    First,
    /// The bin of which least is left, in the norm of the size.
    Best,
    /// The bin of which most is left, in the norm of the size.
    Worst,
}

/// The order in which items are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemOrder {
    /// As they come.
    Arrival,
    /// The largest first.
    Decreasing,
}

/// What makes an item and the room r that remains in a bin a good pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// Greatest Σ w_d·x_d·r_d.
    DotProduct,
    /// Least ‖w·(r − x)‖₂.
    L2Norm,
}

/// A way to pack. All are deterministic; complexities are for n items, b bins and d dimensions.
///
/// Source: Panigrahy et al. 2011 for the item- and bin-centric rules; Gabay and Zaourar 2016 and Nagel, Popov, Süß and
/// Wanka, "Analysis of heuristics for vector scheduling and vector bin packing", 2023, for the multi-bin rules; Gupta and
/// Ho, "A new heuristic algorithm for the one-dimensional bin-packing problem", 1999, for the completion rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// First-fit decreasing, bin-centric, completion and multi-bin rules as a portfolio, then local search on the best
    /// two. Never more bins than [`Rule::first_fit_decreasing`].
    #[default]
    Auto,
    /// Takes items in order and finds a bin for each. O(n·log n + n·b·d) at worst; first fit in decreasing order is close
    /// to O(n·d·log n) on what people pack.
    ItemCentric {
        /// Which open bin takes the item.
        fit: Fit,
        /// The order of items.
        order: ItemOrder,
        /// What decreasing order and best fit measure.
        size: Size,
    },
    /// Fills one bin at a time with the best item that fits. O(n·k·d) for k distinct items.
    BinCentric {
        /// What makes an item the best.
        score: Score,
        /// The weights of the score.
        weights: Weights,
        /// When the weights are computed.
        refresh: Refresh,
    },
    /// Opens as many bins as the lower bound and takes the best pair of item and bin until done; on failure one bin more
    /// and again. O(n·b·d) a try at best, O(n²·b·d) at worst.
    MultiBin {
        /// What makes a pair the best.
        score: Score,
        /// The weights of the score.
        weights: Weights,
        /// When the weights are computed.
        refresh: Refresh,
    },
    /// Fills one bin at a time with the largest item left and the set of up to three others that leaves least room; the
    /// search for the set is bounded by the budget of moves. O(n·k²·d) within the budget.
    Completion,
}

impl Rule {
    /// First fit in decreasing order of the sum of demands, weighted by the mean demand: the rule others are measured by.
    #[must_use]
    pub const fn first_fit_decreasing() -> Self {
        let size = Size { norm: Norm::L1, weights: Weights::MeanDemand, refresh: Refresh::Static };
        Self::ItemCentric { fit: Fit::First, order: ItemOrder::Decreasing, size }
    }

    /// The best single rule over all sets of instances: bin-centric, dot product, dynamic mean-demand weights.
    #[must_use]
    pub const fn dot_product() -> Self {
        Self::BinCentric { score: Score::DotProduct, weights: Weights::MeanDemand, refresh: Refresh::Dynamic }
    }
}

/// How much is spent on lower bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// The continuous bound alone: O(n·d).
    Continuous,
    /// Every bound but columns. Of more than 2,000 items the clique looks at the largest 2,000, of more than
    /// 1,000 the pairs at the largest 1,000.
    #[default]
    Simple,
    /// Columns also, where the feature `exact-bounds` is on and there are at most 200 items.
    Exact,
}

/// The rule, budget, seed and deadline of a packing. The default is [`Rule::Auto`] with [`DEFAULT_MOVES`] and seed 0.
///
/// ```
/// use orlop_scheduler::packing::{Effort, Options, Rule};
///
/// let mut polls = 0;
/// let mut ended = || { polls += 1; polls > 100 };
/// let options = Options::new().rule(Rule::Auto).moves(1_000_000).seed(7).effort(Effort::Exact).deadline(&mut ended);
/// # let _ = options;
/// ```
#[derive(Default)]
#[must_use]
pub struct Options<'a> {
    pub(super) rule: Rule,
    pub(super) moves: Option<u64>,
    pub(super) seed: u64,
    pub(super) effort: Effort,
    pub(super) deadline: Option<&'a mut dyn FnMut() -> bool>,
}

impl<'a> Options<'a> {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The rule; of [`pack`](super::pack) only.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rule = rule;
        self
    }

    /// How many moves may be tried after the first packing stands: a move is one item tried against one bin, or one
    /// exchange of items tried. Equal budgets give equal results on every machine.
    pub fn moves(mut self, moves: u64) -> Self {
        self.moves = Some(moves);
        self
    }

    /// The seed of kicks and of the surrogate bound.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How much is spent on lower bounds.
    pub fn effort(mut self, effort: Effort) -> Self {
        self.effort = effort;
        self
    }

    /// Asked now and then whether to end early (true: end). What has been found by then is the answer, and there always is
    /// one: the first packing is finished whatever the callback says, and so is a bound that has been begun. A result that
    /// was ended early depends on when.
    pub fn deadline(mut self, ended: &'a mut dyn FnMut() -> bool) -> Self {
        self.deadline = Some(ended);
        self
    }

    pub(super) fn budget(self) -> Budget<'a> {
        let left = self.moves.unwrap_or(DEFAULT_MOVES);
        Budget { left, until_asked: ASK_EVERY, ended: false, deadline: self.deadline }
    }
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = (self.rule, self.moves, self.seed, self.effort);
        f.debug_tuple("Options").field(&fields).field(&self.deadline.is_some()).finish()
    }
}

/// The deadline is asked once in so many moves.
const ASK_EVERY: u64 = 1024;

/// What is left of the moves and whether the caller's deadline has passed.
pub(super) struct Budget<'a> {
    left: u64,
    until_asked: u64,
    ended: bool,
    deadline: Option<&'a mut dyn FnMut() -> bool>,
}

impl Budget<'_> {
    /// Takes some moves. False if there are none left or the deadline has passed.
    pub(super) fn spend(&mut self, moves: u64) -> bool {
        if self.ended || self.left == 0 {
            return false;
        }
        self.left = self.left.saturating_sub(moves);
        self.work(moves)
    }

    /// Counts work towards the next question about the deadline, at no cost in moves. False once the deadline has passed.
    pub(super) fn work(&mut self, steps: u64) -> bool {
        self.until_asked = self.until_asked.saturating_sub(steps);
        if self.until_asked == 0 {
            self.until_asked = ASK_EVERY;
            self.ended |= self.deadline.as_mut().is_some_and(|ended| ended());
        }
        !self.ended
    }

    /// Asks about the deadline at once, before something that does not ask on its way.
    pub(super) fn ended(&mut self) -> bool {
        self.until_asked = 0;
        !self.work(0)
    }

    pub(super) fn left(&self) -> u64 {
        if self.ended { 0 } else { self.left }
    }

    /// Runs `job` with at most `most` moves of what is left.
    pub(super) fn share<T>(&mut self, most: u64, job: impl FnOnce(&mut Self) -> T) -> T {
        let kept = self.left.saturating_sub(most);
        self.left = self.left.min(most);
        let done = job(self);
        self.left = self.left.saturating_add(kept);
        done
    }
}
