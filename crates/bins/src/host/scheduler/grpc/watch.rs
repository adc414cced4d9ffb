//! Jobs as they change, for clients that follow them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use futures::Stream;
use orlop_cloud::bus::local::LocalSubscription;
use orlop_core::error::{Code, Problem};
use orlop_core::id::JobId;
use orlop_core::ports::bus::{BusEvent, Delivery, EventBody, SubjectFilter, Subscription as _};
use orlop_core::ports::fleet_store::JobFilter;

use super::super::{Handle, Stop, error};
use super::view;
use crate::wire::v1::{JobEvent, WatchJobsRequest};

/// Events that are heard together, and jobs that are looked at together, at most.
const TOGETHER: usize = 256;

struct Watching {
    handle: Handle,
    stop: Stop,
    events: LocalSubscription,
    jobs: BTreeSet<JobId>,
    filter: JobFilter,
    until_ended: bool,
    /// Jobs whose present state is to be reported, with the last event of each.
    due: BTreeMap<JobId, u64>,
    ready: VecDeque<Result<JobEvent, Problem>>,
    lagged: bool,
    /// Named jobs that have not ended.
    open: BTreeSet<JobId>,
}

/// The changes of jobs that pass a filter.
pub(super) fn events(
    handle: Handle,
    stop: Stop,
    asked: WatchJobsRequest,
    filter: JobFilter,
) -> Result<impl Stream<Item = Result<JobEvent, Problem>> + Send, Problem> {
    let jobs: BTreeSet<JobId> = asked.job_ids.into_iter().map(JobId::from_u64).collect();
    let pattern = SubjectFilter::new("orlop.events.job.*");
    let pattern = pattern.map_err(|bad| Problem::coded(Code::Internal, bad.to_string()))?;
    // Listens first: what changes while the present state is read comes after it.
    let events = handle.subscribe(pattern)?;
    let until_ended = asked.until_ended && !jobs.is_empty();
    let (due, open) = (jobs.iter().map(|job| (*job, 0)).collect(), jobs.clone());
    let (ready, lagged) = (VecDeque::new(), false);
    let watching = Watching { handle, stop, events, jobs, filter, until_ended, due, ready, lagged, open };
    Ok(futures::stream::unfold(watching, async |mut watching: Watching| {
        let event = watching.next().await?;
        Some((event, watching))
    }))
}

impl Watching {
    async fn next(&mut self) -> Option<Result<JobEvent, Problem>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if !self.due.is_empty() {
                match self.look().await {
                    Ok(()) => continue,
                    Err(error) => return Some(Err(error)),
                }
            }
            if self.until_ended && self.open.is_empty() {
                return None;
            }
            let first = tokio::select! {
                () = self.stop.stopped() => return None,
                delivery = self.events.next() => delivery?,
            };
            if let Err(error) = self.hear(&first) {
                return Some(Err(error));
            }
            for _ in 1..TOGETHER {
                let Some(delivery) = self.events.next_now() else { break };
                if let Err(error) = self.hear(&delivery) {
                    return Some(Err(error));
                }
            }
        }
    }

    fn hear(&mut self, delivery: &Delivery) -> Result<(), Problem> {
        match delivery {
            Delivery::Event(event) => {
                if let Some(job) = job_of(event)?.filter(|job| self.jobs.is_empty() || self.jobs.contains(job)) {
                    self.due.insert(job, event.id);
                }
            }
            Delivery::Lagged { .. } => {
                self.lagged = true;
                self.open.iter().for_each(|job| {
                    self.due.entry(*job).or_default();
                });
            }
        }
        Ok(())
    }

    /// Makes some of those ready that are due, as they are, as far as they pass the filter.
    async fn look(&mut self) -> Result<(), Problem> {
        let mut due: BTreeMap<JobId, u64> = std::iter::from_fn(|| self.due.pop_first()).take(TOGETHER).collect();
        let rows = self.handle.some_jobs(&due.keys().copied().collect()).await?;
        let (time, mut found) = (self.handle.clock().wall().millis(), Vec::with_capacity(rows.len()));
        for row in rows {
            let id = due.remove(&row.job.id).unwrap_or_default();
            if row.unit.state.is_terminal() {
                self.open.remove(&row.job.id);
            }
            if self.filter.passes(&row) {
                found.push(JobEvent { id, time, job: Some(view::job(&row)), lagged: false });
            }
        }
        found.sort_by_key(|event| event.id);
        if let Some(first) = found.first_mut() {
            first.lagged = std::mem::take(&mut self.lagged);
        }
        self.ready.extend(found.into_iter().map(Ok));
        // Whose rows are gone by now will tell nothing more.
        for (job, event) in due {
            self.open.remove(&job);
            if event == 0 {
                self.ready.push_back(Err(error::not_found(format_args!("job {job}"))));
            }
        }
        Ok(())
    }
}

/// The job that an event is about.
fn job_of(event: &BusEvent) -> Result<Option<JobId>, Problem> {
    let body: EventBody = serde_json::from_str(&event.body)
        .map_err(|wrong| Problem::coded(Code::Internal, format!("an event cannot be read: {wrong}")))?;
    Ok(body.job.as_deref().and_then(|text| text.parse().ok()))
}
