//! Every cell of the table of children.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{TestEnv, checksums, running, spec, with};
use crate::api::Kind;
use crate::value::{item, text, word};

/// The spec of the pods, and their container.
fn pods(env: &TestEnv) -> (Value, Value) {
    let pod = env.server.get(Kind::Deployment, "exec").unwrap()["spec"]["template"]["spec"].clone();
    let container = item(&pod, "/containers", "name", "executor").unwrap().clone();
    (pod, container)
}

#[test]
fn what_the_spec_says_of_pods_reaches_them_as_it_is() {
    let given = json!({
        "imagePullPolicy": "Always",
        "imagePullSecrets": [{"name": "one"}, {"name": "two"}],
        "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}, "claims": [{"name": "gpu"}]},
        "nodeSelector": {},
        "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
        "serviceAccountName": "mine",
    });
    let env = running(with(given.clone()));
    let (pod, container) = pods(&env);
    for name in ["imagePullSecrets", "tolerations", "serviceAccountName"] {
        assert_eq!(pod[name], given[name], "{name}");
    }
    for name in ["imagePullPolicy", "resources"] {
        assert_eq!(container[name], given[name], "{name}");
    }
    let account = env.server.get(Kind::ServiceAccount, "mine").unwrap();
    assert_eq!((&account["metadata"]["labels"], &account["metadata"]["ownerReferences"]), (&Value::Null, &Value::Null));
    assert_eq!(env.server.list(Kind::ServiceAccount).len(), 1);
    let mut env = super::env();
    env.add(Kind::Node, crate::hourglass::tests::host("node-2", json!({"pool": "b"}), json!({})));
    env.submit("exec", with(json!({"nodeSelector": {"pool": "b"}})));
    env.rest();
    assert_eq!(pods(&env).0["nodeSelector"], json!({"pool": "b"}));
    // What is not said is not there.
    let (pod, container) = pods(&running(spec()));
    for name in ["imagePullSecrets", "tolerations", "nodeSelector"] {
        assert_eq!(pod[name], Value::Null, "{name}");
    }
    assert_eq!(container["resources"], Value::Null);
}

#[test]
fn pods_of_the_baseline_profile_run_as_the_image_says() {
    let (pod, container) = pods(&running(with(json!({"securityProfile": "baseline"}))));
    assert_eq!(pod["securityContext"], json!({"seccompProfile": {"type": "RuntimeDefault"}, "fsGroup": 65532}));
    assert_eq!(container["securityContext"], json!({"allowPrivilegeEscalation": false}));
    let scratch = item(&pod, "/volumes", "name", "tmp").unwrap();
    assert_eq!(scratch["emptyDir"], json!({}));
    assert_eq!(item(&container, "/volumeMounts", "name", "tmp").unwrap()["mountPath"], "/tmp");
}

#[test]
fn keys_of_a_secret_of_the_user_are_mounted_for_the_group_alone() {
    let mut spec = spec();
    spec["config"].as_object_mut().unwrap().remove("operatorKeys");
    spec["config"]["operatorKeysSecretRef"] = json!({"name": "mine"});
    let env = running(spec);
    let (pod, container) = pods(&env);
    let keys = item(&pod, "/volumes", "name", "keys").unwrap();
    assert_eq!(keys, &json!({"name": "keys", "secret": {"secretName": "mine", "defaultMode": 0o440}}));
    let mounted = item(&container, "/volumeMounts", "name", "keys").unwrap();
    assert_eq!(mounted, &json!({"name": "keys", "mountPath": "/etc/hourglass-keys", "readOnly": true}));
    // The chain with credentials is hidden all the same; of keys there is nothing to hide.
    let secret = env.server.get(Kind::Secret, "exec-secrets").unwrap();
    let names: Vec<&String> = secret["data"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["config.yaml", "executor-config.yaml"]);
    let file = text(&env.server.get(Kind::ConfigMap, "exec-config").unwrap(), "/data/config.yaml");
    assert!(file.contains("operator_keys_dir") && !file.contains("operator_keys:"), "{file}");
}

#[test]
fn without_keys_none_are_mounted_and_no_secret_is_waited_for() {
    for (rpc, secret) in [("https://eth.example", false), ("https://u:p@eth.example", true)] {
        let mut spec = spec();
        spec["config"]["operatorKeys"] = json!({});
        spec["config"]["chains"] = json!([{"name": "ethereum", "rpc": rpc, "chainId": 1,
            "taskMailboxAddress": "0x1234567890abcdef1234567890abcdef12345678"}]);
        let env = running(spec);
        assert_eq!(env.server.get(Kind::Secret, "exec-secrets").is_some(), secret, "{rpc}");
        let (pod, _) = pods(&env);
        let keys = item(&pod, "/volumes", "name", "keys").unwrap();
        assert_eq!(keys, &json!({"name": "keys", "emptyDir": {}}), "{rpc}");
    }
}

#[test]
fn both_keys_of_the_config_map_have_the_same_content_and_so_have_those_of_the_secret() {
    let env = running(spec());
    let shown = env.server.get(Kind::ConfigMap, "exec-config").unwrap()["data"].clone();
    let hidden = env.server.get(Kind::Secret, "exec-secrets").unwrap()["data"].clone();
    assert_eq!(shown.as_object().unwrap().keys().collect::<Vec<_>>(), ["config.yaml", "executor-config.yaml"]);
    for data in [&shown, &hidden] {
        assert_eq!(data["config.yaml"], data["executor-config.yaml"]);
    }
    let whole = String::from_utf8(STANDARD.decode(hidden["config.yaml"].as_str().unwrap()).unwrap()).unwrap();
    let (plain, rpc) =
        (shown["config.yaml"].as_str().unwrap(), "https://base.example/v2/0123456789abcdef0123456789abcdef");
    assert_eq!(whole.replace(rpc, "__redacted__"), plain, "all but the address with credentials is the same");
    let key = STANDARD.decode(hidden["operator-key.ecdsa"].as_str().unwrap()).unwrap();
    assert_eq!(key, b"KEY-OF-THE-OPERATOR");
}

#[test]
fn the_configuration_is_mounted_from_where_all_of_it_is() {
    let volume = |env: &TestEnv| {
        let (pod, container) = pods(env);
        let mounted = item(&container, "/volumeMounts", "name", "config").unwrap();
        assert_eq!(mounted, &json!({"name": "config", "mountPath": "/etc/hourglass", "readOnly": true}));
        assert_eq!(container["args"], json!(["--config=/etc/hourglass/executor-config.yaml"]));
        item(&pod, "/volumes", "name", "config").unwrap().clone()
    };
    let items = json!([
        {"key": "executor-config.yaml", "path": "executor-config.yaml"},
        {"key": "config.yaml", "path": "config.yaml"},
    ]);
    let mut env = running(spec());
    let secret = json!({"name": "config", "secret": {"secretName": "exec-secrets", "items": items}});
    assert_eq!(volume(&env), secret);
    env.change("exec", |spec| spec["config"]["chains"][1]["rpc"] = json!("https://base.example"));
    env.rest();
    let plain = json!({"name": "config", "configMap": {"name": "exec-config", "items": items}});
    assert_eq!(volume(&env), plain);
    env.change("exec", |spec| spec["config"]["aggregatorEndpoint"] = json!("https://u:p@aggregator.example"));
    env.rest();
    assert_eq!(volume(&env), secret, "the aggregator's address is one as well");
}

#[test]
fn the_hash_is_over_the_secret_too_and_a_key_alone_rolls_the_pods() {
    let mut env = running(spec());
    let before = (checksums(&env), env.server.get(Kind::ConfigMap, "exec-config").unwrap()["data"].clone());
    env.change("exec", |spec| spec["config"]["operatorKeys"]["ecdsa"] = json!("ANOTHER-KEY"));
    env.rest();
    assert_eq!(env.server.get(Kind::ConfigMap, "exec-config").unwrap()["data"], before.1, "it shows nothing of it");
    let after = checksums(&env);
    assert!(after.len() == 1 && after != before.0, "{after:?}");
    assert_eq!(env.status("exec")["configHash"], after[0]);
}

#[test]
fn all_children_have_the_labels_and_are_owned() {
    let env = running(with(json!({"replicas": 2})));
    let uid = env.object("exec")["metadata"]["uid"].clone();
    for (kind, name) in [
        (Kind::ConfigMap, "exec-config"),
        (Kind::Secret, "exec-secrets"),
        (Kind::Deployment, "exec"),
        (Kind::DisruptionBudget, "exec"),
        (Kind::Service, "executor-exec"),
    ] {
        let metadata = env.server.get(kind, name).unwrap()["metadata"].clone();
        let labels = json!({"app": "hourglass-executor", "hourglass.eigenlayer.io/name": "exec",
            "app.kubernetes.io/managed-by": "orlop-operator"});
        assert_eq!(metadata["labels"], labels, "{kind:?}");
        let owner = json!([{"apiVersion": "hourglass.eigenlayer.io/v1alpha1", "kind": "HourglassExecutor", "name": "exec",
            "uid": uid, "controller": true, "blockOwnerDeletion": true}]);
        assert_eq!(metadata["ownerReferences"], owner, "{kind:?}");
    }
}

#[test]
fn the_end_waits_for_the_deployment_and_its_pods() {
    let mut env = running(spec());
    // As a server does it whom one asks to delete what belongs to it first.
    env.server.edit(Kind::Deployment, "exec", |live| live["metadata"]["finalizers"] = json!(["foregroundDeletion"]));
    env.server.request_deletion(Kind::Executor, "exec");
    env.wait(400);
    let going = env.server.get(Kind::Deployment, "exec").unwrap();
    assert!(going["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(env.place("exec"), "Terminating/Cleanup False/AsExpected");
    assert!(env.server.get(Kind::Service, "executor-exec").is_none());
    for (kind, name) in [(Kind::ConfigMap, "exec-config"), (Kind::Secret, "exec-secrets")] {
        assert!(env.server.get(kind, name).is_some(), "{kind:?}: pods read it until they end");
    }
    assert_eq!(env.writes().iter().filter(|write| write.starts_with("delete deployments")).count(), 1);
    env.server.remove(Kind::Deployment, "exec");
    env.rest();
    assert!(env.server.list(Kind::Executor).is_empty() && env.server.list(Kind::Secret).is_empty());
    assert!(env.server.list(Kind::Pod).iter().all(|pod| word(pod, "/metadata/name") != "exec"));
}

#[test]
fn counts_are_reported_as_none_where_there_is_nothing_to_count() {
    let mut env = super::env();
    env.refuse("create", Kind::Deployment, 1, crate::shell::fake::refused(403, "Forbidden"));
    env.submit("exec", with(json!({"replicas": 3})));
    env.rest();
    let reported =
        |env: &TestEnv| ["replicas", "readyReplicas", "updatedReplicas"].map(|name| env.status("exec")[name].clone());
    assert_eq!(
        (reported(&env), env.place("exec").as_str()),
        ([0, 0, 0].map(Value::from), "Failed/Failed True/Forbidden")
    );
    env.wait(301);
    assert_eq!(reported(&env), [3, 3, 3].map(Value::from));
}

#[test]
fn a_configuration_and_keys_that_somebody_deletes_or_edits_are_put_back_at_the_next_resync() {
    let mut env = running(spec());
    let data = |env: &TestEnv, kind, name: &str| env.server.get(kind, name).map(|object| object["data"].clone());
    for (kind, name) in [(Kind::ConfigMap, "exec-config"), (Kind::Secret, "exec-secrets")] {
        let before = data(&env, kind, name);
        env.server.edit(kind, name, |object| object["data"] = json!({"theirs": "eA=="}));
        env.wait(301);
        assert_ne!(data(&env, kind, name), Some(json!({"theirs": "eA=="})), "{kind:?} is edited");
        env.server.remove(kind, name);
        env.wait(301);
        assert_eq!(data(&env, kind, name), before, "{kind:?} is deleted");
    }
}

#[test]
fn an_account_that_somebody_deletes_is_made_again_once_the_deployment_misses_it() {
    let mut env = running(spec());
    env.server.remove(Kind::ServiceAccount, "hourglass-executor");
    let said = r#"pods "exec-1-" is forbidden: error looking up service account default/hourglass-executor: serviceaccount "hourglass-executor" not found"#;
    let failure = json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": said}]);
    env.server.edit(Kind::Deployment, "exec", |live| live["status"]["conditions"] = failure);
    env.settle();
    assert!(env.server.get(Kind::ServiceAccount, "hourglass-executor").is_some());
    let degraded = crate::value::item(&env.status("exec"), "/conditions", "type", "Degraded").unwrap().clone();
    assert_eq!(degraded["message"], format!("the Deployment cannot make its pods: {said}"));
}

#[test]
fn a_deployment_that_somebody_pauses_is_reported() {
    let mut env = running(spec());
    env.server.edit(Kind::Deployment, "exec", |live| live["spec"]["paused"] = json!(true));
    env.images.insert("executor:2".into(), "never");
    env.change("exec", |spec| spec["image"] = json!("executor:2"));
    env.rest();
    let progressing = crate::value::item(&env.status("exec"), "/conditions", "type", "Progressing").unwrap().clone();
    insta::assert_snapshot!(progressing["message"].as_str().unwrap(), @"Deployment `exec` is paused; resume it: kubectl rollout resume deployment exec");
}
