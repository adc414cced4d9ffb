//! ConfigMaps and Secrets that variables are from: which changes of them start a new pod.

use serde_json::{Value, json};

use super::{Bed, INCARNATION, bed, place, pods, running, selected, serves, spec};
use crate::api::Kind;
use crate::hourglass::tests::log;
use crate::shell::fake::refused;

/// A time after which everything is looked at again.
const RESYNC: u64 = 301;
/// What nobody may read.
const VALUE: &str = "dmFsdWUtb2YtdGhlLXRva2Vu";

fn referring() -> Value {
    let from = json!([
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "token"}}},
        {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "level"}}},
    ]);
    let mut spec = spec("good");
    spec["config"] = json!({"environmentFrom": from});
    spec
}

fn put(bed: &Bed) {
    let secret = json!({"metadata": {"name": "token"}, "data": {"token": VALUE, "other": "eA=="}});
    bed.server.put(Kind::Secret, secret);
    bed.server.put(Kind::ConfigMap, json!({"metadata": {"name": "settings"}, "data": {"level": "info", "other": "x"}}));
}

fn serving(spec: Value) -> Bed {
    let mut bed = bed();
    put(&bed);
    bed.submit("avs", spec);
    bed.rest();
    assert_eq!(place(&bed), "Running/Running False/AsExpected");
    bed
}

/// Everything was looked at again, and what followed is over.
fn later(bed: &mut Bed) {
    bed.wait(RESYNC);
    bed.wait(60);
}

fn set(bed: &Bed, kind: Kind, name: &str, key: &str, value: &str) {
    bed.server.edit(kind, name, |object| object["data"][key] = json!(value));
}

fn generation(bed: &Bed) -> u64 {
    bed.status("avs")["referenceGeneration"].as_u64().unwrap_or_default()
}

#[test]
fn a_named_key_that_changes_starts_a_pod_by_an_ordinary_upgrade() {
    let mut bed = serving(referring());
    let recorded = |bed: &Bed| bed.status("avs")["references"].as_array().map_or(0, Vec::len);
    assert_eq!((recorded(&bed), generation(&bed)), (2, 0));
    for (round, (kind, name, key)) in
        [(Kind::Secret, "token", "token"), (Kind::ConfigMap, "settings", "level")].into_iter().enumerate()
    {
        set(&bed, kind, name, key, "bmV3");
        later(&mut bed);
        assert!(serves(&bed));
        let rounds = round + 1;
        assert_eq!((generation(&bed), selected(&bed)), (rounds as u64, (rounds + 1).to_string()), "{name}");
    }
    let pod = bed.server.get(Kind::Pod, &pods(&bed)[0]).unwrap();
    assert_eq!(pod["metadata"]["annotations"]["hourglass.eigenlayer.io/reference-generation"], "2");
}

#[test]
fn a_key_that_nobody_names_starts_nothing() {
    let mut bed = serving(referring());
    set(&bed, Kind::Secret, "token", "other", "eQ==");
    set(&bed, Kind::ConfigMap, "settings", "other", "y");
    later(&mut bed);
    assert_eq!((generation(&bed), selected(&bed).as_str()), (0, "1"));
    bed.writes_nothing_more();
}

#[test]
fn another_operator_and_a_lost_status_start_nothing() {
    let mut bed = serving(referring());
    set(&bed, Kind::Secret, "token", "token", "bmV3");
    later(&mut bed);
    assert_eq!((generation(&bed), selected(&bed).as_str()), (1, "2"));
    bed.restart();
    bed.rest();
    later(&mut bed);
    assert_eq!((generation(&bed), selected(&bed).as_str()), (1, "2"), "another operator");
    bed.server.edit(Kind::Performer, "avs", |object| object["status"] = json!({}));
    bed.restart();
    bed.rest();
    later(&mut bed);
    assert_eq!((generation(&bed), selected(&bed).as_str()), (1, "2"), "a lost status");
}

/// The pod that serves loses its number, and with it all annotations.
fn lose_number(bed: &mut Bed) {
    let [name] = <[String; 1]>::try_from(pods(bed)).unwrap();
    bed.server.edit(Kind::Pod, &name, |pod| {
        pod["metadata"]["labels"].as_object_mut().unwrap().remove(INCARNATION).unwrap();
        pod["metadata"]["annotations"] = json!({});
    });
    bed.rest();
}

#[test]
fn a_pod_that_is_adopted_without_a_number_gets_the_annotations_of_one_that_is_created() {
    let mut bed = serving(referring());
    set(&bed, Kind::Secret, "token", "token", "bmV3");
    later(&mut bed);
    assert_eq!((generation(&bed), selected(&bed).as_str()), (1, "2"));
    let annotations = |bed: &Bed| bed.server.list(Kind::Pod).remove(0)["metadata"]["annotations"].clone();
    let before = annotations(&bed);
    lose_number(&mut bed);
    assert_eq!(annotations(&bed), before);
    bed.server.edit(Kind::Performer, "avs", |object| object["status"] = json!({}));
    bed.restart();
    bed.rest();
    later(&mut bed);
    assert_eq!((generation(&bed), selected(&bed).as_str()), (1, "2"), "a lost status starts no pod");
}

#[test]
fn what_is_missing_keeps_its_last_version() {
    let mut bed = serving(referring());
    let secret = bed.server.get(Kind::Secret, "token").unwrap();
    bed.server.remove(Kind::Secret, "token");
    later(&mut bed);
    assert_eq!((generation(&bed), selected(&bed).as_str()), (0, "1"));
    let data = secret["data"].clone();
    bed.server.put(Kind::Secret, json!({"metadata": {"name": "token"}, "data": data}));
    later(&mut bed);
    assert_eq!((generation(&bed), selected(&bed).as_str()), (0, "1"), "it is back with the same contents");
}

#[test]
fn what_may_not_be_read_is_told_once_and_holds_nothing_up() {
    let mut bed = bed();
    put(&bed);
    bed.refuse("get", Kind::Secret, 9, refused(403, "Forbidden"));
    bed.submit("avs", referring());
    bed.rest();
    later(&mut bed);
    assert_eq!((place(&bed).as_str(), bed.told("ReferenceForbidden")), ("Running/Running False/AsExpected", 1));
    set(&bed, Kind::ConfigMap, "settings", "level", "debug");
    later(&mut bed);
    assert_eq!((generation(&bed), selected(&bed).as_str(), bed.told("ReferenceForbidden")), (1, "2", 1));
}

#[test]
fn who_does_not_want_it_is_left_alone() {
    let mut spec = referring();
    spec["rollOnReferenceChange"] = json!(false);
    let mut bed = serving(spec);
    assert_eq!(bed.status("avs").get("references"), None, "nothing is read");
    set(&bed, Kind::Secret, "token", "token", "bmV3");
    later(&mut bed);
    assert_eq!((generation(&bed), selected(&bed).as_str()), (0, "1"));
    bed.change("avs", |spec| spec["rollOnReferenceChange"] = json!(true));
    bed.rest();
    assert_eq!((generation(&bed), selected(&bed).as_str()), (0, "1"), "nobody knows what was before");
    set(&bed, Kind::Secret, "token", "token", "bmV3ZXI=");
    later(&mut bed);
    assert_eq!(generation(&bed), 1);
}

#[test]
fn values_are_in_no_status_event_annotation_or_log() {
    let mut all = Vec::new();
    let said = log::lines(|| {
        let mut bed = serving(referring());
        set(&bed, Kind::Secret, "token", "token", &VALUE[4..]);
        later(&mut bed);
        assert_eq!(generation(&bed), 1);
        let kinds = [Kind::Performer, Kind::Pod, Kind::Service, Kind::Revision, Kind::Event];
        all.extend(kinds.into_iter().flat_map(|kind| bed.server.list(kind)).map(|object| object.to_string()));
    });
    all.extend(said);
    let leaks: Vec<&String> = all.iter().filter(|text| text.contains(&VALUE[4..])).collect();
    assert!(leaks.is_empty(), "{leaks:?}");
}

#[test]
fn performers_without_references_read_neither() {
    let mut bed = bed();
    bed.refuse("get", Kind::Secret, 1, refused(500, "InternalError"));
    bed.refuse("get", Kind::ConfigMap, 1, refused(500, "InternalError"));
    bed.submit("avs", spec("good"));
    bed.rest();
    assert_eq!((place(&bed).as_str(), bed.failures().len()), ("Running/Running False/AsExpected", 0));
    drop(running(spec("good")));
}
