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

use super::bed::{Bed, step};
use super::life::spec;
use super::run;
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
async fn to_the_end(rules: &[Value]) -> Bed {
    let mut bed = Bed::of(server(rules), Some(ACCOUNT));
    bed.submit("etl", spec());
    bed.run().await;
    bed
}

/// One whose status is stored in pieces, and read again; whose Jobs go as soon as they may.
async fn in_pieces(rules: &[Value]) -> Bed {
    let mut options = Options::default();
    options.sizes = SizeLimits { inline: 0, object: 6_000 };
    let mut bed = Bed::with(server(rules), Some(ACCOUNT), options);
    let mut many = step("many", &[], json!({}));
    many["withItems"] = json!((0..40).collect::<Vec<_>>());
    let last = step("last", &["many"], json!({"fake/run-seconds": "60"}));
    bed.submit("etl", json!({"steps": [many, last], "executionPolicy": {"jobRetention": "None"}}));
    bed.settle().await;
    bed.restart().await;
    bed.run().await;
    assert_eq!(bed.status("etl")["phase"], "Succeeded", "{}", bed.status("etl"));
    bed
}

/// One that is suspended with its Jobs and resumed, whose claim is there already, and whose Job somebody deletes.
async fn disturbed(rules: &[Value]) -> Bed {
    let mut bed = Bed::of(server(rules), Some(ACCOUNT));
    let mut a = step("a", &[], json!({"fake/run-seconds": "60"}));
    a["template"]["spec"]["backoffLimit"] = json!(3);
    bed.submit("etl", json!({"steps": [a]}));
    bed.settle().await;
    let suspended = |on: bool| json!({"spec": {"suspend": on, "suspendMode": "Suspend"}});
    bed.ask_of_flows("PATCH", "etl", &suspended(true)).await.expect("an order");
    bed.settle().await;
    assert_eq!(bed.jobs()[0]["spec"]["suspend"], true);
    bed.ask_of_flows("PATCH", "etl", &suspended(false)).await.expect("an order");
    bed.settle().await;
    let job = bed.jobs().remove(0)["metadata"]["name"].as_str().expect("a name").to_owned();
    let options = json!({"propagationPolicy": "Background"});
    bed.ask("DELETE", "apis/batch/v1", &format!("jobs/{job}"), &options).await.expect("it is deleted");
    bed.run().await;
    assert_eq!(bed.status("etl")["steps"][0]["reason"], "JobMissing");
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "held-data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    bed.server.create("", "persistentvolumeclaims", "default", &claim).expect("a claim");
    bed.submit("held", spec());
    bed.run().await;
    assert_eq!(bed.status("held")["conditions"][0]["reason"], "ResourceConflict");
    bed
}

/// One whose pod hands an artifact in, and in its place another one.
async fn handed_in(rules: &[Value]) -> Bed {
    let mut options = Options::default();
    options.helper = Some(HelperOptions::new("helper", "http://operator", Tokens::new(|| "word".to_owned())));
    let mut bed = Bed::with(server(rules), Some(ACCOUNT), options);
    let mut make = step("make", &[], json!({"fake/run-seconds": "60"}));
    make["outputs"] = json!({"artifacts": [{"name": "model", "path": "/out/model"}]});
    bed.submit("etl", json!({"steps": [make]}));
    bed.settle().await;
    let job = bed.jobs().remove(0)["metadata"]["name"].as_str().expect("a name").to_owned();
    let inline = InlineArtifacts::new(Client::new(bed.server.client_as(ACCOUNT)));
    let claim = Claim { namespace: "default", job: &job, artifact: "model", token: "word" };
    for content in [b"first", b"other"] {
        let permit = inline.admit(claim).await.expect("it may be handed in");
        inline.keep(&permit, &sha256_hex(content, 64), content).await.expect("it is kept");
    }
    bed
}

/// One whose pod does not start, whose key another waits for, and whose pod does not go from a node that is gone.
async fn stuck(rules: &[Value]) -> Bed {
    let mut bed = Bed::of(server(rules), Some(ACCOUNT));
    let plays = json!({"fake/waiting-reason": "ErrImagePull", "fake/term-seconds": "inf"});
    let mut a = step("a", &[], plays);
    a["timeoutSeconds"] = json!(40);
    let mut b = step("b", &[], json!({"fake/run-seconds": "inf", "fake/term-seconds": "inf"}));
    b["timeoutSeconds"] = json!(40);
    // There is no room for a third pod: only events show it.
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}});
    bed.server.create("", "resourcequotas", "default", &quota).expect("a quota");
    let policy = json!({"concurrencyKey": "k", "failurePolicy": "Continue"});
    bed.submit("etl", json!({"steps": [a, b, step("c", &[], json!({}))], "executionPolicy": policy}));
    for _ in 0..20 {
        bed.pass_time(Duration::from_secs(10)).await;
    }
    bed
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
    for bed in all {
        assert_eq!(denied(&bed.server), BTreeSet::new());
    }
    let bed = to_the_end(&rules).await;
    assert_eq!(bed.status("etl")["phase"], "Succeeded", "{}", bed.status("etl"));
}

#[tokio::test(start_paused = true)]
async fn every_right_that_ships_is_used() {
    let rules = shipped();
    let mut bed = to_the_end(&rules).await;
    bed.server.clock().advance(Duration::from_secs(86_400));
    bed.restart().await;
    bed.settle().await;
    let mut all = uses(&bed.server);
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
    let missed = |bed: &Bed| bed.server.requests().iter().any(|asked| asked.client == ACCOUNT && asked.code == 403);
    for right in ["create jobs.batch", "create persistentvolumeclaims"] {
        let mut bed = Bed::of(server(&without(&rules("jobflow"), right)), Some(ACCOUNT));
        bed.patience = Some(Duration::from_secs(60));
        bed.submit("etl", spec());
        bed.run().await;
        let status = bed.status("etl");
        let mut all = status["conditions"].as_array().expect("conditions").iter();
        let waits = |known: &Value| known["type"] == "Blocked" && known["reason"] == "Forbidden";
        assert!(all.any(|known| waits(known) && known["status"] == "True"), "without {right}: {status}");
        assert!(missed(&bed));
        // It is given.
        grant(&bed.server, &rules("jobflow"));
        bed.patience = None;
        bed.run().await;
        assert_eq!(bed.status("etl")["phase"], "Succeeded", "without {right}: {}", bed.status("etl"));
    }
    let right = "update jobflows.workflow.kube-zen.io/finalizers";
    let bed = to_the_end(&without(&rules("jobflow"), right)).await;
    assert_eq!(bed.status("etl")["phase"], "Failed", "without {right}");
    assert!(missed(&bed));
}
