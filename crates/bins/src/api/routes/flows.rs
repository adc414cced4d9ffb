//! Flows: begun, shown, ended, repeated, decided about.

use std::sync::Arc;
use std::time::Duration;

use orlop_core::error::Problem;
use orlop_core::id::TenantName;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::named::Named as _;
use orlop_core::ports::fleet_store::FleetFlow;
use orlop_core::spec::job::StepBackend;
use orlop_core::spec::status::Decision;

use super::super::BASE;
use super::super::auth::Role;
use super::super::call::{Call, internal, not_found};
use super::super::cursor;
use super::super::reply::{Answer, Reply};
use super::super::state::Api;
use super::super::view::flow::{FlowAccepted, FlowList, FlowOrdered, FlowView, StepView, flow_state};
use super::super::view::flow_check::{CheckedFlow, CheckedView};
use super::super::view::flow_order::{CancelFlow, CheckFlow, DecisionOrder, FlowOrder, NoOrder, RetryFlow};
use crate::host::flow::Definition;
use crate::host::scheduler::flows::{Accepted, Again, Checked, Decider, Driver, FlowSummary, NewFlow};

/// States of a flow, as [`flow_state`] has them.
const STATES: [&str; 5] = ["Pending", "Running", "Completed", "Failed", "Cancelled"];
/// The longest wait of one request.
const WAIT: Duration = Duration::from_secs(300);

/// What runs the steps.
pub(super) fn backend(text: Option<&str>) -> Result<StepBackend, Problem> {
    let read = text.map_or(Ok(StepBackend::default()), StepBackend::from_typed);
    read.map_err(|unknown| Problem::field("backend", unknown))
}

/// Begins a flow of a definition.
pub(super) async fn begin(
    api: &Api,
    call: &Call,
    definition: &Definition,
    (order, (tenant, pipeline)): (FlowOrder, (TenantName, Option<(String, u32)>)),
) -> Answer {
    let driver = Driver {
        pipeline,
        backend: backend(order.backend.as_deref())?,
        by: call.caller.name().to_owned(),
        correlation_id: Some(call.request_id.clone()),
        ..Driver::default()
    };
    let mut new = NewFlow::of(definition, tenant, order.name.as_deref(), driver)?;
    new.parameters = order.parameters;
    if order.suspend {
        new.flow.spec.suspend = Some(true);
    }
    accepted(api.flows.submit(new).await?)
}

fn accepted(taken: Accepted) -> Answer {
    let place = format!("{BASE}/flows/{}", taken.uid);
    Ok(Reply::json(202, &FlowAccepted { id: taken.uid, name: taken.name })?.at(&place))
}

impl Api {
    /// A flow that the caller sees.
    pub(in super::super) async fn flow(&self, call: &Call) -> Result<FleetFlow, Problem> {
        let flow = self.flows.find(call.part("id"), call.visible().as_deref()).await?;
        call.concern.is(&flow.tenant);
        Ok(flow)
    }
}

/// POST /flows
pub(in super::super) async fn submit(api: Arc<Api>, call: Call) -> Answer {
    let body = call.value()?;
    let order = match body.get("definition") {
        Some(_) => serde_json::from_value(body).map_err(|error| Problem::field("", error.to_string()))?,
        None => FlowOrder { definition: body, ..FlowOrder::default() },
    };
    let tenant = call.owner(order.tenant.as_deref(), &api.options.default_tenant)?;
    api.handle.require_tenant(&tenant, "", |name| call.sees(name)).await?;
    let backend = backend(order.backend.as_deref())?;
    let definition = api.flows.definition(&order.definition, backend, order.name.as_deref()).await?;
    begin(&api, &call, &definition, (order, (tenant, None))).await
}

/// POST /flows/validate
pub(in super::super) async fn validate(api: Arc<Api>, call: Call) -> Answer {
    call.concern.decide();
    let asked: CheckFlow = call.json()?;
    let present = |checked: Checked| {
        let graph = checked.graph.as_ref().map(serde_json::to_value).transpose().map_err(internal)?;
        let flows = checked.flows.iter().map(CheckedFlow::from).collect();
        let view = CheckedView { valid: !checked.flows.is_empty(), flows, report: checked.report.json(), graph };
        serde_json::to_value(view).map_err(internal)
    };
    Reply::json(200, &api.flows.check(&asked.definition, backend(asked.backend.as_deref())?, present).await?)
}

/// GET /flows
pub(in super::super) async fn list(api: Arc<Api>, call: Call) -> Answer {
    let states: Vec<&str> = call.all("state").flat_map(|text| text.split(',')).map(str::trim).collect();
    let is_known = |text: &&str| {
        STATES.iter().any(|state| state.eq_ignore_ascii_case(text)) || FlowPhase::from_typed(text).is_ok()
    };
    if let Some(unknown) = states.iter().find(|text| !is_known(text)) {
        return Err(Problem::field("state", format!("`{unknown}` is not a state; use {}", STATES.join(", "))));
    }
    let (name, pipeline) = (call.one("name")?, call.one("pipeline")?);
    let (since, labels) = (call.read("since")?, call.labels()?);
    let passes = |known: &FlowSummary| {
        let (document, cancelled) = (&known.document, known.cancelled);
        let state = flow_state(&document.phase, cancelled);
        let is = |text: &&str| text.eq_ignore_ascii_case(state) || text.eq_ignore_ascii_case(&document.phase);
        (states.is_empty() || states.iter().any(is))
            && name.is_none_or(|name| document.name == name)
            && pipeline.is_none_or(|id| document.pipeline.as_ref().is_some_and(|(known, _)| known == id))
            && since.is_none_or(|since| document.created_at >= since)
            && labels.iter().all(|(key, value)| known.labels.get(key) == Some(value))
    };
    let after = call.cursor::<String>("flows")?;
    let found = api.flows.list(call.tenants()?, after, call.limit()?, passes).await?;
    let next_cursor = found.next.map(|id| cursor::write("flows", &id));
    Reply::json(200, &FlowList { items: found.items.into_iter().map(FlowView::from).collect(), next_cursor })
}

/// GET /flows/{id}
pub(in super::super) async fn get(api: Arc<Api>, call: Call) -> Answer {
    let object = call.switch("object")?;
    let flow = api.flow(&call).await?;
    if let Some(wait) = call.duration("wait")?
        && let Some(mut changes) = api.flows.changes(&flow.id)
    {
        let ended = changes.wait_for(|view| view.status.phase.is_terminal());
        // Time that is up, or a host that goes, is no error: the answer says how far the flow is.
        drop(tokio::time::timeout(wait.min(WAIT), ended).await.map(|ended| ended.is_ok()));
    }
    let read = api.flows.read(api.flow(&call).await?).await?;
    Reply::json(200, &FlowView::of(&read, object))
}

/// GET /flows/{id}/steps/{step}
pub(in super::super) async fn step(api: Arc<Api>, call: Call) -> Answer {
    let read = api.flows.read(api.flow(&call).await?).await?;
    let (name, status) = (read.internal(call.part("step")), read.status());
    let step = status.steps.iter().find(|step| step.name == name);
    let shown: String = call.part("step").chars().take(64).collect();
    let step = step.ok_or_else(|| not_found(format_args!("step `{shown}` of flow `{}`", read.document.name)))?;
    Reply::json(200, &StepView::of(&read, step))
}

/// POST /flows/{id}/cancel
pub(in super::super) async fn cancel(api: Arc<Api>, call: Call) -> Answer {
    let order: CancelFlow = call.json_or_default()?;
    let flow = api.flow(&call).await?;
    let taken = api.flows.cancel(&flow, order.graceful).await?;
    Reply::json(if taken { 202 } else { 200 }, &FlowOrdered { id: flow.id, taken })
}

/// POST /flows/{id}/suspend
pub(in super::super) async fn suspend(api: Arc<Api>, call: Call) -> Answer {
    set_suspended(&api, &call, true).await
}

/// POST /flows/{id}/resume
pub(in super::super) async fn resume(api: Arc<Api>, call: Call) -> Answer {
    set_suspended(&api, &call, false).await
}

async fn set_suspended(api: &Api, call: &Call, on: bool) -> Answer {
    let NoOrder {} = call.json_or_default()?;
    let flow = api.flow(call).await?;
    api.flows.suspend(&flow, on).await?;
    Reply::json(202, &FlowOrdered { id: flow.id, taken: true })
}

/// POST /flows/{id}/retry
pub(in super::super) async fn retry(api: Arc<Api>, call: Call) -> Answer {
    let RetryFlow { steps, force, definition, parameters, name } = call.json_or_default()?;
    let flow = api.flow(&call).await?;
    let (by, correlation_id) = (call.caller.name().to_owned(), Some(call.request_id.clone()));
    let again = Again { steps, force, definition, parameters, name, by, correlation_id };
    accepted(api.flows.retry(&flow, again).await?)
}

/// DELETE /flows/{id}
pub(in super::super) async fn delete(api: Arc<Api>, call: Call) -> Answer {
    let flow = api.flow(&call).await?;
    api.flows.delete(&flow).await?;
    Ok(Reply::empty(204))
}

/// POST /flows/{id}/steps/{step}/approve
pub(in super::super) async fn approve(api: Arc<Api>, call: Call) -> Answer {
    decide(&api, &call, Decision::Approved).await
}

/// POST /flows/{id}/steps/{step}/reject
pub(in super::super) async fn reject(api: Arc<Api>, call: Call) -> Answer {
    decide(&api, &call, Decision::Rejected).await
}

/// POST /flows/{id}/steps/{step}/confirm-gone
pub(in super::super) async fn confirm_gone(api: Arc<Api>, call: Call) -> Answer {
    let DecisionOrder { reason } = call.json_or_default()?;
    let flow = api.flow(&call).await?;
    api.flows.confirm_gone(&flow, call.part("step"), call.caller.name(), reason).await?;
    Reply::json(202, &FlowOrdered { id: flow.id, taken: true })
}

async fn decide(api: &Api, call: &Call, decision: Decision) -> Answer {
    let DecisionOrder { reason } = call.json_or_default()?;
    let flow = api.flow(call).await?;
    let decider = Decider {
        name: call.caller.name().to_owned(),
        verified: call.caller.token.is_some(),
        operator: call.caller.role.may(Role::Operator),
    };
    api.flows.decide(&flow, call.part("step"), decision, (decider, reason)).await?;
    Reply::json(202, &FlowOrdered { id: flow.id, taken: true })
}
