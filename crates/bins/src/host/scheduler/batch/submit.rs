//! Submits: all jobs of a batch or none, each key once; with warnings that no worker there is could ever run a job.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use orlop_core::error::{Code, Problem};
use orlop_core::id::JobId;
use orlop_core::machine::job::JobState;
use orlop_core::ports::fleet_store::{ArtifactLink, IdempotencyRecord, JobKind, JobRow, NewJob, Record};
use orlop_scheduler::effect::{Effect, Refusal};
use orlop_scheduler::engine::WorkerFit;
use orlop_scheduler::event::{Event, StartWindow};

use super::super::command::{Batch, Once, Reply, Submission, Submitted};
use super::super::commit::Release;
use super::super::live::{Answered, ByNumber, LiveJob};
use super::super::{Explained, error};
use super::Core;
use super::effects::ReportFields;

/// How long an idempotency key is kept.
const KEY_KEPT: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

impl Core {
    pub(super) fn submit(&mut self, batch: Batch, reply: Reply<Submitted>) {
        let answer = match self.repeated(batch.once.as_ref()) {
            Some(answer) => answer,
            None => self.submit_new(batch),
        };
        self.writes.release(Release::reply(reply, answer));
    }

    /// The answer of an earlier request with the same key; none if there is none.
    fn repeated(&self, once: Option<&Once>) -> Option<Result<Submitted, Problem>> {
        let once = once?;
        let known = self.registry.keys.get(&once.key)?;
        if known.body_hash != once.body_hash {
            let text = format!("idempotency key `{}` was used for another request; use a new one", once.key.key);
            return Some(Err(Problem::coded(Code::IdempotencyMismatch, text)));
        }
        Some(Ok(Submitted { jobs: known.jobs.clone(), replay: true, warnings: known.warnings.clone() }))
    }

    fn submit_new(&mut self, batch: Batch) -> Result<Submitted, Problem> {
        let mut taken = Vec::with_capacity(batch.jobs.len());
        self.effects.clear();
        for submission in &batch.jobs {
            let (at, before) = (self.next_job, self.effects.len());
            let Some(id) = JobId::new(self.epoch, at) else {
                return Err(self.undo(&taken, Problem::coded(Code::Internal, "the job ids of this epoch are used up")));
            };
            self.next_job += 1;
            if let Err(problem) = self.admit(id, submission, before) {
                return Err(self.undo(&taken, problem));
            }
            taken.push(id);
        }
        for (id, submission) in taken.iter().zip(&batch.jobs) {
            self.store_new(*id, submission);
        }
        let marks = self.writes.tasks.len();
        self.absorb(&ReportFields::default());
        // What the row of a new job says needs no second record.
        self.writes.tasks.truncate(marks);
        self.writes.applied = true;
        let warnings = self.warnings(&taken);
        if let Some(once) = batch.once {
            self.remember(once, &taken, &warnings);
        }
        Ok(Submitted { jobs: taken, replay: false, warnings })
    }

    /// Hands one job to the core.
    fn admit(&mut self, job: JobId, submission: &Submission, before: usize) -> Result<(), Problem> {
        let not_before = submission.not_before.map(|at| self.monotonic_of(at));
        let gate = StartWindow { not_before, queue_timeout: submission.queue_timeout };
        let spec = Arc::clone(&submission.spec.demand);
        let event = match &submission.array {
            Some(array) => Event::SubmitArray { job, spec, gate, array: array.clone() },
            None => Event::Submit { job, spec, gate },
        };
        self.scheduler.apply(self.now, event, &mut self.effects).map_err(|problem| error::event(&problem))?;
        let new = self.effects.get(before..).unwrap_or_default();
        let refusal = new.iter().find_map(|effect| match effect {
            Effect::Refused { reason, .. } => Some(*reason),
            _ => None,
        });
        refusal.map_or(Ok(()), |refusal: Refusal| {
            let refused = error::refused(refusal);
            if matches!(refused.code, Code::QuotaExceeded | Code::RateLimited) {
                self.metrics.scheduler.quota_denied.of([submission.spec.demand.tenant.as_str()]).inc();
            }
            Err(refused)
        })
    }

    /// Takes back what was admitted before one was refused: nothing of it was or will be stored.
    fn undo(&mut self, taken: &[JobId], problem: Problem) -> Problem {
        for job in taken {
            let event = Event::Cancel { job: *job, elements: None };
            if let Err(error) = self.scheduler.apply(self.now, event, &mut self.effects) {
                tracing::error!(target: "orlop::scheduler", %job, %error, "a submit could not be taken back");
            }
        }
        self.effects.clear();
        problem
    }

    /// Records a job that was admitted.
    fn store_new(&mut self, id: JobId, submission: &Submission) {
        let (spec, record) = self.registry.specs.intern(&submission.spec);
        self.writes.records.extend(record.map(|record| Record::Spec(Box::new(record))));
        let demand = spec.demand();
        let (kind, count, indices) = match (&submission.array, &demand.gang) {
            (Some(array), _) => {
                let count = array.indices.iter().map(|(first, last)| u64::from(last - first) + 1).sum::<u64>();
                (JobKind::Array, u32::try_from(count).unwrap_or(u32::MAX), array.indices.clone())
            }
            (None, Some(gang)) => (JobKind::Gang, gang.size, Vec::new()),
            (None, None) => (JobKind::Single, 1, Vec::new()),
        };
        let waits = self.scheduler.job(id, None).is_some_and(|view| view.state == JobState::Pending)
            || submission.not_before.is_some_and(|at| at > self.wall);
        let client = submission.client.clone();
        let expires = submission.queue_timeout.map(|wait| self.wall.plus(std::time::Duration::from_millis(wait)));
        let (flow, step) = submission.flow.clone().unzip();
        let job = NewJob {
            kind,
            count,
            indices,
            priority: demand.priority.0,
            name: submission.name.clone(),
            labels: submission.labels.clone(),
            not_before: submission.not_before,
            expires_at: expires,
            flow,
            step,
            retry_of: submission.retry_of,
            correlation_id: client.as_ref().and_then(|client| client.correlation_id.clone()),
            traceparent: client.as_ref().and_then(|client| client.traceparent.clone()),
            ..NewJob::new(id, demand.tenant.clone(), submission.spec.hash, self.wall)
        };
        let state = if waits { JobState::Pending } else { JobState::Queued };
        self.writes.records.push(Record::JobNew(Box::new(JobRow::submitted(job, state))));
        for (input, sha256) in &submission.spec.inputs {
            let (name, sha256) = (format!("in/{input}"), sha256.clone());
            let tenant = spec.demand().tenant.clone();
            let link = ArtifactLink { job: id, name, sha256, tenant, left_by: Vec::new(), executable: false };
            // As of results: this does not fail.
            self.writes.records.extend(Record::put(&link).ok());
        }
        let array = submission.array.is_some();
        self.registry.jobs.insert(id, LiveJob { spec, client, array, shown_running: false });
    }

    /// Keeps the answer for who repeats the request.
    fn remember(&mut self, once: Once, jobs: &[JobId], warnings: &[String]) {
        let response = match warnings {
            [] => serde_json::json!(jobs),
            warnings => serde_json::json!({ "jobs": jobs, "warnings": warnings }),
        };
        let response = response.to_string().into();
        let record = IdempotencyRecord {
            key: once.key.clone(),
            body_hash: once.body_hash,
            status: 202,
            response,
            expires_at: self.wall.plus(KEY_KEPT),
        };
        self.writes.records.push(Record::Idempotency(Box::new(record)));
        self.registry
            .keys
            .insert(once.key, Answered { body_hash: once.body_hash, jobs: jobs.to_vec(), warnings: warnings.to_vec() });
    }
}

/// A finding is good for so long, in milliseconds.
const GOOD: u64 = 1000;
/// The most things named that workers lack.
const LACKS: usize = 3;
/// At most so many are worked out in that time; beyond it jobs are taken without a word.
const FINDINGS: u32 = 64;

/// What was found lately, by the number of a specification.
#[derive(Debug, Default)]
pub(in super::super) struct FeasibilityCache {
    since: u64,
    worked_out: u32,
    known: HashMap<u64, Option<String>, ByNumber>,
}

/// That no worker could ever run a job, and what the first of them lack.
fn never(explained: &Explained) -> String {
    let lacks: BTreeSet<String> =
        explained.explanation.workers.iter().flat_map(WorkerFit::lacks).map(|lack| lack.to_string()).collect();
    let some = lacks.iter().take(LACKS).cloned().collect::<Vec<_>>().join("; ");
    let (why, more) = match lacks.len() {
        0 => (explained.summary(), ""),
        1..=LACKS => (some, ""),
        _ => (some, " and more"),
    };
    format!("no worker could ever run it: {why}{more}; `orlop job get ID --explain` shows it worker by worker")
}

impl Core {
    /// What the client of new jobs should know: once for each specification.
    pub(super) fn warnings(&mut self, jobs: &[JobId]) -> Vec<String> {
        if self.now >= self.feasibility.since.saturating_add(GOOD) {
            self.feasibility = FeasibilityCache { since: self.now, ..FeasibilityCache::default() };
        }
        let mut warnings = Vec::new();
        let mut last = None;
        for job in jobs {
            let Some(number) = self.registry.jobs.get(*job).map(|live| live.spec.number) else { continue };
            // Of equal jobs, which come one after the other, the first says it all.
            if last.replace(number) == Some(number) {
                continue;
            }
            if !self.feasibility.known.contains_key(&number) {
                if self.feasibility.worked_out >= FINDINGS {
                    continue;
                }
                self.feasibility.worked_out += 1;
                let found = self.explained(*job).filter(|explained| explained.explanation.is_infeasible());
                let text = found.map(|explained| match explained.explanation.workers.is_empty() {
                    true => "no worker is registered yet".to_owned(),
                    false => never(&explained),
                });
                self.feasibility.known.insert(number, text);
            }
            if let Some(Some(text)) = self.feasibility.known.get(&number) {
                warnings.push(format!("job {job}: {text}"));
            }
        }
        warnings
    }
}
