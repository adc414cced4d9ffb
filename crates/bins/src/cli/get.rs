//! `orlop flow get`: a run with its steps. Owns the page people read.

use clap::Args;
use serde_json::json;

use super::failure::{Exit, Failure};
use super::globals::GlobalArgs;
use super::output::{self, Format};
use super::progress::approval_hint;
use super::stored::{Host, Stored, interrupted, last_time, stopped};
use crate::host::flow::{Clock as _, SystemClock};
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

/// Shows a run.
///
/// # Errors
/// When there is none, or it cannot be read.
pub(super) async fn get(args: GetArgs) -> Result<Exit, Failure> {
    let run = args.globals.existing(&args.name)?;
    // ApiRequest before: a host that ends meanwhile has recorded the end.
    let host = Host::of(&run).await;
    let stored = Stored::read(&run).await?;
    let (status, items) = (stored.status(), stored.items());
    let left = host == Host::None && !status.phase.is_terminal();
    let name = &args.globals.named(&stored.record.flow.metadata.name);
    let text = match args.output {
        Format::Name => name.name.clone(),
        Format::Table => {
            let now = if left { last_time(&status) } else { SystemClock.now() };
            let showing = table::Showing { now, colour: output::colour(), items: &items, width: output::width() };
            let mut text = format!("{}\n", table::steps(&status, showing));
            text.push_str(&table::summary(name, &status, now, output::colour()));
            text.extend(approval_hint(name, &status).map(|hint| format!("  {hint}\n")));
            text.extend(left.then(|| format!("  {}\n", interrupted(name))));
            text.extend(stopped(host.stopped(), &status).iter().map(|line| format!("  {line}\n")));
            text
        }
        format if left => {
            let mut object = json!(stored.object());
            object["status"]["interrupted"] = json!(true);
            output::serialized(&object, format)?
        }
        format => output::serialized(&stored.object(), format)?,
    };
    output::print(&text)?;
    Ok(Exit::Done)
}
