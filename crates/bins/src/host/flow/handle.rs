//! Both sides of the counter of a host: people give orders and watch, the host answers. Carries out no order.

use std::sync::Arc;

use orlop_core::attempt::Address;
use orlop_core::effect::FlowNotice;
use orlop_core::error::Problem;
use orlop_core::time::Time;
use orlop_dag::engine::{State, StatusView, view};
use orlop_dag::plan::Plan;
use serde::{Deserialize, Serialize};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use super::command::FlowCommand;

/// Orders that may wait.
const ORDERS: usize = 64;

/// Something people want to know, with the name of the step it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// When. Where it happened is in the notice, under `at`.
    #[serde(rename = "time")]
    pub at: Time,
    /// Name of the step or instance; empty for the flow.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub step: String,
    /// What.
    #[serde(flatten)]
    pub notice: FlowNotice,
}

/// What arrives at the counter.
pub(super) enum Request {
    /// An order, and where its answer goes.
    Order(FlowCommand, oneshot::Sender<Result<bool, Problem>>),
    /// Leave.
    Detach,
}

/// Sends commands to a host and watches its flow.
#[derive(Clone)]
pub struct HostHandle {
    requests: mpsc::Sender<Request>,
    status: watch::Receiver<Arc<StatusView>>,
    notices: broadcast::Sender<Notice>,
}

impl HostHandle {
    /// Sends a command; returns once it is stored and in force. False: the host has ended.
    ///
    /// # Errors
    /// When it does not fit, or cannot be written down.
    pub async fn order(&self, order: FlowCommand) -> Result<bool, Problem> {
        let (answer, answered) = oneshot::channel();
        if self.requests.send(Request::Order(order, answer)).await.is_err() {
            return Ok(false);
        }
        answered.await.unwrap_or(Ok(false))
    }

    /// Tells the host to stop; the flow goes on under the next host.
    pub async fn detach(&self) {
        // A host that has gone needs no telling.
        drop(self.requests.send(Request::Detach).await);
    }

    /// The status, as it changes. Changes that follow each other quickly are reported as one.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<Arc<StatusView>> {
        self.status.clone()
    }

    /// Notices from now on.
    #[must_use]
    pub fn notices(&self) -> broadcast::Receiver<Notice> {
        self.notices.subscribe()
    }
}

/// The host's side.
pub(super) struct Desk {
    pub(super) requests: mpsc::Receiver<Request>,
    sender: mpsc::Sender<Request>,
    status: watch::Sender<Arc<StatusView>>,
    notices: broadcast::Sender<Notice>,
}

impl Desk {
    pub(super) fn new(plan: &Plan, state: &State, notices: usize) -> Self {
        let (sender, requests) = mpsc::channel(ORDERS);
        let (status, _) = watch::channel(Arc::new(view(plan, state, 0..usize::MAX)));
        let (notices, _) = broadcast::channel(notices.max(1));
        Self { requests, sender, status, notices }
    }

    pub(super) fn handle(&self) -> HostHandle {
        let (requests, notices) = (self.sender.clone(), self.notices.clone());
        HostHandle { requests, status: self.status.subscribe(), notices }
    }

    pub(super) fn notice(&self, plan: &Plan, at: Time, notice: FlowNotice) {
        let step = notice.at.map(|at: Address| plan.instance_name(at)).unwrap_or_default();
        tracing::debug!(step, reason = notice.reason, "{}", notice.message);
        // Nobody listens: nobody misses it.
        drop(self.notices.send(Notice { at, step, notice }));
    }

    /// Shows the status of now.
    pub(super) fn show(&self, plan: &Plan, state: &State) {
        if self.status.receiver_count() > 0 {
            self.status.send_replace(Arc::new(view(plan, state, 0..usize::MAX)));
        }
    }
}
