//! Writing amounts, and their serde. Owns the canonical form of Kubernetes; never loses precision.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Format, MAX_BINARY, NANO, Quantity};

/// Divides by `base` as often as it goes without rest, at most `limit` times; `value` is not 0.
fn strip(mut value: i128, base: i128, limit: u32) -> (i128, u32) {
    let mut times = 0;
    while times < limit && value % base == 0 {
        value /= base;
        times += 1;
    }
    (value, times)
}

fn suffix<'a>(suffixes: &[&'a str], index: u32) -> &'a str {
    suffixes.get(index as usize).copied().unwrap_or_default()
}

impl fmt::Display for Quantity {
    /// The canonical form: a whole number with the largest suffix of its family that needs no fraction.
    ///
    /// A binary amount below 1024, with a fraction, or beyond what a binary text can mean is written in the decimal family,
    /// so nothing is rounded or cut when it is read again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.pad("0");
        }
        let binary = self.format == Format::BinarySi
            && self.nano % NANO == 0
            && (1024 * NANO..=MAX_BINARY).contains(&self.nano.abs());
        let text = if binary {
            let (number, times) = strip(self.nano / NANO, 1024, 6);
            format!("{number}{}", suffix(&["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"], times))
        } else if self.format == Format::DecimalExponent {
            // At most 12 times: the range ends below 10³⁰ units.
            let (number, times) = strip(self.nano, 1000, 12);
            match i64::from(times) * 3 - 9 {
                0 => number.to_string(),
                power => format!("{number}e{power}"),
            }
        } else {
            let (number, times) = strip(self.nano, 1000, 9);
            format!("{number}{}", suffix(&["n", "u", "m", "", "k", "M", "G", "T", "P", "E"], times))
        };
        f.pad(&text)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

struct AsQuantity;

impl Visitor<'_> for AsQuantity {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as \"500m\", \"1.5Gi\" or 2")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
        Ok(Quantity::from_count(number))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
        Ok(Quantity::from_nano(i128::from(number) * NANO, Format::DecimalSi))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
        // The shortest decimal text of the number is what the author wrote; the amount itself stays exact.
        number.to_string().parse().map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    /// Takes a text, or a plain number as Kubernetes does.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AsQuantity)
    }
}
