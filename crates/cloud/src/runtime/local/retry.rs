//! What must be done and cannot be refused: it is done again until it works. Owns no decision about what that is.

use orlop_core::error::PortError;

use crate::retry::delay;

/// Does it until it works, with a word in the log each time it does not. For what must be done and cannot be refused.
pub(super) async fn insist<T, F: Future<Output = Result<T, PortError>>>(what: &str, mut work: impl FnMut() -> F) -> T {
    let mut tries = 0;
    loop {
        match work().await {
            Ok(done) => return done,
            Err(error) => {
                tracing::warn!(error = error.chain(), tries, "{what} failed, trying again");
                tokio::time::sleep(delay(tries, &error)).await;
                tries = tries.saturating_add(1);
            }
        }
    }
}
