//! Jobs of steps inside the server: the fleet of the flow substrate is the server's own handle.

use std::collections::BTreeMap;

use async_trait::async_trait;
use orlop_core::attempt::AttemptKey;
use orlop_core::error::{Class, Code, Problem};
use orlop_core::id::{JobId, TenantName, WorkerId};
use orlop_core::ports::fleet_store::{AttemptFilter, IdempotencyKey, JobFilter, JobRow, MAX_PAGE, Page, SpecHash};
use orlop_core::spec::job::JobSpec;
use orlop_core::task::TaskRef;
use serde_json::Value;

use super::super::{Batch, Handle, Once, Submission, WorkerOrder, WorkerSnapshot};
use crate::host::flow::fleet::{FlowJob, JobEnd, JobPlace, StepFleet, WORKER, claims_of, key_of};

/// The fleet of this server, for flows of one tenant.
#[derive(Clone, Debug)]
pub struct ServerFleet {
    handle: Handle,
    tenant: TenantName,
}

impl ServerFleet {
    /// The fleet behind a handle, used in the name of a tenant.
    #[must_use]
    pub fn new(handle: Handle, tenant: TenantName) -> Self {
        Self { handle, tenant }
    }

    /// Outputs of the newest attempt of a job.
    async fn outputs(&self, row: &JobRow) -> Result<BTreeMap<String, String>, Problem> {
        let (job, unit) = (row.job.id, &row.unit);
        if unit.attempt == 0 {
            return Ok(BTreeMap::new());
        }
        let id = TaskRef { job, index: 0, member: 0, attempt: unit.attempt, epoch: unit.epoch };
        let store = self.handle.store();
        let mut detail = store.detail(&id).await?;
        if detail.is_none() {
            // An adopted attempt may be of an earlier epoch than the row says.
            let all = store.attempts(job, &AttemptFilter::default(), &Page::first(MAX_PAGE)).await?;
            if let Some(last) = all.items.last().filter(|last| last.attempt.id != id) {
                detail = store.detail(&last.attempt.id).await?;
            }
        }
        let Some(detail) = detail else { return Ok(BTreeMap::new()) };
        let body: Value = serde_json::from_str(&detail.body).unwrap_or_default();
        let outputs = body.get("outputs").and_then(Value::as_object).into_iter().flatten();
        Ok(outputs.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect())
    }
}

/// An error of the server, as the attempt of a step meets it.
pub(super) fn of_attempt(problem: Problem) -> Problem {
    let class = match problem.code {
        Code::Conflict | Code::Precondition => Class::Denied,
        Code::RateLimited => Class::Transient,
        _ => problem.class,
    };
    let reason = if problem.code == Code::NeverFits { Some("Unschedulable") } else { problem.reason };
    let retry_after = problem.retry_after.filter(|_| class == Class::Transient);
    Problem { class, reason, retry_after, ..problem }
}

#[async_trait]
impl StepFleet for ServerFleet {
    async fn submit(&self, key: &AttemptKey, mut spec: JobSpec) -> Result<JobId, Problem> {
        let invalid = |error: &dyn std::fmt::Display| {
            Problem::new(Class::Invalid, error.to_string()).with_reason("TemplateInvalid")
        };
        self.handle.limit_log(&self.tenant, &mut spec);
        // What is named is kept from now on.
        self.handle.pin_inputs(&self.tenant, &mut spec, "").await.map_err(|problem| match problem.code {
            Code::InvalidSpec => Problem::new(Class::NotFound, problem.message).with_reason("ArtifactUnavailable"),
            _ => of_attempt(problem),
        })?;
        let mut submission = Submission::of(&spec, &self.tenant, None).map_err(|error| invalid(&error))?;
        submission.flow = Some((key.flow.as_ref().into(), key.instance().into()));
        // No key of a client has a blank in it.
        let name = format!("flow step {key}");
        let once =
            Once { body_hash: SpecHash::of(&name).0, key: IdempotencyKey { tenant: self.tenant.clone(), key: name } };
        let batch = Batch { jobs: vec![submission], once: Some(once) };
        let submitted = self.handle.submit(batch).await.map_err(of_attempt)?;
        let missing = || Problem::new(Class::Fatal, format!("the submit of {key} gave no job"));
        submitted.jobs.first().copied().ok_or_else(missing)
    }

    async fn ended(&self, job: JobId) -> Result<JobEnd, Problem> {
        self.handle.ended(job).await.map_err(of_attempt)?;
        let row = self.handle.store().job(job).await?;
        let row = row.ok_or_else(|| Problem::new(Class::NotFound, format!("job {job} is not known")))?;
        let Some(ended_at) = row.unit.finished_at else {
            return Err(Problem::new(Class::Transient, format!("job {job} is not known to have ended")));
        };
        let outputs = self.outputs(&row).await?;
        let reason = row.unit.reason.as_deref().unwrap_or_default().to_owned();
        Ok(JobEnd { state: row.unit.state, reason, exit_code: row.unit.exit_code, outputs, ended_at })
    }

    async fn cancel(&self, job: JobId) -> Result<(), Problem> {
        self.handle.cancel(job, Vec::new()).await.map(drop).map_err(of_attempt)
    }

    async fn place_of(&self, job: JobId) -> Result<JobPlace, Problem> {
        let store = self.handle.store();
        let Some(unit) = store.job(job).await?.map(|row| row.unit) else { return Ok(JobPlace::Never) };
        if let Some(worker) = unit.worker {
            return Ok(JobPlace::On(worker));
        }
        if !unit.state.is_terminal() {
            return Ok(JobPlace::Nowhere);
        }
        // A job has none once it has ended; its attempts say where it was.
        let attempts = store.attempts(job, &AttemptFilter::default(), &Page::first(MAX_PAGE)).await?;
        let last = attempts.items.into_iter().rev().find(|row| row.started_at.is_some());
        Ok(last.map_or(JobPlace::Never, |row| JobPlace::On(row.attempt.worker)))
    }

    async fn next_place(&self, job: JobId, before: Option<&JobPlace>) -> Result<JobPlace, Problem> {
        loop {
            // First the watch, then the look: what changes in between is seen by the next look.
            let changed = self.handle.watch(job, 0).await.map_err(of_attempt)?;
            let place = self.place_of(job).await?;
            if before != Some(&place) {
                return Ok(place);
            }
            if changed.await.is_err() {
                return Err(Problem::new(Class::Transient, format!("job {job} cannot be watched now")));
            }
        }
    }

    async fn name_worker(&self, worker: &WorkerId) -> Result<(), Problem> {
        let named = |worker: &WorkerSnapshot| worker.capabilities.labels.contains_key(WORKER);
        if self.handle.snapshot().workers.get(worker).is_some_and(named) {
            return Ok(());
        }
        match self.handle.order(worker.clone(), WorkerOrder::Name).await {
            // One that has gone may come back; the job waits for it.
            Err(problem) if problem.code == Code::NotFound => Ok(()),
            named => named.map_err(of_attempt),
        }
    }

    async fn of_flow(&self, flow: &str) -> Result<Vec<FlowJob>, Problem> {
        let tenants = Some(vec![self.tenant.clone()]);
        let filter = JobFilter { flow: Some(flow.to_owned()), tenants, ..JobFilter::default() };
        let (mut found, mut page) = (Vec::new(), Page::first(MAX_PAGE));
        loop {
            let part = self.handle.store().jobs(&filter, &page).await?;
            for row in &part.items {
                let labels = row.job.labels.as_deref().and_then(|text| serde_json::from_str(text).ok());
                let known = labels.and_then(|labels| {
                    Some(FlowJob { key: key_of(&labels)?, job: row.job.id, claims: claims_of(&labels) })
                });
                found.extend(known);
            }
            match part.next {
                Some(next) => page = Page::after(next, MAX_PAGE),
                None => return Ok(found),
            }
        }
    }
}
