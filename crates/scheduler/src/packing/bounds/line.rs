//! Bounds in one dimension: dual feasible functions and L2 of Martello and Toth. Owns whole numbers on a line; never knows
//! vectors.

/// How many thresholds ε are tried; more are thinned out evenly.
const THRESHOLDS: usize = 500;

/// The greatest k of u_k.
const GREATEST_K: u64 = 100;

/// Steps that u_k may take in all; past them only smaller k are tried.
const STEPS: u64 = 4_000_000;

/// Sizes on a line, at most the capacity each: distinct values with counts, ascending, and sums before each.
pub(super) struct Line {
    capacity: u64,
    values: Vec<(u64, u64)>,
    /// Items and their sum among the first so many values.
    before: Vec<(u64, u128)>,
}

impl Line {
    pub(super) fn new(mut sizes: Vec<u64>, capacity: u64) -> Self {
        sizes.sort_unstable();
        let mut values: Vec<(u64, u64)> = Vec::new();
        for size in sizes.into_iter().filter(|size| *size > 0) {
            match values.last_mut() {
                Some((value, count)) if *value == size => *count += 1,
                _ => values.push((size, 1)),
            }
        }
        let mut before = vec![(0, 0)];
        let (mut items, mut sum) = (0, 0);
        for (value, count) in &values {
            items += count;
            sum += u128::from(*value) * u128::from(*count);
            before.push((items, sum));
        }
        Self { capacity, values, before }
    }

    /// How many values are below a limit.
    fn below(&self, limit: u64) -> usize {
        self.values.partition_point(|(value, _)| *value < limit)
    }

    /// How many values are at most a limit.
    fn up_to(&self, limit: u64) -> usize {
        self.values.partition_point(|(value, _)| *value <= limit)
    }

    /// Count and sum of the values of a range of positions.
    fn between(&self, from: usize, to: usize) -> (u64, u128) {
        let (low, high) = (self.before[from.min(to)], self.before[to]);
        (high.0 - low.0, high.1 - low.1)
    }

    /// Values up to half the capacity, thinned out: the thresholds at which the functions change.
    fn thresholds(&self) -> impl Iterator<Item = u64> {
        let half = self.up_to(self.capacity / 2);
        let step = half.div_ceil(THRESHOLDS).max(1);
        let small = self.values[..half].iter().step_by(step).map(|(value, _)| *value);
        let least_large = self.capacity / 2;
        small.chain((least_large > 0).then_some(least_large))
    }

    /// The greatest of ⌈Σ U_ε(x)⌉, ⌈Σ u_k(x)⌉ and ⌈Σ φ_ε(x)⌉.
    pub(super) fn dual_feasible(&self) -> usize {
        if self.capacity == 0 {
            return 0;
        }
        let mut best = 0;
        for threshold in self.thresholds() {
            best = best.max(self.rounding_up(threshold)).max(self.rounding_down(threshold));
        }
        let most_k = (STEPS / self.values.len().max(1) as u64).clamp(2, GREATEST_K);
        (1..=most_k).fold(best, |best, k| best.max(self.stepped(k)))
    }

    /// U_ε: 1 above 1 − ε, 0 below ε, the identity between.
    fn rounding_up(&self, threshold: u64) -> usize {
        let large = self.up_to(self.capacity - threshold);
        let (full, _) = self.between(large, self.values.len());
        let (_, kept) = self.between(self.below(threshold), large);
        (u128::from(full) + kept.div_ceil(u128::from(self.capacity))) as usize
    }

    /// φ_ε: whole numbers of the small sizes that fit one bin, ⌊1/ε⌋.
    fn rounding_down(&self, threshold: u64) -> usize {
        let fit = self.capacity / threshold;
        let half = self.up_to(self.capacity / 2);
        let (small, _) = self.between(self.below(threshold), half);
        let large = self.values[half..].iter();
        let of =
            |(value, count): &(u64, u64)| u128::from(fit - (self.capacity - value) / threshold) * u128::from(*count);
        let sum = u128::from(small) + large.map(of).sum::<u128>();
        sum.div_ceil(u128::from(fit)) as usize
    }

    /// u_k: x where (k+1)·x is whole, else ⌊(k+1)·x⌋/k.
    fn stepped(&self, k: u64) -> usize {
        let (mut whole, mut steps) = (0_u128, 0_u128);
        let scale = u128::from(k) + 1;
        let short = u64::try_from(u128::from(self.capacity) * scale).is_ok();
        for &(value, count) in &self.values {
            let (quotient, remainder) = if short {
                let scaled = value * (k + 1);
                (u128::from(scaled / self.capacity), scaled.is_multiple_of(self.capacity))
            } else {
                let scaled = u128::from(value) * scale;
                (scaled / u128::from(self.capacity), scaled.is_multiple_of(u128::from(self.capacity)))
            };
            if remainder {
                whole += u128::from(value) * u128::from(count);
            } else {
                steps += quotient * u128::from(count);
            }
        }
        // Σ = whole/C + steps/k, as steps + whole·k/C over k.
        let (capacity, k) = (u128::from(self.capacity), u128::from(k));
        let bins = whole / capacity;
        let rest = (whole % capacity * k).div_ceil(capacity);
        (bins + (steps + rest).div_ceil(k)) as usize
    }

    /// L2: the large items, and the volume of others that does not fit beside them, over thresholds.
    pub(super) fn martello_toth(&self) -> usize {
        let half = self.up_to(self.capacity / 2);
        let of = |threshold: u64| {
            let lonely = self.up_to(self.capacity - threshold).max(half);
            let (alone, _) = self.between(lonely, self.values.len());
            let (large, large_sum) = self.between(half, lonely);
            let (_, small) = self.between(self.below(threshold), half);
            let beside = u128::from(large) * u128::from(self.capacity) - large_sum;
            let more =
                if self.capacity == 0 { 0 } else { small.saturating_sub(beside).div_ceil(u128::from(self.capacity)) };
            (u128::from(alone) + u128::from(large) + more) as usize
        };
        self.thresholds().map(of).chain([of(0)]).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(sizes: &[u64], capacity: u64) -> Line {
        Line::new(sizes.to_vec(), capacity)
    }

    #[test]
    fn u_epsilon_makes_large_items_whole() {
        // 3 × 60 fill bins once items below 41 no longer count.
        assert_eq!(line(&[60, 60, 60], 100).rounding_up(41), 3);
        assert_eq!(line(&[60, 60, 60], 100).rounding_up(40), 2);
        assert_eq!(line(&[60, 60, 60, 40], 100).rounding_up(41), 3);
    }

    #[test]
    fn u_k_counts_whole_steps() {
        // 34 of 100: ⌊2·0.34⌋ = 0 for k = 1, ⌊3·0.34⌋ = 1 of 2 for k = 2.
        assert_eq!(line(&[34; 6], 100).stepped(1), 0);
        assert_eq!(line(&[34; 6], 100).stepped(2), 3);
        // 50 of 100 is a whole step of k = 1 and stays itself.
        assert_eq!(line(&[50; 6], 100).stepped(1), 3);
        assert_eq!(line(&[u64::MAX; 3], u64::MAX).stepped(100), 3);
    }

    #[test]
    fn phi_counts_small_items_that_fit() {
        // Three of 26 fit, and beside 60 only one of them.
        assert_eq!(line(&[26; 7], 100).rounding_down(26), 3);
        assert_eq!(line(&[60, 60, 26, 26, 26, 26], 100).rounding_down(26), 3);
    }

    #[test]
    fn counts_what_does_not_fit_beside_large_items() {
        assert_eq!(line(&[70, 70, 40, 40], 100).martello_toth(), 3);
        assert_eq!(line(&[51, 51, 51], 100).martello_toth(), 3);
        assert_eq!(line(&[], 100).martello_toth(), 0);
        assert_eq!(line(&[0, 0], 0).martello_toth(), 0);
    }

    #[test]
    fn extreme_sizes_do_not_overflow() {
        for capacity in [1, 2, 3, u64::MAX - 1, u64::MAX] {
            let line = line(&[capacity, capacity, 1, capacity / 2 + 1], capacity);
            assert!((3..=4).contains(&line.dual_feasible()), "{capacity} {}", line.dual_feasible());
            assert!((2..=4).contains(&line.martello_toth()));
        }
    }
}
