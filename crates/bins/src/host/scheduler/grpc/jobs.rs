//! The service of clients: submits, reads, orders. Owns the reading of requests; what is answered comes from the handle and
//! the store.

use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use orlop_core::id::{JobId, TenantName};
use orlop_core::ports::fleet_store::{AttemptFilter, ElementFilter, IdempotencyKey, JobFilter, JobRow, Page};
use orlop_core::spec::job::{Indices, JobSpec};
use tonic::{Request, Response, Status, Streaming};

use super::super::{Batch, Cancelled, Error, Handle, Once, Stop, Submission, Submitted, error};
use super::message::{self, invalid};
use super::{status, watch};
use crate::wire::demand;
use crate::wire::problem::{Code, Problem};
use crate::wire::proto::v1;

/// The most jobs of one submit.
const BATCH: usize = 10_000;
/// The longest wait for the end of a job.
const WAIT: Duration = Duration::from_secs(300);

/// The service.
#[derive(Debug)]
pub(super) struct Jobs {
    handle: Handle,
    stop: Stop,
}

/// The tenant of callers who name none.
fn default_tenant() -> Result<TenantName, Error> {
    "default".parse().map_err(|error: orlop_core::id::IdError| error::problem(Code::Internal, error.to_string()))
}

/// Reads the jobs of a submit; every fault is told, with its place.
fn read(request: v1::SubmitRequest) -> Result<Batch, Error> {
    use prost::Message as _;
    let count = request.jobs.len();
    if count == 0 || count > BATCH {
        return Err(invalid("jobs", format!("are {count}; use 1 to {BATCH}")));
    }
    let body = v1::SubmitRequest { idempotency_key: String::new(), ..request.clone() }.encode_to_vec();
    let mut body_hash = [0; 32];
    let digest = ring::digest::digest(&ring::digest::SHA256, &body);
    body_hash.iter_mut().zip(digest.as_ref()).for_each(|(to, from)| *to = *from);
    let fallback = default_tenant()?;
    let (mut jobs, mut errors) = (Vec::with_capacity(count), Vec::new());
    let mut tenant = None;
    for (at, wire) in request.jobs.into_iter().enumerate() {
        let path = format!("jobs[{at}]");
        let spec = match JobSpec::try_from(wire) {
            Ok(spec) => spec,
            Err(error) => {
                errors.extend(Problem::from(error).errors);
                continue;
            }
        };
        if let Err(faults) = spec.check() {
            errors.extend(demand::problem(faults, &path).errors);
            continue;
        }
        let owner = spec.tenant.clone().unwrap_or_else(|| fallback.clone());
        tenant.get_or_insert_with(|| owner.clone());
        match Submission::of(&spec, &owner, None) {
            Ok(job) => jobs.push(job),
            Err(error) => errors.extend(Problem::from(error).errors),
        }
    }
    if !errors.is_empty() {
        return Err(Box::new(Problem::invalid(errors)));
    }
    if request.idempotency_key.len() > 128 {
        return Err(invalid("idempotency_key", "is longer than 128 bytes"));
    }
    let once = (!request.idempotency_key.is_empty()).then(|| Once {
        key: IdempotencyKey { tenant: tenant.unwrap_or(fallback), key: request.idempotency_key },
        body_hash,
    });
    Ok(Batch { jobs, once })
}

fn submitted(taken: Submitted) -> v1::SubmitResponse {
    let job_ids = taken.jobs.into_iter().map(JobId::as_u64).collect();
    v1::SubmitResponse { job_ids, replay: taken.replay, warnings: taken.warnings }
}

async fn submit(handle: Handle, request: v1::SubmitRequest) -> Result<v1::SubmitResponse, Error> {
    Ok(submitted(handle.submit(read(request)?).await?))
}

impl Jobs {
    pub(super) fn new(handle: Handle, stop: Stop) -> Self {
        Self { handle, stop }
    }

    async fn row(&self, job: JobId) -> Result<JobRow, Error> {
        self.handle.job(job).await
    }

    async fn get(&self, request: v1::GetJobRequest) -> Result<v1::Job, Error> {
        let id = message::id(request.job_id)?;
        let row = self.row(id).await?;
        if request.wait_ms > 0 && !row.unit.state.is_terminal() {
            let wait = Duration::from_millis(request.wait_ms).min(WAIT);
            // Over the time: the job is told as it is.
            if let Ok(ended) = tokio::time::timeout(wait, self.handle.ended(id)).await {
                ended?;
            }
        }
        let row = self.row(id).await?;
        let store = self.handle.store();
        let Some(index) = request.index else {
            let mut job = message::job(&row);
            let page = Page::first(1000);
            let attempts = store.attempts(id, &AttemptFilter { index: Some(0) }, &page).await;
            let attempts = attempts.map_err(|error| error::port(&error))?;
            let last = attempts.items.last().filter(|_| row.job.count == 1);
            if let Some(last) = last
                && let Some(detail) = store.detail(&last.attempt.id).await.map_err(|error| error::port(&error))?
            {
                job.outputs = message::outputs(&detail);
            }
            return Ok(job);
        };
        let page = index.checked_sub(1).map_or(Page::first(1), |before| Page::after(before, 1));
        let found = store.elements(id, &ElementFilter::default(), &page).await;
        let found = found.map_err(|error| error::port(&error))?;
        let element = found.items.iter().find(|element| element.index == index);
        let element = element.ok_or_else(|| error::not_found(format_args!("element {id}.{index}")))?;
        Ok(message::element(&row, element))
    }

    async fn list(&self, request: v1::ListJobsRequest) -> Result<v1::ListJobsResponse, Error> {
        let filter = message::filter(request.filter)?;
        let limit = if request.limit == 0 { 100 } else { request.limit.min(1000) };
        let page = match request.cursor.as_str() {
            "" => Page::first(limit),
            text => {
                let after = text.parse().map_err(|_| invalid("cursor", "is none that this server gave"))?;
                Page::after(after, limit)
            }
        };
        let found = self.handle.store().jobs(&filter, &page).await.map_err(|error| error::port(&error))?;
        let next_cursor = found.next.map(|next| next.to_string()).unwrap_or_default();
        Ok(v1::ListJobsResponse { items: found.items.iter().map(message::job).collect(), next_cursor })
    }

    async fn cancel(&self, request: v1::CancelJobsRequest) -> Result<v1::CancelJobsResponse, Error> {
        let ids = match request.filter {
            Some(filter) => self.matching(message::filter(Some(filter))?).await?,
            None => request.job_ids.into_iter().map(message::id).collect::<Result<Vec<_>, _>>()?,
        };
        let elements = match request.indices.as_str() {
            "" => Vec::new(),
            _ if ids.len() != 1 => return Err(invalid("indices", "go with exactly one job")),
            text => {
                let indices: Indices = text.parse().map_err(|error| invalid("indices", format!("{error}")))?;
                indices.ranges().to_vec()
            }
        };
        let mut answer = v1::CancelJobsResponse::default();
        for id in ids {
            match self.handle.cancel(id, elements.clone()).await? {
                Cancelled::Taken => answer.cancelled += 1,
                Cancelled::Ended => answer.ended += 1,
            }
        }
        Ok(answer)
    }

    /// Live jobs that pass a filter.
    async fn matching(&self, filter: JobFilter) -> Result<Vec<JobId>, Error> {
        let (mut ids, mut page) = (Vec::new(), Page::first(1000));
        loop {
            let found = self.handle.store().jobs(&filter, &page).await;
            let found = found.map_err(|error| error::port(&error))?;
            let live = found.items.iter().filter(|row| !row.unit.state.is_terminal());
            ids.extend(live.map(|row| row.job.id));
            let Some(next) = found.next else { return Ok(ids) };
            page = Page::after(next, 1000);
        }
    }
}

#[tonic::async_trait]
impl v1::job_service_server::JobService for Jobs {
    async fn submit(&self, request: Request<v1::SubmitRequest>) -> Result<Response<v1::SubmitResponse>, Status> {
        let answer = submit(self.handle.clone(), request.into_inner()).await;
        answer.map(Response::new).map_err(status)
    }

    type SubmitStreamStream = Pin<Box<dyn Stream<Item = Result<v1::SubmitAck, Status>> + Send>>;

    async fn submit_stream(
        &self,
        request: Request<Streaming<v1::SubmitRequest>>,
    ) -> Result<Response<Self::SubmitStreamStream>, Status> {
        let handle = self.handle.clone();
        // Batches are handed over one after the other and acknowledged in that order; a few may be committing at once.
        let acks = request.into_inner().zip(futures::stream::iter(1_u64..)).map(move |(request, batch)| {
            let handle = handle.clone();
            async move {
                Ok(match submit(handle, request?).await {
                    Ok(accepted) => v1::SubmitAck { batch, accepted: Some(accepted), refused: None },
                    Err(problem) => v1::SubmitAck { batch, accepted: None, refused: Some((*problem).into()) },
                })
            }
        });
        Ok(Response::new(Box::pin(acks.buffered(8))))
    }

    async fn get(&self, request: Request<v1::GetJobRequest>) -> Result<Response<v1::Job>, Status> {
        self.get(request.into_inner()).await.map(Response::new).map_err(status)
    }

    async fn list(&self, request: Request<v1::ListJobsRequest>) -> Result<Response<v1::ListJobsResponse>, Status> {
        self.list(request.into_inner()).await.map(Response::new).map_err(status)
    }

    async fn cancel(
        &self,
        request: Request<v1::CancelJobsRequest>,
    ) -> Result<Response<v1::CancelJobsResponse>, Status> {
        self.cancel(request.into_inner()).await.map(Response::new).map_err(status)
    }

    async fn retry(&self, request: Request<v1::RetryJobRequest>) -> Result<Response<v1::RetryJobResponse>, Status> {
        let request = request.into_inner();
        let id = message::id(request.job_id).map_err(status)?;
        let key = (!request.idempotency_key.is_empty()).then_some(request.idempotency_key);
        let job = self.handle.retry(id, key).await.map_err(status)?;
        Ok(Response::new(v1::RetryJobResponse { job_id: job.as_u64() }))
    }

    async fn explain(
        &self,
        request: Request<v1::ExplainJobRequest>,
    ) -> Result<Response<v1::ExplainJobResponse>, Status> {
        let id = message::id(request.into_inner().job_id).map_err(status)?;
        let explanation = self.handle.explain(id).await.map_err(status)?;
        let json = explanation.json().to_string();
        Ok(Response::new(v1::ExplainJobResponse { summary: explanation.summary(), json }))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::JobEvent, Status>> + Send>>;

    async fn watch(&self, request: Request<v1::WatchJobsRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let events =
            watch::events(self.handle.clone(), self.stop.clone(), request.into_inner()).await.map_err(status)?;
        Ok(Response::new(Box::pin(events)))
    }

    type LogsStream = Pin<Box<dyn Stream<Item = Result<v1::LogsResponse, Status>> + Send>>;

    async fn logs(&self, request: Request<v1::LogsRequest>) -> Result<Response<Self::LogsStream>, Status> {
        let request = request.into_inner();
        let answer = watch::tail(&self.handle, &request).await.map_err(status)?;
        Ok(Response::new(Box::pin(futures::stream::once(async move { Ok(answer) }))))
    }
}
