//! `orlop flow watch`: what happens to a flow, until it has ended.

use clap::Args;
use orlop_core::time::HumanDuration;

use super::drive::exit_of;
use super::failure::{Exit, Failure};
use super::globals::GlobalArgs;
use super::output::{self, Format};
use super::target::{FlowTarget, Reports, Wait, within};
use crate::host::flow::{Clock as _, SystemClock};
use crate::view::table;

/// Options of `orlop flow watch`.
#[derive(Args, Debug)]
pub(super) struct WatchArgs {
    /// Name of the run
    pub name: String,
    #[command(flatten)]
    pub globals: GlobalArgs,
    /// Give up after this long, with exit code 8
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<HumanDuration>,
    /// Form of the output; JSON gives one status a line
    #[arg(short, long, value_enum, ignore_case = true, default_value_t)]
    pub output: Format,
}

/// Watches a flow until it has ended.
///
/// # Errors
/// When there is none, or nobody drives it.
pub(super) async fn watch(target: &dyn FlowTarget, args: &WatchArgs) -> Result<Exit, Failure> {
    let reports = match args.output {
        Format::Table => Reports::Printed,
        Format::Json => Reports::Statuses,
        Format::Name | Format::Yaml => Reports::Reasons,
    };
    let ended = target.ended(&args.name, Wait::for_end(reports));
    let Some(flow) = within(args.timeout, &args.name, ended).await? else { return Ok(Exit::TimedOut) };
    let status = flow.status.unwrap_or_default();
    output::print(&match args.output {
        Format::Table => {
            table::summary(&target.named(&flow.metadata.name), &status, SystemClock.now(), output::colour())
        }
        Format::Json => serde_json::to_string(&status).unwrap_or_default(),
        Format::Name => flow.metadata.name,
        Format::Yaml => output::serialized(&status, Format::Yaml)?,
    })?;
    Ok(exit_of(&status))
}
