//! The service of clients: submits, reads, orders.

use std::time::Duration;

use futures::StreamExt as _;
use orlop_core::error::{Code, Problem};
use orlop_core::id::{JobId, TenantName};
use orlop_core::ports::fleet_store::{ElementFilter, IdempotencyKey, JobFilter, JobKind, JobRow, Page, SpecHash};
use orlop_core::task::TaskRef;

use super::super::{Batch, Cancelled, Handle, Once, Stop, Submitter, error};
use super::{logs, view, watch};
use crate::api::auth::{Access, Caller as Admitted, Scope};
use crate::telemetry::trace::Requested;
use crate::wire::grpc::{Answers, Caller, JobHost};
use crate::wire::job::Submission;
use crate::wire::query::{Cancellation, PAGE, PAGE_MAX};
use crate::wire::v1;

/// The service.
#[derive(Debug)]
pub(super) struct Jobs {
    handle: Handle,
    /// Of callers who may use any and name none.
    tenant: TenantName,
    stop: Stop,
}

/// Who calls. The interceptor has let it pass; without one nobody does.
pub(super) fn admitted(caller: &Caller) -> Result<&Admitted, Problem> {
    caller.who.as_ref().ok_or_else(|| Problem::coded(Code::Unauthenticated, "the caller is not authenticated"))
}

/// The batch of a submit, whose jobs share the id of their request where they have none of their own.
async fn batch(
    handle: &Handle,
    caller: &Caller,
    default_tenant: &TenantName,
    traced: &Requested,
    submission: Submission,
) -> Result<Batch, Problem> {
    let request_id = caller.request_id.clone().unwrap_or_else(|| uuid::Uuid::new_v4().simple().to_string());
    let by = Submitter {
        caller: admitted(caller)?,
        concern: &caller.concern,
        default_tenant,
        request_id: &request_id,
        traceparent: traced.traceparent(),
    };
    let mut body = String::new();
    if submission.key.is_some() {
        submission.jobs.iter().for_each(|spec| body.push_str(&spec.content_hash().to_string()));
    }
    let alone = submission.jobs.len() == 1;
    let place = |number| if alone { String::new() } else { format!("jobs[{number}]") };
    let jobs = submission.jobs.into_iter().enumerate().map(|(number, spec)| (place(number), spec));
    let ready = handle.prepare_jobs(&by, jobs).await?;
    let key = submission.key.zip(ready.tenant).map(|(key, tenant)| IdempotencyKey { tenant, key });
    Ok(Batch { jobs: ready.jobs, once: key.map(|key| Once { key, body_hash: SpecHash::of(&body).0 }) })
}

impl Jobs {
    pub(super) fn new(handle: Handle, tenant: TenantName, stop: Stop) -> Self {
        Self { handle, tenant, stop }
    }

    /// A job that the caller sees.
    async fn seen(&self, caller: &Caller, id: JobId) -> Result<JobRow, Problem> {
        admitted(caller)?;
        let row = self.handle.job(id).await?;
        if caller.sees(&row.job.tenant) { Ok(row) } else { Err(error::not_found(format_args!("job {id}"))) }
    }

    /// A job as it is, with the outputs of its last attempt.
    async fn whole(&self, id: JobId) -> Result<v1::Job, Problem> {
        let row = self.handle.job(id).await?;
        let mut view = view::job(&row);
        if row.job.kind == JobKind::Single && row.unit.attempt > 0 {
            let (attempt, epoch) = (row.unit.attempt, row.unit.epoch);
            let last = TaskRef { job: id, index: 0, attempt, member: 0, epoch };
            let detail = self.handle.store().detail(&last).await?;
            view.outputs = detail.as_ref().map(view::outputs).unwrap_or_default();
        }
        Ok(view)
    }

    async fn element(&self, id: JobId, index: u32) -> Result<v1::Job, Problem> {
        let row = self.handle.job(id).await?;
        let page = index.checked_sub(1).map_or(Page::first(1), |before| Page::after(before, 1));
        let found = self.handle.store().elements(id, &ElementFilter::default(), &page).await;
        let found = found?;
        let element = found.items.iter().find(|element| element.index == index);
        let element = element.ok_or_else(|| error::not_found(format_args!("element {id}.{index}")))?;
        Ok(view::element(&row, element))
    }

    /// Live jobs that pass a filter.
    async fn matching(&self, filter: JobFilter) -> Result<Vec<JobId>, Problem> {
        let (mut ids, mut page) = (Vec::new(), Page::first(PAGE));
        loop {
            let found = self.handle.store().jobs(&filter, &page).await?;
            let live = found.items.iter().filter(|row| !row.unit.state.is_terminal());
            ids.extend(live.map(|row| row.job.id));
            let Some(next) = found.next else { return Ok(ids) };
            page = Page::after(next, PAGE_MAX);
        }
    }
}

#[async_trait::async_trait]
impl JobHost for Jobs {
    async fn submit(&self, caller: Caller, submission: Submission) -> Result<v1::SubmitResponse, Problem> {
        let request = self.handle.traced(caller.traceparent.as_deref());
        let batch = batch(&self.handle, &caller, &self.tenant, &request, submission).await?;
        let taken = self.handle.submit(batch).await?;
        self.handle.submitted(request, &taken, caller.request_id.as_deref().unwrap_or_default());
        let job_ids = taken.jobs.into_iter().map(JobId::as_u64).collect();
        Ok(v1::SubmitResponse { job_ids, replay: taken.replay, warnings: taken.warnings })
    }

    async fn job(&self, caller: Caller, job: JobId, index: Option<u32>, wait: Duration) -> Result<v1::Job, Problem> {
        let live = !self.seen(&caller, job).await?.unit.state.is_terminal();
        // Over the time the job is reported as it is.
        if live
            && !wait.is_zero()
            && let Ok(ended) = tokio::time::timeout(wait, self.handle.ended(job)).await
        {
            ended?;
        }
        match index {
            Some(index) => self.element(job, index).await,
            None => self.whole(job).await,
        }
    }

    async fn jobs(&self, caller: Caller, query: v1::ListJobsRequest) -> Result<v1::ListJobsResponse, Problem> {
        let limit = if query.limit == 0 { PAGE } else { query.limit };
        let page = match query.cursor.as_str() {
            "" => Page::first(limit),
            text => {
                let wrong = |_| Problem::coded(Code::InvalidSpec, "cursor was not issued by this server");
                Page::after(text.parse().map_err(wrong)?, limit)
            }
        };
        let filter = view::filter(query.filter.unwrap_or_default(), admitted(&caller)?)?;
        let found = self.handle.store().jobs(&filter, &page).await?;
        let next_cursor = found.next.map(|next| next.to_string()).unwrap_or_default();
        Ok(v1::ListJobsResponse { items: found.items.iter().map(view::job).collect(), next_cursor })
    }

    async fn cancel(&self, caller: Caller, what: Cancellation) -> Result<v1::CancelJobsResponse, Problem> {
        let (ids, elements) = match what {
            Cancellation::Jobs(ids) => (ids, Vec::new()),
            Cancellation::Elements(job, indices) => (vec![job], indices.ranges().to_vec()),
            Cancellation::Filter(filter) => {
                (self.matching(view::filter(filter, admitted(&caller)?)?).await?, Vec::new())
            }
        };
        for id in &ids {
            self.seen(&caller, *id).await?;
        }
        let mut answer = v1::CancelJobsResponse::default();
        for id in ids {
            match self.handle.cancel(id, elements.clone()).await? {
                Cancelled::Taken => answer.cancelled += 1,
                Cancelled::Ended => answer.ended += 1,
            }
        }
        Ok(answer)
    }

    async fn retry(&self, caller: Caller, job: JobId, key: Option<String>) -> Result<JobId, Problem> {
        self.seen(&caller, job).await?;
        self.handle.retry(job, None, key).await
    }

    async fn explain(&self, caller: Caller, job: JobId, _: Option<u32>) -> Result<v1::ExplainJobResponse, Problem> {
        self.seen(&caller, job).await?;
        let (who, snapshot) = (admitted(&caller)?, self.handle.leader_snapshot()?);
        let whose = |name: &str| Some(snapshot.workers.get(name)?.whose());
        let all = who.scope == Scope::All;
        let seen = |name: &str| all || whose(name).is_some_and(|whose| who.may(Access::See, &whose));
        let explanation = self.handle.explain(job).await?.only(seen);
        Ok(v1::ExplainJobResponse { summary: explanation.summary(), json: explanation.json().to_string() })
    }

    async fn watch(&self, caller: Caller, watching: v1::WatchJobsRequest) -> Result<Answers<v1::JobEvent>, Problem> {
        for id in &watching.job_ids {
            self.seen(&caller, JobId::from_u64(*id)).await?;
        }
        let filter = view::filter(watching.filter.clone().unwrap_or_default(), admitted(&caller)?)?;
        Ok(watch::events(self.handle.clone(), self.stop.clone(), watching, filter)?.boxed())
    }

    async fn logs(&self, caller: Caller, query: v1::LogsRequest) -> Result<Answers<v1::LogsResponse>, Problem> {
        self.seen(&caller, JobId::from_u64(query.job_id)).await?;
        Ok(logs::pages(self.handle.clone(), self.stop.clone(), query).await?.boxed())
    }
}
