//! What an earlier agent left behind of its containers, and clearing away. Owns the file by which a plan is found again,
//! which holds no secret, and removing containers by their labels.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::Duration;

use orlop_core::error::{Class, Problem};
use orlop_core::spec::job::SecretAs;
use orlop_core::task::{TaskEnd, TaskRef};
use orlop_core::time::Time;

use super::hub::{Hub, is_passing};
use crate::durable::{Durable, replace};
use crate::runtime::docker::engine::Engine;
use crate::runtime::logs::now;
use crate::runtime::worker::directories::clear;
use crate::runtime::worker::event::Started;
use crate::runtime::worker::plan::{AttemptPlan, beneath};
use crate::runtime::worker::process::supervise::{self, Control};
use crate::runtime::worker::{Remains, RemainsState};

/// Directory of plans, in that of attempts.
const PLANS: &str = ".plans";
/// Between two tries of an engine that does not answer.
const AGAIN: Duration = Duration::from_secs(2);

/// A container to go on with.
pub(super) struct RemainingContainer {
    pub(super) plan: AttemptPlan,
    pub(super) engine: Engine,
    pub(super) container: String,
    /// Whether it still runs.
    pub(super) runs: bool,
    pub(super) started_at: Time,
    pub(super) signal: String,
}

fn place(hub: &Hub, id: &TaskRef) -> PathBuf {
    hub.options.work.join(PLANS).join(id.to_string())
}

/// Writes down what a later agent needs; values of secrets stay out of it.
pub(super) fn write_plan(hub: &Hub, plan: &AttemptPlan) -> io::Result<()> {
    let mut bare = plan.clone();
    bare.secrets.iter_mut().for_each(|secret| secret.value.clear());
    fs::DirBuilder::new().recursive(true).mode(0o700).create(hub.options.work.join(PLANS))?;
    replace(&place(hub, &plan.id), &serde_json::to_vec(&bare)?, Durable::No)
}

/// The plan of an attempt, with the values of its secrets out of its container and its directory of secrets.
async fn read_plan(hub: &Hub, engine: &Engine, id: &TaskRef, container: &str) -> Option<AttemptPlan> {
    let bytes = fs::read(place(hub, id)).ok()?;
    let mut plan: AttemptPlan = serde_json::from_slice(&bytes).ok()?;
    let env =
        if plan.secrets.is_empty() { Vec::new() } else { engine.environment(container).await.unwrap_or_default() };
    let files = hub.directories.secrets_of(id);
    for secret in &mut plan.secrets {
        let value = match secret.given_as {
            SecretAs::Env => env.iter().find_map(|entry| {
                let (name, value) = entry.split_once('=')?;
                (name == secret.target).then(|| value.to_owned())
            }),
            SecretAs::File => {
                let path = files.as_ref().and_then(|files| Some(files.join(beneath(&secret.target)?)));
                path.and_then(|path| fs::read_to_string(path).ok())
            }
        };
        // Without it no output could be masked.
        secret.value = value?;
    }
    Some(plan)
}

/// Whether anything tells of an attempt.
///
/// # Errors
/// NotFound when nothing does.
pub(super) fn left_a_trace(hub: &Hub, id: &TaskRef) -> Result<(), Problem> {
    let control = Control::of(&hub.options.work, id);
    if hub.is_live(id) || control.exists() || place(hub, id).exists() || hub.directories.of(id).exists() {
        return Ok(());
    }
    Err(Problem::new(Class::NotFound, format!("attempt {id} left no trace on this machine")))
}

/// All attempts that left something.
pub(super) async fn list(hub: &Hub) -> Result<Vec<Remains>, Problem> {
    let containers = match hub.engine().await {
        Ok(engine) => hub.containers(&engine).await,
        Err(error) => Err(error),
    };
    let containers = containers.inspect_err(|_| hub.missed())?;
    let mut all: Vec<Remains> = Vec::new();
    for (id, seen) in containers {
        let started = Started { handle: seen.id, at: now() };
        let state = match (seen.runs, seen.began) {
            (true, _) => RemainsState::Alive { started },
            (false, true) => RemainsState::Ended,
            // It never ran, and nobody starts it any more.
            (false, false) => RemainsState::Gone,
        };
        all.push(Remains { id, state });
    }
    let supervised = supervise::all(&hub.options.work)?;
    for id in hub.directories.all()?.into_iter().chain(supervised.iter().copied()) {
        if !all.iter().any(|remains| remains.id == id) {
            all.push(Remains { id, state: RemainsState::Gone });
        }
    }
    for remains in all.iter_mut().filter(|remains| supervised.contains(&remains.id)) {
        // What a supervisor wrote says more than the container, which may be gone already.
        if let Some(state) = supervise::state(&Control::of(&hub.options.work, &remains.id))? {
            remains.state = state;
        }
    }
    Ok(all)
}

/// The container of an attempt, once the engine answers; none when there is none that could be gone on with.
pub(super) async fn found(hub: &Hub, id: &TaskRef) -> Option<RemainingContainer> {
    loop {
        match try_found(hub, id).await {
            Ok(found) => return found,
            Err(error) if is_passing(&error) => {
                hub.missed();
                tokio::time::sleep(AGAIN).await;
            }
            Err(error) => {
                tracing::error!(attempt = %id, error = %error.chain(), "what is left of an attempt cannot be looked at");
                return None;
            }
        }
    }
}

async fn try_found(hub: &Hub, id: &TaskRef) -> Result<Option<RemainingContainer>, Problem> {
    let engine = hub.engine().await?;
    let Some(seen) = hub.containers_of(&engine, id).await?.into_iter().find(|seen| seen.began) else {
        return Ok(None);
    };
    let Some(plan) = read_plan(hub, &engine, id, &seen.id).await else { return Ok(None) };
    let started_at = engine.observe(&seen.id).await?.started_at.unwrap_or_else(now);
    let signal = engine.inspect(&seen.id).await?.and_then(|found| found.config).and_then(|config| config.stop_signal);
    let signal = signal.filter(|signal| !signal.is_empty()).unwrap_or_else(|| "SIGTERM".to_owned());
    Ok(Some(RemainingContainer { plan, engine, container: seen.id, runs: seen.runs, started_at, signal }))
}

/// Removes the containers of an attempt, running or not.
pub(super) async fn discard(hub: &Hub, id: &TaskRef) -> Result<(), Problem> {
    let engine = hub.engine().await?;
    for seen in hub.containers_of(&engine, id).await? {
        engine.remove(&seen.id).await?;
    }
    Ok(())
}

/// Removes the files of an attempt that has ended; its directory stays where its artifacts are still to be taken.
pub(super) fn clear_away(hub: &Hub, plan: &AttemptPlan, outcome: TaskEnd) {
    if let Some(secrets) = hub.directories.secrets_of(&plan.id) {
        clear(&secrets);
    }
    if let Err(error) = fs::remove_file(place(hub, &plan.id))
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(attempt = %plan.id, %error, "the plan of an attempt stays");
    }
    if !plan.run.keep {
        hub.directories.retire(&hub.directories.of(&plan.id), outcome);
    }
}

/// Removes all that is left of an attempt.
pub(super) async fn remove(hub: &Hub, id: &TaskRef) -> Result<(), Problem> {
    if left_a_trace(hub, id).is_ok() || hub.engine().await.is_ok() {
        discard(hub, id).await?;
    }
    clear_away(hub, &AttemptPlan::new(*id, std::sync::Arc::default()), TaskEnd::Lost);
    let control = Control::of(&hub.options.work, id);
    if control.exists() {
        // A supervisor that was about to take it on no longer does.
        drop(control.supervisor());
        control.remove();
    }
    Ok(())
}
