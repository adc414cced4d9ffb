//! The service of clients: submits, reads, orders. Owns what each call asks of the handle and the store.

use std::time::Duration;

use futures::StreamExt as _;
use orlop_core::id::{JobId, TenantName};
use orlop_core::ports::fleet_store::{AttemptFilter, ElementFilter, IdempotencyKey, JobFilter, Page, SpecHash};

use super::super::{Batch, Cancelled, Error, Handle, Once, Stop, Submission as NewJob, error};
use super::{logs, view, watch};
use crate::wire::grpc::{Answers, Caller, JobHost, Refusal};
use crate::wire::job::{JobView, Submission, SubmitAnswer};
use crate::wire::problem::{Code, Problem};
use crate::wire::query::{
    CancelAnswer, Cancellation, Explained, JobEvent, JobPage, JobQuery, LogPage, LogQuery, Watching,
};

/// Jobs of a page while a filter is followed.
const PAGE: u32 = 1000;

/// The service.
#[derive(Debug)]
pub(super) struct Jobs {
    handle: Handle,
    stop: Stop,
}

/// The tenant of callers who name none.
fn default_tenant() -> Result<TenantName, Error> {
    "default".parse().map_err(|wrong: orlop_core::id::IdError| error::problem(Code::Internal, wrong.to_string()))
}

/// The batch of a submit; jobs that name no tenant are the default one's.
fn batch(submission: Submission) -> Result<Batch, Error> {
    let fallback = default_tenant()?;
    let (mut jobs, mut body) = (Vec::with_capacity(submission.jobs.len()), String::new());
    let owner = |tenant: &Option<TenantName>| tenant.clone().unwrap_or_else(|| fallback.clone());
    let tenant = submission.jobs.first().map_or_else(|| fallback.clone(), |spec| owner(&spec.tenant));
    for spec in &submission.jobs {
        let job = NewJob::of(spec, &owner(&spec.tenant), None);
        jobs.push(job.map_err(|wrong| Box::new(Problem::from(wrong)))?);
        if submission.key.is_some() {
            body.push_str(&spec.content_hash().to_string());
        }
    }
    let once = submission.key.map(|key| Once { key: IdempotencyKey { tenant, key }, body_hash: SpecHash::of(&body).0 });
    Ok(Batch { jobs, once })
}

impl Jobs {
    pub(super) fn new(handle: Handle, stop: Stop) -> Self {
        Self { handle, stop }
    }

    /// A job as it is, with the outputs of its last attempt.
    async fn whole(&self, id: JobId) -> Result<JobView, Error> {
        let row = self.handle.job(id).await?;
        let mut view = view::job(&row);
        if row.job.count == 1 && row.unit.attempt > 0 {
            let store = self.handle.store();
            let found = store.attempts(id, &AttemptFilter { index: Some(0) }, &Page::first(PAGE)).await;
            let found = found.map_err(|wrong| error::port(&wrong))?;
            if let Some(last) = found.items.last() {
                let detail = store.detail(&last.attempt.id).await.map_err(|wrong| error::port(&wrong))?;
                view.outputs = detail.as_ref().map(view::outputs).unwrap_or_default();
            }
        }
        Ok(view)
    }

    async fn element(&self, id: JobId, index: u32) -> Result<JobView, Error> {
        let row = self.handle.job(id).await?;
        let page = index.checked_sub(1).map_or(Page::first(1), |before| Page::after(before, 1));
        let found = self.handle.store().elements(id, &ElementFilter::default(), &page).await;
        let found = found.map_err(|wrong| error::port(&wrong))?;
        let element = found.items.iter().find(|element| element.index == index);
        let element = element.ok_or_else(|| error::not_found(format_args!("element {id}.{index}")))?;
        Ok(view::element(&row, element))
    }

    /// Live jobs that pass a filter.
    async fn matching(&self, filter: JobFilter) -> Result<Vec<JobId>, Error> {
        let (mut ids, mut page) = (Vec::new(), Page::first(PAGE));
        loop {
            let found = self.handle.store().jobs(&filter, &page).await.map_err(|wrong| error::port(&wrong))?;
            let live = found.items.iter().filter(|row| !row.unit.state.is_terminal());
            ids.extend(live.map(|row| row.job.id));
            let Some(next) = found.next else { return Ok(ids) };
            page = Page::after(next, PAGE);
        }
    }
}

#[async_trait::async_trait]
impl JobHost for Jobs {
    async fn submit(&self, _: Caller, submission: Submission) -> Result<SubmitAnswer, Refusal> {
        let taken = self.handle.submit(batch(submission)?).await?;
        Ok(SubmitAnswer { jobs: taken.jobs, replay: taken.replay, warnings: taken.warnings })
    }

    async fn job(&self, _: Caller, job: JobId, index: Option<u32>, wait: Duration) -> Result<JobView, Refusal> {
        let live = !self.handle.job(job).await?.unit.state.is_terminal();
        // Over the time the job is told as it is.
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

    async fn jobs(&self, _: Caller, query: JobQuery) -> Result<JobPage, Refusal> {
        let limit = if query.limit == 0 { 100 } else { query.limit.min(PAGE) };
        let page = match query.cursor.as_str() {
            "" => Page::first(limit),
            text => {
                let wrong = |_| error::problem(Code::InvalidSpec, "cursor is none that this server gave");
                Page::after(text.parse().map_err(wrong)?, limit)
            }
        };
        let filter = view::filter(query.filter)?;
        let found = self.handle.store().jobs(&filter, &page).await.map_err(|wrong| error::port(&wrong))?;
        let next_cursor = found.next.map(|next| next.to_string()).unwrap_or_default();
        Ok(JobPage { items: found.items.iter().map(view::job).collect(), next_cursor })
    }

    async fn cancel(&self, _: Caller, what: Cancellation) -> Result<CancelAnswer, Refusal> {
        let (ids, elements) = match what {
            Cancellation::Jobs(ids) => (ids, Vec::new()),
            Cancellation::Elements(job, indices) => (vec![job], indices.ranges().to_vec()),
            Cancellation::Filter(filter) => (self.matching(view::filter(filter)?).await?, Vec::new()),
        };
        let mut answer = CancelAnswer::default();
        for id in ids {
            match self.handle.cancel(id, elements.clone()).await? {
                Cancelled::Taken => answer.cancelled += 1,
                Cancelled::Ended => answer.ended += 1,
            }
        }
        Ok(answer)
    }

    async fn retry(&self, _: Caller, job: JobId, key: Option<String>) -> Result<JobId, Refusal> {
        self.handle.retry(job, key).await
    }

    async fn explain(&self, _: Caller, job: JobId, _: Option<u32>) -> Result<Explained, Refusal> {
        let told = self.handle.explain(job).await?;
        Ok(Explained { summary: told.summary(), json: told.json().to_string() })
    }

    async fn watch(&self, _: Caller, watching: Watching) -> Result<Answers<JobEvent>, Refusal> {
        Ok(watch::events(self.handle.clone(), self.stop.clone(), watching)?.boxed())
    }

    async fn logs(&self, _: Caller, query: LogQuery) -> Result<Answers<LogPage>, Refusal> {
        Ok(logs::pages(self.handle.clone(), self.stop.clone(), query).await?.boxed())
    }
}
