//! What clients follow: jobs as they change, and the end of a log. Owns these streams; a listener that is too slow is told
//! the present state.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures::Stream;
use orlop_core::id::JobId;
use orlop_core::ports::bus::{Delivery, EventBody, SubjectFilter, Subscription as _};
use orlop_core::ports::fleet_store::{AttemptFilter, JobFilter, Page};
use tonic::Status;

use super::super::{Error, Handle, Stop, error};
use super::{message, status};
use crate::wire::problem::Code;
use crate::wire::proto::v1;

/// The most jobs that one call watches by id.
const WATCHED: usize = 10_000;

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

/// The changes of jobs.
pub(super) async fn events(
    handle: Handle,
    stop: Stop,
    request: v1::WatchJobsRequest,
) -> Result<impl Stream<Item = Result<v1::JobEvent, Status>> + Send, Error> {
    if request.job_ids.len() > WATCHED {
        return Err(message::invalid("job_ids", format!("are more than {WATCHED}")));
    }
    let jobs: BTreeSet<JobId> = request.job_ids.into_iter().map(message::id).collect::<Result<_, _>>()?;
    let filter = message::filter(request.filter)?;
    let pattern = SubjectFilter::new("orlop.events.job.*");
    let pattern = pattern.map_err(|bad| error::problem(Code::Internal, bad.to_string()))?;
    // Listens first: what changes while the present state is read comes after it.
    let events = handle.subscribe(pattern)?;
    let (present, open) = (jobs.iter().rev().copied().collect(), jobs.clone());
    let until_ended = request.until_ended && !jobs.is_empty();
    let watching = Watching { handle, stop, events, jobs, filter, until_ended, present, lagged: false, open };
    Ok(futures::stream::unfold(watching, async |mut watching: Watching| {
        let event = watching.next().await?;
        Some((event, watching))
    }))
}

impl Watching {
    async fn next(&mut self) -> Option<Result<v1::JobEvent, Status>> {
        loop {
            if let Some(job) = self.present.pop() {
                match self.told(job, 0).await {
                    Ok(Some(event)) => return Some(Ok(event)),
                    Ok(None) => continue,
                    Err(error) => return Some(Err(status(error))),
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
                Err(error) => return Some(Err(Status::internal(format!("an event cannot be read: {error}")))),
            };
            let Some(job) = body.job.as_deref().and_then(|text| text.parse().ok()) else { continue };
            if !self.jobs.is_empty() && !self.jobs.contains(&job) {
                continue;
            }
            match self.told(job, event.id).await {
                Ok(Some(event)) => return Some(Ok(event)),
                Ok(None) => {}
                Err(error) => return Some(Err(status(error))),
            }
        }
    }

    /// A job as it is, if it passes the filter.
    async fn told(&mut self, job: JobId, id: u64) -> Result<Option<v1::JobEvent>, Error> {
        let row = self.handle.job(job).await?;
        if row.unit.state.is_terminal() {
            self.open.remove(&job);
        }
        if !self.filter.passes(&row) {
            return Ok(None);
        }
        let time = self.handle.clock().wall().millis();
        let lagged = std::mem::take(&mut self.lagged);
        Ok(Some(v1::JobEvent { id, time, job: Some(message::job(&row)), lagged }))
    }
}

/// The end of the log of an attempt that came with its result: all of a short one.
pub(super) async fn tail(handle: &Handle, request: &v1::LogsRequest) -> Result<v1::LogsResponse, Error> {
    let job = message::id(request.job_id)?;
    handle.job(job).await?;
    let filter = AttemptFilter { index: Some(request.index.unwrap_or(0)) };
    let store = handle.store();
    let rows = store.attempts(job, &filter, &Page::first(1000)).await.map_err(|error| error::port(&error))?;
    let row = rows.items.iter().rfind(|row| request.attempt == 0 || row.attempt.id.attempt == request.attempt);
    let row = row.ok_or_else(|| error::not_found(format_args!("an attempt of job {job}")))?;
    let detail = store.detail(&row.attempt.id).await.map_err(|error| error::port(&error))?;
    let tail = detail.map(|detail| detail.tail).filter(|tail| !tail.is_empty());
    let id = row.attempt.id;
    let reference = v1::AttemptRef {
        job_id: id.job.as_u64(),
        index: id.index,
        member: id.member,
        attempt: id.attempt,
        epoch: id.epoch.0,
    };
    let chunk = |data: Vec<u8>| v1::LogChunk {
        r#ref: Some(reference),
        seq: 1,
        data: Bytes::from(data),
        ..v1::LogChunk::default()
    };
    Ok(v1::LogsResponse { chunks: tail.map(chunk).into_iter().collect(), end: true })
}
