//! Logs, metrics and traces of the programs. Decides nothing.

#[cfg(any(feature = "fleet", feature = "kube"))]
pub mod metrics;
#[cfg(feature = "fleet")]
pub mod trace;

/// The lines of a program's log. Anyone who stops reading them misses them: the program goes on.
#[cfg(feature = "cli")]
pub(crate) fn lines() -> tracing_subscriber::fmt::SubscriberBuilder {
    tracing_subscriber::fmt().log_internal_errors(false)
}
