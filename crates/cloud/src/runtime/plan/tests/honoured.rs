//! Rows that are honoured.

use std::fs;
use std::time::Duration;

use orlop_core::error::Class;
use serde_json::json;

use super::{Bench, env, job, pod, read};
use crate::runtime::plan::env::Missing;
use crate::runtime::plan::volume::{HostKind, SubPath, VolumeKind};
use crate::runtime::plan::{JobTemplate, TemplatePolicy};
use crate::runtime::pod::HostNamespaces;
use crate::runtime::volume::VolumeRoot;

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn command_args_and_working_dir_are_expanded_with_the_environment() {
    let plan = Bench::new().main(json!({
        "image": "busybox:1", "imagePullPolicy": "Never", "workingDir": "/w",
        "command": ["run", "$(A)-$$(A)"], "args": ["$(B)", "$(NOBODY)"],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)2$(C)"}, {"name": "C", "value": "3"}],
    }));
    assert_eq!(plan.command, ["run", "1-$(A)"]);
    assert_eq!(plan.args, ["12$(C)", "$(NOBODY)"], "a value sees only what stands before it");
    assert_eq!((plan.image.as_deref(), plan.image_pull_policy.as_deref()), (Some("busybox:1"), Some("Never")));
    assert_eq!(plan.working_dir.as_deref(), Some("/w"));
}

#[test]
fn env_comes_from_every_source() {
    let bench = Bench::new().key("configs", "c", "k", "from config").key("secrets", "s", "k", "hidden");
    let plan = bench.main(json!({
        "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"cpu": "250m"}},
        "env": [
            {"name": "VALUE", "value": "v"}, {"name": "EMPTY"},
            {"name": "CONFIG", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "SPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {"name": "MILLI", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}},
            {"name": "MEM", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
        ],
    }));
    let value = |name| env(&plan, name).unwrap().value.as_str();
    let names = ["VALUE", "EMPTY", "CONFIG", "SECRET", "POD", "SPACE", "NODE", "CPU", "MILLI", "MEM"];
    let values = names.map(value);
    assert_eq!(values, ["v", "", "from config", "hidden", "flow-s-f-2", "team", "box", "2", "250", "1024"]);
    let secret: Vec<&str> = plan.env.iter().filter(|(_, text)| text.secret).map(|(name, _)| name.as_str()).collect();
    assert_eq!(secret, ["SECRET"]);
    assert!(!format!("{plan:?}").contains("hidden"));
}

#[test]
fn amounts_that_are_not_set_are_the_machines_for_limits_and_none_for_requests() {
    let reference = |resource| json!({"name": "X", "valueFrom": {"resourceFieldRef": {"resource": resource}}});
    let of = |resource| Bench::new().env(json!({"env": [reference(resource)]}))[0].1.clone();
    assert_eq!(
        (of("limits.cpu"), of("requests.cpu"), of("limits.memory")),
        ("4".into(), "0".into(), (8_u64 << 30).to_string())
    );
}

#[test]
fn labels_and_annotations_are_reported_one_by_one() {
    let mut job = job(json!({"env": [
        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['a.b/c']"}}},
        {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['none']"}}},
    ]}));
    job["spec"]["template"]["metadata"] = json!({"labels": {"app": "x"}, "annotations": {"a.b/c": "y"}});
    let plan = Bench::new().plan(&job).unwrap();
    let values: Vec<&str> = plan.main.env.iter().map(|(_, text)| text.value.as_str()).collect();
    assert_eq!(values, ["x", "y", ""]);
    assert_eq!(plan.labels["app"], "x");
}

#[test]
fn env_from_gives_all_keys_with_a_prefix_and_env_overrides_them() {
    let bench = Bench::new()
        .key("configs", "c", "A", "config")
        .key("configs", "c", "B", "config")
        .key("configs", "c", "..data", "no key")
        .key("secrets", "s", "A", "secret");
    let container = json!({
        "envFrom": [{"configMapRef": {"name": "c"}}, {"prefix": "P_", "secretRef": {"name": "s"}}, {"configMapRef": {"name": "none", "optional": true}}],
        "env": [{"name": "B", "value": "own $(A) $(P_A)"}],
    });
    let plan = bench.main(container);
    let found: Vec<(String, String)> = plan.env.iter().map(|(name, text)| (name.clone(), text.value.clone())).collect();
    assert_eq!(found, pairs(&[("A", "config"), ("B", "own config secret"), ("P_A", "secret")]));
    assert!(env(&plan, "B").unwrap().secret, "what holds a secret is one");
}

#[test]
fn config_maps_of_the_flow_stand_before_those_of_the_machine() {
    let bench = Bench::new().key("configs", "c", "k", "machine").key("flow", "c", "k", "flow");
    let reference = json!([{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]);
    assert_eq!(bench.env(json!({"env": reference})), pairs(&[("X", "flow")]));
}

#[test]
fn a_missing_key_is_unresolved_unless_optional_or_only_looked_at() {
    let mut bench = Bench::new().key("secrets", "s", "other", "x");
    let reference = |optional: bool| json!({"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": optional}}}]});
    let error = bench.plan(&job(reference(false))).unwrap_err();
    assert_eq!((error.class, error.reason), (Class::NotFound, Some("ParameterUnresolved")));
    insta::assert_snapshot!(error, @"spec.template.spec.containers[0].env[0]: Secret s has no text under key k; it is looked for in the directory given by --secrets-dir");
    assert_eq!(bench.env(reference(true)), []);
    let all = json!({"envFrom": [{"configMapRef": {"name": "c"}}]});
    insta::assert_snapshot!(bench.plan(&job(all.clone())).unwrap_err(), @"spec.template.spec.containers[0].envFrom[0].configMapRef: there is no ConfigMap c; it is looked for in a ConfigMap template of the flow or the directory given by --configs-dir");
    bench.missing = Missing::Skipped;
    assert_eq!((bench.env(reference(false)), bench.env(all)), (vec![], vec![]));
}

#[test]
fn names_of_secrets_never_leave_their_directory() {
    let bench = Bench::new().key("outside", "s", "k", "x");
    fs::create_dir_all(bench.root.path().join("secrets/s")).unwrap();
    for (name, key) in [("../outside/s", "k"), ("s", "../../outside/s/k"), ("..", "outside"), ("/etc", "hostname")] {
        let reference = json!([{"name": "X", "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}]);
        let error = bench.plan(&job(json!({"env": reference}))).unwrap_err();
        assert_eq!(error.reason, Some("ParameterUnresolved"), "{name} {key}");
    }
}

#[test]
fn a_key_beyond_one_mebibyte_is_refused() {
    let bench = Bench::new().key("configs", "c", "k", &"x".repeat(1024 * 1024 + 1));
    let reference = json!([{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]);
    assert_eq!(bench.plan(&job(json!({"env": reference}))).unwrap_err().class, Class::Invalid);
}

#[test]
fn the_completion_index_is_told_to_all_containers() {
    let bench = Bench { index: Some(7), ..Bench::new() };
    let mut job = job(json!({"args": ["$(JOB_COMPLETION_INDEX)"]}));
    job["spec"]["template"]["spec"]["initContainers"] = json!([{"name": "i"}]);
    let plan = bench.plan(&job).unwrap();
    assert_eq!(plan.main.args, ["7"]);
    assert_eq!(env(&plan.init[0], "JOB_COMPLETION_INDEX").unwrap().value, "7");
    assert_eq!(plan.labels["batch.kubernetes.io/job-completion-index"], "7");
    let own = json!({"env": [{"name": "JOB_COMPLETION_INDEX", "value": "own"}]});
    assert_eq!(bench.env(own), pairs(&[("JOB_COMPLETION_INDEX", "own")]));
    assert_eq!(Bench::new().env(json!({})), [], "only of an indexed Job");
}

#[test]
fn mounts_are_read_only_where_volume_or_mount_say_so_and_in_order() {
    let mut bench = Bench::new();
    let root = bench.root.path().join("v");
    fs::create_dir_all(&root).unwrap();
    for (name, read_only) in [("a", false), ("b", true)] {
        bench.volumes.insert(name.into(), VolumeRoot { path: root.clone(), read_only });
    }
    let mounts = json!([
        {"name": "a", "mountPath": "/x/y//z/", "subPath": "deep/er"},
        {"name": "a", "mountPath": "/x", "readOnly": true},
        {"name": "b", "mountPath": "/b"},
        {"name": "a", "mountPath": "/e", "subPathExpr": "of-$(WHO)"},
    ]);
    let env = json!([{"name": "WHO", "value": "me"}]);
    let mut job = job(json!({"env": env, "volumeMounts": mounts}));
    job["spec"]["template"]["spec"]["volumes"] = json!([{"name": "a"}, {"name": "b"}]);
    let found = bench.plan(&job).unwrap().main.mounts;
    let short: Vec<_> = found.iter().map(|mount| (mount.target.as_str(), mount.read_only)).collect();
    assert_eq!(short, [("/b", true), ("/e", false), ("/x", true), ("/x/y/z", false)]);
    let sources: Vec<_> =
        found.iter().map(|mount| mount.source.strip_prefix(&root).unwrap().to_str().unwrap()).collect();
    assert_eq!(sources, ["", "of-me", "", "deep/er"]);
    assert!(root.join("deep/er").is_dir() && root.join("of-me").is_dir());
}

#[test]
fn resources_give_limits_requests_and_gpus() {
    let plan = Bench::new().main(json!({"resources": {
        "limits": {"cpu": 2, "memory": "256Mi", "nvidia.com/gpu": "1"}, "requests": {"memory": "64Mi"},
    }}));
    assert_eq!((plan.cpu_limit_milli, plan.memory_limit_bytes), (Some(2_000), Some(256 << 20)));
    assert_eq!((plan.cpu_request_milli, plan.memory_request_bytes), (Some(2_000), Some(64 << 20)), "absent: the limit");
    assert_eq!(plan.gpus, [1], "the first it was given");
    let none = Bench::new().main(json!({}));
    assert_eq!((none.cpu_limit_milli, none.memory_request_bytes, none.gpus), (None, None, vec![]));
}

#[test]
fn a_pod_asks_for_the_most_of_its_containers() {
    let mut job = job(json!({"resources": {"requests": {"cpu": "1", "memory": "10"}}}));
    job["spec"]["template"]["spec"]["initContainers"] =
        json!([{"name": "i", "resources": {"requests": {"cpu": "500m", "memory": "20", "nvidia.com/gpu": 2}}}]);
    let asked = read(&job).unwrap().pod.request();
    assert_eq!((asked.cpu_milli, asked.memory_bytes, asked.gpus), (1_000, 20, 2));
}

#[test]
fn users_and_groups_are_those_of_the_container_then_of_the_pod() {
    let mut job = pod(
        json!({"securityContext": {"runAsUser": 10, "runAsGroup": 20, "fsGroup": 30, "supplementalGroups": [40, 50], "seccompProfile": {"type": "RuntimeDefault"}}}),
    );
    job["spec"]["template"]["spec"]["containers"][0]["securityContext"] = json!({"runAsUser": 11, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "Localhost", "localhostProfile": "p.json"}});
    job["spec"]["template"]["spec"]["initContainers"] = json!([{"name": "i"}]);
    let plan = Bench::new().plan(&job).unwrap();
    assert_eq!((plan.main.user, plan.main.group), (Some(11), Some(20)));
    assert_eq!((plan.init[0].user, plan.init[0].seccomp.as_deref()), (Some(10), Some("RuntimeDefault")));
    assert_eq!(plan.further_groups, [30, 40, 50]);
    assert_eq!(plan.main.seccomp.as_deref(), Some("p.json"));
    assert!(plan.main.read_only_root && plan.main.drop_capabilities == ["ALL"]);
}

#[test]
fn pod_fields_reach_the_plan() {
    let plan = Bench::new()
        .plan(&pod(json!({
            "initContainers": [{"name": "one"}, {"name": "two"}], "restartPolicy": "OnFailure",
            "terminationGracePeriodSeconds": 5, "activeDeadlineSeconds": 60, "hostname": "h",
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a", "b"]}],
        })))
        .unwrap();
    let init: Vec<&str> = plan.init.iter().map(|container| container.name.as_str()).collect();
    assert_eq!(init, ["one", "two"]);
    assert!(plan.restart_on_failure && plan.restart_limit == 4);
    assert_eq!((plan.grace, plan.active_deadline), (Duration::from_secs(5), Some(Duration::from_secs(60))));
    assert_eq!(plan.hostname.as_deref(), Some("h"));
    assert_eq!(plan.host_aliases, [("10.0.0.1".to_owned(), vec!["a".to_owned(), "b".to_owned()])]);
    assert_eq!((plan.name.as_str(), plan.outputs), ("flow-s-f-2", vec!["/o".to_owned()]));
    let bare = Bench::new().plan(&pod(json!({}))).unwrap();
    assert_eq!((bare.grace, bare.active_deadline, bare.restart_on_failure), (Duration::from_secs(30), None, false));
}

#[test]
fn last_words_have_a_place_and_a_policy() {
    let own =
        Bench::new().main(json!({"terminationMessagePath": "/m", "terminationMessagePolicy": "FallbackToLogsOnError"}));
    assert_eq!((own.termination_message_path.as_str(), own.message_falls_back_to_logs), ("/m", true));
    let bare = Bench::new().main(json!({"terminationMessagePolicy": "File"}));
    assert_eq!(
        (bare.termination_message_path.as_str(), bare.message_falls_back_to_logs),
        ("/dev/termination-log", false)
    );
}

#[test]
fn allowed_privileges_and_host_paths_are_honoured() {
    let policy = TemplatePolicy {
        allow_privileged: true,
        allow_host_path: vec!["/srv/data".into()],
        backoff_default: 0,
        folder: None,
    };
    let mut job = pod(
        json!({"hostNetwork": true, "hostIPC": true, "volumes": [{"name": "h", "hostPath": {"path": "/srv/data/./x/", "type": "Directory"}}]}),
    );
    job["spec"]["template"]["spec"]["containers"][0]["securityContext"] =
        json!({"privileged": true, "capabilities": {"add": ["NET_ADMIN"]}});
    let template = JobTemplate::read(&job, &policy).unwrap();
    assert_eq!(template.pod.host_namespaces, HostNamespaces { network: true, pid: false, ipc: true });
    assert!(template.pod.main.security.privileged && template.pod.main.security.add == ["NET_ADMIN"]);
    let kind = VolumeKind::Host { path: "/srv/data/x".into(), kind: HostKind::Directory };
    assert_eq!(template.pod.volumes[0].kind, kind);
}

#[test]
fn sub_paths_are_read_as_they_are() {
    let mounts =
        json!([{"name": "v", "mountPath": "/a", "subPath": "x/y"}, {"name": "v", "mountPath": "/b", "subPath": ""}]);
    let mut job = job(json!({"volumeMounts": mounts}));
    job["spec"]["template"]["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {"medium": "Memory"}}]);
    let template = read(&job).unwrap();
    let paths: Vec<_> = template.pod.main.mounts.iter().map(|mount| mount.sub_path.clone()).collect();
    assert_eq!(paths, [SubPath::Fixed("x/y".into()), SubPath::Whole]);
    assert_eq!(template.pod.volumes[0].kind, VolumeKind::Empty { memory: true });
}

#[test]
fn image_pull_secrets_are_looked_up_and_missed_by_nobody_but_those_who_pull() {
    let secrets = json!({"imagePullSecrets": [{"name": "new"}, {"name": "old"}, {"name": "none"}, {"name": "bare"}]});
    let bench = Bench::new().key("secrets", "new", ".dockerconfigjson", "{}").key("secrets", "old", ".dockercfg", "{}");
    let plan = bench.key("secrets", "bare", "other", "x").plan(&pod(secrets)).unwrap();
    let [new, old, none, bare] = &plan.pull_secrets[..] else { panic!("{:?}", plan.pull_secrets) };
    assert_eq!((new.name.as_str(), &new.config), ("new", &Ok("{}".to_owned())));
    assert_eq!(old.config, Ok("{\"auths\": {}}".to_owned()));
    insta::assert_snapshot!(none.config.clone().unwrap_err(), @"spec.template.spec.imagePullSecrets[2]: there is no Secret none; it is looked for in the directory given by --secrets-dir");
    insta::assert_snapshot!(bare.config.clone().unwrap_err(), @"spec.template.spec.imagePullSecrets[3]: Secret bare has no text under key .dockerconfigjson; it is looked for in the directory given by --secrets-dir");
    assert!(Bench::new().plan(&pod(json!({"imagePullSecrets": [{}]}))).is_err());
}

#[test]
fn fields_that_only_warn_are_passed_over() {
    let fields = json!({
        "nodeSelector": {"a": "b"}, "tolerations": [{}], "affinity": {}, "priorityClassName": "p",
        "serviceAccountName": "sa", "automountServiceAccountToken": true, "dnsPolicy": "None", "dnsConfig": {},
        "topologySpreadConstraints": [{}], "runtimeClassName": "r", "schedulerName": "s", "overhead": {},
        "fromTheFuture": {"a": [1]}, "schedulingGates": [], "hostPID": false,
    });
    let mut job = pod(fields);
    let probes = json!({"ports": [{"containerPort": 80}], "livenessProbe": {}, "lifecycle": {}, "resources": {"limits": {"example.com/fpga": 1}}});
    for (name, value) in probes.as_object().unwrap() {
        job["spec"]["template"]["spec"]["containers"][0][name] = value.clone();
    }
    assert!(Bench::new().plan(&job).is_ok());
}
