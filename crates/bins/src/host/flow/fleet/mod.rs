//! The substrate of a fleet: every attempt of a step is one job, which the agent of a worker runs as its pods. Places nothing and
//! runs nothing.
//!
//! A job is submitted under the key of its attempt and carries it as labels, so that the next host finds what an earlier
//! one has submitted. Its end is waited for, never polled. Retries are the flow engine's; a worker that is lost makes the
//! fleet run the job again by its own limit, and what exceeds that is a lost attempt.

mod attempts;
mod claims;
mod end;
mod job;
mod label;
mod place;
mod port;
mod queue;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use orlop_core::attempt::{AttemptEnd, AttemptKey, AttemptSpec, EndResult};
use orlop_core::error::{Class, Problem};
use orlop_core::id::JobId;
use orlop_core::ports::substrate::{AttemptDelay, AttemptReport, FlowOwner, Substrate};
use orlop_core::spec::flow::{ResourceTemplates, template_name};
use orlop_core::spec::meta::ObjectReference;
use orlop_dag::attempt::{patience, resource_name};
use tokio::sync::{Mutex, mpsc};

use self::attempts::{Attempts, Followed};
pub use self::end::END;
use self::end::attempt_end;
pub use self::job::{FlowFacts, GIVEN, LEFT};
pub use self::label::{FLOW, WORKER, claims as claims_of, key as key_of};
pub use self::port::{FlowJob, JobEnd, JobPlace, StepFleet};
use self::queue::{Origin, Queue};
use super::{Clock, SystemClock};

/// Runs attempts as jobs of a fleet. Dropping it leaves its jobs running; the next one finds them.
pub struct FleetSubstrate {
    fleet: Arc<dyn StepFleet>,
    facts: FlowFacts,
    attempts: Arc<Attempts>,
    /// Flows are looked up one after the other, so that none is twice.
    lookup: Mutex<()>,
    /// Steps with claims are submitted one after the other: the first decides where the others run.
    claiming: Mutex<()>,
    reports: mpsc::UnboundedSender<AttemptReport>,
    received: Mutex<mpsc::UnboundedReceiver<AttemptReport>>,
    delays: mpsc::UnboundedSender<AttemptDelay>,
    delayed: Mutex<mpsc::UnboundedReceiver<AttemptDelay>>,
}

impl FleetSubstrate {
    /// A substrate on a fleet, for flows that have these facts in common.
    #[must_use]
    pub fn new(fleet: Arc<dyn StepFleet>, facts: FlowFacts) -> Self {
        // Bounded by the attempts that live, each of which reports its end once, and moves of their jobs.
        let (reports, received) = mpsc::unbounded_channel();
        let (delays, delayed) = mpsc::unbounded_channel();
        Self {
            fleet,
            facts,
            attempts: Arc::default(),
            lookup: Mutex::default(),
            claiming: Mutex::default(),
            reports,
            received: Mutex::new(received),
            delays,
            delayed: Mutex::new(delayed),
        }
    }

    /// The job of an attempt, if there is one.
    async fn find(&self, key: &AttemptKey) -> Result<Option<JobId>, Problem> {
        if let Some(job) = self.attempts.job(key) {
            return Ok(Some(job));
        }
        let _one = self.lookup.lock().await;
        if !self.attempts.is_known(&key.flow) {
            let jobs = self.fleet.of_flow(&key.flow).await?;
            self.attempts.learn(&key.flow, jobs);
        }
        Ok(self.attempts.job(key))
    }

    /// Has the end of a job reported, and meanwhile whether it waits for a worker, unless that is under way.
    fn follow(&self, key: &AttemptKey, job: JobId, origin: Origin) {
        let Some(Followed) = self.attempts.follow(key) else { return };
        let (fleet, attempts, reports) = (Arc::clone(&self.fleet), Arc::clone(&self.attempts), self.reports.clone());
        let queue = Queue { fleet: Arc::clone(&fleet), delays: self.delays.clone(), key: key.clone(), job };
        let followed = key.clone();
        let task = tokio::spawn(async move {
            let key = followed;
            let end = tokio::select! {
                biased;
                end = end_of(fleet.as_ref(), &key, job) => end,
                never = queue.watch(origin) => match never {},
            };
            let end = match end {
                Some(end) => attempt_end(&key, &end, attempts.is_cancelled(&key)),
                None => AttemptEnd::without_job(EndResult::Lost, SystemClock.now()),
            };
            attempts.leave(&key);
            // The substrate may be gone; then nobody waits for it.
            drop(reports.send(AttemptReport { key, end }));
        });
        self.attempts.keep(key, task.abort_handle());
    }

    fn report(&self, key: &AttemptKey, result: EndResult) {
        let report = AttemptReport { key: key.clone(), end: AttemptEnd::without_job(result, SystemClock.now()) };
        drop(self.reports.send(report));
    }

    fn reference(&self, job: JobId) -> ObjectReference {
        ObjectReference {
            api_version: "orlop/v1".to_owned(),
            kind: "FleetJob".to_owned(),
            name: job.to_string(),
            namespace: self.facts.tenant.to_string(),
            uid: job.to_string(),
        }
    }
}

impl Drop for FleetSubstrate {
    fn drop(&mut self) {
        self.attempts.abort();
    }
}

#[async_trait]
impl Substrate for FleetSubstrate {
    /// Names them: each worker makes its own copies of ConfigMaps, and claims where they are first used.
    async fn ensure_resources(
        &self,
        owner: &FlowOwner,
        templates: &ResourceTemplates,
    ) -> Result<Vec<ObjectReference>, Problem> {
        let kinds = [
            ("PersistentVolumeClaim", &templates.volume_claim_templates),
            ("ConfigMap", &templates.config_map_templates),
        ];
        let all = kinds.into_iter().flat_map(|(kind, list)| list.iter().map(move |template| (kind, template)));
        let named = all.map(|(kind, template)| {
            let short = template_name(template).unwrap_or_default();
            let name = resource_name(&owner.name, short);
            ObjectReference {
                api_version: "v1".to_owned(),
                kind: kind.to_owned(),
                uid: format!("{}/{kind}/{name}", owner.uid),
                name,
                namespace: owner.namespace.clone(),
            }
        });
        Ok(named.collect())
    }

    async fn start(&self, spec: AttemptSpec) -> Result<ObjectReference, Problem> {
        let job = match self.find(&spec.key).await? {
            Some(job) => job,
            None => {
                let mut asked = job::job_spec(&spec, &self.facts)?;
                let claims = job::claims(&spec)?;
                let mut alone = None;
                if !claims.is_empty() {
                    alone = Some(self.claiming.lock().await);
                    self.pin(&spec.key.flow, &claims, &mut asked).await?;
                }
                let job = self.fleet.submit(&spec.key, asked).await?;
                self.attempts.insert(&spec.key, job);
                self.attempts.claim(&spec.key.flow, claims, job);
                drop(alone);
                job
            }
        };
        self.follow(&spec.key, job, Origin::Started);
        Ok(self.reference(job))
    }

    async fn adopt(&self, spec: AttemptSpec) -> Result<(), Problem> {
        match self.find(&spec.key).await? {
            Some(job) => self.follow(&spec.key, job, Origin::Adopted),
            None => self.report(&spec.key, EndResult::Lost),
        }
        Ok(())
    }

    /// The grace is that of the step's template, which the job was submitted with.
    async fn cancel(&self, key: &AttemptKey, _grace: Option<Duration>) -> Result<(), Problem> {
        let Some(job) = self.find(key).await? else {
            self.report(key, EndResult::Cancelled);
            return Ok(());
        };
        self.attempts.cancel(key);
        match self.fleet.cancel(job).await {
            Err(error) if error.class != Class::NotFound => return Err(error),
            _ => self.follow(key, job, Origin::Started),
        }
        Ok(())
    }

    async fn suspend(&self, key: &AttemptKey) -> Result<(), Problem> {
        let message = format!("attempt {key} continues: jobs of a fleet cannot be suspended");
        Err(Problem::new(Class::Invalid, message))
    }

    async fn resume(&self, _key: &AttemptKey) -> Result<(), Problem> {
        Ok(())
    }

    /// Jobs stay in the fleet's list as long as it keeps jobs that have ended.
    async fn forget(&self, key: &AttemptKey) -> Result<(), Problem> {
        if self.attempts.forget(key) {
            return Ok(());
        }
        Err(Problem::new(Class::Conflict, format!("attempt {key} has not ended; cancel it first")))
    }

    async fn list(&self, flow: &str) -> Result<Vec<AttemptKey>, Problem> {
        let jobs = self.fleet.of_flow(flow).await?;
        Ok(jobs.into_iter().map(|known| known.key).filter(|key| !self.attempts.is_forgotten(key)).collect())
    }

    async fn next(&self) -> AttemptReport {
        match self.received.lock().await.recv().await {
            Some(report) => report,
            // This end of the channel holds a sender, so it never closes.
            None => std::future::pending().await,
        }
    }

    async fn next_delay(&self) -> AttemptDelay {
        match self.delayed.lock().await.recv().await {
            Some(delay) => delay,
            None => std::future::pending().await,
        }
    }
}

/// Waits for the end of the job of an attempt; none: it is not there any more.
async fn end_of(fleet: &dyn StepFleet, key: &AttemptKey, job: JobId) -> Option<JobEnd> {
    let mut tries = 0;
    loop {
        match fleet.ended(job).await {
            Ok(end) => return Some(end),
            Err(error) if error.class.is_retryable() => {
                tracing::warn!(attempt = %key, %job, error = error.chain(), "the job of a step cannot be seen now");
                tokio::time::sleep(patience(&error, tries)).await;
                tries = tries.saturating_add(1);
            }
            Err(error) => {
                tracing::error!(attempt = %key, %job, error = error.chain(), "the job of a step is gone");
                return None;
            }
        }
    }
}
