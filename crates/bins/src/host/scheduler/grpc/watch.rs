//! Jobs as they change, for clients that follow them. Owns these streams; a listener that is too slow is told the present
//! state.

use std::collections::BTreeSet;

use futures::Stream;
use orlop_core::id::JobId;
use orlop_core::ports::bus::{Delivery, EventBody, SubjectFilter, Subscription as _};
use orlop_core::ports::fleet_store::JobFilter;

use super::super::{Error, Handle, Stop, error};
use super::view;
use crate::wire::grpc::Refusal;
use crate::wire::problem::Code;
use crate::wire::query::{JobEvent, Watching as Asked};

struct Watching {
    handle: Handle,
    stop: Stop,
    events: orlop_cloud::bus::local::LocalSubscription,
    jobs: BTreeSet<JobId>,
    filter: JobFilter,
    until_ended: bool,
    /// Jobs whose present state is told first, or after events were missed.
    present: Vec<JobId>,
    lagged: bool,
    /// Named jobs that have not ended.
    open: BTreeSet<JobId>,
}

/// The changes of jobs that pass a filter.
pub(super) fn events(
    handle: Handle,
    stop: Stop,
    asked: Asked,
    filter: JobFilter,
) -> Result<impl Stream<Item = Result<JobEvent, Refusal>> + Send, Error> {
    let jobs: BTreeSet<JobId> = asked.jobs.into_iter().collect();
    let pattern = SubjectFilter::new("orlop.events.job.*");
    let pattern = pattern.map_err(|bad| error::problem(Code::Internal, bad.to_string()))?;
    // Listens first: what changes while the present state is read comes after it.
    let events = handle.subscribe(pattern)?;
    let (present, open) = (jobs.iter().rev().copied().collect(), jobs.clone());
    let until_ended = asked.until_ended && !jobs.is_empty();
    let watching = Watching { handle, stop, events, jobs, filter, until_ended, present, lagged: false, open };
    Ok(futures::stream::unfold(watching, async |mut watching: Watching| {
        let event = watching.next().await?;
        Some((event, watching))
    }))
}

impl Watching {
    async fn next(&mut self) -> Option<Result<JobEvent, Refusal>> {
        loop {
            if let Some(job) = self.present.pop() {
                match self.told(job, 0).await {
                    Ok(Some(event)) => return Some(Ok(event)),
                    Ok(None) => continue,
                    Err(error) => return Some(Err(error)),
                }
            }
            if self.until_ended && self.open.is_empty() {
                return None;
            }
            let delivery = tokio::select! {
                () = self.stop.stopped() => return None,
                delivery = self.events.next() => delivery?,
            };
            let event = match delivery {
                Delivery::Event(event) => event,
                Delivery::Lagged { .. } => {
                    self.lagged = true;
                    self.present = self.open.iter().rev().copied().collect();
                    continue;
                }
            };
            let body: EventBody = match serde_json::from_str(&event.body) {
                Ok(body) => body,
                Err(wrong) => {
                    let text = format!("an event cannot be read: {wrong}");
                    return Some(Err(error::problem(Code::Internal, text)));
                }
            };
            let Some(job) = body.job.as_deref().and_then(|text| text.parse().ok()) else { continue };
            if !self.jobs.is_empty() && !self.jobs.contains(&job) {
                continue;
            }
            match self.told(job, event.id).await {
                Ok(Some(event)) => return Some(Ok(event)),
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// A job as it is, if it passes the filter.
    async fn told(&mut self, job: JobId, id: u64) -> Result<Option<JobEvent>, Error> {
        let row = self.handle.job(job).await?;
        if row.unit.state.is_terminal() {
            self.open.remove(&job);
        }
        if !self.filter.passes(&row) {
            return Ok(None);
        }
        let time = Some(self.handle.clock().wall());
        let lagged = std::mem::take(&mut self.lagged);
        Ok(Some(JobEvent { id, time, job: view::job(&row), lagged }))
    }
}
