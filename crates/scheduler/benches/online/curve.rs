//! Curves: what one element costs over a size, as a table. Owns which curves are wanted, how often each point is measured,
//! and the form of the output; never what is measured.

use std::time::{Duration, Instant};

/// How often each point is measured; the best counts, since everything else on a machine only adds time.
const RUNS: u32 = 5;

/// What was measured at one size: elements, and the time of all of them or how much there is of them.
#[derive(Clone, Copy)]
pub(crate) enum Sample {
    Time { elements: u64, time: Duration },
    Bytes { elements: u64, bytes: u64 },
}

impl Sample {
    /// Runs something on the clock; it says how many elements it was.
    pub(crate) fn time(act: impl FnOnce() -> u64) -> Self {
        let begin = Instant::now();
        let elements = act();
        Self::Time { elements, time: begin.elapsed() }
    }

    /// Nanoseconds or bytes of one element.
    fn each(self) -> f64 {
        match self {
            Self::Time { elements, time } => time.as_secs_f64() * 1e9 / elements.max(1) as f64,
            Self::Bytes { elements, bytes } => bytes as f64 / elements.max(1) as f64,
        }
    }
}

/// A curve by its title.
pub(crate) struct Curve<'a> {
    pub(crate) title: &'a str,
    /// What the sizes count.
    pub(crate) axis: &'a str,
    pub(crate) sizes: &'a [u32],
    /// What the contract asks, in words.
    pub(crate) target: &'a str,
    /// How much dearer an element may be at the last size than at the first, if the contract says so.
    pub(crate) growth: Option<f64>,
}

/// Which curves are wanted.
pub(crate) struct Report {
    words: Vec<String>,
    /// Only whether everything runs: the first size of each curve, once.
    brief: bool,
}

impl Report {
    /// By the arguments of the program; `cargo bench` adds `--bench`, and without it nothing is worth measuring.
    pub(crate) fn of_arguments(arguments: impl Iterator<Item = String>) -> Self {
        let (options, words): (Vec<_>, Vec<_>) = arguments.partition(|argument| argument.starts_with('-'));
        Self { words, brief: !options.iter().any(|option| option == "--bench") }
    }

    /// Whether a title is wanted.
    pub(crate) fn wants(&self, title: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| title.contains(word.as_str()))
    }

    /// Whether it is only asked that everything runs.
    pub(crate) const fn is_brief(&self) -> bool {
        self.brief
    }

    /// Measures a curve, if it is wanted, and prints it. `start` makes ready for a size and returns what is run.
    pub(crate) fn draw<F: FnMut() -> Sample>(&self, curve: &Curve<'_>, mut start: impl FnMut(u32) -> F) {
        if !self.wants(curve.title) {
            return;
        }
        println!("\n{} ({})", curve.title, curve.target);
        println!("{:>12} {:>12} {:>14} {:>8}", curve.axis, "each", "a second", "growth");
        let (sizes, runs) = if self.brief { (1, 1) } else { (curve.sizes.len(), RUNS) };
        let (mut first, mut last) = (None, 0.0);
        for size in curve.sizes.iter().take(sizes) {
            let mut run = start(*size);
            let samples: Vec<Sample> = (0..runs).map(|_| run()).collect();
            let each = samples.iter().map(|sample| sample.each()).fold(f64::INFINITY, f64::min);
            last = each / *first.get_or_insert(each);
            let (cost, rate) = match samples.first() {
                Some(Sample::Time { .. }) => (format!("{each:.1} ns"), format!("{:.0}", 1e9 / each)),
                _ => (format!("{each:.1} B"), String::new()),
            };
            println!("{size:>12} {cost:>12} {rate:>14} {last:>7.2}x");
        }
        if let Some(most) = curve.growth.filter(|_| !self.brief) {
            let verdict = if last <= most { "held" } else { "NOT held" };
            println!("growth {last:.2}x, at most {most}x: {verdict}");
        }
    }
}
