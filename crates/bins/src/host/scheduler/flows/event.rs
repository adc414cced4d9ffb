//! What happens to flows, as events of the bus (scheduler contract, section 5.3), and their steps as documents. Owns which
//! change is which event; whatever is told was in the journal before.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_core::id::JobId;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::ports::bus::EventBody;
use orlop_core::ports::fleet_store::{FlowStep, Record, Turn};
use orlop_core::ports::journal::FlowRecord;
use orlop_core::spec::status::{FlowStatus, StepStatus};
use orlop_dag::engine::StatusView;
use serde_json::json;
use tokio::sync::watch;

use super::facts::Driver;
use crate::host::scheduler::{Handle, Status};

/// Causes for which a flow counts as cancelled.
const CANCELLED: [&str; 3] = ["Stopped", "Terminated", "Replaced"];

/// Whether a flow that failed was ended by somebody.
pub(super) fn is_cancelled(status: &FlowStatus) -> bool {
    let failed = status.conditions.iter().find(|condition| condition.kind == "Failed");
    failed.is_some_and(|condition| CANCELLED.contains(&condition.reason.as_str()))
}

/// What was told of a flow so far.
pub(super) struct Told {
    uid: String,
    name: String,
    tenant: String,
    driver: Driver,
    started: bool,
    phase: FlowPhase,
    steps: BTreeMap<String, FlowStep>,
}

impl Told {
    /// Of a flow as it stands: what happened before was told by whoever drove it then.
    pub(super) fn new(record: &FlowRecord, driver: Driver, status: &FlowStatus) -> Self {
        Self {
            uid: record.uid.clone(),
            name: record.flow.metadata.name.clone(),
            tenant: record.namespace().to_owned(),
            driver,
            started: status.start_time.is_some(),
            phase: status.phase,
            steps: BTreeMap::new(),
        }
    }

    /// Tells what changes until the flow's host has gone.
    pub(super) async fn tell(mut self, handle: Handle, mut changes: watch::Receiver<Arc<StatusView>>) {
        loop {
            let view = Arc::clone(&changes.borrow_and_update());
            for body in self.events(&view.status, handle.clock().wall().to_string()) {
                handle.publish(body);
            }
            self.keep_steps(&handle, &view.status).await;
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// The events of a new status.
    fn events(&mut self, status: &FlowStatus, time: String) -> Vec<EventBody> {
        let mut verbs = Vec::new();
        if !self.started && status.start_time.is_some() {
            self.started = true;
            verbs.push("flow.started");
        }
        if self.phase != status.phase {
            self.phase = status.phase;
            match status.phase {
                FlowPhase::Paused => verbs.push("flow.waiting_approval"),
                FlowPhase::Succeeded => verbs.push("flow.completed"),
                FlowPhase::Failed if is_cancelled(status) => verbs.push("flow.cancelled"),
                FlowPhase::Failed => verbs.push("flow.failed"),
                FlowPhase::Pending | FlowPhase::Running | FlowPhase::Suspended => {}
            }
        }
        let data = json!({
            "flow": self.uid,
            "name": self.name,
            "pipeline": self.driver.pipeline.as_ref().map(|(id, _)| id),
            "version": self.driver.pipeline.as_ref().map(|(_, version)| version),
            "progress": status.progress.summary,
        });
        let body = |verb: &str| EventBody {
            kind: verb.to_owned(),
            time: time.clone(),
            tenant: Some(self.tenant.clone()),
            correlation_id: self.driver.correlation_id.clone(),
            data: data.clone(),
            ..EventBody::default()
        };
        verbs.into_iter().map(body).collect()
    }

    /// Writes the documents of steps that have changed. They say nothing that the journal does not, so what cannot be
    /// written is told in the log.
    async fn keep_steps(&mut self, handle: &Handle, status: &FlowStatus) {
        let ended_at = status.completion_time;
        let new = status.steps.iter().map(|step| document(&self.uid, step, ended_at));
        let new: Vec<FlowStep> = new.filter(|step| self.steps.get(&step.step) != Some(step)).collect();
        let Status::Leading { epoch } = handle.status() else { return };
        if new.is_empty() {
            return;
        }
        let records: Result<Vec<Record>, _> = new.iter().map(Record::put).collect();
        let written = match records {
            Ok(records) => handle.store().commit(epoch, vec![Turn::new(records)]).await,
            Err(error) => Err(error),
        };
        match written {
            Ok(()) => self.steps.extend(new.into_iter().map(|step| (step.step.clone(), step))),
            Err(error) => {
                tracing::warn!(target: "orlop::flows", uid = self.uid, error = error.chain(), "steps were not written");
            }
        }
    }
}

fn document(flow: &str, step: &StepStatus, ended_at: Option<orlop_core::time::Time>) -> FlowStep {
    let job: Option<JobId> = step.job_ref.as_ref().and_then(|job| job.uid.parse().ok());
    FlowStep {
        flow: flow.to_owned(),
        step: step.name.clone(),
        phase: step.phase.to_string(),
        reason: step.reason.clone(),
        job,
        ended_at,
    }
}
