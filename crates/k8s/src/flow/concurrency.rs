//! Concurrency keys of flows: claims them at the limiter, and turns its answers into events of the engine.

use orlop_core::event::FlowEvent;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::spec::flow::{JobFlow, StopMode};
use orlop_core::spec::policy::ConcurrencyPolicy;
use orlop_core::time::Time;
use orlop_dag::gate::{Answer, Claim, ConcurrencyLimiter, key_of};
use serde_json::{Value, json};

use super::memory::Memory;
use super::{ControllerState, Key, Options, text};

/// The claim of a flow; none when it has no key.
pub(super) fn claim(flow: &JobFlow, options: &Options) -> Option<Claim> {
    let kinds: Vec<&str> = options.schedule_kinds.iter().map(String::as_str).collect();
    let key = key_of(flow, &kinds)?.to_owned();
    let policy = flow.spec.execution_policy.as_ref().and_then(|policy| policy.concurrency_policy);
    Some(Claim {
        uid: flow.metadata.uid.clone().unwrap_or_default(),
        namespace: flow.metadata.namespace.clone().unwrap_or_default(),
        key,
        policy: policy.unwrap_or(ConcurrencyPolicy::Forbid),
        created_at: flow.metadata.creation_timestamp.unwrap_or(Time::EPOCH),
    })
}

/// Notes that a flow which has begun and is not over holds its key. Reads no more of the object than that takes.
pub(super) fn hold_key_of(limiter: &mut ConcurrencyLimiter, object: &Value, options: &Options) {
    let has = |member: &str| !text(object, member).is_empty();
    let is_over = text(object, "/status/phase").parse().is_ok_and(FlowPhase::is_terminal);
    if !has("/status/startTime") || has("/status/completionTime") || is_over {
        return;
    }
    let policy = object.pointer("/spec/executionPolicy");
    let bare = json!({
        "apiVersion": object.get("apiVersion"), "kind": object.get("kind"), "metadata": object.get("metadata"),
        "spec": {"steps": [], "executionPolicy": policy},
    });
    if let Ok(flow) = serde_json::from_value::<JobFlow>(bare)
        && let Some(claim) = claim(&flow, options)
    {
        limiter.hold(&claim);
    }
}

/// Claims the key of a flow that has not begun, and applies the answer. Gives the flows to be reconciled.
pub(super) fn ask(known: &mut ControllerState, memory: &mut Memory, now: Time) -> Vec<Key> {
    let Some(claim) = memory.claim.clone() else {
        memory.apply_event(&FlowEvent::Admit, now);
        return Vec::new();
    };
    let key = claim.key.clone();
    let blocked = |known: &ControllerState, uids: &[String]| {
        let names = uids.iter().map(|uid| known.name_of(uid));
        let message = format!("concurrency key `{key}` is held: waits for {}", names.collect::<Vec<_>>().join(", "));
        FlowEvent::Blocked { reason: "ConcurrencyBlocked".to_owned(), message }
    };
    match known.limiter.ask(claim) {
        Answer::Begin => {
            memory.apply_event(&FlowEvent::Admit, now);
            Vec::new()
        }
        Answer::Wait { behind } => {
            memory.apply_event(&blocked(known, &behind), now);
            Vec::new()
        }
        Answer::Replace { holders } => {
            memory.apply_event(&blocked(known, &holders), now);
            replace(known, &holders)
        }
    }
}

/// Flows that hold a key are to end for another.
fn replace(known: &mut ControllerState, holders: &[String]) -> Vec<Key> {
    // Of one that is gone only pods are left, which are ended already.
    for uid in holders.iter().filter(|uid| known.cache.key(uid).is_some()) {
        let order = FlowEvent::Stop { mode: StopMode::Terminate, replaced: true };
        let orders = known.orders.entry(uid.clone()).or_default();
        if !orders.contains(&order) {
            orders.push(order);
        }
    }
    holders.iter().filter_map(|uid| known.cache.key(uid)).collect()
}

/// Releases a key. Gives the flows that waited for it.
pub(super) fn release(known: &mut ControllerState, uid: &str) -> Vec<Key> {
    known.orders.remove(uid);
    let answers = known.limiter.release(uid);
    let mut wake: Vec<Key> = answers.iter().filter_map(|(uid, _)| known.cache.key(uid)).collect();
    for (_, answer) in &answers {
        if let Answer::Replace { holders } = answer {
            wake.extend(replace(known, holders));
        }
    }
    wake
}

/// Uid of an object.
pub(super) fn uid(object: &Value) -> String {
    text(object, "/metadata/uid")
}
