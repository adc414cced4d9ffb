//! How long the phases of a batch took.

use std::time::Instant;

use crate::telemetry::metrics::Metrics;

/// The stopwatch of a batch.
#[derive(Debug)]
pub(super) struct Phases {
    since: Instant,
    ended: Vec<(&'static str, f64)>,
}

impl Phases {
    pub(super) fn begin(now: Instant) -> Self {
        Self { since: now, ended: Vec::with_capacity(3) }
    }

    /// A phase ends, and the next begins.
    pub(super) fn end(&mut self, phase: &'static str) {
        let now = Instant::now();
        self.ended.push((phase, now.duration_since(self.since).as_secs_f64()));
        self.since = now;
    }

    pub(super) fn report(self, metrics: &Metrics) {
        for (phase, seconds) in self.ended {
            metrics.scheduler.batch.of([phase]).observe(seconds);
        }
    }
}
