//! Whether a child still is what was rendered: the hash of what was applied, and every field we set, compared as
//! the API means it. Owns that comparison; fields of others do not matter.

use orlop_core::name::sha256_hex;
use orlop_core::quantity::Quantity;
use serde_json::{Value, json};

use super::APPLIED_HASH;
use crate::value::{canonical, word};

/// Members that tell items of a list apart, the first that all of them have.
const KEYS: [&str; 7] = ["name", "key", "containerPort", "port", "mountPath", "uid", "topologyKey"];
/// Members that hold amounts.
const AMOUNTS: [&str; 2] = ["requests", "limits"];
/// Members that the API takes as one value: what others add to them changes what they mean.
const WHOLE: [&str; 2] = ["selector", "matchLabels"];

/// A rendered child with the hash of what was rendered, by which fields that are not rendered any more are missed.
#[must_use]
pub fn marked(mut object: Value) -> Value {
    let hash = sha256_hex(canonical(&object).as_bytes(), 32);
    object["metadata"]["annotations"][APPLIED_HASH] = json!(hash);
    object
}

/// Whether a live object differs from what is rendered.
#[must_use]
pub fn differs(live: &Value, wanted: &Value) -> bool {
    let pointer = format!("/metadata/annotations/{}", APPLIED_HASH.replace('/', "~1"));
    word(live, &pointer) != word(wanted, &pointer) || !covers(live, wanted)
}

/// Whether everything that is wanted is there, whatever others have added.
#[must_use]
pub fn covers(live: &Value, wanted: &Value) -> bool {
    difference(live, wanted).is_none()
}

/// The first field that is not as it is wanted, as a path.
#[must_use]
pub fn difference(live: &Value, wanted: &Value) -> Option<String> {
    missed(live, wanted, "", "")
}

fn missed(live: &Value, wanted: &Value, place: &str, path: &str) -> Option<String> {
    let unless = |same: bool| (!same).then(|| path.to_owned());
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted.iter().find_map(|(name, wanted)| {
            let path = format!("{path}.{name}");
            let unless = |same: bool| (!same).then(|| path.clone());
            match live.get(name) {
                Some(live) if AMOUNTS.contains(&place) => unless(same_amount(live, wanted)),
                Some(live) if WHOLE.contains(&name.as_str()) && is_flat(wanted) => unless(live == wanted),
                Some(live) => missed(live, wanted, name, &path),
                // The API leaves out what is empty.
                None => unless(is_empty(wanted)),
            }
        }),
        (Value::Array(live), Value::Array(wanted)) => missed_item(live, wanted, place, path),
        (live, wanted) => unless(live == wanted || same_amount(live, wanted) && place == "sizeLimit"),
    }
}

fn missed_item(live: &[Value], wanted: &[Value], place: &str, path: &str) -> Option<String> {
    let key = KEYS.into_iter().find(|key| !wanted.is_empty() && wanted.iter().all(|item| item.get(key).is_some()));
    let Some(key) = key else {
        let pairs = live.iter().zip(wanted).enumerate();
        let mut missed = pairs.filter_map(|(at, (live, wanted))| missed(live, wanted, place, &format!("{path}[{at}]")));
        return if live.len() == wanted.len() { missed.next() } else { Some(path.to_owned()) };
    };
    wanted.iter().find_map(|item| {
        let path =
            format!("{path}[{}]", item.get(key).map_or_else(String::new, |name| name.to_string().replace('"', "")));
        let same = live.iter().filter(|other| other.get(key) == item.get(key));
        let mut found = same.map(|live| missed(live, item, place, &path)).collect::<Vec<_>>();
        if found.iter().any(Option::is_none) && !found.is_empty() { None } else { found.pop().flatten().or(Some(path)) }
    })
}

/// Whether an object has texts alone.
fn is_flat(value: &Value) -> bool {
    value.as_object().is_some_and(|members| members.values().all(Value::is_string))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn same_amount(one: &Value, other: &Value) -> bool {
    let amount = |value: &Value| match value {
        Value::String(text) => text.parse::<Quantity>().ok().map(Quantity::nano),
        Value::Number(number) => number.to_string().parse::<Quantity>().ok().map(Quantity::nano),
        _ => None,
    };
    one == other || amount(one).is_some_and(|one| amount(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment() -> Value {
        json!({"metadata": {"name": "d", "labels": {"app": "x"}}, "spec": {"replicas": 2, "template": {"spec": {"containers": [
            {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1000m"}}, "ports": [{"name": "grpc", "containerPort": 9090}]}],
            "tolerations": [], "args": ["a", "b"]}}}})
    }

    #[test]
    fn what_others_add_does_not_matter_and_quantities_are_compared_as_amounts() {
        let wanted = marked(deployment());
        let mut live = wanted.clone();
        live["metadata"]["uid"] = json!("u");
        live["metadata"]["labels"]["their"] = json!("own");
        live["spec"]["strategy"] = json!({"type": "RollingUpdate"});
        let pod = live.pointer_mut("/spec/template/spec").unwrap();
        pod.as_object_mut().unwrap().remove("tolerations");
        pod["containers"][0]["resources"]["requests"]["cpu"] = json!("1");
        pod["containers"][0]["imagePullPolicy"] = json!("Always");
        pod["containers"].as_array_mut().unwrap().insert(0, json!({"name": "injected"}));
        assert!(!differs(&live, &wanted));
    }

    #[test]
    fn a_difference_is_named_by_its_path() {
        let wanted = deployment();
        let differs = |path: &str, value: Value| {
            let mut live = wanted.clone();
            *live.pointer_mut(path).unwrap() = value;
            difference(&live, &wanted).unwrap()
        };
        let of = [
            differs("/spec/replicas", json!(3)),
            differs("/spec/template/spec/containers/0/image", json!("j")),
            differs("/spec/template/spec/containers/0/resources/requests/cpu", json!("2")),
            differs("/spec/template/spec/args", json!(["a"])),
            differs("/spec/template/spec/containers", json!([])),
            differs("/metadata/labels", json!({})),
        ];
        insta::assert_snapshot!(of.join("\n"), @"
        .spec.replicas
        .spec.template.spec.containers[main].image
        .spec.template.spec.containers[main].resources.requests.cpu
        .spec.template.spec.args
        .spec.template.spec.containers[main]
        .metadata.labels.app
        ");
        assert_eq!(difference(&wanted, &wanted), None);
    }

    #[test]
    fn what_is_ours_and_changed_is_seen() {
        let wanted = marked(deployment());
        let changed = |path: &str, value: Value| {
            let mut live = wanted.clone();
            *live.pointer_mut(path).unwrap() = value;
            differs(&live, &wanted)
        };
        assert!(changed("/spec/replicas", json!(3)));
        assert!(changed("/spec/template/spec/containers/0/image", json!("j")));
        assert!(changed("/spec/template/spec/containers/0/resources/requests/cpu", json!("2")));
        assert!(changed("/spec/template/spec/args", json!(["a"])));
        assert!(changed("/metadata/labels", json!({})));
        // A selector that asks for more selects less.
        let service = marked(json!({"spec": {"selector": {"app": "x"}}}));
        let mut narrowed = service.clone();
        narrowed["spec"]["selector"]["team"] = json!("theirs");
        assert!(differs(&narrowed, &service));
        // A field that is rendered no more is told by the hash alone.
        let mut less = deployment();
        less["spec"]["template"]["spec"].as_object_mut().unwrap().remove("args");
        assert!(differs(&wanted, &marked(less)));
    }
}
