//! What the pod failure policy of a Job says of a pod that failed.

use serde_json::Value;

use super::super::super::object::{Object, list, meta, milliseconds, text};

/// What the Job controller does about a failed pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PodFailureAction {
    /// It counts towards the limit.
    Count,
    /// It does not.
    Ignore,
    /// The Job fails, with this message.
    FailJob(String),
    /// Its index fails.
    FailIndex,
}

/// The first rule that matches decides.
pub(super) fn judge(job: &Object, pod: &Object) -> PodFailureAction {
    for (number, rule) in list(job, &["spec", "podFailurePolicy", "rules"]).iter().enumerate() {
        let action = rule.get("action").and_then(Value::as_str).unwrap_or_default();
        let Some(what) = by_exit_code(rule, pod).or_else(|| by_condition(rule, pod)) else { continue };
        return match action {
            "Ignore" => PodFailureAction::Ignore,
            "FailJob" => PodFailureAction::FailJob(format!("{what} matching FailJob rule at index {number}")),
            "FailIndex" => PodFailureAction::FailIndex,
            _ => PodFailureAction::Count,
        };
    }
    PodFailureAction::Count
}

fn by_exit_code(rule: &Value, pod: &Object) -> Option<String> {
    let wanted = rule.get("onExitCodes")?;
    let only = wanted.get("containerName").and_then(Value::as_str);
    let inside = wanted.get("operator").and_then(Value::as_str) == Some("In");
    let codes = wanted.get("values").and_then(Value::as_array)?;
    for status in list(pod, &["status", "containerStatuses"]) {
        let name = status.get("name").and_then(Value::as_str).unwrap_or_default();
        let Some(code) = status.pointer("/state/terminated/exitCode").and_then(Value::as_i64) else { continue };
        if code != 0 && only.is_none_or(|only| only == name) && codes.contains(&Value::from(code)) == inside {
            let (namespace, pod) = (meta(pod, "namespace"), meta(pod, "name"));
            return Some(format!("Container {name} for pod {namespace}/{pod} failed with exit code {code}"));
        }
    }
    None
}

fn by_condition(rule: &Value, pod: &Object) -> Option<String> {
    for pattern in rule.get("onPodConditions").and_then(Value::as_array)? {
        let has = list(pod, &["status", "conditions"]).iter().any(|condition| {
            condition.get("type") == pattern.get("type")
                && condition.get("status").and_then(Value::as_str)
                    == Some(pattern.get("status").and_then(Value::as_str).unwrap_or("True"))
        });
        if has {
            let kind = pattern.get("type").and_then(Value::as_str).unwrap_or_default();
            return Some(format!("Pod {}/{} has condition {kind}", meta(pod, "namespace"), meta(pod, "name")));
        }
    }
    None
}

/// When a pod ended, in milliseconds: by its containers, else when it was told to go.
pub(super) fn ended_at(pod: &Object) -> i64 {
    let ends = list(pod, &["status", "containerStatuses"]).iter();
    let end = ends
        .filter_map(|status| {
            status.pointer("/state/terminated/finishedAt").and_then(Value::as_str).and_then(milliseconds)
        })
        .max();
    end.or_else(|| milliseconds(text(pod, &["metadata", "deletionTimestamp"]))).unwrap_or_default()
}
