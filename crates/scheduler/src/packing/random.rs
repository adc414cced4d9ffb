//! The seeded generator of numbers behind kicks, surrogate weights and instances: xoshiro256** seeded by SplitMix64
//! (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021). Owns the stream; never reads entropy.

/// A stream of numbers that depends on its seed alone.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: [u64; 4],
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let mut at = seed;
        Self { state: std::array::from_fn(|_| split_mix(&mut at)) }
    }

    /// A stream named by a text: FNV-1a of it is the seed.
    pub(crate) fn named(name: &str) -> Self {
        let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        Self::new(name.bytes().fold(0xcbf2_9ce4_8422_2325, fold))
    }

    pub(crate) fn next(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A number below `bound`, 0 if `bound` is 0. The bias is below 2⁻³² for the bounds used here.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let wide = u128::from(self.next()) * bound as u128;
        (wide >> 64) as usize
    }

    /// A number of the closed range; `least` if the range is empty.
    pub(crate) fn within(&mut self, least: u64, most: u64) -> u64 {
        let width = u128::from(most.saturating_sub(least)) + 1;
        least + ((u128::from(self.next()) * width) >> 64) as u64
    }

    /// A number of mean 0 and deviation 1, normal to the eye and the same on every machine: twelve uniform numbers less
    /// six (Irwin–Hall), since logarithms differ between mathematical libraries.
    pub(crate) fn normal(&mut self) -> f64 {
        let sum: u64 = (0..12).map(|_| self.next() >> 32).sum();
        sum as f64 / 4_294_967_296.0 - 6.0
    }

    /// Fisher and Yates.
    pub(crate) fn shuffle<T>(&mut self, of: &mut [T]) {
        for end in (1..of.len()).rev() {
            let chosen = self.below(end + 1);
            of.swap(end, chosen);
        }
    }
}

fn split_mix(at: &mut u64) -> u64 {
    *at = at.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*at ^ (*at >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_names_one_stream() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            [random.next(), random.next(), random.next()]
        };
        assert_eq!(numbers(0), numbers(0));
        assert_ne!(numbers(0), numbers(1));
        assert_eq!(numbers(0), [11_091_344_671_253_066_420, 13_793_997_310_169_335_082, 1_900_383_378_846_508_768]);
    }

    #[test]
    fn ranges_are_closed_and_met_at_both_ends() {
        let mut random = Random::named("ranges");
        let drawn: std::collections::BTreeSet<u64> = (0..1000).map(|_| random.within(3, 7)).collect();
        assert_eq!(drawn, (3..=7).collect());
        assert_eq!(random.below(0), 0);
        assert_eq!(random.within(5, 5), 5);
        assert!((0..100).any(|_| random.within(0, u64::MAX) > u64::MAX / 2));
    }

    #[test]
    fn normal_numbers_have_mean_zero_and_deviation_one() {
        let mut random = Random::new(7);
        let drawn: Vec<f64> = (0..20_000).map(|_| random.normal()).collect();
        let mean = drawn.iter().sum::<f64>() / 20_000.0;
        let variance = drawn.iter().map(|x| x * x).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }
}
