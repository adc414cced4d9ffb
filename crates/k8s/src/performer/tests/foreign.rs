//! Objects of others under the names of ours: they stay as they are, and it is said.

use serde_json::{Value, json};

use super::super::PERFORMER;
use super::{Bed, INCARNATION, another, bed, place, pods, running, serves, spec};
use crate::api::Kind;
use crate::hourglass::tests::host;
use crate::value::text;

/// Names of what a performer of this spec is made with.
fn names(kind: Kind, spec: &Value) -> Vec<String> {
    let mut bed = with_claims();
    bed.submit("avs", spec.clone());
    bed.rest();
    bed.server.list(kind).iter().map(|object| text(object, "/metadata/name")).collect()
}

fn with_claims() -> Bed {
    let mut bed = Bed::new();
    bed.show(Kind::Node, host("node-1", json!({}), json!({})));
    bed.list(Kind::DeviceClass);
    bed
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
            let mut bed = with_claims();
            let theirs = json!({"metadata": {"name": name, "labels": labels, "ownerReferences": owner}, "data": {"theirs": true}});
            let theirs = bed.server.put(kind, theirs);
            bed.submit("avs", spec.clone());
            bed.rest();
            assert_eq!(place(&bed), "Failed/Failed True/Conflict", "{kind:?} {labels}");
            assert_eq!(pods(&bed), [] as [String; 0], "a pod of a spec that is another's is not made");
            assert_eq!(bed.server.get(kind, name), Some(theirs.clone()));
            assert!(bed.events().contains(&"Conflict".to_owned()));
            // Whether the name is free is asked again each minute, by a create that has no effect.
            let before = bed.writes().len();
            bed.wait(300);
            let asked = bed.writes()[before..].to_vec();
            assert!(
                asked.len() <= 5
                    && asked.iter().all(|write| write.starts_with("create ") && write.ends_with(name.as_str())),
                "{asked:?}"
            );
            assert_eq!(bed.server.get(kind, name), Some(theirs));
            bed.server.remove(kind, name);
            bed.wait(61);
            assert_ne!(bed.condition("avs", "Degraded"), "True/Conflict", "{kind:?}");
            assert_eq!(pods(&bed).len(), 1, "{kind:?}");
        }
    }
}

#[test]
fn pods_of_others_with_our_labels_are_neither_adopted_nor_deleted() {
    let mut bed = bed();
    let labels = json!({"app": "hourglass-performer", super::super::PERFORMER: "avs", super::INCARNATION: "7"});
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let theirs = bed.server.put(
        Kind::Pod,
        json!({"metadata": {"name": "theirs", "labels": labels}, "spec": {"containers": [{"name": "performer", "image": "well"}]},
            "status": {"phase": "Succeeded", "conditions": ready}}),
    );
    bed.submit("avs", spec("well"));
    bed.rest();
    assert_eq!((bed.status("avs")["active"]["incarnation"].clone(), serves(&bed)), (json!(1), true));
    bed.server.request_deletion(Kind::Performer, "avs");
    bed.wait(60);
    assert!(bed.server.list(Kind::Performer).is_empty());
    assert_eq!(bed.server.get(Kind::Pod, "theirs"), Some(theirs));
}

#[test]
fn a_foreign_service_beside_what_serves_ends_nothing_and_outlives_the_performer() {
    let mut bed = running(spec("well"));
    bed.server.remove(Kind::Service, "performer-avs");
    let theirs = bed.server.put(Kind::Service, json!({"metadata": {"name": "performer-avs"}, "spec": {"mine": true}}));
    bed.rest();
    assert_eq!((place(&bed).as_str(), pods(&bed).len()), ("Failed/Failed True/Conflict", 1));
    bed.server.request_deletion(Kind::Performer, "avs");
    bed.wait(60);
    assert!(bed.server.list(Kind::Performer).is_empty() && pods(&bed).is_empty());
    assert_eq!(bed.server.get(Kind::Service, "performer-avs"), Some(theirs));
}

/// Whether the Service selects the pod of a number and nothing else is asked of it.
fn is_reached(bed: &Bed, number: &str) -> bool {
    let service = bed.server.list(Kind::Service).remove(0);
    let selector = service["spec"]["selector"].as_object().unwrap().clone();
    let pods = bed.server.list(Kind::Pod);
    let selected = |pod: &&Value| selector.iter().all(|(key, value)| &pod["metadata"]["labels"][key] == value);
    let mut reached = pods.iter().filter(selected);
    reached.next().is_some_and(|pod| pod["metadata"]["labels"][INCARNATION] == number)
}

#[test]
fn what_the_service_selects_and_the_labels_by_which_it_does_are_put_back() {
    let mut bed = running(spec("well"));
    another(&bed, "well:2", json!({}));
    bed.wait(400);
    assert!(is_reached(&bed, "2"), "{:?}", pods(&bed));
    bed.server.edit(Kind::Service, "performer-avs", |service| service["spec"]["selector"]["team"] = json!("x"));
    assert!(!is_reached(&bed, "2"));
    bed.settle();
    assert!(is_reached(&bed, "2"), "{:?}", bed.server.list(Kind::Service));
    let [serving] = <[String; 1]>::try_from(pods(&bed)).unwrap();
    for label in [PERFORMER, INCARNATION] {
        bed.server.edit(Kind::Pod, &serving, |pod| {
            pod["metadata"]["labels"].as_object_mut().unwrap().remove(label).unwrap();
        });
        assert!(!is_reached(&bed, "2"), "{label}");
        bed.settle();
        assert!(is_reached(&bed, "2"), "{label}: {:?}", bed.server.list(Kind::Pod));
    }
    assert_eq!(place(&bed), "Running/Running False/AsExpected");
    bed.writes_nothing_more();
}
