//! Why a job is where it is, and another try of one that has ended.

use std::sync::Arc;

use orlop_core::error::{Code, Problem};
use orlop_core::machine::job::JobState;
use orlop_core::ports::fleet_store::{ElementFilter, JobKind, JobRow, Page};
use serde_json::{Value, json};

use super::super::BASE;
use super::super::auth::{Access, Scope};
use super::super::call::{Call, not_found};
use super::super::reply::{Answer, Reply};
use super::super::state::{Api, store};
use super::super::view::job::{RetryOrder, Submitted};
use super::jobs::indices;

/// GET /jobs/{id}/explain
pub(in super::super) async fn explain(api: Arc<Api>, call: Call) -> Answer {
    let row = api.job(&call).await?;
    if let Some(index) = call.read::<u32>("index")?
        && let Some(shown) = element(&api, &row, index).await?
    {
        return Reply::json(200, &shown);
    }
    match api.handle.explain(row.job.id).await {
        Ok(explained) => {
            let snapshot = api.handle.leader_snapshot()?;
            let whose = |name: &str| Some(snapshot.workers.get(name)?.whose());
            let all = call.may(Access::Change, &Scope::All);
            let explained =
                explained.only(|name| all || whose(name).is_some_and(|whose| call.may(Access::See, &whose)));
            let mut body = explained.json();
            body["summary"] = explained.summary().into();
            Reply::json(200, &body)
        }
        // The core forgets jobs that ended long ago; how they ended says it all.
        Err(unknown) if unknown.code == Code::NotFound => {
            let reason = row.unit.reason.as_deref();
            Reply::json(200, &json!({ "state": row.unit.state, "reason": reason, "summary": row.unit.state }))
        }
        Err(problem) => Err(problem),
    }
}

/// Why an element is where it is; none while it waits, for that it does with all others of its array.
async fn element(api: &Api, row: &JobRow, index: u32) -> Result<Option<Value>, Problem> {
    if row.job.kind != JobKind::Array {
        return Err(Problem::field("index", "this job is not an array"));
    }
    let filter = ElementFilter { indices: index.to_string().parse().ok(), ..ElementFilter::default() };
    let found = api.handle.store().elements(row.job.id, &filter, &Page::first(1)).await;
    let found = found.map_err(|error| store(&error))?.items.into_iter().next();
    let unit = found.ok_or_else(|| not_found(format_args!("element {index} of job {}", row.job.id)))?.unit;
    if matches!(unit.state, JobState::Pending | JobState::Queued) && !row.unit.state.is_terminal() {
        return Ok(None);
    }
    let reason = unit.reason.as_deref();
    let mut parts = vec![unit.state.to_string()];
    parts.extend(reason.map(str::to_owned));
    parts.extend(unit.worker.iter().filter(|_| !unit.state.is_terminal()).map(|worker| format!("on {worker}")));
    Ok(Some(json!({ "state": unit.state, "reason": reason, "summary": parts.join("; ") })))
}

/// POST /jobs/{id}/retry
pub(in super::super) async fn retry(api: Arc<Api>, call: Call) -> Answer {
    let order: RetryOrder = call.json_or_default()?;
    let row = api.job(&call).await?;
    let elements = indices(&row, "elements", order.elements.as_deref())?;
    let key = call.key()?.map(str::to_owned);
    let id = api.handle.retry(row.job.id, elements, key).await?.to_string();
    let place = format!("{BASE}/jobs/{id}");
    let made = Submitted { ids: vec![id.clone()], id: Some(id), warnings: Vec::new() };
    Ok(Reply::json(202, &made)?.at(&place))
}
