//! `orlop flow explain`: why steps stand where they stand. Owns which steps are explained; the engine knows the reasons.

use clap::Args;
use orlop_core::attempt::Address;
use orlop_core::machine::step::StepPhase;
use orlop_dag::engine::{Explainer, Explanation, State, explain as why};
use orlop_dag::plan::Plan;

use super::failure::{Exit, Failure};
use super::globals::GlobalArgs;
use super::output::{self, Format};
use super::target::FlowTarget;
use crate::view::items::Items;

/// Options of `orlop flow explain`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop flow explain etl             every step that has not succeeded
  orlop flow explain etl load        one step
  orlop flow explain etl load-i3     one instance of a fan-out")]
pub(super) struct ExplainArgs {
    /// Name of the run
    pub name: String,
    /// Name of a step or instance; all steps that have not succeeded if absent
    pub step: Option<String>,
    #[command(flatten)]
    pub globals: GlobalArgs,
    /// Form of the answer
    #[arg(short, long, value_enum, ignore_case = true, default_value_t)]
    pub output: Format,
}

/// Explains a step, or all that have not succeeded.
///
/// # Errors
/// When there is no such flow or step, or it cannot be read.
pub(super) async fn explain(target: &dyn FlowTarget, args: &ExplainArgs) -> Result<Exit, Failure> {
    let flow = target.get(&args.name).await?;
    let for_people = args.output == Format::Table;
    if let Some(text) = flow.refusal().filter(|_| for_people) {
        output::print(&text)?;
        return Ok(Exit::Done);
    }
    let replayed = flow.replayed()?;
    let exit = answer(&replayed.0, &replayed.1, args)?;
    if !flow.status().phase.is_terminal() && for_people {
        for note in &flow.notes {
            output::print(note)?;
        }
    }
    Ok(exit)
}

/// Prints why the steps of a state stand where they stand.
///
/// # Errors
/// When there is no such step.
fn answer(plan: &Plan, state: &State, args: &ExplainArgs) -> Result<Exit, Failure> {
    let mut explanations = match &args.step {
        Some(name) => vec![one(plan, state, &args.name, name)?],
        None => unfinished(plan, state),
    };
    if args.output == Format::Table {
        let items = Items::of_run(plan, state, explanations.iter().map(|explanation| explanation.name.as_str()));
        explanations.iter_mut().for_each(|explanation| explanation.name = items.name(&explanation.name));
    }
    let text = match args.output {
        Format::Name => explanations.iter().map(|explanation| format!("{}\n", explanation.name)).collect(),
        Format::Table if explanations.is_empty() => "every step has succeeded\n".to_owned(),
        Format::Table => explanations.iter().map(|explanation| format!("{explanation}\n")).collect(),
        format => output::serialized(&explanations, format)?,
    };
    output::print(&text)?;
    Ok(Exit::Done)
}

fn one(plan: &Plan, state: &State, run: &str, name: &str) -> Result<Explanation, Failure> {
    let explanation = plan.address_of(name).and_then(|at| why(plan, state, at));
    explanation.ok_or_else(|| {
        let message = format!("the flow {run} has no step or instance {name}; see `orlop flow get {run}`");
        Failure::new(Exit::NotFound, message)
    })
}

fn unfinished(plan: &Plan, state: &State) -> Vec<Explanation> {
    let steps = u32::try_from(plan.len()).unwrap_or(u32::MAX);
    let mut explainer = Explainer::new(plan, state);
    let explanations = (0..steps).filter_map(|step| explainer.explain(Address::step(step)));
    explanations.filter(|explanation| explanation.phase != StepPhase::Succeeded).collect()
}
