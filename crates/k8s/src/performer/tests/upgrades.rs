//! A new spec takes the place of the old one: beside it, in its place, or not at all.

use serde_json::json;

use super::{Bed, another, bed, gpu, gpu_host, place, pods, running, selected, serves, spec};
use crate::api::Kind;

#[test]
fn a_new_restart_annotation_brings_a_new_pod_and_the_same_one_nothing() {
    let mut bed = running(spec("well"));
    let annotate = |bed: &Bed, at: &str| {
        bed.server.edit(Kind::Performer, "avs", |performer| {
            performer["metadata"]["annotations"]["hourglass.eigenlayer.io/restarted-at"] = json!(at);
        });
    };
    annotate(&bed, "2026-11-29T12:00:00Z");
    bed.wait(120);
    assert_eq!(
        (bed.status("avs")["active"]["incarnation"].clone(), place(&bed).as_str()),
        (json!(2), "Running/Running False/AsExpected")
    );
    assert!(serves(&bed), "an upgrade beside the pod that serves");
    let pod = bed.server.list(Kind::Pod).pop().unwrap();
    assert_eq!(pod["metadata"]["annotations"]["hourglass.eigenlayer.io/restarted-at"], "2026-11-29T12:00:00Z");
    bed.restart();
    bed.wait(700);
    bed.writes_nothing_more();
    annotate(&bed, "2026-11-29T13:00:00Z");
    bed.wait(120);
    assert_eq!(bed.status("avs")["active"]["incarnation"], 3);
}

#[test]
fn under_surge_somebody_serves_all_the_time() {
    let mut bed = running(spec("well"));
    bed.change("avs", |spec| spec["config"] = json!({"grpcPort": 9191}));
    let mut now = 0;
    while bed.status("avs")["active"]["incarnation"] != 2 {
        bed.wait(1);
        assert!(serves(&bed), "nobody serves after {now} s: {}", bed.status("avs"));
        now += 1;
        assert!(now < 60);
    }
    assert!(now >= 5, "it is ready for minReadySeconds first");
    let service = bed.server.get(Kind::Service, "performer-avs").unwrap();
    assert_eq!((selected(&bed).as_str(), &service["spec"]["ports"][0]["port"]), ("2", &json!(9191)));
    assert_eq!(pods(&bed).len(), 2, "the old pod drains");
    bed.wait(31);
    assert_eq!(pods(&bed).len(), 1);
    assert_eq!(bed.server.list(Kind::Revision).len(), 1, "the old revision goes");
    assert!(bed.status("avs")["lastUpgrade"].is_string());
    assert_eq!(bed.status("avs")["grpcEndpoint"], "performer-avs.default.svc.cluster.local:9191");
    insta::assert_snapshot!(bed.events().join(" "), @"Created Scheduled Ready UpgradeStarted Created Switched UpgradeCompleted Ready");
    bed.writes_nothing_more();
}

#[test]
fn what_never_becomes_ready_is_taken_back_and_not_tried_again() {
    let mut bed = running(spec("well"));
    bed.images.insert("bad".into(), "never");
    bed.change("avs", |spec| spec["image"] = json!("bad"));
    bed.rest();
    assert_eq!(place(&bed), "Upgrading/PodRecreation False/AsExpected");
    for _ in 0..60 {
        bed.wait(11);
        assert!(serves(&bed));
    }
    assert_eq!(place(&bed), "Running/Running True/UpgradeFailed");
    assert_eq!((selected(&bed).as_str(), pods(&bed).as_slice()), ("1", ["performer-avs".to_owned()].as_slice()));
    assert_eq!((bed.told("RolledBack"), bed.condition("avs", "Progressing").as_str()), (1, "False/WaitingForChange"));
    bed.writes_nothing_more();
    // Another value of the annotation tries again.
    bed.images.insert("bad".into(), "well");
    bed.server.edit(Kind::Performer, "avs", |performer| {
        performer["metadata"]["annotations"]["hourglass.eigenlayer.io/retry"] = json!("1");
    });
    bed.wait(60);
    assert_eq!(place(&bed), "Running/Running False/AsExpected");
    assert_eq!(bed.status("avs")["image"], "bad");
}

#[test]
fn without_auto_rollback_the_candidate_stays() {
    let mut bed = running(spec("well"));
    bed.images.insert("bad".into(), "never");
    another(&bed, "bad", json!({"autoRollback": false, "progressDeadlineSeconds": 30}));
    bed.wait(100);
    assert_eq!((place(&bed).as_str(), pods(&bed).len()), ("Upgrading/PodRecreation True/UpgradeFailed", 2));
    assert!(serves(&bed) && selected(&bed) == "1");
}

#[test]
fn recreate_waits_until_the_old_pod_is_gone() {
    let mut bed = running(spec("well"));
    another(&bed, "other", json!({"strategy": "Recreate"}));
    bed.wait(60);
    assert_eq!((place(&bed).as_str(), pods(&bed).len()), ("Running/Running False/AsExpected", 1));
    let order: Vec<String> = bed.writes().into_iter().filter(|write| write.contains(" pods ")).collect();
    insta::assert_snapshot!(order.join("\n"), @"
    create pods default/performer-avs
    delete pods default/performer-avs
    create pods default/performer-avs-39709593
    ");
    assert_eq!(bed.status("avs")["image"], "other");
    bed.writes_nothing_more();
}

#[test]
fn a_new_spec_for_a_pod_that_crashes_waits_until_that_pod_is_gone() {
    let mut bed = Bed::new();
    bed.show(Kind::Node, gpu_host("gpu-1", 1));
    bed.submit("avs", gpu("well"));
    bed.rest();
    bed.server.edit(Kind::Pod, "performer-avs", |pod| {
        pod["status"]["containerStatuses"][0]["state"] = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        pod["status"]["conditions"] = json!([]);
    });
    bed.rest();
    assert_eq!(place(&bed), "Failed/Failed True/ContainerStartFailed");
    bed.change("avs", |spec| spec["image"] = json!("other"));
    bed.settle();
    // The old pod is told to go and has not gone: its devices are not free.
    let going = bed.server.get(Kind::Pod, "performer-avs").unwrap();
    assert!(going["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(pods(&bed), ["performer-avs"]);
    bed.restart();
    bed.settle();
    assert_eq!(pods(&bed), ["performer-avs"], "another controller knows it too");
    bed.wait(60);
    assert_eq!((place(&bed).as_str(), pods(&bed).len()), ("Running/Running False/AsExpected", 1));
    assert_eq!(bed.status("avs")["image"], "other");
    bed.writes_nothing_more();
}

#[test]
fn recreate_that_fails_brings_the_last_good_spec_back_from_its_revision() {
    let mut bed = running(spec("well"));
    bed.images.insert("bad".into(), "never");
    another(&bed, "bad", json!({"strategy": "Recreate", "progressDeadlineSeconds": 30}));
    bed.wait(120);
    assert_eq!(place(&bed), "Running/Running True/UpgradeFailed");
    assert_eq!((bed.status("avs")["image"].clone(), pods(&bed).len(), serves(&bed)), (json!("well"), 1, true));
    bed.writes_nothing_more();
}

#[test]
fn where_there_is_no_room_beside_the_old_pod_gives_way() {
    let mut bed = Bed::new();
    bed.show(Kind::Node, gpu_host("gpu-1", 1));
    bed.submit("avs", gpu("well"));
    bed.rest();
    assert_eq!(bed.status("avs")["phase"], "Running", "{}", bed.status("avs"));
    bed.change("avs", |spec| spec["image"] = json!("other"));
    bed.wait(30);
    assert!(serves(&bed) && pods(&bed).len() == 2, "it waits for room first");
    bed.wait(31);
    // The scheduler looks again once the device is free.
    for name in pods(&bed) {
        bed.server.edit(Kind::Pod, &name, |pod| {
            if pod["spec"]["nodeName"].is_null() {
                pod["status"]["conditions"] = json!([]);
            }
        });
    }
    bed.wait(30);
    assert_eq!((place(&bed).as_str(), pods(&bed).len()), ("Running/Running False/AsExpected", 1));
    assert_eq!((bed.status("avs")["image"].clone(), bed.told("SurgeImpossible")), (json!("other"), 1));
}

#[test]
fn where_the_new_pod_fits_nowhere_the_old_one_keeps_serving() {
    let mut bed = Bed::new();
    bed.show(Kind::Node, gpu_host("gpu-1", 1));
    bed.submit("avs", gpu("well"));
    bed.rest();
    bed.change("avs", |spec| spec["hardwareRequirements"]["gpuCount"] = json!(2));
    bed.wait(300);
    assert!(serves(&bed) && selected(&bed) == "1", "{}", place(&bed));
    bed.wait(700);
    assert_eq!(place(&bed), "Running/Running True/UpgradeFailed");
}

#[test]
fn a_spec_that_is_taken_back_ends_the_upgrade() {
    let mut bed = running(spec("well"));
    bed.images.insert("bad".into(), "never");
    bed.change("avs", |spec| spec["image"] = json!("bad"));
    bed.rest();
    bed.change("avs", |spec| spec["image"] = json!("well"));
    bed.rest();
    assert_eq!(
        (place(&bed).as_str(), pods(&bed).as_slice()),
        ("Running/Running False/AsExpected", ["performer-avs".to_owned()].as_slice())
    );
    bed.change("avs", |spec| spec["image"] = json!("bad"));
    bed.rest();
    bed.change("avs", |spec| spec["image"] = json!("third"));
    bed.wait(60);
    assert_eq!((bed.status("avs")["image"].clone(), pods(&bed).len()), (json!("third"), 1));
    bed.writes_nothing_more();
}

#[test]
fn an_invalid_spec_changes_nothing_of_what_serves() {
    let mut bed = running(spec("well"));
    bed.change("avs", |spec| spec["hardwareRequirements"] = json!({"gpuType": "no-such-device-nvlink"}));
    bed.rest();
    assert_eq!(
        (place(&bed).as_str(), bed.status("avs")["ready"].clone()),
        ("Failed/Failed True/InvalidSpec", json!(true))
    );
    assert!(serves(&bed));
    bed.writes_nothing_more();
    // The last good spec is kept running.
    bed.server.remove(Kind::Pod, "performer-avs");
    bed.wait(20);
    assert!(serves(&bed), "{}", bed.status("avs"));
    bed.change("avs", |spec| spec["hardwareRequirements"] = json!({}));
    bed.wait(20);
    assert_eq!(place(&bed), "Running/Running False/AsExpected");
    assert!(bed.events().contains(&"InvalidSpec".to_owned()));
}

#[test]
fn an_invalid_spec_from_the_start_makes_nothing() {
    let mut bed = bed();
    bed.submit(
        "avs",
        json!({"avsAddress": super::ADDRESS, "image": "i", "hardwareRequirements": {"gpuType": "h100", "gpuCount": 0}}),
    );
    bed.rest();
    assert_eq!((place(&bed).as_str(), pods(&bed).len()), ("Failed/Failed True/InvalidSpec", 0));
    insta::assert_snapshot!(bed.status("avs")["conditions"][3]["message"].as_str().unwrap(), @"gpuCount is 0, but gpuType is `h100`; leave gpuCount out for one device, or leave both out for none");
    bed.writes_nothing_more();
}

#[test]
fn a_rollback_leads_from_the_upgrade_to_what_runs_and_nowhere_else() {
    let mut bed = running(spec("well"));
    bed.images.insert("bad".into(), "never");
    another(&bed, "bad", json!({"progressDeadlineSeconds": 30}));
    bed.wait(100);
    assert_eq!(place(&bed), "Running/Running True/UpgradeFailed");
    let stored = |change: &crate::shell::fake::Change| change.object["status"]["state"].as_str().map(str::to_owned);
    let store = bed.server.store();
    let performers = store.log.iter().filter(|change| change.kind == Kind::Performer);
    let mut states: Vec<String> = performers.filter_map(stored).collect();
    states.dedup();
    let last = &states[states.len() - 3..];
    assert_eq!(last, ["Running", "PodRecreation", "Running"], "{states:?}");
}
