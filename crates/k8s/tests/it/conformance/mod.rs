//! The double answers as a real API server does: the same requests go to both, and the answers are compared. The real one is
//! that of `ORLOP_TEST_KUBECONFIG`, which `scripts/with-kubernetes` sets; without one the requests go to two doubles, which
//! have to agree.

mod cases;
mod generated;
mod normal;

use std::collections::BTreeMap;
use std::env;

use http_body_util::BodyExt;
use kube::client::Body;
use orlop_k8s::testing::ApiServer;
use serde_json::{Value, json};

use super::double::definition;
use normal::Normal;

/// One request. `NS` in the path and in texts stands for the namespace; `<uid:a>` and `<rv:a>` for the uid and version that
/// the object named `a` had last.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    method: &'static str,
    path: String,
    kind: &'static str,
    body: Option<Value>,
}

/// One server, and what it said of objects so far.
struct Side {
    client: kube::Client,
    namespace: String,
    objects: BTreeMap<String, (String, String)>,
    normal: Normal,
}

impl Side {
    fn new(client: kube::Client, namespace: &str) -> Self {
        Self { client, namespace: namespace.to_owned(), objects: BTreeMap::new(), normal: Normal::new(namespace) }
    }

    /// Sends a request as it is.
    async fn send(&self, method: &str, path: &str, kind: &str, body: Option<&Value>) -> (u16, Value) {
        let bytes = body.map(Value::to_string).unwrap_or_default();
        let mut request = http::Request::builder().method(method).uri(path).header("user-agent", "conformance");
        if body.is_some() {
            request = request.header("content-type", kind);
        }
        let request = request.body(Body::from(bytes.into_bytes())).expect("a request");
        let response = self.client.send(request).await.expect("an answer");
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.expect("a body").to_bytes();
        (
            code,
            serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&bytes).into_owned())),
        )
    }

    /// Sends a step and returns the answer without what differs by nature.
    async fn ask(&mut self, step: &Step) -> (u16, Value) {
        let path = self.filled(&step.path);
        let body = step
            .body
            .as_ref()
            .map(|body| serde_json::from_str::<Value>(&self.filled(&body.to_string())).expect("still JSON"));
        let (code, answer) = self.send(step.method, &path, step.kind, body.as_ref()).await;
        self.learn(&answer);
        (code, self.normal.of(&answer))
    }

    fn filled(&self, text: &str) -> String {
        let mut text = text.replace("NS", &self.namespace);
        for (name, (uid, version)) in &self.objects {
            text = text.replace(&format!("<uid:{name}>"), uid).replace(&format!("<rv:{name}>"), version);
        }
        for name in ["a", "b", "f", "l"] {
            // Of what is not there any version and any uid will do.
            text = text
                .replace(&format!("<rv:{name}>"), "1")
                .replace(&format!("<uid:{name}>"), "11111111-1111-4111-8111-111111111111");
        }
        text
    }

    fn learn(&mut self, answer: &Value) {
        let text = |path: &str| answer.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = text("/metadata/name");
        if !name.is_empty() && !text("/metadata/uid").is_empty() {
            self.objects.insert(name, (text("/metadata/uid"), text("/metadata/resourceVersion")));
        }
    }
}

/// The client of the real server, if there is one.
pub(crate) async fn real() -> Option<kube::Client> {
    let path = env::var_os("ORLOP_TEST_KUBECONFIG")?;
    let file = kube::config::Kubeconfig::read_from(path).expect("the kubeconfig can be read");
    let config = kube::Config::from_custom_kubeconfig(file, &kube::config::KubeConfigOptions::default())
        .await
        .expect("it is right");
    Some(kube::Client::try_from(config).expect("a client"))
}

/// Whether the controllers of Kubernetes work at the server: they give a namespace its account.
pub(crate) async fn has_controllers(client: &kube::Client, namespace: &str) -> bool {
    let side = Side::new(client.clone(), namespace);
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
    for _ in 0..50 {
        if side.send("GET", &path, "", None).await.0 == 200 {
            return true;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    false
}

fn double() -> kube::Client {
    let server = ApiServer::new();
    server.record_all_managers();
    server.install(&definition()).expect("the definition is right");
    server.client()
}

/// Makes a namespace and a custom resource, and waits until it is served.
pub(crate) async fn set_up(client: &kube::Client, namespace: &str, definition: &Value, group: &str, resource: &str) {
    let side = Side::new(client.clone(), namespace);
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    side.send("POST", "/api/v1/namespaces", "application/json", Some(&object)).await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    side.send("POST", path, "application/json", Some(definition)).await;
    for _ in 0..1200 {
        let list = format!("{group}/namespaces/{namespace}/{resource}");
        if side.send("GET", &list, "", None).await.0 == 200 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the custom resource is not served");
}

/// Sends a sequence to both and returns where they differ.
async fn differences(name: &str, steps: &[Step], real: Option<&kube::Client>) -> Vec<String> {
    let unique = format!("{name}-{}", std::process::id());
    let mut ours = Side::new(double(), &unique);
    let mut theirs = Side::new(real.cloned().unwrap_or_else(double), &unique);
    for side in [&ours, &theirs] {
        set_up(&side.client, &unique, &definition(), "/apis/example.org/v1", "widgets").await;
    }
    let mut found = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let (mine, other) = (ours.ask(step).await, theirs.ask(step).await);
        if mine != other {
            found.push(format!(
                "{name} step {number}: {} {} {:.600}\n  double {} {}\n  real   {} {}",
                step.method,
                step.path,
                step.body.as_ref().map(Value::to_string).unwrap_or_default(),
                mine.0,
                mine.1,
                other.0,
                other.1
            ));
        }
    }
    theirs.send("DELETE", &format!("/api/v1/namespaces/{unique}"), "", None).await;
    found
}

/// Whether there is a real server; says so where there is none.
pub(crate) fn announce(real: Option<&kube::Client>) {
    if real.is_none() {
        println!(
            "skipped: no Kubernetes API server (ORLOP_TEST_KUBECONFIG is not set): the double is compared with itself"
        );
    }
}

/// Whether nobody else works at the real server; says so where somebody does.
async fn is_alone(real: Option<&kube::Client>) -> bool {
    let alone = match real {
        Some(client) => !has_controllers(client, "default").await,
        None => true,
    };
    if !alone {
        println!(
            "skipped: the answers of the double and of a real server: controllers run there and change what was asked for"
        );
    }
    alone
}

#[tokio::test]
async fn known_requests_get_the_same_answers() {
    let real = real().await;
    announce(real.as_ref());
    if !is_alone(real.as_ref()).await {
        return;
    }
    let mut found = Vec::new();
    for (name, steps) in cases::all() {
        found.extend(differences(name, &steps, real.as_ref()).await);
    }
    assert!(found.is_empty(), "{} differ\n{}", found.len(), found.join("\n"));
}

#[tokio::test]
async fn generated_requests_get_the_same_answers() {
    let real = real().await;
    announce(real.as_ref());
    if !is_alone(real.as_ref()).await {
        return;
    }
    let count = if real.is_some() { 40 } else { 12 };
    let mut found = Vec::new();
    for seed in 0..count {
        found.extend(differences(&format!("g{seed}"), &generated::sequence(seed, 30), real.as_ref()).await);
    }
    assert!(found.is_empty(), "{} differ\n{}", found.len(), found.join("\n"));
}
