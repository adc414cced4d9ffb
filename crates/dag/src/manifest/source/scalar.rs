//! What a plain YAML scalar means: the core schema of YAML 1.2, with octal `0644` as `kubectl` reads it. Owns that
//! table; never sees quoted text.

/// A plain scalar that is not a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Plain {
    /// `null`, `~` or nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number of at most 64 bits with sign.
    Int(i64),
    /// A whole number above that, of 64 bits.
    UInt(u64),
    /// Any other finite number.
    Float(f64),
    /// A number JSON has no form for: infinite or not a number.
    NonFinite,
}

/// Meaning of a plain scalar; `None` for a text.
pub(super) fn resolve(text: &str) -> Option<Plain> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Some(Plain::Null),
        "true" | "True" | "TRUE" => return Some(Plain::Bool(true)),
        "false" | "False" | "FALSE" => return Some(Plain::Bool(false)),
        ".nan" | ".NaN" | ".NAN" => return Some(Plain::NonFinite),
        _ => {}
    }
    let first = *text.as_bytes().first()?;
    if !(first.is_ascii_digit() || matches!(first, b'+' | b'-' | b'.')) {
        return None;
    }
    let (negative, digits) = match first {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    if matches!(digits, ".inf" | ".Inf" | ".INF") {
        return Some(Plain::NonFinite);
    }
    whole(negative, digits).or_else(|| float(text, digits))
}

/// What older readers, `kubectl` among them, take a plain text for: YAML 1.1 has more words for truth values and more
/// forms of numbers.
pub(super) fn older_meaning(text: &str) -> Option<&'static str> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => return Some("true"),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => return Some("false"),
        _ => {}
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let binary = digits
        .strip_prefix("0b")
        .is_some_and(|bits| !bits.is_empty() && bits.bytes().all(|b| matches!(b, b'0' | b'1')));
    let grouped = digits.starts_with(|c: char| c.is_ascii_digit()) && digits.contains('_');
    let number = grouped && digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'_' | b'.'));
    (binary || number).then_some("a number")
}

fn whole(negative: bool, digits: &str) -> Option<Plain> {
    let (radix, digits) = if let Some(hex) = digits.strip_prefix("0x") {
        (16, hex)
    } else if let Some(octal) = digits.strip_prefix("0o") {
        (8, octal)
    } else if digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|b| matches!(b, b'0'..=b'7')) {
        (8, digits)
    } else {
        (10, digits)
    };
    if digits.is_empty() || !digits.bytes().all(|b| char::from(b).is_digit(radix)) {
        return None;
    }
    let Ok(magnitude) = u64::from_str_radix(digits, radix) else {
        return (radix != 10).then_some(Plain::NonFinite);
    };
    Some(match i64::try_from(magnitude) {
        Ok(value) if negative => Plain::Int(-value),
        Ok(value) => Plain::Int(value),
        Err(_) if negative && magnitude == i64::MIN.unsigned_abs() => Plain::Int(i64::MIN),
        #[expect(clippy::cast_precision_loss, reason = "whole numbers past 64 bits are floats, as in JSON")]
        Err(_) if negative => Plain::Float(-(magnitude as f64)),
        Err(_) => Plain::UInt(magnitude),
    })
}

fn float(text: &str, digits: &str) -> Option<Plain> {
    let (mantissa, exponent) = digits.split_once(['e', 'E']).map_or((digits, None), |(m, e)| (m, Some(e)));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let numeric = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !numeric(whole) || !numeric(fraction) {
        return None;
    }
    if let Some(exponent) = exponent {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if exponent.is_empty() || !numeric(exponent) {
            return None;
        }
    }
    let value: f64 = text.parse().ok()?;
    Some(if value.is_finite() { Plain::Float(value) } else { Plain::NonFinite })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn core_schema_texts_have_their_types() {
        let table = [
            ("", Some(Plain::Null)),
            ("~", Some(Plain::Null)),
            ("nULL", None),
            ("True", Some(Plain::Bool(true))),
            ("yes", None),
            ("on", None),
            ("12", Some(Plain::Int(12))),
            ("-0", Some(Plain::Int(0))),
            ("+7", Some(Plain::Int(7))),
            ("0o17", Some(Plain::Int(15))),
            ("0x1F", Some(Plain::Int(31))),
            ("0644", Some(Plain::Int(420))),
            ("0899", Some(Plain::Int(899))),
            ("1_000", None),
            ("12:30", None),
            ("1.5", Some(Plain::Float(1.5))),
            ("1.", Some(Plain::Float(1.0))),
            (".5", Some(Plain::Float(0.5))),
            ("1e3", Some(Plain::Float(1000.0))),
            ("1e400", Some(Plain::NonFinite)),
            (".", None),
            ("-", None),
            ("+", None),
            ("1e", None),
            ("e1", None),
            ("0x", None),
            ("1.2.3", None),
            (".inf", Some(Plain::NonFinite)),
            ("-.INF", Some(Plain::NonFinite)),
            (".nan", Some(Plain::NonFinite)),
            ("infinity", None),
            ("nan", None),
            ("18446744073709551615", Some(Plain::UInt(u64::MAX))),
            ("18446744073709551616", Some(Plain::Float(18_446_744_073_709_551_616.0))),
            ("-9223372036854775808", Some(Plain::Int(i64::MIN))),
            ("0xfffffffffffffffff", Some(Plain::NonFinite)),
            ("2024-01-01", None),
            ("１", None),
        ];
        for (text, meaning) in table {
            assert_eq!(resolve(text), meaning, "{text:?}");
        }
    }

    #[test]
    fn words_of_older_yaml_are_known() {
        for (text, meaning) in
            [("yes", "true"), ("Off", "false"), ("n", "false"), ("1_000", "a number"), ("-0b101", "a number")]
        {
            assert_eq!((resolve(text), older_meaning(text)), (None, Some(meaning)), "{text}");
        }
        for text in ["yES", "note", "a_1", "1_a", "0b2", "0b", "_1", "12:30", "2024-01-01"] {
            assert_eq!((resolve(text), older_meaning(text)), (None, None), "{text}");
        }
    }

    proptest! {
        #[test]
        fn numbers_mean_what_json_says(value in any::<i64>(), fraction in any::<f64>()) {
            prop_assert_eq!(resolve(&value.to_string()), Some(Plain::Int(value)));
            prop_assume!(fraction.is_finite() && fraction.fract() != 0.0);
            prop_assert_eq!(resolve(&format!("{fraction:?}")), Some(Plain::Float(fraction)));
        }

        #[test]
        fn no_text_panics(text in any::<String>()) {
            let _ = resolve(&text);
        }
    }
}
