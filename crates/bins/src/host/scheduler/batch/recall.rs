//! What a message is worth that is about a job the loop no longer holds: it ended, and the loop forgot it or was restarted
//! since.

use std::sync::Arc;

use futures::StreamExt as _;
use orlop_core::id::Epoch;
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::ports::fleet_store::{AttemptFilter, FleetStore, Page};
use orlop_core::task::TaskRef;
use orlop_scheduler::token::WorkerKey;

use super::super::command::Command;
use super::super::commit::Release;
use super::super::ingress::Lane;
use super::super::session::Session;
use super::super::shared::Shared;
use super::Core;
use super::past::is_answered;

/// The most messages of a batch that the store is asked about; what else is unknown stays so.
const MOST: usize = 1024;
/// How many questions the store is asked at once.
const AT_ONCE: usize = 8;

impl Core {
    /// Lines a message up to be looked for in the store. False if its job is held, or no server ever issued it.
    pub(super) fn may_recall(&mut self, key: WorkerKey, attempt: TaskRef) -> bool {
        let held = self.registry.jobs.get(attempt.job).is_some();
        if held || attempt.job.epoch() > self.epoch || self.writes.recalls.len() >= MOST {
            return false;
        }
        let session = self.registry.workers.get_mut(key).and_then(|live| live.session.clone());
        self.writes.recalls.extend(session.map(|session| (session, attempt)));
        true
    }

    /// Lets the store be asked once the batch is written: what ended in it is found then.
    pub(super) fn ask_recalls(&mut self) {
        let asked = std::mem::take(&mut self.writes.recalls);
        if !asked.is_empty() {
            let shared = Arc::clone(&self.shared);
            self.writes.release(Release::Reply(Box::new(move || drop(tokio::spawn(recall(shared, asked))))));
        }
    }

    /// What the store said: reported as if the core had judged it.
    pub(super) fn recalled(&mut self, found: Vec<(Arc<Session>, TaskRef, ReportVerdict)>) {
        for (session, attempt, verdict) in found {
            match self.registry.workers.by_session(session.id()) {
                Some(key) => self.tell_verdict(key, attempt, verdict),
                // It registers anew, and tells what it holds then.
                None => self.count_verdict(verdict as usize),
            }
        }
    }
}

async fn recall(shared: Arc<Shared>, asked: Vec<(Arc<Session>, TaskRef)>) {
    let store = &shared.store;
    let judged = futures::stream::iter(asked).map(async |(session, attempt)| {
        let verdict = judge(&**store, attempt).await;
        (session, attempt, verdict)
    });
    let found = judged.buffer_unordered(AT_ONCE).collect().await;
    shared.ingress.push_when_room(Lane::Control, Command::Recalled(found)).await;
}

/// What a message about an attempt of a job that has ended is worth.
async fn judge(store: &dyn FleetStore, attempt: TaskRef) -> ReportVerdict {
    // The page begins right before it: at most one row is read.
    let before = TaskRef { epoch: Epoch(attempt.epoch.0.saturating_sub(1)), ..attempt };
    let page = Page { after: Some(before), limit: 1 };
    let rows = match store.attempts(attempt.job, &AttemptFilter { index: Some(attempt.index) }, &page).await {
        Ok(rows) => rows.items,
        Err(error) => {
            tracing::warn!(target: "orlop::scheduler", job = %attempt.job, error = error.chain(), "the verdict about an old message is unknown");
            return ReportVerdict::Unknown;
        }
    };
    match rows.first().filter(|row| row.attempt.id == attempt) {
        Some(row) if is_answered(row) => ReportVerdict::Duplicate,
        Some(_) => ReportVerdict::Stale,
        None => ReportVerdict::Unknown,
    }
}
