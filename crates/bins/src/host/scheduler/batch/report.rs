//! What workers say in their frames: each message becomes an event of the core and a record of the attempt.

use std::sync::Arc;

use orlop_core::machine::attempt::AttemptState;
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::named::Named as _;
use orlop_core::ports::fleet_store::{ArtifactLink, AttemptChange, AttemptDetail, AttemptEnd, Record};
use orlop_core::task::{TaskEnd, TaskRef, Usage};
use orlop_scheduler::event::{Departure, Event};
use orlop_scheduler::token::WorkerKey;

use super::super::commit::Release;
use super::super::session::{Closing, Session};
use super::Core;
use super::effects::ReportFields;
use crate::wire::attempt::{JobAccepted, JobResult, JobStarted, Rejected, is_permanent};
use crate::wire::frame::{Judgement, WorkerFrame};
use crate::wire::status::WorkerStatus;

impl Core {
    /// Applies a frame as a whole, in the order of its fields.
    pub(super) fn frame(&mut self, session: &Arc<Session>, frame: WorkerFrame) {
        // A session that is over speaks for nobody: its agent registers anew and sends its spool again.
        let Some(key) = self.registry.workers.by_session(session.id()) else { return };
        self.writes.applied = true;
        if let Some(micros) = session.take_round_trip() {
            self.apply(Event::RoundTrip { worker: key, micros }, &ReportFields::default());
        }
        frame.results.into_iter().for_each(|result| self.result(key, result));
        frame.started.into_iter().for_each(|started| self.started(key, &started));
        for attempt in frame.accepted.iter().map(JobAccepted::attempt) {
            if self.call(Event::Accepted { attempt, worker: key }) {
                self.absorb(&ReportFields::default());
                self.accepted(attempt);
            }
        }
        frame.rejected.into_iter().for_each(|rejected| self.rejected(key, rejected));
        for attempt in frame.revoked.into_iter().map(TaskRef::from) {
            let event = Event::Revoked { attempt, worker: key };
            self.unstarted(attempt, key, event, AttemptState::Revoked, None, &ReportFields::default());
        }
        if let Some(status) = frame.status {
            self.metrics.workers.heartbeats.of([session.facts().worker.as_str()]).inc();
            self.publish_heartbeat(key);
            self.status(key, &status);
            if let Some(live) = self.registry.workers.get_mut(key) {
                live.status = Some(Arc::new(status.finite()));
                self.heard = true;
            }
        }
        if frame.seq > 0 {
            if let Some(live) = self.registry.workers.get_mut(key) {
                live.applied = frame.seq;
            }
            self.synced(key);
            // Touched, so that the frame is acknowledged.
            self.out(key);
        }
        let specs: Vec<_> =
            frame.need_specs.iter().filter_map(|number| self.registry.specs.by_number(*number)).collect();
        if !specs.is_empty()
            && let Some(out) = self.out(key)
        {
            out.specs.extend(specs);
        }
        if frame.goodbye.is_some() {
            self.apply(Event::Remove { worker: key, why: Departure::Goodbye }, &ReportFields::default());
            if let Some(session) = self.registry.workers.end_session(key) {
                self.writes.release(Release::Close(session, Closing::Goodbye));
            }
        }
    }

    /// A result: judged by the core, written as the end of its attempt, answered after the commit.
    fn result(&mut self, key: WorkerKey, result: JobResult) {
        let attempt = result.attempt();
        let stored = self.scheduler.attempt_row(attempt, key).is_some();
        let (outcome, ran_ms) = (result.scheduler_outcome(), result.ran_ms());
        let event = Event::Result { attempt, worker: key, outcome, ran_ms };
        if !self.call(event) {
            return;
        }
        let verdict = self.verdict_of(attempt).unwrap_or(ReportVerdict::Unknown);
        let accepted_final = verdict.counts() && self.is_final(attempt);
        if verdict.counts() {
            // A result implies that it was accepted.
            self.accepted(attempt);
            self.trace_result(&result);
        }
        let fields = ReportFields {
            reason: (!result.reason.is_empty()).then(|| result.reason.clone().into()),
            exit_code: result.exit_code,
            started_at: result.started(),
            finished_at: result.finished(),
        };
        if verdict.counts()
            && let (Some(started), Some(finished)) = (result.started(), result.finished())
        {
            self.count_run(attempt.job, result.task_end().as_str(), finished.since(started).as_secs_f64());
        }
        if stored {
            self.keep_links(&result);
            self.count_lost(&result);
            self.writes.records.push(Record::Attempt(Box::new(ended(result, accepted_final, self.wall))));
        }
        self.answer(key, attempt, verdict);
        self.absorb(&fields);
    }

    /// Writes down that a job refers to what an attempt left.
    fn keep_links(&mut self, result: &JobResult) {
        let TaskRef { job, index, member, attempt, .. } = result.attempt();
        let Some(live) = self.registry.jobs.get(job) else { return };
        let tenant = live.spec.demand().tenant.clone();
        for artifact in &result.artifacts {
            let name = format!("out/{index}/{member}/{attempt}/{}", artifact.name);
            let link = ArtifactLink {
                job,
                name,
                sha256: artifact.sha256.clone(),
                tenant: tenant.clone(),
                left_by: Vec::new(),
                executable: artifact.executable,
            };
            // Writing a link as JSON does not fail: it holds texts and numbers only.
            self.writes.records.extend(Record::put(&link).ok());
        }
    }

    /// Counts what an attempt lost of its output, once that is written: whatever no chunk reported.
    fn count_lost(&mut self, result: &JobResult) {
        let (attempt, bytes) = (result.attempt(), result.log_summary().dropped_bytes);
        if bytes > 0 {
            let (losses, metrics) = (Arc::clone(&self.losses), Arc::clone(&self.metrics));
            let count = move || {
                metrics.transport.log_dropped_bytes.of(["worker"]).inc_by(losses.end(attempt, bytes));
            };
            self.writes.release(Release::Reply(Box::new(count)));
        }
    }

    /// Tells a worker what a message was worth. The acknowledgement says it of those that count.
    fn answer(&mut self, key: WorkerKey, attempt: TaskRef, verdict: ReportVerdict) {
        if verdict != ReportVerdict::Unknown || !self.may_recall(key, attempt) {
            self.tell_verdict(key, attempt, verdict);
        }
    }

    pub(super) fn tell_verdict(&mut self, key: WorkerKey, attempt: TaskRef, verdict: ReportVerdict) {
        self.verdicts[verdict as usize] += 1;
        self.count_verdict(verdict as usize);
        if verdict != ReportVerdict::Accepted
            && let Some(out) = self.out(key)
        {
            out.verdicts.push(Judgement::new(attempt, verdict));
        }
    }

    fn started(&mut self, key: WorkerKey, started: &JobStarted) {
        let attempt = started.attempt();
        if !self.call(Event::Started { attempt, worker: key }) {
            return;
        }
        let verdict = self.verdict_of(attempt).unwrap_or(ReportVerdict::Unknown);
        if verdict.counts() {
            self.accepted(attempt);
            self.trace_started(attempt);
            let started_at = started.started().or(Some(self.wall));
            let gpu = self.gpu_of(attempt, key);
            self.writes.records.push(Record::Attempt(Box::new(AttemptChange {
                started_at,
                gpu,
                ..AttemptChange::new(attempt, AttemptState::Running)
            })));
        }
        self.answer(key, attempt, verdict);
        self.absorb(&ReportFields { started_at: started.started(), ..ReportFields::default() });
    }

    fn rejected(&mut self, key: WorkerKey, rejected: Rejected) {
        let (attempt, reason) = (rejected.attempt(), rejected.reason);
        let event = Event::Rejected { attempt, worker: key, permanent: is_permanent(&reason) };
        // What no other worker would change is what the job fails for.
        let fields =
            ReportFields { reason: is_permanent(&reason).then(|| reason.clone().into()), ..ReportFields::default() };
        self.unstarted(attempt, key, event, AttemptState::Rejected, Some(reason), &fields);
    }

    /// An attempt ended before it started.
    fn unstarted(
        &mut self,
        attempt: TaskRef,
        key: WorkerKey,
        event: Event,
        state: AttemptState,
        reason: Option<String>,
        fields: &ReportFields,
    ) {
        let before = self.scheduler.attempt_row(attempt, key).is_some();
        self.trace_started(attempt);
        if !self.call(event) {
            return;
        }
        self.not_accepted(
            attempt,
            reason.as_deref().filter(|reason| !reason.is_empty()).unwrap_or("it was taken back"),
        );
        if before && self.scheduler.attempt_row(attempt, key).is_none() {
            let reason = reason.filter(|reason| !reason.is_empty()).map(Into::into);
            self.writes.records.push(Record::Attempt(Box::new(AttemptChange {
                finished_at: Some(self.wall),
                end: Some(AttemptEnd { reason, ..AttemptEnd::default() }),
                ..AttemptChange::new(attempt, state)
            })));
        }
        self.absorb(fields);
    }

    /// A worker's report on itself: it is alive, and well or not.
    pub(super) fn status(&mut self, key: WorkerKey, status: &WorkerStatus) {
        self.apply(Event::Heartbeat { worker: key }, &ReportFields::default());
        if !status.health.is_empty() {
            let good = status.health.iter().all(|check| check.ok);
            self.apply(Event::HealthReport { worker: key, good }, &ReportFields::default());
        }
        if status.worker_state() == orlop_core::machine::worker::WorkerState::Draining
            && self.scheduler.worker_view(key).is_some_and(|view| !view.draining)
        {
            let order = orlop_scheduler::event::DrainOrder { deadline: None, host_shutdown: true };
            self.apply(Event::Drain { worker: key, order }, &ReportFields::default());
        }
    }

    /// Whether a worker that came back has sent all it had spooled: what is still missing then is lost.
    fn synced(&mut self, key: WorkerKey) {
        let Some(live) = self.registry.workers.get_mut(key) else { return };
        let Some(syncing) = live.syncing.take_if(|syncing| syncing.until <= live.applied) else { return };
        for attempt in syncing.missing {
            if self.scheduler.attempt_row(attempt, key).is_some() {
                self.result(key, JobResult::new(attempt, TaskEnd::Lost));
            }
        }
    }
}

/// The record of an attempt that ended.
fn ended(result: JobResult, accepted_final: bool, wall: orlop_core::time::Time) -> AttemptChange {
    let (attempt, state) = (result.attempt(), AttemptState::from(result.task_end()));
    let has_detail = !(result.outputs.is_empty() && result.artifacts.is_empty() && result.tail.is_empty())
        || result.log_summary() != crate::wire::attempt::LogSummary::default();
    let detail = has_detail.then(|| Box::new(detail(&result)));
    let usage = Some(result.task_usage()).filter(|usage| *usage != Usage::default());
    let (started_at, finished_at) = (result.started(), result.finished().or(Some(wall)));
    let end = AttemptEnd {
        accepted_final,
        exit_code: result.exit_code,
        signal: result.signal,
        reason: (!result.reason.is_empty()).then(|| result.reason.into()),
        usage,
        detail,
    };
    AttemptChange { started_at, finished_at, end: Some(end), ..AttemptChange::new(attempt, state) }
}

/// What else came with a result: the body is a JSON object of `outputs`, `artifacts` and `log`.
fn detail(result: &JobResult) -> AttemptDetail {
    let artifact = |artifact: &crate::wire::attempt::Artifact| {
        let crate::wire::attempt::Artifact { name, sha256, bytes, path, executable } = artifact;
        serde_json::json!({ "name": name, "sha256": sha256, "bytes": bytes, "path": path, "executable": executable })
    };
    let log = result.log_summary();
    let body = serde_json::json!({
        "outputs": result.outputs,
        "artifacts": result.artifacts.iter().map(artifact).collect::<Vec<_>>(),
        "log": {
            "bytes": log.bytes,
            "dropped_bytes": log.dropped_bytes,
            "dropped_chunks": log.dropped_chunks,
            "last_seq": log.last_seq,
        },
    });
    AttemptDetail { body: body.to_string().into(), tail: result.tail.to_vec() }
}
