//! What must be done and cannot be refused: it is done again until it works. Owns no decision about what that is.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use orlop_core::error::Problem;
use serde::Serialize;
use tokio::time::Instant;

use super::records::write;
use crate::retry::delay;
use crate::runtime::blocking::blocking;

/// How long a record is tried to be written.
const KEEP_BUDGET: Duration = Duration::from_secs(600);

/// Does it until it works, with a word in the log each time it does not. For what must be done and cannot be refused.
pub(super) async fn insist<T, F: Future<Output = Result<T, Problem>>>(what: &str, mut work: impl FnMut() -> F) -> T {
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

/// Writes down what has happened. After ten minutes without success, or where trying again cannot help, it goes on without:
/// the next host finds out from the runtime what this record would have said.
pub(super) async fn keep(what: &str, path: PathBuf, record: impl Serialize + Send + Sync + 'static) {
    let (begun, record) = (Instant::now(), Arc::new(record));
    let mut tries = 0;
    loop {
        let (path, record) = (path.clone(), Arc::clone(&record));
        let Err(error) = blocking(move || write(&path, &*record)).await else { return };
        if !error.class.is_retryable() || begun.elapsed() >= KEEP_BUDGET {
            tracing::error!(error = error.chain(), "writing {what} failed, going on without");
            return;
        }
        tracing::warn!(error = error.chain(), tries, "writing {what} failed, trying again");
        tokio::time::sleep(delay(tries, &error)).await;
        tries = tries.saturating_add(1);
    }
}
