//! Bytes as a source of choices. Past their end everything is zero, so that every text of bytes decodes.

/// A source of choices.
#[derive(Debug)]
pub(super) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next byte.
    pub(super) fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    /// A number below `n`, 0 where `n` is.
    pub(super) fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()).checked_rem(n).unwrap_or(0)
    }

    /// True in `n` of 256 cases; false once the bytes have ended.
    pub(super) fn chance(&mut self, n: u8) -> bool {
        let byte = self.byte();
        byte > 0 && byte <= n
    }

    /// Cuts off the next `n` bytes.
    pub(super) fn take(&mut self, n: usize) -> Self {
        let (taken, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        Self(taken)
    }

    /// Whether nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
