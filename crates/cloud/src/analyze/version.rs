//! Versions of two numbers: CUDA, Python, frameworks.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A version by its first two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number, zero if there is none.
    pub minor: u32,
}

impl Version {
    /// A version of two numbers.
    #[must_use]
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Reads the first two numbers of a text such as `3.8.10`, `v12` or `2.1.0+cu121`.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim().trim_start_matches(['v', 'V', '=']);
        let mut parts = text.split('.');
        let (major, rest) = leading_number(parts.next()?)?;
        let minor =
            if rest.is_empty() { parts.next().and_then(leading_number).map_or(0, |(number, _)| number) } else { 0 };
        Some(Self { major, minor })
    }

    /// Reads the digits of a wheel tag: `121` is 12.1, `118` is 11.8, `92` is 9.2, `12` is 12.0.
    #[must_use]
    pub fn of_digits(digits: &str) -> Option<Self> {
        let whole: u32 = digits.parse().ok()?;
        match digits.len() {
            1 => Some(Self::new(whole, 0)),
            2 if whole < 20 => Some(Self::new(whole, 0)),
            2 | 3 => Some(Self::new(whole / 10, whole % 10)),
            _ => None,
        }
    }
}

fn leading_number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|ch: char| !ch.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, rest))
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::read(&text).ok_or_else(|| D::Error::custom("not a version"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_by_their_first_two_numbers() {
        let cases = [
            ("3.8.10", Some((3, 8))),
            ("v12", Some((12, 0))),
            ("2.1.0+cu121", Some((2, 1))),
            ("2.1*", Some((2, 1))),
            ("3.*", Some((3, 0))),
            ("11rc1.4", Some((11, 0))),
            ("", None),
            ("x", None),
            ("99999999999", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(Version::read(text), wanted.map(|(major, minor)| Version::new(major, minor)), "{text}");
        }
    }

    #[test]
    fn wheel_tags_are_versions_without_the_dot() {
        let tags = ["121", "118", "92", "12", "11", "9"].map(|tag| Version::of_digits(tag).unwrap().to_string());
        assert_eq!(tags, ["12.1", "11.8", "9.2", "12.0", "11.0", "9.0"]);
        assert_eq!(Version::of_digits("12345"), None);
        assert_eq!(Version::of_digits("x"), None);
    }
}
