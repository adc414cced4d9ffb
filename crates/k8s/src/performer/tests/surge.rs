//! An upgrade for which there is no quota, and when former pods go.

use serde_json::json;

use super::{TestEnv, another, env, gpu, gpu_host, place, pods, running, selected, serves, spec};
use crate::api::{ApiError, Kind};
use crate::hourglass::tests::quota;
use crate::shell::fake::refused;

#[test]
fn surge_without_quota_waits_says_so_and_keeps_what_serves() {
    let mut env = running(spec("well"));
    env.refuse("create", Kind::Pod, 4, quota());
    another(&env, "other", json!({"strategy": "Surge"}));
    env.rest();
    assert_eq!(place(&env), "Upgrading/PodRecreation True/QuotaExceeded");
    assert_eq!(env.condition("avs", "Progressing"), "True/UpgradeInProgress");
    assert_eq!(env.condition("avs", "Available"), "True/PodReady");
    assert_eq!((pods(&env).len(), selected(&env).as_str(), serves(&env)), (1, "1", true));
    assert!(env.status("avs")["retry"]["nextRetryTime"].is_string());
    while env.status("avs")["phase"] != "Running" {
        env.wait(1);
        assert!(serves(&env), "somebody serves all the time");
    }
    assert_eq!((place(&env).as_str(), selected(&env).as_str()), ("Running/Running False/AsExpected", "2"));
    assert_eq!(env.event_count("SurgeImpossible"), 0, "Surge never gives way");
    env.wait(60);
    env.writes_nothing_more();
}

#[test]
fn auto_without_quota_gives_way_where_the_new_pod_fits_in_the_old_ones_place() {
    let mut env = running(spec("well"));
    env.refuse("create", Kind::Pod, 1, quota());
    another(&env, "other", json!({"strategy": "Auto"}));
    env.rest();
    // Without waiting: what is refused for quota is no matter of surgeWaitSeconds.
    assert_eq!((place(&env).as_str(), serves(&env)), ("Running/Running False/AsExpected", true));
    assert_eq!((env.status("avs")["image"].clone(), pods(&env).len()), (json!("other"), 1));
    assert_eq!((env.event_count("SurgeImpossible"), env.status("avs")["retry"].clone()), (1, json!(null)));
    let order: Vec<String> = env.writes().into_iter().filter(|write| write.contains(" pods ")).collect();
    insta::assert_snapshot!(order.join("\n"), @"
    create pods default/performer-avs
    delete pods default/performer-avs
    create pods default/performer-avs-39709593
    ");
    env.writes_nothing_more();
}

#[test]
fn auto_gives_way_for_no_quota_but_that_of_pods() {
    let mut env = running(spec("well"));
    let said =
        json!({"reason": "Forbidden", "message": "exceeded quota: q, requested: count/controllerrevisions.apps=1"});
    env.refuse("create", Kind::Revision, 3, ApiError::from_status(403, &said));
    another(&env, "other", json!({"strategy": "Auto"}));
    env.rest();
    assert_eq!(place(&env), "Upgrading/PodRecreation True/QuotaExceeded");
    while env.status("avs")["phase"] != "Running" {
        env.wait(1);
        assert!(serves(&env), "the old pod's place would help nobody");
    }
    assert_eq!((selected(&env).as_str(), env.event_count("SurgeImpossible")), ("2", 0));
}

#[test]
fn auto_without_quota_keeps_what_serves_where_the_new_pod_does_not_fit_in_its_place() {
    let mut env = TestEnv::new();
    env.add(Kind::Node, gpu_host("gpu-1", 1));
    env.submit("avs", gpu("well"));
    env.rest();
    env.refuse("create", Kind::Pod, u32::MAX, quota());
    env.change("avs", |spec| spec["hardwareRequirements"]["gpuCount"] = json!(2));
    for _ in 0..50 {
        env.wait(11);
        assert!(serves(&env) && selected(&env) == "1", "{}", place(&env));
    }
    assert_eq!(
        (place(&env).as_str(), env.event_count("SurgeImpossible")),
        ("Upgrading/PodRecreation True/QuotaExceeded", 0)
    );
}

#[test]
fn a_former_pod_goes_at_once_where_the_service_still_selects_it() {
    let mut env = running(spec("well"));
    env.images.insert("slow".into(), "pulls");
    another(&env, "slow", json!({"strategy": "Recreate", "drainSeconds": 3600}));
    env.rest();
    assert_eq!((pods(&env).len(), env.status("avs")["candidate"]["incarnation"].clone()), (1, json!(2)));
    assert!(!pods(&env).contains(&"performer-avs".to_owned()), "nothing is drained that still takes connections");
}

#[test]
fn a_former_pod_goes_at_once_when_a_later_one_starts_draining() {
    let mut env = running(spec("well"));
    env.change("avs", |spec| spec["upgrade"] = json!({"drainSeconds": 3600}));
    env.rest();
    for (image, active) in [("second", "2"), ("third", "3")] {
        env.change("avs", |spec| spec["image"] = json!(image));
        env.wait(6);
        assert_eq!(selected(&env), active);
    }
    let left: Vec<_> =
        env.server.list(Kind::Pod).iter().map(|pod| pod["metadata"]["labels"][super::INCARNATION].clone()).collect();
    let mut left: Vec<&str> = left.iter().map(|number| number.as_str().unwrap()).collect();
    left.sort_unstable();
    assert_eq!(left, ["2", "3"], "the first is drained no longer");
    env.wait(3590);
    assert_eq!(pods(&env).len(), 2);
    env.wait(20);
    assert_eq!(pods(&env).len(), 1);
    env.writes_nothing_more();
}

#[test]
fn a_former_pod_goes_at_once_when_the_next_one_makes_room() {
    let mut env = running(spec("well"));
    env.change("avs", |spec| spec["upgrade"] = json!({"strategy": "Auto", "drainSeconds": 3600}));
    env.rest();
    env.change("avs", |spec| spec["image"] = json!("other"));
    env.wait(6);
    assert_eq!((selected(&env).as_str(), pods(&env).len()), ("2", 2), "the first drains");
    env.refuse("create", Kind::Pod, 1, quota());
    env.change("avs", |spec| spec["config"] = json!({"grpcPort": 9000}));
    env.rest();
    assert_eq!((env.event_count("SurgeImpossible"), selected(&env).as_str(), serves(&env)), (1, "3", true));
    assert_eq!(pods(&env).len(), 1, "the first does not outlive the second, in whose place the third came");
    env.writes_nothing_more();
}

#[test]
fn nothing_counts_as_switched_before_the_service_says_so() {
    let mut env = running(spec("well"));
    env.refuse("patch", Kind::Service, 6, refused(403, "Forbidden"));
    another(&env, "other", json!({"strategy": "Auto"}));
    env.wait(20);
    assert_eq!(place(&env), "Upgrading/PodRecreation True/Forbidden");
    let status = env.status("avs");
    assert_eq!((&status["active"]["incarnation"], &status["image"]), (&json!(1), &json!("well")));
    assert_eq!((selected(&env).as_str(), serves(&env), pods(&env).len()), ("1", true, 2));
    assert_eq!((env.event_count("Switched"), env.event_count("UpgradeCompleted")), (0, 0));
    env.wait(320);
    assert_eq!((selected(&env).as_str(), env.status("avs")["image"].clone()), ("2", json!("other")));
    env.wait(60);
    assert_eq!((place(&env).as_str(), pods(&env).len()), ("Running/Running False/AsExpected", 1));
}

#[test]
fn without_its_service_a_pod_does_not_serve() {
    let mut env = env();
    env.refuse("create", Kind::Service, 6, refused(403, "Forbidden"));
    env.submit("avs", spec("well"));
    env.wait(10);
    let status = env.status("avs");
    assert_eq!((place(&env).as_str(), &status["ready"]), ("Failed/Failed True/Forbidden", &json!(false)));
    assert_eq!(
        (&status["serviceName"], &status["grpcEndpoint"], &status["host"]),
        (&json!(null), &json!(null), &json!(null))
    );
    env.wait(301);
    assert_eq!((place(&env).as_str(), serves(&env)), ("Running/Running False/AsExpected", true));
}
