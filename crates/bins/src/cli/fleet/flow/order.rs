//! Orders to flows of a server: decisions, suspension, ends.

use orlop_core::spec::flow::{StopMode, SuspendMode};
use orlop_core::spec::status::Decision;
use serde_json::json;

use super::super::super::failure::{Exit, Failure};
use super::super::client::escaped;
use super::super::read::text;
use super::Remote;
use crate::host::flow::FlowCommand;

/// Gives an order to a flow.
///
/// # Errors
/// When the server refuses, or the order means nothing there.
pub(super) async fn give(remote: &Remote, name: &str, order: FlowCommand) -> Result<(), Failure> {
    let flow = format!("/flows/{}", escaped(name));
    let of_step = |step: &str, verb: &str| format!("{flow}/steps/{}/{verb}", escaped(step));
    let (path, body) = match order {
        FlowCommand::Decide { step, decision: Decision::Approved, reason, .. } => {
            (of_step(&step, "approve"), json!({ "reason": reason }))
        }
        FlowCommand::Decide { step, reason, .. } => (of_step(&step, "reject"), json!({ "reason": reason })),
        FlowCommand::ConfirmGone { step, reason, .. } => (of_step(&step, "confirm-gone"), json!({ "reason": reason })),
        FlowCommand::Suspend { mode: Some(SuspendMode::Suspend) } => {
            return Err(Failure::usage("jobs of a fleet cannot be frozen; use `--mode drain`"));
        }
        FlowCommand::Suspend { .. } => (format!("{flow}/suspend"), json!({})),
        FlowCommand::Resume => (format!("{flow}/resume"), json!({})),
        FlowCommand::Stop { mode } => (format!("{flow}/cancel"), json!({ "graceful": mode == StopMode::Graceful })),
        FlowCommand::Replace => return Err(Failure::usage("only the server replaces flows, by their concurrency key")),
    };
    let answer = remote.post(&path, &body, None).await?;
    if answer["taken"] == false {
        let ended = remote.get(&flow).await?;
        let (name, phase) = (text(&ended, "name"), text(&ended, "phase"));
        let message = format!("flow `{name}` has ended: it is {phase}; nothing can change it");
        return Err(Failure::new(Exit::Conflict, message));
    }
    Ok(())
}
