//! What happens to flows, as events of the bus, and their steps as documents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use orlop_core::error::Problem;
use orlop_core::id::JobId;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::machine::step::StepPhase;
use orlop_core::ports::bus::EventBody;
use orlop_core::ports::fleet_store::{Documents as _, EntryFilter, FlowStep, MAX_PAGE, Page, Record, WriteBatch};
use orlop_core::ports::journal::{FlowJournal as _, FlowRecord};
use orlop_core::spec::status::{FlowStatus, StepStatus};
use orlop_dag::engine::StatusView;
use serde_json::json;
use tokio::sync::watch;

use super::Inner;
use super::facts::Driver;
use super::parts::parts;
use crate::host::flow::FlowHost;
use crate::host::scheduler::{Handle, Status};
use crate::telemetry::metrics::Meter;

/// Causes for which a flow counts as cancelled.
const CANCELLED: [&str; 3] = ["Stopped", "Terminated", "Replaced"];

/// Between two tries to write what was not written.
const AGAIN: Duration = Duration::from_secs(1);

/// Writes the steps of flows that ended just before a server did: nobody drives these, and their documents are as they
/// were. `living` have hosts, which write theirs.
pub(super) async fn mend(inner: &Inner, living: &[String]) {
    match unfinished(inner, living).await {
        Ok(flows) => {
            for uid in flows {
                if let Err(error) = rewrite(inner, &uid).await {
                    tracing::warn!(target: "orlop::flows", uid, %error, "the steps of a flow that has ended stay as they are");
                }
            }
        }
        Err(error) => tracing::warn!(target: "orlop::flows", error = error.chain(), "steps cannot be read"),
    }
}

/// Flows without a host that have steps without an end.
async fn unfinished(inner: &Inner, living: &[String]) -> Result<BTreeSet<String>, Problem> {
    let filter = EntryFilter { live: true, ..EntryFilter::default() };
    let (mut found, mut page) = (BTreeSet::new(), Page::first(MAX_PAGE));
    loop {
        let part = inner.handle.store().list::<FlowStep>(&filter, &page).await?;
        found.extend(part.items.into_iter().map(|step| step.flow).filter(|flow| !living.contains(flow)));
        match part.next {
            Some(next) => page = Page::after(next, MAX_PAGE),
            None => return Ok(found),
        }
    }
}

async fn rewrite(inner: &Inner, uid: &str) -> Result<(), Problem> {
    let record = inner.journal.load(uid).await?.record;
    let host = FlowHost::resume(parts(inner, &record)?, uid).await?;
    let status = host.status();
    let driver = Driver::of(&record).unwrap_or_default();
    FlowReporter::new(&record, driver, &status).keep_steps(&inner.handle, &status).await;
    Ok(())
}

/// Whether a flow that failed was ended by somebody.
pub(super) fn is_cancelled(status: &FlowStatus) -> bool {
    let failed = status.conditions.iter().find(|condition| condition.kind == "Failed");
    failed.is_some_and(|condition| CANCELLED.contains(&condition.reason.as_str()))
}

/// What was reported of a flow so far.
pub(super) struct FlowReporter {
    uid: String,
    name: String,
    tenant: String,
    driver: Driver,
    started: bool,
    phase: FlowPhase,
    asked: BTreeSet<String>,
    steps: BTreeMap<String, FlowStep>,
    meter: Meter,
}

impl FlowReporter {
    /// Of a flow as it stands: what happened before was reported by its driver then.
    pub(super) fn new(record: &FlowRecord, driver: Driver, status: &FlowStatus) -> Self {
        Self {
            uid: record.uid.clone(),
            name: record.flow.metadata.name.clone(),
            tenant: record.namespace().to_owned(),
            driver,
            started: status.start_time.is_some(),
            phase: status.phase,
            asked: asks(status).map(|step| step.name.clone()).collect(),
            steps: BTreeMap::new(),
            meter: Meter::with_waits(&record.flow.spec, status),
        }
    }

    /// Tells what changes until the flow's host has gone.
    pub(super) async fn tell(mut self, handle: Handle, mut changes: watch::Receiver<Arc<StatusView>>) {
        loop {
            let view = Arc::clone(&changes.borrow_and_update());
            self.show(&handle, Some(&view));
            for body in self.events(&view.status, handle.clock().wall().to_string()) {
                handle.publish(body);
            }
            self.meter.count(&handle.options().metrics.flows, &view.status);
            let kept = self.keep_steps(&handle, &view.status).await;
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { break },
                // What was not written is written although nothing changes any more.
                () = tokio::time::sleep(AGAIN), if !kept => {}
            }
        }
        // The last word of its host may not be looked at yet.
        let last = Arc::clone(&changes.borrow());
        self.show(&handle, Some(&last));
        for body in self.events(&last.status, handle.clock().wall().to_string()) {
            handle.publish(body);
        }
        self.meter.count(&handle.options().metrics.flows, &last.status);
        while !self.keep_steps(&handle, &last.status).await && matches!(handle.status(), Status::Leading { .. }) {
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Hands on how the flow stands.
    fn show(&self, handle: &Handle, view: Option<&Arc<StatusView>>) {
        if let Ok(tenant) = self.tenant.parse() {
            handle.changes().flow(&self.uid, &tenant, view.cloned());
        }
    }

    /// The events of a new status.
    fn events(&mut self, status: &FlowStatus, time: String) -> Vec<EventBody> {
        let mut verbs = Vec::new();
        if !self.started && status.start_time.is_some() {
            self.started = true;
            verbs.push(("flow.started", None));
        }
        for step in asks(status) {
            if self.asked.insert(step.name.clone()) {
                verbs.push(("flow.waiting_approval", Some(&step.name)));
            }
        }
        if self.phase != status.phase {
            self.phase = status.phase;
            match status.phase {
                FlowPhase::Succeeded => verbs.push(("flow.completed", None)),
                FlowPhase::Failed if is_cancelled(status) => verbs.push(("flow.cancelled", None)),
                FlowPhase::Failed => verbs.push(("flow.failed", None)),
                FlowPhase::Pending | FlowPhase::Running | FlowPhase::Suspended | FlowPhase::Paused => {}
            }
        }
        let data = json!({
            "flow": self.uid,
            "name": self.name,
            "pipeline": self.driver.pipeline.as_ref().map(|(id, _)| id),
            "version": self.driver.pipeline.as_ref().map(|(_, version)| version),
            "progress": status.progress.summary,
        });
        let event = |(verb, step): (&str, Option<&String>)| {
            let mut data = data.clone();
            if let Some(step) = step {
                data["step"] = json!(step);
            }
            EventBody {
                kind: verb.to_owned(),
                time: time.clone(),
                tenant: Some(self.tenant.clone()),
                correlation_id: self.driver.correlation_id.clone(),
                data,
                ..EventBody::default()
            }
        };
        verbs.into_iter().map(event).collect()
    }

    /// Writes the documents of steps that have changed. They say nothing that the journal does not, so what cannot be
    /// written is logged, and tried again. False when it was not written.
    async fn keep_steps(&mut self, handle: &Handle, status: &FlowStatus) -> bool {
        let ended_at = status.completion_time;
        let new = status.steps.iter().map(|step| document(&self.uid, step, ended_at));
        let new: Vec<FlowStep> = new.filter(|step| self.steps.get(&step.step) != Some(step)).collect();
        if new.is_empty() {
            return true;
        }
        let Status::Leading { epoch } = handle.status() else { return false };
        let records: Result<Vec<Record>, _> = new.iter().map(Record::put).collect();
        let written = match records {
            Ok(records) => handle.store().commit(epoch, vec![WriteBatch::new(records)]).await,
            Err(error) => Err(error),
        };
        match written {
            Ok(()) => {
                self.steps.extend(new.into_iter().map(|step| (step.step.clone(), step)));
                true
            }
            Err(error) => {
                tracing::warn!(target: "orlop::flows", uid = self.uid, error = error.chain(), "steps were not written");
                false
            }
        }
    }
}

/// Steps that wait for a decision, or have got one: what was decided quickly may never have been seen waiting.
fn asks(status: &FlowStatus) -> impl Iterator<Item = &StepStatus> {
    status.steps.iter().filter(|step| step.phase == StepPhase::PendingApproval || step.approval.is_some())
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
