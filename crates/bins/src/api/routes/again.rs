//! Why a job is where it is, and another try of one that has ended. Owns these two routes.

use std::sync::Arc;

use serde_json::json;

use super::super::BASE;
use super::super::auth::{Access, Scope};
use super::super::call::Call;
use super::super::reply::{Answer, Reply};
use super::super::state::Api;
use super::super::view::job::Submitted;
use crate::wire::problem::Code;

/// GET /jobs/{id}/explain
pub(in super::super) async fn explain(api: Arc<Api>, call: Call) -> Answer {
    let row = api.job(&call).await?;
    match api.handle.explain(row.job.id).await {
        Ok(explained) => {
            let snapshot = api.handle.picture()?;
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

/// POST /jobs/{id}/retry
pub(in super::super) async fn retry(api: Arc<Api>, call: Call) -> Answer {
    let row = api.job(&call).await?;
    let key = call.key()?.map(str::to_owned);
    let id = api.handle.retry(row.job.id, key).await?.to_string();
    let place = format!("{BASE}/jobs/{id}");
    let made = Submitted { ids: vec![id.clone()], id: Some(id), warnings: Vec::new() };
    Ok(Reply::json(202, &made)?.at(&place))
}
