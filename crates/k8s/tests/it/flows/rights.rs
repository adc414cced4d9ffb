//! The controller of flows works with the rights that ship, and uses every one of them.

use std::collections::BTreeSet;
use std::time::Duration;

use orlop_core::name::sha256_hex;
use orlop_k8s::api::Client;
use orlop_k8s::flow::Options;
use orlop_k8s::inline_artifacts::{Claim, InlineArtifacts};
use orlop_k8s::render::helper::{HelperOptions, Tokens};
use orlop_k8s::status::SizeLimits;
use orlop_k8s::testing::ApiServer;
use serde_json::{Value, json};

use super::life::spec;
use super::run;
use super::test_env::{TestEnv, step};
use crate::shipped::{ACCOUNT, denied, grant, rights, rules, used, without};

/// A server where the account has these rules, and owners are guarded.
fn server(rules: &[Value]) -> ApiServer {
    let server = ApiServer::new();
    grant(&server, rules);
    server.guard_owners();
    server
}

/// What one way of flows uses.
fn uses(server: &ApiServer) -> BTreeSet<String> {
    assert_eq!(denied(server), BTreeSet::new());
    used(server)
}

/// A flow that ends, and goes when its time is over.
async fn to_the_end(rules: &[Value]) -> TestEnv {
    let mut env = TestEnv::of(server(rules), Some(ACCOUNT));
    env.submit("etl", spec());
    env.run().await;
    env
}

/// One whose status is stored in pieces, and read again; whose Jobs go as soon as they may.
async fn in_pieces(rules: &[Value]) -> TestEnv {
    let mut options = Options::default();
    options.sizes = SizeLimits { inline: 0, object: 6_000 };
    let mut env = TestEnv::with(server(rules), Some(ACCOUNT), options);
    let mut many = step("many", &[], json!({}));
    many["withItems"] = json!((0..40).collect::<Vec<_>>());
    let last = step("last", &["many"], json!({"fake/run-seconds": "60"}));
    env.submit("etl", json!({"steps": [many, last], "executionPolicy": {"jobRetention": "None"}}));
    env.settle().await;
    env.restart().await;
    env.run().await;
    assert_eq!(env.status("etl")["phase"], "Succeeded", "{}", env.status("etl"));
    env
}

/// One that is suspended with its Jobs and resumed, whose claim already exists, and whose Job somebody deletes.
async fn disturbed(rules: &[Value]) -> TestEnv {
    let mut env = TestEnv::of(server(rules), Some(ACCOUNT));
    let mut a = step("a", &[], json!({"fake/run-seconds": "60"}));
    a["template"]["spec"]["backoffLimit"] = json!(3);
    env.submit("etl", json!({"steps": [a]}));
    env.settle().await;
    let suspended = |on: bool| json!({"spec": {"suspend": on, "suspendMode": "Suspend"}});
    env.ask_of_flows("PATCH", "etl", &suspended(true)).await.expect("an order");
    env.settle().await;
    assert_eq!(env.jobs()[0]["spec"]["suspend"], true);
    env.ask_of_flows("PATCH", "etl", &suspended(false)).await.expect("an order");
    env.settle().await;
    let job = env.jobs().remove(0)["metadata"]["name"].as_str().expect("a name").to_owned();
    let options = json!({"propagationPolicy": "Background"});
    env.ask("DELETE", "apis/batch/v1", &format!("jobs/{job}"), &options).await.expect("it is deleted");
    env.run().await;
    assert_eq!(env.status("etl")["steps"][0]["reason"], "JobMissing");
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "held-data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    env.server.create("", "persistentvolumeclaims", "default", &claim).expect("a claim");
    env.submit("held", spec());
    env.run().await;
    assert_eq!(env.status("held")["conditions"][0]["reason"], "ResourceConflict");
    env
}

/// One whose pod hands an artifact in, and in its place another one.
async fn handed_in(rules: &[Value]) -> TestEnv {
    let mut options = Options::default();
    options.helper = Some(HelperOptions::new("helper", "http://operator", Tokens::new(|| "word".to_owned())));
    let mut env = TestEnv::with(server(rules), Some(ACCOUNT), options);
    let mut make = step("make", &[], json!({"fake/run-seconds": "60"}));
    make["outputs"] = json!({"artifacts": [{"name": "model", "path": "/out/model"}]});
    env.submit("etl", json!({"steps": [make]}));
    env.settle().await;
    let job = env.jobs().remove(0)["metadata"]["name"].as_str().expect("a name").to_owned();
    let inline = InlineArtifacts::new(Client::new(env.server.client_as(ACCOUNT)));
    let claim = Claim { namespace: "default", job: &job, artifact: "model", token: "word" };
    for content in [b"first", b"other"] {
        let permit = inline.admit(claim).await.expect("it may be handed in");
        inline.keep(&permit, &sha256_hex(content, 64), content).await.expect("it is kept");
    }
    env
}

/// One whose pod does not start, whose key another waits for, and whose pod does not go from a node that is gone.
async fn stuck(rules: &[Value]) -> TestEnv {
    let mut env = TestEnv::of(server(rules), Some(ACCOUNT));
    let plays = json!({"fake/waiting-reason": "ErrImagePull", "fake/term-seconds": "inf"});
    let mut a = step("a", &[], plays);
    a["timeoutSeconds"] = json!(40);
    let mut b = step("b", &[], json!({"fake/run-seconds": "inf", "fake/term-seconds": "inf"}));
    b["timeoutSeconds"] = json!(40);
    // There is no room for a third pod: only events show it.
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}});
    env.server.create("", "resourcequotas", "default", &quota).expect("a quota");
    let policy = json!({"concurrencyKey": "k", "failurePolicy": "Continue"});
    env.submit("etl", json!({"steps": [a, b, step("c", &[], json!({}))], "executionPolicy": policy}));
    for _ in 0..20 {
        env.pass_time(Duration::from_secs(10)).await;
    }
    env
}

/// The rights of the controller of flows in a cluster.
fn shipped() -> Vec<Value> {
    [rules("jobflow"), rules("nodes")].concat()
}

#[tokio::test]
async fn the_rights_that_ship_are_enough() {
    let rules = shipped();
    let all = [
        to_the_end(&rules).await,
        in_pieces(&rules).await,
        disturbed(&rules).await,
        handed_in(&rules).await,
        stuck(&rules).await,
    ];
    for env in all {
        assert_eq!(denied(&env.server), BTreeSet::new());
    }
    let env = to_the_end(&rules).await;
    assert_eq!(env.status("etl")["phase"], "Succeeded", "{}", env.status("etl"));
}

#[tokio::test(start_paused = true)]
async fn every_right_that_ships_is_used() {
    let rules = shipped();
    let mut env = to_the_end(&rules).await;
    env.server.clock().advance(Duration::from_secs(86_400));
    env.restart().await;
    env.settle().await;
    let mut all = uses(&env.server);
    all.extend(uses(&in_pieces(&rules).await.server));
    all.extend(uses(&disturbed(&rules).await.server));
    all.extend(uses(&handed_in(&rules).await.server));
    all.extend(uses(&stuck(&rules).await.server));
    let watched = server(&rules);
    run::watches(&watched, watched.client_as(ACCOUNT)).await;
    all.extend(uses(&watched));
    // This one is asked for by the server itself: see the next test.
    all.insert("update jobflows.workflow.kube-zen.io/finalizers".to_owned());
    let shipped = rights(&rules);
    let idle: Vec<&String> = shipped.difference(&all).collect();
    assert!(idle.is_empty(), "nobody uses {idle:?}");
    let missing: Vec<&String> = all.difference(&shipped).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[tokio::test]
async fn a_right_that_is_taken_away_is_missed() {
    let missed = |env: &TestEnv| env.server.requests().iter().any(|asked| asked.client == ACCOUNT && asked.code == 403);
    for right in ["create jobs.batch", "create persistentvolumeclaims"] {
        let mut env = TestEnv::of(server(&without(&rules("jobflow"), right)), Some(ACCOUNT));
        env.patience = Some(Duration::from_secs(60));
        env.submit("etl", spec());
        env.run().await;
        let status = env.status("etl");
        let mut all = status["conditions"].as_array().expect("conditions").iter();
        let waits = |known: &Value| known["type"] == "Blocked" && known["reason"] == "Forbidden";
        assert!(all.any(|known| waits(known) && known["status"] == "True"), "without {right}: {status}");
        assert!(missed(&env));
        // It is given.
        grant(&env.server, &rules("jobflow"));
        env.patience = None;
        env.run().await;
        assert_eq!(env.status("etl")["phase"], "Succeeded", "without {right}: {}", env.status("etl"));
    }
    let right = "update jobflows.workflow.kube-zen.io/finalizers";
    let env = to_the_end(&without(&rules("jobflow"), right)).await;
    assert_eq!(env.status("etl")["phase"], "Failed", "without {right}");
    assert!(missed(&env));
}
