//! Plans: what a controller does about an object, as values: effects in their order, when to reconcile again, and which transitions of the
//! lifecycle were made. Carries nothing out.

use std::time::Duration;

use orlop_core::time::Time;
use serde::Serialize;
use serde_json::Value;

use super::cache::FreshReads;
use super::spec::Retry;
use crate::api::{Kind, Propagation};
use crate::value::text;

/// An object by kind and name, in the namespace of the one that is planned for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ObjectKey {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
}

/// An event to be recorded about the object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// Whether something is wrong.
    pub warning: bool,
    /// Its reason, one word.
    pub reason: &'static str,
    /// Its message, a sentence.
    pub message: String,
    /// What makes it another notice than one of the same reason, such as a number.
    pub about: String,
}

impl Notice {
    /// That something went its way.
    #[must_use]
    pub fn normal(reason: &'static str, message: impl Into<String>, about: impl ToString) -> Self {
        Self { warning: false, reason, message: message.into(), about: about.to_string() }
    }

    /// That something is wrong.
    #[must_use]
    pub fn warning(reason: &'static str, message: impl Into<String>, about: impl ToString) -> Self {
        Self { warning: true, reason, message: message.into(), about: about.to_string() }
    }
}

/// One thing to do. Carried out twice it is as if it had been carried out once.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Effect {
    /// Add the finalizer, which keeps the object until its children are deleted.
    AddFinalizer,
    /// Remove the finalizer.
    RemoveFinalizer,
    /// Store the status.
    WriteStatus(Value),
    /// Create a child that is not there.
    Create(Kind, Value),
    /// Apply the wanted fields to a child.
    Apply(Kind, Value),
    /// Label and annotate a child of ours, if it is still that version.
    PatchMeta {
        /// Which.
        key: ObjectKey,
        /// The members of its metadata.
        metadata: Value,
    },
    /// Delete a child of ours.
    Delete {
        /// Which.
        key: ObjectKey,
        /// Only the object with this uid.
        uid: String,
        /// What happens to what it owns.
        propagation: Propagation,
    },
    /// Record an event for people.
    RecordEvent(Notice),
}

impl Effect {
    /// The child it writes; none for the object itself.
    #[must_use]
    pub fn child(&self) -> Option<ObjectKey> {
        match self {
            Self::Create(kind, object) | Self::Apply(kind, object) => {
                Some(ObjectKey { kind: *kind, name: text(object, "/metadata/name") })
            }
            Self::PatchMeta { key, .. } | Self::Delete { key, .. } => Some(key.clone()),
            _ => None,
        }
    }

    /// Writes a status over the stored one; none where they are the same.
    pub(crate) fn write_status(stored: &Value, status: &impl Serialize) -> Option<Self> {
        let value = serde_json::to_value(status).unwrap_or_default();
        (value != *stored).then_some(Self::WriteStatus(value))
    }
}

/// When the object is reconciled again if nothing happens before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Requeue {
    /// At the next resync of all objects.
    #[default]
    Resync,
    /// At this time.
    At(Time),
    /// Never: it is gone.
    Never,
}

impl Requeue {
    /// The earlier of both.
    #[must_use]
    pub fn or_at(self, at: Option<Time>) -> Self {
        match (self, at) {
            (Self::At(one), Some(other)) => Self::At(one.min(other)),
            (Self::Resync, Some(at)) => Self::At(at),
            (same, _) => same,
        }
    }
}

/// A step through a lifecycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// From which state; none before the first.
    pub from: Option<&'static str>,
    /// To which.
    pub to: &'static str,
}

/// What is to be done about an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[must_use]
pub struct Plan {
    /// In this order, up to the first that fails.
    pub effects: Vec<Effect>,
    /// When to look again. After effects that is at once.
    pub requeue: Requeue,
    /// The way through the lifecycle that the written status has taken.
    pub path: Vec<Step>,
    /// Whether this plan may remove what an earlier one failed on: that is tried again at once.
    pub unblocked: bool,
    /// Whether it gives a name to a pod that is to be made, which must be free.
    pub reserves_name: bool,
    /// Whether an invariant does not hold: nothing of it may be done.
    pub invariant_broken: bool,
}

impl Plan {
    /// The same with the way its status has taken; broken where there is none.
    pub(crate) fn with_path(self, path: Option<Vec<Step>>) -> Self {
        Self { invariant_broken: self.invariant_broken || path.is_none(), path: path.unwrap_or_default(), ..self }
    }

    /// How much of its observation must have been read from the server: what cannot be undone is not done on cached state.
    pub(super) fn required_reads(&self) -> FreshReads {
        let of = |effect: &Effect| match effect {
            Effect::RemoveFinalizer => FreshReads::All,
            Effect::Delete { key, .. } if key.kind == Kind::Pod => FreshReads::Pods,
            Effect::Create(Kind::Pod, _) => FreshReads::Names,
            _ => FreshReads::None,
        };
        let reserves_name = if self.reserves_name { FreshReads::Names } else { FreshReads::None };
        self.effects.iter().map(of).max().unwrap_or_default().max(reserves_name)
    }

    /// Whether it does anything but record events.
    #[must_use]
    pub fn changes(&self) -> bool {
        self.effects.iter().any(|effect| !matches!(effect, Effect::RecordEvent(_)))
    }
}

/// Why the last plan could not be carried out, from the answers of the server. The next observation holds it, so that a plan can
/// report it in conditions and wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Why, as conditions have it.
    pub reason: &'static str,
    /// Why, for people; the same every time.
    pub message: String,
    /// Which child could not be written; none where it was not about a child.
    pub at: Option<ObjectKey>,
    /// When it is tried again; never for a reason that only another spec removes.
    pub until: Option<Time>,
}

impl Failure {
    /// What the status keeps of it, so that the next controller waits as long: what was refused is not asked for again
    /// before that. None where there is nothing to wait for.
    #[must_use]
    pub fn retry(&self, before: Option<&Retry>) -> Option<Retry> {
        let until = self.until.filter(|_| is_refusal(self.reason))?;
        let same = before.filter(|known| known.next_retry_time == Some(until) && known.reason == self.reason);
        let next = || Retry {
            count: before.map_or(0, |known| known.count).saturating_add(1),
            reason: self.reason.to_owned(),
            next_retry_time: Some(until),
        };
        Some(same.cloned().unwrap_or_else(next))
    }
}

/// Whether the server has refused something, and may take it later.
pub(crate) fn is_refusal(reason: &str) -> bool {
    matches!(reason, QUOTA | FORBIDDEN | ADMISSION)
}

/// Reason: the server refuses a child, by a limit, a policy or its own checks, which may change.
pub const ADMISSION: &str = "AdmissionRefused";
/// Reason: something may not be read or written.
pub const FORBIDDEN: &str = "Forbidden";
/// Reason: a child does not fit the quota of the namespace.
pub const QUOTA: &str = "QuotaExceeded";
/// Reason: something was tried too often without success.
pub(crate) const RETRIES: &str = "RetriesExhausted";
/// Reason: an invariant does not hold.
pub const BROKEN: &str = "InvariantBroken";

/// How long an object waits in whose way another's stands.
pub const CONFLICT: Duration = Duration::from_secs(60);
