//! Work that blocks a thread, away from those that drive tasks.

use orlop_core::error::{Class, PortError};

/// Runs work that blocks a thread.
///
/// # Errors
/// Its own; Fatal when it panicked.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PortError> + Send + 'static,
) -> Result<T, PortError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(PortError::new(Class::Fatal, "work on the file system was cut off").because(error)))
}
