//! How long a failed pod or container waits before it runs again. Owns the formula only.

use std::time::Duration;

use orlop_core::backoff::{Backoff, Growth};

/// The longest delay: 6 minutes.
const CEILING: Duration = Duration::from_secs(360);

/// Delay before the next run after `failures` failures since the last success: nothing after none, then 10 s · 2ᵏ, at
/// most 6 minutes, as the Job controller of Kubernetes waits.
///
/// ```
/// use orlop_cloud::runtime::job::backoff::restart_delay;
/// let seconds: Vec<u64> = [0, 1, 2, 3, 7].map(|n| restart_delay(n).as_secs()).to_vec();
/// assert_eq!(seconds, [0, 10, 20, 40, 360]);
/// ```
#[must_use]
pub fn restart_delay(failures: u32) -> Duration {
    let formula = Backoff {
        growth: Growth::Exponential,
        base: Duration::from_secs(10),
        ceiling: Some(CEILING),
        ..Backoff::default()
    };
    failures.checked_sub(1).map_or(Duration::ZERO, |n| formula.delay(n, 0.0))
}
