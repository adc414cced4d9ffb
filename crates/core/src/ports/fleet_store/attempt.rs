//! Records of attempts. Owns their shapes.

use super::job::{Json, Text};
use crate::hardware::gpu::GpuShape;
use crate::id::WorkerId;
use crate::machine::attempt::AttemptState;
use crate::task::{StartMode, TaskRef, Usage};
use crate::time::Time;

/// An attempt as it was issued; its state is Assigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAttempt {
    /// Which.
    pub id: TaskRef,
    /// The worker.
    pub worker: WorkerId,
    /// The worker's incarnation.
    pub incarnation: u32,
    /// When it starts.
    pub mode: StartMode,
    /// When it was decided.
    pub assigned_at: Time,
    /// The kind of GPU that it holds, if it asks for any.
    pub gpu: Option<Box<GpuShape>>,
}

/// How an attempt ended; its state says the outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttemptEnd {
    /// The job's or element's one accepted final result.
    pub accepted_final: bool,
    /// Exit code.
    pub exit_code: Option<i32>,
    /// Signal that ended it.
    pub signal: Option<i32>,
    /// Why.
    pub reason: Option<Text>,
    /// What it used.
    pub usage: Option<Usage>,
    /// Outputs, artifacts and the end of the log, where its result had any.
    pub detail: Option<Box<AttemptDetail>>,
}

/// Outputs, artifacts and the end of the log of an attempt. Stored apart from it, since they can be large.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttemptDetail {
    /// Outputs, artifacts and log summary as a JSON object.
    pub body: Json,
    /// End of its log, or all of it when it was short.
    pub tail: Vec<u8>,
}

/// A new state of an attempt. Absent times leave what is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptChange {
    /// Which.
    pub id: TaskRef,
    /// Its state now.
    pub state: AttemptState,
    /// When its worker took it.
    pub accepted_at: Option<Time>,
    /// When it started.
    pub started_at: Option<Time>,
    /// When it ended.
    pub finished_at: Option<Time>,
    /// The kind of GPU that it holds, which it may have from the attempt before it; absent leaves what is stored.
    pub gpu: Option<Box<GpuShape>>,
    /// How it ended; absent leaves what is stored.
    pub end: Option<AttemptEnd>,
}

impl AttemptChange {
    /// A new state and nothing else.
    #[must_use]
    pub const fn new(id: TaskRef, state: AttemptState) -> Self {
        Self { id, state, accepted_at: None, started_at: None, finished_at: None, gpu: None, end: None }
    }
}

/// An attempt as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRow {
    /// As it was issued.
    pub attempt: NewAttempt,
    /// Its state.
    pub state: AttemptState,
    /// When its worker took it.
    pub accepted_at: Option<Time>,
    /// When it started.
    pub started_at: Option<Time>,
    /// When it ended.
    pub finished_at: Option<Time>,
    /// How it ended, without the detail.
    pub end: Option<AttemptEnd>,
}

impl AttemptRow {
    /// An attempt that was just issued.
    #[must_use]
    pub fn issued(attempt: NewAttempt) -> Self {
        let state = AttemptState::Assigned;
        Self { attempt, state, accepted_at: None, started_at: None, finished_at: None, end: None }
    }

    /// Takes a change in, and gives the detail that it brought.
    pub fn change(&mut self, change: AttemptChange) -> Option<Box<AttemptDetail>> {
        self.state = change.state;
        self.accepted_at = change.accepted_at.or(self.accepted_at);
        self.started_at = change.started_at.or(self.started_at);
        self.finished_at = change.finished_at.or(self.finished_at);
        self.attempt.gpu = change.gpu.or_else(|| self.attempt.gpu.take());
        let mut end = change.end?;
        let detail = end.detail.take();
        self.end = Some(end);
        detail
    }

    /// Whether the server has to know it after a restart: it has not ended, or was only lost from sight.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.state.is_end() || self.state == AttemptState::Lost
    }
}
