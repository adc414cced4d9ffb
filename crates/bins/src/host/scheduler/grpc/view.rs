//! Jobs as clients see them, out of rows of the store.

use std::collections::BTreeMap;

use orlop_core::error::{Code, Problem};
use orlop_core::id::{JobId, TenantName};
use orlop_core::machine::job::JobState;
use orlop_core::ports::fleet_store::{AttemptDetail, ElementRow, JobFilter, JobRow};

use crate::api::auth::Caller as Admitted;
use crate::wire::bound::{OnWire, millis, time};
use crate::wire::v1;

/// A job as clients see it.
pub(super) fn job(row: &JobRow) -> v1::Job {
    let labels = row.job.labels.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let unit = &row.unit;
    v1::Job {
        job_id: row.job.id.as_u64(),
        index: None,
        tenant: row.job.tenant.to_string(),
        name: row.job.name.as_deref().unwrap_or_default().to_owned(),
        labels,
        state: unit.state.number(),
        reason: unit.reason.as_deref().unwrap_or_default().to_owned(),
        priority: row.job.priority.into(),
        count: u64::from(row.job.count),
        counts: Vec::new(),
        attempt: unit.attempt,
        retries: unit.retries,
        worker_id: unit.worker.as_ref().map(ToString::to_string).unwrap_or_default(),
        exit_code: unit.exit_code,
        submitted_at: row.job.submitted_at.millis(),
        queued_at: millis(unit.queued_at),
        started_at: millis(unit.started_at),
        finished_at: millis(unit.finished_at),
        retry_of: row.job.retry_of.map_or(0, JobId::as_u64),
        correlation_id: row.job.correlation_id.as_deref().unwrap_or_default().to_owned(),
        outputs: BTreeMap::new(),
        revision: row.revision,
    }
}

/// An element of an array as clients see it.
pub(super) fn element(row: &JobRow, element: &ElementRow) -> v1::Job {
    let alone = JobRow { unit: element.unit.clone(), ..row.clone() };
    v1::Job { index: Some(element.index), count: 1, ..job(&alone) }
}

/// Outputs of an attempt, as its detail holds them.
pub(super) fn outputs(detail: &AttemptDetail) -> BTreeMap<String, String> {
    let body: serde_json::Value = serde_json::from_str(&detail.body).unwrap_or_default();
    body.get("outputs").and_then(|outputs| serde_json::from_value(outputs.clone()).ok()).unwrap_or_default()
}

/// What a client's filter means to the store: of tenants that the client does not see nothing passes.
pub(super) fn filter(filter: v1::JobFilter, who: &Admitted) -> Result<JobFilter, Problem> {
    let tenant = Some(filter.tenant.as_str()).filter(|name| !name.is_empty()).map(str::parse::<TenantName>).transpose();
    let tenant = tenant.map_err(|wrong| Problem::coded(Code::InvalidSpec, wrong.to_string()))?;
    let states: Result<_, _> = filter.states.into_iter().map(JobState::read).collect();
    Ok(JobFilter {
        tenants: match tenant {
            Some(name) => Some(Vec::from_iter(who.sees(&name).then_some(name))),
            None => who.visible(),
        },
        states: states.map_err(Problem::from)?,
        labels: filter.labels.into_iter().collect(),
        since: time(filter.since),
        ..JobFilter::default()
    })
}
