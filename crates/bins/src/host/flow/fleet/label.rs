//! Labels by which jobs of a fleet are known as attempts of steps. Stores nothing.

use std::collections::BTreeMap;

use orlop_core::attempt::{AttemptKey, AttemptSpec};

/// Unique id of the flow.
pub const FLOW: &str = "workflow.kube-zen.io/flow-uid";
/// Name of the flow.
const NAME: &str = "workflow.kube-zen.io/flow";
/// Name of the step.
const STEP: &str = "workflow.kube-zen.io/step";
/// Number of the instance, of a fan-out.
const ITEM: &str = "workflow.kube-zen.io/item";
/// Number of the attempt.
const ATTEMPT: &str = "workflow.kube-zen.io/attempt";

/// Names of the claims that the attempt mounts, separated by commas.
pub(super) const CLAIMS: &str = "workflow.kube-zen.io/claims";
/// Label of a worker with its own id, which a worker has once jobs are to run nowhere else.
pub const WORKER: &str = "orlop.io/worker";

/// The labels of the job of an attempt.
pub(super) fn labels(spec: &AttemptSpec) -> BTreeMap<String, String> {
    let AttemptKey { flow, step, item, attempt } = &spec.key;
    let item = item.map(|item| (ITEM.to_owned(), item.to_string()));
    let fixed = [
        (FLOW, flow.to_string()),
        (NAME, spec.flow_name.clone()),
        (STEP, step.to_string()),
        (ATTEMPT, attempt.to_string()),
    ];
    fixed.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(item).collect()
}

/// The claims that the job of an attempt mounts.
#[must_use]
pub fn claims(labels: &BTreeMap<String, String>) -> Vec<String> {
    let names = labels.get(CLAIMS).map(String::as_str).unwrap_or_default().split(',');
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The attempt that a job with these labels is; none when it is none.
#[must_use]
pub fn key(labels: &BTreeMap<String, String>) -> Option<AttemptKey> {
    let item = labels.get(ITEM).map(|item| item.parse());
    Some(AttemptKey {
        flow: labels.get(FLOW)?.as_str().into(),
        step: labels.get(STEP)?.as_str().into(),
        item: item.transpose().ok()?,
        attempt: labels.get(ATTEMPT)?.parse().ok()?,
    })
}
