//! Pipelines: definitions of flows that are kept, and runs of them.

use std::sync::Arc;

use orlop_core::error::Problem;
use orlop_core::spec::job::StepBackend;
use orlop_dag::plan::Plan;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::super::BASE;
use super::super::call::Call;
use super::super::cursor;
use super::super::reply::{Answer, Reply};
use super::super::state::Api;
use super::super::view::flow::{DagView, EdgeView, NodeView, PipelineList, PipelineView};
use super::super::view::flow_order::{PipelineOrder, PipelineRun, PipelineVersion};
use super::flows::{backend, begin};
use crate::host::flow::Definition;

/// What an order for a pipeline holds: the definition alone, or an object around it.
fn order<T: DeserializeOwned>(call: &Call) -> Result<T, Problem> {
    let body = call.value()?;
    let around = if body.get("definition").is_some() { body } else { json!({ "definition": body }) };
    serde_json::from_value(around).map_err(|error| Problem::field("", error.to_string()))
}

/// POST /pipelines
pub(in super::super) async fn create(api: Arc<Api>, call: Call) -> Answer {
    let order: PipelineOrder = order(&call)?;
    let tenant = call.owner(order.tenant.as_deref(), &api.options.default_tenant)?;
    api.handle.require_tenant(&tenant, "", |name| call.sees(name)).await?;
    let pipeline = api.flows.create_pipeline(tenant, order.definition).await?;
    let place = format!("{BASE}/pipelines/{}", pipeline.id);
    let version = u64::from(pipeline.version);
    Ok(Reply::json(201, &PipelineView::short(&pipeline))?.at(&place).revision(version))
}

/// GET /pipelines
pub(in super::super) async fn list(api: Arc<Api>, call: Call) -> Answer {
    let after = call.cursor::<String>("pipelines")?;
    let found = api.flows.pipelines(call.tenants()?, after, call.limit()?).await?;
    let next_cursor = found.next.map(|id| cursor::write("pipelines", &id));
    Reply::json(200, &PipelineList { items: found.items.iter().map(PipelineView::short).collect(), next_cursor })
}

/// GET /pipelines/{id}
pub(in super::super) async fn get(api: Arc<Api>, call: Call) -> Answer {
    let pipeline = api.flows.pipeline(call.part("id"), call.visible().as_deref()).await?;
    let version = u64::from(pipeline.version);
    Ok(Reply::json(200, &PipelineView::from(pipeline))?.revision(version))
}

/// PUT /pipelines/{id}
pub(in super::super) async fn put(api: Arc<Api>, call: Call) -> Answer {
    let (order, known): (PipelineVersion, _) = (order(&call)?, call.if_match()?);
    let tenants = call.visible();
    let pipeline = api.flows.update_pipeline(call.part("id"), tenants.as_deref(), known, order.definition).await?;
    call.concern.is(&pipeline.tenant);
    let version = u64::from(pipeline.version);
    Ok(Reply::json(200, &PipelineView::short(&pipeline))?.revision(version))
}

/// DELETE /pipelines/{id}
pub(in super::super) async fn delete(api: Arc<Api>, call: Call) -> Answer {
    let known = call.if_match()?;
    api.flows.delete_pipeline(call.part("id"), call.visible().as_deref(), known).await?;
    Ok(Reply::empty(204))
}

/// GET /pipelines/{id}/dag
pub(in super::super) async fn dag(api: Arc<Api>, call: Call) -> Answer {
    let pipeline = api.flows.pipeline(call.part("id"), call.visible().as_deref()).await?;
    let definition = api.flows.definition(&pipeline.definition, StepBackend::default(), None).await?;
    Reply::json(200, &graph(&definition))
}

/// POST /pipelines/{id}/flows
pub(in super::super) async fn run(api: Arc<Api>, call: Call) -> Answer {
    let order: PipelineRun = call.json_or_default()?;
    let pipeline = api.flows.pipeline(call.part("id"), call.visible().as_deref()).await?;
    call.concern.is(&pipeline.tenant);
    let backend = backend(order.backend.as_deref())?;
    let definition = api.flows.definition(&pipeline.definition, backend, None).await?;
    let of = (pipeline.tenant, Some((pipeline.id, pipeline.version)));
    begin(&api, &call, &definition, (order.into(), of)).await
}

/// The graph of a definition, its steps under the names it gives them.
fn graph(definition: &Definition) -> DagView {
    let plan: &Plan = &definition.plan;
    let spec = plan.spec();
    let shown = |name: &str| definition.manifest.step_name(name).to_owned();
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    let mut waves = vec![0_u32; plan.len()];
    for (wave, steps) in (0..).zip(plan.ranks().waves()) {
        for step in steps {
            waves.get_mut(step as usize).into_iter().for_each(|slot| *slot = wave);
        }
    }
    for ((at, step), wave) in (0..).zip(spec.steps.iter().chain(&spec.finally)).zip(waves) {
        let kind = if step.is_manual() { "Manual" } else { "Job" }.to_owned();
        let finally = at as usize >= plan.main_len();
        nodes.push(NodeView { name: shown(&step.name), kind, wave, finally });
        let after = plan.dependents(orlop_core::attempt::StepIndex(at));
        edges.extend(after.map(|(to, _)| EdgeView { from: shown(&step.name), to: shown(plan.name(to)) }));
    }
    DagView { nodes, edges }
}
