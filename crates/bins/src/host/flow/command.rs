//! Orders of people to a flow: approve, reject, suspend, resume, stop, confirm that an attempt is gone.

use orlop_core::attempt::Address;
use orlop_core::event::FlowEvent;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::ports::journal::FlowJournal;
use orlop_core::spec::flow::{StopMode, SuspendMode};
use orlop_core::spec::status::Decision;
use orlop_core::time::Time;
use orlop_dag::approval::{ApprovalError, manual_step};
use orlop_dag::engine::{State, apply, step_status};
use orlop_dag::plan::Plan;
use serde::{Deserialize, Serialize};

use super::HostError;
use super::ledger::{entry, plan_of, replay, summary};

/// What somebody wants of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "camelCase")]
#[non_exhaustive]
pub enum FlowCommand {
    /// Decide about a Manual step.
    Decide {
        /// The step.
        step: String,
        /// Approved or Rejected.
        decision: Decision,
        /// Who decides, where known.
        by: Option<String>,
        /// Why.
        reason: Option<String>,
        /// Whether somebody vouches for the name: it was authenticated.
        #[serde(default)]
        verified: bool,
    },
    /// Start nothing more.
    Suspend {
        /// What live attempts do; by default what they do in a flow that is suspended already, else what its spec says.
        mode: Option<SuspendMode>,
    },
    /// Go on.
    Resume,
    /// End.
    Stop {
        /// How.
        mode: StopMode,
    },
    /// End because another flow of the same key takes its place.
    Replace,
    /// Take a cancelled attempt that does not end for gone: nothing of it runs any more.
    ConfirmGone {
        /// The step, or an instance of a fan-out.
        step: String,
        /// Who says so, where known.
        by: Option<String>,
        /// Why.
        reason: Option<String>,
    },
}

/// Why an order cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", content = "message", rename_all = "camelCase")]
pub enum FlowCommandError {
    /// There is no such step.
    #[error("{0}")]
    NotFound(String),
    /// The flow or the step is not in a state for it.
    #[error("{0}")]
    Conflict(String),
    /// It could not be written down.
    #[error("{0}")]
    Failed(String),
    /// The host went away before it answered.
    #[error("the host of the flow has gone; try again")]
    Gone,
}

impl From<ApprovalError> for FlowCommandError {
    fn from(error: ApprovalError) -> Self {
        match error {
            ApprovalError::NoStep { .. } => Self::NotFound(error.to_string()),
            ApprovalError::NotManual(_) => Self::Conflict(error.to_string()),
        }
    }
}

/// The event an order becomes; none when it holds already.
///
/// # Errors
/// When there is no such step, or flow or step are not in a state for the order.
pub fn event(
    plan: &Plan,
    state: &State,
    order: &FlowCommand,
    now: Time,
) -> Result<Option<FlowEvent>, FlowCommandError> {
    let phase = state.phase();
    if phase.is_terminal() {
        let name = &state.meta().name;
        return Err(FlowCommandError::Conflict(format!(
            "flow `{name}` has ended: it is {phase}; nothing can change it"
        )));
    }
    Ok(match order {
        FlowCommand::Decide { step, decision, by, reason, verified } => {
            decide(plan, state, step, *decision)?.then(|| {
                let at = plan.address_of(step).unwrap_or_default();
                let (by, reason) = (by.clone(), reason.clone());
                FlowEvent::Approval { at, decision: *decision, by, verified: *verified, decided_at: now, reason }
            })
        }
        FlowCommand::Suspend { mode } => {
            let specified = plan.spec().suspend_mode.unwrap_or_default();
            let current = if phase == FlowPhase::Suspended { state.suspend_mode() } else { specified };
            Some(FlowEvent::SetSuspend { on: true, mode: mode.unwrap_or(current) })
        }
        FlowCommand::Resume if phase != FlowPhase::Suspended => {
            let name = &state.meta().name;
            return Err(FlowCommandError::Conflict(format!("flow `{name}` is not suspended: it is {phase}")));
        }
        FlowCommand::Resume => Some(FlowEvent::SetSuspend { on: false, mode: SuspendMode::Drain }),
        FlowCommand::Stop { mode } => Some(FlowEvent::Stop { mode: *mode, replaced: false }),
        FlowCommand::Replace => Some(FlowEvent::Stop { mode: StopMode::Terminate, replaced: true }),
        FlowCommand::ConfirmGone { step, by, reason } => {
            let (at, attempt) = blocked(plan, state, step)?;
            Some(FlowEvent::GoneConfirmed { at, attempt, by: by.clone(), reason: reason.clone(), ended_at: now })
        }
    })
}

/// The attempt of a step or instance whose cancellation is blocked.
fn blocked(plan: &Plan, state: &State, name: &str) -> Result<(Address, u32), FlowCommandError> {
    let flow = &state.meta().name;
    let Some(at) = plan.address_of(name) else {
        return Err(FlowCommandError::NotFound(format!("flow `{flow}` has no step or instance `{name}`")));
    };
    match state.attempt(at).filter(|_| state.is_cancel_blocked(at)) {
        Some((_, attempt)) => Ok((at, attempt)),
        None => {
            let message = format!(
                "the cancellation of step `{name}` of flow `{flow}` is not blocked; it is a minute after the grace period of \
                 an attempt that was cancelled and has not ended"
            );
            Err(FlowCommandError::Conflict(message))
        }
    }
}

/// Leaves an order in the journal of a flow that has no host, for the next one. The caller keeps hosts out meanwhile.
///
/// # Errors
/// When the journal cannot be read or written; within, when the order does not fit.
pub async fn leave(
    journal: &dyn FlowJournal,
    uid: &str,
    order: &FlowCommand,
    now: Time,
) -> Result<Result<(), FlowCommandError>, HostError> {
    let mut stored = journal.load(uid).await.map_err(HostError::Journal)?;
    let plan = plan_of(&mut stored)?;
    let mut state = replay(&plan, &stored)?;
    let event = match event(&plan, &state, order, now) {
        Err(error) => return Ok(Err(error)),
        Ok(None) => return Ok(Ok(())),
        Ok(Some(event)) => event,
    };
    journal.append(uid, stored.last, &[entry(now, &event)?]).await.map_err(HostError::Journal)?;
    apply(&plan, &mut state, &event, now, &mut Vec::new());
    journal.summarize(uid, &summary(&plan, &state)).await.map_err(HostError::Journal)?;
    Ok(Ok(()))
}

/// Whether a decision is news; an error when it cannot be made.
fn decide(plan: &Plan, state: &State, name: &str, decision: Decision) -> Result<bool, FlowCommandError> {
    manual_step(plan.spec(), &state.meta().name, name)?;
    let at = plan.address_of(name).unwrap_or_default();
    let status = step_status(plan, state, at);
    match status.approval {
        Some(approval) if approval.decision == decision => Ok(false),
        Some(approval) => {
            let message = format!("step `{name}` was decided before: {:?}; decisions are final", approval.decision);
            Err(FlowCommandError::Conflict(message))
        }
        None if state.attempt(at).is_some_and(|(unit, _)| unit.is_settled()) => {
            let why = if status.reason.is_empty() { String::new() } else { format!("/{}", status.reason) };
            Err(FlowCommandError::Conflict(format!("step `{name}` waits no more: it is {}{why}", status.phase)))
        }
        None => Ok(true),
    }
}
