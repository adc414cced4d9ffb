//! Registers metrics and remembers their names, so that dashboards and alerts can be checked against them. Never measures
//! anything.

use std::collections::BTreeMap;

use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use super::series::{Series, Single};

/// A gauge of real numbers.
pub type Real = Gauge<f64, std::sync::atomic::AtomicU64>;

/// Most series of one metric by tenant.
pub(super) const TENANTS: usize = 200;
/// Most series of one metric by worker.
pub(super) const WORKERS: usize = 2000;
/// For labels whose values are the program's own.
pub(super) const OWN: usize = 1000;

/// Seconds from 100 µs to 54 s: what a batch, a commit or an answer takes.
pub(super) fn short() -> Histogram {
    Histogram::new(prometheus_client::metrics::histogram::exponential_buckets(0.0001, 3.0, 13))
}

/// Seconds from 10 ms to about 3 days: what a job runs or waits.
pub(super) fn long() -> Histogram {
    Histogram::new(prometheus_client::metrics::histogram::exponential_buckets(0.01, 4.0, 13))
}

/// Counts from 1 to 65 536.
pub(super) fn counts() -> Histogram {
    Histogram::new(prometheus_client::metrics::histogram::exponential_buckets(1.0, 4.0, 9))
}

/// What kind of metric a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows; its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution: `_bucket`, `_sum` and `_count`.
    Histogram,
}

/// What is known of a name without looking at values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its kind.
    pub kind: Kind,
    /// Its labels, `le` of histograms included.
    pub labels: Vec<&'static str>,
    /// What it counts or measures.
    pub help: String,
}

/// A registry with the names of what is in it.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) registry: Registry,
    pub(super) names: BTreeMap<String, Described>,
    /// The label that says where something is, while what is registered has one.
    pub(super) place: Option<&'static str>,
}

/// Metrics whose kind is known from their type.
pub(super) trait HasKind: Metric {
    const KIND: Kind;
}

impl HasKind for Counter {
    const KIND: Kind = Kind::Counter;
}

impl HasKind for Gauge {
    const KIND: Kind = Kind::Gauge;
}

impl HasKind for Real {
    const KIND: Kind = Kind::Gauge;
}

impl HasKind for Histogram {
    const KIND: Kind = Kind::Histogram;
}

impl Group {
    /// Registers a metric without labels. Counters are named here without `_total`.
    pub(super) fn single<M: HasKind + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.note(name, help, M::KIND, &[]);
        self.registry.register(name, help, metric.clone());
        metric
    }

    /// Registers a metric without labels of its own.
    pub(super) fn placed<M: HasKind + Clone + TypedMetric>(
        &mut self,
        name: &str,
        help: &str,
        make: fn() -> M,
    ) -> Single<M> {
        if self.place.is_none() {
            return Single::new(self.single(name, help, make()));
        }
        self.note(name, help, M::KIND, &[]);
        let (single, family) = Single::placed(make);
        self.registry.register(name, help, family);
        single
    }

    /// Registers a metric with labels.
    pub(super) fn series<M, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        keys: [&'static str; N],
        cap: usize,
        make: fn() -> M,
    ) -> Series<M, N>
    where
        M: HasKind + Clone + TypedMetric,
    {
        self.note(name, help, M::KIND, &keys);
        let series = Series::new(keys, cap, make);
        self.registry.register(name, help, series.family());
        series
    }

    /// Remembers a name with its help and labels.
    pub(super) fn note(&mut self, name: &str, help: &str, kind: Kind, labels: &[&'static str]) {
        let names: &[(&str, &[&'static str])] = match kind {
            Kind::Counter => &[("_total", &[])],
            Kind::Gauge => &[("", &[])],
            Kind::Histogram => &[("_bucket", &["le"]), ("_sum", &[]), ("_count", &[])],
        };
        for (suffix, further) in names {
            let labels = self.place.iter().chain(labels).chain(*further).copied().collect();
            self.names.insert(format!("{name}{suffix}"), Described { kind, labels, help: help.to_owned() });
        }
    }
}
