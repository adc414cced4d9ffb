//! Where a random world takes its choices from: the bytes of an input, or a seed. Owns the draw; equal sources draw equally.

use crate::table::mix;

/// A source of choices.
#[derive(Clone, Debug)]
pub struct Choices<'a> {
    bytes: &'a [u8],
    /// After the bytes: absent = choices end.
    seed: Option<u64>,
}

impl<'a> Choices<'a> {
    /// Choices by the bytes of an input; they end with it.
    #[must_use]
    pub const fn from_bytes(bytes: &'a [u8]) -> Self {
        Self { bytes, seed: None }
    }

    /// Choices by a seed; they never end.
    #[must_use]
    pub const fn from_seed(seed: u64) -> Self {
        Self { bytes: &[], seed: Some(seed) }
    }

    /// Whether nothing is left to choose by.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.bytes.is_empty() && self.seed.is_none()
    }

    fn byte(&mut self) -> u64 {
        if let Some((first, rest)) = self.bytes.split_first() {
            self.bytes = rest;
            return u64::from(*first);
        }
        match &mut self.seed {
            Some(seed) => {
                *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
                mix(*seed) >> 56
            }
            None => 0,
        }
    }

    /// A number below `end`, 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        let mut drawn = self.byte();
        if end > 256 {
            drawn = drawn << 8 | self.byte();
        }
        if end > 65_536 {
            drawn = (0..6).fold(drawn, |drawn, _| drawn << 8 | self.byte());
        }
        drawn.checked_rem(end).unwrap_or(0)
    }

    /// One of a list; none if it is empty.
    pub fn pick<T: Clone>(&mut self, list: &[T]) -> Option<T> {
        let at = self.below(list.len() as u64);
        list.get(usize::try_from(at).unwrap_or(0)).cloned()
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
