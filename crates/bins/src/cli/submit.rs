//! `orlop flow submit`, and `orlop run` where somebody else drives the flow: it is handed over, and waited for where that is asked.

use std::path::PathBuf;

use clap::Args;
use orlop_core::spec::flow::{JobFlow, StopMode};
use orlop_core::spec::status::Decision;
use orlop_core::time::HumanDuration;

use super::drive::{end_page, exit_of, left_paused};
use super::failure::{Exit, Failure};
use super::globals::GlobalArgs;
use super::logs::LogsArgs;
use super::output::{self, Format};
use super::run::RunArgs;
use super::setup::{flow_name, pair};
use super::signals::Signals;
use super::target::{FlowSnapshot, FlowTarget, NewFlow, Reports, Wait, within};
use crate::host::control::caller;
use crate::host::flow::FlowCommand;

/// Options of `orlop flow submit`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop flow submit flow.yaml --target fleet
  orlop flow submit flow.yaml --target fleet -p env=prod --watch
  orlop flow submit nightly.json --target fleet --key nightly-2026-11-21   takes effect once
  orlop flow submit flow.yaml --target kube -n team --wait                 the operator of a cluster drives it")]
pub(super) struct SubmitArgs {
    /// File with the flow or pipeline, YAML or JSON; `-` is standard input
    pub file: PathBuf,
    #[command(flatten)]
    pub globals: GlobalArgs,
    /// Value of a parameter (repeatable)
    #[arg(short, long = "param", value_name = "NAME=VALUE", value_parser = pair)]
    pub param: Vec<(String, String)>,
    /// Name of the flow, in place of the one in the file
    #[arg(long, value_parser = flow_name)]
    pub name: Option<String>,
    /// Idempotency key: repeated within a day, the submit takes effect once
    #[arg(long)]
    pub key: Option<String>,
    /// Start suspended
    #[arg(long)]
    pub suspend: bool,
    /// Wait until it has ended; the exit code says how
    #[arg(long)]
    pub wait: bool,
    /// Show progress until it has ended
    #[arg(long)]
    pub watch: bool,
    /// Show what its steps write when it has ended
    #[arg(long)]
    pub logs: bool,
    /// Give up waiting after this long, with exit code 8
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<HumanDuration>,
    /// Form of the output
    #[arg(short, long, value_enum, ignore_case = true, default_value_t)]
    pub output: Format,
}

/// Hands a flow over.
///
/// # Errors
/// When it is refused, or cannot be waited for.
pub(super) async fn submit(target: &dyn FlowTarget, args: &SubmitArgs) -> Result<Exit, Failure> {
    let new = NewFlow {
        file: &args.file,
        name: args.name.as_deref(),
        parameters: &args.param,
        key: args.key.as_deref(),
        suspend: args.suspend,
        strict: false,
        approved: &[],
    };
    let waits = args.wait || args.watch || args.logs;
    if args.timeout.is_some() && !waits {
        return Err(Failure::usage("--timeout limits waiting: use it with --wait, --watch or --logs"));
    }
    let made = target.create(&new).await?;
    let (name, target) = (&made.name, made.target.as_deref().unwrap_or(target));
    match args.output {
        Format::Table if waits => output::tell(&format!("{name} {}", made.message)),
        _ if waits => {}
        Format::Table | Format::Name => output::print(name)?,
        format => output::print(&output::serialized(&made.value, format)?)?,
    }
    if !waits {
        return Ok(Exit::Done);
    }
    let reports = if args.watch && args.output == Format::Table { Reports::Steps } else { Reports::Reasons };
    let ended = target.ended(&made.id, Wait::for_end(reports));
    let Some(flow) = within(args.timeout, name, ended).await? else { return Ok(Exit::TimedOut) };
    if args.logs {
        let all = LogsArgs::all(&made.id, &args.globals);
        target.logs(&FlowSnapshot::of(flow.clone(), Vec::new()), &all).await?;
    }
    show_end(target, &flow, args.output)
}

/// Hands the flow of a file over and waits for its end. An interrupt ends it gracefully, a second one at once, a third one
/// leaves it running.
///
/// # Errors
/// When it is refused, or cannot be waited for.
pub(super) async fn run(target: &dyn FlowTarget, args: &RunArgs) -> Result<Exit, Failure> {
    args.not_local()?;
    let Some(file) = args.file.as_ref().filter(|_| !args.resume) else {
        let call = target.named("NAME").call();
        return Err(Failure::usage(format!(
            "{} continues its flows by itself; watch one with `orlop flow watch {call}`",
            target.asked()
        )));
    };
    let (name, parameters) = (args.name.as_deref(), args.param.as_slice());
    let approved = args.auto_approve.as_slice();
    let new = NewFlow { file, name, parameters, key: None, suspend: false, strict: args.strict, approved };
    let reports = args.progress.reports()?;
    let mut signals = Signals::take()?;
    let made = target.create(&new).await?;
    let target = made.target.as_deref().unwrap_or(target);
    for step in &args.auto_approve {
        let (step, by, decision) = (step.clone(), Some(caller()), Decision::Approved);
        let order = FlowCommand::Decide { step, decision, by, reason: None, verified: false };
        target.order(&made.id, order).await?;
    }
    let mut ended = target.ended(&made.id, Wait { reports, leaves_paused: args.no_wait_approval });
    let mut interrupts = 0;
    let flow = loop {
        tokio::select! {
            flow = &mut ended => break flow?,
            exit = signals.next() => {
                interrupts += 1;
                let (mode, text) = match interrupts {
                    1 => (StopMode::Graceful, "stopping: live attempts finish; interrupt again to cancel them"),
                    2 => (StopMode::Terminate, "cancelling what runs; interrupt again to leave it running"),
                    _ => {
                        let call = target.named(&made.name).call();
                        output::tell(&format!("the flow continues; see it with `orlop flow watch {call}`"));
                        return Ok(exit);
                    }
                };
                output::tell(text);
                match target.order(&made.id, FlowCommand::Stop { mode }).await {
                    // It has ended in this moment.
                    Err(failure) if failure.exit != Exit::Conflict => return Err(failure),
                    _ => {}
                }
            }
        }
    };
    show_end(target, &flow, args.output)
}

/// Shows how a flow ended, or that it was left paused.
///
/// # Errors
/// When that cannot be written.
pub(super) fn show_end(target: &dyn FlowTarget, flow: &JobFlow, format: Format) -> Result<Exit, Failure> {
    let (name, status) = (target.named(&flow.metadata.name), flow.status.clone().unwrap_or_default());
    output::print(&match format {
        Format::Table => end_page(&name, &status, &FlowSnapshot::of(flow.clone(), Vec::new()).items),
        Format::Name => flow.metadata.name.clone(),
        format => output::serialized(flow, format)?,
    })?;
    if status.phase.is_terminal() {
        return Ok(exit_of(&status));
    }
    output::tell(&left_paused(&name, &status));
    Ok(Exit::Paused)
}
