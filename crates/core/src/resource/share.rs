//! Shares of a whole as exact fractions, for fair division. Owns their comparison, which never rounds or overflows.

use std::cmp::Ordering;
use std::fmt;
use std::num::NonZeroU32;

/// An exact fraction of a total, in lowest terms and ordered by value.
///
/// An amount above zero out of a total of zero is [`Share::INFINITE`], greater than any other share; zero out of any total is
/// [`Share::ZERO`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Share {
    amount: u128,
    of: u128,
}

impl Share {
    /// Nothing.
    pub const ZERO: Self = Self { amount: 0, of: 1 };
    /// More than there is.
    pub const INFINITE: Self = Self { amount: 1, of: 0 };

    /// `amount` out of `of`.
    #[must_use]
    pub fn new(amount: u64, of: u64) -> Self {
        Self::reduced(amount.into(), of.into())
    }

    /// The share per unit of weight, as weighted fairness compares it.
    #[must_use]
    pub fn per_weight(self, weight: NonZeroU32) -> Self {
        // A whole of 64 bits times a weight of 32 always fits; dividing again and again saturates.
        Self::reduced(self.amount, self.of.saturating_mul(u128::from(weight.get())))
    }

    fn reduced(amount: u128, of: u128) -> Self {
        match (amount, of) {
            (0, _) => Self::ZERO,
            (_, 0) => Self::INFINITE,
            _ => {
                let divisor = greatest_common_divisor(amount, of);
                Self { amount: amount / divisor, of: of / divisor }
            }
        }
    }
}

/// Euclid; at least 1 for arguments that are not both 0.
fn greatest_common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Default for Share {
    fn default() -> Self {
        Self::ZERO
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Share {
    /// By continued fractions: whole parts first, then the reciprocals of the rests, so no product can overflow.
    fn cmp(&self, other: &Self) -> Ordering {
        let (mut a, mut b, mut c, mut d) = (self.amount, self.of, other.amount, other.of);
        loop {
            match (b == 0, d == 0) {
                (true, true) => return Ordering::Equal,
                (true, false) => return Ordering::Greater,
                (false, true) => return Ordering::Less,
                (false, false) => {}
            }
            match (a / b).cmp(&(c / d)) {
                Ordering::Equal => {}
                decided => return decided,
            }
            // a/b < c/d exactly when d/c < b/a; a rest of 0 makes its reciprocal infinite.
            (a, b, c, d) = (d, c % d, b, a % b);
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::INFINITE { f.pad("infinite") } else { write!(f, "{}/{}", self.amount, self.of) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shares_are_ordered_by_worth() {
        let mut shares = [Share::new(1, 0), Share::new(2, 3), Share::new(0, 0), Share::new(1, 2), Share::new(7, 1)];
        shares.sort();
        let texts: Vec<String> = shares.iter().map(Share::to_string).collect();
        assert_eq!(texts, ["0/1", "1/2", "2/3", "7/1", "infinite"]);
        assert_eq!(Share::new(2, 4), Share::new(1, 2));
        assert_eq!(Share::new(0, 9), Share::ZERO);
        assert_eq!(Share::default(), Share::ZERO);
    }

    #[test]
    fn a_weight_divides_the_share() {
        let weight = |weight| NonZeroU32::new(weight).unwrap();
        assert_eq!(Share::new(1, 2).per_weight(weight(100)), Share::new(1, 200));
        assert!(Share::new(3, 10).per_weight(weight(300)) < Share::new(2, 10).per_weight(weight(100)));
        assert_eq!(Share::INFINITE.per_weight(weight(1000)), Share::INFINITE);
        assert!(Share::new(1, u64::MAX).per_weight(weight(u32::MAX)) > Share::ZERO);
    }

    fn any_share() -> impl Strategy<Value = (u64, u64)> {
        prop_oneof![any::<(u64, u64)>(), (0..20_u64, 0..20_u64), (0..3_u64, 0..u64::MAX)]
    }

    proptest! {
        #[test]
        fn law_order_is_that_of_cross_multiplication((a, b) in any_share(), (c, d) in any_share()) {
            let products = (u128::from(a) * u128::from(d)).cmp(&(u128::from(c) * u128::from(b)));
            if b > 0 && d > 0 {
                prop_assert_eq!(Share::new(a, b).cmp(&Share::new(c, d)), products);
            }
            prop_assert_eq!(Share::new(a, b).cmp(&Share::new(c, d)), Share::new(c, d).cmp(&Share::new(a, b)).reverse());
            prop_assert_eq!(Share::new(a, b) == Share::new(c, d), Share::new(a, b).cmp(&Share::new(c, d)).is_eq());
        }

        #[test]
        fn law_weights_do_not_change_the_order_of_equal_tenants((a, b) in any_share(), (c, d) in any_share(), weight: NonZeroU32) {
            let (x, y) = (Share::new(a, b), Share::new(c, d));
            prop_assert_eq!(x.per_weight(weight).cmp(&y.per_weight(weight)), x.cmp(&y));
        }
    }
}
