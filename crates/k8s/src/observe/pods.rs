//! What pods of a Job left: exit codes, termination messages, output files. Owns which pod speaks for
//! the Job.

use orlop_core::attempt::{ContainerEnd, FileTrouble, FileValue, PodEnd};
use orlop_core::spec::step::Step;
use orlop_dag::params::Termination;
use serde_json::Value;

/// Bytes at which a kubelet cuts a termination message.
const MESSAGE_LIMIT: usize = 4096;
/// Annotation and label with the index of a pod of an Indexed Job.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Pods in phase Failed in the order of their creation, with their containers that terminated.
pub(super) fn failed(pods: &[Value]) -> Vec<PodEnd> {
    let mut failed: Vec<&Value> = pods.iter().filter(|pod| phase(pod) == "Failed").collect();
    failed.sort_by_key(|pod| (text(pod, "/metadata/creationTimestamp"), text(pod, "/metadata/name")));
    failed.into_iter().map(|pod| PodEnd { containers: terminated(pod) }).collect()
}

fn terminated(pod: &Value) -> Vec<ContainerEnd> {
    let exit = |status: &Value| {
        let code = status.pointer("/state/terminated/exitCode")?.as_i64()?;
        Some(ContainerEnd { name: text(status, "/name").to_owned(), exit_code: i32::try_from(code).ok()? })
    };
    statuses(pod).filter_map(exit).collect()
}

/// How the first container of the pod that speaks for the Job ended: the succeeded one with the lowest completion index,
/// else the last to finish.
pub(super) fn termination(job: &Value, pods: &[Value]) -> Option<Termination> {
    let succeeded = pods.iter().filter(|pod| phase(pod) == "Succeeded");
    let pod = succeeded.min_by_key(|pod| (index(pod), text(pod, "/metadata/name"))).or_else(|| {
        let ended = pods.iter().filter(|pod| phase(pod) == "Failed");
        ended.max_by_key(|pod| (finished(pod), text(pod, "/metadata/name")))
    })?;
    let first = text(job, "/spec/template/spec/containers/0/name");
    let status = statuses(pod).find(|status| text(status, "/name") == first)?;
    let ended = status.pointer("/state/terminated")?;
    let own = |name: &str| ended.get(name).and_then(Value::as_str).map(str::to_owned);
    let exit_code = i32::try_from(ended.get("exitCode")?.as_i64()?).ok()?;
    Some(Termination { exit_code, reason: own("reason"), message: own("message") })
}

/// The file of a step's one output: the termination message without one trailing newline. A message that fills the limit
/// may have been cut.
pub(super) fn files(step: &Step, termination: Option<&Termination>) -> Vec<FileValue> {
    let mut outputs = step.output_parameters().iter().filter(|output| output.value_from.path.is_some());
    let (Some(output), None) = (outputs.next(), outputs.next()) else { return Vec::new() };
    let Some(message) = termination.and_then(|ended| ended.message.as_deref()) else { return Vec::new() };
    let content = match message.len() {
        MESSAGE_LIMIT.. => Err(FileTrouble::TooLarge),
        _ => Ok(message.strip_suffix('\n').unwrap_or(message).to_owned()),
    };
    vec![FileValue { name: output.name.clone(), content }]
}

fn statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    pod.pointer("/status/containerStatuses").and_then(Value::as_array).into_iter().flatten()
}

fn phase(pod: &Value) -> &str {
    text(pod, "/status/phase")
}

fn index(pod: &Value) -> u64 {
    let of = |place: &str| pod.pointer(place)?.get(INDEX)?.as_str()?.parse().ok();
    of("/metadata/annotations").or_else(|| of("/metadata/labels")).unwrap_or(0)
}

/// When the last of a pod's containers ended; times of one form compare as texts.
fn finished(pod: &Value) -> &str {
    statuses(pod).map(|status| text(status, "/state/terminated/finishedAt")).max().unwrap_or_default()
}

fn text<'v>(value: &'v Value, path: &str) -> &'v str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}
