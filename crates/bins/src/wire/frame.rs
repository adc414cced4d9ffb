//! Frames: the batches both sides of a session send, and the first frame of each stream.

use orlop_core::exact;
use orlop_core::id::{Epoch, SessionId};
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::spec::job::{ContentHash, JobSpec};
use orlop_core::task::TaskRef;
use orlop_core::time::Time;
use orlop_scheduler::event::Kept;

use super::attempt::about;
use super::bound::{
    ATTEMPTS_MAX, Check, FRAME_ENTRIES, OnWire, TEXT_MAX, WireError, at_most, millis, same_values, session, time,
};
use super::proto::v1;

pub use super::proto::v1::directive::Kind as DirectiveKind;
pub use super::proto::v1::{
    AttemptState, Directive, Goodbye, Hello, Judgement, LiveAttempt, OutboxRange, ServerFrame, Spec, Welcome,
    WorkerFrame,
};

impl LiveAttempt {
    /// An attempt that an agent holds, how far it is, and when it started by the clock of its host.
    #[must_use]
    pub fn new(attempt: TaskRef, state: AttemptState, started_at: Option<Time>) -> Self {
        Self { r#ref: Some(attempt.into()), state: state.into(), started_at: millis(started_at) }
    }

    /// When it started, by the clock of its host.
    #[must_use]
    pub fn started(&self) -> Option<Time> {
        time(self.started_at)
    }
}

impl Check for LiveAttempt {
    fn check(&self) -> Result<(), WireError> {
        match AttemptState::try_from(self.state) {
            Ok(AttemptState::Unspecified) => return Err(WireError::missing("live.state")),
            Ok(_) => {}
            Err(_) => return Err(WireError::unknown("live.state", self.state)),
        }
        about(self.r#ref).map(drop)
    }
}

impl Hello {
    /// The session it opens a stream of. A hello that names none does not pass its check.
    #[must_use]
    pub fn session(&self) -> SessionId {
        session(&self.session_id).unwrap_or(SessionId::from_bytes([0; 16]))
    }

    /// The attempts in the words of the scheduler.
    #[must_use]
    pub fn kept(&self) -> Vec<Kept> {
        let kept =
            |live: &LiveAttempt| Kept { attempt: live.attempt(), started: live.state() == AttemptState::Running };
        self.live.iter().map(kept).collect()
    }
}

impl Check for Hello {
    fn check(&self) -> Result<(), WireError> {
        at_most("hello.live", self.live.len(), ATTEMPTS_MAX)?;
        session(&self.session_id)?;
        self.live.iter().try_for_each(Check::check)
    }
}

impl Check for Welcome {
    fn check(&self) -> Result<(), WireError> {
        at_most("welcome", self.keep.len() + self.kill.len() + self.settled.len(), ATTEMPTS_MAX)?;
        self.keep.iter().chain(&self.kill).chain(&self.settled).try_for_each(Check::check)
    }
}

/// Attempts as they stand in messages.
pub(crate) fn refs(list: impl IntoIterator<Item = TaskRef>) -> Vec<v1::TaskRef> {
    list.into_iter().map(Into::into).collect()
}

impl Check for Directive {
    fn check(&self) -> Result<(), WireError> {
        match DirectiveKind::try_from(self.kind) {
            Ok(DirectiveKind::Unspecified) => return Err(WireError::missing("directive.kind")),
            Ok(_) => {}
            Err(_) => return Err(WireError::unknown("directive.kind", self.kind)),
        }
        at_most("directive.reason", self.reason.len(), TEXT_MAX)
    }
}

same_values! { ReportVerdict = v1::Verdict, "verdict" { Unknown, Duplicate, Accepted, Adopted, Stale } }

impl Judgement {
    /// What a message about an attempt was worth.
    #[must_use]
    pub fn new(attempt: TaskRef, verdict: ReportVerdict) -> Self {
        Self { r#ref: Some(attempt.into()), verdict: verdict.number() }
    }

    /// What it was worth. One that no version knows asks for nothing.
    #[must_use]
    pub fn report_verdict(&self) -> ReportVerdict {
        ReportVerdict::read(self.verdict).unwrap_or(ReportVerdict::Accepted)
    }
}

impl Check for Judgement {
    fn check(&self) -> Result<(), WireError> {
        ReportVerdict::read(self.verdict)?;
        about(self.r#ref).map(drop)
    }
}

impl Spec {
    /// A specification under a number.
    #[must_use]
    pub fn new(spec_id: u64, spec: &JobSpec) -> Self {
        let json = spec.encode();
        Self { spec_id, sha256: ContentHash::of(&json).0.to_vec(), json: json.into() }
    }

    /// What it says.
    ///
    /// # Errors
    /// It is no specification, or means another job here than where it was sent.
    pub fn read(&self) -> Result<JobSpec, WireError> {
        let spec: JobSpec = exact::from_slice(&self.json).map_err(|error| WireError::of("specs.json")(&error))?;
        if spec.content_hash().0.as_slice() != &*self.sha256 {
            let what =
                "does not have the hash that was sent with it; the two sides read job specifications differently";
            return Err(WireError::new("specs.json", what));
        }
        Ok(spec)
    }
}

impl WorkerFrame {
    /// How many entries it has.
    #[must_use]
    pub fn entries(&self) -> usize {
        let reports = self.results.len() + self.started.len() + self.accepted.len() + self.rejected.len();
        reports + self.revoked.len() + self.logs.len() + self.need_specs.len()
    }

    /// Bytes of output in it, which need credit.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        self.logs.iter().map(|chunk| chunk.data.len() as u64).sum()
    }
}

impl Check for WorkerFrame {
    fn check(&self) -> Result<(), WireError> {
        at_most("entries", self.entries(), FRAME_ENTRIES)?;
        self.hello.iter().try_for_each(Check::check)?;
        self.results.iter().try_for_each(Check::check)?;
        self.started.iter().try_for_each(Check::check)?;
        self.accepted.iter().try_for_each(Check::check)?;
        self.rejected.iter().try_for_each(Check::check)?;
        self.revoked.iter().try_for_each(Check::check)?;
        self.logs.iter().try_for_each(Check::check)?;
        self.status.iter().try_for_each(Check::check)?;
        self.goodbye.iter().try_for_each(|goodbye| at_most("goodbye.reason", goodbye.reason.len(), TEXT_MAX))
    }
}

impl ServerFrame {
    /// An empty frame of a server in `epoch`.
    #[must_use]
    pub fn of(epoch: Epoch) -> Self {
        Self { epoch: epoch.0, ..Self::default() }
    }

    /// How many entries it has.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.specs.len() + self.assign.len() + self.cancel.len() + self.revoke.len() + self.verdicts.len()
    }
}

impl Check for ServerFrame {
    fn check(&self) -> Result<(), WireError> {
        at_most("entries", self.entries(), FRAME_ENTRIES)?;
        self.welcome.iter().try_for_each(Check::check)?;
        self.assign.iter().try_for_each(Check::check)?;
        self.cancel.iter().try_for_each(Check::check)?;
        self.revoke.iter().try_for_each(Check::check)?;
        self.verdicts.iter().try_for_each(Check::check)?;
        self.directive.iter().try_for_each(Check::check)
    }
}
