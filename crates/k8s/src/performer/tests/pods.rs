//! Rows of the pod, and that a container is known by its name wherever it stands.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Performers, TestEnv, env, place, pods, running, selected, serves, spec};
use crate::api::Kind;
use crate::hourglass::Config;
use crate::hourglass::controller::Reconciler;
use crate::hourglass::tables::overlaid;
use crate::hourglass::tests::host;
use crate::value::item;

/// The spec of the pod of a performer, and its container.
fn made(members: Value) -> (Value, Value) {
    let mut spec = spec("well");
    members.as_object().unwrap().iter().for_each(|(name, value)| spec[name] = value.clone());
    let env = running(spec);
    let pod = env.server.get(Kind::Pod, "performer-avs").unwrap()["spec"].clone();
    let container = item(&pod, "/containers", "name", "performer").unwrap().clone();
    (pod, container)
}

#[test]
fn a_container_has_ten_minutes_to_listen_before_its_other_probes_begin() {
    for (probe, ask) in [("tcp", json!({"tcpSocket": {"port": 9191}})), ("grpc", json!({"grpc": {"port": 9191}}))] {
        let (_, container) = made(json!({"config": {"grpcPort": 9191, "probe": probe}}));
        for (name, period, timeout, failures) in
            [("startupProbe", 2, 2, 300), ("livenessProbe", 10, 5, 3), ("readinessProbe", 5, 2, 3)]
        {
            let mut want = ask.clone();
            want["periodSeconds"] = json!(period);
            want["timeoutSeconds"] = json!(timeout);
            want["failureThreshold"] = json!(failures);
            assert_eq!(container[name], want, "{probe} {name}");
        }
        assert_eq!(container["ports"], json!([{"name": "grpc", "containerPort": 9191, "protocol": "TCP"}]));
    }
}

#[test]
fn without_probes_readiness_is_a_connection_since_a_switch_waits_for_it() {
    let (_, container) = made(json!({"config": {"probe": "none"}}));
    assert_eq!((&container["startupProbe"], &container["livenessProbe"]), (&Value::Null, &Value::Null));
    let want = json!({"tcpSocket": {"port": 9090}, "periodSeconds": 5, "timeoutSeconds": 2, "failureThreshold": 3});
    assert_eq!(container["readinessProbe"], want);
}

#[test]
fn times_of_probes_are_laid_over_the_usual_ones_one_by_one() {
    let probes = json!({
        "startup": {"periodSeconds": 10, "failureThreshold": 360, "initialDelaySeconds": 60},
        "readiness": {"timeoutSeconds": 9, "successThreshold": 2},
    });
    let (_, container) = made(json!({"config": {"probe": "tcp", "probes": probes}}));
    let of = |name: &str| {
        let mut probe = container[name].clone();
        probe.as_object_mut().unwrap().remove("tcpSocket");
        probe.to_string()
    };
    insta::assert_snapshot!([of("startupProbe"), of("livenessProbe"), of("readinessProbe")].join("\n"), @r#"
    {"failureThreshold":360,"initialDelaySeconds":60,"periodSeconds":10,"timeoutSeconds":2}
    {"failureThreshold":3,"periodSeconds":10,"timeoutSeconds":5}
    {"failureThreshold":3,"periodSeconds":5,"successThreshold":2,"timeoutSeconds":9}
    "#);
    let mut env = env();
    let config = json!({"probes": {"liveness": {"successThreshold": 2}}});
    env.submit("avs", json!({"avsAddress": super::ADDRESS, "image": "i", "config": config}));
    env.rest();
    let degraded = item(&env.status("avs"), "/conditions", "type", "Degraded").unwrap()["message"].clone();
    insta::assert_snapshot!(degraded.as_str().unwrap(), @"config.probes.liveness.successThreshold is 2; it can only be 1, or be left out");
}

#[test]
fn command_and_arguments_are_taken_as_they_are_and_empty_ones_are_absent() {
    let config = json!({"command": ["/bin/run", "$(A)"], "args": ["--x", ""]});
    let (_, container) = made(json!({"config": config}));
    assert_eq!((&container["command"], &container["args"]), (&config["command"], &config["args"]));
    let (_, container) = made(json!({"config": {"command": [], "args": []}}));
    assert_eq!((&container["command"], &container["args"]), (&Value::Null, &Value::Null));
}

#[test]
fn a_token_is_mounted_only_where_an_account_is_named() {
    let (pod, _) = made(json!({"config": {"serviceAccountName": "mine"}}));
    assert_eq!((&pod["serviceAccountName"], &pod["automountServiceAccountToken"]), (&json!("mine"), &json!(true)));
    let (pod, _) = made(json!({}));
    assert_eq!((&pod["serviceAccountName"], &pod["automountServiceAccountToken"]), (&Value::Null, &json!(false)));
}

#[test]
fn baseline_is_seccomp_and_no_escalation_only() {
    let (pod, container) = made(json!({"securityProfile": "baseline"}));
    assert_eq!(pod["securityContext"], json!({"seccompProfile": {"type": "RuntimeDefault"}}));
    assert_eq!(container["securityContext"], json!({"allowPrivilegeEscalation": false}));
    assert_eq!((&pod["volumes"], &container["volumeMounts"]), (&Value::Null, &Value::Null), "its root can be written");
}

#[test]
fn nothing_is_privileged_host_networked_or_host_mounted() {
    for profile in ["restricted", "baseline"] {
        let (pod, _) = made(json!({"securityProfile": profile}));
        let text = pod.to_string();
        for word in ["privileged", "hostNetwork", "hostPID", "hostIPC", "hostPath", "hostPort"] {
            assert!(!text.contains(word), "{profile}: {word}");
        }
    }
}

#[test]
fn secrets_for_pulling_and_priority_reach_the_pod() {
    let (pod, container) = made(json!({
        "imagePullPolicy": "Always",
        "imagePullSecrets": [{"name": "one"}, {"name": "two"}],
        "scheduling": {"priorityClassName": "high"},
    }));
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "one"}, {"name": "two"}]));
    assert_eq!((&pod["priorityClassName"], &container["imagePullPolicy"]), (&json!("high"), &json!("Always")));
    assert_eq!((&pod["restartPolicy"], &pod["terminationGracePeriodSeconds"]), (&json!("Always"), &json!(30)));
}

/// Admission puts a container before ours, with an image of its own.
fn inject(env: &TestEnv, image: &str) {
    for name in pods(env) {
        env.server.edit(Kind::Pod, &name, |pod| {
            let containers = pod["spec"]["containers"].as_array_mut().unwrap();
            if containers.len() == 1 {
                containers.insert(0, json!({"name": "mesh", "image": image}));
            }
        });
    }
}

#[test]
fn a_container_that_others_put_first_decides_nothing() {
    for (habit, want) in [
        ("well", "Running/Running False/AsExpected"),
        ("ImagePullBackOff", "Failed/Failed True/ImagePullFailed"),
        ("CreateContainerConfigError", "Failed/Failed True/ContainerConfigError"),
        ("CrashLoopBackOff", "Failed/Failed True/ContainerStartFailed"),
    ] {
        let mut env = env();
        env.images.insert("mine".into(), habit);
        env.submit("avs", spec("mine"));
        env.settle();
        inject(&env, "mesh:1");
        env.rest();
        let first = &env.server.get(Kind::Pod, "performer-avs").unwrap()["status"]["containerStatuses"][0];
        assert_eq!((&first["name"], first["state"]["running"].is_object()), (&json!("mesh"), true));
        assert_eq!(place(&env), want, "{habit}");
    }
    let mut env = running(spec("well"));
    env.change("avs", |spec| spec["image"] = json!("other"));
    env.settle();
    inject(&env, "mesh:1");
    env.wait(60);
    assert_eq!(
        (env.status("avs")["image"].clone(), place(&env).as_str()),
        (json!("other"), "Running/Running False/AsExpected")
    );
    env.writes_nothing_more();
}

#[test]
fn an_image_rewritten_at_admission_decides_nothing() {
    let mut env = env();
    env.submit("avs", spec("well"));
    env.settle();
    env.images.insert("mirror.example/well@sha256:1".into(), "well");
    env.server.edit(Kind::Pod, "performer-avs", |pod| {
        pod["spec"]["containers"][0]["image"] = json!("mirror.example/well@sha256:1");
    });
    env.wait(60);
    assert_eq!(
        (env.status("avs")["image"].clone(), env.status("avs")["incarnation"].clone()),
        (json!("well"), json!(1))
    );
    assert_eq!(place(&env), "Running/Running False/AsExpected");
    env.writes_nothing_more();
}

/// A pod of an earlier operator, without number and hash, and no status; its containers by name and image.
pub(super) fn unnumbered(containers: Value) -> TestEnv {
    let mut env = env();
    let performer = env.submit("avs", spec("well"));
    let owner = json!([{"kind": "Performer", "name": "avs", "uid": performer["metadata"]["uid"], "controller": true}]);
    let now = json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T09:00:00Z"}]);
    env.server.put(
        Kind::Pod,
        json!({
            "metadata": {"name": "performer-avs", "ownerReferences": owner, "labels": {"app": "hourglass-performer"}},
            "spec": {"nodeName": "node-1", "containers": containers},
            "status": {"phase": "Running", "startTime": "2026-11-21T09:00:00Z", "conditions": now},
        }),
    );
    env.add(Kind::Node, host("node-1", json!({}), json!({})));
    env.settle();
    env
}

#[test]
fn a_pod_without_number_is_reported_by_the_image_of_the_container_of_our_name() {
    let hash = |env: &TestEnv| {
        let pod = env.server.get(Kind::Pod, "performer-avs").unwrap();
        (
            pod["metadata"]["labels"][super::INCARNATION].clone(),
            pod["metadata"]["annotations"][super::super::SPEC_HASH].clone(),
        )
    };
    let mesh = json!({"name": "mesh", "image": "well"});
    let ours = |image: &str| json!({"name": "performer", "image": image});
    let env = unnumbered(json!([{"name": "mesh", "image": "old"}, ours("well")]));
    let wanted = env.status("avs")["specHash"].clone();
    assert_eq!(hash(&env), (json!("1"), wanted));
    assert_eq!(env.status("avs")["active"]["incarnation"], 1);
    let mut env = unnumbered(json!([mesh, ours("old")]));
    assert_eq!(hash(&env), (json!("1"), json!("unknown")), "another container has that image");
    // What nobody knows is not what is wanted: it is replaced as any other.
    assert_eq!(env.status("avs")["active"]["specHash"], "unknown");
    assert_eq!(env.status("avs")["phase"], "Upgrading", "{}", env.status("avs"));
    env.wait(60);
    assert_eq!((place(&env).as_str(), selected(&env).as_str()), ("Running/Running False/AsExpected", "2"));
    assert_eq!((pods(&env).len(), serves(&env)), (1, true));
    assert_eq!(env.server.list(Kind::Pod)[0]["spec"]["containers"][0]["image"], "well");
    assert!(env.status("avs")["specHash"].as_str().is_some_and(|hash| hash.len() == 64));
    env.writes_nothing_more();
}

#[test]
fn a_pod_of_an_unknown_spec_serves_until_another_can() {
    let named = json!([{"name": "health", "containerPort": 1}, {"name": "grpc", "containerPort": 7000}]);
    for (ports, port, target) in [(named, 7000, json!("grpc")), (Value::Null, 9090, json!(9090))] {
        let mut env = unnumbered(json!([{"name": "performer", "image": "old", "ports": ports}]));
        env.images.insert("well".into(), "never");
        let front = |env: &TestEnv| env.server.get(Kind::Service, "performer-avs").unwrap()["spec"]["ports"][0].clone();
        env.wait(30);
        assert_eq!((selected(&env).as_str(), serves(&env)), ("1", true), "{}", env.status("avs"));
        assert_eq!((&front(&env)["port"], &front(&env)["targetPort"]), (&json!(port), &target));
        assert_eq!(env.status("avs")["grpcEndpoint"], format!("performer-avs.default.svc.cluster.local:{port}"));
        assert_eq!(env.status("avs")["ready"], true);
        // Also where somebody takes it away.
        env.server.remove(Kind::Service, "performer-avs");
        env.rest();
        assert_eq!((selected(&env).as_str(), serves(&env)), ("1", true));
        env.wait(2000);
        let status = env.status("avs");
        assert_eq!((&status["active"]["specHash"], pods(&env).len()), (&json!("unknown"), 2), "{status}");
        assert_eq!((selected(&env).as_str(), serves(&env)), ("1", true));
        assert_eq!(env.condition("avs", "Degraded"), "True/UpgradeFailed");
    }
}

#[test]
fn what_serves_keeps_its_service_though_no_table_knows_its_devices_any_more() {
    let mut env = TestEnv::new();
    let labels = json!({"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "OURS"});
    env.add(Kind::Node, host("gpu-1", labels, json!({"nvidia.com/gpu": "1"})));
    let reported =
        "gpu:\n  models:\n    ours: {vendor: nvidia, products: [{name: OURS, memoryGib: 8, nvlink: true}]}\n";
    env.config = Arc::new(Config::with_tables(overlaid(reported).unwrap()));
    env.restart();
    env.submit(
        "avs",
        json!({"avsAddress": super::ADDRESS, "image": "well", "config": {"grpcPort": 9191},
        "hardwareRequirements": {"gpuType": "ours-nvlink"}}),
    );
    env.rest();
    assert_eq!(place(&env), "Running/Running False/AsExpected");
    env.config = Arc::new(Config::default());
    env.restart();
    env.rest();
    assert_eq!((place(&env).as_str(), serves(&env)), ("Failed/Failed True/InvalidSpec", true));
    env.server.remove(Kind::Service, "performer-avs");
    env.rest();
    assert_eq!((selected(&env).as_str(), serves(&env), pods(&env).len()), ("1", true, 1));
    assert_eq!(env.status("avs")["grpcEndpoint"], "performer-avs.default.svc.cluster.local:9191");
    env.writes_nothing_more();
}

#[test]
fn a_pod_that_is_adopted_is_watched_as_all_are() {
    let mut env = running(spec("well"));
    env.server.edit(Kind::Pod, "performer-avs", |pod| {
        pod["metadata"]["labels"] = json!({});
        pod["metadata"]["annotations"] = json!({});
    });
    env.server.edit(Kind::Performer, "avs", |performer| performer["status"] = json!({}));
    env.restart();
    env.rest();
    let labels = env.server.get(Kind::Pod, "performer-avs").unwrap()["metadata"]["labels"].clone();
    let (name, value) = <Performers as Reconciler>::CHILD_SELECTOR.split_once('=').unwrap();
    assert_eq!((&labels[name], &labels[super::super::PERFORMER]), (&json!(value), &json!("avs")), "{labels}");
    assert_eq!(place(&env), "Running/Running False/AsExpected");
}

#[test]
fn a_pod_that_no_watch_shows_any_more_is_looked_for_before_another_is_made() {
    let mut env = running(spec("well"));
    env.server.edit(Kind::Pod, "performer-avs", |pod| {
        pod["metadata"]["labels"].as_object_mut().unwrap().remove("app");
    });
    env.rest();
    let pod = env.server.get(Kind::Pod, "performer-avs").unwrap();
    assert_eq!(pod["metadata"]["labels"]["app"], "hourglass-performer");
    assert_eq!((pods(&env).len(), place(&env).as_str()), (1, "Running/Running False/AsExpected"));
    env.writes_nothing_more();
}
