//! A harness over the flow host: any substrate and journal, real time, controls given as soon as their trigger holds.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use orlop_core::ports::journal::FlowJournal;
use orlop_core::ports::substrate::Substrate;
use orlop_core::spec::flow::{StopMode, SuspendMode};
use orlop_core::spec::status::FlowStatus;
use orlop_core::testing::{MemoryJournal, ScriptedSubstrate};

use super::{Case, Control, Harness, Trigger};
use crate::host::flow::{FlowCommand, FlowHost, HostHandle, HostParts, Left, Submission};

/// No case takes longer on the double.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(60);

/// What a case runs on.
#[derive(Clone)]
pub struct Ground {
    /// Where its attempts run.
    pub substrate: Arc<dyn Substrate>,
    /// Where its events are written.
    pub journal: Arc<dyn FlowJournal>,
}

/// Drives cases with [`FlowHost`].
pub struct Hosted<F> {
    image: String,
    runs_scripts: bool,
    ground: F,
}

impl<F> Hosted<F>
where
    F: Fn(&Case) -> BoxFuture<'_, Result<Ground, String>> + Send + Sync,
{
    /// A harness whose attempts run `/bin/sh` of `image`; `ground` gives each case a substrate and a journal of its own.
    pub fn new(image: impl Into<String>, ground: F) -> Self {
        Self { image: image.into(), runs_scripts: true, ground }
    }
}

/// A harness over the substrate in memory, which imitates the steps of each case.
#[must_use]
pub fn scripted() -> Hosted<impl Fn(&Case) -> BoxFuture<'_, Result<Ground, String>> + Send + Sync> {
    fn ground(case: &Case) -> BoxFuture<'_, Result<Ground, String>> {
        let substrate = ScriptedSubstrate::new();
        case.teach(&substrate);
        keep_time(&substrate);
        Box::pin(std::future::ready(Ok(Ground {
            substrate: Arc::new(substrate),
            journal: Arc::new(MemoryJournal::new()),
        })))
    }
    Hosted { image: "busybox".to_owned(), runs_scripts: false, ground }
}

/// Lets the double's clock run with the machine's while anybody holds it, so that controls find attempts under way.
fn keep_time(substrate: &ScriptedSubstrate) {
    const STEP: std::time::Duration = std::time::Duration::from_millis(20);
    substrate.use_manual_clock();
    let substrate = substrate.clone();
    tokio::spawn(async move {
        for _ in 0..LONGEST.as_millis() / STEP.as_millis() {
            tokio::time::sleep(STEP).await;
            substrate.advance(STEP);
        }
    });
}

#[async_trait]
impl<F> Harness for Hosted<F>
where
    F: Fn(&Case) -> BoxFuture<'_, Result<Ground, String>> + Send + Sync,
{
    fn image(&self) -> &str {
        &self.image
    }

    fn runs_scripts(&self) -> bool {
        self.runs_scripts
    }

    async fn run(&self, case: &Case) -> Result<FlowStatus, String> {
        let flow = case.flow(&self.image).map_err(|error| error.to_string())?;
        let ground = (self.ground)(case).await?;
        let uid = uuid::Uuid::new_v4().to_string();
        let submission = Submission { parameters: case.parameters.clone(), ..Submission::new(flow, uid) };
        let parts = HostParts::new(ground.substrate, ground.journal);
        let mut host = FlowHost::submit(parts, submission, Vec::new()).await.map_err(|error| error.to_string())?;
        let handle = host.handle();
        let mut given = std::pin::pin!(give(handle, case.controls.clone()));
        let left = {
            let mut driven = std::pin::pin!(host.run());
            tokio::select! {
                biased;
                controls = &mut given => {
                    controls?;
                    driven.await
                }
                left = &mut driven => {
                    // The last control may be what ended the flow: its answer is there already.
                    let answered = tokio::time::timeout(std::time::Duration::from_secs(1), &mut given).await;
                    answered.map_err(|_| "the flow ended before all controls were given".to_owned())??;
                    left
                }
            }
        };
        match left.map_err(|error| error.to_string())? {
            Left::Ended => Ok(host.status()),
            left => Err(format!("the host left before the end: {left:?}")),
        }
    }
}

/// Gives controls, each as soon as its trigger holds.
async fn give(handle: HostHandle, controls: Vec<(Trigger, Control)>) -> Result<(), String> {
    let mut status = handle.status();
    for (trigger, control) in controls {
        let holds = |status: &FlowStatus| match trigger {
            Trigger::AtStart => true,
            Trigger::When { step, phase } => {
                status.steps.iter().any(|record| record.name == step && record.phase.to_string() == phase)
            }
        };
        let waited = status.wait_for(|view| holds(&view.status) || view.status.phase.is_terminal()).await;
        waited.map_err(|_| format!("the host has gone before {trigger:?}"))?;
        handle.order(order(control)).await.map_err(|error| format!("{control:?} was refused: {error}"))?;
    }
    Ok(())
}

fn order(control: Control) -> FlowCommand {
    match control {
        Control::Decide(step, decision) => FlowCommand::Decide {
            step: step.to_owned(),
            decision,
            by: Some("suite".to_owned()),
            reason: None,
            verified: false,
        },
        Control::Suspend(true) => FlowCommand::Suspend { mode: Some(SuspendMode::Suspend) },
        Control::Suspend(false) => FlowCommand::Suspend { mode: Some(SuspendMode::Drain) },
        Control::Resume => FlowCommand::Resume,
        Control::Stop => FlowCommand::Stop { mode: StopMode::Graceful },
        Control::Terminate => FlowCommand::Stop { mode: StopMode::Terminate },
    }
}

#[cfg(test)]
mod tests {
    use super::super::{all, check};
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_case_conforms_on_the_double() {
        // All at once: most of a case's time is waiting for its own limits.
        let runs = all().into_iter().map(|case| async move {
            match tokio::time::timeout(LONGEST, check(&scripted(), &case)).await {
                Ok(found) => found,
                Err(_) => vec![format!("{} did not end", case.name)],
            }
        });
        let differences = futures::future::join_all(runs).await.concat();
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }
}
