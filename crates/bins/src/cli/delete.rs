//! `orlop flow delete`: removes flows with everything of theirs. Owns which are meant.

use clap::Args;
use orlop_core::time::HumanDuration;

use super::failure::{Exit, Failure};
use super::globals::GlobalArgs;
use super::output;
use super::target::{FlowTarget, ListFilter};

/// Options of `orlop flow delete`.
#[derive(Args, Debug)]
pub(super) struct DeleteArgs {
    /// Names of runs
    #[arg(required_unless_present_any = ["completed", "older_than"])]
    pub names: Vec<String>,
    #[command(flatten)]
    pub globals: GlobalArgs,
    /// Also runs that have not ended: they are terminated first
    #[arg(long)]
    pub force: bool,
    /// All runs that have ended
    #[arg(long, conflicts_with = "names")]
    pub completed: bool,
    /// All runs that have ended and were accepted at least this long ago, such as `72h`
    #[arg(long, value_name = "DURATION", conflicts_with = "names")]
    pub older_than: Option<HumanDuration>,
}

/// Deletes flows.
///
/// # Errors
/// When one is not there, has not ended, or cannot be deleted; those before it are gone.
pub(super) async fn delete(target: &dyn FlowTarget, args: &DeleteArgs) -> Result<Exit, Failure> {
    let mut chosen = Vec::new();
    for name in &args.names {
        chosen.push((name.clone(), target.id(name).await?));
    }
    if args.completed || args.older_than.is_some() {
        let listed = target.list(&ListFilter { older_than: args.older_than, ..ListFilter::default() }).await?;
        chosen.extend(listed.into_iter().filter(|flow| flow.phase.is_terminal()).map(|flow| (flow.name, flow.id)));
    }
    for (name, id) in chosen {
        target.delete(&name, &id, args.force).await?;
        output::print(&format!("{name} deleted"))?;
    }
    Ok(Exit::Done)
}

/// What is said of a flow that has not ended.
pub(super) fn unended(name: &str) -> Failure {
    Failure::new(Exit::Conflict, format!("`{name}` has not ended; terminate it first, or use --force"))
}
