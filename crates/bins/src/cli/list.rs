//! `orlop flow list`: prints flows as a table or as items.

use clap::Args;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::time::HumanDuration;
use serde_json::{Value, json};

use super::failure::{Exit, Failure};
use super::globals::GlobalArgs;
use super::output::{self, Format};
use super::setup::pair;
use super::target::{FlowTarget, INTERRUPTED, ListFilter, ListedFlow};
use crate::host::flow::{Clock as _, SystemClock};
use crate::view::table::fitted;
use crate::view::text::age;

/// Options of `orlop flow list`.
#[derive(Args, Debug)]
pub(super) struct ListArgs {
    #[command(flatten)]
    pub globals: GlobalArgs,
    /// Runs of all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Only runs in this phase, as the list shows it
    #[arg(long)]
    pub phase: Option<String>,
    /// Only runs with this label (repeatable)
    #[arg(short = 'l', long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    pub label: Vec<(String, String)>,
    /// Only runs accepted at least this long ago, such as `36h`
    #[arg(long, value_name = "DURATION")]
    pub older_than: Option<HumanDuration>,
    /// Form of the list
    #[arg(short, long, value_enum, ignore_case = true, default_value_t)]
    pub output: Format,
}

/// A phase as a list shows it, of one written in any case.
///
/// # Errors
/// When there is no such phase.
fn shown_phase(text: &str) -> Result<String, Failure> {
    use orlop_core::machine::Named as _;
    if text.eq_ignore_ascii_case(INTERRUPTED) {
        return Ok(INTERRUPTED.to_owned());
    }
    let known = FlowPhase::from_typed(text);
    Ok(known.map_err(|error| Failure::usage(format!("{error}; or {INTERRUPTED}")))?.to_string())
}

/// Lists flows.
///
/// # Errors
/// When they cannot be read.
pub(super) async fn list(target: &dyn FlowTarget, args: &ListArgs) -> Result<Exit, Failure> {
    let filter = ListFilter {
        all_namespaces: args.all_namespaces,
        phase: args.phase.as_deref().map(shown_phase).transpose()?,
        labels: args.label.clone(),
        older_than: args.older_than,
        whole: matches!(args.output, Format::Json | Format::Yaml),
        hosts: true,
    };
    let flows = target.list(&filter).await?;
    let text = match args.output {
        Format::Name => flows.iter().map(|flow| format!("{}\n", flow.name)).collect(),
        Format::Table => table(&flows, args.all_namespaces),
        format => {
            let items: Vec<Value> = flows.iter().map(item).collect();
            output::serialized(&json!({"items": items}), format)?
        }
    };
    output::print(&text)?;
    Ok(Exit::Done)
}

/// A flow in the JSON form, the same for every target.
fn item(flow: &ListedFlow) -> Value {
    let mut item = json!({
        "namespace": flow.namespace, "name": flow.name, "uid": flow.uid, "created": flow.created.to_string(),
        "phase": flow.phase, "progress": flow.progress, "message": flow.message,
        "started": flow.started.map(|at| at.to_string()), "ended": flow.ended.map(|at| at.to_string()),
        "interrupted": flow.interrupted, "labels": flow.labels,
    });
    for (member, value) in &flow.more {
        item[member] = value.clone();
    }
    item
}

fn table(flows: &[ListedFlow], namespaces: bool) -> String {
    let now = SystemClock.now();
    let mut header = vec!["NAME", "PHASE", "PROGRESS", "AGE", "MESSAGE"];
    if namespaces {
        header.insert(0, "NAMESPACE");
    }
    let row = |flow: &ListedFlow| {
        let mut row = vec![
            flow.name.clone(),
            flow.shown_phase(),
            flow.progress.clone(),
            age(now.since(flow.created)),
            flow.hint.clone().unwrap_or_else(|| flow.message.clone()),
        ];
        if namespaces {
            row.insert(0, flow.namespace.clone());
        }
        row
    };
    fitted(&header, &flows.iter().map(row).collect::<Vec<_>>(), output::width())
}
