//! Events of a flow: what has happened, as the engine is told it. Owns the values and
//! their journal form; decides nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::attempt::{Address, PodEnd};
use crate::spec::flow::{StopMode, SuspendMode};
use crate::spec::meta::ObjectReference;
use crate::spec::status::{ArtifactRecord, Decision, StepOutputs, WaitsOn};
use crate::time::Time;

/// Something that has happened to a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "camelCase")]
#[non_exhaustive]
pub enum FlowEvent {
    /// The concurrency gate opened.
    Admit,
    /// The gate is held by another flow: the flow waits, visibly.
    Blocked {
        /// ConcurrencyBlocked, QuotaExceeded, Throttled or ApiUnavailable.
        reason: String,
        /// Who holds it.
        message: String,
    },
    /// The resource templates exist.
    ResourcesReady {
        /// What was created.
        refs: Vec<ObjectReference>,
    },
    /// The resource templates cannot be created.
    ResourcesFailed {
        /// ResourceConflict, or the error's reason.
        reason: String,
        /// A sentence.
        message: String,
    },
    /// An attempt was created, or found and adopted.
    AttemptAccepted {
        /// Whose attempt.
        at: Address,
        /// Its number.
        attempt: u32,
        /// What runs it.
        reference: ObjectReference,
    },
    /// An attempt could not be created yet.
    AttemptDelayed {
        /// Whose attempt.
        at: Address,
        /// Its number.
        attempt: u32,
        /// Throttled, ApiUnavailable, QuotaExceeded, ….
        reason: String,
        /// A sentence.
        message: String,
        /// When to ask again.
        retry_at: Time,
    },
    /// An attempt can never be created as it is.
    AttemptRefused {
        /// Whose attempt.
        at: Address,
        /// Its number.
        attempt: u32,
        /// Reason.
        reason: String,
        /// A sentence.
        message: String,
        /// Whether the step's retry policy applies.
        retryable: bool,
    },
    /// What keeps an accepted attempt from running, or that nothing does any more.
    AttemptWaiting {
        /// Whose attempt.
        at: Address,
        /// Its number.
        attempt: u32,
        /// What it waits for; none: nothing.
        on: Option<WaitsOn>,
        /// Why, one word of the substrate; empty where it says nothing.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
        /// Why, a sentence of the substrate.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        message: String,
        /// Since when.
        since: Time,
    },
    /// An attempt succeeded.
    AttemptSucceeded {
        /// Whose attempt.
        at: Address,
        /// Its number.
        attempt: u32,
        /// What it gave.
        result: Box<AttemptResult>,
        /// When it ended.
        ended_at: Time,
    },
    /// An attempt failed.
    AttemptFailed {
        /// Whose attempt.
        at: Address,
        /// Its number.
        attempt: u32,
        /// One word.
        reason: String,
        /// A sentence.
        message: String,
        /// Its failed pods, in creation order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pods: Vec<PodEnd>,
        /// What it gave nevertheless.
        #[serde(default)]
        result: Box<AttemptResult>,
        /// When it ended.
        ended_at: Time,
    },
    /// Somebody else deleted an attempt.
    AttemptGone {
        /// Whose attempt.
        at: Address,
        /// Its number.
        attempt: u32,
        /// When that was seen.
        ended_at: Time,
    },
    /// An attempt was lost with its host.
    AttemptLost {
        /// Whose attempt.
        at: Address,
        /// Its number.
        attempt: u32,
        /// What is known of it.
        message: String,
        /// When that was seen.
        ended_at: Time,
    },
    /// A cancelled attempt is gone.
    CancelConfirmed {
        /// Whose attempt.
        at: Address,
        /// Its number.
        attempt: u32,
        /// When it ended.
        ended_at: Time,
    },
    /// A cancelled attempt should be gone by now, and is not.
    CancelBlocked {
        /// Whose attempt.
        at: Address,
        /// Its number.
        attempt: u32,
        /// What is left of it, and where: a pod and its node, a process, a container.
        left: String,
    },
    /// A person confirms that nothing of an attempt runs any more whose cancellation is blocked.
    GoneConfirmed {
        /// Whose attempt.
        at: Address,
        /// Its number.
        attempt: u32,
        /// Who, where known.
        by: Option<String>,
        /// Why.
        reason: Option<String>,
        /// When.
        ended_at: Time,
    },
    /// The items of a fan-out are known, or cannot be.
    ItemsResolved {
        /// The fan-out step.
        at: Address,
        /// The items, or why there are none.
        items: Result<Vec<Value>, String>,
    },
    /// A person decided about a Manual step.
    Approval {
        /// The step.
        at: Address,
        /// What was decided.
        decision: Decision,
        /// Who decided, where known.
        by: Option<String>,
        /// Whether the identity was authenticated.
        verified: bool,
        /// When it was decided.
        decided_at: Time,
        /// Why.
        reason: Option<String>,
    },
    /// Suspension was switched.
    SetSuspend {
        /// On or off.
        on: bool,
        /// What it does to live attempts.
        mode: SuspendMode,
    },
    /// The flow was told to end.
    Stop {
        /// How.
        mode: StopMode,
        /// Whether another flow of the same key takes its place.
        #[serde(default)]
        replaced: bool,
    },
    /// The stored spec was changed after the start, or restored.
    Hold {
        /// Changed or restored.
        on: bool,
    },
    /// The step or instance succeeded in the flow this one repeats. Of an instance, the caller has found
    /// that the list of its fan-out is the same.
    Import {
        /// The step, or one instance.
        at: Address,
        /// What it gave there.
        outputs: Box<StepOutputs>,
    },
    /// The final status was written once.
    FinalStatusWritten,
    /// Time has passed.
    Tick,
}

/// What an attempt gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptResult {
    /// Values of output parameters that were found, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, String>,
    /// Values other steps read from the attempt's document, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub projections: BTreeMap<String, String>,
    /// Artifacts that were found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactRecord>,
    /// Why the outputs cannot be used: OutputTooLarge with a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<(String, String)>,
}

impl FlowEvent {
    /// The attempt this event is about: address and number.
    #[must_use]
    pub fn attempt(&self) -> Option<(Address, u32)> {
        match self {
            Self::AttemptAccepted { at, attempt, .. }
            | Self::AttemptDelayed { at, attempt, .. }
            | Self::AttemptRefused { at, attempt, .. }
            | Self::AttemptWaiting { at, attempt, .. }
            | Self::CancelBlocked { at, attempt, .. }
            | Self::GoneConfirmed { at, attempt, .. }
            | Self::AttemptSucceeded { at, attempt, .. }
            | Self::AttemptFailed { at, attempt, .. }
            | Self::AttemptGone { at, attempt, .. }
            | Self::AttemptLost { at, attempt, .. }
            | Self::CancelConfirmed { at, attempt, .. } => Some((*at, *attempt)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A journal is read by later versions: these forms stay.
    #[test]
    fn events_have_their_journal_form() {
        let at = Address::instance(3, 1);
        let items = Err("no list".to_owned());
        for (event, form) in [
            (
                FlowEvent::Stop { mode: StopMode::Graceful, replaced: true },
                json!({"event": "stop", "mode": "Graceful", "replaced": true}),
            ),
            (FlowEvent::Hold { on: true }, json!({"event": "hold", "on": true})),
            (FlowEvent::FinalStatusWritten, json!({"event": "finalStatusWritten"})),
            (
                FlowEvent::CancelBlocked { at, attempt: 2, left: "pod p on node n".to_owned() },
                json!({"event": "cancelBlocked", "at": at, "attempt": 2, "left": "pod p on node n"}),
            ),
            (
                FlowEvent::AttemptWaiting {
                    at,
                    attempt: 2,
                    on: Some(WaitsOn::FirstPod),
                    reason: "Unschedulable".to_owned(),
                    message: String::new(),
                    since: Time::from_millis(7),
                },
                json!({"event": "attemptWaiting", "at": at, "attempt": 2, "on": "FirstPod", "reason": "Unschedulable",
                    "since": Time::from_millis(7)}),
            ),
            (
                FlowEvent::ItemsResolved { at, items },
                json!({"event": "itemsResolved", "at": at, "items": {"Err": "no list"}}),
            ),
        ] {
            assert_eq!(serde_json::to_value(&event).unwrap(), form);
            assert_eq!(serde_json::from_value::<FlowEvent>(form).unwrap(), event);
        }
        let older: FlowEvent = serde_json::from_value(json!({"event": "stop", "mode": "Terminate"})).unwrap();
        assert_eq!(older, FlowEvent::Stop { mode: StopMode::Terminate, replaced: false });
    }
}
