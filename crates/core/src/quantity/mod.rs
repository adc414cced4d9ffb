//! Amounts in the syntax of Kubernetes (`500m`, `1.5Gi`, `2e3`), as exact fixed point numbers.
//! Owns reading, writing, comparing and adding them. Never uses floating point and never panics or wraps around.

mod parse;
#[cfg(test)]
mod tests;
mod text;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

pub use parse::QuantityError;

/// Nano units in one.
const NANO: i128 = 1_000_000_000;

/// The greatest amount a text in binary form can mean, in nano units: 2^63 − 1 whole units, as in Kubernetes.
const MAX_BINARY: i128 = i64::MAX as i128 * NANO;

/// The family of suffixes an amount was written with, and is written with again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Format {
    /// `n u m`, nothing, `k M G T P E`: powers of 1000.
    #[default]
    DecimalSi,
    /// `Ki Mi Gi Ti Pi Ei`: powers of 1024.
    BinarySi,
    /// `e3`, `E-3`: powers of ten, written as multiples of three.
    DecimalExponent,
}

/// The size of the steps an amount is rounded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// One thousand-millionth.
    Nano,
    /// One ten-thousandth, the step of fractional devices.
    TenThousandth,
    /// One thousandth, as in millicores.
    Milli,
    /// Whole units, as in bytes.
    One,
}

impl Step {
    /// The step in nano units; never 0.
    const fn nano(self) -> i128 {
        match self {
            Self::Nano => 1,
            Self::TenThousandth => 100_000,
            Self::Milli => 1_000_000,
            Self::One => NANO,
        }
    }
}

/// An amount of something: an exact multiple of 10⁻⁹ between ±(2^127 − 1)·10⁻⁹, about ±1.7·10²⁹.
///
/// Texts with more precision are rounded away from zero to 10⁻⁹ (so that a request for a tiny amount is not one for nothing); larger ones
/// are cut to the range, those with a binary suffix to 2^63 − 1 as Kubernetes does. Two amounts are equal when they are
/// worth the same, whatever they were written as: `1Ki` equals `1024`.
///
/// ```
/// use orlop_core::quantity::Quantity;
/// let memory: Quantity = "1.5Gi".parse()?;
/// assert_eq!(memory.to_string(), "1536Mi");
/// assert_eq!(memory.bytes(), Some(1_610_612_736));
/// assert!("500m".parse::<Quantity>()? < "1".parse()?);
/// # Ok::<(), orlop_core::quantity::QuantityError>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { nano: 0, format: Format::DecimalSi };
    /// The greatest amount.
    pub const MAX: Self = Self { nano: i128::MAX, format: Format::DecimalSi };
    /// The least amount, `MAX` with the other sign.
    pub const MIN: Self = Self { nano: -i128::MAX, format: Format::DecimalSi };

    /// This many nano units (10⁻⁹), written in `format`. The one value without an opposite, −2^127, becomes `MIN`.
    #[must_use]
    pub const fn from_nano(nano: i128, format: Format) -> Self {
        let nano = if nano == i128::MIN { -i128::MAX } else { nano };
        Self { nano, format }
    }

    /// This many `step`s, written in the decimal family.
    #[must_use]
    pub const fn from_steps(steps: u64, step: Step) -> Self {
        Self { nano: steps as i128 * step.nano(), format: Format::DecimalSi }
    }

    /// This many thousandths, for example millicores, written like `1500m`.
    #[must_use]
    pub const fn from_milli(milli: u64) -> Self {
        Self::from_steps(milli, Step::Milli)
    }

    /// This many whole units, written like `2k`.
    #[must_use]
    pub const fn from_count(count: u64) -> Self {
        Self::from_steps(count, Step::One)
    }

    /// This many bytes, written like `512Mi`.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> Self {
        Self { nano: bytes as i128 * NANO, format: Format::BinarySi }
    }

    /// The amount in nano units (10⁻⁹), exact.
    #[must_use]
    pub const fn nano(self) -> i128 {
        self.nano
    }

    /// The family of suffixes it is written with.
    #[must_use]
    pub const fn format(self) -> Format {
        self.format
    }

    /// Whether it is nothing.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// Whether it is below zero.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// Whether it is above zero.
    #[must_use]
    pub const fn is_positive(self) -> bool {
        self.nano > 0
    }

    /// The least number of whole `step`s that is not below the amount: how a request is counted.
    ///
    /// `None` below zero. Amounts beyond `u64::MAX` steps give `u64::MAX`, more than anything can offer.
    #[must_use]
    pub fn round_up(self, step: Step) -> Option<u64> {
        let down = self.round_down(step)?;
        let rest = self.nano.rem_euclid(step.nano());
        Some(if rest == 0 { down } else { down.saturating_add(1) })
    }

    /// The greatest number of whole `step`s that is not above the amount: how a capacity is counted.
    ///
    /// `None` below zero. Amounts beyond `u64::MAX` steps give `u64::MAX`.
    #[must_use]
    pub fn round_down(self, step: Step) -> Option<u64> {
        let steps = u128::try_from(self.nano.div_euclid(step.nano())).ok()?;
        Some(u64::try_from(steps).unwrap_or(u64::MAX))
    }

    /// Thousandths of a core, rounded up; `None` below zero, at most `u64::MAX`.
    #[must_use]
    pub fn millicores(self) -> Option<u64> {
        self.round_up(Step::Milli)
    }

    /// Bytes, rounded up; `None` below zero, at most `u64::MAX`.
    #[must_use]
    pub fn bytes(self) -> Option<u64> {
        self.round_up(Step::One)
    }

    /// Whole units, rounded up; `None` below zero, at most `u64::MAX`.
    #[must_use]
    pub fn count(self) -> Option<u64> {
        self.round_up(Step::One)
    }

    /// Sum, or `None` outside the range. The sum is written like `self`, or like `other` where `self` is nothing.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let nano = self.nano.checked_add(other.nano).filter(|nano| *nano != i128::MIN)?;
        Some(Self { nano, format: self.format_with(other) })
    }

    /// Difference, or `None` outside the range; may be below zero. Written like the sum.
    #[must_use]
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        let nano = self.nano.checked_sub(other.nano).filter(|nano| *nano != i128::MIN)?;
        Some(Self { nano, format: self.format_with(other) })
    }

    /// Product with a whole number, or `None` outside the range.
    #[must_use]
    pub fn checked_mul(self, times: u64) -> Option<Self> {
        let nano = self.nano.checked_mul(i128::from(times)).filter(|nano| *nano != i128::MIN)?;
        Some(Self { nano, format: self.format })
    }

    /// Sum, cut to the range.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self::from_nano(self.nano.saturating_add(other.nano), self.format_with(other))
    }

    /// Difference, cut to the range; may be below zero.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self::from_nano(self.nano.saturating_sub(other.nano), self.format_with(other))
    }

    /// Product with a whole number, cut to the range.
    #[must_use]
    pub fn saturating_mul(self, times: u64) -> Self {
        Self::from_nano(self.nano.saturating_mul(i128::from(times)), self.format)
    }

    fn format_with(self, other: Self) -> Format {
        if self.is_zero() { other.format } else { self.format }
    }
}

impl std::ops::Neg for Quantity {
    type Output = Self;

    fn neg(self) -> Self {
        // The range is symmetric, so the opposite always exists.
        Self { nano: self.nano.saturating_neg(), format: self.format }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nano.hash(state);
    }
}
