//! Figures of several repetitions. Owns how they are summed up and shown.

/// Figures, in the order they were taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn add(&mut self, figure: f64) {
        self.0.push(figure);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The figure below which a part of them lies; 0 where there are none.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let at = (part * sorted.len().saturating_sub(1) as f64).round() as usize;
        sorted.get(at).copied().unwrap_or_default()
    }

    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Figure by figure, divided by another's of the same repetition.
    pub(crate) fn over(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(own, other)| own / other).collect())
    }
}

/// Which of two sides begins in a repetition: they take turns.
pub(crate) const fn sides(turn: usize) -> [usize; 2] {
    if turn.is_multiple_of(2) { [0, 1] } else { [1, 0] }
}

/// A number that is easy to read.
pub(crate) fn readable(figure: f64) -> String {
    match figure.abs() {
        size if size >= 1000.0 => {
            let digits = format!("{figure:.0}");
            let mut text = String::new();
            for (at, digit) in digits.chars().enumerate() {
                if at > 0 && (digits.len() - at) % 3 == 0 {
                    text.push(',');
                }
                text.push(digit);
            }
            text
        }
        size if size >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

/// Prints a line: what, the median with its spread, and the target.
pub(crate) fn line(what: &str, samples: &Samples, unit: &str, target: &str) {
    let (least, most) = (readable(samples.quantile(0.0)), readable(samples.quantile(1.0)));
    let spread = if samples.len() > 1 { format!(" ({least}–{most})") } else { String::new() };
    let target = if target.is_empty() { String::new() } else { format!("   target {target}") };
    println!("  {what:<44} {:>12}{unit}{spread}{target}", readable(samples.median()));
}

/// Prints quantiles of times in milliseconds.
pub(crate) fn times(what: &str, samples: &Samples, target: &str) {
    let of = |part: f64| readable(samples.quantile(part));
    let target = if target.is_empty() { String::new() } else { format!("   target {target}") };
    println!("  {what:<44} p50 {} ms, p90 {} ms, p99 {} ms{target}", of(0.5), of(0.9), of(0.99));
}
