//! Leases as objects: who holds one, and what is written to take, renew and give it back. Owns that form; decides nothing.

use std::time::Duration;

use orlop_core::time::Time;
use serde_json::{Value, json};

use crate::api::Kind;
use crate::render::micros;

/// Who holds a lease; empty where nobody does.
pub(super) fn holder(object: &Value) -> &str {
    object.pointer("/spec/holderIdentity").and_then(Value::as_str).unwrap_or_default()
}

/// How long its holder may leave it unrenewed, where it says so.
pub(super) fn term(object: &Value) -> Option<Duration> {
    let seconds = object.pointer("/spec/leaseDurationSeconds").and_then(Value::as_u64)?;
    Some(Duration::from_secs(seconds)).filter(|term| !term.is_zero())
}

/// A lease that nobody has made yet.
pub(super) fn fresh(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": Kind::Lease.api_version(), "kind": Kind::Lease.name(),
        "metadata": {"name": name, "namespace": namespace}, "spec": {},
    })
}

/// A lease taken or renewed; what others wrote beside that stays.
pub(super) fn held(mut object: Value, identity: &str, term: Duration, now: Time) -> Value {
    let before = holder(&object).to_owned();
    let Some(spec) = spec(&mut object) else { return object };
    spec.insert("renewTime".to_owned(), micros(now).into());
    spec.insert("leaseDurationSeconds".to_owned(), term.as_secs().max(1).into());
    if before != identity {
        let transitions = spec.get("leaseTransitions").and_then(Value::as_i64);
        let transitions = transitions.map_or(0, |count| count.saturating_add(1));
        spec.insert("leaseTransitions".to_owned(), transitions.into());
        spec.insert("acquireTime".to_owned(), micros(now).into());
        spec.insert("holderIdentity".to_owned(), identity.into());
    }
    object
}

/// A lease given back.
pub(super) fn released(mut object: Value, now: Time) -> Value {
    if let Some(spec) = spec(&mut object) {
        spec.remove("holderIdentity");
        spec.insert("renewTime".to_owned(), micros(now).into());
        // A term of none is refused.
        spec.insert("leaseDurationSeconds".to_owned(), 1.into());
    }
    object
}

fn spec(object: &mut Value) -> Option<&mut serde_json::Map<String, Value>> {
    object.as_object_mut()?.entry("spec").or_insert_with(|| json!({})).as_object_mut()
}
