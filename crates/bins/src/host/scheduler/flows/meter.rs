//! What stands of the flows that this server drives, counted when it is asked for.

use std::collections::BTreeMap;

use orlop_core::machine::flow::FlowPhase;
use orlop_core::machine::step::StepPhase;

use super::Flows;
use crate::telemetry::metrics::is_group;

/// What stands of the flows that are driven here.
#[derive(Debug, Default)]
pub struct Standing {
    /// Flows by phase.
    pub flows: BTreeMap<FlowPhase, i64>,
    /// Steps by phase.
    pub steps: BTreeMap<StepPhase, i64>,
    /// Steps that wait for a worker, or for a slot of their flow.
    pub ready: i64,
}

impl Flows {
    /// Counts the flows that are driven here, with their steps.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let views: Vec<_> = self.inner.live().values().map(|live| live.host.status()).collect();
        let mut standing = Standing::default();
        for view in views {
            let view = std::sync::Arc::clone(&view.borrow());
            *standing.flows.entry(view.status.phase).or_default() += 1;
            let each = view.status.steps.iter().enumerate();
            for (_, step) in each.filter(|(at, _)| !is_group(&view.status.steps, *at)) {
                *standing.steps.entry(step.phase).or_default() += 1;
                standing.ready += i64::from(step.phase == StepPhase::Pending && step.reason == "Queued");
            }
        }
        standing
    }
}
