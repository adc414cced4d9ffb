//! The controller of flows as the operator runs it: fenced by the term, at a pace, measured.

use std::sync::Arc;

use async_trait::async_trait;
use orlop_k8s::api::Client;
use orlop_k8s::flow::{Controller, RunOptions};
use orlop_k8s::shell::lease::Fenced;
use orlop_k8s::shell::limits::Limited;

use super::controller::Controls;
use super::observe::FlowMonitor;
use super::{Operator, Stop, Which};

/// See the module.
pub(super) struct Flows {
    controller: Controller<Fenced<Limited<Client>>>,
    client: kube::Client,
    options: RunOptions,
}

impl Flows {
    pub(super) fn new(operator: &Operator) -> Self {
        let Operator { plan, clock, monitors, .. } = operator;
        let client = operator.asks(Some(Which::JobFlow));
        let controller = Controller::new(operator.controller_api(&client), Arc::new(clock.clone()), plan.flows.clone());
        let controller = controller.measured(Arc::<FlowMonitor>::clone(&monitors.flows));
        let controller = controller.with_background_api(operator.background_api(&client));
        let mut options = RunOptions::default();
        options.namespaces.clone_from(&plan.namespaces);
        (options.passes, options.resync) = (plan.passes, plan.resync);
        Self { controller, client, options }
    }
}

#[async_trait]
impl Controls for Flows {
    async fn run(&self, stop: &Stop) {
        self.controller.run(self.client.clone(), &self.options, stop.come()).await;
    }
}
