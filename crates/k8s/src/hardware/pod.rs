//! What is merged, written into a pod specification. Owns where each part stands; everything the pod says besides stays as
//! it is, word for word.

use std::collections::BTreeSet;

use orlop_core::hardware::merge::{Merged, Term};
use orlop_core::hardware::placement::Toleration;
use orlop_core::quantity::Quantity;
use orlop_core::resource::ResourceVector;
use serde_json::{Map, Value, json};

use super::affinity::PodError;
use super::affinity::{term_value, toleration_value};
use super::user::{position, read};
use crate::render::object;

/// The name of the claim within a pod.
const CLAIM: &str = "gpu";

/// A pod specification with what was merged. A container that is not there yet gets nothing.
///
/// # Errors
/// A field of another form than Kubernetes takes.
pub fn write(pod: &Value, container: &str, merged: &Merged, claim: &str) -> Result<Value, PodError> {
    let had = read(pod, container)?;
    let mut members = match pod {
        Value::Null => Map::new(),
        Value::Object(members) => members.clone(),
        _ => return Err(PodError::new("spec", "must be a map")),
    };
    if merged.node_selector != had.node_selector {
        members.insert("nodeSelector".to_owned(), json!(merged.node_selector));
    }
    let wanted = (!merged.required.is_empty()).then_some(&merged.required);
    if (wanted != had.required.as_ref() || merged.preferred != had.preferred)
        && let Some(affinity) = object(&mut members, "affinity").and_then(|affinity| object(affinity, "nodeAffinity"))
    {
        if let Some(terms) = wanted.filter(|terms| Some(*terms) != had.required.as_ref()) {
            let terms: Vec<Value> = terms.iter().map(term_value).collect();
            let name = "requiredDuringSchedulingIgnoredDuringExecution".to_owned();
            affinity.insert(name, json!({"nodeSelectorTerms": terms}));
        }
        let preferred = |(weight, term): &(u8, Term)| json!({"weight": weight, "preference": term_value(term)});
        let known: BTreeSet<&(u8, Term)> = had.preferred.iter().collect();
        let new = merged.preferred.iter().filter(|entry| !known.contains(entry)).map(preferred);
        append(affinity, "preferredDuringSchedulingIgnoredDuringExecution", new.collect());
    }
    let known: BTreeSet<&Toleration> = had.tolerations.iter().collect();
    let new = merged.tolerations.iter().filter(|entry| !known.contains(entry)).map(toleration_value);
    append(&mut members, "tolerations", new.collect());
    if let Some(class) = merged.runtime_class.as_ref().filter(|class| had.runtime_class.as_ref() != Some(*class)) {
        members.insert("runtimeClassName".to_owned(), json!(class));
    }
    let mut pod = Value::Object(members);
    let at = position(&pod, container);
    if let Some(entry) = at.and_then(|at| pod.pointer_mut(&format!("/containers/{at}"))) {
        devices(entry, merged, &(had.requests, had.limits));
    }
    if !merged.claims.is_empty()
        && let Some(members) = pod.as_object_mut()
    {
        let entry = json!({"name": CLAIM, "resourceClaimTemplateName": claim});
        append(members, "resourceClaims", vec![entry]);
    }
    Ok(pod)
}

/// Adds entries to a list that are not in it, and makes no empty one.
fn append(members: &mut Map<String, Value>, name: &str, new: Vec<Value>) {
    let mut all = members.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let had = all.len();
    for entry in new {
        if !all.contains(&entry) {
            all.push(entry);
        }
    }
    if all.len() > had {
        members.insert(name.to_owned(), Value::Array(all));
    }
}

/// Requests, limits and the claim of the container.
fn devices(container: &mut Value, merged: &Merged, (requests, limits): &(ResourceVector, ResourceVector)) {
    let Some(container) = container.as_object_mut() else { return };
    let changed = merged.requests != *requests || merged.limits != *limits;
    if !changed && merged.claims.is_empty() {
        return;
    }
    let Some(resources) = object(container, "resources") else { return };
    set(resources, "requests", &merged.requests, requests);
    set(resources, "limits", &merged.limits, limits);
    if !merged.claims.is_empty() {
        append(resources, "claims", vec![json!({"name": CLAIM})]);
    }
}

/// Amounts that differ from what stands there.
fn set(resources: &mut Map<String, Value>, name: &str, wanted: &ResourceVector, had: &ResourceVector) {
    let new: Vec<(String, Quantity)> =
        wanted.to_quantities().into_iter().filter(|(key, _)| wanted.get(key) != had.get(key)).collect();
    if new.is_empty() {
        return;
    }
    let Some(amounts) = object(resources, name) else { return };
    for (key, quantity) in new {
        // Enclave memory is counted in units by schedulers, but it is bytes to people.
        let bytes = quantity.count().filter(|_| key.ends_with("/epc")).map(Quantity::from_bytes);
        amounts.insert(key, json!(bytes.unwrap_or(quantity)));
    }
}
