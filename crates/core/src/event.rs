//! Events of a flow: what a host tells the flow engine. Owns the values and their form in journals; decides nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::attempt::{Address, PodEnd};
use crate::spec::flow::{StopMode, SuspendMode};
use crate::spec::meta::ObjectReference;
use crate::spec::status::{ArtifactRecord, Decision, StepOutputs, WaitsOn};
use crate::time::Time;

/// Something that has happened to a flow. As JSON it is an object whose member `event` has the name.
///
/// ```
/// use orlop_core::attempt::Address;
/// use orlop_core::event::FlowEvent;
/// use orlop_core::time::Time;
/// let (at, ended_at) = (Address::step(0), Time::from_millis(5));
/// let event = FlowEvent::AttemptSucceeded { at, attempt: 1, result: Box::default(), ended_at };
/// assert_eq!(event.attempt(), Some((at, 1)));
/// assert_eq!(serde_json::to_string(&FlowEvent::Admit)?, r#"{"event":"admit"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "camelCase")]
#[non_exhaustive]
pub enum FlowEvent {
    /// The flow may begin: no other flow holds its concurrency key.
    Admit,
    /// The flow may not begin yet: another flow holds its concurrency key, or nothing can be created. Its status says so.
    Blocked {
        /// `ConcurrencyBlocked`, `QuotaExceeded`, `Throttled` or `ApiUnavailable`.
        reason: String,
        /// Why, as a sentence, such as which flow holds the key.
        message: String,
    },
    /// The objects of the resource templates exist.
    ResourcesReady {
        /// What was created.
        refs: Vec<ObjectReference>,
    },
    /// The objects of the resource templates cannot be created.
    ResourcesFailed {
        /// `ResourceConflict`, or the reason of the error.
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
    /// An accepted attempt cannot run, and why; or it can again.
    AttemptWaiting {
        /// Whose attempt.
        at: Address,
        /// Its number.
        attempt: u32,
        /// What it waits for; none: it runs.
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
        /// Its outputs.
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
        /// Its outputs, as far as it wrote any.
        #[serde(default)]
        result: Box<AttemptResult>,
        /// When it ended.
        ended_at: Time,
    },
    /// An attempt was deleted from outside.
    AttemptGone {
        /// Whose attempt.
        at: Address,
        /// Its number.
        attempt: u32,
        /// When that was seen.
        ended_at: Time,
    },
    /// An attempt was lost with the machine or program it ran on.
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
    /// A cancelled attempt has ended, with all its child processes.
    CancelConfirmed {
        /// Whose attempt.
        at: Address,
        /// Its number.
        attempt: u32,
        /// When it ended.
        ended_at: Time,
    },
    /// A cancelled attempt still runs although it should have ended by now.
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
    /// The items of a fan-out were read, or could not be.
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
    /// The flow was suspended or resumed.
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
    /// The stored spec was changed after the start, which holds the flow, or was restored.
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
    /// Time has passed: due timers fire.
    Tick,
}

/// The outputs of an attempt.
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
    /// Why the outputs cannot be used: a reason such as `OutputTooLarge`, and a sentence.
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
