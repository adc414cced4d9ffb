//! Reading amounts. Owns the grammar and exact rounding of texts of any length; never allocates for valid input.

use std::str::FromStr;

use super::{Format, MAX_BINARY, NANO, Quantity};

/// How much of a refused text a message shows, in characters.
const SHOWN: usize = 64;

/// A text that is not an amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// Nothing was given.
    #[error("quantity is empty; write a number with an optional suffix, for example `500m`, `2`, `1.5Gi`, `1e3`")]
    Empty,
    /// No digit where the number should stand.
    #[error("quantity `{given}` has no digits; write a number with an optional suffix, for example `500m` or `1.5Gi`")]
    NoDigits {
        /// The text, escaped and cut to 64 characters.
        given: String,
    },
    /// What follows the number is not a suffix.
    #[error(
        "quantity `{given}` ends in `{suffix}`, which is not a valid suffix; allowed are n u m k M G T P E, Ki Mi Gi Ti Pi Ei, \
         or an exponent such as e3{hint}"
    )]
    Suffix {
        /// The text, escaped and cut to 64 characters.
        given: String,
        /// What follows the number, escaped and cut.
        suffix: String,
        /// What was probably meant.
        hint: &'static str,
    },
}

fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

/// What a suffix multiplies by.
enum Factor {
    /// Ten to this power, and the family it belongs to.
    Ten(i64, Format),
    /// Two to this power; at most 60.
    Two(u32),
}

fn factor(suffix: &str) -> Option<Factor> {
    let decimal = |power| Some(Factor::Ten(power, Format::DecimalSi));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => Some(Factor::Two(10)),
        "Mi" => Some(Factor::Two(20)),
        "Gi" => Some(Factor::Two(30)),
        "Ti" => Some(Factor::Two(40)),
        "Pi" => Some(Factor::Two(50)),
        "Ei" => Some(Factor::Two(60)),
        _ => exponent(suffix.strip_prefix(['e', 'E'])?).map(|power| Factor::Ten(power, Format::DecimalExponent)),
    }
}

/// A signed whole number; beyond ±10¹⁷ it stays there, which is far outside the range of any amount.
fn exponent(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() {
        return None;
    }
    let size = digits.bytes().try_fold(0_i64, |size, byte| {
        let digit = byte.is_ascii_digit().then(|| i64::from(byte - b'0'))?;
        Some((size.min(10_000_000_000_000_000) * 10).saturating_add(digit))
    })?;
    Some(if negative { -size } else { size })
}

/// What was probably meant by a suffix that does not exist.
fn hint(suffix: &str) -> &'static str {
    match suffix.trim() {
        "K" => " (thousands are `k`, 1024s are `Ki`)",
        "g" | "gb" | "GB" | "Gb" => " (use `G` or `Gi`)",
        "mb" | "MB" | "Mb" => " (use `M` or `Mi`)",
        "kb" | "KB" | "kB" => " (use `k` or `Ki`)",
        "ki" => " (use `Ki`)",
        "mi" => " (use `Mi`)",
        "gi" => " (use `Gi`)",
        known if known != suffix => " (remove the blanks)",
        _ => "",
    }
}

/// Digits before and after the point.
struct Number<'a> {
    whole: &'a [u8],
    part: &'a [u8],
}

impl Number<'_> {
    fn digits(&self) -> impl DoubleEndedIterator<Item = u8> {
        self.whole.iter().chain(self.part).map(|byte| byte.saturating_sub(b'0'))
    }

    /// The number times 10^`power`, in nano units, rounded up; at most `i128::MAX`. Exact for any number of digits.
    fn times_ten(&self, power: i64) -> i128 {
        let leading = self.digits().take_while(|digit| *digit == 0).count();
        let mut digits = self.digits().skip(leading);
        let significant = self.whole.len() + self.part.len() - leading;
        if significant == 0 {
            return 0;
        }
        // So many digits stand before the point once the number is counted in nano units.
        let position = self.whole.len() as i128 - leading as i128 + i128::from(power) + 9;
        if position > 39 {
            return i128::MAX;
        }
        let mut nano = 0_i128;
        for _ in 0..position {
            let digit = i128::from(digits.next().unwrap_or(0));
            match nano.checked_mul(10).and_then(|nano| nano.checked_add(digit)) {
                Some(more) => nano = more,
                None => return i128::MAX,
            }
        }
        if digits.any(|digit| digit != 0) { nano.saturating_add(1) } else { nano }
    }

    /// The number times 2^`power`, in nano units, rounded up; at most `MAX_BINARY`. Exact for any number of digits.
    fn times_two(&self, power: u32) -> i128 {
        let one = NANO << power;
        let mut whole = 0_i128;
        for byte in self.whole {
            whole = (whole * 10 + i128::from(byte.saturating_sub(b'0'))).min(MAX_BINARY);
        }
        // Horner from the last digit: at each place the carry is the exact floor, and `more` says whether something
        // was cut off, so that a single rounding at the end is right.
        let (mut carry, mut more) = (0_i128, false);
        for byte in self.part.iter().rev() {
            let sum = one * i128::from(byte.saturating_sub(b'0')) + carry;
            carry = sum / 10;
            more |= sum % 10 != 0;
        }
        whole.saturating_mul(one).saturating_add(carry).saturating_add(i128::from(more)).min(MAX_BINARY)
    }
}

fn split_digits(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len());
    bytes.split_at(end)
}

impl FromStr for Quantity {
    type Err = QuantityError;

    /// Reads `[+-]digits[.digits]suffix`; digits may be missing on one side of the point. Blanks are not allowed.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Empty);
        }
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, rest) = split_digits(unsigned.as_bytes());
        let (part, rest) = rest.strip_prefix(b".").map_or((&[][..], rest), split_digits);
        let suffix = unsigned.get(unsigned.len() - rest.len()..).unwrap_or_default();
        if whole.is_empty() && part.is_empty() {
            return Err(QuantityError::NoDigits { given: shown(text) });
        }
        let number = Number { whole, part };
        let (nano, format) = match factor(suffix) {
            Some(Factor::Ten(power, format)) => (number.times_ten(power), format),
            Some(Factor::Two(power)) => match number.times_two(power) {
                // Kubernetes shows what is not even one unit in the decimal family.
                nano if nano < NANO => (nano, Format::DecimalSi),
                nano => (nano, Format::BinarySi),
            },
            None => {
                return Err(QuantityError::Suffix { given: shown(text), suffix: shown(suffix), hint: hint(suffix) });
            }
        };
        Ok(Self { nano: if negative { -nano } else { nano }, format })
    }
}
