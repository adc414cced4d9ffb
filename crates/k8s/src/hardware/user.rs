//! What a pod itself asks of a node. Owns reading it from a pod specification, and where in it something is wrong.

use std::collections::BTreeMap;

use orlop_core::hardware::merge::UserConstraints;
use orlop_core::resource::{ResourceVector, Rounding};
use serde_json::Value;

use super::affinity::{PodError, list, term, text, toleration};

/// What a pod specification asks of a node, and its container of resources. A container that is not there asks for none.
///
/// # Errors
/// A field of another form than Kubernetes takes.
pub fn read(pod: &Value, container: &str) -> Result<UserConstraints, PodError> {
    let affinity = pod.pointer("/affinity/nodeAffinity").unwrap_or(&Value::Null);
    let path = "spec.affinity.nodeAffinity";
    for (place, value) in [("/affinity", pod.pointer("/affinity")), ("/affinity/nodeAffinity", Some(affinity))] {
        if value.is_some_and(|value| !value.is_null() && !value.is_object()) {
            return Err(PodError::new(format!("spec{}", place.replace('/', ".")), "must be an object"));
        }
    }
    let required = match affinity.get("requiredDuringSchedulingIgnoredDuringExecution") {
        None | Some(Value::Null) => None,
        Some(selector) => {
            let path = format!("{path}.requiredDuringSchedulingIgnoredDuringExecution");
            let terms = list(selector, "nodeSelectorTerms", &path)?.iter().enumerate();
            let read = terms.map(|(at, value)| term(value, &format!("{path}.nodeSelectorTerms[{at}]")));
            Some(read.collect::<Result<_, _>>()?)
        }
    };
    let preferred = list(affinity, "preferredDuringSchedulingIgnoredDuringExecution", path)?.iter().enumerate();
    let preferred = preferred.map(|(at, value)| {
        let path = format!("{path}.preferredDuringSchedulingIgnoredDuringExecution[{at}]");
        let weight = value.get("weight").and_then(Value::as_u64).and_then(|weight| u8::try_from(weight).ok());
        let weight = weight.ok_or_else(|| PodError::new(format!("{path}.weight"), "must be 1 to 100"))?;
        Ok((weight, term(value.get("preference").unwrap_or(&Value::Null), &format!("{path}.preference"))?))
    });
    let tolerations = list(pod, "tolerations", "spec")?.iter().enumerate();
    let tolerations = tolerations.map(|(at, value)| toleration(value, &format!("spec.tolerations[{at}]")));
    let (requests, limits) = resources(pod, container)?;
    Ok(UserConstraints {
        node_selector: selector(pod)?,
        required,
        preferred: preferred.collect::<Result<_, _>>()?,
        tolerations: tolerations.collect::<Result<_, _>>()?,
        requests,
        limits,
        runtime_class: text(pod, "runtimeClassName", "spec")?.filter(|class| !class.is_empty()).map(str::to_owned),
    })
}

fn selector(pod: &Value) -> Result<BTreeMap<String, String>, PodError> {
    let selector = pod.get("nodeSelector").filter(|selector| !selector.is_null());
    let members = match selector {
        None => return Ok(BTreeMap::new()),
        Some(Value::Object(members)) => members,
        Some(_) => return Err(PodError::new("spec.nodeSelector", "must be a map")),
    };
    let entry = |(key, value): (&String, &Value)| match value {
        Value::String(value) => Ok((key.clone(), value.clone())),
        _ => Err(PodError::new(format!("spec.nodeSelector.{key}"), "must be a text")),
    };
    members.iter().map(entry).collect()
}

/// The position of a container by its name.
pub(super) fn position(pod: &Value, container: &str) -> Option<usize> {
    let containers = pod.get("containers")?.as_array()?;
    containers.iter().position(|entry| entry.get("name").and_then(Value::as_str) == Some(container))
}

fn resources(pod: &Value, container: &str) -> Result<(ResourceVector, ResourceVector), PodError> {
    let Some(at) = position(pod, container) else { return Ok(Default::default()) };
    let resources = pod.pointer(&format!("/containers/{at}/resources")).unwrap_or(&Value::Null);
    let path = format!("spec.containers[{at}].resources");
    let (requests, limits) = (amounts(resources, "requests", &path)?, amounts(resources, "limits", &path)?);
    // Of devices the larger of the two counts: they are had whole. Of anything else the server refuses such a pod.
    let over = limits.iter().find(|(name, limit)| !name.as_str().contains('/') && *limit < requests.get(name.as_str()));
    match over {
        Some((name, _)) => Err(PodError::new(format!("{path}.limits.{name}"), "is less than what is requested")),
        None => Ok((requests, limits)),
    }
}

/// A map of amounts, such as requests or what a node has.
pub(super) fn amounts(object: &Value, name: &str, path: &str) -> Result<ResourceVector, PodError> {
    let path = format!("{path}.{name}");
    let members = match object.get(name) {
        None | Some(Value::Null) => return Ok(ResourceVector::new()),
        Some(Value::Object(members)) => members,
        Some(_) => return Err(PodError::new(path, "must be a map")),
    };
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let mut pairs = Vec::new();
    for (key, value) in members {
        let value = text(value).ok_or_else(|| PodError::new(format!("{path}.{key}"), "must be a quantity"))?;
        pairs.push((key.as_str(), value));
    }
    // What a node offers is rounded the other way, but nodes offer no fractions of a step.
    ResourceVector::parse(pairs, Rounding::Up).map_err(|error| PodError::new(path, format!("is not valid: {error}")))
}
