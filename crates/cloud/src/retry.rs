//! Doing again what may come to work: with growing delays, as long as its errors are worth it. Owns delays; the caller
//! knows what is worth how many tries.

use std::time::Duration;

use orlop_core::backoff::Backoff;
use orlop_core::error::Problem;

/// Delay before try `n` + 1: 1 s · 2ⁿ, at most a minute, or what the other side asked for.
pub(crate) fn delay(n: u32, error: &Problem) -> Duration {
    let formula = Backoff { ceiling: Some(Duration::from_secs(60)), ..Backoff::default() };
    error.retry_after.unwrap_or_else(|| formula.delay(n, 0.0))
}

/// Does it at most `limit` times, as long as its errors are worth it.
///
/// # Errors
/// The last one.
pub(crate) async fn attempt<T, F: Future<Output = Result<T, Problem>>>(
    limit: u32,
    work: impl FnMut() -> F,
) -> Result<T, Problem> {
    attempt_watched(limit, work, |_| ()).await
}

/// The same; `failed` is called with every error after which it is done again.
///
/// # Errors
/// The last one.
pub(crate) async fn attempt_watched<T, F: Future<Output = Result<T, Problem>>>(
    limit: u32,
    mut work: impl FnMut() -> F,
    failed: impl Fn(&Problem),
) -> Result<T, Problem> {
    let mut tries = 1;
    loop {
        match work().await {
            Err(error) if error.class.is_retryable() && tries < limit => {
                failed(&error);
                tokio::time::sleep(delay(tries - 1, &error)).await;
                tries += 1;
            }
            done => return done,
        }
    }
}
