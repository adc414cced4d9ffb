//! The metrics of the operator's webhook: reviews by what came of them, and the certificate. No label names an object or a
//! person.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::group::{Group, OWN, short};
use super::series::Series;

/// What is asked of the webhook.
#[derive(Debug)]
pub struct WebhookMetrics {
    /// Reviews, by `path` and `result`: allowed, patched, refused, failed; unreadable, large, late, broken, busy.
    pub requests: Series<Counter, 2>,
    /// Seconds to an answer, by `path`.
    pub duration: Series<Histogram, 1>,
    /// Pairs of certificate and key that were found, by `result`: taken, failed.
    pub loads: Series<Counter, 1>,
    /// Until when the certificate in use is good, as a Unix time; 0 without one.
    pub expiry: Gauge,
}

impl WebhookMetrics {
    pub(super) fn new(group: &mut Group) -> Self {
        Self {
            requests: group.series(
                "orlop_webhook_requests",
                "Admission reviews received",
                ["path", "result"],
                OWN,
                Counter::default,
            ),
            duration: group.series(
                "orlop_webhook_duration_seconds",
                "Admission review response time in seconds",
                ["path"],
                OWN,
                short,
            ),
            loads: group.series(
                "orlop_webhook_certificate_loads",
                "Webhook certificates loaded",
                ["result"],
                OWN,
                Counter::default,
            ),
            expiry: group.single(
                "orlop_webhook_certificate_expiry_timestamp_seconds",
                "Expiry of the webhook certificate",
                Gauge::default(),
            ),
        }
    }
}
