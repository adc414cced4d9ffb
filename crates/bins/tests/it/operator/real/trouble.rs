//! What befalls flows in a real cluster: objects that somebody deletes, edits or owns already, nodes and pods that go, quotas,
//! a webhook that nobody answers for, an API server that is ended. Each has the outcome of the flow contract.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::super::admitted::configurations;
use super::super::cluster::{Cluster, until};
use super::super::https::issue;
use super::super::kubelet::Kubelet;
use super::super::program::Program;
use super::super::{flow, step};
use super::jobs::jobs_end_as_those_of_the_double_do;
use super::{HOME, chain, install, jobs, on_node};

/// The label of nodes that may be lost.
const FRAGILE: &str = "orlop-test/fragile";

/// A cluster with nodes and an operator, which several troubles share: most of their time is waiting.
pub(super) struct Fixture {
    pub(super) cluster: Cluster,
    kubelet: Kubelet,
    operator: Program,
}

impl Fixture {
    pub(super) fn namespace(&self, name: &str) -> String {
        let name = format!("trouble-{name}-{}", std::process::id());
        self.cluster.create("", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        name
    }

    fn status(&self, namespace: &str, name: &str) -> Value {
        self.cluster.get(namespace, "jobflow", name).unwrap_or_default()["status"].clone()
    }

    /// The status of a flow in this phase.
    fn comes(&self, namespace: &str, name: &str, phase: &str) -> Value {
        until(&format!("{phase} of {namespace}/{name}"), || {
            let status = self.status(namespace, name);
            let over = matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"));
            assert!(!over || status["phase"] == phase, "{namespace}/{name}: {status}");
            (status["phase"] == phase).then_some(status)
        })
    }

    fn list(&self, namespace: &str, kind: &str) -> Vec<Value> {
        let text = self.cluster.kubectl(&["-n", namespace, "get", kind, "-o", "json"]);
        let list: Value = serde_json::from_str(&text).unwrap();
        list["items"].as_array().cloned().unwrap()
    }

    /// A pod that runs.
    fn running_pod(&self, namespace: &str) -> Value {
        until("a pod that runs", || {
            self.list(namespace, "pods").into_iter().find(|pod| pod["status"]["phase"] == "Running")
        })
    }

    fn reported(&self, namespace: &str, reason: &str) -> usize {
        let events = self.list(namespace, "events.events.k8s.io");
        events.iter().filter(|event| event["reason"] == reason).count()
    }

    fn patch(&self, namespace: &str, name: &str, patch: &Value) {
        let patch = patch.to_string();
        self.cluster.kubectl(&["-n", namespace, "patch", "jobflow", name, "--type=merge", "-p", &patch]);
    }
}

fn slow(name: &str, after: &[&str], seconds: &str) -> Value {
    on_node(name, after, &json!({"fake/run-seconds": seconds}))
}

fn a_job_that_somebody_deletes_is_missing_and_its_step_is_tried_again_where_it_may(fixture: &Fixture) {
    let namespace = fixture.namespace("deleted");
    for (name, limit) in [("never", 0), ("again", 1)] {
        let mut a = slow("a", &[], "10");
        a["retryPolicy"] = json!({"limit": limit, "backoff": {"type": "Fixed", "duration": "1s"}});
        fixture.cluster.create(&namespace, &flow(name, &json!({"steps": [a]})));
    }
    let all = until("both Jobs", || Some(jobs(&fixture.cluster, &namespace)).filter(|all| all.len() == 2));
    for job in &all {
        fixture.cluster.kubectl(&["-n", &namespace, "delete", job, "--wait=false"]);
    }
    let status = fixture.comes(&namespace, "never", "Failed");
    assert_eq!(status["steps"][0]["reason"], "JobMissing", "{status}");
    let status = fixture.comes(&namespace, "again", "Succeeded");
    assert_eq!((&status["steps"][0]["retryCount"], &status["retries"]), (&json!(1), &json!(1)), "{status}");
    let left = jobs(&fixture.cluster, &namespace);
    assert!(left.len() == 1 && left.is_disjoint(&all), "another Job: {left:?} after {all:?}");
}

fn a_foreign_job_of_our_name_is_left_alone_and_fails_the_step(fixture: &Fixture) {
    let namespace = fixture.namespace("foreign");
    fixture.cluster.create(&namespace, &flow("etl", &json!({"suspend": true, "steps": [slow("a", &[], "1")]})));
    let uid = fixture.cluster.get(&namespace, "jobflow", "etl").unwrap()["metadata"]["uid"].clone();
    let name = format!("etl-a-{}", &uid.as_str().unwrap()[..8]);
    let mut foreign = slow("x", &[], "600")["template"].clone();
    foreign["metadata"] = json!({"name": name, "labels": {"whose": "theirs"}});
    fixture.cluster.create(&namespace, &foreign);
    fixture.patch(&namespace, "etl", &json!({"spec": {"suspend": false}}));
    let status = fixture.comes(&namespace, "etl", "Failed");
    assert_eq!(status["steps"][0]["reason"], "NameConflict", "{status}");
    until("a word on it", || (fixture.reported(&namespace, "NameConflict") == 1).then_some(()));
    let left = fixture.list(&namespace, "jobs");
    assert_eq!((left.len(), &left[0]["metadata"]["labels"]["whose"]), (1, &json!("theirs")));
    let job = &left[0];
    assert!(job["metadata"]["deletionTimestamp"].is_null() && job["metadata"]["ownerReferences"].is_null(), "{job}");
}

/// A step whose Job makes another pod where one goes.
fn hardy(mut step: Value) -> Value {
    step["template"]["spec"]["backoffLimit"] = json!(3);
    json!({"steps": [step]})
}

/// The flow ended well, with another pod of the same Job.
fn one_job_another_pod(fixture: &Fixture, namespace: &str) {
    let status = fixture.comes(namespace, "etl", "Succeeded");
    assert_eq!((&status["steps"][0]["attempt"], &status["retries"]), (&json!(1), &Value::Null), "{status}");
    let job = fixture.list(namespace, "jobs").remove(0);
    assert_eq!((&job["status"]["failed"], &job["status"]["succeeded"]), (&json!(1), &json!(1)), "{job}");
}

fn a_pod_that_is_evicted_is_the_jobs_own_matter(fixture: &Fixture) {
    let namespace = fixture.namespace("evicted");
    fixture.cluster.create(&namespace, &flow("etl", &hardy(slow("a", &[], "8"))));
    let pod = fixture.running_pod(&namespace)["metadata"]["name"].as_str().unwrap().to_owned();
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}});
    fixture.cluster.post(&format!("/api/v1/namespaces/{namespace}/pods/{pod}/eviction"), &eviction);
    one_job_another_pod(fixture, &namespace);
}

fn a_node_that_is_lost_is_the_jobs_own_matter(fixture: &Fixture) {
    if !fixture.cluster.has_scheduler("a_node_that_is_lost_is_the_jobs_own_matter") {
        return;
    }
    let node = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {FRAGILE: "yes"}},
            "status": {"allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110"}}})
    };
    fixture.kubelet.add(vec![node("orlop-fragile-1"), node("orlop-fragile-2")]);
    let namespace = fixture.namespace("lost");
    let mut a = step("a", &[], &json!({"fake/run-seconds": "5"}));
    a["template"]["spec"]["template"]["spec"]["nodeSelector"] = json!({FRAGILE: "yes"});
    fixture.cluster.create(&namespace, &flow("etl", &hardy(a)));
    let pod = fixture.running_pod(&namespace);
    let (lost, uid) = (pod["spec"]["nodeName"].as_str().unwrap(), pod["metadata"]["uid"].clone());
    fixture.kubelet.lose(lost);
    fixture.cluster.kubectl(&["delete", "node", lost]);
    // Kubernetes gives a node that is gone most of a minute.
    until("the end of its pod", || {
        let pods = fixture.list(&namespace, "pods");
        let runs = |pod: &Value| pod["metadata"]["uid"] == uid && pod["status"]["phase"] == "Running";
        (!pods.iter().any(runs)).then_some(())
    });
    one_job_another_pod(fixture, &namespace);
}

fn a_full_quota_delays_a_step_until_there_is_room(fixture: &Fixture) {
    let namespace = fixture.namespace("quota");
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "jobs"},
        "spec": {"hard": {"count/jobs.batch": "1"}}});
    fixture.cluster.create(&namespace, &quota);
    until("the quota", || {
        let quota = fixture.cluster.get(&namespace, "resourcequota", "jobs")?;
        (!quota["status"]["used"].is_null()).then_some(())
    });
    let steps = json!([slow("a", &[], "1"), slow("b", &[], "1")]);
    fixture
        .cluster
        .create(&namespace, &flow("etl", &json!({"steps": steps, "executionPolicy": {"jobRetention": "None"}})));
    let status = fixture.comes(&namespace, "etl", "Succeeded");
    assert_eq!(status["retries"], Value::Null, "{status}");
    assert!(fixture.reported(&namespace, "QuotaExceeded") > 0);
}

fn a_job_that_is_suspended_has_another_pod_when_it_is_resumed(fixture: &Fixture) {
    let namespace = fixture.namespace("held");
    fixture.cluster.create(&namespace, &flow("etl", &json!({"steps": [slow("a", &[], "6")]})));
    let first = fixture.running_pod(&namespace)["metadata"]["uid"].clone();
    fixture.patch(&namespace, "etl", &json!({"spec": {"suspend": true, "suspendMode": "Suspend"}}));
    fixture.comes(&namespace, "etl", "Suspended");
    until("the end of its pod", || fixture.list(&namespace, "pods").is_empty().then_some(()));
    fixture.patch(&namespace, "etl", &json!({"spec": {"suspend": false}}));
    let status = fixture.comes(&namespace, "etl", "Succeeded");
    assert_eq!((&status["steps"][0]["attempt"], &status["retries"]), (&json!(1), &Value::Null), "{status}");
    let (jobs, pods) = (fixture.list(&namespace, "jobs"), fixture.list(&namespace, "pods"));
    assert_eq!((jobs.len(), pods.len(), &jobs[0]["status"]["failed"]), (1, 1, &Value::Null), "{jobs:?}");
    assert_ne!(pods[0]["metadata"]["uid"], first);
}

fn a_flow_whose_spec_is_edited_is_held_until_it_is_restored(fixture: &Fixture) {
    let namespace = fixture.namespace("edited");
    let first = json!({"backoffLimit": 6, "concurrencyPolicy": "Forbid", "ttlSecondsAfterFinished": 86_400});
    let steps = json!([slow("a", &[], "4"), slow("b", &["a"], "1")]);
    fixture.cluster.create(&namespace, &flow("etl", &json!({"steps": steps, "executionPolicy": first})));
    fixture.comes(&namespace, "etl", "Running");
    fixture.patch(&namespace, "etl", &json!({"spec": {"executionPolicy": {"backoffLimit": 99}}}));
    let held = until("what was live to finish", || {
        let status = fixture.status(&namespace, "etl");
        (status["phase"] == "Suspended" && status["steps"][0]["phase"] == "Succeeded").then_some(status)
    });
    let conditions = held["conditions"].as_array().cloned().unwrap_or_default();
    let changed = conditions.iter().find(|condition| condition["type"] == "SpecChanged");
    assert_eq!(changed.map(|condition| &condition["status"]), Some(&json!("True")), "{held}");
    assert_eq!(jobs(&fixture.cluster, &namespace).len(), 1, "nothing starts");
    fixture.patch(&namespace, "etl", &json!({"spec": {"executionPolicy": first}}));
    fixture.comes(&namespace, "etl", "Succeeded");
    assert_eq!(jobs(&fixture.cluster, &namespace).len(), 2);
}

fn a_namespace_that_goes_takes_its_flows_with_it(fixture: &Fixture) {
    let namespace = fixture.namespace("gone");
    fixture
        .cluster
        .create(&namespace, &flow("etl", &json!({"steps": [slow("a", &[], "600"), slow("b", &["a"], "1")]})));
    fixture.running_pod(&namespace);
    fixture.cluster.kubectl(&["delete", "namespace", &namespace, "--wait=false"]);
    until("its end", || fixture.cluster.run(&["get", "namespace", &namespace]).is_err().then_some(()));
    // Nothing of the old flow is left for a new one of its name.
    fixture.namespace("gone");
    fixture.cluster.create(&namespace, &flow("etl", &json!({"steps": [slow("a", &[], "1")]})));
    fixture.comes(&namespace, "etl", "Succeeded");
}

fn without_the_webhook_nothing_new_begins_and_what_has_begun_goes_on(fixture: &Fixture) {
    let namespace = fixture.namespace("silent");
    fixture.cluster.create(&namespace, &flow("etl", &json!({"steps": [slow("a", &[], "6"), slow("b", &["a"], "1")]})));
    fixture.comes(&namespace, "etl", "Running");
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = socket.local_addr().unwrap().to_string();
    drop(socket);
    let all = configurations(&namespace, &nobody, &issue(1).authority);
    all.iter().for_each(|configuration| fixture.cluster.create("", configuration));
    let late = flow("late", &json!({"suspend": true, "steps": [slow("a", &[], "1")]}));
    let reported = until("a refusal", || {
        let reported = fixture.cluster.try_create(&namespace, &late);
        if reported.is_ok() {
            fixture.cluster.kubectl(&["-n", &namespace, "delete", "jobflow", "late"]);
        }
        reported.err()
    });
    assert!(reported.contains("failed calling webhook"), "{reported}");
    fixture.comes(&namespace, "etl", "Succeeded");
    for configuration in &all {
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        fixture.cluster.kubectl(&["delete", &word(&configuration["kind"]), &word(&configuration["metadata"]["name"])]);
    }
}

/// Comes last: nothing else goes on meanwhile.
fn an_api_server_that_is_ended_delays_flows_and_nothing_else(fixture: &Fixture) {
    let Some(file) = std::env::var_os("ORLOP_TEST_API_SERVER") else {
        println!(
            "skipped: an_api_server_that_is_ended_delays_flows_and_nothing_else: nobody starts it again (scripts/with-kubernetes does)"
        );
        return;
    };
    let namespace = fixture.namespace("down");
    fixture.cluster.create(&namespace, &flow("etl", &chain(4, "1")));
    fixture.comes(&namespace, "etl", "Running");
    let server = || std::fs::read_to_string(&file).unwrap().trim().parse::<i32>().ok();
    let ended = until("the process", server);
    kill(Pid::from_raw(ended), Signal::SIGKILL).unwrap();
    until("another API server", || server().filter(|other| *other != ended));
    until("its answers", || fixture.cluster.run(&["get", "--raw", "/readyz"]).ok());
    let status = fixture.comes(&namespace, "etl", "Succeeded");
    assert_eq!(status["retries"], Value::Null, "{status}");
    assert_eq!(jobs(&fixture.cluster, &namespace).len(), 4, "no attempt has two Jobs");
    until("readiness", || (fixture.operator.get("/readyz").0 == 200).then_some(()));
}

#[test]
fn troubles_of_a_real_cluster_have_the_outcomes_of_the_contract() {
    let test = "troubles_of_a_real_cluster_have_the_outcomes_of_the_contract";
    let Some(cluster) = Cluster::find(test) else { return };
    let dir = tempfile::tempdir().unwrap();
    install(&cluster);
    let kubelet = Kubelet::start(cluster.kubeconfig.clone());
    let account = cluster.account(dir.path(), HOME, "orlop-operator");
    let operator = Program::start(dir.path(), "trouble", &account, &["--leader-elect=false"]);
    let mut fixture = Fixture { cluster, kubelet, operator };
    let rows: [fn(&Fixture); 10] = [
        jobs_end_as_those_of_the_double_do,
        a_node_that_is_lost_is_the_jobs_own_matter,
        a_job_that_somebody_deletes_is_missing_and_its_step_is_tried_again_where_it_may,
        a_foreign_job_of_our_name_is_left_alone_and_fails_the_step,
        a_pod_that_is_evicted_is_the_jobs_own_matter,
        a_full_quota_delays_a_step_until_there_is_room,
        a_job_that_is_suspended_has_another_pod_when_it_is_resumed,
        a_flow_whose_spec_is_edited_is_held_until_it_is_restored,
        a_namespace_that_goes_takes_its_flows_with_it,
        without_the_webhook_nothing_new_begins_and_what_has_begun_goes_on,
    ];
    std::thread::scope(|scope| {
        let fixture = &fixture;
        rows.iter().for_each(|row| drop(scope.spawn(move || row(fixture))));
    });
    an_api_server_that_is_ended_delays_flows_and_nothing_else(&fixture);
    fixture.operator.signal(Signal::SIGTERM);
    assert_eq!(fixture.operator.end(), Some(0));
}
