//! The program on a real control plane, under its own service account with the rights that ship: flows run to their end, a
//! killed operator is replaced, of two one leads, and people can read what they see.

mod jobs;
mod suite;
mod trouble;

use std::collections::BTreeSet;
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::cluster::{Cluster, until};
use super::kubelet::{Kubelet, NODE};
use super::program::Program;
use super::{flow, step};

/// Where the operator would run.
pub(super) const HOME: &str = "orlop-system";

pub(super) fn deploy(part: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(part).to_str().unwrap().to_owned()
}

/// What ships, without the program.
fn install(cluster: &Cluster) {
    cluster.kubectl(&["apply", "-k", &deploy("kustomize/base")]);
    cluster.kubectl(&["wait", "--for=condition=Established", "crd/jobflows.workflow.kube-zen.io", "--timeout=30s"]);
}

/// A step on the node of the test.
fn on_node(name: &str, after: &[&str], plays: &Value) -> Value {
    let mut step = step(name, after, plays);
    step["template"]["spec"]["template"]["spec"]["nodeName"] = json!(NODE);
    step
}

/// Fan-out, an ignored exit code, a retry, `finally`, and resources of its own.
fn rich() -> Value {
    let mut many = on_node("many", &["first"], &json!({}));
    many["withItems"] = json!(["x", "y", "z"]);
    let mut shaky = on_node("shaky", &["first"], &json!({"fake/exit-code": "7"}));
    shaky["retryPolicy"] = json!({"limit": 1, "backoff": {"type": "Fixed", "duration": "1s"}});
    shaky["continueOnFailure"] = json!(true);
    json!({
        "resourceTemplates": {
            "configMapTemplates": [{"metadata": {"name": "settings"}, "data": {"level": "high"}}],
            "volumeClaimTemplates": [{"metadata": {"name": "scratch"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}}],
        },
        "steps": [on_node("first", &[], &json!({})), many, shaky],
        "finally": [on_node("clean", &[], &json!({}))],
    })
}

fn chain(length: usize, seconds: &str) -> Value {
    let name = |number: usize| format!("s{number}");
    let steps: Vec<Value> = (0..length)
        .map(|number| {
            let before = number.checked_sub(1).map(name);
            let before: Vec<&str> = before.iter().map(String::as_str).collect();
            on_node(&name(number), &before, &json!({"fake/run-seconds": seconds}))
        })
        .collect();
    json!({ "steps": steps })
}

/// Names of the Jobs of a flow.
fn jobs(cluster: &Cluster, namespace: &str) -> BTreeSet<String> {
    cluster.kubectl(&["-n", namespace, "get", "jobs", "-o", "name"]).lines().map(str::to_owned).collect()
}

/// One control plane, one test: its parts come one after another, since what is installed is the whole cluster's.
#[test]
fn flows_run_on_a_real_control_plane() {
    let Some(cluster) = Cluster::find("flows_run_on_a_real_control_plane") else { return };
    let dir = tempfile::tempdir().unwrap();
    without_definition(&cluster, dir.path());
    install(&cluster);
    let _kubelet = Kubelet::start(cluster.kubeconfig.clone());
    let account = cluster.account(dir.path(), HOME, "orlop-operator");
    people_see_what_happens(&cluster, dir.path(), &account);
    a_killed_operator_is_replaced(&cluster, dir.path(), &account);
    of_two_one_leads(&cluster, dir.path(), &account);
    without_rights(&cluster, dir.path());
}

fn without_definition(cluster: &Cluster, dir: &Path) {
    if cluster.run(&["get", "crd", "jobflows.workflow.kube-zen.io"]).is_ok() {
        println!("skipped: what is said where no definition is: an earlier test has made it");
        return;
    }
    let mut operator = Program::start(dir, "early", &cluster.kubeconfig, &["--leader-elect=false"]);
    until("a word on the definition", || {
        let (code, text) = operator.get("/readyz");
        (code == 503 && text.contains("kubectl apply -f deploy/crds/jobflows")).then_some(())
    });
    assert_eq!(operator.get("/healthz").0, 200);
    operator.signal(Signal::SIGINT);
    assert_eq!(operator.end(), Some(0));
}

fn people_see_what_happens(cluster: &Cluster, dir: &Path, account: &Path) {
    cluster.kubectl(&["create", "namespace", "people"]);
    let mut operator = Program::start(dir, "one", account, &["--lease-namespace", HOME]);
    cluster.create("people", &flow("etl", &rich()));
    cluster.kubectl(&["-n", "people", "wait", "--for=condition=Completed", "jobflow/etl", "--timeout=90s"]);
    let table = cluster.kubectl(&["-n", "people", "get", "jobflows"]);
    println!("{table}");
    let words: Vec<&str> = table.lines().flat_map(str::split_whitespace).collect();
    assert_eq!(words[..5], ["NAME", "PHASE", "PROGRESS", "AGE", "MESSAGE"]);
    assert_eq!(words[5..8], ["etl", "Succeeded", "6/6"], "{table}");
    // Events are told after the status.
    let described = until("the last event", || {
        let text = cluster.kubectl(&["-n", "people", "describe", "jobflow", "etl"]);
        text.contains("JobFlowCompleted").then_some(text)
    });
    println!("{described}");
    for word in ["JobFlowCreated", "JobFlowStarted", "StepCreated", "StepSucceeded", "StepRetry", "ResourceCreated"] {
        assert!(described.contains(word), "{word} is not in\n{described}");
    }
    let status = cluster.get("people", "jobflow", "etl").unwrap()["status"].clone();
    let shaky = status["steps"].as_array().unwrap().iter().find(|step| step["name"] == "shaky").unwrap();
    assert_eq!((&shaky["phase"], &shaky["retryCount"]), (&json!("Failed"), &json!(1)), "{shaky}");
    assert_eq!(jobs(cluster, "people").len(), 7);
    // Nothing is written while nothing happens.
    let version =
        |cluster: &Cluster| cluster.get("people", "jobflow", "etl").unwrap()["metadata"]["resourceVersion"].clone();
    let all = || (version(cluster), writes(&operator));
    // The last events are told after the last status.
    let quiet = until("a quiet second", || {
        let before = all();
        std::thread::sleep(std::time::Duration::from_secs(1));
        (before == all()).then_some(before)
    });
    std::thread::sleep(std::time::Duration::from_secs(5));
    assert_eq!(all(), quiet);
    let (_, metrics) = operator.get("/metrics");
    assert!(metrics.contains("orlop_flows_finished_total{outcome=\"Succeeded\",reason=\"\"} 1"), "{metrics}");
    let denied: Vec<&str> = metrics.lines().filter(|line| line.contains("code=\"403\"")).collect();
    assert!(denied.is_empty(), "the rights that ship are enough: {denied:?}");
    operator.signal(Signal::SIGTERM);
    assert_eq!(operator.end(), Some(0));
    let lease = cluster.get(HOME, "lease", "orlop-operator").unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], Value::Null, "the lease is given back");
}

/// Writes that the operator has made.
pub(super) fn writes(operator: &Program) -> f64 {
    let (_, metrics) = operator.get("/metrics");
    let lines = metrics.lines().filter(|line| line.starts_with("orlop_api_writes_total{"));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

fn a_killed_operator_is_replaced(cluster: &Cluster, dir: &Path, account: &Path) {
    cluster.kubectl(&["create", "namespace", "killed"]);
    let arguments = ["--leader-elect=false"];
    let mut operator = Program::start(dir, "killed-0", account, &arguments);
    cluster.create("killed", &flow("chain", &chain(6, "0.3")));
    cluster.create("killed", &flow("rich", &rich()));
    for number in 1..6 {
        std::thread::sleep(std::time::Duration::from_millis(700));
        operator.kill();
        operator = Program::start(dir, &format!("killed-{number}"), account, &arguments);
    }
    for name in ["chain", "rich"] {
        until("the end of a flow", || (cluster.phase("killed", name) == "Succeeded").then_some(()));
    }
    assert_eq!(jobs(cluster, "killed").len(), 6 + 7, "no attempt has two Jobs, and none is lost");
    operator.signal(Signal::SIGTERM);
    assert_eq!(operator.end(), Some(0));
}

fn of_two_one_leads(cluster: &Cluster, dir: &Path, account: &Path) {
    cluster.kubectl(&["create", "namespace", "two"]);
    let arguments = ["--lease-namespace", HOME, "--namespaces", "two"];
    let mut both =
        [Program::start(dir, "left", account, &arguments), Program::start(dir, "right", account, &arguments)];
    let leads = both.each_ref().map(Program::leads);
    assert!(leads[0] != leads[1], "one of two leads: {leads:?}");
    cluster.create("two", &flow("chain", &chain(6, "1")));
    until("the first Job", || (!jobs(cluster, "two").is_empty()).then_some(()));
    let leader = usize::from(leads[1]);
    both[leader].signal(Signal::SIGTERM);
    assert_eq!(both[leader].end(), Some(0));
    until("the other to lead", || both[1 - leader].leads().then_some(()));
    until("the end of the flow", || (cluster.phase("two", "chain") == "Succeeded").then_some(()));
    assert_eq!(jobs(cluster, "two").len(), 6);
    // Somebody takes the lease away: the process ends.
    let holder = json!({"spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 1}}).to_string();
    cluster.kubectl(&["-n", HOME, "patch", "lease", "orlop-operator", "--type=merge", "-p", &holder]);
    assert_eq!(both[1 - leader].end(), Some(1));
    assert!(both[1 - leader].log().contains("no longer leads"), "{}", both[1 - leader].log());
}

fn without_rights(cluster: &Cluster, dir: &Path) {
    cluster.kubectl(&["-n", "two", "create", "serviceaccount", "nobody"]);
    let account = cluster.account(dir, "two", "nobody");
    let operator = Program::start(dir, "nobody", &account, &["--leader-elect=false"]);
    until("a word on rights", || {
        let (code, text) = operator.get("/readyz");
        (code == 503 && text.contains("the service account may not watch jobflows")).then_some(())
    });
    let standby = Program::start(dir, "nobody-2", &account, &["--lease-namespace", HOME]);
    until("a word on leases", || standby.log().contains("leases are denied").then_some(()));
}
