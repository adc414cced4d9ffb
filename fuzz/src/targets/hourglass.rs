//! Performers and executors from any bytes: what is observed is any JSON, and a plan is made of it all the same. Plans are equal
//! for equal observations, every step they take is one of the table, and a key of an operator is in a Secret or nowhere.

use std::sync::Arc;

use orlop_core::machine::{executor as executor_machine, performer as performer_machine};
use orlop_core::named::Named;
use orlop_core::time::Time;
use orlop_k8s::api::Kind;
use orlop_k8s::hourglass::Config;
use orlop_k8s::hourglass::children::Meta;
use orlop_k8s::hourglass::cluster::Cluster;
use orlop_k8s::hourglass::plan::{Effect, Plan};
use orlop_k8s::hourglass::reference::{ObservedReference, ReferenceState};
use orlop_k8s::{executor, performer};
use serde_json::Value;

/// Keys shorter than this are in everything.
const LONG: usize = 24;

fn list(object: &Value, name: &str) -> Vec<Value> {
    object.get(name).and_then(Value::as_array).cloned().unwrap_or_default()
}

fn child(object: &Value, name: &str) -> Option<Value> {
    object.get(name).filter(|child| child.is_object()).cloned()
}

fn cluster(object: &Value, config: &Config) -> Cluster {
    let mut cluster = Cluster::default();
    let kinds = [
        ("nodes", Kind::Node),
        ("runtimeClasses", Kind::RuntimeClass),
        ("deviceClasses", Kind::DeviceClass),
        ("slices", Kind::ResourceSlice),
    ];
    for (name, kind) in kinds {
        for shown in list(object, name) {
            cluster.apply(kind, &shown, &config.tables.catalogue);
        }
    }
    cluster
}

/// Each step begins where the one before has ended, with names of the table.
fn path_holds<S: Named>(plan: &Plan) {
    for step in &plan.path {
        assert!(
            S::from_name(step.to).is_some() && step.from.is_none_or(|from| S::from_name(from).is_some()),
            "{step:?}"
        );
    }
    for pair in plan.path.windows(2) {
        assert!(matches!(pair, [one, other] if other.from == Some(one.to)), "{pair:?}");
    }
}

/// No effect but one on a Secret shows a key that stands nowhere else in the object.
fn hides(object: &Value, keys: &[String], plan: &Plan) {
    let mut rest = object.clone();
    if let Some(config) = rest.pointer_mut("/spec/config").and_then(Value::as_object_mut) {
        config.remove("operatorKeys");
    }
    let rest = rest.to_string();
    for key in keys.iter().filter(|key| key.len() >= LONG && !rest.contains(key.as_str())) {
        for effect in &plan.effects {
            let is_secret = matches!(effect, Effect::Create(Kind::Secret, _) | Effect::Apply(Kind::Secret, _));
            let text = serde_json::to_string(effect).unwrap_or_default();
            assert!(is_secret || !text.contains(key.as_str()), "a key is shown");
        }
    }
}

/// Secrets by name: a text is the version of one that is there, null stands for a missing one, anything else for one that may not be
/// read.
fn references(object: &Value) -> Vec<ObservedReference> {
    let found = |value: &Value| match value {
        Value::String(version) => {
            ReferenceState::Present { uid: version.clone(), version: version.clone(), same: version.len() > 3 }
        }
        Value::Null => ReferenceState::Missing,
        _ => ReferenceState::Denied,
    };
    let all = object.get("references").and_then(Value::as_object).into_iter().flatten();
    all.map(|(name, value)| ObservedReference { kind: Kind::Secret, name: name.clone(), found: found(value) }).collect()
}

/// Decodes custom resources and what surrounds them, and plans for them.
pub fn hourglass_objects(data: &[u8]) {
    let Ok(object) = serde_json::from_slice::<Value>(data) else { return };
    let (config, now) = (Config::default(), Time::from_millis(1_795_300_000_000));
    let meta = Meta::of(&object);
    let spec = object.get("spec").cloned().unwrap_or_default();
    let stored = object.get("status").cloned().unwrap_or_default();
    let performer = performer::Observation {
        last_applied: Default::default(),
        meta: meta.clone(),
        spec: serde_json::from_value(spec.clone()).map_err(|error| error.to_string()),
        status: serde_json::from_value(stored.clone()).unwrap_or_default(),
        stored: stored.clone(),
        pods: list(&object, "pods"),
        next_incarnation: 1,
        service: child(&object, "service"),
        revisions: list(&object, "revisions"),
        templates: list(&object, "templates"),
        executor: child(&object, "executor"),
        references: references(&object),
        cluster: Arc::new(cluster(&object, &config)),
        last_failure: None,
    };
    let plan = performer::plan(&performer, &config, now);
    assert_eq!(plan, performer::plan(&performer, &config, now));
    path_holds::<performer_machine::PerformerState>(&plan);
    let executor = executor::Observation {
        last_applied: Default::default(),
        meta,
        spec: serde_json::from_value(spec).map_err(|error| error.to_string()),
        status: serde_json::from_value(stored.clone()).unwrap_or_default(),
        stored,
        config: child(&object, "config"),
        secret: child(&object, "secret"),
        account: child(&object, "account"),
        deployment: child(&object, "deployment"),
        budget: child(&object, "budget"),
        service: child(&object, "service"),
        pods: list(&object, "pods"),
        references: references(&object),
        last_failure: None,
    };
    let plan = executor::plan(&executor, &config, now);
    assert_eq!(plan, executor::plan(&executor, &config, now));
    path_holds::<executor_machine::ExecutorState>(&plan);
    let keys = executor.spec.iter().flat_map(|spec| spec.config.operator_keys.iter().flatten());
    let keys: Vec<String> = keys.map(|(_, key)| key.clone()).collect();
    hides(&object, &keys, &plan);
}
