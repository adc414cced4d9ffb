//! Jobs as the double plays them and as a real controller of Jobs does: the same Job, the same pods, the same status.

use std::time::{Duration, Instant};

use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use orlop::k8s::testing::ApiServer;
use serde_json::{Map, Value, json};

use super::super::cluster::{client, resource};
use super::super::kubelet::NODE;
use super::trouble::Fixture;

/// How long the real one may take until it shows what the double shows.
const PATIENCE: Duration = Duration::from_secs(60);

/// A Job, what its pods do, and what befalls it while they run.
struct Sample {
    name: &'static str,
    plays: Value,
    spec: Value,
    then: Vec<Act>,
}

enum Act {
    Change(Value),
    /// Somebody deletes its pods.
    DeletePods,
}

fn samples() -> Vec<Sample> {
    let runs = || json!({"fake/run-seconds": "8"});
    let with = |name, plays, spec, then| Sample { name, plays, spec, then };
    let of = |name, plays, spec| with(name, plays, spec, Vec::new());
    let rule = json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}});
    vec![
        of("well", json!({}), json!({})),
        of("badly", json!({"fake/exit-code": "1"}), json!({"backoffLimit": 0})),
        of("again", json!({"fake/exit-code": "1"}), json!({"backoffLimit": 1})),
        of("late", json!({"fake/run-seconds": "600"}), json!({"activeDeadlineSeconds": 2})),
        of("many", json!({}), json!({"completions": 3, "parallelism": 2})),
        of("indexed", json!({}), json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"})),
        of("policy", json!({"fake/exit-code": "3"}), json!({"podFailurePolicy": {"rules": [rule]}})),
        of("suspended", json!({}), json!({"suspend": true})),
        with("held", runs(), json!({"backoffLimit": 0}), {
            vec![Act::Change(json!({"suspend": true})), Act::Change(json!({"suspend": false}))]
        }),
        with("fewer", runs(), json!({"backoffLimit": 0, "completions": 2, "parallelism": 2}), {
            vec![Act::Change(json!({"parallelism": 1}))]
        }),
        with("deleted", runs(), json!({"backoffLimit": 0}), vec![Act::DeletePods]),
    ]
}

/// A server with one Job on it.
struct Side<'s> {
    client: kube::Client,
    namespace: &'s str,
    sample: &'s Sample,
}

impl Side<'_> {
    fn api(&self, group: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), self.namespace, &resource(group, "v1", kind, plural))
    }

    fn jobs(&self) -> Api<DynamicObject> {
        self.api("batch", "Job", "jobs")
    }

    /// Creates the Job, its pods on this node where one is named.
    async fn create(&self, node: Option<&str>) {
        let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": self.sample.name}, "spec": self.sample.spec});
        job["spec"]["template"] = json!({"metadata": {"annotations": self.sample.plays}, "spec": {"restartPolicy": "Never",
            "containers": [{"name": "main", "image": "i", "command": ["true"]}]}});
        if let Some(node) = node {
            job["spec"]["template"]["spec"]["nodeName"] = json!(node);
        }
        self.jobs().create(&PostParams::default(), &serde_json::from_value(job).unwrap()).await.unwrap();
    }

    async fn act(&self, act: &Act) {
        match act {
            Act::Change(spec) => {
                let patch = Patch::Merge(json!({ "spec": spec }));
                self.jobs().patch(self.sample.name, &PatchParams::default(), &patch).await.unwrap();
            }
            Act::DeletePods => {
                let pods = self.api("", "Pod", "pods");
                let ours = ListParams::default().labels(&format!("job-name={}", self.sample.name));
                pods.delete_collection(&DeleteParams::default(), &ours).await.unwrap();
            }
        }
    }

    /// The status without times, without names of pods, and without what only a real kubelet says.
    async fn status(&self) -> Value {
        let job = self.jobs().get(self.sample.name).await.unwrap();
        let mut status = job.data["status"].as_object().cloned().unwrap_or_default();
        for (name, usual) in
            [("ready", None), ("terminating", Some(json!(0))), ("uncountedTerminatedPods", Some(json!({})))]
        {
            if usual.is_none_or(|usual| status.get(name) == Some(&usual)) {
                status.remove(name);
            }
        }
        let timeless = |map: &mut Map<String, Value>| map.retain(|name, _| !name.ends_with("Time"));
        timeless(&mut status);
        for condition in status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
            timeless(condition.as_object_mut().unwrap());
            let message = condition["message"].as_str().unwrap_or_default();
            let words = message.split(' ').map(|word| if word.starts_with(self.namespace) { "POD" } else { word });
            condition["message"] = json!(words.collect::<Vec<_>>().join(" "));
        }
        Value::Object(status)
    }

    /// Waits until it shows this; otherwise gives what it shows.
    async fn shows(&self, wanted: &Value) -> Result<(), Value> {
        let began = Instant::now();
        loop {
            let status = self.status().await;
            if status == *wanted {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                return Err(status);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// Where the two differ, if they do.
async fn differs(sample: &Sample, namespace: &str, real: kube::Client) -> Option<String> {
    let server = ApiServer::new();
    let ours = Side { client: server.client(), namespace: "default", sample };
    let theirs = Side { client: real, namespace, sample };
    ours.create(None).await;
    theirs.create(Some(NODE)).await;
    for (number, act) in sample.then.iter().enumerate() {
        // Until the pods run, or are gone.
        server.jobs().run_for(Duration::from_secs(3));
        let wanted = ours.status().await;
        if let Err(status) = theirs.shows(&wanted).await {
            return Some(format!("{} before act {number}:\n  double {wanted}\n  real   {status}", sample.name));
        }
        ours.act(act).await;
        theirs.act(act).await;
    }
    server.jobs().run_for(Duration::from_secs(3600));
    let wanted = ours.status().await;
    let status = theirs.shows(&wanted).await.err()?;
    Some(format!("{}:\n  double {wanted}\n  real   {status}", sample.name))
}

pub(super) fn jobs_end_as_those_of_the_double_do(fixture: &Fixture) {
    let namespace = fixture.namespace("jobs");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let found = runtime.block_on(async {
        let real = client(&fixture.cluster.kubeconfig).await;
        let all = samples();
        let runs = all.iter().map(|sample| differs(sample, &namespace, real.clone()));
        futures::future::join_all(runs).await
    });
    let found: Vec<String> = found.into_iter().flatten().collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
