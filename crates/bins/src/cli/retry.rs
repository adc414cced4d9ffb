//! `orlop flow retry`: what failed runs again in a new flow.

use std::path::PathBuf;

use clap::Args;
#[cfg(any(feature = "fleet", feature = "kube"))]
use orlop_dag::repeat::is_of;

use super::failure::{Exit, Failure};
use super::globals::GlobalArgs;
#[cfg(any(feature = "fleet", feature = "kube"))]
use super::manifest::{self, Loaded};
use super::output::{self, Format};
use super::progress::Progress;
use super::setup::{flow_name, pair};
use super::submit::show_end;
use super::target::{Created, FlowTarget, Reports, Retried, Wait};

/// Options of `orlop flow retry`.
#[derive(Args, Debug)]
pub(super) struct RetryArgs {
    /// Name of the run that has ended
    pub name: String,
    /// The changed file of the flow: what it changes runs again, with all that comes after it [default: as it ran]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub globals: GlobalArgs,
    /// Run this step again too, with all that comes after it (repeatable)
    #[arg(long, value_name = "STEP")]
    pub step: Vec<String>,
    /// Repeat a run that Succeeded though no step is named: its `finally` steps run again
    #[arg(long)]
    pub force: bool,
    /// Another value of a parameter (repeatable)
    #[arg(short, long = "param", value_name = "NAME=VALUE", value_parser = pair)]
    pub param: Vec<(String, String)>,
    /// Let steps mount this directory of the machine too, beside those of the old run (repeatable)
    #[arg(long, value_name = "DIR")]
    pub allow_host_path: Vec<PathBuf>,
    /// Wait until the new flow has ended; the exit code says how. A retry on this machine always waits
    #[arg(long)]
    pub wait: bool,
    /// Name of the new run [default: the old name with -r2, -r3, …]
    #[arg(long = "name", value_name = "NEW", value_parser = flow_name)]
    pub new_name: Option<String>,
    /// Directory of the new run, in place of one below the home
    #[arg(long, value_name = "DIR")]
    pub new_run_dir: Option<PathBuf>,
    /// Attempts that run at once [default: number of CPUs]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub jobs: Option<u32>,
    /// How progress is shown
    #[arg(long, value_enum, ignore_case = true, default_value_t)]
    pub progress: Progress,
    /// Form of the result
    #[arg(short, long, value_enum, ignore_case = true, default_value_t)]
    pub output: Format,
}

/// The changed file of a retry, its text and its flow; none where it is repeated as it ran. Warnings are reported.
///
/// # Errors
/// When the file is refused or holds another flow, or there is no flow to repeat.
#[cfg(any(feature = "fleet", feature = "kube"))]
pub(super) async fn changed(target: &dyn FlowTarget, args: &RetryArgs) -> Result<Option<(String, Loaded)>, Failure> {
    let Some(file) = &args.file else { return Ok(None) };
    let old = target.get(&args.name).await?;
    let name = &old.object.metadata.name;
    let text = manifest::text(file)?;
    let loaded = manifest::one_of(file, &text, args.globals.target.submit_limits(false), Some(name))?;
    is_of(name, &loaded.plan, &old.replayed()?.0)
        .map_err(|why| Failure::usage(format!("{}: {why}", file.display())))?;
    Ok(Some((text, loaded)))
}

/// Prints the name of the new flow, or waits for it with `--wait`.
///
/// # Errors
/// When it cannot be waited for.
async fn repeated(
    target: &dyn FlowTarget,
    made: &Created,
    args: &RetryArgs,
    reports: Reports,
) -> Result<Exit, Failure> {
    if !args.wait {
        output::print(&made.name)?;
        return Ok(Exit::Done);
    }
    output::tell(&format!("{} {}", made.name, made.message));
    let flow = target.ended(&made.id, Wait::for_end(reports)).await?;
    show_end(target, &flow, args.output)
}

/// Runs again what failed.
///
/// # Errors
/// When the flow is not there or has not ended, or the new one cannot be begun.
pub(super) async fn retry(target: &dyn FlowTarget, args: &RetryArgs) -> Result<Exit, Failure> {
    let reports = if args.globals.target.is_here() { Reports::Nothing } else { args.progress.reports()? };
    match target.retry(args).await? {
        Retried::Ended(exit) => Ok(exit),
        Retried::Created(made) => repeated(target, &made, args, reports).await,
    }
}
