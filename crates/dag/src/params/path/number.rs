//! Comparison of JSON numbers by value: `1` equals `1.0`, and no two different numbers are equal. Owns nothing else.

use std::cmp::Ordering;

use serde_json::Number;

/// How two numbers compare, exactly also between integers and doubles.
pub(super) fn compare(left: &Number, right: &Number) -> Option<Ordering> {
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        (Some(left), None) => integer_and_double(left, right.as_f64()?),
        (None, Some(right)) => integer_and_double(right, left.as_f64()?).map(Ordering::reverse),
        (None, None) => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

/// How an integer of at most 64 bits and a double compare.
fn integer_and_double(integer: i128, double: f64) -> Option<Ordering> {
    /// 2⁶⁴, above every integer a JSON value holds.
    const BEYOND: f64 = 18_446_744_073_709_551_616.0;
    if double.is_nan() {
        return None;
    }
    if double >= BEYOND {
        return Some(Ordering::Less);
    }
    if double <= -BEYOND {
        return Some(Ordering::Greater);
    }
    // Within the bounds above the cut to an integer is exact.
    let whole = double.trunc() as i128;
    Some(integer.cmp(&whole).then_with(|| 0.0.partial_cmp(&double.fract()).unwrap_or(Ordering::Equal)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(text: &str) -> Number {
        text.parse().unwrap()
    }

    #[test]
    fn numbers_compare_by_value() {
        use Ordering::{Equal, Greater, Less};
        for (left, right, want) in [
            ("1", "1.0", Equal),
            ("-0", "0", Equal),
            ("1e2", "100", Equal),
            ("0.1", "0.10000000000000002", Less),
            ("1e-17", "2e-17", Less),
            ("9007199254740993", "9007199254740992", Greater),
            ("9007199254740993", "9007199254740992.0", Greater),
            ("18446744073709551615", "18446744073709551616", Less),
            ("18446744073709551615", "1e300", Less),
            ("-9223372036854775808", "-1e300", Greater),
            ("-1", "-1.5", Greater),
            ("1", "1.5", Less),
            ("0", "-0.5", Greater),
        ] {
            assert_eq!(compare(&number(left), &number(right)), Some(want), "{left} {right}");
            assert_eq!(compare(&number(right), &number(left)), Some(want.reverse()), "{right} {left}");
        }
    }

    proptest! {
        #[test]
        fn small_integers_compare_as_doubles(left in -1_000_000_000_i64..1_000_000_000, right in any::<f32>()) {
            prop_assume!(right.is_finite());
            let right = f64::from(right);
            let got = compare(&Number::from(left), &Number::from_f64(right).unwrap());
            prop_assert_eq!(got, (left as f64).partial_cmp(&right));
        }
    }
}
