//! `orlop flow logs`: checks the selection and explains an empty log.

use clap::Args;
use orlop_core::machine::step::StepPhase;
use orlop_core::spec::status::{FlowStatus, StepStatus};
use orlop_core::time::HumanDuration;
use orlop_dag::engine::Explanation;

use super::failure::{Exit, Failure};
use super::globals::GlobalArgs;
use super::output;
use super::target::FlowTarget;

/// Options of `orlop flow logs`.
#[derive(Args, Debug)]
pub(super) struct LogsArgs {
    /// Name of the run
    pub name: String,
    /// The step, or `<step>-i<k>` for one instance; all steps without it
    pub step: Option<String>,
    #[command(flatten)]
    pub globals: GlobalArgs,
    /// Follow the log until the run has ended
    #[arg(short, long)]
    pub follow: bool,
    /// Only this attempt
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub attempt: Option<u32>,
    /// Only this instance of a fan-out
    #[arg(long, value_name = "K")]
    pub item: Option<u32>,
    /// Only steps that failed
    #[arg(long)]
    pub failed: bool,
    /// Only what was written in the last while, such as `10m`
    #[arg(long, value_name = "DURATION")]
    pub since: Option<HumanDuration>,
    /// Prefix every line with its time
    #[arg(long)]
    pub timestamps: bool,
}

impl LogsArgs {
    /// All logs of a flow.
    pub(super) fn all(name: &str, globals: &GlobalArgs) -> Self {
        Self {
            name: name.to_owned(),
            step: None,
            globals: globals.clone(),
            follow: false,
            attempt: None,
            item: None,
            failed: false,
            since: None,
            timestamps: false,
        }
    }
}

/// Shows logs.
///
/// # Errors
/// When there is no such flow, step, instance or attempt.
pub(super) async fn logs(target: &dyn FlowTarget, args: &LogsArgs) -> Result<Exit, Failure> {
    let flow = target.get(&args.name).await?;
    let spec = &flow.object.spec;
    let known = |name: &str, step: &str| {
        step == name || step.strip_prefix(name).and_then(|rest| rest.strip_prefix("-i")).is_some_and(is_number)
    };
    if let Some(step) = &args.step
        && !spec.steps.iter().chain(&spec.finally).any(|of| known(&of.name, step))
    {
        let message = format!("flow `{}` has no step `{step}`", args.name);
        return Err(Failure::new(Exit::NotFound, message));
    }
    let status = flow.status();
    selects(args, &status)?;
    let wrote = target.logs(&flow, args).await?;
    if let Some(step) = args.step.as_ref().filter(|_| !wrote && !args.follow)
        && let Some(why) = flow.explanation(step)?
        && let Some(text) = without_log(args, &status, &why)
    {
        output::tell(&text);
    }
    Ok(Exit::Done)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Checks that there is the instance and the attempt that options name.
///
/// # Errors
/// When there is no such instance, or that attempt has not begun; one that is followed may begin later.
fn selects(args: &LogsArgs, status: &FlowStatus) -> Result<(), Failure> {
    // What has not begun, or goes on and is followed, may still come to have them.
    if status.steps.is_empty() || args.follow && !status.phase.is_terminal() {
        return Ok(());
    }
    let subject = args.step.as_ref().map_or_else(|| format!("flow `{}`", args.name), |step| format!("step `{step}`"));
    let missing = |what: String| Err(Failure::new(Exit::NotFound, format!("{subject} {what}")));
    let number = |record: &StepStatus, step: &str| {
        let number: u32 = record.name.strip_prefix(step)?.strip_prefix("-i")?.parse().ok()?;
        Some(number)
    };
    let of_step = |record: &&StepStatus| match &args.step {
        Some(step) => record.name == *step || number(record, step).is_some(),
        None => true,
    };
    let records = || status.steps.iter().filter(of_step).filter(|record| record.instances.is_none());
    let is_item = |record: &&StepStatus, item: u32| record.name.ends_with(&format!("-i{item}"));
    if let Some(item) = args.item
        && !records().any(|record| is_item(&record, item))
    {
        let count = records().filter(|record| args.step.as_ref().is_some_and(|step| record.name != *step)).count();
        return match (count, &args.step) {
            (0, Some(_)) => missing("has no instances; leave --item out".to_owned()),
            (_, None) => missing(format!("has no instance {item} of any step")),
            (count, Some(_)) => missing(format!("has no instance {item}; its {count} are numbered from 0")),
        };
    }
    if args.step.is_some() && records().next().is_none() && !status.steps.iter().any(|record| of_step(&record)) {
        return missing("was not found in the flow; see `orlop flow get`".to_owned());
    }
    let chosen = records().filter(|record| args.item.is_none_or(|item| is_item(record, item)));
    let begun = chosen.map(|record| record.attempt.max(1)).max();
    match (args.attempt, begun) {
        (Some(wanted), Some(begun)) if wanted > begun => {
            missing(format!("has no attempt {wanted}; the last one is {begun}"))
        }
        _ => Ok(()),
    }
}

/// What is said of a step that was asked for by its name and has no log; nothing where that goes without saying.
fn without_log(args: &LogsArgs, status: &FlowStatus, why: &Explanation) -> Option<String> {
    let step = args.step.as_ref()?;
    if args.failed || args.since.is_some() || matches!(why.phase, StepPhase::Running | StepPhase::Succeeded) {
        return None;
    }
    let began =
        status.steps.iter().any(|record| record.name == *step && (record.attempt > 0 || record.instances.is_some()));
    Some(if began {
        format!("`{step}` wrote nothing; {why}")
    } else {
        format!("no attempt of `{step}` has started, so it has no log; {why}")
    })
}
