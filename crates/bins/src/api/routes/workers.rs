//! Workers: lists, one worker, orders of operators.

use std::sync::Arc;

use orlop_core::error::{Code, Problem};
use orlop_core::id::{TenantName, WorkerId};
use orlop_core::machine::worker::WorkerState;
use orlop_core::named::Named as _;
use orlop_core::ports::fleet_store::{Kind, Record, Token};
use orlop_core::time::{HumanDuration, Time};
use orlop_scheduler::event::DrainOrder;

use super::super::auth::{Access, Caller, Role, Scope};
use super::super::call::{Call, forbidden, internal, not_found};
use super::super::cursor;
use super::super::reply::{Answer, Reply};
use super::super::state::{Api, store};
use super::super::token_cache::{WORKER, worker_record};
use super::super::view::worker::{DrainRequest, WorkerList, WorkerOrdered, WorkerView};
use crate::host::scheduler::{WorkerOrder, WorkerSnapshot};

/// The longest reason of a drain, in characters.
const REASON: usize = 256;

/// GET /workers
pub(in super::super) async fn list(api: Arc<Api>, call: Call) -> Answer {
    let words = call.all("state").flat_map(|text| text.split(','));
    let states: Vec<WorkerState> = words
        .map(|word| WorkerState::from_typed(word.trim()).map_err(|error| Problem::field("state", error)))
        .collect::<Result<_, _>>()?;
    let labels = call.labels()?;
    let after: Option<WorkerId> = call.cursor("workers")?;
    let limit = call.limit()? as usize;
    let snapshot = api.handle.leader_snapshot()?;
    call.concern.decide();
    let passes = |worker: &WorkerSnapshot| {
        let known = &worker.capabilities.labels;
        call.may(Access::See, &worker.whose())
            && (states.is_empty() || states.contains(&worker.view.state))
            && labels.iter().all(|(key, value)| known.get(key) == Some(value))
    };
    let later = snapshot.workers.iter().filter(|(id, _)| after.as_ref().is_none_or(|after| *id > after));
    let mut found = later.filter(|(_, worker)| passes(worker));
    let items: Vec<WorkerView> = found.by_ref().take(limit).map(|(_, worker)| shown(&call.caller, worker)).collect();
    let more = found.next().is_some();
    let next_cursor = items.last().filter(|_| more).map(|last| cursor::write("workers", &last.id));
    Reply::json(200, &WorkerList { items, next_cursor })
}

/// The worker of a path, if all whose jobs it takes are the caller's.
async fn own(api: &Api, call: &Call) -> Result<WorkerId, Problem> {
    let id: WorkerId = call.id("id", "worker")?;
    // Anyone who may change every worker may change one that has just come.
    if call.may(Access::Change, &Scope::All) {
        return Ok(id);
    }
    let snapshot = api.handle.leader_snapshot()?;
    check_own(call, &id, snapshot.workers.get(&id).map(WorkerSnapshot::whose))?;
    Ok(id)
}

/// Refuses anyone who may not change a worker of these tenants; none: there is no such worker.
fn check_own(call: &Call, id: &WorkerId, whose: Option<Scope>) -> Result<(), Problem> {
    let seen = whose.filter(|whose| call.may(Access::See, whose));
    let whose = seen.ok_or_else(|| not_found(format_args!("worker `{id}`")))?;
    if call.may(Access::Change, &whose) {
        return Ok(());
    }
    Err(forbidden(format_args!("worker `{id}` also takes jobs of tenants that this token is not valid for")))
}

/// GET /workers/{id}
pub(in super::super) async fn get(api: Arc<Api>, call: Call) -> Answer {
    let id: WorkerId = call.id("id", "worker")?;
    let snapshot = api.handle.leader_snapshot()?;
    let seen = snapshot.workers.get(&id).filter(|worker| call.may(Access::See, &worker.whose()));
    let worker = seen.ok_or_else(|| not_found(format_args!("worker `{id}`")))?;
    Reply::json(200, &shown(&call.caller, worker))
}

/// A worker as a caller sees it: of the tenants whose jobs it takes, those that the caller sees.
/// A worker as a caller sees it.
pub(in super::super) fn shown(caller: &Caller, worker: &WorkerSnapshot) -> WorkerView {
    let mut view = WorkerView::from(worker);
    if let Some(tenants) = view.capabilities["tenants"].as_array_mut() {
        tenants.retain(|tenant| {
            let name = tenant.as_str().and_then(|name| name.parse().ok());
            name.is_none_or(|name: TenantName| caller.sees(&name))
        });
    }
    view
}

async fn order(api: &Api, call: &Call, order: WorkerOrder, word: &'static str) -> Answer {
    let id = own(api, call).await?;
    api.handle.order(id.clone(), order).await?;
    Reply::json(202, &WorkerOrdered { id: id.to_string(), order: word })
}

/// POST /workers/{id}/drain
pub(in super::super) async fn drain(api: Arc<Api>, call: Call) -> Answer {
    let request: DrainRequest = call.json_or_default()?;
    let clock = api.handle.clock();
    let left = match request.deadline {
        None => None,
        Some(text) => {
            let duration = text.parse::<HumanDuration>().map(HumanDuration::get);
            let until = text.parse::<Time>().map(|at| at.since(clock.wall()));
            let left = duration.or(until);
            Some(
                left.map_err(|_| Problem::field("deadline", "use a duration such as 10m, or a time in RFC 3339 form"))?,
            )
        }
    };
    let millis = |left: std::time::Duration| u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
    let deadline = left.map(|left| clock.monotonic().saturating_add(millis(left)));
    let reason = request.reason.unwrap_or_default();
    if reason.chars().count() > REASON || reason.chars().any(char::is_control) {
        return Err(Problem::field("reason", format!("use one line of at most {REASON} characters")));
    }
    order(&api, &call, WorkerOrder::Drain(DrainOrder { deadline, host_shutdown: false }, reason), "drain").await
}

/// POST /workers/{id}/undrain
pub(in super::super) async fn undrain(api: Arc<Api>, call: Call) -> Answer {
    order(&api, &call, WorkerOrder::Undrain, "undrain").await
}

/// POST /workers/{id}/cordon
pub(in super::super) async fn cordon(api: Arc<Api>, call: Call) -> Answer {
    order(&api, &call, WorkerOrder::Cordon, "cordon").await
}

/// POST /workers/{id}/uncordon
pub(in super::super) async fn uncordon(api: Arc<Api>, call: Call) -> Answer {
    order(&api, &call, WorkerOrder::Uncordon, "uncordon").await
}

/// What is kept of a worker that joined.
async fn record(api: &Api, id: &WorkerId) -> Result<Option<Token>, Problem> {
    let entry = api.handle.store().entry(Kind::Token, &worker_record(id)).await.map_err(|error| store(&error))?;
    // One that cannot be read is one all the same: its certificate would be good for ever.
    let read = entry.map(|entry| serde_json::from_str(&entry.body)).transpose();
    read.map_err(|error| internal(format_args!("cannot read the record of worker `{id}`: {error}")))
}

/// Shuts a worker out: its certificate is good for nothing from now on, its streams end, what it runs is given up.
async fn shut_out(api: &Api, call: &Call) -> Result<WorkerId, Problem> {
    let id: WorkerId = call.id("id", "worker")?;
    let _turn = api.tokens.lock().await;
    let (kept, snapshot) = (record(api, &id).await?, api.handle.leader_snapshot()?);
    let live = snapshot.workers.get(&id).map(WorkerSnapshot::whose);
    let whose = live.or_else(|| kept.as_ref().map(|kept| Scope::of(&kept.tenants)));
    check_own(call, &id, whose)?;
    let now = api.now();
    let revoked = kept.unwrap_or_else(|| Token {
        id: worker_record(&id),
        hash: Vec::new(),
        kind: WORKER.to_owned(),
        role: Role::Worker.as_str().to_owned(),
        tenants: Vec::new(),
        labels: Vec::new(),
        note: String::new(),
        created_at: now,
        expires_at: None,
        uses_left: None,
        revoked_at: None,
    });
    let put = Record::put(&Token { revoked_at: Some(now), ..revoked }).map_err(|error| store(&error))?;
    api.write(vec![put]).await?;
    leave(api, &id, true).await.map(|_| id)
}

/// Has a worker be gone. False where it was already.
async fn leave(api: &Api, id: &WorkerId, force: bool) -> Result<bool, Problem> {
    match api.handle.order(id.clone(), WorkerOrder::Remove { force }).await {
        Err(gone) if gone.code == Code::NotFound => Ok(false),
        done => done.map(|()| true),
    }
}

/// POST /workers/{id}/revoke
pub(in super::super) async fn revoke(api: Arc<Api>, call: Call) -> Answer {
    let id = shut_out(&api, &call).await?;
    Reply::json(202, &WorkerOrdered { id: id.to_string(), order: "revoke" })
}

/// DELETE /workers/{id}
pub(in super::super) async fn remove(api: Arc<Api>, call: Call) -> Answer {
    if call.switch("force")? {
        let id = shut_out(&api, &call).await?;
        return Reply::json(202, &WorkerOrdered { id: id.to_string(), order: "remove" });
    }
    let id = own(&api, &call).await?;
    let _turn = api.tokens.lock().await;
    let kept = record(&api, &id).await?;
    // One that is gone still has its name.
    let snapshot = api.handle.leader_snapshot()?;
    if !leave(&api, &id, false).await? && kept.is_none() && !snapshot.workers.contains_key(&id) {
        return Err(not_found(format_args!("worker `{id}`")));
    }
    if kept.is_some() {
        api.write(vec![Record::Delete(Kind::Token, worker_record(&id))]).await?;
    }
    Reply::json(202, &WorkerOrdered { id: id.to_string(), order: "remove" })
}
