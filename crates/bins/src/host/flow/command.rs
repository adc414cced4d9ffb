//! Orders of people to a flow: approve, reject, suspend, resume, stop, confirm that an attempt is gone.

use orlop_core::attempt::Address;
use orlop_core::error::{Class, Problem};
use orlop_core::event::FlowEvent;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::ports::journal::FlowJournal;
use orlop_core::spec::flow::{StopMode, SuspendMode};
use orlop_core::spec::status::Decision;
use orlop_core::time::Time;
use orlop_dag::approval::manual_step;
use orlop_dag::engine::{State, apply, step_status};
use orlop_dag::plan::Plan;
use serde::{Deserialize, Serialize};

use super::ledger::{entry, plan_of, replay, summary, unjournaled};

/// A command to a flow.
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
    /// Confirm that nothing runs any more of a cancelled attempt whose end is not reported.
    ConfirmGone {
        /// The step, or an instance of a fan-out.
        step: String,
        /// Who says so, where known.
        by: Option<String>,
        /// Why.
        reason: Option<String>,
    },
}

/// The event an order becomes; none when it holds already.
///
/// # Errors
/// When there is no such step, or flow or step are not in a state for the order.
pub fn event(plan: &Plan, state: &State, order: &FlowCommand, now: Time) -> Result<Option<FlowEvent>, Problem> {
    let phase = state.phase();
    if phase.is_terminal() {
        let name = &state.meta().name;
        return Err(Problem::new(
            Class::Conflict,
            format!("flow `{name}` has ended: it is {phase}; nothing can change it"),
        ));
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
            return Err(Problem::new(Class::Conflict, format!("flow `{name}` is not suspended: it is {phase}")));
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
fn blocked(plan: &Plan, state: &State, name: &str) -> Result<(Address, u32), Problem> {
    let flow = &state.meta().name;
    let Some(at) = plan.address_of(name) else {
        return Err(Problem::new(Class::NotFound, format!("flow `{flow}` has no step or instance `{name}`")));
    };
    match state.attempt(at).filter(|_| state.is_cancel_blocked(at)) {
        Some((_, attempt)) => Ok((at, attempt)),
        None => {
            let message = format!(
                "the cancellation of step `{name}` of flow `{flow}` is not blocked; it is a minute after the grace period of \
                 an attempt that was cancelled and has not ended"
            );
            Err(Problem::new(Class::Conflict, message))
        }
    }
}

/// Leaves an order in the journal of a flow that has no host, for the next one. The caller keeps hosts out meanwhile.
///
/// # Errors
/// When the order does not fit, or the journal cannot be read or written.
pub async fn leave(journal: &dyn FlowJournal, uid: &str, order: &FlowCommand, now: Time) -> Result<(), Problem> {
    let mut stored = journal.load(uid).await.map_err(unjournaled)?;
    let plan = plan_of(&mut stored)?;
    let mut state = replay(&plan, &stored)?;
    let Some(event) = event(&plan, &state, order, now)? else { return Ok(()) };
    journal.append(uid, stored.last, &[entry(now, &event)?]).await.map_err(unjournaled)?;
    apply(&plan, &mut state, &event, now, &mut Vec::new());
    journal.summarize(uid, &summary(&plan, &state)).await.map_err(unjournaled)?;
    Ok(())
}

/// Whether a decision is news; an error when it cannot be made.
fn decide(plan: &Plan, state: &State, name: &str, decision: Decision) -> Result<bool, Problem> {
    manual_step(plan.spec(), &state.meta().name, name)?;
    let at = plan.address_of(name).unwrap_or_default();
    let status = step_status(plan, state, at);
    match status.approval {
        Some(approval) if approval.decision == decision => Ok(false),
        Some(approval) => {
            let message = format!("step `{name}` was decided before: {:?}; decisions are final", approval.decision);
            Err(Problem::new(Class::Conflict, message))
        }
        None if state.attempt(at).is_some_and(|(unit, _)| unit.is_settled()) => {
            let why = if status.reason.is_empty() { String::new() } else { format!("/{}", status.reason) };
            Err(Problem::new(
                Class::Conflict,
                format!("step `{name}` is no longer waiting: it is {}{why}", status.phase),
            ))
        }
        None => Ok(true),
    }
}
