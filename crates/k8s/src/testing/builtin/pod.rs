//! Pods and pod templates: defaults of pods and their containers, and the little that is checked of them.

use serde_json::{Value, json};

use super::super::object::{Object, at, child, text};
use super::super::refusal::Cause;
use super::containers;

/// What can change in a pod.
const FIXED: &str = "pod updates may not change fields other than \
     `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
     existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn complete(old: Option<&Object>, object: &mut Object) {
    complete_spec(child(object, "spec"), Some("Always"));
    let spec = child(object, "spec");
    spec.entry("enableServiceLinks").or_insert(Value::Bool(true));
    spec.entry("preemptionPolicy").or_insert_with(|| "PreemptLowerPriority".into());
    spec.entry("priority").or_insert_with(|| 0.into());
    if old.is_none() {
        let taint =
            |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
        spec.entry("tolerations")
            .or_insert_with(|| json!([taint("node.kubernetes.io/not-ready"), taint("node.kubernetes.io/unreachable")]));
        object.insert("status".to_owned(), json!({"phase": "Pending", "qosClass": "BestEffort"}));
    }
}

/// Fills in what every pod spec has.
pub(super) fn complete_spec(spec: &mut Object, restart: Option<&str>) {
    if let Some(restart) = restart {
        spec.entry("restartPolicy").or_insert_with(|| restart.into());
    }
    spec.entry("terminationGracePeriodSeconds").or_insert_with(|| 30.into());
    spec.entry("dnsPolicy").or_insert_with(|| "ClusterFirst".into());
    spec.entry("securityContext").or_insert_with(|| json!({}));
    spec.entry("schedulerName").or_insert_with(|| "default-scheduler".into());
    for member in ["initContainers", "containers"] {
        let list = spec.get_mut(member).and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default();
        for container in list.iter_mut().filter_map(Value::as_object_mut) {
            complete_container(container);
        }
    }
}

fn complete_container(container: &mut Object) {
    let image = text(container, &["image"]);
    let name = image.rsplit('/').next().unwrap_or_default();
    let latest = !name.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest");
    container.entry("imagePullPolicy").or_insert_with(|| if latest { "Always" } else { "IfNotPresent" }.into());
    container.entry("resources").or_insert_with(|| json!({}));
    container.entry("terminationMessagePath").or_insert_with(|| "/dev/termination-log".into());
    container.entry("terminationMessagePolicy").or_insert_with(|| "File".into());
}

pub(super) fn check(old: Option<&Object>, object: &Object) -> Vec<Cause> {
    let mut causes = check_spec(object, &["spec"]);
    if let Some(old) = old {
        let fixed = ["restartPolicy", "volumes", "nodeSelector", "dnsPolicy", "hostname"];
        if fixed.iter().any(|field| at(old, &["spec", field]) != at(object, &["spec", field])) {
            causes.push(Cause::forbidden("spec", FIXED));
        }
    }
    causes
}

/// What every pod spec needs.
pub(super) fn check_spec(object: &Object, path: &[&str]) -> Vec<Cause> {
    let mut causes = Vec::new();
    let place = path.join(".");
    let mut inner = path.to_vec();
    inner.push("containers");
    let list = containers(object, &inner);
    if list.is_empty() {
        causes.push(Cause::required(format!("{place}.containers"), ""));
    }
    let mut names = std::collections::BTreeSet::new();
    for (index, container) in list.iter().filter_map(Value::as_object).enumerate() {
        let place = format!("{place}.containers[{index}]");
        let name = text(container, &["name"]);
        if name.is_empty() {
            causes.push(Cause::required(format!("{place}.name"), ""));
        } else if !super::super::rules::is_label(name) {
            causes.push(Cause::invalid(format!("{place}.name"), &Value::from(name), super::super::rules::LABEL));
        } else if !names.insert(name) {
            causes.push(Cause::duplicate(format!("{place}.name"), &Value::from(name)));
        }
        if text(container, &["image"]).is_empty() {
            causes.push(Cause::required(format!("{place}.image"), ""));
        }
        mounts(object, path, container, &place, &mut causes);
    }
    causes
}

/// Mounts name volumes of the pod.
fn mounts(object: &Object, path: &[&str], container: &Object, place: &str, causes: &mut Vec<Cause>) {
    let mut inner = path.to_vec();
    inner.push("volumes");
    let volumes = containers(object, &inner);
    let mounts = at(container, &["volumeMounts"]).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (index, mount) in mounts.iter().enumerate() {
        let name = mount.get("name").unwrap_or(&Value::Null);
        if !volumes.iter().any(|volume| volume.get("name") == Some(name)) {
            let message = format!("Not found: {name}");
            causes.push(Cause::not_found(format!("{place}.volumeMounts[{index}].name"), message));
        }
    }
}
