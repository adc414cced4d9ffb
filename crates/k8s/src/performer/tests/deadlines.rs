//! How long something may take, and what a new try inherits.

use serde_json::{Value, json};

use super::{Bed, another, place, pods, running, selected, serves, spec};
use crate::api::Kind;

fn upgrade(bed: &mut Bed, habit: &'static str) {
    bed.images.insert("bad".into(), habit);
    another(bed, "bad", json!({"progressDeadlineSeconds": 30}));
    bed.rest();
}

fn fail_last(bed: &mut Bed) {
    let name = bed.status("avs")["candidate"]["podName"].as_str().unwrap().to_owned();
    bed.server.edit(Kind::Pod, &name, |pod| pod["status"]["phase"] = json!("Failed"));
    bed.rest();
}

#[test]
fn an_image_may_be_pulled_for_an_hour_where_there_is_no_error() {
    let mut bed = running(spec("well"));
    upgrade(&mut bed, "pulls");
    bed.wait(3590);
    assert_eq!((place(&bed).as_str(), pods(&bed).len()), ("Upgrading/PodRecreation False/AsExpected", 2));
    bed.wait(20);
    assert_eq!((place(&bed).as_str(), selected(&bed).as_str()), ("Running/Running True/UpgradeFailed", "1"));
}

#[test]
fn a_longer_deadline_than_an_hour_holds_for_pulling_too() {
    let mut bed = running(spec("well"));
    upgrade(&mut bed, "pulls");
    bed.change("avs", |spec| spec["upgrade"]["progressDeadlineSeconds"] = json!(7200));
    bed.wait(7100);
    assert_eq!(place(&bed), "Upgrading/PodRecreation False/AsExpected");
    bed.wait(110);
    assert_eq!(place(&bed), "Running/Running True/UpgradeFailed");
}

#[test]
fn an_image_that_cannot_be_pulled_has_the_usual_time() {
    let mut bed = running(spec("well"));
    upgrade(&mut bed, "ImagePullBackOff");
    assert_eq!(place(&bed), "Upgrading/PodRecreation True/ImagePullFailed");
    bed.wait(29);
    assert_eq!(pods(&bed).len(), 2);
    bed.wait(2);
    assert_eq!(place(&bed), "Running/Running True/UpgradeFailed");
}

#[test]
fn a_candidate_that_is_made_again_inherits_when_it_started_and_its_steps_do_not_count_again() {
    let mut bed = running(spec("well"));
    upgrade(&mut bed, "never");
    let first = bed.status("avs")["candidate"].clone();
    assert!(first["startedAt"].is_string() && first["progressedAt"].is_string(), "{first}");
    bed.wait(15);
    fail_last(&mut bed);
    // Ten seconds after the failure there is another one, which comes as far as the first.
    bed.wait(12);
    let second = bed.status("avs")["candidate"].clone();
    assert_eq!((&first["incarnation"], &second["incarnation"]), (&json!(2), &json!(3)));
    for member in ["specHash", "startedAt", "progressedAt"] {
        assert_eq!(second[member], first[member], "{member}");
    }
    assert_eq!((place(&bed).as_str(), serves(&bed)), ("Upgrading/PodRecreation False/AsExpected", true));
    bed.wait(2);
    assert_eq!(place(&bed), "Upgrading/PodRecreation False/AsExpected", "not yet");
    bed.wait(2);
    assert_eq!(place(&bed), "Running/Running True/UpgradeFailed", "30 s after the last step that was new");
}

#[test]
fn a_candidate_of_another_spec_begins_anew() {
    let mut bed = running(spec("well"));
    upgrade(&mut bed, "never");
    let first = bed.status("avs")["candidate"].clone();
    bed.images.insert("worse".into(), "never");
    bed.wait(15);
    bed.change("avs", |spec| spec["image"] = json!("worse"));
    bed.rest();
    let second = bed.status("avs")["candidate"].clone();
    assert_ne!((&second["specHash"], &second["startedAt"]), (&first["specHash"], &first["startedAt"]));
    bed.wait(29);
    assert_eq!(place(&bed), "Upgrading/PodRecreation False/AsExpected");
    bed.wait(2);
    assert_eq!(place(&bed), "Running/Running True/UpgradeFailed");
}

#[test]
fn another_spec_is_tried_at_once_and_its_failures_are_counted_from_the_first() {
    let mut bed = running(spec("well"));
    for _ in 0..3 {
        let name = pods(&bed).pop().unwrap();
        bed.server.edit(Kind::Pod, &name, |pod| pod["status"]["phase"] = json!("Failed"));
        bed.rest();
        if bed.status("avs")["retry"]["count"] != 3 {
            bed.wait(60);
        }
    }
    assert_eq!(
        (place(&bed).as_str(), bed.status("avs")["retry"]["count"].clone()),
        ("Failed/Failed True/PodFailed", json!(3))
    );
    bed.change("avs", |spec| spec["image"] = json!("other"));
    bed.rest();
    assert_eq!((place(&bed).as_str(), serves(&bed)), ("Running/Running False/AsExpected", true), "without a wait");
    assert_eq!(bed.status("avs")["retry"], Value::Null);
    let name = pods(&bed).pop().unwrap();
    bed.server.edit(Kind::Pod, &name, |pod| pod["status"]["phase"] = json!("Failed"));
    bed.rest();
    assert_eq!(bed.status("avs")["retry"]["count"], 1);
}

#[test]
fn ready_for_ten_minutes_forgets_failures_and_less_does_not() {
    let mut bed = running(spec("well"));
    let fail = |bed: &mut Bed| {
        let name = pods(bed).pop().unwrap();
        bed.server.edit(Kind::Pod, &name, |pod| pod["status"]["phase"] = json!("Failed"));
        bed.rest();
    };
    fail(&mut bed);
    bed.wait(11 + 590);
    fail(&mut bed);
    assert_eq!(bed.status("avs")["retry"]["count"], 2);
    bed.wait(21 + 601);
    fail(&mut bed);
    assert_eq!(bed.status("avs")["retry"]["count"], 1);
}
