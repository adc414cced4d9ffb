//! Attempts whose Jobs run no pod yet. Owns when pods and events are read, since they are not watched, and
//! what the engine learns of them.

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

use super::memory::{Memory, Unit};
use super::obstacle::{Obstacle, has_run, of_events, of_pods, since};
use super::{Controller, text};
use crate::api::{Api, ApiError, Kind, Request};
use crate::observe;

/// How long a container may wait for what its variables come from.
const PATIENCE: Duration = Duration::from_secs(60);
/// After what time without a pod that runs it is asked why.
const FIRST: Duration = Duration::from_secs(15);
/// Between two questions, once there was an answer or two questions had none.
const LATER: Duration = Duration::from_secs(60);
/// What a kubelet says of a container whose variables cannot be filled.
const CONFIG_ERROR: &str = "CreateContainerConfigError";
/// What is said of an attempt whose Job was suspended, by others than its flow.
const QUEUED: (&str, &str) =
    ("Suspended", "its Job is suspended by somebody else, such as a queue, and waits to be let run");

/// What pods of an attempt show that is given values of Secrets.
#[derive(Debug, PartialEq, Eq)]
enum Sight {
    /// A container has waited too long, for this.
    Stuck(String),
    /// Nothing runs yet; look again then.
    Early(Time),
    /// Something runs or has run.
    Runs,
}

/// Whether a step is given values of Secrets.
fn reads_secrets(plan: &Plan, at: Address) -> bool {
    let inputs = plan.step(at.step).map(orlop_core::spec::step::Step::input_parameters).unwrap_or_default();
    inputs.iter().any(|input| matches!(input_source(input), Ok(InputSource::Secret(_))))
        || plan.spec().parameters.iter().any(|given| matches!(flow_source(given), Ok(FlowSource::Secret(_))))
}

impl Memory {
    /// The Job of an attempt may make pods since then: they are looked at where none has run soon.
    fn watch_pods(&mut self, unit: Unit, since: Time) {
        self.pods.insert(unit, since.plus(FIRST));
    }

    /// The same for all that ran when the flow was read.
    pub(super) fn watch_all_pods(&mut self, now: Time) {
        let live: Vec<Unit> = self.state.live().collect();
        for unit in live {
            let since = step_status(&self.plan, &self.state, unit.0).start_time.unwrap_or(now);
            self.watch_pods(unit, since);
        }
    }

    /// A Job was accepted, or resumed. A limit for its first pod runs from then on.
    pub(super) fn watch_first_pod(&mut self, unit: Unit, since: Time, now: Time) {
        self.watch_pods(unit, now);
        if self.limits_first_pod(unit.0) {
            self.note_obstacle(unit, Some(WaitsOn::FirstPod), Obstacle::default(), since, now);
        }
    }

    fn limits_first_pod(&self, at: Address) -> bool {
        self.plan.step(at.step).is_some_and(|step| step.pending_timeout_seconds.is_some())
    }

    fn waits_on(&self, at: Address) -> Option<WaitsOn> {
        step_status(&self.plan, &self.state, at).waiting.map(|waiting| waiting.on)
    }

    fn note_obstacle(&mut self, unit: Unit, on: Option<WaitsOn>, obstacle: Obstacle, since: Time, now: Time) {
        let ((at, attempt), Obstacle { reason, message }) = (unit, obstacle);
        self.tell(&FlowEvent::AttemptWaiting { at, attempt, on, reason, message, since }, now);
    }

    /// Whether an attempt is still to be resumed.
    fn resumes(&self, unit: Unit) -> bool {
        let effects = self.queue.iter().chain(&self.unstored).chain(self.later.iter().map(|(_, effect)| effect));
        effects
            .into_iter()
            .any(|effect| matches!(effect, FlowEffect::ResumeAttempt { at, attempt, .. } if (*at, *attempt) == unit))
    }

    /// A Job was seen: whether somebody else holds it back, or lets it run, or a pod of it runs.
    pub(super) fn note_waiting(&mut self, unit: Unit, job: &Value, now: Time) {
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
                let obstacle = Obstacle { reason: QUEUED.0.to_owned(), message: QUEUED.1.to_owned() };
                self.note_obstacle(unit, Some(WaitsOn::Suspended), obstacle, since, now);
            }
        } else if has_run(job) {
            self.pods.remove(&unit);
            if before.is_some() {
                self.note_obstacle(unit, None, Obstacle::default(), now, now);
            }
        } else if before == Some(WaitsOn::Suspended) {
            let on = self.limits_first_pod(unit.0).then_some(WaitsOn::FirstPod);
            self.note_obstacle(unit, on, Obstacle::default(), since, now);
            self.watch_pods(unit, now);
        }
    }
}

impl<A: Api> Controller<A> {
    /// Looks at the pods whose time has come.
    pub(super) async fn look_at_pods(&self, memory: &mut Memory) {
        let now = self.now();
        let due: Vec<Unit> = memory.pods.iter().filter(|(_, at)| **at <= now).map(|(unit, _)| *unit).collect();
        for unit in due {
            memory.pods.remove(&unit);
            if let Err(error) = self.look_at_pods_of(memory, unit).await {
                tracing::warn!(flow = %memory.owner.name, %error, "pods cannot be looked at now");
                let wait = attempt::patience(&error.port_error("looking at pods"), 1);
                memory.pods.insert(unit, now.plus(wait));
            }
        }
    }

    async fn look_at_pods_of(&self, memory: &mut Memory, unit: Unit) -> Result<(), ApiError> {
        let now = self.now();
        let Some(reference) = step_status(&memory.plan, &memory.state, unit.0).job_ref else { return Ok(()) };
        let active = memory.state.attempt(unit.0) == Some((StepState::Active, unit.1));
        if !active {
            return Ok(());
        }
        let Some(job) = self.known().cache.job(&memory.owner.uid, &reference.name) else {
            // The watch has not shown it yet.
            memory.pods.insert(unit, now.plus(LATER));
            return Ok(());
        };
        if observe::conclusion(&job).is_some() || has_run(&job) {
            return Ok(());
        }
        if job.pointer("/spec/suspend").and_then(Value::as_bool) == Some(true) {
            // Its resumption is seen.
            return Ok(());
        }
        let labels = format!("batch.kubernetes.io/job-name={}", reference.name);
        let list = self.api.send(&Request::list(Kind::Pod, &memory.owner.namespace, labels)).await?;
        let pods = list.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let began = since(&job).unwrap_or(now);
        let mut next = if now.since(began) < FIRST * 2 { began.plus(FIRST * 2) } else { now.plus(LATER) };
        let mut latest = None;
        if reads_secrets(&memory.plan, unit.0) {
            match sight(pods, now) {
                Sight::Stuck(why) => return self.give_up(memory, unit, &job, why).await,
                Sight::Early(at) => latest = Some(at),
                Sight::Runs => {}
            }
        }
        let known = step_status(&memory.plan, &memory.state, unit.0).waiting;
        let found = self.obstacle(&memory.owner.namespace, &job, pods).await?;
        if found.is_some() || known.is_some() {
            let found = found.unwrap_or_default();
            if !found.reason.is_empty() {
                next = next.max(now.plus(LATER));
            }
            let since = known.and_then(|known| known.since).unwrap_or(began);
            memory.note_obstacle(unit, Some(WaitsOn::FirstPod), found, since, now);
        }
        memory.pods.insert(unit, latest.map_or(next, |at| next.min(at)));
        Ok(())
    }

    /// What keeps a Job from running a pod, as far as the cluster says so.
    async fn obstacle(&self, namespace: &str, job: &Value, pods: &[Value]) -> Result<Option<Obstacle>, ApiError> {
        if let Some(found) = of_pods(pods) {
            return Ok(Some(found));
        }
        let about = pods.first().unwrap_or(job);
        let fields = format!("regarding.uid={}", text(about, "/metadata/uid"));
        match self.api.send(&Request::list(Kind::Event, namespace, String::new()).fields(fields)).await {
            Ok(list) => Ok(list.get("items").and_then(Value::as_array).and_then(|events| of_events(events))),
            // Nobody has to be allowed to read events.
            Err(error) if matches!(error.code, Some(403 | 404)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Ends an attempt whose pods wait for a Secret that is not there.
    async fn give_up(&self, memory: &mut Memory, unit: Unit, job: &Value, why: String) -> Result<(), ApiError> {
        let (now, name, uid) = (self.now(), text(job, "/metadata/name"), text(job, "/metadata/uid"));
        let request = Request::delete(Kind::Job, &memory.owner.namespace, &name, Some(uid.clone()));
        match self.api.send(&request.after_its_children()).await {
            // Another Job has its name, or none: whoever looks at Jobs tells so.
            Err(error) if matches!(error.code, Some(404 | 409)) => return Ok(()),
            Ok(job) if text(&job, "/kind") == "Job" => drop(self.job_seen(&job)),
            answer => {
                drop(answer?);
                self.known().cache.forget_job(&memory.owner.uid, &name, &uid);
            }
        }
        let result = EndResult::Failed { reason: "ParameterUnresolved".to_owned(), message: why };
        let (document, failed_pods, files, artifacts) = Default::default();
        memory.remove(unit, now).end =
            Some(AttemptEnd { result, document, failed_pods, files, artifacts, ended_at: now });
        Ok(())
    }
}

/// What pods show. Without any the Job is young, or its pods cannot be created.
fn sight(pods: &[Value], now: Time) -> Sight {
    let mut next = now.plus(PATIENCE);
    for pod in pods {
        let lists = ["/status/initContainerStatuses", "/status/containerStatuses"];
        let statuses =
            || lists.iter().flat_map(|list| pod.pointer(list).and_then(Value::as_array).into_iter().flatten());
        let waits = |status: &&Value| text(status, "/state/waiting/reason") == CONFIG_ERROR;
        if let Some(status) = statuses().find(waits) {
            let of = |path: &str| text(pod, path).parse::<Time>().ok();
            let over =
                of("/status/startTime").or_else(|| of("/metadata/creationTimestamp")).unwrap_or(now).plus(PATIENCE);
            if over <= now {
                let told = text(status, "/state/waiting/message");
                let name = text(status, "/name");
                return Sight::Stuck(format!("container `{name}` has waited for {} s: {told}", PATIENCE.as_secs()));
            }
            next = next.min(over);
        } else if statuses().any(|status| status.pointer("/state/waiting").is_none()) {
            return Sight::Runs;
        }
    }
    Sight::Early(next)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(started: &str, state: &Value) -> Value {
        json!({"metadata": {"creationTimestamp": "2026-11-22T10:00:00Z"},
            "status": {"startTime": started, "containerStatuses": [{"name": "main", "state": state}]}})
    }

    #[test]
    fn r29_only_a_container_that_waits_for_its_variables_a_minute_is_stuck() {
        let now: Time = "2026-11-22T10:02:00Z".parse().unwrap();
        let waits =
            json!({"waiting": {"reason": "CreateContainerConfigError", "message": "secret \"vault\" not found"}});
        let pulls = json!({"waiting": {"reason": "ContainerCreating"}});
        let told = "container `main` has waited for 60 s: secret \"vault\" not found".to_owned();
        assert_eq!(sight(&[pod("2026-11-22T10:01:00Z", &waits)], now), Sight::Stuck(told));
        let early = Sight::Early("2026-11-22T10:02:01Z".parse().unwrap());
        assert_eq!(sight(&[pod("2026-11-22T10:01:01Z", &waits)], now), early);
        let later = now.plus(PATIENCE);
        assert_eq!(sight(&[pod("2026-11-22T10:00:00Z", &pulls)], now), Sight::Early(later));
        assert_eq!(sight(&[], now), Sight::Early(later));
        for state in [json!({"running": {}}), json!({"terminated": {"exitCode": 1}})] {
            assert_eq!(sight(&[pod("2026-11-22T10:00:00Z", &state)], now), Sight::Runs);
        }
    }
}
