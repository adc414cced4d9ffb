//! What people order through the object: stop, suspension, approvals, and that its spec was changed.
//! Owns where that stands in an object; the engine knows what is new.

use orlop_core::attempt::Address;
use orlop_core::event::FlowEvent;
use orlop_core::name::short63;
use orlop_core::spec::flow::{GROUP, StopMode, SuspendMode};
use orlop_core::spec::status::Decision;
use orlop_core::time::Time;
use orlop_dag::engine::State;
use orlop_dag::plan::Plan;
use serde::Deserialize;
use serde_json::Value;

use super::Options;

/// What the webhook or the command line notes beside a decision.
#[derive(Deserialize)]
struct Identity {
    by: Option<String>,
    at: Option<String>,
    reason: Option<String>,
}

/// Everything an object orders, every time: what is known already changes nothing.
pub(super) fn events(plan: &Plan, object: &Value, changed: bool, options: &Options, now: Time) -> Vec<FlowEvent> {
    let mut events = vec![FlowEvent::Hold { on: changed }];
    let spec = object.get("spec");
    let member = |name: &str| spec.and_then(|spec| spec.get(name));
    let mode = match member("suspendMode").and_then(Value::as_str) {
        Some("Suspend") => SuspendMode::Suspend,
        _ => SuspendMode::Drain,
    };
    let on = member("suspend").and_then(Value::as_bool).unwrap_or(false);
    events.push(FlowEvent::SetSuspend { on, mode });
    match member("stop").and_then(Value::as_str) {
        Some("Terminate") => events.push(FlowEvent::Stop { mode: StopMode::Terminate, replaced: false }),
        Some(_) => events.push(FlowEvent::Stop { mode: StopMode::Graceful, replaced: false }),
        None => {}
    }
    if let Some(annotations) = object.pointer("/metadata/annotations") {
        approvals(plan, annotations, now, options, &mut events);
    }
    events
}

/// Confirmations of people that nothing of an attempt runs any more whose cancellation is blocked.
pub(super) fn confirmations(plan: &Plan, state: &State, object: &Value, now: Time) -> Vec<FlowEvent> {
    let Some(annotations) = object.pointer("/metadata/annotations") else { return Vec::new() };
    let text = |key: String| annotations.get(key).and_then(Value::as_str);
    let confirmed = |(at, attempt): (Address, u32)| {
        let short = short63(&plan.instance_name(at));
        let is_ours = text(format!("gone.{GROUP}/{short}")) == Some(attempt.to_string().as_str());
        if !is_ours || !state.is_cancel_blocked(at) {
            return None;
        }
        let identity = text(format!("gone-by.{GROUP}/{short}")).and_then(|text| serde_json::from_str(text).ok());
        let Identity { by, reason, .. } = identity.unwrap_or(Identity { by: None, at: None, reason: None });
        Some(FlowEvent::GoneConfirmed { at, attempt, by, reason, ended_at: now })
    };
    state.live().filter_map(confirmed).collect()
}

fn approvals(plan: &Plan, annotations: &Value, now: Time, options: &Options, events: &mut Vec<FlowEvent>) {
    let text = |key: String| annotations.get(key).and_then(Value::as_str);
    for step in plan.spec().steps.iter().filter(|step| step.is_manual()) {
        let short = short63(&step.name);
        let decision = match text(format!("approved.{GROUP}/{short}")) {
            Some("true") => Decision::Approved,
            Some("rejected") => Decision::Rejected,
            _ => continue,
        };
        let Some(at) = plan.address_of(&step.name) else { continue };
        let identity = text(format!("approval.{GROUP}/{short}")).and_then(|text| serde_json::from_str(text).ok());
        let known = identity.is_some();
        let Identity { by, at: decided, reason } = identity.unwrap_or(Identity { by: None, at: None, reason: None });
        let decided_at = decided.and_then(|time| time.parse().ok()).unwrap_or(now);
        let verified = known && options.identities_verified;
        events.push(FlowEvent::Approval { at, decision, by, verified, decided_at, reason });
    }
}
