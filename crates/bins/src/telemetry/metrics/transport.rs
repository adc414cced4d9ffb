//! Metrics of what surrounds the core: store, bus, HTTP, gRPC, logs, artifacts.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::group::{Group, OWN, counts, short};
use super::series::Series;

/// What the store and the bus do.
#[derive(Debug)]
pub struct StoreMetrics {
    /// Commit time in seconds.
    pub commit: Histogram,
    /// Records per commit.
    pub batch_size: Histogram,
    /// Failed commits and reads.
    pub errors: Counter,
    /// Events that are not yet published.
    pub outbox_pending: Gauge,
    /// Events published.
    pub events_published: Counter,
    /// Subscribers of the bus.
    pub bus_subscribers: Gauge,
    /// 1 while this server leads, else 0.
    pub leader: Gauge,
    /// Epoch of this server's term.
    pub epoch: Gauge,
}

impl StoreMetrics {
    pub(super) fn new(group: &mut Group) -> Self {
        Self {
            commit: group.single("orlop_store_commit_seconds", "Commit time in seconds", short()),
            batch_size: group.single("orlop_store_batch_size", "Records per commit", counts()),
            errors: group.single("orlop_store_errors", "Failed commits and reads", Counter::default()),
            outbox_pending: group.single("orlop_outbox_pending", "Events not yet published", Gauge::default()),
            events_published: group.single("orlop_events_published", "Events published", Counter::default()),
            bus_subscribers: group.single("orlop_event_bus_subscribers", "Subscribers of the bus", Gauge::default()),
            leader: group.single("orlop_leader", "1 while this server leads", Gauge::default()),
            epoch: group.single("orlop_epoch", "Epoch of this server's term", Gauge::default()),
        }
    }
}

/// What goes in and out.
#[derive(Debug)]
pub struct TransportMetrics {
    /// Requests, by `route` and `code`.
    pub http_requests: Series<Counter, 2>,
    /// Request time in seconds, by `route`.
    pub http_duration: Series<Histogram, 1>,
    /// Calls, by `method` and `code`.
    pub grpc_requests: Series<Counter, 2>,
    /// Open streams of workers.
    pub grpc_streams: Gauge,
    /// Bytes of logs stored.
    pub log_bytes: Counter,
    /// Bytes of logs dropped, by `where` (worker, server).
    pub log_dropped_bytes: Series<Counter, 1>,
    /// Bytes of artifacts stored.
    pub artifact_bytes: Counter,
    /// Requests without a valid token.
    pub auth_failures: Counter,
}

impl TransportMetrics {
    pub(super) fn new(group: &mut Group) -> Self {
        Self {
            http_requests: group.series(
                "orlop_http_requests",
                "Requests by route and code",
                ["route", "code"],
                OWN,
                Counter::default,
            ),
            http_duration: group.series(
                "orlop_http_request_duration_seconds",
                "Request time in seconds",
                ["route"],
                OWN,
                short,
            ),
            grpc_requests: group.series(
                "orlop_grpc_requests",
                "Calls by method and code",
                ["method", "code"],
                OWN,
                Counter::default,
            ),
            grpc_streams: group.single("orlop_grpc_streams", "Open streams of workers", Gauge::default()),
            log_bytes: group.single("orlop_log_bytes", "Bytes of logs stored", Counter::default()),
            log_dropped_bytes: group.series(
                "orlop_log_dropped_bytes",
                "Bytes of logs dropped",
                ["where"],
                OWN,
                Counter::default,
            ),
            artifact_bytes: group.single("orlop_artifact_bytes", "Bytes of artifacts stored", Counter::default()),
            auth_failures: group.single("orlop_auth_failures", "Requests without a valid token", Counter::default()),
        }
    }
}
