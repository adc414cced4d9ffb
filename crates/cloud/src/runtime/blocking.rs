//! Work that blocks a thread, away from those that drive tasks.

use orlop_core::error::{Class, Problem};

/// Runs work that blocks a thread.
///
/// # Errors
/// Its own; Fatal when it panicked.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Problem::new(Class::Fatal, "work on the file system was cut off").because(error)))
}
