//! Orders of people: approve, reject, suspend, resume, stop, terminate.

use clap::{Args, ValueEnum};
use orlop_core::spec::flow::{StopMode, SuspendMode};
use orlop_core::spec::status::Decision;

use super::failure::{Exit, Failure};
use super::globals::GlobalArgs;
use super::output;
use super::target::{FlowTarget, Taken};
use crate::host::control::caller;
use crate::host::flow::FlowCommand;

/// A run.
#[derive(Args, Debug)]
pub(super) struct NameArgs {
    /// Name of the run
    pub name: String,
    #[command(flatten)]
    pub globals: GlobalArgs,
}

/// A decision.
#[derive(Args, Debug)]
pub(super) struct DecideArgs {
    /// Name of the run
    pub name: String,
    /// The Manual step
    pub step: String,
    /// Why
    #[arg(long)]
    pub reason: Option<String>,
    #[command(flatten)]
    pub globals: GlobalArgs,
}

/// A confirmation that an attempt is gone.
#[derive(Args, Debug)]
#[command(after_help = "Refused unless the flow shows the condition CancelBlocked for the step: a minute after the
grace period its cancelled attempt has not ended, because its node or engine cannot be reached or its process
does not go. Make sure that it cannot run any more; a retry, `finally` and the next flow with the same
concurrency key start then.

Examples:
  orlop flow confirm-gone etl load --reason \"the container engine was reinstalled\"
  orlop flow confirm-gone etl load --target kube --reason \"node n7 was powered off\"
  orlop flow confirm-gone etl load --item 3 --target kube    one instance of a fan-out")]
pub(super) struct ConfirmGoneArgs {
    /// Name of the run
    pub name: String,
    /// The step
    pub step: String,
    /// Number of an instance of a fan-out
    #[arg(long)]
    pub item: Option<u32>,
    /// Why
    #[arg(long)]
    pub reason: Option<String>,
    #[command(flatten)]
    pub globals: GlobalArgs,
}

impl ConfirmGoneArgs {
    /// The name of the record that is meant.
    pub(super) fn record(&self) -> String {
        self.item.map_or_else(|| self.step.clone(), |item| orlop_core::name::instance(&self.step, item))
    }
}

/// Confirms that an attempt is gone.
///
/// # Errors
/// When there is no such flow or step, or its cancellation is not blocked.
pub(super) async fn confirm_gone(target: &dyn FlowTarget, args: ConfirmGoneArgs) -> Result<Exit, Failure> {
    let step = args.record();
    let confirmed = format!("{step} is confirmed to be gone");
    let order = FlowCommand::ConfirmGone { step, by: Some(caller()), reason: args.reason };
    give(target, &args.name, order, &confirmed).await
}

/// A suspension.
#[derive(Args, Debug)]
pub(super) struct SuspendArgs {
    /// Name of the run
    pub name: String,
    /// What live attempts do; by default what the flow says, else `drain`
    #[arg(long, value_enum, ignore_case = true)]
    pub mode: Option<Mode>,
    #[command(flatten)]
    pub globals: GlobalArgs,
}

impl SuspendArgs {
    /// What was asked for, if anything was.
    pub(super) fn mode(&self) -> Option<SuspendMode> {
        self.mode.map(|mode| match mode {
            Mode::Drain => SuspendMode::Drain,
            Mode::Suspend => SuspendMode::Suspend,
        })
    }
}

/// What live attempts do when a flow is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    /// They finish
    Drain,
    /// They are frozen
    Suspend,
}

/// Orders without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// Go on.
    Resume,
    /// End, live attempts finish.
    Stop,
    /// End, live attempts are cancelled.
    Terminate,
}

/// Decides about a Manual step.
///
/// # Errors
/// When there is no such flow or step, or it is not in a state for it.
pub(super) async fn decide(target: &dyn FlowTarget, args: DecideArgs, decision: Decision) -> Result<Exit, Failure> {
    let DecideArgs { name, step, reason, globals: _ } = args;
    let answer = format!("{} {step}", if decision == Decision::Approved { "approved" } else { "rejected" });
    let order = FlowCommand::Decide { step, decision, by: Some(caller()), reason, verified: false };
    give(target, &name, order, &answer).await
}

/// Suspends a flow.
///
/// # Errors
/// When there is no such flow, or it has ended.
pub(super) async fn suspend(target: &dyn FlowTarget, args: SuspendArgs) -> Result<Exit, Failure> {
    give(target, &args.name, FlowCommand::Suspend { mode: args.mode() }, "suspended").await
}

/// Carries out an order without options.
///
/// # Errors
/// When there is no such flow, or it is not in a state for it.
pub(super) async fn simple(target: &dyn FlowTarget, args: NameArgs, verb: Verb) -> Result<Exit, Failure> {
    let (order, answer) = match verb {
        Verb::Resume => (FlowCommand::Resume, "resumed"),
        Verb::Stop => (FlowCommand::Stop { mode: StopMode::Graceful }, "stopping"),
        Verb::Terminate => (FlowCommand::Stop { mode: StopMode::Terminate }, "terminating"),
    };
    give(target, &args.name, order, answer).await
}

async fn give(target: &dyn FlowTarget, name: &str, order: FlowCommand, answer: &str) -> Result<Exit, Failure> {
    let asked = format!("{name}: {} has not answered yet", target.asked());
    output::print(&match output::with_patience(&asked, target.order(name, order)).await? {
        Taken::Now => format!("{name}: {answer}"),
        Taken::OnceResumed => format!(
            "{name}: {answer}; no process drives it now, so this takes effect with `orlop run --resume --name {}`",
            target.named(name).call()
        ),
    })?;
    Ok(Exit::Done)
}
