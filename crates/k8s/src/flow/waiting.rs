//! Attempts whose pods wait for a Secret that is not there (rule R29). Owns when pods are looked at, since they are not
//! watched: a minute after the Job was created, and only those of steps that read Secrets.

use std::time::Duration;

use orlop_core::attempt::{Address, AttemptEnd, EndResult};
use orlop_core::time::Time;
use orlop_dag::attempt;
use orlop_dag::engine::step_status;
use orlop_dag::params::{FlowSource, InputSource, flow_source, input_source};
use orlop_dag::plan::Plan;
use serde_json::Value;

use super::memory::{Memory, Unit};
use super::{Controller, text};
use crate::api::{Api, ApiError, Kind, Request};
use crate::observe;

/// How long a container may wait for what its variables come from.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a kubelet says of a container whose variables cannot be filled.
const CONFIG_ERROR: &str = "CreateContainerConfigError";

/// What pods of an attempt show.
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
    /// An attempt runs: its pods are looked at when their patience is over.
    pub(super) fn watch_pods(&mut self, unit: Unit, since: Time) {
        if reads_secrets(&self.plan, unit.0) {
            self.pods.insert(unit, since.plus(PATIENCE));
        }
    }

    /// The same for all that ran when the flow was read.
    pub(super) fn watch_all_pods(&mut self, now: Time) {
        let live: Vec<Unit> = self.state.live().collect();
        for unit in live {
            let since = step_status(&self.plan, &self.state, unit.0).start_time.unwrap_or(now);
            self.watch_pods(unit, since);
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
        let live = memory.state.live().any(|live| live == unit);
        let job = self.known().cache.job(&memory.owner.uid, &reference.name).filter(|_| live);
        let Some(job) = job.filter(|job| observe::conclusion(job).is_none()) else { return Ok(()) };
        if job.pointer("/status/ready").and_then(Value::as_u64).unwrap_or(0) > 0 {
            return Ok(());
        }
        let labels = format!("batch.kubernetes.io/job-name={}", reference.name);
        let list = self.api.send(&Request::list(Kind::Pod, &memory.owner.namespace, labels)).await?;
        let pods = list.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let why = match sight(pods, now) {
            Sight::Runs => return Ok(()),
            Sight::Early(at) => {
                memory.pods.insert(unit, at);
                return Ok(());
            }
            Sight::Stuck(why) => why,
        };
        let uid = Some(text(&job, "/metadata/uid"));
        match self.api.send(&Request::delete(Kind::Job, &memory.owner.namespace, &reference.name, uid)).await {
            // Another Job has its name, or none: whoever looks at Jobs tells so.
            Err(error) if matches!(error.code, Some(404 | 409)) => return Ok(()),
            answer => drop(answer?),
        }
        self.known().cache.forget_job(&memory.owner.uid, &reference.name, &reference.uid);
        let result = EndResult::Failed { reason: "ParameterUnresolved".to_owned(), message: why };
        let (document, failed_pods, files, artifacts) = Default::default();
        let end = AttemptEnd { result, document, failed_pods, files, artifacts, ended_at: now };
        memory.tell_end(unit, end, now);
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
