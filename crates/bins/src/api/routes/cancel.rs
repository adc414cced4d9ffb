//! Cancels: of a job, of elements, of all jobs that pass a filter.

use std::sync::Arc;

use futures::future::join_all;
use orlop_core::error::Problem;
use orlop_core::id::{JobId, TenantName};
use orlop_core::machine::job::JobState;
use orlop_core::named::Named as _;
use orlop_core::ports::fleet_store::{JobFilter, Page};

use super::super::call::Call;
use super::super::reply::{Answer, Reply};
use super::super::state::{Api, store};
use super::super::view::job::{CancelAnswer, CancelFilter, CancelOrder};
use super::jobs::{indices, states};
use crate::host::scheduler::Cancelled;

/// Jobs that are cancelled beside each other.
const TOGETHER: u32 = 512;

/// POST /jobs/{id}/cancel
pub(in super::super) async fn one(api: Arc<Api>, call: Call) -> Answer {
    let order: CancelOrder = call.json_or_default()?;
    let row = api.job(&call).await?;
    let elements = indices(&row, "elements", order.elements.as_deref())?;
    if let Some(elements) = &elements
        && !api.handle.is_any_live(&row, elements).await?
    {
        return Reply::json(200, &CancelAnswer { cancelled: 0, ended: 1 });
    }
    let elements = elements.map(|indices| indices.ranges().to_vec()).unwrap_or_default();
    match api.handle.cancel(row.job.id, elements).await? {
        Cancelled::Taken => Reply::json(202, &CancelAnswer { cancelled: 1, ended: 0 }),
        Cancelled::Ended => Reply::json(200, &CancelAnswer { cancelled: 0, ended: 1 }),
    }
}

/// POST /jobs/cancel
pub(in super::super) async fn many(api: Arc<Api>, call: Call) -> Answer {
    let wanted: CancelFilter = call.json()?;
    let nothing = wanted.tenant.is_none() && wanted.state.is_empty() && wanted.label.is_empty();
    if nothing && wanted.since.is_none() && !wanted.all {
        return Err(Problem::field("", "select jobs by state, label, tenant or since, or give `\"all\": true`"));
    }
    let tenant: Option<TenantName> = wanted
        .tenant
        .map(|name| name.parse().map_err(|error| Problem::field("tenant", format!("{error}"))))
        .transpose()?;
    let tenants = match tenant {
        Some(tenant) if call.sees(&tenant) => Some(vec![tenant]),
        Some(_) => Some(Vec::new()),
        None => call.visible(),
    };
    let mut live = states(wanted.state.iter().map(String::as_str))?;
    live.retain(|state| !state.is_terminal());
    if live.is_empty() && wanted.state.is_empty() {
        live = JobState::ALL.iter().copied().filter(|state| !state.is_terminal()).collect();
    }
    let since = wanted
        .since
        .map(|text| text.parse().map_err(|error| Problem::field("since", format!("{error}"))))
        .transpose()?;
    let mut done = CancelAnswer { cancelled: 0, ended: 0 };
    if live.is_empty() {
        return Reply::json(202, &done);
    }
    let labels = wanted.label.into_iter().collect();
    let filter = JobFilter { tenants, states: live, labels, since, ..JobFilter::default() };
    let mut page: Page<JobId> = Page::first(TOGETHER);
    loop {
        let found = api.handle.store().jobs(&filter, &page).await.map_err(|error| store(&error))?;
        let cancels = found.items.iter().map(|row| api.handle.cancel(row.job.id, Vec::new()));
        for answer in join_all(cancels).await {
            match answer? {
                Cancelled::Taken => done.cancelled += 1,
                Cancelled::Ended => done.ended += 1,
            }
        }
        let Some(next) = found.next else { break };
        page = Page::after(next, TOGETHER);
    }
    Reply::json(202, &done)
}
