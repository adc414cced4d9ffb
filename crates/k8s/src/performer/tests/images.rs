//! Images that cannot be pulled, as kubelets tell of them, and hardware that is there only after a while.

use serde_json::{Value, json};

use super::{Bed, another, bed, gpu, gpu_host, place, running, spec};
use crate::api::Kind;
use crate::hourglass::tests::host;

/// What the kubelet says of the container of the newest pod.
fn says(bed: &mut Bed, reason: &str) {
    let name = super::pods(bed).into_iter().max_by_key(String::len).unwrap();
    let status = json!([{"name": "performer", "state": {"waiting": {"reason": reason}}, "imageID": ""}]);
    bed.server.edit(Kind::Pod, &name, |pod| pod["status"]["containerStatuses"] = status);
    bed.rest();
}

/// A performer whose image is being pulled.
fn pulling() -> Bed {
    let mut bed = bed();
    bed.images.insert("bad".into(), "pulls");
    bed.submit("avs", spec("bad"));
    bed.rest();
    assert_eq!(place(&bed), "Creating/ImagePull False/AsExpected");
    bed
}

#[test]
fn one_try_that_fails_is_no_failure_and_giving_up_is() {
    for (reason, fails) in [
        ("ErrImagePull", false),
        ("RegistryUnavailable", false),
        ("ImagePullBackOff", true),
        ("InvalidImageName", true),
        ("ErrImageNeverPull", true),
        ("ImageInspectError", true),
        ("SignatureValidationFailed", true),
    ] {
        let mut bed = pulling();
        says(&mut bed, reason);
        let want = if fails { "Failed/Failed True/ImagePullFailed" } else { "Creating/ImagePull False/AsExpected" };
        assert_eq!(place(&bed), want, "{reason}");
    }
}

#[test]
fn an_image_that_is_tried_again_and_again_stays_failed_until_it_is_there() {
    let mut bed = pulling();
    says(&mut bed, "ErrImagePull");
    says(&mut bed, "ImagePullBackOff");
    let (before, events) = (bed.writes().len(), bed.told("ImagePullFailed"));
    for _ in 0..5 {
        for reason in ["ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"] {
            says(&mut bed, reason);
            bed.wait(7);
            assert_eq!(place(&bed), "Failed/Failed True/ImagePullFailed", "{reason}");
        }
    }
    assert_eq!((bed.writes().len(), bed.told("ImagePullFailed")), (before, events), "nothing is written about it");
    let runs = json!([{"name": "performer", "state": {"running": {}}, "imageID": "sha256:1"}]);
    bed.server.edit(Kind::Pod, "performer-avs", |pod| pod["status"]["containerStatuses"] = runs);
    bed.settle();
    assert_eq!(place(&bed), "Creating/ServiceCreation False/AsExpected");
}

#[test]
fn so_does_one_that_takes_the_place_of_another_and_the_next_one_begins_anew() {
    let mut bed = running(spec("well"));
    bed.images.insert("bad".into(), "ImagePullBackOff");
    another(&bed, "bad", json!({}));
    bed.rest();
    let before = bed.writes().len();
    for reason in ["ErrImagePull", "ImagePullBackOff", "ErrImagePull"] {
        says(&mut bed, reason);
        assert_eq!(place(&bed), "Upgrading/PodRecreation True/ImagePullFailed", "{reason}");
    }
    assert_eq!(bed.writes().len(), before);
    bed.images.insert("slow".into(), "pulls");
    another(&bed, "slow", json!({}));
    bed.rest();
    assert_eq!(place(&bed), "Upgrading/PodRecreation False/AsExpected");
}

#[test]
fn no_room_is_counted_from_when_there_is_hardware() {
    let mut bed = Bed::new();
    bed.show(Kind::Node, host("node-1", json!({}), json!({})));
    // It has all devices of the node that is to come.
    let amounts = json!({"nvidia.com/gpu": "1"});
    let container = json!({"name": "theirs", "image": "well", "resources": {"requests": amounts, "limits": amounts}});
    let theirs: Value =
        json!({"metadata": {"name": "theirs"}, "spec": {"nodeName": "gpu-1", "containers": [container]}});
    bed.server.put(Kind::Pod, theirs);
    bed.submit("avs", gpu("well"));
    bed.wait(600);
    assert_eq!(place(&bed), "Failed/Failed True/HardwareUnavailable");
    bed.show(Kind::Node, gpu_host("gpu-1", 1));
    bed.rest();
    assert_eq!(place(&bed), "Creating/NodeSelection False/AsExpected");
    bed.wait(295);
    assert_eq!(place(&bed), "Creating/NodeSelection False/AsExpected", "300 s have not gone by since it appeared");
    bed.wait(10);
    assert_eq!(place(&bed), "Failed/Failed True/SchedulingFailed");
}
