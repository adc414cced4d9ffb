//! What stays as it is when something else changes, what is kept of specs, times that are told, and that a
//! switch is one write.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::{SPEC_HASH, SWITCHED_AT};
use super::{ADDRESS, INCARNATION, TestEnv, another, env, gpu, gpu_host, host, place, pods, running, selected, spec};
use crate::api::Kind;
use crate::hourglass::Config;
use crate::hourglass::spec::SecurityProfile;
use crate::hourglass::tables::overlaid;
use crate::value::{item, texts, word};

/// Another operator takes over, with other tables and flags.
fn updated(env: &mut TestEnv) {
    let tables = "gpu:\n  migStrategy: single\n  vendors:\n    nvidia:\n      resource: example.org/gpu\n";
    let mut config = Config::with_tables(overlaid(tables).unwrap());
    config.security = SecurityProfile::Baseline;
    config.cluster_domain = "example.org".to_owned();
    config.instance = "another".to_owned();
    env.config = Arc::new(config);
    env.restart();
}

#[test]
fn neither_tables_nor_flags_of_the_operator_restart_a_performer() {
    let mut env = TestEnv::new();
    env.add(Kind::Node, gpu_host("gpu-1", 1));
    env.submit("avs", gpu("well"));
    env.rest();
    let before = (env.server.get(Kind::Pod, "performer-avs"), env.created(), env.status("avs")["specHash"].clone());
    updated(&mut env);
    env.wait(400);
    let after = (env.server.get(Kind::Pod, "performer-avs"), env.created(), env.status("avs")["specHash"].clone());
    assert_eq!(after, before);
    assert_eq!(place(&env), "Running/Running False/AsExpected");
    assert_eq!(env.status("avs")["grpcEndpoint"], "performer-avs.default.svc.example.org:9090", "that is only told");
    env.writes_nothing_more();
    // The next pod is made by them.
    env.change("avs", |spec| spec["image"] = json!("other"));
    env.settle();
    let next =
        env.server.list(Kind::Pod).into_iter().find(|pod| pod["metadata"]["labels"][INCARNATION] == "2").unwrap();
    assert_eq!(next["spec"]["containers"][0]["resources"]["limits"]["example.org/gpu"], "1");
    assert_eq!(next["spec"]["securityContext"], json!({"seccompProfile": {"type": "RuntimeDefault"}}));
}

/// Hashes of the specs that are kept.
fn kept(env: &TestEnv) -> Vec<String> {
    let of = |revision: &Value| texts(revision, "/metadata/annotations").remove(SPEC_HASH).unwrap();
    env.server.list(Kind::Revision).iter().map(of).collect()
}

#[test]
fn a_revision_is_named_by_its_hash_and_labelled_as_the_pod_is() {
    let env = running(spec("well"));
    let hash = env.status("avs")["specHash"].as_str().unwrap().to_owned();
    let [revision] = <[Value; 1]>::try_from(env.server.list(Kind::Revision)).unwrap();
    assert_eq!(word(&revision, "/metadata/name"), format!("performer-avs-{}", &hash[..10]));
    let labels = json!({"app": "hourglass-performer", "hourglass.eigenlayer.io/performer": "avs",
        "hourglass.eigenlayer.io/avs": super::ADDRESS});
    assert_eq!(revision["metadata"]["labels"], labels);
    assert_eq!(revision["metadata"]["annotations"], json!({ SPEC_HASH: hash }));
    let pod = env.server.get(Kind::Pod, "performer-avs").unwrap();
    assert_eq!(revision["metadata"]["ownerReferences"], pod["metadata"]["ownerReferences"]);
    // What pods are told apart by, with its defaults, and nothing else.
    assert_eq!(
        revision["data"],
        json!({"avsAddress": super::ADDRESS, "image": "well", "imagePullPolicy": "IfNotPresent", "imagePullSecrets": [],
            "config": {"grpcPort": 9090, "probe": "grpc"}, "scheduling": {}})
    );
}

#[test]
fn revisions_are_kept_for_what_serves_and_what_is_wanted_only() {
    let mut env = running(spec("well"));
    let hash = |env: &TestEnv, of: &str| env.status("avs")[of]["specHash"].as_str().unwrap().to_owned();
    let first = hash(&env, "active");
    assert_eq!(kept(&env), std::slice::from_ref(&first));
    env.images.insert("bad".into(), "never");
    env.change("avs", |spec| spec["image"] = json!("bad"));
    env.rest();
    let second = hash(&env, "candidate");
    let sorted = |mut hashes: Vec<String>| {
        hashes.sort();
        hashes
    };
    assert_eq!(sorted(kept(&env)), sorted(vec![first.clone(), second]));
    env.change("avs", |spec| spec["image"] = json!("worse"));
    env.images.insert("worse".into(), "never");
    env.rest();
    let third = hash(&env, "candidate");
    assert_eq!(sorted(kept(&env)), sorted(vec![first.clone(), third]), "what was wanted in between is not kept");
    env.change("avs", |spec| spec["image"] = json!("well"));
    env.rest();
    assert_eq!(kept(&env), [first]);
    env.change("avs", |spec| spec["image"] = json!("other"));
    env.wait(60);
    assert_eq!(kept(&env), [hash(&env, "active")]);
    env.writes_nothing_more();
}

/// What the Service has said so far: which pod, at which port, switched when.
fn fronts(env: &TestEnv) -> Vec<(String, i64, String)> {
    let store = env.server.store();
    let services = store.log.iter().filter(|change| change.kind == Kind::Service && !change.gone);
    let mut fronts: Vec<_> = services
        .map(|change| {
            let number = texts(&change.object, "/spec/selector").remove(INCARNATION).unwrap();
            let at = texts(&change.object, "/metadata/annotations").remove(SWITCHED_AT).unwrap_or_default();
            (number, change.object["spec"]["ports"][0]["port"].as_i64().unwrap(), at)
        })
        .collect();
    fronts.dedup();
    fronts
}

#[test]
fn a_switch_is_one_write_of_selector_port_and_time() {
    let mut env = running(spec("well"));
    env.wait(10);
    let before = env.writes().len();
    env.change("avs", |spec| spec["config"] = json!({"grpcPort": 9191}));
    env.wait(60);
    assert_eq!((selected(&env).as_str(), pods(&env).len()), ("2", 1));
    let writes = env.writes()[before..].to_vec();
    let at = |wanted: &str| writes.iter().position(|write| write == wanted);
    assert_eq!(writes.iter().filter(|write| write.contains(" services ")).count(), 1, "{writes:?}");
    let service = at("patch services default/performer-avs").unwrap();
    let status = writes[service..].iter().position(|write| write == "patch performers/status default/avs");
    assert!(status.is_some_and(|after| after > 0), "the status follows: {writes:?}");
    let switched = env.status("avs")["lastUpgrade"].as_str().unwrap().to_owned();
    assert_eq!(fronts(&env), [("1".to_owned(), 9090, String::new()), ("2".to_owned(), 9191, switched)]);
}

#[test]
fn a_performer_is_ready_since_its_pod_is_and_upgraded_when_it_was_switched() {
    let mut env = running(spec("well"));
    let since = |env: &TestEnv, name: &str| {
        let pod = env.server.get(Kind::Pod, name).unwrap();
        item(&pod, "/status/conditions", "type", "Ready").unwrap()["lastTransitionTime"].clone()
    };
    env.wait(100);
    let status = env.status("avs");
    assert_eq!((&status["readyTime"], &status["lastUpgrade"]), (&since(&env, "performer-avs"), &Value::Null));
    // Another pod of the same spec is no upgrade.
    env.server.request_deletion(Kind::Pod, "performer-avs");
    env.wait(100);
    let status = env.status("avs");
    assert_eq!((&status["readyTime"], &status["lastUpgrade"]), (&since(&env, &pods(&env)[0]), &Value::Null));
    let mut last = Value::Null;
    for (image, upgrade) in [("second", json!({"strategy": "Surge"})), ("third", json!({"strategy": "Recreate"}))] {
        another(&env, image, upgrade);
        env.wait(100);
        let status = env.status("avs");
        assert_eq!((&status["image"], &status["readyTime"]), (&json!(image), &since(&env, &pods(&env)[0])));
        assert!(status["lastUpgrade"].as_str() > last.as_str(), "{status}");
        last = status["lastUpgrade"].clone();
    }
    // Nor is a version, or another pod after it.
    env.change("avs", |spec| spec["version"] = json!("9"));
    let name = pods(&env).remove(0);
    env.server.request_deletion(Kind::Pod, &name);
    env.wait(100);
    assert_eq!(env.status("avs")["lastUpgrade"], last);
}

#[test]
fn surge_waits_as_long_as_the_spec_says() {
    for wait in [0, 10, 100] {
        let mut env = TestEnv::new();
        env.add(Kind::Node, gpu_host("gpu-1", 1));
        env.submit("avs", gpu("well"));
        env.rest();
        another(&env, "other", json!({"surgeWaitSeconds": wait}));
        if wait > 0 {
            env.wait(wait - 1);
            assert_eq!((env.event_count("SurgeImpossible"), pods(&env).len()), (0, 2), "{wait}");
        }
        env.wait(1);
        assert_eq!(env.event_count("SurgeImpossible"), 1, "{wait}");
        assert_ne!(env.status("avs")["active"]["incarnation"], 1, "{wait}");
    }
}

#[test]
fn a_new_pod_is_ready_as_long_as_the_spec_says_before_it_serves() {
    for wait in [0, 20] {
        let mut env = running(spec("well"));
        another(&env, "other", json!({"minReadySeconds": wait}));
        env.rest();
        if wait > 0 {
            env.wait(wait - 1);
            assert_eq!(
                (selected(&env).as_str(), place(&env).as_str()),
                ("1", "Upgrading/PodRecreation False/AsExpected")
            );
            env.wait(1);
        }
        assert_eq!(selected(&env), "2", "{wait}");
    }
    // Where nothing else serves there is nothing to wait for.
    let mut env = env();
    let mut alone = spec("well");
    alone["upgrade"] = json!({"minReadySeconds": 3600});
    env.submit("avs", alone);
    env.rest();
    assert_eq!(place(&env), "Running/Running False/AsExpected");
}

#[test]
fn a_former_pod_drains_as_long_as_the_spec_says() {
    for wait in [0, 7, 100] {
        let mut env = running(spec("well"));
        another(&env, "other", json!({"minReadySeconds": 0, "drainSeconds": wait}));
        env.rest();
        assert_eq!(selected(&env), "2");
        if wait > 0 {
            env.wait(wait - 1);
            assert_eq!(pods(&env).len(), 2, "{wait}");
            env.wait(1);
        }
        assert_eq!(pods(&env).len(), 1, "{wait}");
        // And as long when all of it goes.
        env.server.request_deletion(Kind::Performer, "avs");
        env.rest();
        if wait > 0 {
            env.wait(wait - 1);
            assert_eq!(pods(&env).len(), 1, "{wait}");
            env.wait(1);
        }
        assert!(pods(&env).is_empty() && env.server.list(Kind::Performer).is_empty(), "{wait}");
    }
}

#[test]
fn a_device_is_found_by_the_labels_that_nodes_bear_and_other_families_restart_nothing() {
    let node = |name: &str, key: &str, value: &str| host(name, json!({key: value}), json!({"nvidia.com/gpu": "1"}));
    let mut env = TestEnv::new();
    env.add(Kind::Node, node("gke-1", "cloud.google.com/gke-accelerator", "nvidia-l4"));
    let asked = |kind: &str| json!({"avsAddress": ADDRESS, "image": "well", "hardwareRequirements": {"gpuType": kind}});
    env.submit("avs", asked("l4"));
    env.rest();
    assert_eq!(place(&env), "Running/Running False/AsExpected");
    let before = env.server.list(Kind::Pod);
    env.add(Kind::Node, node("eks-1", "eks.amazonaws.com/instance-gpu-name", "a10g"));
    env.add(Kind::Node, node("aks-1", "node.kubernetes.io/instance-type", "Standard_NC24ads_A100_v4"));
    env.wait(400);
    assert_eq!(env.server.list(Kind::Pod), before);
    env.writes_nothing_more();
    // Each is told of in the words of its own maker, and what nobody has is looked for by the labels of all.
    env.submit("aks", asked("A100 80GB PCIe"));
    env.submit("none", asked("h200"));
    env.wait(60);
    assert_eq!(env.place("aks"), "Running/Running False/AsExpected");
    let conditions = env.status("none");
    let reported = item(&conditions, "/conditions", "type", "HardwareAvailable").unwrap();
    insta::assert_snapshot!(word(reported, "/message"), @"0 of 3 nodes match: NoMatchingLabels 3, by labels of native, gke, eks, instanceType");
}
