//! `orlop flow list`: prints flows as a table or as items.

use clap::Args;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::time::HumanDuration;
use serde_json::{Value, json};

use super::failure::{Exit, Failure};
use super::globals::GlobalArgs;
use super::output::{self, Format};
use super::setup::pair;
use super::target::{FlowTarget, ListFilter, ListedFlow};
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

/// A phase as written, in any case.
///
/// # Errors
/// When there is no such phase.
pub(super) fn phase(text: &str) -> Result<FlowPhase, Failure> {
    use orlop_core::machine::Named as _;
    FlowPhase::from_typed(text).map_err(Failure::usage)
}

/// Lists flows.
///
/// # Errors
/// When they cannot be read.
pub(super) async fn list(target: &dyn FlowTarget, args: &ListArgs) -> Result<Exit, Failure> {
    let filter = ListFilter {
        all_namespaces: args.all_namespaces,
        phase: args.phase.clone(),
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
            let items: Vec<&Value> = flows.iter().map(|flow| &flow.value).collect();
            output::serialized(&json!({"items": items}), format)?
        }
    };
    output::print(&text)?;
    Ok(Exit::Done)
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
            flow.phase.clone(),
            flow.progress.clone(),
            age(now.since(flow.created)),
            flow.message.clone(),
        ];
        if namespaces {
            row.insert(0, flow.namespace.clone());
        }
        row
    };
    fitted(&header, &flows.iter().map(row).collect::<Vec<_>>(), output::width())
}
