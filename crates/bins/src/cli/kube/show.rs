//! Flows of a cluster as people see them: lists, pages, graphs. Owns the way from objects to the pages of flows on this
//! machine.

use std::sync::Arc;

use orlop_core::spec::flow::JobFlow;
use orlop_dag::engine::{FlowMeta, init, reconstruct};
use orlop_dag::plan::Plan;
use orlop_k8s::api::Client;
use orlop_k8s::client::FlowClient;
use serde_json::json;

use super::super::explain::{ExplainArgs, answer};
use super::super::failure::{Exit, Failure};
use super::super::get::GetArgs;
use super::super::graph::{GraphArgs, drawn};
use super::super::list::{ListArgs, phase};
use super::super::output::{self, Format};
use super::super::place::Place;
use super::super::progress::approval_hint;
use super::watch::{age_of, is_older};
use super::{Cluster, named, status};
use crate::host::flow::{Clock as _, SystemClock};
use crate::view::graph::Graph;
use crate::view::items::Items;
use crate::view::table::{self, columns};
use crate::view::text::{age, one_line};

/// `orlop flow list`
pub(super) async fn list(args: ListArgs) -> Result<Exit, Failure> {
    let cluster = Cluster::of(&args.place).await?;
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
            one_line(&status.message, 60),
        ];
        if namespaces {
            row.insert(0, flow.metadata.namespace.clone().unwrap_or_default());
        }
        row
    };
    columns(&header, &flows.iter().map(row).collect::<Vec<_>>())
}

/// `orlop flow get`
pub(super) async fn get(args: GetArgs) -> Result<Exit, Failure> {
    let flow = Cluster::of(&args.place).await?.flows.get(&args.name).await?;
    let shown = match args.output {
        Format::Table => {
            let (name, status, now) = (named(&args.place, &args.name), status(&flow), SystemClock.now());
            let items = Items::of_spec(&flow.spec);
            let showing = table::Showing { now, colour: output::colour(), items: &items };
            let mut text = format!("{}\n", table::steps(&status, showing));
            text.push_str(&table::summary(&name, &status, now, output::colour()));
            text.extend(approval_hint(&name, &status).map(|hint| format!("  {hint}\n")));
            text
        }
        _ => return end(&flow, &args.place, args.output).map(|()| Exit::Done),
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
    let flow = Cluster::of(&args.place).await?.flows.get(&args.name).await?;
    let plan = planned(&flow)?;
    let metadata = &flow.metadata;
    let meta = FlowMeta {
        uid: metadata.uid.clone().unwrap_or_default(),
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone().unwrap_or_default(),
        ..FlowMeta::default()
    };
    let now = SystemClock.now();
    let state = match &flow.status {
        Some(status) => reconstruct(&plan, &meta, (status, &[]), now, &mut Vec::new()),
        None => init(&plan, &meta, now, &mut Vec::new()),
    };
    answer(&plan, &state, &args)
}

/// `orlop flow graph`
pub(super) async fn graph(args: GraphArgs) -> Result<Exit, Failure> {
    let flow = Cluster::of(&args.place).await?.flows.get(&args.subject).await?;
    let plan = planned(&flow)?;
    drawn(&Graph { plan: &plan, status: Some(&status(&flow)) }, args.output)
}

/// Shows how a flow ended.
pub(super) fn end(flow: &JobFlow, place: &Place, format: Format) -> Result<(), Failure> {
    match format {
        Format::Table => {
            let name = named(place, &flow.metadata.name);
            output::print(&table::summary(&name, &status(flow), SystemClock.now(), output::colour()))
        }
        Format::Name => output::print(&flow.metadata.name),
        format => output::print(&output::serialized(flow, format)?),
    }
}
