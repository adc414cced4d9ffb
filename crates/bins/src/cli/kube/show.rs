//! Flows of a cluster as people see them: lists, pages, graphs.

use std::sync::Arc;

use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::status::ConditionStatus;
use orlop_dag::engine::{Explanation, FlowMeta, State, explain as why, init, reconstruct};
use orlop_dag::plan::Plan;
use orlop_k8s::api::Client;
use orlop_k8s::client::FlowClient;
use serde_json::json;

use super::super::explain::{ExplainArgs, answer};
use super::super::failure::{Exit, Failure};
use super::super::get::GetArgs;
use super::super::globals::GlobalArgs;
use super::super::graph::{GraphArgs, drawn};
use super::super::list::{ListArgs, phase};
use super::super::output::{self, Format};
use super::super::progress::approval_hint;
use super::watch::{age_of, is_older};
use super::{Cluster, named, status, untaken};
use crate::host::flow::{Clock as _, SystemClock};
use crate::view::graph::Graph;
use crate::view::items::Items;
use crate::view::table::{self, fitted};
use crate::view::text::age;

/// What a list says of a flow without a status.
const UNTAKEN: &str = "no operator has taken this flow up yet";

/// `orlop flow list`
pub(super) async fn list(args: ListArgs) -> Result<Exit, Failure> {
    let cluster = Cluster::of(&args.globals).await?;
    let all = FlowClient::new(Client::new(cluster.client.clone()), "");
    let found = if args.all_namespaces { &all } else { &cluster.flows }.list(&args.label).await;
    let mut flows = found?;
    if let Some(wanted) = args.phase.as_deref().map(phase).transpose()? {
        flows.retain(|flow| status(flow).phase == wanted);
    }
    flows.retain(|flow| is_older(flow, args.older_than));
    let text = match args.output {
        Format::Name => flows.iter().map(|flow| format!("{}\n", flow.metadata.name)).collect(),
        Format::Table => rows(&flows, args.all_namespaces),
        format => output::serialized(&json!({ "items": flows }), format)?,
    };
    output::print(&text)?;
    Ok(Exit::Done)
}

fn rows(flows: &[JobFlow], namespaces: bool) -> String {
    let mut header = vec!["NAME", "PHASE", "PROGRESS", "AGE", "MESSAGE"];
    if namespaces {
        header.insert(0, "NAMESPACE");
    }
    let row = |flow: &JobFlow| {
        let status = status(flow);
        let mut row = vec![
            flow.metadata.name.clone(),
            status.phase.to_string(),
            status.progress.summary.clone(),
            age(age_of(flow)),
            if flow.status.is_none() { UNTAKEN.to_owned() } else { status.message },
        ];
        if namespaces {
            row.insert(0, flow.metadata.namespace.clone().unwrap_or_default());
        }
        row
    };
    fitted(&header, &flows.iter().map(row).collect::<Vec<_>>(), output::width())
}

/// `orlop flow get`
pub(super) async fn get(args: GetArgs) -> Result<Exit, Failure> {
    let cluster = Cluster::of(&args.globals).await?;
    let flow = cluster.flows.get(&args.name).await?;
    let shown = match args.output {
        Format::Table if flow.status.is_none() => untaken(&args.name, &cluster.namespace),
        Format::Table => {
            let (name, status, now) = (named(&args.globals, &args.name), status(&flow), SystemClock.now());
            let items = Items::of_spec(&flow.spec);
            let showing = table::Showing { now, colour: output::colour(), items: &items, width: output::width() };
            let mut text = format!("{}\n", table::steps(&status, showing));
            text.push_str(&table::summary(&name, &status, now, output::colour()));
            text.extend(approval_hint(&name, &status).map(|hint| format!("  {hint}\n")));
            text
        }
        _ => return end(&flow, &args.globals, args.output).map(|()| Exit::Done),
    };
    output::print(&shown)?;
    Ok(Exit::Done)
}

fn planned(flow: &JobFlow) -> Result<Plan, Failure> {
    Plan::build(Arc::new(flow.spec.clone())).map_err(|errors| {
        let first = errors.into_iter().next().map(|error| error.to_string()).unwrap_or_default();
        Failure::new(Exit::Refused, format!("flow `{}` cannot be planned: {first}", flow.metadata.name))
    })
}

/// `orlop flow explain`
pub(super) async fn explain(args: ExplainArgs) -> Result<Exit, Failure> {
    let cluster = Cluster::of(&args.globals).await?;
    let flow = cluster.flows.get(&args.name).await?;
    if args.output == Format::Table
        && let Some(text) = of_the_whole(&flow, &cluster.namespace)
    {
        output::print(&text)?;
        return Ok(Exit::Done);
    }
    let (plan, state) = rebuilt(&flow)?;
    answer(&plan, &state, &args)
}

/// Why a step or instance of a flow stands where it stands; none where there is no such one.
///
/// # Errors
/// When the flow cannot be planned.
pub(super) fn explanation(flow: &JobFlow, step: &str) -> Result<Option<Explanation>, Failure> {
    let (plan, state) = rebuilt(flow)?;
    Ok(plan.address_of(step).and_then(|at| why(&plan, &state, at)))
}

/// The plan of a flow, and its state as its status tells it.
fn rebuilt(flow: &JobFlow) -> Result<(Plan, State), Failure> {
    let plan = planned(flow)?;
    let metadata = &flow.metadata;
    let meta = FlowMeta {
        uid: metadata.uid.clone().unwrap_or_default(),
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone().unwrap_or_default(),
        ..FlowMeta::default()
    };
    let now = SystemClock.now();
    let state = match &flow.status {
        Some(status) => reconstruct(&plan, &meta, status, &[], now, &mut Vec::new()),
        None => init(&plan, &meta, now, &mut Vec::new()),
    };
    Ok((plan, state))
}

/// Why a flow as a whole does not run of which no step has anything to say: nobody works on it, it was refused before it began,
/// or its operator cannot go on with it.
fn of_the_whole(flow: &JobFlow, namespace: &str) -> Option<String> {
    let name = &flow.metadata.name;
    let Some(status) = &flow.status else { return Some(untaken(name, namespace)) };
    let holds =
        |kind: &str| status.conditions.iter().find(|known| known.kind == kind && known.status == ConditionStatus::True);
    let refused = holds("Failed").filter(|_| status.steps.is_empty());
    let why = refused.or_else(|| holds("NotUnderstood").or_else(|| holds("SpecChanged")))?;
    Some(format!("{name} is {} ({})\n  {}", status.phase, why.reason, why.message))
}

/// `orlop flow graph`
pub(super) async fn graph(args: GraphArgs) -> Result<Exit, Failure> {
    let flow = Cluster::of(&args.globals).await?.flows.get(&args.subject).await?;
    let plan = planned(&flow)?;
    drawn(&Graph { plan: &plan, status: Some(&status(&flow)) }, args.output)
}

/// Shows how a flow ended.
pub(super) fn end(flow: &JobFlow, globals: &GlobalArgs, format: Format) -> Result<(), Failure> {
    match format {
        Format::Table => {
            let name = named(globals, &flow.metadata.name);
            output::print(&table::summary(&name, &status(flow), SystemClock.now(), output::colour()))
        }
        Format::Name => output::print(&flow.metadata.name),
        format => output::print(&output::serialized(flow, format)?),
    }
}
