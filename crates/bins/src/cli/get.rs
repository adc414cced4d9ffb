//! `orlop flow get`: a flow with its steps. Owns the page people read.

use clap::Args;
use serde_json::json;

use super::failure::{Exit, Failure};
use super::globals::GlobalArgs;
use super::output::{self, Format};
use super::progress::approval_hint;
use super::target::{FlowSnapshot, FlowTarget};
use crate::view::name::RunName;
use crate::view::table;

/// Options of `orlop flow get`.
#[derive(Args, Debug)]
pub(super) struct GetArgs {
    /// Name of the run
    pub name: String,
    #[command(flatten)]
    pub globals: GlobalArgs,
    /// Form of the page; JSON and YAML give the object with its status
    #[arg(short, long, value_enum, ignore_case = true, default_value_t)]
    pub output: Format,
}

/// Shows a flow.
///
/// # Errors
/// When there is none, or it cannot be read.
pub(super) async fn get(target: &dyn FlowTarget, args: &GetArgs) -> Result<Exit, Failure> {
    let flow = target.get(&args.name).await?;
    let name = target.named(&flow.object.metadata.name);
    let text = match args.output {
        Format::Name => name.name,
        Format::Table => page(&flow, &name),
        format if flow.interrupted => {
            let mut object = json!(flow.object);
            object["status"]["interrupted"] = json!(true);
            output::serialized(&object, format)?
        }
        format => output::serialized(&flow.object, format)?,
    };
    output::print(&text)?;
    Ok(Exit::Done)
}

fn page(flow: &FlowSnapshot, name: &RunName) -> String {
    let Some(status) = &flow.object.status else { return flow.notes.join("\n") };
    let showing =
        table::Showing { now: flow.now, colour: output::colour(), items: &flow.items, width: output::width() };
    let mut text = format!("{}\n", table::steps(status, showing));
    text.push_str(&table::summary(name, status, flow.now, output::colour()));
    text.extend(approval_hint(name, status).map(|hint| format!("  {hint}\n")));
    text.extend(flow.notes.iter().map(|line| format!("  {line}\n")));
    text
}
