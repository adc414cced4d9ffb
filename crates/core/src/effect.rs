//! Effects of a flow: what the flow engine asks its host to do. Owns the values and their idempotency keys; carrying one out
//! twice must have the same result as once.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::attempt::{Address, StepIndex};

/// Something that the flow engine asks its host to do. The host carries effects out in their order and answers those that name
/// an answer by that [`FlowEvent`](crate::event::FlowEvent).
///
/// ```
/// use orlop_core::attempt::Address;
/// use orlop_core::effect::FlowEffect;
/// let start = FlowEffect::StartAttempt { at: Address::instance(4, 7), attempt: 2, item: None };
/// assert_eq!(start.key(), "4.7/2/start");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "camelCase")]
#[non_exhaustive]
pub enum FlowEffect {
    /// Create the objects of the resource templates, or verify that they exist; answer `ResourcesReady` or `ResourcesFailed`.
    EnsureResources,
    /// Resolve parameters and create exactly one execution; answer `AttemptAccepted`, `AttemptDelayed` or `AttemptRefused`.
    StartAttempt {
        /// Whose attempt.
        at: Address,
        /// Its number.
        attempt: u32,
        /// The item of a fan-out instance.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        item: Option<Box<Value>>,
    },
    /// End an attempt with all its child processes; answer `CancelConfirmed`, also when it no longer exists.
    CancelAttempt {
        /// Whose attempt.
        at: Address,
        /// Its number.
        attempt: u32,
        /// Why, in one word: `Timeout`, or what halted the flow.
        cause: String,
        /// Time between the request to end and the kill; none: the `terminationGracePeriodSeconds` of the template.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grace: Option<Duration>,
    },
    /// Suspend an attempt, so that its time limit stands still: freeze its processes, pause its container or suspend its Job.
    SuspendAttempt {
        /// Whose attempt.
        at: Address,
        /// Its number.
        attempt: u32,
        /// Number of the suspension, part of the key.
        epoch: u32,
    },
    /// Resume a suspended attempt.
    ResumeAttempt {
        /// Whose attempt.
        at: Address,
        /// Its number.
        attempt: u32,
        /// Number of the suspension, part of the key.
        epoch: u32,
    },
    /// Read the list of a fan-out step; answer `ItemsResolved`.
    ResolveItems {
        /// The fan-out step.
        step: StepIndex,
    },
    /// Delete an execution that has ended, once its result is in a stored status.
    ForgetAttempt {
        /// Whose attempt.
        at: Address,
        /// Its number.
        attempt: u32,
        /// How long after its end; zero: at once.
        after: Duration,
    },
    /// Publish a notice for people, once; losing it is allowed.
    RecordEvent(FlowNotice),
    /// Store the status as the engine's `view` gives it.
    StatusChanged {
        /// Whether to store it at once: changes of the phase, approvals and the end. Others may be merged.
        urgent: bool,
        /// Number of the change, part of the key.
        revision: u64,
    },
    /// Delete the flow: its `ttlSecondsAfterFinished` has passed.
    DeleteFlow,
}

/// A notice about a flow for people, such as a Kubernetes event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowNotice {
    /// Whether it is a warning.
    pub warning: bool,
    /// Why, in one word, such as `StepFailed`.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// The step it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Address>,
    /// The attempt it is about; 0 for none.
    #[serde(default)]
    pub attempt: u32,
}

/// Reason of the notice that an attempt waits.
const WAITING: &str = "StepWaiting";

impl FlowEffect {
    /// The idempotency key within the flow; put the uid of the flow before it to make it unique among flows.
    #[must_use]
    pub fn key(&self) -> String {
        let address = |at: &Address| at.item.map_or_else(|| at.step.0.to_string(), |k| format!("{}.{k}", at.step.0));
        match self {
            Self::EnsureResources => "resources".to_owned(),
            Self::StartAttempt { at, attempt, .. } => format!("{}/{attempt}/start", address(at)),
            Self::CancelAttempt { at, attempt, .. } => format!("{}/{attempt}/cancel", address(at)),
            Self::SuspendAttempt { at, attempt, epoch } => format!("{}/{attempt}/suspend/{epoch}", address(at)),
            Self::ResumeAttempt { at, attempt, epoch } => format!("{}/{attempt}/resume/{epoch}", address(at)),
            Self::ResolveItems { step } => format!("{}/items", step.0),
            Self::ForgetAttempt { at, attempt, .. } => format!("{}/{attempt}/forget", address(at)),
            Self::RecordEvent(notice) => match &notice.at {
                // What an attempt waits for may change.
                Some(at) if notice.reason == WAITING => {
                    let message = crate::name::sha256_hex(notice.message.as_bytes(), 8);
                    format!("{}/{}/{WAITING}/{message}", address(at), notice.attempt)
                }
                Some(at) => format!("{}/{}/{}", address(at), notice.attempt, notice.reason),
                None => notice.reason.clone(),
            },
            Self::StatusChanged { revision, .. } => revision.to_string(),
            Self::DeleteFlow => "delete".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_step_attempt_and_kind() {
        let start =
            |item| FlowEffect::StartAttempt { at: Address { item, ..Address::step(4) }, attempt: 2, item: None };
        assert_eq!(start(None).key(), "4/2/start");
        assert_eq!(start(Some(7)).key(), "4.7/2/start");
        let at = Address::step(1);
        assert_eq!(FlowEffect::SuspendAttempt { at, attempt: 1, epoch: 3 }.key(), "1/1/suspend/3");
        let cancel = |cause: &str| FlowEffect::CancelAttempt { at, attempt: 2, cause: cause.into(), grace: None };
        assert_eq!((cancel("Timeout").key(), cancel("Stopped").key()), ("1/2/cancel".into(), "1/2/cancel".into()));
        let after = Duration::from_secs(5);
        assert_eq!(FlowEffect::ForgetAttempt { at, attempt: 2, after }.key(), "1/2/forget");
        assert_eq!(FlowEffect::ResolveItems { step: at.step }.key(), "1/items");
        let notice = |at| FlowNotice { warning: false, reason: "R".into(), message: "m".into(), at, attempt: 4 };
        assert_eq!(FlowEffect::RecordEvent(notice(Some(at))).key(), "1/4/R");
        assert_eq!(FlowEffect::RecordEvent(notice(None)).key(), "R");
        let waiting = |message: &str| {
            let (reason, message) = ("StepWaiting".to_owned(), message.to_owned());
            FlowEffect::RecordEvent(FlowNotice { reason, message, ..notice(Some(at)) }).key()
        };
        assert_ne!(waiting("no image"), waiting("no node"));
        assert_eq!(FlowEffect::StatusChanged { urgent: true, revision: 8 }.key(), "8");
        assert_eq!(
            (FlowEffect::EnsureResources.key(), FlowEffect::DeleteFlow.key()),
            ("resources".into(), "delete".into())
        );
    }
}
