//! Samples of the cases of a test: every kill, seed or position in the long mode, a few of them otherwise. Reads no
//! environment and prints nothing: [`sample!`](crate::sample) does both in the test that it stands in.

use std::fmt;

/// The variable that takes all: any value but the empty one.
pub const LONG: &str = "ORLOP_TEST_LONG";

/// The variable that chooses the sample: any text, such as the name of a commit.
pub const SEED: &str = "ORLOP_TEST_SEED";

/// Which of the numbers below `all` a test tries. Iterates over them in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    all: usize,
    numbers: Vec<usize>,
    seed: String,
}

impl Sample {
    /// `few` of the numbers below `all`: one out of each of so many parts of equal length. All of them where `asked` has a
    /// value for [`LONG`], or there are no more than `few`. The numbers follow from what `asked` has for [`SEED`], else from "0".
    #[must_use]
    pub fn new(all: usize, few: usize, asked: impl Fn(&str) -> Option<String>) -> Self {
        let seed = asked(SEED).filter(|text| !text.is_empty()).unwrap_or_else(|| "0".to_owned());
        let long = asked(LONG).is_some_and(|text| !text.is_empty());
        let few = if long { all } else { few.min(all) };
        let mut state = hash(&seed);
        let numbers = (0..few).map(|part| {
            let (begin, end) = (part * all / few, (part + 1) * all / few);
            begin + below(&mut state, end - begin)
        });
        Self { all, numbers: numbers.collect(), seed }
    }

    /// How many numbers there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.numbers.len()
    }

    /// Whether these are all numbers.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.numbers.len() == self.all
    }

    /// A number for generators of the test itself, the same for the same seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        hash(&self.seed)
    }
}

impl IntoIterator for Sample {
    type Item = usize;
    type IntoIter = std::vec::IntoIter<usize>;

    fn into_iter(self) -> Self::IntoIter {
        self.numbers.into_iter()
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}, {SEED}={}", self.numbers.len(), self.all, self.seed)
    }
}

/// FNV-1a, 64 bits.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The next number of a `SplitMix64` generator, below a bound that is not zero.
fn below(state: &mut u64, bound: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) % bound as u64) as usize
}

/// A [`Sample`] of `few` numbers below `all`, as the environment of the test asks for. Prints which, so that a failure can be
/// repeated.
#[macro_export]
macro_rules! sample {
    ($all:expr, $few:expr) => {{
        let sample = $crate::testing::Sample::new($all, $few, |name| ::std::env::var(name).ok());
        ::std::println!("sample: {sample} ({}:{})", ::std::file!(), ::std::line!());
        sample
    }};
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{LONG, SEED, Sample};

    fn with(seed: &str, all: usize, few: usize) -> Vec<usize> {
        Sample::new(all, few, |name| (name == SEED).then(|| seed.to_owned())).into_iter().collect()
    }

    #[test]
    fn the_long_mode_takes_every_number() {
        let sample = Sample::new(100, 3, |name| (name == LONG).then(|| "1".to_owned()));
        assert!(sample.is_whole());
        assert_eq!(sample.into_iter().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_sample_has_one_number_of_each_part_and_is_the_same_for_the_same_seed() {
        for seed in ["", "0", "0ff94a6", "18446744073709551615"] {
            let numbers = with(seed, 100, 7);
            assert_eq!(numbers, with(seed, 100, 7));
            let parts: Vec<usize> = numbers.iter().map(|number| (number * 7 + 6) / 100).collect();
            assert_eq!(parts, (0..7).collect::<Vec<_>>(), "{seed}: {numbers:?}");
        }
    }

    #[test]
    fn no_more_are_taken_than_there_are() {
        assert_eq!(with("a", 3, 3), [0, 1, 2]);
        assert_eq!(with("a", 3, 8), [0, 1, 2]);
        assert_eq!(with("a", 0, 8), [] as [usize; 0]);
        assert_eq!(with("a", 8, 0), [] as [usize; 0]);
    }

    #[test]
    fn seeds_reach_every_number() {
        let reached: BTreeSet<usize> = (0..300).flat_map(|seed| with(&seed.to_string(), 40, 4)).collect();
        assert_eq!(reached.len(), 40);
    }

    #[test]
    fn a_sample_says_how_it_is_repeated() {
        let sample = Sample::new(40, 4, |name| (name == SEED).then(|| "0ff94a6".to_owned()));
        assert_eq!(sample.to_string(), "4 of 40, ORLOP_TEST_SEED=0ff94a6");
    }
}
