//! What is filled in before a flow is stored: three defaults at creation, and who has decided at an update. Owns the JSON
//! patch; whether the flow is allowed is asked elsewhere.

use orlop_core::time::Time;
use serde_json::{Map, Value, json};

use super::Settings;
use super::identity::{annotation, identity_of, member, news};
use super::review::{AdmissionRequest, AdmissionResponse};

/// The patch of a request.
pub(super) fn respond(request: &AdmissionRequest, settings: &Settings, now: Time) -> AdmissionResponse {
    let patch = if request.is_update() { stamps(request, now) } else { Ok(defaults(&request.object, settings)) };
    match patch {
        Ok(patch) => AdmissionResponse { patch, ..AdmissionResponse::default() },
        Err(error) => {
            let message = format!("the decision maker cannot be recorded: {error}");
            AdmissionResponse { refused: Some((500, message, Vec::new())), ..AdmissionResponse::default() }
        }
    }
}

/// Policies are stored with these members, so that what a flow does is not changed by another version of the operator.
fn defaults(object: &Value, settings: &Settings) -> Vec<Value> {
    let defaults = [
        ("concurrencyPolicy", json!(settings.concurrency_policy)),
        ("ttlSecondsAfterFinished", json!(settings.ttl_seconds)),
        ("backoffLimit", json!(settings.backoff_limit)),
    ];
    // A spec that is no object is refused by validation.
    let Some(spec) = object.get("spec").and_then(Value::as_object) else { return Vec::new() };
    let path = "/spec/executionPolicy";
    match spec.get("executionPolicy") {
        Some(Value::Object(policy)) if !policy.is_empty() => {
            let missing = defaults.into_iter().filter(|(name, _)| policy.get(*name).is_none_or(Value::is_null));
            missing
                .map(|(name, value)| json!({"op": "add", "path": format!("{path}/{name}"), "value": value}))
                .collect()
        }
        None | Some(Value::Null | Value::Object(_)) => {
            let policy: Map<String, Value> =
                defaults.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
            vec![json!({"op": "add", "path": path, "value": policy})]
        }
        Some(_) => Vec::new(),
    }
}

/// Beside each decision that is added or changed stands who has taken it. A reason that comes with it is kept.
fn stamps(request: &AdmissionRequest, now: Time) -> serde_json::Result<Vec<Value>> {
    let mut patch = Vec::new();
    for key in news(&request.object, &request.old_object).filter_map(|(key, _)| identity_of(key)) {
        let decision = annotation(&request.object, &key)
            .filter(|decision| annotation(&request.old_object, &key) != Some(decision));
        let decision: Option<Value> = decision.and_then(|decision| serde_json::from_str(decision).ok());
        let mut note = json!({"by": request.user(), "at": now.whole_seconds().to_string()});
        if let Some(reason) = decision.as_ref().and_then(|decision| member(decision, "reason")) {
            note["reason"] = json!(reason);
        }
        let path = format!("/metadata/annotations/{}", key.replace('~', "~0").replace('/', "~1"));
        patch.push(json!({"op": "add", "path": path, "value": serde_json::to_string(&note)?}));
    }
    Ok(patch)
}
