//! Objects of others under the names of ours: they stay as they are, and it is said.

use serde_json::{Value, json};

use super::super::PERFORMER;
use super::{INCARNATION, TestEnv, another, env, place, pods, running, serves, spec};
use crate::api::Kind;
use crate::hourglass::tests::host;
use crate::value::text;

/// Names of what a performer of this spec is made with.
fn names(kind: Kind, spec: &Value) -> Vec<String> {
    let mut env = with_claims();
    env.submit("avs", spec.clone());
    env.rest();
    env.server.list(kind).iter().map(|object| text(object, "/metadata/name")).collect()
}

fn with_claims() -> TestEnv {
    let mut env = TestEnv::new();
    env.add(Kind::Node, host("node-1", json!({}), json!({})));
    env.list(Kind::DeviceClass);
    env
}

fn claims() -> Value {
    json!({"avsAddress": super::ADDRESS, "image": "well",
        "hardwareRequirements": {"gpuType": "h100", "gpuCount": 1, "allocation": "dra"}})
}

#[test]
fn a_foreign_revision_or_template_is_never_touched_and_never_used() {
    for (kind, spec) in [(Kind::Revision, spec("well")), (Kind::ClaimTemplate, claims())] {
        let all = names(kind, &spec);
        let [name] = all.as_slice() else { panic!("{kind:?}: {all:?}") };
        let other = json!([{"kind": "Performer", "name": "avs", "uid": "another", "controller": true}]);
        // Without an owner, with another one, and with labels like ours besides.
        for (labels, owner) in [
            (json!({}), json!([])),
            (json!({}), other.clone()),
            (json!({"app": "hourglass-performer", super::super::PERFORMER: "avs"}), other.clone()),
        ] {
            let mut env = with_claims();
            let theirs = json!({"metadata": {"name": name, "labels": labels, "ownerReferences": owner}, "data": {"theirs": true}});
            let theirs = env.server.put(kind, theirs);
            env.submit("avs", spec.clone());
            env.rest();
            assert_eq!(place(&env), "Failed/Failed True/Conflict", "{kind:?} {labels}");
            assert_eq!(pods(&env), [] as [String; 0], "a pod of a spec that is another's is not made");
            assert_eq!(env.server.get(kind, name), Some(theirs.clone()));
            assert!(env.events().contains(&"Conflict".to_owned()));
            // Whether the name is free is asked again each minute, by a create that has no effect.
            let before = env.writes().len();
            env.wait(300);
            let asked = env.writes()[before..].to_vec();
            assert!(
                asked.len() <= 5
                    && asked.iter().all(|write| write.starts_with("create ") && write.ends_with(name.as_str())),
                "{asked:?}"
            );
            assert_eq!(env.server.get(kind, name), Some(theirs));
            env.server.remove(kind, name);
            env.wait(61);
            assert_ne!(env.condition("avs", "Degraded"), "True/Conflict", "{kind:?}");
            assert_eq!(pods(&env).len(), 1, "{kind:?}");
        }
    }
}

#[test]
fn pods_of_others_with_our_labels_are_neither_adopted_nor_deleted() {
    let mut env = env();
    let labels = json!({"app": "hourglass-performer", super::super::PERFORMER: "avs", super::INCARNATION: "7"});
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let theirs = env.server.put(
        Kind::Pod,
        json!({"metadata": {"name": "theirs", "labels": labels}, "spec": {"containers": [{"name": "performer", "image": "well"}]},
            "status": {"phase": "Succeeded", "conditions": ready}}),
    );
    env.submit("avs", spec("well"));
    env.rest();
    assert_eq!((env.status("avs")["active"]["incarnation"].clone(), serves(&env)), (json!(1), true));
    env.server.request_deletion(Kind::Performer, "avs");
    env.wait(60);
    assert!(env.server.list(Kind::Performer).is_empty());
    assert_eq!(env.server.get(Kind::Pod, "theirs"), Some(theirs));
}

#[test]
fn a_foreign_service_beside_what_serves_ends_nothing_and_outlives_the_performer() {
    let mut env = running(spec("well"));
    env.server.remove(Kind::Service, "performer-avs");
    let theirs = env.server.put(Kind::Service, json!({"metadata": {"name": "performer-avs"}, "spec": {"mine": true}}));
    env.rest();
    assert_eq!((place(&env).as_str(), pods(&env).len()), ("Failed/Failed True/Conflict", 1));
    env.server.request_deletion(Kind::Performer, "avs");
    env.wait(60);
    assert!(env.server.list(Kind::Performer).is_empty() && pods(&env).is_empty());
    assert_eq!(env.server.get(Kind::Service, "performer-avs"), Some(theirs));
}

/// Whether the Service selects the pod of a number and nothing else is asked of it.
fn is_reached(env: &TestEnv, number: &str) -> bool {
    let service = env.server.list(Kind::Service).remove(0);
    let selector = service["spec"]["selector"].as_object().unwrap().clone();
    let pods = env.server.list(Kind::Pod);
    let selected = |pod: &&Value| selector.iter().all(|(key, value)| &pod["metadata"]["labels"][key] == value);
    let mut reached = pods.iter().filter(selected);
    reached.next().is_some_and(|pod| pod["metadata"]["labels"][INCARNATION] == number)
}

#[test]
fn what_the_service_selects_and_the_labels_by_which_it_does_are_put_back() {
    let mut env = running(spec("well"));
    another(&env, "well:2", json!({}));
    env.wait(400);
    assert!(is_reached(&env, "2"), "{:?}", pods(&env));
    env.server.edit(Kind::Service, "performer-avs", |service| service["spec"]["selector"]["team"] = json!("x"));
    assert!(!is_reached(&env, "2"));
    env.settle();
    assert!(is_reached(&env, "2"), "{:?}", env.server.list(Kind::Service));
    let [serving] = <[String; 1]>::try_from(pods(&env)).unwrap();
    for label in [PERFORMER, INCARNATION] {
        env.server.edit(Kind::Pod, &serving, |pod| {
            pod["metadata"]["labels"].as_object_mut().unwrap().remove(label).unwrap();
        });
        assert!(!is_reached(&env, "2"), "{label}");
        env.settle();
        assert!(is_reached(&env, "2"), "{label}: {:?}", env.server.list(Kind::Pod));
    }
    assert_eq!(place(&env), "Running/Running False/AsExpected");
    env.writes_nothing_more();
}
