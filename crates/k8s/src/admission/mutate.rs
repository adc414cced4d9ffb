//! What is filled in before a flow is stored: three defaults at creation, and who has decided at an update. Owns the JSON
//! patch; whether the flow is allowed is asked elsewhere.

use orlop_core::time::Time;
use serde_json::{Map, Value, json};

use super::Settings;
use super::identity::{annotation, identity_of, member, news};
use super::review::{Ask, Verdict};

/// The patch of a request.
pub(super) fn verdict(ask: &Ask, settings: &Settings, now: Time) -> Verdict {
    let patch = if ask.is_update() { stamps(ask, now) } else { Ok(defaults(&ask.object, settings)) };
    match patch {
        Ok(patch) => Verdict { patch, ..Verdict::default() },
        Err(error) => {
            let told = format!("who has decided cannot be written down: {error}");
            Verdict { refused: Some((500, told, Vec::new())), ..Verdict::default() }
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
    // A spec that is no object is refused by whoever validates.
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
fn stamps(ask: &Ask, now: Time) -> serde_json::Result<Vec<Value>> {
    let mut patch = Vec::new();
    for key in news(&ask.object, &ask.old_object).filter_map(|(key, _)| identity_of(key)) {
        let told = annotation(&ask.object, &key).filter(|told| annotation(&ask.old_object, &key) != Some(told));
        let told: Option<Value> = told.and_then(|told| serde_json::from_str(told).ok());
        let mut note = json!({"by": ask.user(), "at": now.whole_seconds().to_string()});
        if let Some(reason) = told.as_ref().and_then(|told| member(told, "reason")) {
            note["reason"] = json!(reason);
        }
        let path = format!("/metadata/annotations/{}", key.replace('~', "~0").replace('/', "~1"));
        patch.push(json!({"op": "add", "path": path, "value": serde_json::to_string(&note)?}));
    }
    Ok(patch)
}
