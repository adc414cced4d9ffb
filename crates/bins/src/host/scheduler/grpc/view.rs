//! Jobs as clients see them, out of rows of the store.

use std::collections::BTreeMap;

use orlop_core::id::TenantName;
use orlop_core::ports::fleet_store::{AttemptDetail, ElementRow, JobFilter as StoreFilter, JobRow};

use super::super::{Error, error};
use crate::api::auth::Caller as Admitted;
use crate::wire::job::JobView;
use crate::wire::problem::Code;
use crate::wire::query::JobFilter;

/// A job as clients see it.
pub(super) fn job(row: &JobRow) -> JobView {
    let labels = row.job.labels.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let unit = &row.unit;
    JobView {
        job: row.job.id,
        index: None,
        tenant: row.job.tenant.to_string(),
        name: row.job.name.as_deref().unwrap_or_default().to_owned(),
        labels,
        state: unit.state,
        reason: unit.reason.as_deref().unwrap_or_default().to_owned(),
        priority: row.job.priority,
        count: u64::from(row.job.count),
        counts: Vec::new(),
        attempt: unit.attempt,
        retries: unit.retries,
        worker: unit.worker.as_ref().map(ToString::to_string).unwrap_or_default(),
        exit_code: unit.exit_code,
        submitted_at: Some(row.job.submitted_at),
        queued_at: unit.queued_at,
        started_at: unit.started_at,
        finished_at: unit.finished_at,
        retry_of: row.job.retry_of,
        correlation_id: row.job.correlation_id.as_deref().unwrap_or_default().to_owned(),
        outputs: BTreeMap::new(),
        revision: row.revision,
    }
}

/// An element of an array as clients see it.
pub(super) fn element(row: &JobRow, element: &ElementRow) -> JobView {
    let alone = JobRow { unit: element.unit.clone(), ..row.clone() };
    JobView { index: Some(element.index), count: 1, ..job(&alone) }
}

/// Outputs of an attempt, as its detail holds them.
pub(super) fn outputs(detail: &AttemptDetail) -> BTreeMap<String, String> {
    let body: serde_json::Value = serde_json::from_str(&detail.body).unwrap_or_default();
    body.get("outputs").and_then(|outputs| serde_json::from_value(outputs.clone()).ok()).unwrap_or_default()
}

/// What a client's filter means to the store: of tenants that the client does not see nothing passes.
pub(super) fn filter(filter: JobFilter, who: &Admitted) -> Result<StoreFilter, Error> {
    let tenant = filter.tenant.as_deref().map(str::parse::<TenantName>).transpose();
    let tenant = tenant.map_err(|wrong| error::problem(Code::InvalidSpec, wrong.to_string()))?;
    Ok(StoreFilter {
        tenants: match tenant {
            Some(name) => Some(Vec::from_iter(who.sees(&name).then_some(name))),
            None => who.visible(),
        },
        states: filter.states,
        labels: filter.labels.into_iter().collect(),
        since: filter.since,
        ..StoreFilter::default()
    })
}
