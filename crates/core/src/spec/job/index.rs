//! Indices of an array as text: `0-99,200`, `0-10:2`. Owns reading, writing and counting them; knows nothing of jobs.

use std::fmt;
use std::str::FromStr;

/// The most ranges a text may have.
const RANGES: usize = 10_000;

/// A text that is no set of indices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// Nothing was given.
    #[error("is empty; use indices and ranges such as `0-99,200` or `0-10:2`")]
    Empty,
    /// A part is neither a number nor a range.
    #[error("`{0}` is not an index; use indices and ranges such as `0-99,200` or `0-10:2`, up to 4294967294")]
    Part(String),
    /// A range ends before it begins.
    #[error("`{0}-{1}` ends before it begins; use `{1}-{0}`")]
    Backwards(u32, u32),
    /// An index occurs twice.
    #[error("index {0} is given twice; give each once")]
    Twice(u32),
    /// Too many parts.
    #[error("has more than {RANGES} parts; use ranges")]
    TooMany,
}

/// A set of indices: inclusive ranges in order, which neither touch nor overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Indices(Vec<(u32, u32)>);

impl Indices {
    /// 0 to `count` − 1; none for 0.
    #[must_use]
    pub fn first(count: u32) -> Self {
        Self(count.checked_sub(1).map(|last| (0, last)).into_iter().collect())
    }

    /// The ranges.
    #[must_use]
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// How many indices there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(first, last)| u64::from(*last) - u64::from(*first) + 1).sum()
    }

    /// The first index from `from` on that is among them, with the last one of its range.
    #[must_use]
    pub fn from(&self, from: u32) -> Option<(u32, u32)> {
        let at = self.0.partition_point(|(_, last)| *last < from);
        self.0.get(at).map(|(first, last)| ((*first).max(from), *last))
    }

    /// The only index there is; none if there are several.
    #[must_use]
    pub fn single(&self) -> Option<u32> {
        match self.0.as_slice() {
            [(first, last)] if first == last => Some(*first),
            _ => None,
        }
    }

    /// Whether an index is among them.
    #[must_use]
    pub fn contains(&self, index: u32) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(at).is_some_and(|(first, _)| *first <= index)
    }
}

impl FromStr for Indices {
    type Err = IndexError;

    fn from_str(text: &str) -> Result<Self, IndexError> {
        if text.trim().is_empty() {
            return Err(IndexError::Empty);
        }
        let mut ranges = Vec::new();
        for part in text.split(',').map(str::trim) {
            let wrong = || IndexError::Part(super::read::shown(part));
            let number = |digits: &str| -> Option<u32> {
                let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                digits.parse().ok().filter(|number| plain && *number < u32::MAX)
            };
            let (range, step) = match part.split_once(':') {
                Some((range, step)) if range.contains('-') => (range, number(step).filter(|step| *step > 0)),
                Some(_) => (part, None),
                None => (part, Some(1)),
            };
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (number(first).ok_or_else(wrong)?, number(last).ok_or_else(wrong)?);
            let step = step.ok_or_else(wrong)?;
            if last < first {
                return Err(IndexError::Backwards(first, last));
            }
            let more = if step == 1 { 1 } else { (last - first) as usize / step as usize + 1 };
            if ranges.len().saturating_add(more) > RANGES {
                return Err(IndexError::TooMany);
            }
            if step == 1 {
                ranges.push((first, last));
            } else {
                ranges.extend((first..=last).step_by(step as usize).map(|index| (index, index)));
            }
        }
        ranges.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match joined.last_mut() {
                Some((_, end)) if *end >= first => return Err(IndexError::Twice(first)),
                Some((_, end)) if *end + 1 == first => *end = last,
                _ => joined.push((first, last)),
            }
        }
        Ok(Self(joined))
    }
}

impl fmt::Display for Indices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (first, last)) in self.0.iter().enumerate() {
            f.write_str(if number == 0 { "" } else { "," })?;
            if first == last { write!(f, "{first}")? } else { write!(f, "{first}-{last}")? }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn indices_are_read_sorted_and_joined() {
        let indices: Indices = "200, 0-9,10-99".parse().unwrap();
        assert_eq!((indices.to_string().as_str(), indices.count()), ("0-99,200", 101));
        assert!(indices.contains(0) && indices.contains(99) && indices.contains(200));
        assert!(!indices.contains(100) && !indices.contains(201));
        assert_eq!((indices.from(50), indices.from(100), indices.from(201)), (Some((50, 99)), Some((200, 200)), None));
        assert_eq!((indices.single(), "7".parse::<Indices>().unwrap().single()), (None, Some(7)));
        assert_eq!((Indices::first(3).to_string(), Indices::first(0).count()), ("0-2".into(), 0));
    }

    #[test]
    fn ranges_may_have_a_step() {
        let text = |text: &str| text.parse::<Indices>().map(|indices| indices.to_string());
        assert_eq!(text("0-10:2"), Ok("0,2,4,6,8,10".into()));
        assert_eq!(text("1-9:4,2"), Ok("1-2,5,9".into()));
        assert_eq!((text("0-9:1"), text("3-5:100")), (Ok("0-9".into()), Ok("3".into())));
        for bad in ["0-9:0", "5:2", "0-9:", "0-9:2:2", "0-9:-1", ":2"] {
            assert!(text(bad).is_err(), "{bad}");
        }
        assert_eq!(text("0-4294967294:2"), Err(IndexError::TooMany));
    }

    #[test]
    fn wrong_indices_say_what_is_wrong() {
        let error = |text: &str| text.parse::<Indices>().unwrap_err();
        insta::assert_snapshot!(error(" "), @"is empty; use indices and ranges such as `0-99,200` or `0-10:2`");
        insta::assert_snapshot!(error("0-99,x"), @"`x` is not an index; use indices and ranges such as `0-99,200` or `0-10:2`, up to 4294967294");
        insta::assert_snapshot!(error("9-1"), @"`9-1` ends before it begins; use `1-9`");
        insta::assert_snapshot!(error("0-9,5"), @"index 5 is given twice; give each once");
        for bad in ["-", "1-", "-1", "1--2", "+1", "1,", "4294967295", "1-2-3"] {
            assert!(bad.parse::<Indices>().is_err(), "{bad}");
        }
        assert_eq!(vec!["0"; RANGES + 1].join(",").parse::<Indices>(), Err(IndexError::TooMany));
    }

    proptest! {
        #[test]
        fn indices_read_back(numbers in prop::collection::btree_set(0..500_u32, 1..60)) {
            let text = numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            let indices: Indices = text.parse().unwrap();
            prop_assert_eq!(indices.count(), numbers.len() as u64);
            prop_assert!((0..500).all(|index| indices.contains(index) == numbers.contains(&index)));
            prop_assert_eq!(indices.to_string().parse(), Ok(indices));
        }
    }
}
