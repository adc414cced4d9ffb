//! Names and uids that look random and are counted: equal seeds give equal ones.

/// The letters of generated names: none that spell words.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A source of names and uids.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    seed: u64,
    drawn: u64,
}

impl Random {
    /// The source with that seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        mix(self.seed ^ mix(self.drawn))
    }

    /// A uid in the form of a version 4 UUID.
    pub(crate) fn uid(&mut self) -> String {
        let (high, low) = (self.draw(), self.draw());
        let (a, b, c) = (high >> 32, (high >> 16) & 0xffff, high & 0xfff);
        let (d, e) = ((low >> 48) & 0x3fff | 0x8000, low & 0xffff_ffff_ffff);
        format!("{a:08x}-{b:04x}-4{c:03x}-{d:04x}-{e:012x}")
    }

    /// The five letters behind a `generateName`.
    pub(crate) fn suffix(&mut self) -> String {
        let mut value = self.draw();
        let mut text = String::with_capacity(5);
        for _ in 0..5 {
            let index = usize::try_from(value % 27).unwrap_or_default();
            text.push(char::from(LETTERS.get(index).copied().unwrap_or(b'x')));
            value /= 27;
        }
        text
    }
}

/// A well-mixing bijection of 64-bit numbers (the finalizer of SplitMix64).
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
