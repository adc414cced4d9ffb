//! `orlop flow delete`: removes runs with everything of theirs. Owns which may go.

use clap::Args;
use orlop_core::spec::flow::StopMode;
use orlop_core::time::GoDuration;

use super::failure::{Exit, Failure};
use super::list::{Filter, runs};
use super::output;
use super::place::Place;
use super::stored::{Stored, order};
use crate::host::control::Client;
use crate::host::flow::Order;
use crate::host::home::RunDir;

/// Options of `orlop flow delete`.
#[derive(Args, Debug)]
pub(super) struct DeleteArgs {
    /// Names of runs
    #[arg(required_unless_present_any = ["completed", "older_than"])]
    pub names: Vec<String>,
    #[command(flatten)]
    pub place: Place,
    /// Also runs that have not ended: they are terminated first
    #[arg(long)]
    pub force: bool,
    /// All runs that have ended
    #[arg(long, conflicts_with = "names")]
    pub completed: bool,
    /// All runs that have ended and were accepted at least this long ago, such as `72h`
    #[arg(long, value_name = "DURATION", conflicts_with = "names")]
    pub older_than: Option<GoDuration>,
}

/// Deletes runs.
///
/// # Errors
/// When one is not there, has not ended, or cannot be deleted; those before it are gone.
pub(super) async fn delete(args: DeleteArgs) -> Result<Exit, Failure> {
    let mut chosen: Vec<(String, RunDir)> = Vec::new();
    for name in &args.names {
        chosen.push((name.clone(), args.place.existing(name)?));
    }
    if args.completed || args.older_than.is_some() {
        let namespace = Some(args.place.namespace.clone());
        let filter = Filter { namespace, older_than: args.older_than.map(GoDuration::get), ..Filter::default() };
        let ended = runs(&args.place, &filter).await?.into_iter().filter(|run| run.flow.summary.phase.is_terminal());
        chosen.extend(ended.map(|listed| (listed.flow.name, listed.run)));
    }
    for (name, run) in chosen {
        remove(&name, &run, args.force).await?;
        output::print(&format!("{name} deleted"))?;
    }
    Ok(Exit::Done)
}

async fn remove(name: &str, run: &RunDir, force: bool) -> Result<(), Failure> {
    let ended = Stored::read(run).await?.state.phase().is_terminal();
    if !ended && !force {
        let message = format!("`{name}` has not ended; terminate it first, or say --force");
        return Err(Failure::new(Exit::Conflict, message));
    }
    if !ended {
        terminate(name, run).await?;
    }
    let failed = |error| Failure::io(&format!("{} cannot be deleted", run.path().display()), &error);
    let Some(_lock) = run.lock().map_err(failed)? else {
        return Err(Failure::new(Exit::Conflict, format!("a host still works on `{name}`; try again")));
    };
    std::fs::remove_dir_all(run.path()).map_err(failed)
}

/// Terminates a run and waits until its host has gone.
async fn terminate(name: &str, run: &RunDir) -> Result<(), Failure> {
    let client = Client::connect(run.path()).await;
    let watch = match client.map_err(|error| Failure::io("the host of the flow cannot be reached", &error))? {
        Some(client) => client.watch().await.ok(),
        None => None,
    };
    match order(run, Order::Stop { mode: StopMode::Terminate }).await {
        Ok(true) => {}
        Ok(false) => {
            let live = Stored::read(run).await?.state.live().next().is_some();
            if live {
                let message = format!(
                    "attempts of `{name}` may still run and no host is there to end them; `orlop run --resume --name \
                     {name}` ends them, then delete it"
                );
                return Err(Failure::new(Exit::Conflict, message));
            }
        }
        // It ended by itself.
        Err(failure) if failure.exit == Exit::Conflict => {}
        Err(failure) => return Err(failure),
    }
    if let Some(mut watch) = watch {
        while let Ok(Some(_)) = watch.next().await {}
    }
    // The host lets its lock go a moment after its last word.
    for _ in 0..100 {
        if matches!(run.lock(), Ok(Some(_))) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    Ok(())
}
