//! Performers and executors on a real control plane, whose own scheduler places their pods on nodes that are labelled and sized
//! as special machines: under the service account that ships, with its rights and no others.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::super::cluster::{Cluster, until};
use super::super::kubelet::Kubelet;
use super::super::program::Program;
use super::super::real::{HOME, deploy, writes};
use super::endpoints::Endpoints;
use super::fixture::{example, node, quick};
use super::machines;

const PERFORMER: &str = "performer";
const EXECUTOR: &str = "hourglassexecutor";
/// What is planted as a key, and to be found nowhere but in its Secret and in the object that states it.
const PLANTED: &str = "Planted-Key-0451";

/// Where everything happens.
struct Plane {
    cluster: Cluster,
    kubelet: Kubelet,
    dir: tempfile::TempDir,
    account: PathBuf,
    namespace: String,
}

impl Plane {
    fn set_up(test: &str) -> Option<Self> {
        let cluster = Cluster::find(test).filter(|cluster| cluster.has_scheduler(test))?;
        let dir = tempfile::tempdir().unwrap();
        cluster.kubectl(&["apply", "-k", &deploy("kustomize/base")]);
        for plural in ["performers", "hourglassexecutors"] {
            let definition = format!("crd/{plural}.hourglass.eigenlayer.io");
            cluster.kubectl(&["wait", "--for=condition=Established", &definition, "--timeout=30s"]);
        }
        // One of a run before may still be on its way out.
        let namespace = format!("glass-{}", std::process::id());
        cluster.create("", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
        let account = cluster.account(dir.path(), HOME, "orlop-operator");
        let kubelet = Kubelet::with_nodes(cluster.kubeconfig.clone(), vec![machines::plain()]);
        Some(Self { cluster, kubelet, dir, account, namespace })
    }

    /// The pods with a label.
    fn pods(&self, label: &str) -> Vec<String> {
        self.kubectl(&["get", "pods", "-l", label, "-o", "name"]).lines().map(str::to_owned).collect()
    }

    fn start(&self, name: &str) -> Program {
        let arguments = ["--leader-elect=false", "--controllers=performer,executor", "--resync=10s"];
        let operator = Program::start(self.dir.path(), name, &self.account, &arguments);
        operator.comes_to_lead();
        operator
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        let mut all = vec!["-n", self.namespace.as_str()];
        all.extend(arguments);
        self.cluster.kubectl(&all)
    }

    fn submit(&self, object: &Value) {
        self.cluster.create(&self.namespace, object);
    }

    fn patch(&self, kind: &str, name: &str, patch: &Value) {
        self.kubectl(&["patch", kind, name, "--type=merge", "-p", &patch.to_string()]);
    }

    fn get(&self, kind: &str, name: &str) -> Value {
        self.cluster.get(&self.namespace, kind, name).unwrap_or_default()
    }

    fn names(&self, kinds: &str) -> Vec<String> {
        self.kubectl(&["get", kinds, "-o", "name"]).lines().map(str::to_owned).collect()
    }

    /// The only pod of a performer.
    fn pod(&self, performer: &str) -> Value {
        let label = format!("hourglass.eigenlayer.io/performer={performer}");
        let list = self.kubectl(&["get", "pods", "-l", &label, "-o", "json"]);
        let mut pods = serde_json::from_str::<Value>(&list).unwrap()["items"].as_array().cloned().unwrap();
        assert_eq!(pods.len(), 1, "one pod of {performer}");
        pods.remove(0)
    }

    fn condition(&self, kind: &str, name: &str, condition: &str) -> String {
        let object = self.get(kind, name);
        let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = all.iter().find(|known| known["type"] == condition).cloned().unwrap_or_default();
        format!("{}/{}", found["status"].as_str().unwrap_or("-"), found["reason"].as_str().unwrap_or("-"))
    }

    fn comes_to(&self, kind: &str, name: &str, phase: &str) -> Value {
        until(&format!("{kind} {name} in {phase}"), || {
            let object = self.get(kind, name);
            let status = &object["status"];
            let is_told = status["observedGeneration"] == object["metadata"]["generation"];
            (status["phase"] == phase && is_told).then(|| status.clone())
        })
    }
}

impl Drop for Plane {
    /// What is left would be there for other operators on the same plane.
    fn drop(&mut self) {
        drop(self.cluster.run(&["delete", "namespace", &self.namespace, "--wait=false"]));
    }
}

/// One control plane, one test: its parts come one after another, since nodes and definitions are the whole cluster's.
#[test]
fn performers_and_executors_live_on_a_real_control_plane() {
    let Some(plane) = Plane::set_up("performers_and_executors_live_on_a_real_control_plane") else { return };
    let mut operator = plane.start("one");
    without_a_node_the_pod_waits(&plane);
    every_example_lands_on_its_node(&plane);
    nothing_is_written_while_nothing_happens(&plane, &operator);
    upgrades_leave_no_gap(&plane);
    executors_are_scaled_and_rolled(&plane, &operator);
    restarts_and_changed_secrets_start_other_pods(&plane);
    operator = a_killed_operator_is_replaced(&plane, operator);
    another_pod_follows_a_lost_node(&plane);
    all_is_deleted_but_what_is_foreign(&plane);
    let (_, metrics) = operator.get("/metrics");
    let denied: Vec<&str> = metrics.lines().filter(|line| line.contains("code=\"403\"")).collect();
    assert!(denied.is_empty(), "the rights that ship are enough: {denied:?}");
    operator.signal(Signal::SIGTERM);
    assert_eq!(operator.end(), Some(0));
}

fn without_a_node_the_pod_waits(plane: &Plane) {
    let began = Instant::now();
    plane.submit(&example("performer-gpu"));
    until("the condition", || {
        let reported = plane.condition(PERFORMER, "gpu", "HardwareAvailable");
        (reported == "False/NoMatchingLabels").then_some(())
    });
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    until("the report", || (plane.condition(PERFORMER, "gpu", "Degraded") == "True/HardwareUnavailable").then_some(()));
    let pod = plane.pod("gpu");
    assert_eq!((&pod["status"]["phase"], &pod["spec"]["nodeName"]), (&json!("Pending"), &Value::Null));
    assert_eq!(
        pod["status"]["conditions"][0]["reason"], "Unschedulable",
        "the scheduler has seen it: {}",
        pod["status"]
    );
    plane.kubelet.add(vec![machines::a100()]);
    let status = plane.comes_to(PERFORMER, "gpu", "Running");
    assert_eq!(status["nodeName"], "a100");
    assert_eq!(plane.pod("gpu")["metadata"]["uid"], pod["metadata"]["uid"], "the same pod");
    until("the node in the condition", || {
        (plane.condition(PERFORMER, "gpu", "HardwareAvailable") == "True/NodesMatch").then_some(())
    });
}

fn every_example_lands_on_its_node(plane: &Plane) {
    plane.kubelet.add(machines::special());
    machines::classes().iter().for_each(|class| plane.cluster.apply("", class));
    let hosts = [
        ("mig", "mig"),
        ("amd", "amd"),
        ("sgx", "sgx"),
        ("tdx", "tdx hidden"),
        ("tee-gpu", "hidden"),
        ("dra", "plain"),
        ("minimal", "any"),
        ("basic", "any"),
    ];
    for (name, _) in hosts {
        plane.submit(&example(&format!("performer-{name}")));
    }
    for (name, hosts) in hosts {
        let status = plane.comes_to(PERFORMER, name, "Running");
        let host = status["nodeName"].as_str().unwrap();
        assert!(hosts == "any" || hosts.split(' ').any(|known| known == host), "{name} is on {host}, not on {hosts}");
        let condition = if hosts == "any" { "True/NotRequired" } else { "True/NodesMatch" };
        let reported = || plane.condition(PERFORMER, name, "HardwareAvailable");
        until(&format!("{condition} of {name}"), || (reported() == condition).then_some(()));
    }
    let claims = plane.kubectl(&["get", "resourceclaims", "-o", "json"]);
    let claims: Value = serde_json::from_str(&claims).unwrap();
    let result = &claims["items"][0]["status"]["allocation"]["devices"]["results"][0];
    assert_eq!((&result["device"], &result["driver"]), (&json!("gpu-0"), &json!("gpu.nvidia.com")), "{claims}");
}

fn nothing_is_written_while_nothing_happens(plane: &Plane, operator: &Program) {
    let versions = || {
        plane.kubectl(&[
            "get",
            "performers,services,pods",
            "-o",
            "jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{\"\\n\"}{end}",
        ])
    };
    // The last events are told after the last status.
    let quiet = until("a quiet second", || {
        let before = (versions(), writes(operator));
        std::thread::sleep(Duration::from_secs(1));
        (before == (versions(), writes(operator))).then_some(before)
    });
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!((versions(), writes(operator)), quiet);
}

fn upgrades_leave_no_gap(plane: &Plane) {
    plane.submit(&quick("avs"));
    plane.comes_to(PERFORMER, "avs", "Running");
    let endpoints = Endpoints::watch(&plane.cluster.kubeconfig, &plane.namespace, "performer-avs");
    plane.patch(PERFORMER, "avs", &json!({"spec": {"image": "registry.example/performer:2.0.0"}}));
    let status = plane.comes_to(PERFORMER, "avs", "Running");
    assert_eq!(
        (&status["image"], &status["active"]["incarnation"]),
        (&json!("registry.example/performer:2.0.0"), &json!(2))
    );
    until("the end of the old pod", || {
        plane.names("pods").iter().filter(|name| name.contains("performer-avs")).count().eq(&1).then_some(())
    });
    // An image that cannot be had: back to what serves, in time.
    let spec = json!({"image": "registry.example/missing:3", "upgrade": {"progressDeadlineSeconds": 30}});
    plane.patch(PERFORMER, "avs", &json!({ "spec": spec }));
    until("the rollback", || (plane.condition(PERFORMER, "avs", "Degraded") == "True/UpgradeFailed").then_some(()));
    let status = plane.comes_to(PERFORMER, "avs", "Running");
    assert_eq!((&status["image"], &status["ready"]), (&json!("registry.example/performer:2.0.0"), &json!(true)));
    let (looks, gaps) = endpoints.end();
    assert!(looks > 100 && gaps == 0, "{gaps} of {looks} looks found nobody to serve");
    println!(
        "{looks} looks at the Service of a performer during an upgrade and a rollback, {gaps} without a ready endpoint"
    );
}

/// An executor whose key is in its spec.
fn executor() -> Value {
    let mut executor = example("executor-basic");
    let config = executor["spec"]["config"].as_object_mut().unwrap();
    config.remove("operatorKeysSecretRef");
    config.insert("operatorKeys".to_owned(), json!({"ecdsa": PLANTED}));
    executor
}

fn executors_are_scaled_and_rolled(plane: &Plane, operator: &Program) {
    let mut wide = example("executor-ha");
    wide["spec"]["config"]["kubernetes"]["namespace"] = json!(plane.namespace);
    plane.submit(&executor());
    plane.submit(&wide);
    plane.comes_to(EXECUTOR, "basic", "Running");
    assert_eq!(plane.comes_to(EXECUTOR, "multi-chain", "Running")["readyReplicas"], 3);
    // The server takes it, and it names what is there; nobody here measures pods, so it changes nothing.
    let autoscaler = example("executor-autoscaler");
    plane.submit(&autoscaler);
    let target = &plane.get("horizontalpodautoscaler", "multi-chain")["spec"]["scaleTargetRef"];
    assert_eq!(target, &autoscaler["spec"]["scaleTargetRef"]);
    plane.kubectl(&["delete", "horizontalpodautoscaler", "multi-chain"]);
    let pods =
        || -> Vec<String> { plane.names("pods").into_iter().filter(|name| name.starts_with("pod/basic-")).collect() };
    let before = pods();
    plane.kubectl(&["scale", "hourglassexecutor/basic", "--replicas=3"]);
    until("three replicas", || (plane.comes_to(EXECUTOR, "basic", "Running")["readyReplicas"] == 3).then_some(()));
    assert!(before.iter().all(|name| pods().contains(name)), "those that were there stay");
    plane.patch(EXECUTOR, "basic", &json!({"spec": {"config": {"logLevel": "debug"}}}));
    until("other pods", || before.iter().all(|name| !pods().contains(name)).then_some(()));
    plane.comes_to(EXECUTOR, "basic", "Running");
    let secret = plane.kubectl(&["get", "secret", "basic-secrets", "-o", "json"]);
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, PLANTED);
    let stated: Value = serde_json::from_str(&secret).unwrap();
    let stated: Vec<&Value> = stated["data"].as_object().unwrap().values().collect();
    assert!(!stated.is_empty(), "the Secret holds something");
    let all = plane.kubectl(&["get", "configmaps,events,pods,deployments,replicasets,services", "-o", "yaml"]);
    let status = plane.get(EXECUTOR, "basic")["status"].to_string();
    for (place, text) in [("an object", all), ("the status", status), ("the log", operator.log())] {
        assert!(!text.contains(PLANTED) && !text.contains(&encoded), "the key is in {place}: {text}");
    }
}

fn restarts_and_changed_secrets_start_other_pods(plane: &Plane) {
    let secret = |name: &str, key: &str, value: &str| {
        let object =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {key: value}});
        plane.cluster.apply(&plane.namespace, &object);
    };
    secret("rolled-token", "token", "one");
    secret("rolled-keys", "ecdsa", "one");
    let mut performer = quick("rolled");
    let token = json!({"secretKeyRef": {"name": "rolled-token", "key": "token"}});
    performer["spec"]["config"] = json!({"environmentFrom": [{"name": "TOKEN", "valueFrom": token}]});
    let mut executor = example("executor-basic");
    executor["metadata"]["name"] = json!("rolled");
    executor["spec"]["config"]["operatorKeysSecretRef"] = json!({"name": "rolled-keys"});
    plane.submit(&performer);
    plane.submit(&executor);
    let mut settled = Vec::new();
    for (kind, label, name, key) in [
        (PERFORMER, "hourglass.eigenlayer.io/performer=rolled", "rolled-token", "token"),
        (EXECUTOR, "app=hourglass-executor,hourglass.eigenlayer.io/name=rolled", "rolled-keys", "ecdsa"),
    ] {
        let others = |before: &[String]| {
            until(&format!("other pods of {kind}"), || {
                let now = plane.pods(label);
                (now.len() == 1 && !before.contains(&now[0])).then_some(now)
            })
        };
        plane.comes_to(kind, "rolled", "Running");
        until("the version of its Secret", || {
            let references = plane.get(kind, "rolled")["status"]["references"].clone();
            (references[0]["name"] == name && references[0]["resourceVersion"].is_string()).then_some(())
        });
        let first = until("its pod", || Some(plane.pods(label)).filter(|pods| pods.len() == 1));
        plane.kubectl(&["annotate", kind, "rolled", "hourglass.eigenlayer.io/restarted-at=2026-01-01T00:00:00Z"]);
        let restarted = others(&first);
        let annotation = "jsonpath={.metadata.annotations.hourglass\\.eigenlayer\\.io/restarted-at}";
        assert_eq!(plane.kubectl(&["get", &restarted[0], "-o", annotation]), "2026-01-01T00:00:00Z");
        plane.comes_to(kind, "rolled", "Running");
        secret(name, key, "two");
        let changed = others(&restarted);
        plane.comes_to(kind, "rolled", "Running");
        assert_eq!(plane.get(kind, "rolled")["status"]["referenceGeneration"], 1);
        settled.push((label, changed));
    }
    // Nothing else changes: two lists of everything later they are the same.
    std::thread::sleep(Duration::from_secs(25));
    for (label, pods) in settled {
        assert_eq!(plane.pods(label), pods);
    }
    // They belong to nobody who would take them along.
    plane.kubectl(&["delete", "secret", "rolled-token", "rolled-keys"]);
}

fn a_killed_operator_is_replaced(plane: &Plane, mut operator: Program) -> Program {
    for number in 0..4 {
        let image = format!("registry.example/performer:slow-{number}");
        plane.patch(PERFORMER, "avs", &json!({"spec": {"image": image, "upgrade": {"progressDeadlineSeconds": 300}}}));
        until("the middle of an upgrade", || {
            (plane.get(PERFORMER, "avs")["status"]["phase"] == "Upgrading").then_some(())
        });
        operator.kill();
        operator = plane.start(&format!("killed-{number}"));
        let status = until("the image", || {
            let status = plane.comes_to(PERFORMER, "avs", "Running");
            (status["image"] == image.as_str()).then_some(status)
        });
        assert_eq!(status["ready"], true);
        until("one pod", || {
            plane
                .names("pods")
                .iter()
                .filter(|name| name.contains("performer-avs") || name.contains("performer-avs-"))
                .count()
                .eq(&1)
                .then_some(())
        });
    }
    operator
}

fn another_pod_follows_a_lost_node(plane: &Plane) {
    plane.kubelet.add(vec![
        node("spare", json!({"pool": "spare"}), json!({})),
        node("other", json!({"pool": "spare"}), json!({})),
    ]);
    let mut performer = quick("moves");
    performer["spec"]["scheduling"] = json!({"nodeSelector": {"pool": "spare"}});
    plane.submit(&performer);
    let first = plane.comes_to(PERFORMER, "moves", "Running")["nodeName"].as_str().unwrap().to_owned();
    plane.kubelet.lose(&first);
    plane.cluster.kubectl(&["delete", "node", &first]);
    let status = until("a pod elsewhere", || {
        let status = plane.get(PERFORMER, "moves")["status"].clone();
        (status["phase"] == "Running" && status["nodeName"] != first.as_str()).then_some(status)
    });
    assert_eq!((&status["active"]["incarnation"], &status["ready"]), (&json!(2), &json!(true)), "{status}");
}

fn all_is_deleted_but_what_is_foreign(plane: &Plane) {
    let labels = json!({"app": "hourglass-performer", "hourglass.eigenlayer.io/performer": "avs"});
    let foreign = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "theirs", "labels": labels},
        "spec": {"ports": [{"port": 80}], "selector": {"app": "theirs"}}});
    plane.submit(&foreign);
    let uid = plane.get("service", "theirs")["metadata"]["uid"].clone();
    plane.kubectl(&["delete", "performers,hourglassexecutors", "--all", "--timeout=80s"]);
    let mine = "pods,services,deployments,replicasets,secrets,poddisruptionbudgets,controllerrevisions,resourceclaims,resourceclaimtemplates";
    until("the end of what belonged to them", || (plane.names(mine) == ["service/theirs"]).then_some(()));
    assert_eq!(plane.get("service", "theirs")["metadata"]["uid"], uid);
    let maps = plane.names("configmaps");
    assert!(!maps.iter().any(|name| name.ends_with("-config")), "{maps:?}");
}
