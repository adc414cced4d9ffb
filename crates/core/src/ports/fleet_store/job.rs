//! Records of specifications and jobs. Owns their shapes; bodies are opaque to the store.

use std::borrow::Cow;
use std::fmt;

use crate::id::{Epoch, JobId, TenantName, WorkerId};
use crate::machine::job::JobState;
use crate::named::named_enum;
use crate::time::Time;

/// A JSON document as text. Stores do not read it, except for labels.
pub type Json = Box<str>;

/// A short text that usually has one of a few values.
pub type Text = Cow<'static, str>;

/// The SHA-256 of a specification's body: its identity, under which equal ones are stored once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpecHash(pub [u8; 32]);

impl SpecHash {
    /// The hash of a body.
    #[must_use]
    pub fn of(body: &str) -> Self {
        use sha2::Digest as _;
        Self(sha2::Sha256::digest(body.as_bytes()).into())
    }
}

impl fmt::Display for SpecHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SpecHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpecHash({self})")
    }
}

/// An interned specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSpec {
    /// Its identity.
    pub hash: SpecHash,
    /// The specification as JSON.
    pub body: Json,
}

impl NewSpec {
    /// The specification with this body.
    #[must_use]
    pub fn new(body: impl Into<Json>) -> Self {
        let body = body.into();
        Self { hash: SpecHash::of(&body), body }
    }
}

named_enum! {
    /// What a job is made of.
    #[derive(Default)]
    pub enum JobKind("job kind") {
        /// One unit.
        #[default]
        Single = "single",
        /// Independent elements.
        Array = "array",
        /// Members that start together.
        Gang = "gang",
    }
}

/// A job as it was submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// Its id, unique; at most 2⁶³ − 1.
    pub id: JobId,
    /// The tenant it belongs to.
    pub tenant: TenantName,
    /// Its specification.
    pub spec: SpecHash,
    /// What it is made of.
    pub kind: JobKind,
    /// Elements of an array, members of a gang, else 1.
    pub count: u32,
    /// Inclusive ranges of indices of an array, else none.
    pub indices: Vec<(u32, u32)>,
    /// 0 to 9.
    pub priority: u8,
    /// Name, for search.
    pub name: Option<Text>,
    /// Labels as a JSON object of texts, for search.
    pub labels: Option<Json>,
    /// Earliest start.
    pub not_before: Option<Time>,
    /// When it expires unless it has started.
    pub expires_at: Option<Time>,
    /// When it was accepted.
    pub submitted_at: Time,
    /// The flow it belongs to.
    pub flow: Option<Box<str>>,
    /// The step of that flow.
    pub step: Option<Box<str>>,
    /// The job it repeats.
    pub retry_of: Option<JobId>,
    /// Follows the request through all parts.
    pub correlation_id: Option<Box<str>>,
    /// W3C trace context.
    pub traceparent: Option<Box<str>>,
}

impl NewJob {
    /// A single job of priority 5 with nothing else said.
    #[must_use]
    pub fn new(id: JobId, tenant: TenantName, spec: SpecHash, submitted_at: Time) -> Self {
        Self {
            id,
            tenant,
            spec,
            kind: JobKind::Single,
            count: 1,
            indices: Vec::new(),
            priority: 5,
            name: None,
            labels: None,
            not_before: None,
            expires_at: None,
            submitted_at,
            flow: None,
            step: None,
            retry_of: None,
            correlation_id: None,
            traceparent: None,
        }
    }
}

/// Where a job or an element stands: all that a server needs to go on with it after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskStatus {
    /// Its state.
    pub state: JobState,
    /// Why it is in that state.
    pub reason: Option<Text>,
    /// Number of the newest attempt ever issued; 0 = none.
    pub attempt: u32,
    /// The epoch of that attempt.
    pub epoch: Epoch,
    /// The newest attempt has an accepted result.
    pub answered: bool,
    /// The newest attempt is lost and may yet be adopted.
    pub lost: bool,
    /// Its command could not be started by the worker that it avoids, and has not started anywhere since.
    pub second_try: bool,
    /// Retries after its own failures.
    pub retries: u32,
    /// Infrastructure losses.
    pub infra: u32,
    /// Worker of the newest attempt.
    pub worker: Option<WorkerId>,
    /// Worker that it should rather not get again.
    pub avoid: Option<WorkerId>,
    /// When its backoff ends.
    pub due_at: Option<Time>,
    /// When it last entered its queue. In a change: absent leaves what is stored; so of `started_at` and `exit_code`.
    pub queued_at: Option<Time>,
    /// When it first started; once set it cannot expire any more.
    pub started_at: Option<Time>,
    /// When it became final: present in every final state and in no other.
    pub finished_at: Option<Time>,
    /// Exit code of its result.
    pub exit_code: Option<i32>,
}

impl TaskStatus {
    /// A unit in a state, never assigned, with nothing else known.
    #[must_use]
    pub fn new(state: JobState) -> Self {
        Self {
            state,
            reason: None,
            attempt: 0,
            epoch: Epoch(0),
            answered: false,
            lost: false,
            second_try: false,
            retries: 0,
            infra: 0,
            worker: None,
            avoid: None,
            due_at: None,
            queued_at: None,
            started_at: None,
            finished_at: None,
            exit_code: None,
        }
    }

    /// Whether it says when it became final exactly if it is.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.state.is_terminal() == self.finished_at.is_some()
    }

    /// Becomes `newer`, keeping what that leaves as it is.
    pub fn become_newer(&mut self, newer: Self) {
        *self = Self {
            queued_at: newer.queued_at.or(self.queued_at),
            started_at: newer.started_at.or(self.started_at),
            exit_code: newer.exit_code.or(self.exit_code),
            ..newer
        };
    }
}

/// A new state of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobChange {
    /// The job.
    pub id: JobId,
    /// Number of the change; grows.
    pub revision: u64,
    /// Where it stands now.
    pub unit: TaskStatus,
}

/// A job as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRow {
    /// As it was submitted.
    pub job: NewJob,
    /// Where it stands.
    pub unit: TaskStatus,
    /// Number of its last change; 0 = none since the submit.
    pub revision: u64,
}

impl JobRow {
    /// A job that was just submitted, Pending or Queued.
    #[must_use]
    pub fn submitted(job: NewJob, state: JobState) -> Self {
        let queued_at = (state == JobState::Queued).then_some(job.submitted_at);
        Self { job, unit: TaskStatus { queued_at, ..TaskStatus::new(state) }, revision: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_keeps_what_it_does_not_say() {
        let mut unit = TaskStatus::new(JobState::Running);
        unit.started_at = Some(Time::from_millis(5));
        unit.reason = Some("x".into());
        let finished_at = Some(Time::from_millis(9));
        unit.become_newer(TaskStatus { exit_code: Some(1), finished_at, ..TaskStatus::new(JobState::Failed) });
        assert_eq!((unit.started_at, unit.exit_code), (Some(Time::from_millis(5)), Some(1)));
        assert!(unit.is_sound() && unit.reason.is_none());
    }

    #[test]
    fn equal_bodies_have_equal_hashes() {
        assert_eq!(NewSpec::new("{}").hash, SpecHash::of("{}"));
        assert!(SpecHash::of("{}").to_string().starts_with("44136fa355b3678a"));
    }
}
