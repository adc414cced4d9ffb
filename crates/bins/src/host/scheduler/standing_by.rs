//! What a server that stands by can tell of the fleet: what is stored. Owns reading it as a picture; what only who leads
//! knows, such as what attempts hold, is not in it.

use std::sync::Arc;

use orlop_core::id::TenantName;
use orlop_core::machine::job::JobState;
use orlop_core::ports::fleet_store::{Documents as _, EntryFilter, JobFilter, MAX_PAGE, Page, Worker};
use orlop_core::time::Time;
use orlop_scheduler::engine::WorkerView;

use super::snapshot::{DrainPicture, Snapshot, WorkerPicture};
use super::{Error, Handle, Status, error};

/// How many jobs a tenant has that have not ended, arrays and gangs counting as what they are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredJobs {
    /// Those that wait.
    pub pending: u64,
    /// All of them.
    pub active: u64,
}

impl Handle {
    /// The fleet as far as this server knows it: the latest picture of who leads, the stored workers of who stands by.
    ///
    /// # Errors
    /// The server does neither, or the store does not answer.
    pub async fn fleet(&self) -> Result<Arc<Snapshot>, Error> {
        if !matches!(self.status(), Status::Standby { .. }) {
            return self.picture();
        }
        let mut picture = Snapshot { at: self.clock().wall(), ..Snapshot::default() };
        let mut page = Page::first(MAX_PAGE);
        loop {
            let found = self.store().list::<Worker>(&EntryFilter::default(), &page).await;
            let found = found.map_err(|wrong| error::port(&wrong))?;
            for worker in found.items {
                let newer = picture
                    .workers
                    .get(&worker.id)
                    .is_some_and(|known| known.view.incarnation > worker.incarnation.get());
                if !newer {
                    picture.workers.insert(worker.id.clone(), stored(worker));
                }
            }
            let Some(next) = found.next else { return Ok(Arc::new(picture)) };
            page = Page::after(next, MAX_PAGE);
        }
    }

    /// Counts the stored jobs of a tenant that have not ended.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn stored_jobs(&self, tenant: &TenantName) -> Result<StoredJobs, Error> {
        let live = [JobState::Pending, JobState::Queued, JobState::Backoff, JobState::Assigned, JobState::Running];
        let states = live.into_iter().chain([JobState::Cancelling]).collect();
        let filter = JobFilter { tenants: Some(vec![tenant.clone()]), states, ..JobFilter::default() };
        let (mut jobs, mut page) = (StoredJobs::default(), Page::first(MAX_PAGE));
        loop {
            let found = self.store().jobs(&filter, &page).await.map_err(|wrong| error::port(&wrong))?;
            for row in &found.items {
                let waits = matches!(row.unit.state, JobState::Pending | JobState::Queued | JobState::Backoff);
                jobs.active += u64::from(row.job.count);
                jobs.pending += u64::from(row.job.count) * u64::from(waits);
            }
            let Some(next) = found.next else { return Ok(jobs) };
            page = Page::after(next, MAX_PAGE);
        }
    }
}

/// A worker as it is stored.
fn stored(worker: Worker) -> WorkerPicture {
    let drain = worker.drain.as_ref().map(|order| DrainPicture {
        reason: order["reason"].as_str().unwrap_or_default().to_owned(),
        deadline: serde_json::from_value::<Option<Time>>(order["deadline"].clone()).ok().flatten(),
        host_shutdown: order["host_shutdown"].as_bool().unwrap_or_default(),
    });
    WorkerPicture {
        view: WorkerView {
            id: worker.id,
            incarnation: worker.incarnation.get(),
            state: worker.state,
            cordoned: worker.cordoned,
            draining: drain.is_some(),
            attempts: 0,
            waiting: 0,
            cpu: 0.0,
            memory: 0.0,
            further: Vec::new(),
        },
        // One that cannot be read offers nothing that can be shown.
        capabilities: Arc::new(serde_json::from_value(worker.capabilities).unwrap_or_default()),
        agent_version: worker.agent_version,
        since: worker.since,
        reason: worker.reason,
        registered_at: worker.registered_at,
        status: None,
        connected: false,
        drain,
    }
}
