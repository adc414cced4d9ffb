//! The controllers of performers and executors as the operator runs them: fenced by the term, at a pace, measured.
//!

use std::sync::Arc;

use async_trait::async_trait;
use orlop_k8s::api::Client;
use orlop_k8s::hourglass::controller::Reconciler;
use orlop_k8s::hourglass::{Controller, RunOptions};
use orlop_k8s::shell::lease::Fenced;
use orlop_k8s::shell::limits::Limited;

use super::controller::Controls;
use super::observe::ObjectMonitor;
use super::{Operator, Stop, Which};

/// See the module.
pub(super) struct Hourglass<R: Reconciler> {
    controller: Controller<Fenced<Limited<Client>>, R>,
    client: kube::Client,
    options: RunOptions,
}

impl<R: Reconciler> Hourglass<R> {
    pub(super) fn new(operator: &Operator, which: Which, monitor: &Arc<ObjectMonitor>) -> Self {
        let Operator { plan, clock, .. } = operator;
        let client = operator.asks(Some(which));
        let config = Arc::clone(&plan.hourglass);
        let controller =
            Controller::new(operator.controller_api(&client), Arc::new(clock.clone()), config, plan.resync);
        let controller = controller.measured(Arc::<ObjectMonitor>::clone(monitor));
        let mut options = RunOptions::default();
        options.namespaces.clone_from(&plan.namespaces);
        (options.passes, options.resync) = (plan.passes, plan.resync);
        Self { controller, client, options }
    }
}

#[async_trait]
impl<R: Reconciler + 'static> Controls for Hourglass<R> {
    async fn run(&self, stop: &Stop) {
        self.controller.run(self.client.clone(), &self.options, stop.come()).await;
    }
}
