//! Attempts whose Jobs run no pod yet, or of which pods failed. Owns when their pods are looked up, and what the engine learns
//! of what was found.

use std::sync::Arc;
use std::time::Duration;

use orlop_core::attempt::{Address, AttemptEnd, EndResult};
use orlop_core::effect::FlowEffect;
use orlop_core::event::FlowEvent;
use orlop_core::machine::step::StepState;
use orlop_core::spec::status::WaitsOn;
use orlop_core::time::Time;
use orlop_dag::attempt;
use orlop_dag::engine::step_status;
use orlop_dag::params::{FlowSource, InputSource, flow_source, input_source};
use orlop_dag::plan::Plan;
use serde_json::Value;

use super::lookup::PodLookup;
use super::memory::{AttemptKey, Memory};
use super::wait_reason::{Progress, WaitReason, failed_pods, has_run, of_failures, since};
use super::{Controller, text};
use crate::api::{Api, ApiError, Kind, Request};
use crate::observe;

/// After what time without a pod that runs it is asked why.
const FIRST: Duration = Duration::from_secs(15);
/// Between two questions, once there was an answer or two questions had none.
const LATER: Duration = Duration::from_secs(60);
/// After what time an attempt is given up whose status could not be written yet.
const AGAIN: Duration = Duration::from_secs(1);
/// What an attempt waits for that is given up, in a word.
const GIVEN_UP: &str = "ParameterUnresolved";
/// What is said of an attempt whose Job was suspended, by others than its flow.
const QUEUED: (&str, &str) =
    ("Suspended", "its Job is suspended by another controller, such as a queue, and waits to be resumed");

/// Whether a step is given values of Secrets.
fn reads_secrets(plan: &Plan, at: Address) -> bool {
    let inputs = plan.step(at.step).map(orlop_core::spec::step::Step::input_parameters).unwrap_or_default();
    inputs.iter().any(|input| matches!(input_source(input), Ok(InputSource::Secret(_))))
        || plan.spec().parameters.iter().any(|given| matches!(flow_source(given), Ok(FlowSource::Secret(_))))
}

impl Memory {
    /// The Job of an attempt may make pods since then: they are read where none has run soon.
    fn watch_pods(&mut self, unit: AttemptKey, since: Time) {
        self.pods.insert(unit, since.plus(FIRST));
    }

    /// The same for all that ran when the flow was read.
    pub(super) fn watch_all_pods(&mut self, now: Time) {
        let live: Vec<AttemptKey> = self.state.live().collect();
        for unit in live {
            let since = step_status(&self.plan, &self.state, unit.0).start_time.unwrap_or(now);
            self.watch_pods(unit, since);
        }
    }

    /// A Job was accepted, or resumed. A limit for its first pod runs from then on.
    pub(super) fn watch_first_pod(&mut self, unit: AttemptKey, since: Time, now: Time) {
        self.watch_pods(unit, now);
        if self.limits_first_pod(unit.0) {
            self.record_wait(unit, Some(WaitsOn::FirstPod), WaitReason::default(), since, now);
        }
    }

    fn limits_first_pod(&self, at: Address) -> bool {
        self.plan.step(at.step).is_some_and(|step| step.pending_timeout_seconds.is_some())
    }

    fn waits_on(&self, at: Address) -> Option<WaitsOn> {
        step_status(&self.plan, &self.state, at).waiting.map(|waiting| waiting.on)
    }

    fn record_wait(&mut self, unit: AttemptKey, on: Option<WaitsOn>, wait_reason: WaitReason, since: Time, now: Time) {
        let ((at, attempt), WaitReason { reason, message }) = (unit, wait_reason);
        self.apply_event(&FlowEvent::AttemptWaiting { at, attempt, on, reason, message, since }, now);
    }

    /// The end of an attempt that was given up because its pods wait for a Secret that is not there; none where it was not. What
    /// it waits for says so, also after a restart.
    pub(super) fn given_up(&self, unit: AttemptKey, now: Time) -> Option<AttemptEnd> {
        let waiting = step_status(&self.plan, &self.state, unit.0).waiting.filter(|known| known.reason == GIVEN_UP)?;
        let (document, failed_pods, files, artifacts) = Default::default();
        let result = EndResult::Failed { reason: waiting.reason, message: waiting.message };
        let current = self.state.attempt(unit.0).is_some_and(|(_, attempt)| attempt == unit.1);
        current.then_some(AttemptEnd { result, document, failed_pods, files, artifacts, ended_at: now })
    }

    /// Whether pods of a Job have failed of which it was not told how.
    fn has_new_failures(&self, unit: AttemptKey, job: &Value) -> bool {
        let failed = failed_pods(job);
        failed > 0 && self.failed_pods.get(&unit) != Some(&failed)
    }

    /// Tells of pods that failed and in whose place their Job runs others.
    fn record_failures(&mut self, unit: AttemptKey, job: &Value, last: Option<&str>, now: Time) {
        self.failed_pods.insert(unit, failed_pods(job));
        let known = step_status(&self.plan, &self.state, unit.0).waiting;
        let since = known.filter(|known| known.on == WaitsOn::NextPod).and_then(|known| known.since).unwrap_or(now);
        self.record_wait(unit, Some(WaitsOn::NextPod), of_failures(job, last), since, now);
    }

    /// Whether an attempt is still to be resumed.
    fn resumes(&self, unit: AttemptKey) -> bool {
        let effects = self.queue.iter().chain(&self.unstored).chain(self.later.iter().map(|(_, effect)| effect));
        effects
            .into_iter()
            .any(|effect| matches!(effect, FlowEffect::ResumeAttempt { at, attempt, .. } if (*at, *attempt) == unit))
    }

    /// Records from a Job whether it is suspended by another controller, or waits for its first pod.
    pub(super) fn record_waiting(&mut self, unit: AttemptKey, job: &Value, now: Time) {
        let active = self.state.attempt(unit.0) == Some((StepState::Active, unit.1));
        let suspended = job.pointer("/spec/suspend").and_then(Value::as_bool).unwrap_or(false);
        // Where it was this flow, the engine knows.
        if !active || suspended && self.state.is_frozen(unit.0) || observe::conclusion(job).is_some() {
            return;
        }
        let (before, since) = (self.waits_on(unit.0), since(job).unwrap_or(now));
        if suspended {
            // Where this flow is still to resume it, nobody else holds it back.
            if before != Some(WaitsOn::Suspended) && !self.resumes(unit) {
                let wait_reason = WaitReason { reason: QUEUED.0.to_owned(), message: QUEUED.1.to_owned() };
                self.record_wait(unit, Some(WaitsOn::Suspended), wait_reason, since, now);
            }
        } else if has_run(job) {
            self.pods.remove(&unit);
            if before.is_some_and(|on| on != WaitsOn::NextPod) {
                self.record_wait(unit, None, WaitReason::default(), now, now);
            }
            if self.has_new_failures(unit, job) {
                self.pods.insert(unit, now);
            }
        } else if before == Some(WaitsOn::Suspended) {
            let on = self.limits_first_pod(unit.0).then_some(WaitsOn::FirstPod);
            self.record_wait(unit, on, WaitReason::default(), since, now);
            self.watch_pods(unit, now);
        }
    }
}

impl<A: Api> Controller<A> {
    /// Takes what was found of pods, and asks for those whose time has come.
    pub(super) async fn check_pods(&self, memory: &mut Memory) {
        for (unit, found) in self.take_lookups(memory) {
            let taken = match found {
                Ok(found) => self.take_found(memory, unit, found).await,
                Err(error) => Err(error),
            };
            if let Err(error) = taken {
                tracing::warn!(flow = %memory.key(), %error, "pods cannot be looked at now");
                let wait = attempt::patience(&error.port_error("looking at pods"), 1);
                memory.pods.insert(unit, self.now().plus(wait));
            }
        }
        let now = self.now();
        let due: Vec<AttemptKey> = memory.pods.iter().filter(|(_, at)| **at <= now).map(|(unit, _)| *unit).collect();
        for unit in due {
            memory.pods.remove(&unit);
            match self.job_asked_about(memory, unit) {
                Some(Some(job)) => self.look_up_later(memory, unit, job),
                // The watch has not shown it yet.
                Some(None) => drop(memory.pods.insert(unit, now.plus(LATER))),
                None => {}
            }
        }
    }

    /// The Job of an attempt that runs no pod yet, or of which pods failed, where a watch has shown it; none where there is nothing
    /// to ask about.
    fn job_asked_about(&self, memory: &Memory, unit: AttemptKey) -> Option<Option<Arc<Value>>> {
        let reference = step_status(&memory.plan, &memory.state, unit.0).job_ref?;
        if memory.state.attempt(unit.0) != Some((StepState::Active, unit.1)) {
            return None;
        }
        let Some(job) = self.known().cache.job(&memory.owner.uid, &reference.name) else { return Some(None) };
        // The resumption of one that is suspended is seen.
        let suspended = job.pointer("/spec/suspend").and_then(Value::as_bool) == Some(true);
        let open = !has_run(&job) || memory.has_new_failures(unit, &job);
        (!suspended && observe::conclusion(&job).is_none() && open).then_some(Some(job))
    }

    /// What was found of the pods of an attempt that still runs none, or of which pods failed.
    async fn take_found(&self, memory: &mut Memory, unit: AttemptKey, found: PodLookup) -> Result<(), ApiError> {
        let Some(Some(job)) = self.job_asked_about(memory, unit) else { return Ok(()) };
        let now = self.now();
        if text(&job, "/metadata/uid") != found.job {
            memory.pods.insert(unit, now);
            return Ok(());
        }
        if has_run(&job) {
            memory.record_failures(unit, &job, found.last_failure.as_deref(), now);
            return Ok(());
        }
        let began = since(&job).unwrap_or(now);
        let mut next = if now.since(began) < FIRST * 2 { began.plus(FIRST * 2) } else { now.plus(LATER) };
        let mut latest = None;
        if reads_secrets(&memory.plan, unit.0) {
            match found.progress {
                // The status names the reason before the Job goes: the next controller finds it there.
                Progress::Stuck(why) => match memory.given_up(unit, now) {
                    Some(_) if memory.dirty => {
                        memory.pods.insert(unit, now.plus(AGAIN));
                        return Ok(());
                    }
                    Some(_) => return self.give_up(memory, unit, &job).await,
                    None => {
                        let wait_reason = WaitReason { reason: GIVEN_UP.to_owned(), message: why };
                        memory.record_wait(unit, Some(WaitsOn::FirstPod), wait_reason, began, now);
                        memory.urgent = true;
                        memory.pods.insert(unit, now);
                        return Ok(());
                    }
                },
                Progress::Early(at) => latest = Some(at),
                Progress::Runs => {}
            }
        }
        let known = step_status(&memory.plan, &memory.state, unit.0).waiting;
        if found.wait_reason.is_some() || known.is_some() {
            let wait_reason = found.wait_reason.unwrap_or_default();
            if !wait_reason.reason.is_empty() {
                next = next.max(now.plus(LATER));
            }
            let since = known.and_then(|known| known.since).unwrap_or(began);
            memory.record_wait(unit, Some(WaitsOn::FirstPod), wait_reason, since, now);
        }
        memory.pods.insert(unit, latest.map_or(next, |at| next.min(at)));
        Ok(())
    }

    /// Ends an attempt whose pods wait for a Secret that is not there.
    async fn give_up(&self, memory: &mut Memory, unit: AttemptKey, job: &Value) -> Result<(), ApiError> {
        let (now, name, uid) = (self.now(), text(job, "/metadata/name"), text(job, "/metadata/uid"));
        let request = Request::delete(Kind::Job, &memory.owner.namespace, &name, Some(uid.clone()));
        match self.api.send(&request.after_its_children()).await {
            // Another Job has its name, or none: observing the Jobs finds that.
            Err(error) if matches!(error.code, Some(404 | 409)) => return Ok(()),
            Ok(job) if text(&job, "/kind") == "Job" => drop(self.job_applied(&job)),
            answer => {
                drop(answer?);
                self.known().cache.forget_job(&memory.owner.uid, &name, &uid);
            }
        }
        memory.remove(unit, now);
        Ok(())
    }
}
