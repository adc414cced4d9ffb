//! The runtime that runs nothing: every attempt succeeds at once. Owns that end, for measurements and drills.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use orlop_core::error::{Class, Problem};
use orlop_core::task::{TaskEnd, TaskRef};
use orlop_core::time::Time;

use super::event::{AttemptEnd, AttemptEvents, Cause, Started};
use super::plan::AttemptPlan;
use super::{InUse, JobRuntime, Remains};
use crate::runtime::logs::now;

/// The end of an attempt that ran nothing.
#[must_use]
pub fn succeeded(at: Time) -> AttemptEnd {
    let end = AttemptEnd::without_run(TaskEnd::Succeeded, "", at);
    AttemptEnd { exit_code: Some(0), started_at: Some(at), ..end }
}

/// Ends every attempt with exit code 0 and starts nothing.
#[derive(Debug)]
pub struct NoopRuntime {
    events: Arc<dyn AttemptEvents>,
}

impl NoopRuntime {
    /// A runtime that tells `events`.
    #[must_use]
    pub fn new(events: Arc<dyn AttemptEvents>) -> Self {
        Self { events }
    }
}

#[async_trait]
impl JobRuntime for NoopRuntime {
    fn kind(&self) -> &'static str {
        "noop"
    }

    fn start(&self, plan: AttemptPlan) {
        let at = now();
        self.events.started(plan.id, Started { handle: "0".to_owned(), at });
        self.events.ended(plan.id, succeeded(at));
        self.events.flush();
    }

    fn end(&self, _id: TaskRef, _cause: Cause, _grace: Duration) {}

    fn resume(&self, _id: TaskRef) {}

    fn renew_lease(&self, _left: Duration) {}

    async fn list(&self) -> Result<Vec<Remains>, Problem> {
        Ok(Vec::new())
    }

    async fn adopt(&self, id: TaskRef, _after_seq: u64) -> Result<(), Problem> {
        Err(Problem::new(Class::NotFound, format!("attempt {id} left no trace: nothing was started for it")))
    }

    async fn remove(&self, _id: TaskRef) -> Result<(), Problem> {
        Ok(())
    }

    async fn in_use(&self, _ids: &[TaskRef]) -> Result<Vec<(TaskRef, InUse)>, Problem> {
        Ok(Vec::new())
    }

    async fn check(&self) -> Result<(), Problem> {
        Ok(())
    }
}
