//! What controllers tell, as metrics and health.

mod flows;
mod objects;

use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_core::named::Named;
use orlop_k8s::shell::LoopEvent;

use super::{OperatorHealth, Which};
use crate::telemetry::metrics::OperatorMetrics;

pub(super) use flows::FlowMonitor;
pub(super) use objects::ObjectMonitor;

/// What is reported of the controllers of one operator.
pub(super) struct Monitors {
    pub(super) flows: Arc<FlowMonitor>,
    pub(super) performers: Arc<ObjectMonitor>,
    pub(super) executors: Arc<ObjectMonitor>,
}

impl Monitors {
    pub(super) fn new(metrics: &Arc<OperatorMetrics>, health: &OperatorHealth) -> Self {
        let monitor = |which| LoopMonitor::new(which, Arc::clone(metrics), health.clone());
        Self {
            flows: Arc::new(FlowMonitor::new(monitor(Which::JobFlow))),
            performers: Arc::new(ObjectMonitor::new(monitor(Which::Performer))),
            executors: Arc::new(ObjectMonitor::new(monitor(Which::Executor))),
        }
    }

    /// Takes what stands into the metrics.
    pub(super) fn stand(&self) {
        self.flows.stand();
        self.performers.stand();
        self.executors.stand();
    }
}

/// What the loop of any controller tells.
struct LoopMonitor {
    which: Which,
    metrics: Arc<OperatorMetrics>,
    health: OperatorHealth,
    start: Instant,
}

impl LoopMonitor {
    fn new(which: Which, metrics: Arc<OperatorMetrics>, health: OperatorHealth) -> Self {
        Self { which, metrics, health, start: Instant::now() }
    }

    fn record(&self, event: LoopEvent<'_>) {
        match event {
            LoopEvent::Heartbeat { depth } => self.beat(depth),
            LoopEvent::Synced => self.synced(),
            LoopEvent::WatchRestarted { resource } => self.restarted(resource),
            LoopEvent::WatchListed { resource } => self.watched(resource),
            LoopEvent::WatchFailed { resource, code, message } => self.broken(resource, code, message),
            LoopEvent::Reconciled { took, failed } => self.passed(took, failed),
            _ => {}
        }
    }

    fn beat(&self, depth: usize) {
        self.health.beat(self.which);
        self.metrics.controllers.depth.of([self.which.name()]).set(i64::try_from(depth).unwrap_or(i64::MAX));
    }

    fn synced(&self) {
        tracing::info!(controller = self.which.name(), "has listed all objects");
        self.health.synced(self.which);
    }

    fn restarted(&self, resource: &str) {
        self.metrics.controllers.watch_restarts.of([resource]).inc();
    }

    fn passed(&self, took: Duration, failed: bool) {
        let controller = self.which.name();
        let result = if failed { "failed" } else { "done" };
        self.metrics.controllers.passes.of([controller, result]).inc();
        self.metrics.controllers.duration.of([controller]).observe(took.as_secs_f64());
    }

    fn failed(&self, class: &str) {
        self.metrics.controllers.errors.of([self.which.name(), class]).inc();
    }

    fn watched(&self, resource: &'static str) {
        if self.health.mended(self.which, resource) {
            tracing::info!(controller = self.which.name(), resource, "the watch works again");
        }
    }

    /// A watch has failed; `message` says why, without words of the server: anyone who reads a log or asks for readiness may not
    /// be who may read objects.
    fn broken(&self, resource: &'static str, code: Option<u16>, message: &str) {
        let which = self.which;
        let Some(code) = code else {
            tracing::warn!(
                controller = which.name(),
                resource,
                why = message,
                "a watch was interrupted; restarting it"
            );
            return;
        };
        let why = match code {
            404 => format!("the server has no {resource}; install them with `kubectl apply -f {}`", which.definition()),
            403 => format!("the service account may not watch {resource}; its role needs list and watch on it"),
            401 => "the server does not accept the credentials of the service account".to_owned(),
            _ => format!("{resource} cannot be watched: {message}"),
        };
        if !self.health.broken(which, resource, why.clone()) {
            return;
        }
        // A server that is busy or not up yet, or whose version is too old to go on from, needs nobody.
        if matches!(code, 410 | 429 | 500..) {
            tracing::warn!(controller = which.name(), resource, code, "{why}; retrying");
        } else {
            tracing::error!(controller = which.name(), resource, code, "{why}; retrying");
        }
    }

    /// An object has another phase.
    fn moved(&self, from: &str, to: &str) {
        if from != to {
            self.metrics.hourglass.transitions.of([self.which.name(), from, to]).inc();
        }
    }

    /// So many objects stand in each phase.
    fn stands<P: Named>(&self, phases: &[P], count: impl Fn(P) -> i64) {
        for phase in phases {
            self.metrics.hourglass.objects.of([self.which.name(), phase.as_str()]).set(count(*phase));
        }
    }
}
