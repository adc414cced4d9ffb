//! Why an attempt does not run yet, from its pods, or from events about them and its Job.

use std::time::Duration;

use orlop_core::time::Time;
use serde_json::Value;

use super::text;

/// How long a container may wait for what its variables come from.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a kubelet says of a container whose variables cannot be filled.
const CONFIG_ERROR: &str = "CreateContainerConfigError";
/// Words of containers that start as they should.
const STARTING: [&str; 3] = ["", "ContainerCreating", "PodInitializing"];

/// Why an attempt waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WaitReason {
    /// One word, as Kubernetes reports it.
    pub(super) reason: String,
    /// A sentence.
    pub(super) message: String,
}

/// The progress of the containers of an attempt that reads Secrets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// A container has waited too long, for this.
    Stuck(String),
    /// Nothing runs yet; look again then.
    Early(Time),
    /// Something runs or has run.
    Runs,
}

/// What pods themselves say: a container that does not start, or that no node takes the pod.
pub(super) fn of_pods(pods: &[Value]) -> Option<WaitReason> {
    pods.iter().find_map(|pod| of_container(pod).or_else(|| of_scheduling(pod)))
}

fn of_container(pod: &Value) -> Option<WaitReason> {
    statuses(pod).filter_map(|status| Some((status, status.pointer("/state/waiting")?))).find_map(
        |(status, waiting)| {
            let reason = text(waiting, "/reason");
            let message = format!("container `{}`: {}", text(status, "/name"), text(waiting, "/message"));
            (!STARTING.contains(&reason.as_str())).then_some(WaitReason { reason, message })
        },
    )
}

fn of_scheduling(pod: &Value) -> Option<WaitReason> {
    let conditions = pod.pointer("/status/conditions")?.as_array()?;
    let refused = conditions
        .iter()
        .find(|condition| text(condition, "/type") == "PodScheduled" && text(condition, "/status") == "False")?;
    Some(WaitReason { reason: text(refused, "/reason"), message: text(refused, "/message") })
}

/// How far containers are. Without any pod the Job is young, or its pods cannot be created.
pub(super) fn progress(pods: &[Value], now: Time) -> Progress {
    let mut next = now.plus(PATIENCE);
    for pod in pods {
        let waits = |status: &&Value| text(status, "/state/waiting/reason") == CONFIG_ERROR;
        if let Some(status) = statuses(pod).find(waits) {
            let of = |path: &str| text(pod, path).parse::<Time>().ok();
            let over =
                of("/status/startTime").or_else(|| of("/metadata/creationTimestamp")).unwrap_or(now).plus(PATIENCE);
            if over <= now {
                let (name, why) = (text(status, "/name"), text(status, "/state/waiting/message"));
                return Progress::Stuck(format!("container `{name}` has waited for {} s: {why}", PATIENCE.as_secs()));
            }
            next = next.min(over);
        } else if statuses(pod).any(|status| status.pointer("/state/waiting").is_none()) {
            return Progress::Runs;
        }
    }
    Progress::Early(next)
}

/// What the newest warning among events says.
pub(super) fn of_events(events: &[Value]) -> Option<WaitReason> {
    let warnings = events.iter().filter(|event| text(event, "/type") == "Warning");
    let newest = warnings.max_by_key(|event| last_seen(event))?;
    Some(WaitReason { reason: text(newest, "/reason"), message: text(newest, "/note") })
}

/// How many pods of a Job have failed.
pub(super) fn failed_pods(job: &Value) -> u64 {
    job.pointer("/status/failed").and_then(Value::as_u64).unwrap_or(0)
}

/// What is said of a Job of which pods have failed and which goes on.
pub(super) fn of_failures(job: &Value, last: Option<&str>) -> WaitReason {
    let number = |path: &str| job.pointer(path).and_then(Value::as_u64);
    let (failed, limit) = (failed_pods(job), number("/spec/backoffLimit").unwrap_or(0));
    let single = number("/spec/completions").unwrap_or(1) == 1 && number("/spec/parallelism").unwrap_or(1) == 1;
    let mut message = if single {
        format!("{failed} of {} pods failed", limit.saturating_add(1).max(failed))
    } else {
        format!("{failed} pods failed, the Job fails with more than {limit}")
    };
    if let Some(last) = last {
        message.push_str(&format!(", last: {last}"));
    }
    WaitReason { reason: "PodFailed".to_owned(), message }
}

/// How the pod ended that failed last.
pub(super) fn last_failure(pods: &[Value]) -> Option<String> {
    let failed = pods.iter().filter(|pod| text(pod, "/status/phase") == "Failed");
    let last = failed.max_by_key(|pod| (ended_at(pod), text(pod, "/metadata/name")))?;
    let ended = statuses(last).filter_map(|status| Some((status, status.pointer("/state/terminated")?)));
    let bad = ended.filter(|(_, ended)| exit_code(ended) != Some(0)).find_map(|(status, ended)| {
        let (name, reason) = (text(status, "/name"), text(ended, "/reason"));
        let why = if matches!(reason.as_str(), "" | "Error") { String::new() } else { format!(" ({reason})") };
        Some(format!("exit {}{why} of container `{name}`", exit_code(ended)?))
    });
    let own = || [text(last, "/status/reason"), text(last, "/status/message")].into_iter().find(|why| !why.is_empty());
    bad.or_else(own)
}

fn exit_code(ended: &Value) -> Option<i64> {
    ended.get("exitCode")?.as_i64()
}

/// When the last container of a pod ended; times of one form compare as texts.
fn ended_at(pod: &Value) -> String {
    statuses(pod).map(|status| text(status, "/state/terminated/finishedAt")).max().unwrap_or_default()
}

fn statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["/status/initContainerStatuses", "/status/containerStatuses"];
    lists.into_iter().filter_map(|list| pod.pointer(list)?.as_array()).flatten()
}

/// When an event was reported last: of its series, else by the time that its reporter gives.
fn last_seen(event: &Value) -> Option<Time> {
    ["/series/lastObservedTime", "/deprecatedLastTimestamp", "/eventTime", "/metadata/creationTimestamp"]
        .into_iter()
        .find_map(|path| text(event, path).parse().ok())
}

/// Whether a pod of a Job runs or has run.
pub(super) fn has_run(job: &Value) -> bool {
    ["/status/ready", "/status/succeeded", "/status/failed"]
        .into_iter()
        .any(|counter| job.pointer(counter).and_then(Value::as_u64).unwrap_or(0) > 0)
}

/// Since when a Job may make pods, or since when it may not: it was created, suspended or resumed then.
pub(super) fn since(job: &Value) -> Option<Time> {
    let conditions = job.pointer("/status/conditions").and_then(Value::as_array);
    let suspended = conditions.and_then(|all| all.iter().find(|condition| text(condition, "/type") == "Suspended"));
    let changed = suspended.and_then(|condition| text(condition, "/lastTransitionTime").parse().ok());
    changed.or_else(|| text(job, "/metadata/creationTimestamp").parse().ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered(wait_reason: Option<WaitReason>) -> String {
        wait_reason.map(|wait_reason| format!("{}: {}", wait_reason.reason, wait_reason.message)).unwrap_or_default()
    }

    #[test]
    fn pods_say_which_container_does_not_start_or_that_no_node_takes_them() {
        let waits = |reason: &str| {
            json!({"status": {"containerStatuses": [
                {"name": "main", "state": {"waiting": {"reason": reason, "message": "pull access denied"}}}]}})
        };
        assert_eq!(
            rendered(of_pods(&[waits("ContainerCreating"), waits("ErrImagePull")])),
            "ErrImagePull: container `main`: pull access denied"
        );
        assert_eq!(of_pods(&[waits("PodInitializing")]), None);
        let refused = json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/3 nodes are available"}]}});
        assert_eq!(rendered(of_pods(&[refused])), "Unschedulable: 0/3 nodes are available");
    }

    #[test]
    fn failed_pods_of_a_job_that_goes_on_are_counted_and_the_last_one_is_reported() {
        let pod = |name: &str, at: &str, ended: Value| {
            let status = json!({"name": "main", "state": {"terminated": ended}});
            let mut pod =
                json!({"metadata": {"name": name}, "status": {"phase": "Failed", "containerStatuses": [status]}});
            pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] = json!(at);
            pod
        };
        let first = pod("p2", "2026-11-22T10:00:00Z", json!({"exitCode": 137, "reason": "OOMKilled"}));
        let second = pod("p1", "2026-11-22T10:01:00Z", json!({"exitCode": 1, "reason": "Error"}));
        let last = last_failure(&[second.clone(), first.clone()]);
        let job = json!({"spec": {"backoffLimit": 2}, "status": {"failed": 2}});
        assert_eq!(
            rendered(Some(of_failures(&job, last.as_deref()))),
            "PodFailed: 2 of 3 pods failed, last: exit 1 of container `main`"
        );
        assert_eq!(last_failure(&[first]).unwrap(), "exit 137 (OOMKilled) of container `main`");
        let many = json!({"spec": {"backoffLimit": 6, "completions": 4, "parallelism": 2}, "status": {"failed": 2}});
        assert_eq!(of_failures(&many, None).message, "2 pods failed, the Job fails with more than 6");
        let evicted = json!({"metadata": {"name": "p"}, "status": {"phase": "Failed", "reason": "Evicted"}});
        assert_eq!(last_failure(&[evicted]).unwrap(), "Evicted");
    }

    #[test]
    fn of_events_the_newest_warning_counts() {
        let event = |kind: &str, note: &str, at: &str| json!({"type": kind, "reason": "FailedCreate", "note": note, "eventTime": at});
        let repeated = json!({"type": "Warning", "reason": "FailedCreate", "note": "quota", "eventTime": "2026-11-22T10:00:00.000000Z",
            "series": {"count": 4, "lastObservedTime": "2026-11-22T10:09:00.000000Z"}});
        let all = [
            event("Warning", "old", "2026-11-22T10:01:00.000000Z"),
            repeated,
            event("Normal", "n", "2026-11-22T11:00:00.000000Z"),
        ];
        assert_eq!(rendered(of_events(&all)), "FailedCreate: quota");
        assert_eq!(of_events(&all[2..]), None);
    }

    #[test]
    fn the_wait_for_a_first_pod_counts_from_the_resumption() {
        let mut job = json!({"metadata": {"creationTimestamp": "2026-11-22T10:00:00Z"}, "status": {"failed": 0}});
        assert_eq!((since(&job), has_run(&job)), ("2026-11-22T10:00:00Z".parse().ok(), false));
        job["status"] = json!({"ready": 1, "conditions": [
            {"type": "Suspended", "status": "False", "lastTransitionTime": "2026-11-22T10:05:00Z"}]});
        assert_eq!((since(&job), has_run(&job)), ("2026-11-22T10:05:00Z".parse().ok(), true));
    }

    fn pod(started: &str, state: &Value) -> Value {
        json!({"metadata": {"creationTimestamp": "2026-11-22T10:00:00Z"},
            "status": {"startTime": started, "containerStatuses": [{"name": "main", "state": state}]}})
    }

    #[test]
    fn only_a_container_that_waits_for_its_variables_a_minute_is_stuck() {
        let now: Time = "2026-11-22T10:02:00Z".parse().unwrap();
        let waits =
            json!({"waiting": {"reason": "CreateContainerConfigError", "message": "secret \"vault\" not found"}});
        let pulls = json!({"waiting": {"reason": "ContainerCreating"}});
        let message = "container `main` has waited for 60 s: secret \"vault\" not found".to_owned();
        assert_eq!(progress(&[pod("2026-11-22T10:01:00Z", &waits)], now), Progress::Stuck(message));
        let early = Progress::Early("2026-11-22T10:02:01Z".parse().unwrap());
        assert_eq!(progress(&[pod("2026-11-22T10:01:01Z", &waits)], now), early);
        let later = now.plus(PATIENCE);
        assert_eq!(progress(&[pod("2026-11-22T10:00:00Z", &pulls)], now), Progress::Early(later));
        assert_eq!(progress(&[], now), Progress::Early(later));
        for state in [json!({"running": {}}), json!({"terminated": {"exitCode": 1}})] {
            assert_eq!(progress(&[pod("2026-11-22T10:00:00Z", &state)], now), Progress::Runs);
        }
    }
}
