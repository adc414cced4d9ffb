//! An upgrade for which there is no quota, and when former pods go.

use serde_json::json;

use super::{Bed, another, bed, gpu, gpu_host, place, pods, running, selected, serves, spec};
use crate::api::{ApiError, Kind};
use crate::hourglass::tests::quota;
use crate::shell::fake::refused;

#[test]
fn surge_without_quota_waits_says_so_and_keeps_what_serves() {
    let mut bed = running(spec("well"));
    bed.refuse("create", Kind::Pod, 4, quota());
    another(&bed, "other", json!({"strategy": "Surge"}));
    bed.rest();
    assert_eq!(place(&bed), "Upgrading/PodRecreation True/QuotaExceeded");
    assert_eq!(bed.condition("avs", "Progressing"), "True/UpgradeInProgress");
    assert_eq!(bed.condition("avs", "Available"), "True/PodReady");
    assert_eq!((pods(&bed).len(), selected(&bed).as_str(), serves(&bed)), (1, "1", true));
    assert!(bed.status("avs")["retry"]["nextRetryTime"].is_string());
    while bed.status("avs")["phase"] != "Running" {
        bed.wait(1);
        assert!(serves(&bed), "somebody serves all the time");
    }
    assert_eq!((place(&bed).as_str(), selected(&bed).as_str()), ("Running/Running False/AsExpected", "2"));
    assert_eq!(bed.told("SurgeImpossible"), 0, "Surge never gives way");
    bed.wait(60);
    bed.writes_nothing_more();
}

#[test]
fn auto_without_quota_gives_way_where_the_new_pod_fits_in_the_old_ones_place() {
    let mut bed = running(spec("well"));
    bed.refuse("create", Kind::Pod, 1, quota());
    another(&bed, "other", json!({"strategy": "Auto"}));
    bed.rest();
    // Without waiting: what is refused for quota is no matter of surgeWaitSeconds.
    assert_eq!((place(&bed).as_str(), serves(&bed)), ("Running/Running False/AsExpected", true));
    assert_eq!((bed.status("avs")["image"].clone(), pods(&bed).len()), (json!("other"), 1));
    assert_eq!((bed.told("SurgeImpossible"), bed.status("avs")["retry"].clone()), (1, json!(null)));
    let order: Vec<String> = bed.writes().into_iter().filter(|write| write.contains(" pods ")).collect();
    insta::assert_snapshot!(order.join("\n"), @"
    create pods default/performer-avs
    delete pods default/performer-avs
    create pods default/performer-avs-39709593
    ");
    bed.writes_nothing_more();
}

#[test]
fn auto_gives_way_for_no_quota_but_that_of_pods() {
    let mut bed = running(spec("well"));
    let said =
        json!({"reason": "Forbidden", "message": "exceeded quota: q, requested: count/controllerrevisions.apps=1"});
    bed.refuse("create", Kind::Revision, 3, ApiError::from_status(403, &said));
    another(&bed, "other", json!({"strategy": "Auto"}));
    bed.rest();
    assert_eq!(place(&bed), "Upgrading/PodRecreation True/QuotaExceeded");
    while bed.status("avs")["phase"] != "Running" {
        bed.wait(1);
        assert!(serves(&bed), "the old pod's place would help nobody");
    }
    assert_eq!((selected(&bed).as_str(), bed.told("SurgeImpossible")), ("2", 0));
}

#[test]
fn auto_without_quota_keeps_what_serves_where_the_new_pod_does_not_fit_in_its_place() {
    let mut bed = Bed::new();
    bed.show(Kind::Node, gpu_host("gpu-1", 1));
    bed.submit("avs", gpu("well"));
    bed.rest();
    bed.refuse("create", Kind::Pod, u32::MAX, quota());
    bed.change("avs", |spec| spec["hardwareRequirements"]["gpuCount"] = json!(2));
    for _ in 0..50 {
        bed.wait(11);
        assert!(serves(&bed) && selected(&bed) == "1", "{}", place(&bed));
    }
    assert_eq!((place(&bed).as_str(), bed.told("SurgeImpossible")), ("Upgrading/PodRecreation True/QuotaExceeded", 0));
}

#[test]
fn a_former_pod_goes_at_once_where_the_service_still_selects_it() {
    let mut bed = running(spec("well"));
    bed.images.insert("slow".into(), "pulls");
    another(&bed, "slow", json!({"strategy": "Recreate", "drainSeconds": 3600}));
    bed.rest();
    assert_eq!((pods(&bed).len(), bed.status("avs")["candidate"]["incarnation"].clone()), (1, json!(2)));
    assert!(!pods(&bed).contains(&"performer-avs".to_owned()), "nothing is drained that still takes connections");
}

#[test]
fn a_former_pod_goes_at_once_when_a_later_one_starts_draining() {
    let mut bed = running(spec("well"));
    bed.change("avs", |spec| spec["upgrade"] = json!({"drainSeconds": 3600}));
    bed.rest();
    for (image, active) in [("second", "2"), ("third", "3")] {
        bed.change("avs", |spec| spec["image"] = json!(image));
        bed.wait(6);
        assert_eq!(selected(&bed), active);
    }
    let left: Vec<_> =
        bed.server.list(Kind::Pod).iter().map(|pod| pod["metadata"]["labels"][super::INCARNATION].clone()).collect();
    let mut left: Vec<&str> = left.iter().map(|number| number.as_str().unwrap()).collect();
    left.sort_unstable();
    assert_eq!(left, ["2", "3"], "the first is drained no longer");
    bed.wait(3590);
    assert_eq!(pods(&bed).len(), 2);
    bed.wait(20);
    assert_eq!(pods(&bed).len(), 1);
    bed.writes_nothing_more();
}

#[test]
fn a_former_pod_goes_at_once_when_the_next_one_makes_room() {
    let mut bed = running(spec("well"));
    bed.change("avs", |spec| spec["upgrade"] = json!({"strategy": "Auto", "drainSeconds": 3600}));
    bed.rest();
    bed.change("avs", |spec| spec["image"] = json!("other"));
    bed.wait(6);
    assert_eq!((selected(&bed).as_str(), pods(&bed).len()), ("2", 2), "the first drains");
    bed.refuse("create", Kind::Pod, 1, quota());
    bed.change("avs", |spec| spec["config"] = json!({"grpcPort": 9000}));
    bed.rest();
    assert_eq!((bed.told("SurgeImpossible"), selected(&bed).as_str(), serves(&bed)), (1, "3", true));
    assert_eq!(pods(&bed).len(), 1, "the first does not outlive the second, in whose place the third came");
    bed.writes_nothing_more();
}

#[test]
fn nothing_counts_as_switched_before_the_service_says_so() {
    let mut bed = running(spec("well"));
    bed.refuse("patch", Kind::Service, 6, refused(403, "Forbidden"));
    another(&bed, "other", json!({"strategy": "Auto"}));
    bed.wait(20);
    assert_eq!(place(&bed), "Upgrading/PodRecreation True/Forbidden");
    let status = bed.status("avs");
    assert_eq!((&status["active"]["incarnation"], &status["image"]), (&json!(1), &json!("well")));
    assert_eq!((selected(&bed).as_str(), serves(&bed), pods(&bed).len()), ("1", true, 2));
    assert_eq!((bed.told("Switched"), bed.told("UpgradeCompleted")), (0, 0));
    bed.wait(320);
    assert_eq!((selected(&bed).as_str(), bed.status("avs")["image"].clone()), ("2", json!("other")));
    bed.wait(60);
    assert_eq!((place(&bed).as_str(), pods(&bed).len()), ("Running/Running False/AsExpected", 1));
}

#[test]
fn without_its_service_a_pod_does_not_serve() {
    let mut bed = bed();
    bed.refuse("create", Kind::Service, 6, refused(403, "Forbidden"));
    bed.submit("avs", spec("well"));
    bed.wait(10);
    let status = bed.status("avs");
    assert_eq!((place(&bed).as_str(), &status["ready"]), ("Failed/Failed True/Forbidden", &json!(false)));
    assert_eq!(
        (&status["serviceName"], &status["grpcEndpoint"], &status["host"]),
        (&json!(null), &json!(null), &json!(null))
    );
    bed.wait(301);
    assert_eq!((place(&bed).as_str(), serves(&bed)), ("Running/Running False/AsExpected", true));
}
