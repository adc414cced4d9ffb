//! Removal of runs with everything of theirs. Owns what may go.

use std::sync::Arc;
use std::time::Duration;

use orlop_cloud::runtime::local::{LocalOptions, remove_memory};
use orlop_cloud::store::sqlite::{Access, SqliteJournal};
use orlop_core::spec::flow::StopMode;

use super::super::delete::unended;
use super::super::failure::{Exit, Failure};
use super::super::globals::GlobalArgs;
use super::super::run::{begun, without_engine};
use super::super::stored::{Stored, order};
use super::super::{manifest, output};
use crate::host::flow::{FlowCommand, FlowHost, HostParts};
use crate::host::home::RunDir;
use crate::host::local::{NOT_BUILT, processes};
use crate::view::text::one_line;

/// How long after its end a run stays that was given no name.
const UNNAMED: Duration = Duration::from_secs(30 * 86_400);

/// Deletes runs without a `--name` that ended long ago, and prints their names. Prints a warning for each that cannot be deleted.
///
/// # Errors
/// When the home cannot be read.
pub(in crate::cli) async fn expired(globals: &GlobalArgs) -> Result<(), Failure> {
    let home = globals.home()?;
    let unreadable = |error| Failure::io(&format!("{} cannot be read", home.path().display()), &error);
    let mut gone = Vec::new();
    // Only those of which nothing was written for as long are opened.
    for run in home.runs(Some(globals.namespace())).map_err(unreadable)?.into_iter().filter(is_old) {
        let Ok(stored) = Stored::read(&run).await else { continue };
        if !stored.state.phase().is_terminal() || !stored.setup().is_ok_and(|setup| setup.expires) {
            continue;
        }
        let name = &stored.record.flow.metadata.name;
        match remove(globals, name, &run, false).await {
            Ok(()) => gone.push(name.clone()),
            Err(failure) => output::tell(&format!("warning: cannot delete the old run `{name}`: {failure}")),
        }
    }
    if !gone.is_empty() {
        output::tell(&format!(
            "deleted what ended more than 30 days ago and was given no --name: {}; --keep keeps such runs",
            one_line(&gone.join(", "), 200)
        ));
    }
    Ok(())
}

fn is_old(run: &RunDir) -> bool {
    let written = std::fs::metadata(run.journal()).and_then(|found| found.modified());
    written.is_ok_and(|at| at.elapsed().is_ok_and(|age| age >= UNNAMED))
}

/// Deletes a run.
///
/// # Errors
/// When it has not ended and may not be terminated, or cannot be removed.
pub(super) async fn remove(globals: &GlobalArgs, name: &str, run: &RunDir, force: bool) -> Result<(), Failure> {
    let stored = match Stored::read(run).await {
        Err(failure) if failure.exit == Exit::NotFound => return remove_unrecorded(name, run).await,
        stored => stored?,
    };
    let ended = stored.state.phase().is_terminal();
    if !ended && !force {
        return Err(unended(name));
    }
    if !ended {
        let stop = || order(run, FlowCommand::Stop { mode: StopMode::Terminate });
        let stopped = match stop().await {
            // The disk is full: logs go anyway, and without them there is room for the order.
            Err(failure) if failure.exit == Exit::Quota => {
                remove_logs(run)?;
                stop().await
            }
            stopped => stopped,
        };
        match stopped {
            // It ended by itself.
            Err(failure) if failure.exit != Exit::Conflict => return Err(failure),
            _ => {}
        }
    }
    let failed = |error| Failure::io(&format!("{} cannot be deleted", run.path().display()), &error);
    // The host goes as soon as its flow has ended.
    let _lock = run.wait_for_lock().await.map_err(failed)?;
    // Anyone who has the door never waits for the lock.
    let _door = run.door().await.map_err(failed)?;
    if let Err(failure) = release(run, &Stored::read(run).await?).await {
        if !force {
            let message = format!("{failure}; --force deletes the run and leaves its containers behind");
            return Err(Failure { message, ..failure });
        }
        output::tell(&format!("warning: cannot remove what is left of the attempts of `{name}`: {failure}"));
    }
    // Secrets of pods that a crash left behind.
    remove_memory(&LocalOptions::new(run.path()))?;
    match &globals.run_dir {
        Some(_) => run.delete().map_err(failed),
        None => globals.home()?.discard(run, &stored.record.uid).map_err(failed),
    }
}

fn remove_logs(run: &RunDir) -> Result<(), Failure> {
    match std::fs::remove_dir_all(run.logs()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::io(&format!("{} cannot be deleted", run.logs().display()), &error))
        }
        _ => Ok(()),
    }
}

/// Removes what a host left that was gone before it had recorded its flow.
async fn remove_unrecorded(name: &str, run: &RunDir) -> Result<(), Failure> {
    let failed = |error| Failure::io(&format!("{} cannot be deleted", run.path().display()), &error);
    let _door = run.door().await.map_err(failed)?;
    let lock = run.lock().map_err(failed)?;
    if lock.is_none() || begun(run).await? {
        return Err(Failure::new(Exit::Conflict, format!("`{name}` is still starting; try again")));
    }
    run.delete().map_err(failed)
}

/// Ends the attempts of a run that are left and deletes what is left of all of them, containers above all. The caller
/// has the lock.
async fn release(run: &RunDir, stored: &Stored) -> Result<(), Failure> {
    let failed = |error| Failure::io(&format!("reading {} failed", run.attempts().display()), &error);
    match std::fs::read_dir(run.attempts()) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        attempts => {
            if attempts.map_err(failed)?.next().is_none() {
                return Ok(());
            }
        }
    }
    let setup = stored.setup()?;
    let images = manifest::has_images(&stored.plan);
    let substrate = setup.substrate(run.path(), processes()?, images).await.map_err(|error| match error {
        error if error.reason == Some(NOT_BUILT) => without_engine(error),
        error => error.into(),
    })?;
    let uid = stored.record.uid.clone();
    let journal = Arc::new(SqliteJournal::open(run.journal(), Access::Host).await?);
    let parts = HostParts { configs: Arc::new(setup.configs()), ..HostParts::new(Arc::clone(&substrate), journal) };
    if !stored.state.phase().is_terminal() {
        FlowHost::resume(parts, &uid).await?.run().await?;
    }
    for attempt in substrate.list(&uid).await? {
        substrate.forget(&attempt).await?;
    }
    Ok(())
}
