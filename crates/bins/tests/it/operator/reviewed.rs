//! An API server that asks the program about every flow: what people get stored, refused and signed, and what happens while
//! the program is away.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use orlop::k8s::testing::{ApiServer, Reviewer};
use serde_json::{Value, json};

use super::cluster::until;
use super::double::configurations;
use super::https::{Https, issue};
use super::webhook::{Bench, apart};
use super::{flow, step};

/// Where a Service leads at present.
type Endpoint = Arc<Mutex<String>>;

/// Asks the webhook of a program as an API server does, over a new connection each time.
fn over_https(endpoint: Endpoint, authority: String) -> Reviewer {
    Arc::new(move |asked| {
        let address = endpoint.lock().unwrap().clone();
        let mut line = Https::connect(&address, &[&authority]).map_err(|error| error.to_string())?;
        line.review(asked.path, asked.review).map_err(|error| error.to_string())
    })
}

fn flows(client: kube::Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("workflow.kube-zen.io", "v1alpha1", "JobFlow");
    Api::namespaced_with(client, "other", &ApiResource::from_gvk_with_plural(&kind, "jobflows"))
}

fn object(name: &str, spec: &Value) -> DynamicObject {
    serde_json::from_value(flow(name, spec)).unwrap()
}

/// What a refused request says.
fn said<T: std::fmt::Debug>(done: Result<T, kube::Error>) -> String {
    let Err(kube::Error::Api(status)) = done else { panic!("it is refused: {done:?}") };
    format!("{} {}", status.code, status.message)
}

async fn comes(what: &str, mut look: impl FnMut() -> bool) {
    for _ in 0..600 {
        if look() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{what} does not come");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_api_server_that_asks_the_program_stores_who_has_decided() {
    let issued = issue(0);
    let mut bench = Bench::new(&issued).await;
    let endpoint = Endpoint::new(Mutex::new(bench.program().webhook()));
    let ready = {
        let (endpoint, authority) = (Arc::clone(&endpoint), issued.authority.clone());
        move || until("a connection", || Https::connect(&endpoint.lock().unwrap().clone(), &[&authority]).ok())
    };
    drop(apart(ready.clone()).await);
    let reviewer = over_https(Arc::clone(&endpoint), issued.authority.clone());
    for configuration in configurations() {
        bench.server.webhooks(&configuration, &reviewer).unwrap();
    }
    let (ann, bob) = (flows(bench.server.client_named("ann")), flows(bench.server.client_named("bob")));
    let spec =
        json!({"steps": [step("a", &[], &json!({})), {"name": "gate", "type": "Manual", "dependencies": ["a"]}]});
    ann.create(&PostParams::default(), &object("etl", &spec)).await.unwrap();
    let look = |server: &ApiServer| server.look("jobflows.workflow.kube-zen.io", "other", "etl").unwrap();
    let filled = json!({"concurrencyPolicy": "Forbid", "ttlSecondsAfterFinished": 86_400, "backoffLimit": 6});
    assert_eq!(look(&bench.server)["spec"]["executionPolicy"], filled);
    let wrong = json!({"steps": [{"name": "gate", "type": "Manual", "dependencies": ["z"]}]});
    let refused = said(ann.create(&PostParams::default(), &object("bad", &wrong)).await);
    insta::assert_snapshot!(refused, @r#"422 admission webhook "validate-jobflow.workflow.kube-zen.io" denied the request: spec.steps[0].dependencies[0]: there is no step `z` [dependency]"#);
    comes("the question to a person", || look(&bench.server)["status"]["phase"] == "Paused").await;
    // Nobody signs for another; who decides is written down without being asked.
    let forged = json!({"metadata": {"annotations": {"approval.workflow.kube-zen.io/gate": "{\"by\":\"ann\"}"}}});
    let refused = said(bob.patch("etl", &PatchParams::default(), &Patch::Merge(forged)).await);
    insta::assert_snapshot!(refused, @r#"422 admission webhook "validate-jobflow.workflow.kube-zen.io" denied the request: metadata.annotations["approval.workflow.kube-zen.io/gate"]: `by` is not `bob`, who sends the request (leave the annotation out: it is written for you) [approval]"#);
    let edited = json!({"spec": {"executionPolicy": {"backoffLimit": 7}}});
    let refused = said(bob.patch("etl", &PatchParams::default(), &Patch::Merge(edited)).await);
    assert!(refused.starts_with("422 ") && refused.contains("[immutable]"), "{refused}");
    // Without the program nothing is decided, and nothing is lost.
    bench.program.as_mut().unwrap().kill();
    let approved = Patch::Merge(json!({"metadata": {"annotations": {"approved.workflow.kube-zen.io/gate": "true"}}}));
    let refused = said(bob.patch("etl", &PatchParams::default(), &approved).await);
    assert!(
        refused
            .starts_with("500 Internal error occurred: failed calling webhook \"mutate-jobflow.workflow.kube-zen.io\""),
        "{refused}"
    );
    // A port that was given back may be another's by now.
    bench.start("127.0.0.1:0").await;
    *endpoint.lock().unwrap() = bench.program().webhook();
    drop(apart(ready).await);
    bob.patch("etl", &PatchParams::default(), &approved).await.unwrap();
    comes("the end of the flow", || look(&bench.server)["status"]["phase"] == "Succeeded").await;
    let approval = look(&bench.server)["status"]["steps"][1]["approval"].clone();
    assert_eq!(
        (&approval["decision"], &approval["by"], &approval["verified"]),
        (&json!("Approved"), &json!("bob"), &json!(true))
    );
}
