//! Retrying a job that has ended: a new job of the same specification, of an array its unsuccessful elements.

use std::collections::BTreeSet;
use std::sync::Arc;

use orlop_core::error::{Code, Problem};
use orlop_core::id::JobId;
use orlop_core::machine::job::JobState;
use orlop_core::named::Named as _;
use orlop_core::ports::fleet_store::{ElementFilter, ElementRow, IdempotencyKey, JobKind, JobRow, Page, SpecHash};
use orlop_core::spec::job::Indices;
use orlop_scheduler::event::ArraySpec;

use super::command::{Batch, Once, Submission};
use super::error;
use super::handle::Handle;
use super::live::ClientFields;
use super::logs::first_missing;
use super::spec::Prepared;

/// Elements of a page.
const PAGE: u32 = 10_000;

impl Handle {
    /// A job as it is stored.
    ///
    /// # Errors
    /// NotFound; StoreUnavailable.
    pub async fn job(&self, job: JobId) -> Result<JobRow, Problem> {
        let row = self.store().job(job).await?;
        row.ok_or_else(|| error::not_found(format_args!("job {job}")))
    }

    /// Those of some jobs that are stored.
    ///
    /// # Errors
    /// StoreUnavailable.
    pub async fn some_jobs(&self, jobs: &BTreeSet<JobId>) -> Result<Vec<JobRow>, Problem> {
        self.store().some_jobs(jobs).await
    }

    /// Submits a job that has ended again, under a new id; of an array its unsuccessful elements, or those that are named.
    /// With a key it is done once.
    ///
    /// # Errors
    /// Conflict while it or one of the named elements is live, or when nothing of it was unsuccessful; NotFound for elements
    /// that it does not have; and as of [`Handle::submit`].
    pub async fn retry(&self, job: JobId, elements: Option<Indices>, key: Option<String>) -> Result<JobId, Problem> {
        let row = self.job(job).await?;
        if elements.is_none() && !row.unit.state.is_terminal() {
            let text = format!("job {job} is {}; it can be retried once it has ended", row.unit.state);
            return Err(Problem::coded(Code::Conflict, text));
        }
        let spec = self.store().spec(&row.job.spec).await?;
        let spec = spec.ok_or_else(|| error::not_found(format_args!("the specification of job {job}")))?;
        let spec = Prepared::stored(&spec).map_err(|problem| Problem::coded(Code::Internal, problem.to_string()))?;
        let asked = elements.as_ref().map(|elements| format!(" {elements}")).unwrap_or_default();
        let array = match row.job.kind {
            JobKind::Array => {
                let indices = match elements {
                    Some(elements) => match self.first_live(&row, &elements).await? {
                        None => elements.ranges().to_vec(),
                        Some(ElementRow { index, unit }) => {
                            let state = unit.state;
                            let text =
                                format!("element {index} of job {job} is {state}; it can be retried once it has ended");
                            return Err(Problem::coded(Code::Conflict, text));
                        }
                    },
                    None => self.unsuccessful(job).await?,
                };
                let (max_parallel, max_failures) = spec.array_limits();
                Some(ArraySpec { indices, max_parallel, max_failures })
            }
            JobKind::Single | JobKind::Gang => None,
        };
        let client = ClientFields { correlation_id: row.job.correlation_id, traceparent: row.job.traceparent };
        let submission = Submission {
            spec: Arc::new(spec),
            not_before: None,
            queue_timeout: None,
            array,
            name: row.job.name,
            labels: row.job.labels,
            flow: row.job.flow.zip(row.job.step),
            retry_of: Some(job),
            client: (client != ClientFields::default()).then(|| Arc::new(client)),
        };
        let once = key.map(|key| Once {
            key: IdempotencyKey { tenant: row.job.tenant, key },
            body_hash: SpecHash::of(&format!("retry {job}{asked}")).0,
        });
        let taken = self.submit(Batch { jobs: vec![submission], once }).await?;
        taken.jobs.first().copied().ok_or_else(|| Problem::coded(Code::Internal, "a submit of one job made none"))
    }

    /// The first of some elements of an array that has not ended.
    async fn first_live(&self, row: &JobRow, elements: &Indices) -> Result<Option<ElementRow>, Problem> {
        let job = row.job.id;
        if let Some(missing) = first_missing(elements, &row.job) {
            return Err(error::not_found(format_args!("element {missing} of job {job}")));
        }
        let states = JobState::ALL.iter().copied().filter(|state| !state.is_terminal()).collect();
        let filter = ElementFilter { states, indices: Some(elements.clone()), ..ElementFilter::default() };
        let found = self.store().elements(job, &filter, &Page::first(1)).await;
        Ok(found?.items.into_iter().next())
    }

    /// Whether any of some elements of an array has not ended.
    ///
    /// # Errors
    /// NotFound for elements that it does not have; StoreUnavailable.
    pub async fn is_any_live(&self, row: &JobRow, elements: &Indices) -> Result<bool, Problem> {
        Ok(self.first_live(row, elements).await?.is_some())
    }

    /// The elements of an array that did not succeed.
    async fn unsuccessful(&self, job: JobId) -> Result<Vec<(u32, u32)>, Problem> {
        let states = vec![JobState::Failed, JobState::TimedOut, JobState::Cancelled];
        let filter = ElementFilter { states, ..ElementFilter::default() };
        let (mut indices, mut page): (Vec<(u32, u32)>, _) = (Vec::new(), Page::first(PAGE));
        loop {
            let found = self.store().elements(job, &filter, &page).await?;
            for element in found.items {
                match indices.last_mut() {
                    Some((_, last)) if last.checked_add(1) == Some(element.index) => *last = element.index,
                    _ => indices.push((element.index, element.index)),
                }
            }
            let Some(next) = found.next else { break };
            page = Page::after(next, PAGE);
        }
        if indices.is_empty() {
            return Err(Problem::coded(Code::Conflict, format!("every element of job {job} has succeeded")));
        }
        Ok(indices)
    }
}
