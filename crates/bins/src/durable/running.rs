//! A flow of functions that was started: how it stands, what its steps gave, and orders to it.

use std::sync::Arc;

use orlop_core::error::{Class, Problem};
use orlop_core::machine::step::StepPhase;
use orlop_core::spec::flow::StopMode;
use orlop_core::spec::status::{Decision, FlowStatus, StepStatus};
use orlop_dag::engine::StatusView;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;

use super::draft::Step;
use super::error::Error;
use super::value::{Form, VALUE, read, read_present};
use crate::host::flow::{FlowCommand, HostHandle};

/// How a host ended, once it has.
pub(super) type HostEnd = Option<Result<FlowStatus, Problem>>;

/// A flow that was started. It runs on when this value is dropped. When the program ends it stops, and goes on when a program starts it
/// again under the same id.
#[derive(Clone)]
pub struct Running {
    pub(super) id: Arc<str>,
    pub(super) handle: HostHandle,
    pub(super) status: watch::Receiver<Arc<StatusView>>,
    pub(super) end: watch::Receiver<HostEnd>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Running {
    /// The name of the flow and the id it was started under: `<name>/<id>`.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The status of the flow.
    #[must_use]
    pub fn status(&self) -> FlowStatus {
        match &*self.end.borrow() {
            Some(Ok(status)) => status.clone(),
            _ => self.status.borrow().status.clone(),
        }
    }

    /// Waits until the flow has ended, and gives its status. Whether it succeeded is in its `phase`.
    ///
    /// # Errors
    /// When its journal can no longer be written; [`Error::NotRunning`] when it was left as it is by
    /// [`Durable::close`](super::Durable::close).
    pub async fn end(&self) -> Result<FlowStatus, Error> {
        let status = self.left().await?;
        if status.phase.is_terminal() { Ok(status) } else { Err(self.not_running()) }
    }

    fn not_running(&self) -> Error {
        Error::NotRunning { flow: self.id.to_string() }
    }

    /// The status when its host has left it.
    async fn left(&self) -> Result<FlowStatus, Error> {
        let mut end = self.end.clone();
        let ended = end.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        // The sender tells of the end in any case, but for a runtime that is gone.
        Ok(ended.ok_or_else(|| self.not_running())??)
    }

    /// Waits until a step has ended, and gives its value.
    ///
    /// # Errors
    /// [`Error::NoValue`] when the step failed or did not run and is not [`optional`](Step::optional); when the value is of
    /// another type; as of [`Running::end`] when the step does not end.
    pub async fn output<O: DeserializeOwned>(&self, step: &Step<O>) -> Result<O, Error> {
        if self.id.strip_prefix(&*step.flow).is_none_or(|rest| !rest.starts_with('/')) {
            let message = format!("step `{}` is one of flow `{}`, not of `{}`", step.name(), step.flow, self.id);
            return Err(Problem::new(Class::Invalid, message).into());
        }
        let record = match self.settled(step.name()).await {
            Some(record) => record,
            None => {
                let status = self.left().await?;
                let record = status.steps.into_iter().find(|record| record.name == step.name() && is_settled(record));
                record.ok_or_else(|| self.not_running())?
            }
        };
        if record.phase != StepPhase::Succeeded && !step.optional {
            let (flow, step) = (self.id.to_string(), step.name().to_owned());
            let StepStatus { phase, reason, message, .. } = record;
            return Err(Error::NoValue { flow, step, phase, reason, message });
        }
        value_of(step, &record).map_err(|error| Error::Type { step: step.name().to_owned(), error })
    }

    /// The record of a step once it has ended; none where the host ends first.
    async fn settled(&self, step: &str) -> Option<StepStatus> {
        let (mut status, mut end) = (self.status.clone(), self.end.clone());
        loop {
            let found = status
                .borrow_and_update()
                .status
                .steps
                .iter()
                .find(|record| record.name == step && is_settled(record))
                .cloned();
            if found.is_some() {
                return found;
            }
            tokio::select! {
                changed = status.changed() => if changed.is_err() { return None },
                _ = end.wait_for(Option::is_some) => return None,
            }
        }
    }

    /// Approves a step that waits for a person.
    ///
    /// # Errors
    /// When there is no such step, or it was decided before or has ended.
    pub async fn approve(&self, step: &str) -> Result<(), Error> {
        self.decide(step, Decision::Approved, None).await
    }

    /// Rejects a step that waits for a person: it fails, and what waits for it does not run.
    ///
    /// # Errors
    /// As of [`Running::approve`].
    pub async fn reject(&self, step: &str, reason: &str) -> Result<(), Error> {
        self.decide(step, Decision::Rejected, Some(reason.to_owned())).await
    }

    async fn decide(&self, step: &str, decision: Decision, reason: Option<String>) -> Result<(), Error> {
        let step = step.to_owned();
        self.command(FlowCommand::Decide { step, decision, by: None, reason, verified: false }).await
    }

    /// Ends the flow: what runs is cancelled, and nothing more is started, not even what comes [`finally`](Step::finally).
    ///
    /// # Errors
    /// When the flow has ended, or the journal cannot be written.
    pub async fn stop(&self) -> Result<(), Error> {
        self.command(FlowCommand::Stop { mode: StopMode::Terminate }).await
    }

    /// Sends any command; returns once it is in the journal.
    ///
    /// # Errors
    /// When it does not fit how the flow stands, or the journal cannot be written.
    pub async fn command(&self, command: FlowCommand) -> Result<(), Error> {
        if self.handle.order(command).await? {
            return Ok(());
        }
        match self.left().await?.phase.is_terminal() {
            true => {
                let message = format!("flow `{}` has ended; nothing can change it", self.id);
                Err(Problem::new(Class::Conflict, message).into())
            }
            false => Err(self.not_running()),
        }
    }
}

/// Whether a step has ended for good.
fn is_settled(record: &StepStatus) -> bool {
    let over = matches!(record.phase, StepPhase::Succeeded | StepPhase::Failed | StepPhase::Skipped);
    over && record.next_retry_time.is_none()
}

/// The value of a step that has ended.
fn value_of<O: DeserializeOwned>(step: &Step<O>, record: &StepStatus) -> Result<O, serde_json::Error> {
    if record.phase != StepPhase::Succeeded {
        return serde_json::from_value(Value::Null);
    }
    let output = match record.outputs.as_ref().and_then(|outputs| outputs.parameter(VALUE)) {
        None => Value::Null,
        // The texts of a fan-out stand in one list.
        Some(text) if step.form == Form::List => serde_json::from_str(text)?,
        Some(text) => Value::String(text.to_owned()),
    };
    if step.optional { read_present(output) } else { read(output) }
}
