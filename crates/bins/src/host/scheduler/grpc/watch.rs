//! Jobs as they change, for clients that follow them. Owns these streams; what happened to a job since it was last looked at
//! is told once, as its present state, and so is what a listener missed that is too slow.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use futures::Stream;
use orlop_cloud::bus::local::LocalSubscription;
use orlop_core::id::JobId;
use orlop_core::ports::bus::{BusEvent, Delivery, EventBody, SubjectFilter, Subscription as _};
use orlop_core::ports::fleet_store::JobFilter;

use super::super::{Error, Handle, Stop, error};
use super::view;
use crate::wire::grpc::Refusal;
use crate::wire::problem::Code;
use crate::wire::query::{JobEvent, Watching as Asked};

/// Jobs that are looked at together, at most.
const TOGETHER: usize = 256;

struct Watching {
    handle: Handle,
    stop: Stop,
    events: LocalSubscription,
    jobs: BTreeSet<JobId>,
    filter: JobFilter,
    until_ended: bool,
    /// Jobs whose present state is to be told, with the last event of each.
    due: BTreeMap<JobId, u64>,
    ready: VecDeque<JobEvent>,
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
    async fn next(&mut self) -> Option<Result<JobEvent, Refusal>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
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
            let mut next = Some(first);
            while let Some(delivery) = next {
                if let Err(error) = self.hear(&delivery) {
                    return Some(Err(error));
                }
                next = if self.due.len() < TOGETHER { self.events.next_now() } else { None };
            }
        }
    }

    fn hear(&mut self, delivery: &Delivery) -> Result<(), Error> {
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

    /// Makes those ready that are due, as they are, as far as they pass the filter.
    async fn look(&mut self) -> Result<(), Error> {
        let due = std::mem::take(&mut self.due);
        let rows = self.handle.some_jobs(&due.keys().copied().collect()).await?;
        if let Some(gone) = due.iter().find(|(job, event)| **event == 0 && rows.iter().all(|row| row.job.id != **job)) {
            return Err(error::not_found(format_args!("job {}", gone.0)));
        }
        let time = Some(self.handle.clock().wall());
        for row in rows {
            if row.unit.state.is_terminal() {
                self.open.remove(&row.job.id);
            }
            if self.filter.passes(&row) {
                let lagged = std::mem::take(&mut self.lagged);
                let id = due.get(&row.job.id).copied().unwrap_or_default();
                self.ready.push_back(JobEvent { id, time, job: view::job(&row), lagged });
            }
        }
        self.ready.make_contiguous().sort_by_key(|event| event.id);
        Ok(())
    }
}

/// The job that an event is about.
fn job_of(event: &BusEvent) -> Result<Option<JobId>, Error> {
    let body: EventBody = serde_json::from_str(&event.body)
        .map_err(|wrong| error::problem(Code::Internal, format!("an event cannot be read: {wrong}")))?;
    Ok(body.job.as_deref().and_then(|text| text.parse().ok()))
}
