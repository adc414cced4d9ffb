//! What the programs tell about themselves: lines of a log, metrics and traces. Owns names and units; decides nothing.

#[cfg(any(feature = "fleet", feature = "kube"))]
pub mod metrics;
#[cfg(feature = "fleet")]
pub mod trace;

/// The lines of a program's log. Whoever stops reading them misses them: the program goes on.
#[cfg(feature = "cli")]
pub(crate) fn lines() -> tracing_subscriber::fmt::SubscriberBuilder {
    tracing_subscriber::fmt().log_internal_errors(false)
}
