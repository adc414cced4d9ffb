//! Every reason of the tables is said once somewhere, and no other: conditions and events of performers.

use serde_json::{Value, json};

use super::{TestEnv, env, gpu, gpu_host, place, pods, running, serves, spec};
use crate::api::Kind;
use crate::hourglass::tests::reasons::{Reasons, rows};
use crate::hourglass::tests::{host, quota};
use crate::shell::fake::{Fault, refused};

fn asks(members: Value) -> Value {
    let mut spec = spec("well");
    members.as_object().unwrap().iter().for_each(|(name, value)| spec[name] = value.clone());
    spec
}

/// A performer of this spec with these nodes, some time later.
fn after(seconds: u64, nodes: &[Value], spec: Value) -> TestEnv {
    let mut env = TestEnv::new();
    nodes.iter().for_each(|node| env.add(Kind::Node, node.clone()));
    env.submit("avs", spec);
    env.wait(seconds);
    env
}

fn plain() -> Value {
    host("node-1", json!({}), json!({}))
}

/// What goes wrong before a pod serves.
fn beginnings(reasons: &mut Reasons) {
    for habit in ["ImagePullBackOff", "CreateContainerConfigError", "RunContainerError", "never"] {
        let mut env = env();
        env.images.insert("bad".into(), habit);
        env.submit("avs", spec("bad"));
        for step in 0..8 {
            env.few_steps(step % 2);
        }
        env.wait(700);
        reasons.collect(&env);
    }
    let gpus = |count: u32| asks(json!({"hardwareRequirements": {"gpuType": "nvidia", "gpuCount": count}}));
    reasons.collect(&after(20, &[plain()], gpus(1)));
    reasons.collect(&after(20, &[gpu_host("gpu-1", 1)], gpus(2)));
    let mut tainted = gpu_host("gpu-1", 1);
    tainted["spec"]["taints"] = json!([{"key": "theirs", "effect": "NoSchedule"}]);
    reasons.collect(&after(20, &[tainted], gpus(1)));
    let mut full = after(5, &[gpu_host("gpu-1", 1)], gpus(1));
    full.submit("two", gpus(1));
    full.wait(400);
    reasons.collect(&full);
    reasons.collect(&after(5, &[], gpus(1)));
    reasons.collect(&after(5, &[plain()], asks(json!({"hardwareRequirements": {"gpuType": "no-such-device-nvlink"}}))));
    reasons.collect(&after(5, &[plain()], asks(json!({"hardwareRequirements": {"gpuType": "no-such-device"}}))));
    let contradicts = json!({"hardwareRequirements": {"gpuType": "t4"}, "scheduling": {"nodeSelector": {"nvidia.com/gpu.product": "another"}}});
    reasons.collect(&after(5, &[plain()], asks(contradicts)));
    let mut none = env();
    none.list(Kind::RuntimeClass);
    none.submit("avs", asks(json!({"scheduling": {"runtimeClass": "kata"}})));
    none.rest();
    reasons.collect(&none);
    let mut none = env();
    none.list(Kind::DeviceClass);
    none.submit("avs", asks(json!({"hardwareRequirements": {"gpuType": "h100", "allocation": "dra"}})));
    none.rest();
    reasons.collect(&none);
    for (times, error) in [
        (1, quota()),
        (1, refused(403, "Forbidden")),
        (1, refused(422, "Invalid")),
        (u32::MAX, refused(500, "InternalError")),
    ] {
        let mut env = TestEnv::with_faults(vec![Fault::Refuse("create", Kind::Pod, times, error)]);
        env.add(Kind::Node, plain());
        env.submit("avs", spec("well"));
        env.wait(1200);
        reasons.collect(&env);
    }
    let env = json!({"environment": {"K": "1"}, "environmentFrom": [{"name": "K", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]});
    reasons.collect(&after(5, &[plain()], asks(json!({"executorRef": "none", "config": env}))));
    let weak = json!({"hardwareRequirements": {"teeType": "sev"}});
    reasons.collect(&after(5, &[plain()], asks(weak)));
    let own = json!({"hardwareRequirements": {"teeType": "sgx"}, "scheduling": {"runtimeClass": "mine"}});
    reasons.collect(&after(5, &[plain()], asks(own)));
}

/// What goes wrong while one serves.
fn middles(reasons: &mut Reasons) {
    let ended = |phase: &str| {
        let mut env = running(spec("well"));
        env.server.edit(Kind::Pod, "performer-avs", |pod| pod["status"]["phase"] = json!(phase));
        env.wait(60);
        env
    };
    ["Failed", "Unknown"].iter().for_each(|phase| reasons.collect(&ended(phase)));
    let mut gone = running(spec("well"));
    gone.server.request_deletion(Kind::Pod, "performer-avs");
    gone.wait(60);
    reasons.collect(&gone);
    let mut upgraded = running(spec("well"));
    upgraded.images.insert("bad".into(), "never");
    upgraded.change("avs", |spec| spec["image"] = json!("other"));
    upgraded.wait(60);
    upgraded.change("avs", |spec| spec["image"] = json!("bad"));
    upgraded.wait(700);
    reasons.collect(&upgraded);
    let mut full = after(5, &[gpu_host("gpu-1", 1)], gpu("well"));
    full.change("avs", |spec| spec["image"] = json!("other"));
    full.wait(61);
    reasons.collect(&full);
    reasons.collect(&appears());
    reasons.collect(&unready());
    reasons.collect(&without_a_service());
    reasons.collect(&lost());
    let mut evicted = running(spec("well"));
    evicted.server.edit(Kind::Pod, "performer-avs", |pod| {
        pod["status"] = json!({"phase": "Failed", "reason": "Evicted"});
    });
    evicted.wait(60);
    reasons.collect(&evicted);
    reasons.collect(&contended());
    let mut changed = running(spec("well"));
    another_image(&changed, "theirs");
    changed.settle();
    reasons.collect(&changed);
    reasons.collect(&super::pods::unnumbered(json!([{"name": "performer", "image": "old"}])));
    reasons.collect(&goes());
}

/// Somebody keeps changing its Service.
fn contended() -> TestEnv {
    let mut env = running(spec("well"));
    for _ in 0..40 {
        env.server
            .edit(Kind::Service, "performer-avs", |service| service["spec"]["selector"]["team"] = json!("theirs"));
        env.wait(10);
    }
    env
}

#[test]
fn a_field_that_somebody_keeps_changing_is_put_back_once_a_minute_and_said() {
    let mut env = running(spec("well"));
    let applies = |env: &TestEnv| env.writes().iter().filter(|write| write.contains("services")).count();
    let before = applies(&env);
    let theirs = |env: &mut TestEnv| {
        env.server
            .edit(Kind::Service, "performer-avs", |service| service["spec"]["selector"]["team"] = json!("theirs"));
    };
    theirs(&mut env);
    env.wait(1);
    assert_eq!(applies(&env), before + 1, "the first time at once");
    for _ in 0..120 {
        theirs(&mut env);
        env.wait(10);
    }
    let after = applies(&env) - before;
    assert!((18..=22).contains(&after), "{after} writes in 20 minutes");
    let contended = crate::value::item(&env.status("avs"), "/conditions", "type", "Contended").unwrap().clone();
    assert_eq!((&contended["status"], &contended["reason"]), (&json!("True"), &json!("FieldRewritten")));
    insta::assert_snapshot!(contended["message"].as_str().unwrap(), @"Service `performer-avs` keeps being changed: .spec.selector; it is restored at most once a minute");
    assert_eq!((env.event_count("Contended"), place(&env).as_str()), (1, "Running/Running False/AsExpected"));
    env.wait(1000);
    assert_eq!(env.condition("avs", "Contended"), "False/AsExpected");
    env.writes_nothing_more();
}

#[test]
fn a_service_that_leads_past_the_pod_that_serves_makes_it_unavailable_at_once() {
    type Change = fn(&mut Value);
    let changes: [Change; 6] = [
        |service| service["spec"]["selector"]["team"] = json!("x"),
        |service| service["spec"]["selector"] = json!({}),
        |service| service["spec"]["selector"] = json!({"app": "another"}),
        |service| service["spec"]["ports"][0]["targetPort"] = json!("http"),
        |service| service["spec"]["ports"][0]["targetPort"] = json!(1),
        |service| service["spec"]["ports"][0]["port"] = json!(1),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut env = running(spec("well"));
        let theirs = |env: &mut TestEnv| {
            env.server.edit(Kind::Service, "performer-avs", change);
            env.settle();
        };
        for _ in 0..2 {
            theirs(&mut env);
            assert_eq!(env.condition("avs", "Ready"), "True/PodReady", "change {number} is put back at once");
            env.wait(5);
        }
        theirs(&mut env);
        for _ in 0..5 {
            for kind in ["Available", "Ready"] {
                assert_eq!(env.condition("avs", kind), "False/ServiceMisrouted", "{kind} after change {number}");
            }
            assert_eq!((env.status("avs")["ready"].clone(), serves(&env)), (json!(false), number == 0 || number > 2));
            env.wait(10);
        }
        env.wait(60);
        assert_eq!(env.condition("avs", "Ready"), "True/PodReady", "once change {number} is put back");
        env.writes_nothing_more();
    }
}

/// Somebody puts another image into the pod that serves.
fn another_image(env: &TestEnv, image: &str) {
    env.server.edit(Kind::Pod, "performer-avs", |pod| {
        pod["spec"]["containers"][0]["image"] = json!(image);
        let fields = json!({"f:spec": {"f:containers": {"k:{\"name\":\"performer\"}": {"f:image": {}}}}});
        pod["metadata"]["managedFields"] =
            json!([{"manager": "kubectl-set", "operation": "Update", "apiVersion": "v1", "fieldsV1": fields}]);
    });
}

#[test]
fn an_image_that_somebody_puts_into_the_pod_that_serves_is_reported_until_there_is_another_pod() {
    let mut env = running(spec("well"));
    another_image(&env, "evil/x:a1");
    env.settle();
    assert_eq!(env.condition("avs", "Ready"), "False/ImageChanged");
    assert_eq!(env.condition("avs", "Progressing"), "False/WaitingForChange");
    assert_eq!(
        (place(&env).as_str(), &env.status("avs")["image"]),
        ("Running/Running True/ImageChanged", &json!("evil/x:a1"))
    );
    let degraded = crate::value::item(&env.status("avs"), "/conditions", "type", "Degraded").unwrap().clone();
    insta::assert_snapshot!(degraded["message"].as_str().unwrap(), @"kubectl-set has put image `evil/x:a1` into pod `performer-avs`; delete that pod, or annotate hourglass.eigenlayer.io/restarted-at, for one of the spec");
    env.writes_nothing_more();
    env.server.request_deletion(Kind::Pod, "performer-avs");
    env.wait(60);
    assert_eq!(
        (env.condition("avs", "Ready").as_str(), &env.status("avs")["image"]),
        ("True/PodReady", &json!("well"))
    );
}

#[test]
fn an_image_that_admission_has_rewritten_is_the_one_of_the_spec() {
    let mut env = running(spec("well"));
    env.server.edit(Kind::Pod, "performer-avs", |pod| {
        pod["spec"]["containers"][0]["image"] = json!("mirror.example/well");
    });
    env.settle();
    assert_eq!(
        (env.condition("avs", "Ready").as_str(), &env.status("avs")["image"]),
        ("True/PodReady", &json!("well"))
    );
}

/// It goes, step by step: somebody holds its Service for a while.
fn goes() -> TestEnv {
    let mut env = running(spec("well"));
    env.server.edit(Kind::Service, "performer-avs", |service| service["metadata"]["finalizers"] = json!(["theirs"]));
    env.server.request_deletion(Kind::Performer, "avs");
    env.rest();
    env.server.remove(Kind::Service, "performer-avs");
    env.wait(60);
    env
}

/// Hardware comes later.
fn appears() -> TestEnv {
    let mut env = after(20, &[plain()], gpu("well"));
    env.add(Kind::Node, gpu_host("gpu-1", 1));
    env.rest();
    env
}

/// A pod that serves stops being ready.
fn unready() -> TestEnv {
    let mut env = running(spec("well"));
    env.images.insert("well".into(), "never");
    env.server.edit(Kind::Pod, "performer-avs", |pod| {
        pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
    });
    env.rest();
    env
}

/// The Service goes, and may not be made again.
fn without_a_service() -> TestEnv {
    let mut env = running(spec("well"));
    env.refuse("create", Kind::Service, 1, refused(403, "Forbidden"));
    env.server.remove(Kind::Service, "performer-avs");
    env.rest();
    env
}

/// Its node is lost, and then it is deleted.
fn lost() -> TestEnv {
    let mut env = running(spec("well"));
    let mut node = plain();
    node["status"]["conditions"][0] =
        json!({"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-11-21T09:00:00Z"});
    env.add(Kind::Node, node);
    env.server.request_deletion(Kind::Performer, "avs");
    env.wait(100);
    env
}

#[test]
fn failing_readiness_of_a_running_pod_is_said_and_no_failure() {
    let env = unready();
    let status = env.status("avs");
    assert_eq!((place(&env).as_str(), &status["ready"]), ("Running/Running False/AsExpected", &json!(false)));
    assert_eq!((env.condition("avs", "Available").as_str(), &status["readyTime"]), ("False/NotReady", &Value::Null));
    assert_eq!(pods(&env), ["performer-avs"]);
}

#[test]
fn without_its_service_what_runs_is_not_available() {
    let mut env = without_a_service();
    assert_eq!(env.condition("avs", "Available"), "False/ServiceMissing");
    assert_eq!(env.condition("avs", "Degraded"), "True/Forbidden");
    for member in ["serviceName", "grpcEndpoint", "host"] {
        assert_eq!(env.status("avs")[member], Value::Null, "{member}");
    }
    env.wait(301);
    assert_eq!((place(&env).as_str(), serves(&env)), ("Running/Running False/AsExpected", true));
}

#[test]
fn the_end_of_a_performer_and_its_lost_pods_are_reported() {
    let env = lost();
    assert!(env.server.list(Kind::Performer).is_empty());
    let events = env.events();
    for reason in ["Deleting", "PodLost"] {
        assert_eq!(events.iter().filter(|known| *known == reason).count(), 1, "{reason}: {events:?}");
    }
}

#[test]
fn hardware_that_appears_is_reported_once() {
    let mut env = appears();
    assert_eq!(env.condition("avs", "HardwareAvailable"), "True/NodesMatch");
    env.add(Kind::Node, gpu_host("gpu-2", 1));
    env.wait(400);
    assert_eq!(env.events().iter().filter(|known| *known == "HardwareAvailable").count(), 1);
}

#[test]
fn every_reason_of_the_tables_is_said_and_no_other() {
    let mut reasons = Reasons::default();
    beginnings(&mut reasons);
    middles(&mut reasons);
    let conditions = [
        rows("Available True", "PodReady"),
        rows("Available False", "NoReadyPod NotReady ServiceMissing ServiceMisrouted Terminating"),
        rows("Progressing True", STATES),
        rows("Progressing True", "UpgradeInProgress"),
        rows("Progressing False", "UpToDate BackOff WaitingForChange"),
        rows("Degraded True", DEGRADED),
        rows("Degraded False", "AsExpected"),
        rows("Contended True", "FieldRewritten"),
        rows("Contended False", "AsExpected"),
        rows("HardwareAvailable True", "NotRequired NodesMatch"),
        rows("HardwareAvailable False", HARDWARE),
        rows("HardwareAvailable Unknown", "InvalidSpec NodesNotReadable"),
    ];
    reasons.assert_are(&conditions, &[rows("Normal", NORMAL), rows("Warning", DEGRADED), rows("Warning", WARNING)]);
}

/// States of a pod that comes up and of a performer that goes.
const STATES: &str = "Creating PodCreation Scheduling NodeSelection HardwareValidation PodBinding ImagePull ContainerStart \
    ServiceCreation Terminating ServiceCleanup PodCleanup";
const DEGRADED: &str = "InvalidSpec Conflict SchedulingFailed HardwareUnavailable ImagePullFailed ContainerConfigError \
    ContainerStartFailed ReadinessTimeout PodFailed PodDeleted Evicted NodeLost UpgradeFailed ImageChanged QuotaExceeded AdmissionRefused Forbidden \
    RetriesExhausted";
const HARDWARE: &str =
    "NoMatchingLabels InsufficientAllocatable UntoleratedTaint RuntimeClassMissing DeviceClassMissing";
const NORMAL: &str = "Created Scheduled Ready UpgradeStarted Switched UpgradeCompleted Deleting HardwareAvailable";
const WARNING: &str = "RolledBack SurgeImpossible Contended PodLost ExecutorNotFound DuplicateEnvironment RuntimeClassOverridden Narrowed \
    UnknownGpuModel";
