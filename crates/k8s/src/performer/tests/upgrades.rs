//! A new spec takes the place of the old one: beside it, in its place, or not at all.

use serde_json::json;

use super::{TestEnv, another, env, gpu, gpu_host, place, pods, running, selected, serves, spec};
use crate::api::Kind;

#[test]
fn a_new_restart_annotation_brings_a_new_pod_and_the_same_one_nothing() {
    let mut env = running(spec("well"));
    let annotate = |env: &TestEnv, at: &str| {
        env.server.edit(Kind::Performer, "avs", |performer| {
            performer["metadata"]["annotations"]["hourglass.eigenlayer.io/restarted-at"] = json!(at);
        });
    };
    annotate(&env, "2026-11-29T12:00:00Z");
    env.wait(120);
    assert_eq!(
        (env.status("avs")["active"]["incarnation"].clone(), place(&env).as_str()),
        (json!(2), "Running/Running False/AsExpected")
    );
    assert!(serves(&env), "an upgrade beside the pod that serves");
    let pod = env.server.list(Kind::Pod).pop().unwrap();
    assert_eq!(pod["metadata"]["annotations"]["hourglass.eigenlayer.io/restarted-at"], "2026-11-29T12:00:00Z");
    env.restart();
    env.wait(700);
    env.writes_nothing_more();
    annotate(&env, "2026-11-29T13:00:00Z");
    env.wait(120);
    assert_eq!(env.status("avs")["active"]["incarnation"], 3);
}

#[test]
fn under_surge_somebody_serves_all_the_time() {
    let mut env = running(spec("well"));
    env.change("avs", |spec| spec["config"] = json!({"grpcPort": 9191}));
    let mut now = 0;
    while env.status("avs")["active"]["incarnation"] != 2 {
        env.wait(1);
        assert!(serves(&env), "nobody serves after {now} s: {}", env.status("avs"));
        now += 1;
        assert!(now < 60);
    }
    assert!(now >= 5, "it is ready for minReadySeconds first");
    let service = env.server.get(Kind::Service, "performer-avs").unwrap();
    assert_eq!((selected(&env).as_str(), &service["spec"]["ports"][0]["port"]), ("2", &json!(9191)));
    assert_eq!(pods(&env).len(), 2, "the old pod drains");
    env.wait(31);
    assert_eq!(pods(&env).len(), 1);
    assert_eq!(env.server.list(Kind::Revision).len(), 1, "the old revision goes");
    assert!(env.status("avs")["lastUpgrade"].is_string());
    assert_eq!(env.status("avs")["grpcEndpoint"], "performer-avs.default.svc.cluster.local:9191");
    insta::assert_snapshot!(env.events().join(" "), @"Created Scheduled Ready UpgradeStarted Created Switched UpgradeCompleted Ready");
    env.writes_nothing_more();
}

#[test]
fn what_never_becomes_ready_is_taken_back_and_not_tried_again() {
    let mut env = running(spec("well"));
    env.images.insert("bad".into(), "never");
    env.change("avs", |spec| spec["image"] = json!("bad"));
    env.rest();
    assert_eq!(place(&env), "Upgrading/PodRecreation False/AsExpected");
    for _ in 0..60 {
        env.wait(11);
        assert!(serves(&env));
    }
    assert_eq!(place(&env), "Running/Running True/UpgradeFailed");
    assert_eq!((selected(&env).as_str(), pods(&env).as_slice()), ("1", ["performer-avs".to_owned()].as_slice()));
    assert_eq!(
        (env.event_count("RolledBack"), env.condition("avs", "Progressing").as_str()),
        (1, "False/WaitingForChange")
    );
    env.writes_nothing_more();
    // Another value of the annotation tries again.
    env.images.insert("bad".into(), "well");
    env.server.edit(Kind::Performer, "avs", |performer| {
        performer["metadata"]["annotations"]["hourglass.eigenlayer.io/retry"] = json!("1");
    });
    env.wait(60);
    assert_eq!(place(&env), "Running/Running False/AsExpected");
    assert_eq!(env.status("avs")["image"], "bad");
}

/// Somebody deletes all revisions.
fn lose_revisions(env: &TestEnv) {
    for revision in env.server.list(Kind::Revision) {
        env.server.remove(Kind::Revision, crate::value::word(&revision, "/metadata/name"));
    }
}

#[test]
fn a_revision_of_what_serves_that_somebody_deletes_is_made_again() {
    let mut env = running(spec("well"));
    let before = env.server.list(Kind::Revision).remove(0);
    lose_revisions(&env);
    env.wait(301);
    let [after] = <[serde_json::Value; 1]>::try_from(env.server.list(Kind::Revision)).unwrap();
    assert_eq!((&after["data"], &after["metadata"]["name"]), (&before["data"], &before["metadata"]["name"]));
    env.writes_nothing_more();
}

#[test]
fn a_failed_upgrade_is_taken_back_to_the_pod_that_serves_although_nobody_knows_its_spec_any_more() {
    let mut env = running(spec("well"));
    lose_revisions(&env);
    env.images.insert("bad".into(), "never");
    env.change("avs", |spec| spec["image"] = json!("bad"));
    env.rest();
    env.restart();
    env.wait(700);
    assert_eq!(place(&env), "Running/Running True/UpgradeFailed");
    assert_eq!((selected(&env).as_str(), pods(&env).as_slice()), ("1", ["performer-avs".to_owned()].as_slice()));
    assert_eq!(env.event_count("RolledBack"), 1);
    env.writes_nothing_more();
    // Once that pod is lost too, there is nothing else to try.
    env.images.insert("bad".into(), "well");
    env.server.request_deletion(Kind::Pod, "performer-avs");
    env.wait(120);
    assert_eq!((place(&env).as_str(), serves(&env)), ("Running/Running False/AsExpected", true));
    env.writes_nothing_more();
}

#[test]
fn without_auto_rollback_the_candidate_stays() {
    let mut env = running(spec("well"));
    env.images.insert("bad".into(), "never");
    another(&env, "bad", json!({"autoRollback": false, "progressDeadlineSeconds": 30}));
    env.wait(100);
    assert_eq!((place(&env).as_str(), pods(&env).len()), ("Upgrading/PodRecreation True/UpgradeFailed", 2));
    assert!(serves(&env) && selected(&env) == "1");
}

#[test]
fn recreate_waits_until_the_old_pod_is_gone() {
    let mut env = running(spec("well"));
    another(&env, "other", json!({"strategy": "Recreate"}));
    env.wait(60);
    assert_eq!((place(&env).as_str(), pods(&env).len()), ("Running/Running False/AsExpected", 1));
    let order: Vec<String> = env.writes().into_iter().filter(|write| write.contains(" pods ")).collect();
    insta::assert_snapshot!(order.join("\n"), @"
    create pods default/performer-avs
    delete pods default/performer-avs
    create pods default/performer-avs-39709593
    ");
    assert_eq!(env.status("avs")["image"], "other");
    env.writes_nothing_more();
}

#[test]
fn a_new_spec_for_a_pod_that_crashes_waits_until_that_pod_is_gone() {
    let mut env = TestEnv::new();
    env.add(Kind::Node, gpu_host("gpu-1", 1));
    env.submit("avs", gpu("well"));
    env.rest();
    env.server.edit(Kind::Pod, "performer-avs", |pod| {
        pod["status"]["containerStatuses"][0]["state"] = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        pod["status"]["conditions"] = json!([]);
    });
    env.rest();
    assert_eq!(place(&env), "Failed/Failed True/ContainerStartFailed");
    env.change("avs", |spec| spec["image"] = json!("other"));
    env.settle();
    // The old pod is told to go and has not gone: its devices are not free.
    let going = env.server.get(Kind::Pod, "performer-avs").unwrap();
    assert!(going["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(pods(&env), ["performer-avs"]);
    env.restart();
    env.settle();
    assert_eq!(pods(&env), ["performer-avs"], "another controller knows it too");
    env.wait(60);
    assert_eq!((place(&env).as_str(), pods(&env).len()), ("Running/Running False/AsExpected", 1));
    assert_eq!(env.status("avs")["image"], "other");
    env.writes_nothing_more();
}

#[test]
fn recreate_that_fails_brings_the_last_good_spec_back_from_its_revision() {
    let mut env = running(spec("well"));
    env.images.insert("bad".into(), "never");
    another(&env, "bad", json!({"strategy": "Recreate", "progressDeadlineSeconds": 30}));
    env.wait(120);
    assert_eq!(place(&env), "Running/Running True/UpgradeFailed");
    assert_eq!((env.status("avs")["image"].clone(), pods(&env).len(), serves(&env)), (json!("well"), 1, true));
    env.writes_nothing_more();
}

#[test]
fn where_there_is_no_room_beside_the_old_pod_gives_way() {
    let mut env = TestEnv::new();
    env.add(Kind::Node, gpu_host("gpu-1", 1));
    env.submit("avs", gpu("well"));
    env.rest();
    assert_eq!(env.status("avs")["phase"], "Running", "{}", env.status("avs"));
    env.change("avs", |spec| spec["image"] = json!("other"));
    env.wait(30);
    assert!(serves(&env) && pods(&env).len() == 2, "it waits for room first");
    env.wait(31);
    // The scheduler looks again once the device is free.
    for name in pods(&env) {
        env.server.edit(Kind::Pod, &name, |pod| {
            if pod["spec"]["nodeName"].is_null() {
                pod["status"]["conditions"] = json!([]);
            }
        });
    }
    env.wait(30);
    assert_eq!((place(&env).as_str(), pods(&env).len()), ("Running/Running False/AsExpected", 1));
    assert_eq!((env.status("avs")["image"].clone(), env.event_count("SurgeImpossible")), (json!("other"), 1));
}

#[test]
fn where_the_new_pod_fits_nowhere_the_old_one_keeps_serving() {
    let mut env = TestEnv::new();
    env.add(Kind::Node, gpu_host("gpu-1", 1));
    env.submit("avs", gpu("well"));
    env.rest();
    env.change("avs", |spec| spec["hardwareRequirements"]["gpuCount"] = json!(2));
    env.wait(300);
    assert!(serves(&env) && selected(&env) == "1", "{}", place(&env));
    env.wait(700);
    assert_eq!(place(&env), "Running/Running True/UpgradeFailed");
}

#[test]
fn a_spec_that_is_taken_back_ends_the_upgrade() {
    let mut env = running(spec("well"));
    env.images.insert("bad".into(), "never");
    env.change("avs", |spec| spec["image"] = json!("bad"));
    env.rest();
    env.change("avs", |spec| spec["image"] = json!("well"));
    env.rest();
    assert_eq!(
        (place(&env).as_str(), pods(&env).as_slice()),
        ("Running/Running False/AsExpected", ["performer-avs".to_owned()].as_slice())
    );
    env.change("avs", |spec| spec["image"] = json!("bad"));
    env.rest();
    env.change("avs", |spec| spec["image"] = json!("third"));
    env.wait(60);
    assert_eq!((env.status("avs")["image"].clone(), pods(&env).len()), (json!("third"), 1));
    env.writes_nothing_more();
}

#[test]
fn an_invalid_spec_changes_nothing_of_what_serves() {
    let mut env = running(spec("well"));
    env.change("avs", |spec| spec["hardwareRequirements"] = json!({"gpuType": "no-such-device-nvlink"}));
    env.rest();
    assert_eq!(
        (place(&env).as_str(), env.status("avs")["ready"].clone()),
        ("Failed/Failed True/InvalidSpec", json!(true))
    );
    assert!(serves(&env));
    env.writes_nothing_more();
    // The last good spec is kept running.
    env.server.remove(Kind::Pod, "performer-avs");
    env.wait(20);
    assert!(serves(&env), "{}", env.status("avs"));
    env.change("avs", |spec| spec["hardwareRequirements"] = json!({}));
    env.wait(20);
    assert_eq!(place(&env), "Running/Running False/AsExpected");
    assert!(env.events().contains(&"InvalidSpec".to_owned()));
}

#[test]
fn an_invalid_spec_from_the_start_makes_nothing() {
    let mut env = env();
    env.submit(
        "avs",
        json!({"avsAddress": super::ADDRESS, "image": "i", "hardwareRequirements": {"gpuType": "h100", "gpuCount": 0}}),
    );
    env.rest();
    assert_eq!((place(&env).as_str(), pods(&env).len()), ("Failed/Failed True/InvalidSpec", 0));
    insta::assert_snapshot!(env.status("avs")["conditions"][3]["message"].as_str().unwrap(), @"gpuCount is 0, but gpuType is `h100`; leave gpuCount out for one device, or leave both out for none");
    env.writes_nothing_more();
}

#[test]
fn a_rollback_leads_from_the_upgrade_to_what_runs_and_nowhere_else() {
    let mut env = running(spec("well"));
    env.images.insert("bad".into(), "never");
    another(&env, "bad", json!({"progressDeadlineSeconds": 30}));
    env.wait(100);
    assert_eq!(place(&env), "Running/Running True/UpgradeFailed");
    let stored = |change: &crate::shell::fake::Change| change.object["status"]["state"].as_str().map(str::to_owned);
    let store = env.server.store();
    let performers = store.log.iter().filter(|change| change.kind == Kind::Performer);
    let mut states: Vec<String> = performers.filter_map(stored).collect();
    states.dedup();
    let last = &states[states.len() - 3..];
    assert_eq!(last, ["Running", "PodRecreation", "Running"], "{states:?}");
}
