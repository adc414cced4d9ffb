//! Labels of containers. Owns the keys under which a pod's containers are found again after a crash.

use std::collections::{BTreeMap, HashMap};

use crate::runtime::pod::{PodKey, PodPlan};

/// The pod, in one value.
const POD_KEY: &str = "workflow.kube-zen.io/pod-key";
/// The container's name within the pod.
const CONTAINER: &str = "workflow.kube-zen.io/container";

/// Labels of a container: those of the pod, and the keys.
pub(super) fn all(plan: &PodPlan, container: &str) -> HashMap<String, String> {
    let key = &plan.key;
    let own = BTreeMap::from([
        ("workflow.kube-zen.io/flow-uid", key.attempt.flow.to_string()),
        ("workflow.kube-zen.io/step-name", key.attempt.instance()),
        ("workflow.kube-zen.io/attempt", key.attempt.attempt.to_string()),
        ("workflow.kube-zen.io/pod", key.pod.to_string()),
        (POD_KEY, key.to_string()),
        (CONTAINER, container.to_owned()),
    ]);
    let pods = plan.labels.iter().map(|(key, value)| (key.clone(), value.clone()));
    pods.chain(own.into_iter().map(|(key, value)| (key.to_owned(), value))).collect()
}

/// The filter that finds the containers of a pod.
pub(super) fn filter(key: &PodKey) -> HashMap<String, Vec<String>> {
    HashMap::from([("label".to_owned(), vec![format!("{POD_KEY}={key}")])])
}

/// Whether a container with these labels is the container `name` of the pod.
pub(super) fn is_ours(labels: &HashMap<String, String>, key: &PodKey, name: &str) -> bool {
    labels.get(POD_KEY).is_some_and(|value| *value == key.to_string())
        && labels.get(CONTAINER).is_some_and(|c| c == name)
}

/// Who a container with these labels belongs to, for people.
pub(super) fn owner(labels: &HashMap<String, String>) -> String {
    match (labels.get(POD_KEY), labels.get("workflow.kube-zen.io/managed-by")) {
        (Some(key), _) => format!("pod {key}"),
        (None, Some(manager)) => format!("`{manager}`"),
        (None, None) => "somebody else".to_owned(),
    }
}
