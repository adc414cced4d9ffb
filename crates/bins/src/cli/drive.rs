//! A host in the foreground: progress, signals, control socket, result.

use orlop_core::machine::flow::FlowPhase;
use orlop_core::machine::step::StepPhase;
use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::status::FlowStatus;

use super::failure::{Exit, Failure};
use super::local;
use super::output::{self, Format};
use super::progress::{self, Progress};
use super::signals::Signals;
use super::stored::Stored;
use crate::host::concurrency_key::KeyClaim;
use crate::host::control::Server;
use crate::host::flow::{Clock as _, FlowHost, Left, SystemClock};
use crate::host::home::{Door, RunDir, RunLock};
use crate::view::items::Items;
use crate::view::name::RunName;
use crate::view::table;

/// The most steps that are shown at the end of a run.
const ROWS: usize = 20;

/// How a run is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drive {
    /// How progress is shown.
    pub progress: Progress,
    /// Form of the result.
    pub output: Format,
    /// Whether to leave when only a person can make the flow go on.
    pub leave_when_paused: bool,
}

/// A host and where it works.
pub(super) struct Driven {
    /// The host.
    pub host: FlowHost,
    /// Its directory.
    pub run: RunDir,
    /// Name of its flow.
    pub name: RunName,
    /// Its lock.
    pub lock: RunLock,
    /// Its door, until the host can be reached.
    pub door: Door,
    /// Its claim to a concurrency key.
    pub claim: Option<KeyClaim>,
}

impl Drive {
    /// Drives a flow to its end, or until there is another reason to leave.
    ///
    /// # Errors
    /// When the host cannot go on.
    pub(super) async fn run(&self, driven: Driven) -> Result<Exit, Failure> {
        let Driven { mut host, run, name, lock, door, claim } = driven;
        let mut signals = Signals::take()?;
        let handle = host.handle();
        let server = Server::open(run.path(), handle.clone())
            .map_err(|error| Failure::io("the control socket cannot be opened", &error))?;
        drop(door);
        // Others believe a claim that waits while its run answers, so the socket comes first.
        if let Some(claim) = &claim {
            if host.status().start_time.is_some() {
                hold(claim, &name).await?;
            }
            host.set_admission(claim.admission());
        }
        let items = Items::of_spec(&host.flow().spec);
        let shown = tokio::spawn(progress::show(self.progress, handle.clone(), name.clone(), items));
        let left = tokio::select! {
            left = host.run() => Ok(left),
            exit = signals.order(&handle) => Err(exit),
        };
        // Watchers see the end before the host is gone.
        let status = host.status();
        let object = JobFlow { status: Some(status.clone()), ..host.flow().clone() };
        // Nobody comes between the end of the socket and that of the lock. Where the door is gone, so are callers.
        let door = run.door().await.ok();
        drop(handle);
        drop(host);
        server.close().await;
        // Progress ends when the host has gone; a panic of it is not the run's.
        drop(shown.await);
        if let Some(claim) = claim.filter(|_| status.phase.is_terminal()) {
            claim.give_up();
        }
        drop(lock);
        drop(door);
        match left {
            Err(exit) => {
                output::tell(&format!(
                    "left `{name}`; running attempts continue, `orlop run --resume --name {}` resumes it",
                    name.call()
                ));
                Ok(exit)
            }
            Ok(Err(error)) => {
                let mut failure = Failure::from(error);
                if !status.phase.is_terminal() {
                    let call = name.call();
                    failure.message.push_str(&format!("; continue the flow: orlop run --resume --name {call}"));
                }
                Err(failure)
            }
            Ok(Ok(Left::Paused)) => {
                self.result(&name, &object, &run).await?;
                output::tell(&format!(
                    "{}, then `orlop run --resume --name {}`",
                    left_paused(&name, &status),
                    name.call()
                ));
                Ok(Exit::Paused)
            }
            Ok(Ok(_)) => {
                self.result(&name, &object, &run).await?;
                Ok(exit_of(&status))
            }
        }
    }

    async fn result(&self, name: &RunName, object: &JobFlow, run: &RunDir) -> Result<(), Failure> {
        match self.output {
            Format::Table => {
                let Some(status) = &object.status else { return Ok(()) };
                let items = Stored::read(run).await.map(|stored| stored.items()).unwrap_or_default();
                let mut text = end_page(name, status, &items);
                text.push_str(&local::tail_of_failure(run, status));
                output::print(&text)
            }
            Format::Name => output::print(&name.name),
            format => output::print(&output::serialized(object, format)?),
        }
    }
}

/// What a person sees of a flow at its end: its steps, and how it ended.
pub(super) fn end_page(name: &RunName, status: &FlowStatus, items: &Items) -> String {
    let now = SystemClock.now();
    let showing = table::Showing { now, colour: output::colour(), items, width: output::width() };
    let steps = table::some_steps(name, status, ROWS, showing);
    format!("{steps}\n{}", table::summary(name, status, now, output::colour()))
}

/// What to do about a flow that only a decision lets go on.
pub(super) fn left_paused(name: &RunName, status: &FlowStatus) -> String {
    let first = status.steps.iter().find(|step| step.phase == StepPhase::PendingApproval);
    let step = first.map_or("STEP", |step| step.name.as_str());
    format!("left `{name}` waiting for a decision: `orlop flow approve {} {step}`", name.call())
}

/// Has a run that was admitted before hold its key again.
async fn hold(claim: &KeyClaim, name: &RunName) -> Result<(), Failure> {
    let holders = claim.hold().await;
    let holders =
        holders.map_err(|error| Failure::io("the claim to the concurrency key cannot be written", &error))?.join(", ");
    if holders.is_empty() {
        return Ok(());
    }
    let message = format!("the concurrency key of `{name}` is held by {holders}; resume it when that has ended");
    Err(Failure::new(Exit::Conflict, message))
}

/// The exit code of a flow that has ended.
#[must_use]
pub(super) fn exit_of(status: &FlowStatus) -> Exit {
    if status.phase == FlowPhase::Succeeded {
        return Exit::Done;
    }
    let failed = status.conditions.iter().find(|condition| condition.kind == "Failed");
    match failed.map(|condition| condition.reason.as_str()) {
        Some("Stopped" | "Terminated" | "Replaced") => Exit::Stopped,
        _ => Exit::Failed,
    }
}

/// Whether something of a paused flow goes on that no person has to decide about.
#[cfg(any(feature = "fleet", feature = "kube"))]
#[must_use]
pub(super) fn goes_on(status: &FlowStatus) -> bool {
    use orlop_core::spec::status::StepStatus;
    let waits = |step: &StepStatus| step.phase == StepPhase::Pending && !step.reason.is_empty();
    status.steps.iter().any(|step| step.phase == StepPhase::Running || waits(step) || step.next_retry_time.is_some())
}
