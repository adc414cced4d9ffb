//! What a batch has decided so far: records in the order they are written, tasks that changed, and what is released once they
//! are committed.

use std::sync::Arc;

use orlop_core::id::JobId;
use orlop_core::machine::job::JobState;
use orlop_core::ports::fleet_store::{Record, Text};
use orlop_core::task::TaskRef;
use orlop_core::time::Time;
use orlop_scheduler::effect::Reason;
use orlop_scheduler::token::WorkerKey;

use super::super::commit::Release;
use super::super::session::Session;

/// A job, element or gang that changed.
#[derive(Clone, Debug)]
pub(super) struct TaskMark {
    pub(super) job: JobId,
    /// The element; none = the job itself.
    pub(super) element: Option<u32>,
    pub(super) to: JobState,
    pub(super) reason: Reason,
    /// Number of the change.
    pub(super) revision: u64,
    /// What a result said.
    pub(super) fields: ReportFields,
}

/// What a worker's message says of a task, as far as its row keeps it.
#[derive(Clone, Debug, Default)]
pub(super) struct ReportFields {
    pub(super) reason: Option<Text>,
    pub(super) exit_code: Option<i32>,
    pub(super) started_at: Option<Time>,
    pub(super) finished_at: Option<Time>,
}

/// A batch in the making.
#[derive(Debug, Default)]
pub(super) struct WriteSet {
    /// Records that are complete.
    pub(super) records: Vec<Record>,
    /// Tasks whose rows are written at the end of the batch.
    pub(super) tasks: Vec<TaskMark>,
    /// Workers whose documents are written then.
    pub(super) workers: Vec<WorkerKey>,
    /// Workers that something goes out to.
    pub(super) touched: Vec<WorkerKey>,
    /// What is done after the commit, in order; frames come before.
    pub(super) releases: Vec<Release>,
    /// Messages whose worth the store is asked for after the commit, and who sent them.
    pub(super) recalls: Vec<(Arc<Session>, TaskRef)>,
    /// Something was applied: the core is worth a round.
    pub(super) applied: bool,
}

impl WriteSet {
    pub(super) fn release(&mut self, release: Release) {
        self.releases.push(release);
    }

    /// Whether something of it is written.
    pub(super) fn is_written(&self) -> bool {
        !(self.records.is_empty() && self.tasks.is_empty() && self.workers.is_empty())
    }

    /// Whether nothing came of the batch.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_written() && self.touched.is_empty() && self.recalls.is_empty() && self.releases.is_empty()
    }
}
