//! `orlop flow … --target kube` as a process, over HTTP to the API server double, beside an operator that works.

use std::path::Path;
use std::sync::Arc;

use orlop::host::flow::SystemClock;
use orlop::host::operator::{Operator, Plan, Stop};
use orlop::k8s::testing::ApiServer;
use serde_json::json;

use super::double::server;
use super::http::{kubeconfig, serve};
use super::{flow, step};

/// Runs `orlop flow` with words; gives its exit code and what it printed.
fn orlop(dir: &Path, words: &str) -> (i32, String) {
    let mut command = crate::role::program();
    command.current_dir(dir).arg("flow").args(words.split_whitespace());
    let done = command.args(["--target", "kube", "--kubeconfig", "kubeconfig"]).output().expect("it runs");
    let text = [done.stdout, done.stderr].concat();
    (done.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).trim_end().to_owned())
}

/// A cluster with an operator, and the folder of a person who works with it.
pub(super) struct Bench {
    dir: tempfile::TempDir,
    pub(super) server: ApiServer,
    _stop: Option<tokio::sync::watch::Sender<bool>>,
}

impl Bench {
    pub(super) async fn new() -> Self {
        Self::with(server(true)).await.operated()
    }

    /// A cluster that nobody works in.
    pub(super) async fn with(server: ApiServer) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        kubeconfig(dir.path(), &serve(server.client_named("command")).await);
        Self { dir, server, _stop: None }
    }

    /// The same with an operator.
    pub(super) fn operated(self) -> Self {
        let mut plan = Plan::default();
        plan.flows.identities_verified = true;
        let operator = Operator::new(plan, self.server.client_named("operator"), Arc::new(SystemClock));
        let (tell, stop) = Stop::new();
        tokio::spawn(async move { operator.run(&stop).await });
        Self { _stop: Some(tell), ..self }
    }

    pub(super) fn write(&self, name: &str, spec: &serde_json::Value) {
        let path = self.dir.path().join(format!("{name}.json"));
        std::fs::write(path, flow(name, spec).to_string()).expect("it is written");
    }

    pub(super) async fn orlop(&self, words: &str) -> (i32, String) {
        let (dir, words) = (self.dir.path().to_owned(), words.to_owned());
        tokio::task::spawn_blocking(move || orlop(&dir, &words)).await.expect("it ends")
    }

    /// What a verb prints that goes well.
    pub(super) async fn good(&self, words: &str) -> String {
        let (code, text) = self.orlop(words).await;
        assert_eq!(code, 0, "{words}: {text}");
        text
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_of_a_cluster_is_submitted_watched_approved_and_deleted() {
    let bench = Bench::new().await;
    let gate = json!({"name": "gate", "type": "Manual", "dependencies": ["a"]});
    bench.write("etl", &json!({"steps": [step("a", &[], &json!({})), gate, step("b", &["gate"], &json!({}))]}));
    assert_eq!(bench.good("submit etl.json").await, "etl");
    assert_eq!(bench.orlop("submit etl.json").await.0, 5, "the name is taken");
    assert_eq!(bench.orlop("delete etl").await.0, 5, "it has not ended");
    let (code, left) = bench.orlop("watch etl --timeout 1s").await;
    assert!(code == 8 && left.contains("`etl` has not ended; it continues"), "{code} {left}");
    let why = bench.good("explain etl gate").await;
    assert!(why.starts_with("gate is PendingApproval"), "{why}");
    assert_eq!(bench.orlop("confirm-gone etl a").await.0, 5, "nothing of it is left");
    assert_eq!(bench.orlop("confirm-gone etl nothing").await.0, 4);
    assert_eq!(bench.good("approve etl gate --reason fine").await, "etl: approved gate");
    assert_eq!(bench.orlop("reject etl gate").await.0, 5);
    assert_eq!(bench.orlop("approve etl a").await.0, 5, "nobody decides about it");
    let (code, shown) = bench.orlop("approve etl nothing").await;
    assert_eq!((code, shown.as_str()), (4, "error: flow `etl` has no step `nothing`; its Manual steps are gate"));
    let watched = bench.good("watch etl").await;
    assert!(watched.contains("Succeeded"), "{watched}");
    assert_eq!(bench.good("list -o name").await, "etl");
    assert!(bench.good("list -A").await.contains("other"), "by namespace");
    let list: serde_json::Value = serde_json::from_str(&bench.good("list -o json").await).expect("JSON");
    let members: Vec<&String> = list["items"][0].as_object().expect("an item").keys().collect();
    let known = ["created", "ended", "interrupted", "labels", "message", "name", "namespace", "phase", "progress"];
    assert_eq!(members, [&known[..], &["started", "uid"]].concat(), "as on every target");
    assert_eq!(bench.orlop("list --phase nothing").await.0, 2);
    assert_eq!(bench.good("list -n default -o name").await, "");
    let page = bench.good("get etl").await;
    assert!(page.contains("gate") && page.contains("Succeeded"), "{page}");
    let object: serde_json::Value = serde_json::from_str(&bench.good("get etl -o json").await).expect("JSON");
    assert_eq!(object["status"]["phase"], "Succeeded");
    let approval = &object["status"]["steps"][1]["approval"];
    let shown = [&approval["by"], &approval["verified"], &approval["reason"]];
    assert_eq!(shown, [&json!("command"), &json!(true), &json!("fine")], "as the API server knows who asked");
    assert_eq!(bench.good("logs etl").await, "a/1 one\na/1 two of a\nb/1 one\nb/1 two of another");
    assert_eq!(bench.good("logs etl b --follow").await, "b/1 one\nb/1 two of another");
    assert_eq!(bench.orlop("logs etl nothing").await.0, 4);
    assert!(bench.good("graph etl -o dot").await.starts_with("digraph"));
    assert_eq!(bench.good("artifacts etl a").await, "no artifacts");
    assert_eq!(bench.orlop("artifacts etl nothing").await.0, 4);
    assert_eq!(bench.orlop("stop etl").await.0, 5, "it has ended");
    assert_eq!(bench.good("delete etl").await, "etl deleted");
    let (code, shown) = bench.orlop("get etl").await;
    let gone = "error: there is no flow `etl` in namespace `other`; see `orlop flow list -A --target kube`";
    assert_eq!((code, shown.as_str()), (4, gone));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_end_with_the_codes_of_the_contract_and_are_repeated() {
    let bench = Bench::new().await;
    let fails = step("a", &[], &json!({"fake/exit-code": "3"}));
    bench.write("bad", &json!({"steps": [fails.clone(), step("b", &["a"], &json!({}))]}));
    let (code, shown) = bench.orlop("run bad.json").await;
    assert!(code == 1 && shown.contains("a Failed"), "{code} {shown}");
    assert_eq!(bench.good("retry bad").await, "bad-r2");
    assert_eq!(bench.orlop("watch bad-r2").await.0, 1);
    let stored = bench.server.look("jobflows.workflow.kube-zen.io", "other", "bad-r2").expect("it is there");
    assert_eq!(stored["spec"]["retryOf"]["name"], "bad");
    bench.write("gated", &json!({"steps": [{"name": "gate", "type": "Manual"}]}));
    assert_eq!(bench.orlop("run gated.json --no-wait-approval").await.0, 10);
    assert_eq!(bench.good("suspend gated").await, "gated: suspended");
    assert_eq!(bench.good("resume gated").await, "gated: resumed");
    assert_eq!(bench.good("terminate gated").await, "gated: terminating");
    assert_eq!(bench.orlop("watch gated").await.0, 9);
    bench.write("wrong", &json!({"steps": [{"name": "a", "type": "Manual", "dependencies": ["z"]}]}));
    assert_eq!(bench.orlop("submit wrong.json").await.0, 3);
    assert_eq!(bench.orlop("submit gated.json --name open --wait --timeout 1s").await.0, 8);
    assert_eq!(bench.good("delete open --force").await, "open deleted");
    let gone = bench.good("delete --completed").await;
    assert_eq!(gone.lines().collect::<Vec<_>>(), ["bad deleted", "bad-r2 deleted", "gated deleted"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_not_there_is_reported() {
    let bench = Bench::new().await;
    kubeconfig(bench.dir.path(), "http://127.0.0.1:1");
    let (code, shown) = bench.orlop("list").await;
    assert_eq!(code, 7, "{shown}");
    assert!(shown.starts_with("error: listing flows: the API server does not answer: "), "{shown}");
    std::fs::write(bench.dir.path().join("kubeconfig"), "nonsense").expect("it is written");
    let (code, shown) = bench.orlop("list").await;
    assert!(code == 2 && shown.contains("--kubeconfig FILE"), "{code} {shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_warned_about_once_and_its_parameters_are_checked_before_anything_is_created() {
    let bench = Bench::new().await;
    let mut doubtful = step("a", &[], &json!({}));
    doubtful["template"]["spec"]["template"]["spec"]["containers"][0]["command"] =
        json!(["sh", "-c", "echo ${parameters.env}"]);
    bench.write("open", &json!({"parameters": [{"name": "env"}], "steps": [doubtful]}));
    for (words, wrong) in [
        ("submit open.json", "error: parameter `env` needs a value; give it with -p env=VALUE"),
        ("submit open.json -p env=dev -p nope=1", "error: the flow has no parameter `nope`; it has env"),
        ("run open.json -p env=dev --auto-approve a", "error: --auto-approve a: the flow has no Manual step `a`"),
    ] {
        let (code, shown) = bench.orlop(words).await;
        assert!(code == 2 && shown.ends_with(wrong), "{words}: {code} {shown}");
        assert_eq!(shown.matches("warning[shell]").count(), 1, "{words}: {shown}");
    }
    assert_eq!(bench.good("list -o name").await, "");
}
