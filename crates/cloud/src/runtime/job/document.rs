//! The document of a Job as the Job controller of Kubernetes would write it, beside it `termination`. Counters that are 0 are
//! absent, as there, so that a path finds the same on every substrate.

use std::collections::BTreeSet;

use orlop_core::exact;
use orlop_core::time::Time;
use serde_json::{Map, Value, json};

use crate::runtime::pod::{ContainerExit, PodExit, PodResult};

use super::decide::JobOutcome;
use super::rules::{JobRules, PodRecord};

/// A Job that has ended, as it is to be shown.
#[derive(Clone, Copy, Debug)]
pub struct EndedJob<'a> {
    /// The template: `metadata` and `spec` are taken from it.
    pub template: &'a Value,
    /// Name of the Job.
    pub name: &'a str,
    /// Namespace of the Job.
    pub namespace: &'a str,
    /// Unique id of the Job.
    pub uid: &'a str,
    /// What its spec says about its pods.
    pub rules: &'a JobRules,
    /// Its pods by number.
    pub pods: &'a [&'a PodRecord],
    /// Name of the container that does the work.
    pub main: &'a str,
    /// When it started.
    pub started_at: Time,
    /// When it ended.
    pub ended_at: Time,
    /// What it came to; none: cancelled.
    pub verdict: Option<&'a JobOutcome>,
}

/// The document of a Job that has ended.
#[must_use]
pub fn document(job: &EndedJob<'_>) -> Value {
    let mut metadata = job.template.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    for (key, value) in [("name", job.name), ("namespace", job.namespace), ("uid", job.uid)] {
        metadata.insert(key.into(), value.into());
    }
    metadata.insert("creationTimestamp".into(), stamp(job.started_at));
    let mut document = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": job.template.get("spec").cloned().unwrap_or_default(),
        "status": status(job),
    });
    if let (Some(termination), Some(members)) = (termination(job), document.as_object_mut()) {
        members.insert("termination".into(), termination);
    }
    document
}

fn stamp(time: Time) -> Value {
    Value::String(time.whole_seconds().to_string())
}

fn status(job: &EndedJob<'_>) -> Value {
    let mut status = Map::new();
    status.insert("startTime".into(), stamp(job.started_at));
    let condition = |kind: &str, reason: &str, message: &str| {
        json!([{
            "type": kind,
            "status": "True",
            "lastProbeTime": stamp(job.ended_at),
            "lastTransitionTime": stamp(job.ended_at),
            "reason": reason,
            "message": message,
        }])
    };
    match job.verdict {
        Some(JobOutcome::Complete) => {
            status.insert("completionTime".into(), stamp(job.ended_at));
            let message = "as many pods succeeded as were asked for";
            status.insert("conditions".into(), condition("Complete", "CompletionsReached", message));
        }
        Some(JobOutcome::Failed { reason, message }) => {
            status.insert("conditions".into(), condition("Failed", reason, message));
        }
        Some(JobOutcome::Lost | JobOutcome::Gone) | None => {}
    }
    let counted = |wanted: fn(&PodResult) -> bool| {
        job.pods.iter().filter(|pod| pod.exit.as_ref().is_some_and(|exit| wanted(&exit.result))).count()
    };
    let counters = [
        ("active", job.pods.iter().filter(|pod| pod.exit.is_none()).count()),
        ("succeeded", counted(|result| *result == PodResult::Succeeded)),
        ("failed", counted(|result| matches!(result, PodResult::Failed { .. }))),
    ];
    for (name, count) in counters.into_iter().filter(|(_, count)| *count > 0) {
        status.insert(name.into(), count.into());
    }
    if job.rules.indexed {
        status.insert("completedIndexes".into(), completed_indexes(job.pods).into());
    }
    Value::Object(status)
}

/// Indexes that succeeded, as ranges: `1,3-5`.
fn completed_indexes(pods: &[&PodRecord]) -> String {
    let done: BTreeSet<u32> = pods.iter().filter(|pod| succeeded(pod)).filter_map(|pod| pod.index).collect();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for index in done {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(index) => *last = index,
            _ => ranges.push((index, index)),
        }
    }
    let texts: Vec<String> = ranges
        .into_iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    texts.join(",")
}

fn succeeded(pod: &PodRecord) -> bool {
    pod.exit.as_ref().is_some_and(|exit| exit.result == PodResult::Succeeded)
}

/// The pod outputs are read from: the succeeded one with the lowest completion index, else the last to finish.
#[must_use]
pub fn speaker<'a>(pods: &[&'a PodRecord]) -> Option<&'a PodRecord> {
    let first =
        pods.iter().copied().filter(|pod| succeeded(pod)).min_by_key(|pod| (pod.index.unwrap_or(0), pod.number));
    first.or_else(|| {
        let ended = pods.iter().copied().filter_map(|pod| Some((pod.exit.as_ref()?.ended_at, pod.number, pod)));
        ended.max_by_key(|(at, number, _)| (*at, *number)).map(|(_, _, pod)| pod)
    })
}

/// How the main container of the speaking pod ended.
fn termination(job: &EndedJob<'_>) -> Option<Value> {
    let exit = speaker(job.pods)?.exit.as_ref()?;
    let container = main_exit(exit, job.main)?;
    let reason = match container {
        container if container.oom_killed => "OOMKilled",
        container if container.exit_code == 0 => "Completed",
        _ => "Error",
    };
    let mut termination = json!({ "exitCode": container.exit_code, "reason": reason, "message": container.message });
    if let (Ok(parsed), Some(members)) = (exact::from_str::<Value>(&container.message), termination.as_object_mut()) {
        members.insert("json".into(), parsed);
    }
    if let (true, Some(members)) = (container.masked, termination.as_object_mut()) {
        members.insert("masked".into(), true.into());
    }
    Some(termination)
}

fn main_exit<'a>(exit: &'a PodExit, main: &str) -> Option<&'a ContainerExit> {
    exit.containers.iter().rfind(|container| container.name == main)
}
