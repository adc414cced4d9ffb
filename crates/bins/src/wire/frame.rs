//! Frames: the batches both sides of a session send, and the first frame of each stream.

use orlop_core::id::{Epoch, SessionId};
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::spec::job::{ContentHash, JobSpec};
use orlop_core::task::TaskRef;
use orlop_core::time::Time;
use orlop_scheduler::event::Kept;
use std::sync::Arc;

use super::attempt::{AssignJob, CancelJob, JobStarted, Rejected, about};
use super::bound::{
    ATTEMPTS_MAX, Check, FRAME_ENTRIES, OnWire, TEXT_MAX, WireError, at_most, checked, each, millis, mirrored,
    same_values, text, time,
};
use super::proto::v1;
use super::result::{JobResult, LogChunk};
use super::status::WorkerStatus;
use super::worker::session;

pub use super::proto::v1::Directive;
pub use super::proto::v1::directive::Kind as DirectiveKind;

mirrored! {
    /// How far an attempt is that an agent holds.
    pub enum LiveState = v1::AttemptState, "live.state" {
        /// It is not started yet.
        Accepted,
        /// It runs.
        Running,
    }
}

/// An attempt that an agent holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// The attempt.
    pub attempt: TaskRef,
    /// How far it is.
    pub state: LiveState,
    /// When it started, by the clock of its host.
    pub started_at: Option<Time>,
}

/// The first frame of an agent on a stream. `Debug` shows only the first digits of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The session.
    pub session: SessionId,
    /// The highest epoch the agent has seen.
    pub highest_epoch: Epoch,
    /// The last frame of the server that it received and journalled.
    pub last_server_seq: u64,
    /// Attempts it holds.
    pub live: Vec<Live>,
    /// The first frame it holds for the server.
    pub first_spooled: u64,
    /// How many it holds.
    pub spooled: u64,
}

impl Hello {
    /// The attempts in the words of the scheduler.
    #[must_use]
    pub fn kept(&self) -> Vec<Kept> {
        let kept = |live: &Live| Kept { attempt: live.attempt, started: live.state == LiveState::Running };
        self.live.iter().map(kept).collect()
    }
}

impl From<Hello> for v1::Hello {
    fn from(hello: Hello) -> Self {
        let live = |live: Live| v1::LiveAttempt {
            r#ref: Some(live.attempt.into()),
            state: live.state.number(),
            started_at: millis(live.started_at),
        };
        Self {
            session_id: hello.session.as_bytes().to_vec(),
            highest_epoch: hello.highest_epoch.0,
            last_server_seq: hello.last_server_seq,
            live: hello.live.into_iter().map(live).collect(),
            spooled: Some(v1::Spooled { first_seq: hello.first_spooled, count: hello.spooled }),
        }
    }
}

impl TryFrom<v1::LiveAttempt> for Live {
    type Error = WireError;

    fn try_from(wire: v1::LiveAttempt) -> Result<Self, WireError> {
        let state = LiveState::read(wire.state)?;
        Ok(Self { attempt: about(wire.r#ref)?, state, started_at: time(wire.started_at) })
    }
}

impl TryFrom<v1::Hello> for Hello {
    type Error = WireError;

    fn try_from(wire: v1::Hello) -> Result<Self, WireError> {
        at_most("hello.live", wire.live.len(), ATTEMPTS_MAX)?;
        let spooled = wire.spooled.unwrap_or_default();
        Ok(Self {
            session: session(&wire.session_id)?,
            highest_epoch: Epoch(wire.highest_epoch),
            last_server_seq: wire.last_server_seq,
            live: each(wire.live)?,
            first_spooled: spooled.first_seq,
            spooled: spooled.count,
        })
    }
}

/// The first frame of the server on a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Welcome {
    /// The last frame of the agent that was received: later ones are sent again. Its effects need not be committed, so it
    /// frees nothing; that is said by `ack`.
    pub last_worker_seq: u64,
    /// Attempts that go on.
    pub keep: Vec<TaskRef>,
    /// Attempts to end.
    pub kill: Vec<TaskRef>,
    /// Attempts whose results the server has.
    pub settled: Vec<TaskRef>,
}

fn refs(list: Vec<TaskRef>) -> Vec<v1::TaskRef> {
    list.into_iter().map(Into::into).collect()
}

impl From<Welcome> for v1::Welcome {
    fn from(welcome: Welcome) -> Self {
        let Welcome { last_worker_seq, keep, kill, settled } = welcome;
        Self { last_worker_seq, keep: refs(keep), kill: refs(kill), settled: refs(settled) }
    }
}

impl TryFrom<v1::Welcome> for Welcome {
    type Error = WireError;

    fn try_from(wire: v1::Welcome) -> Result<Self, WireError> {
        at_most("welcome", wire.keep.len() + wire.kill.len() + wire.settled.len(), ATTEMPTS_MAX)?;
        let (keep, kill, settled) = (each(wire.keep)?, each(wire.kill)?, each(wire.settled)?);
        Ok(Self { last_worker_seq: wire.last_worker_seq, keep, kill, settled })
    }
}

impl Check for Directive {
    fn check(&self) -> Result<(), WireError> {
        match DirectiveKind::try_from(self.kind) {
            Ok(DirectiveKind::Unspecified) => return Err(WireError::missing("directive.kind")),
            Ok(_) => {}
            Err(_) => {
                let what = format!("is {}, which this version does not know", self.kind);
                return Err(WireError::new("directive.kind", what));
            }
        }
        at_most("directive.reason", self.reason.len(), TEXT_MAX)
    }
}

same_values! { ReportVerdict = v1::Verdict, "verdict" { Unknown, Duplicate, Accepted, Adopted, Stale } }

/// What a message about an attempt was worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The attempt.
    pub attempt: TaskRef,
    /// Its worth.
    pub verdict: ReportVerdict,
}

impl TryFrom<v1::Judgement> for Judgement {
    type Error = WireError;

    fn try_from(wire: v1::Judgement) -> Result<Self, WireError> {
        Ok(Self { attempt: about(wire.r#ref)?, verdict: ReportVerdict::read(wire.verdict)? })
    }
}

/// A specification and its number.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The number.
    pub spec_id: u64,
    /// The specification.
    pub spec: Arc<JobSpec>,
}

impl TryFrom<v1::Spec> for Spec {
    type Error = WireError;

    fn try_from(wire: v1::Spec) -> Result<Self, WireError> {
        let spec: JobSpec = serde_json::from_slice(&wire.json).map_err(|error| WireError::of("specs.json")(&error))?;
        if spec.content_hash().0.as_slice() != &*wire.sha256 {
            let what =
                "does not have the hash that was sent with it; the two sides read job specifications differently";
            return Err(WireError::new("specs.json", what));
        }
        Ok(Self { spec_id: wire.spec_id, spec: Arc::new(spec) })
    }
}

/// A batch of an agent, applied as a whole in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerFrame {
    /// Its number, from 1 per session; 0 = it holds nothing that must not be lost.
    pub seq: u64,
    /// The last frame of the server that was received and journalled.
    pub ack: u64,
    /// The highest epoch the agent has seen.
    pub epoch: Epoch,
    /// In the first frame of a stream only.
    pub hello: Option<Hello>,
    /// Ends.
    pub results: Vec<JobResult>,
    /// Starts.
    pub started: Vec<JobStarted>,
    /// Attempts it took.
    pub accepted: Vec<TaskRef>,
    /// Attempts it does not take.
    pub rejected: Vec<Rejected>,
    /// Attempts taken back before they started.
    pub revoked: Vec<TaskRef>,
    /// Pieces of logs.
    pub logs: Vec<LogChunk>,
    /// A heartbeat.
    pub status: Option<WorkerStatus>,
    /// Specifications it lacks.
    pub need_specs: Vec<u64>,
    /// It leaves, and why.
    pub goodbye: Option<String>,
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

impl From<WorkerFrame> for v1::WorkerFrame {
    fn from(frame: WorkerFrame) -> Self {
        let accepted = |attempt: TaskRef| v1::JobAccepted { r#ref: Some(attempt.into()) };
        Self {
            seq: frame.seq,
            ack: frame.ack,
            epoch: frame.epoch.0,
            hello: frame.hello.map(Into::into),
            results: frame.results.into_iter().map(Into::into).collect(),
            started: frame.started.into_iter().map(Into::into).collect(),
            accepted: frame.accepted.into_iter().map(accepted).collect(),
            rejected: frame.rejected.into_iter().map(Into::into).collect(),
            revoked: refs(frame.revoked),
            logs: frame.logs.into_iter().map(Into::into).collect(),
            status: frame.status.map(Into::into),
            need_specs: frame.need_specs,
            goodbye: frame.goodbye.map(|reason| v1::Goodbye { reason }),
        }
    }
}

impl TryFrom<v1::WorkerFrame> for WorkerFrame {
    type Error = WireError;

    fn try_from(wire: v1::WorkerFrame) -> Result<Self, WireError> {
        let accepted = wire.accepted.into_iter().map(|accepted| about(accepted.r#ref));
        let goodbye = wire.goodbye.map(|goodbye| text("goodbye.reason", goodbye.reason, TEXT_MAX));
        let frame = Self {
            seq: wire.seq,
            ack: wire.ack,
            epoch: Epoch(wire.epoch),
            hello: wire.hello.map(TryInto::try_into).transpose()?,
            results: each(wire.results)?,
            started: each(wire.started)?,
            accepted: accepted.collect::<Result<_, _>>()?,
            rejected: each(wire.rejected)?,
            revoked: each(wire.revoked)?,
            logs: each(wire.logs)?,
            status: wire.status.map(TryInto::try_into).transpose()?,
            need_specs: wire.need_specs,
            goodbye: goodbye.transpose()?,
        };
        at_most("entries", frame.entries(), FRAME_ENTRIES)?;
        Ok(frame)
    }
}

/// A batch of the server, applied as a whole in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerFrame {
    /// Its number, from 1 per session; 0 = it holds nothing that must not be lost.
    pub seq: u64,
    /// The last frame of the agent whose effects are committed; beside assignments that of the batch that decided them.
    pub ack: u64,
    /// The server's epoch.
    pub epoch: Epoch,
    /// In the first frame of a stream only.
    pub welcome: Option<Welcome>,
    /// Specifications that the agent does not have.
    pub specs: Vec<Spec>,
    /// Attempts to start.
    pub assign: Vec<AssignJob>,
    /// Attempts to end.
    pub cancel: Vec<CancelJob>,
    /// Attempts not to start.
    pub revoke: Vec<TaskRef>,
    /// What messages were worth.
    pub verdicts: Vec<Judgement>,
    /// Bytes of logs the agent may have sent in all since the session began; 0 = as before.
    pub log_credit: u64,
    /// What the agent is to do.
    pub directive: Option<Directive>,
    /// The lease from the sending of the heartbeat that this answers, in milliseconds; 0 = it answers none.
    pub lease_ms: u32,
    /// How long the agent is to wait before it sends or connects again, in milliseconds.
    pub retry_after_ms: u32,
}

impl ServerFrame {
    /// How many entries it has.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.specs.len() + self.assign.len() + self.cancel.len() + self.revoke.len() + self.verdicts.len()
    }
}

impl From<ServerFrame> for v1::ServerFrame {
    fn from(frame: ServerFrame) -> Self {
        let judgement = |judgement: Judgement| v1::Judgement {
            r#ref: Some(judgement.attempt.into()),
            verdict: judgement.verdict.number(),
        };
        let spec = |Spec { spec_id, spec }: Spec| {
            let json = spec.encode();
            let sha256 = ContentHash::of(&json).0.to_vec();
            v1::Spec { spec_id, json, sha256 }
        };
        Self {
            seq: frame.seq,
            ack: frame.ack,
            epoch: frame.epoch.0,
            welcome: frame.welcome.map(Into::into),
            specs: frame.specs.into_iter().map(spec).collect(),
            assign: frame.assign.into_iter().map(Into::into).collect(),
            cancel: frame.cancel.into_iter().map(Into::into).collect(),
            revoke: refs(frame.revoke),
            verdicts: frame.verdicts.into_iter().map(judgement).collect(),
            log_credit: frame.log_credit,
            directive: frame.directive,
            lease_ms: frame.lease_ms,
            retry_after_ms: frame.retry_after_ms,
        }
    }
}

impl TryFrom<v1::ServerFrame> for ServerFrame {
    type Error = WireError;

    fn try_from(wire: v1::ServerFrame) -> Result<Self, WireError> {
        let frame = Self {
            seq: wire.seq,
            ack: wire.ack,
            epoch: Epoch(wire.epoch),
            welcome: wire.welcome.map(TryInto::try_into).transpose()?,
            specs: each(wire.specs)?,
            assign: each(wire.assign)?,
            cancel: each(wire.cancel)?,
            revoke: each(wire.revoke)?,
            verdicts: each(wire.verdicts)?,
            log_credit: wire.log_credit,
            directive: wire.directive.map(checked).transpose()?,
            lease_ms: wire.lease_ms,
            retry_after_ms: wire.retry_after_ms,
        };
        at_most("entries", frame.entries(), FRAME_ENTRIES)?;
        Ok(frame)
    }
}
