//! Images that cannot be pulled, as kubelets tell of them, and hardware that is there only after a while.

use serde_json::{Value, json};

use super::{TestEnv, another, env, gpu, gpu_host, place, running, spec};
use crate::api::Kind;
use crate::hourglass::tests::host;

/// What the kubelet says of the container of the newest pod.
fn says(env: &mut TestEnv, reason: &str) {
    let name = super::pods(env).into_iter().max_by_key(String::len).unwrap();
    let status = json!([{"name": "performer", "state": {"waiting": {"reason": reason}}, "imageID": ""}]);
    env.server.edit(Kind::Pod, &name, |pod| pod["status"]["containerStatuses"] = status);
    env.rest();
}

/// A performer whose image is being pulled.
fn pulling() -> TestEnv {
    let mut env = env();
    env.images.insert("bad".into(), "pulls");
    env.submit("avs", spec("bad"));
    env.rest();
    assert_eq!(place(&env), "Creating/ImagePull False/AsExpected");
    env
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
        let mut env = pulling();
        says(&mut env, reason);
        let want = if fails { "Failed/Failed True/ImagePullFailed" } else { "Creating/ImagePull False/AsExpected" };
        assert_eq!(place(&env), want, "{reason}");
    }
}

#[test]
fn an_image_that_is_tried_again_and_again_stays_failed_until_it_is_there() {
    let mut env = pulling();
    says(&mut env, "ErrImagePull");
    says(&mut env, "ImagePullBackOff");
    let (before, events) = (env.writes().len(), env.event_count("ImagePullFailed"));
    for _ in 0..5 {
        for reason in ["ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"] {
            says(&mut env, reason);
            env.wait(7);
            assert_eq!(place(&env), "Failed/Failed True/ImagePullFailed", "{reason}");
        }
    }
    assert_eq!(
        (env.writes().len(), env.event_count("ImagePullFailed")),
        (before, events),
        "nothing is written about it"
    );
    let runs = json!([{"name": "performer", "state": {"running": {}}, "imageID": "sha256:1"}]);
    env.server.edit(Kind::Pod, "performer-avs", |pod| pod["status"]["containerStatuses"] = runs);
    env.settle();
    assert_eq!(place(&env), "Creating/ServiceCreation False/AsExpected");
}

#[test]
fn so_does_one_that_takes_the_place_of_another_and_the_next_one_begins_anew() {
    let mut env = running(spec("well"));
    env.images.insert("bad".into(), "ImagePullBackOff");
    another(&env, "bad", json!({}));
    env.rest();
    let before = env.writes().len();
    for reason in ["ErrImagePull", "ImagePullBackOff", "ErrImagePull"] {
        says(&mut env, reason);
        assert_eq!(place(&env), "Upgrading/PodRecreation True/ImagePullFailed", "{reason}");
    }
    assert_eq!(env.writes().len(), before);
    env.images.insert("slow".into(), "pulls");
    another(&env, "slow", json!({}));
    env.rest();
    assert_eq!(place(&env), "Upgrading/PodRecreation False/AsExpected");
}

#[test]
fn no_room_is_counted_from_when_there_is_hardware() {
    let mut env = TestEnv::new();
    env.add(Kind::Node, host("node-1", json!({}), json!({})));
    // It has all devices of the node that is to come.
    let amounts = json!({"nvidia.com/gpu": "1"});
    let container = json!({"name": "theirs", "image": "well", "resources": {"requests": amounts, "limits": amounts}});
    let theirs: Value =
        json!({"metadata": {"name": "theirs"}, "spec": {"nodeName": "gpu-1", "containers": [container]}});
    env.server.put(Kind::Pod, theirs);
    env.submit("avs", gpu("well"));
    env.wait(600);
    assert_eq!(place(&env), "Failed/Failed True/HardwareUnavailable");
    env.add(Kind::Node, gpu_host("gpu-1", 1));
    env.rest();
    assert_eq!(place(&env), "Creating/NodeSelection False/AsExpected");
    env.wait(295);
    assert_eq!(place(&env), "Creating/NodeSelection False/AsExpected", "300 s have not gone by since it appeared");
    env.wait(10);
    assert_eq!(place(&env), "Failed/Failed True/SchedulingFailed");
}
