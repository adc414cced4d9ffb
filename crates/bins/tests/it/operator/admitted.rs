//! What ships of the webhooks on a real API server: it asks the program over HTTPS before it stores a flow or a performer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::cluster::{Cluster, until};
use super::https::issue;
use super::program::Program;
use super::real::deploy;
use super::{flow, step};

fn performer(name: &str, hardware: &Value) -> Value {
    json!({"apiVersion": "hourglass.eigenlayer.io/v1alpha1", "kind": "Performer", "metadata": {"name": name},
        "spec": {"avsAddress": "0x1234567890abcdef1234567890abcdef12345678", "image": "i", "hardwareRequirements": hardware}})
}

/// The configurations of the overlay for one namespace, and for a program of this machine.
pub(super) fn configurations(namespace: &str, address: &str, authority: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(deploy("kustomize/webhook/configurations.yaml")).unwrap();
    let port = address.rsplit(':').next().unwrap();
    let mut all: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    for configuration in &mut all {
        let name = configuration["metadata"]["name"].as_str().unwrap();
        configuration["metadata"] = json!({"name": format!("{name}-{namespace}")});
        let webhook = &mut configuration["webhooks"][0];
        let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap();
        webhook["clientConfig"] =
            json!({"url": format!("https://localhost:{port}{path}"), "caBundle": STANDARD.encode(authority)});
        webhook["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
    }
    all
}

/// Takes away what the test has made, also after a failed assertion: other tests share the control plane.
struct Made<'a> {
    cluster: &'a Cluster,
    objects: Vec<(String, String)>,
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        for (kind, name) in &self.objects {
            drop(self.cluster.run(&["delete", kind, name, "--timeout=60s"]));
        }
    }
}

#[test]
fn a_real_api_server_asks_before_it_stores() {
    let test = "a_real_api_server_asks_before_it_stores";
    let Some(cluster) = Cluster::find(test) else { return };
    let dir = tempfile::tempdir().unwrap();
    cluster.kubectl(&["apply", "-k", &deploy("crds")]);
    for definition in ["crd/jobflows.workflow.kube-zen.io", "crd/performers.hourglass.eigenlayer.io"] {
        cluster.kubectl(&["wait", "--for=condition=Established", definition, "--timeout=30s"]);
    }
    let namespace = format!("asked-{}", std::process::id());
    cluster.create("", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
    let mut made = Made { cluster: &cluster, objects: Vec::new() };
    let issued = issue(1);
    std::fs::write(dir.path().join("tls.crt"), &issued.pair.chain).unwrap();
    std::fs::write(dir.path().join("tls.key"), &issued.pair.key).unwrap();
    let certificates = format!("--webhook-cert-dir={}", dir.path().display());
    // It answers; nothing here is to be run.
    let words = ["--leader-elect=false", "--namespaces=nowhere", "--webhook-addr=127.0.0.1:0", &certificates];
    let mut operator = Program::start(dir.path(), "operator", &cluster.kubeconfig, &words);
    let all = configurations(&namespace, &operator.webhook(), &issued.authority);
    for configuration in &all {
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        made.objects.push((word(&configuration["kind"]), word(&configuration["metadata"]["name"])));
        cluster.create("", configuration);
    }
    // Its flows need nobody's leave to go.
    made.objects.push(("namespace".to_owned(), namespace.clone()));
    // An API server takes a moment to know of them.
    let unknown = performer("unknown", &json!({"gpuType": "nvidia-a1000-nvlink"}));
    let circle = flow("circle", &json!({"steps": [step("a", &["b"], &json!({})), step("b", &["a"], &json!({}))]}));
    let refused = |object: &Value| {
        until("a refusal", || {
            let reported = cluster.try_create(&namespace, object);
            if reported.is_ok() {
                let kind = object["kind"].as_str().unwrap();
                cluster.kubectl(&["-n", &namespace, "delete", kind, object["metadata"]["name"].as_str().unwrap()]);
            }
            reported.err()
        })
    };
    let reported = refused(&unknown);
    assert!(
        reported.contains("The Performer \"unknown\" is invalid: spec: ") && reported.contains("did you mean a100"),
        "{reported}"
    );
    let reported = refused(&circle);
    assert!(reported.contains("The JobFlow \"circle\" is invalid") && reported.contains("spec.steps"), "{reported}");
    // What is allowed may be told of all the same.
    let narrowed = performer("narrowed", &json!({"teeType": "sev", "teeRequired": true}));
    let reported = cluster.try_create(&namespace, &narrowed).unwrap();
    assert!(reported.contains("Warning: Narrowed: fewer nodes match"), "{reported}");
    // What fills in is another configuration, of which the server may hear later.
    let mut plain = 0;
    until("what is filled in", || {
        plain += 1;
        let name = format!("plain-{plain}");
        cluster.create(&namespace, &flow(&name, &json!({"steps": [{"name": "gate", "type": "Manual"}]})));
        let filled = cluster.get(&namespace, "jobflow", &name).unwrap()["spec"]["executionPolicy"].clone();
        (!filled.is_null()).then_some(())
    });
    // Labels are nobody's business.
    cluster.kubectl(&["-n", &namespace, "label", "performer", "narrowed", "a=b"]);
    // Whoever decides is written down by the webhook, as the API server knows them.
    let gate = flow("gate", &json!({"steps": [{"name": "gate", "type": "Manual"}]}));
    cluster.create(&namespace, &gate);
    let approved = json!({"metadata": {"annotations": {"approved.workflow.kube-zen.io/gate": "true"}}}).to_string();
    cluster.kubectl(&["-n", &namespace, "patch", "jobflow", "gate", "--type=merge", "-p", &approved]);
    let annotations = cluster.get(&namespace, "jobflow", "gate").unwrap()["metadata"]["annotations"].to_string();
    assert!(annotations.contains("\\\"by\\\":\\\"admin\\\""), "{annotations}");
    // Nobody answers: performers are stored, flows are not.
    operator.kill();
    cluster.create(&namespace, &unknown);
    let reported = cluster.try_create(&namespace, &circle).unwrap_err();
    assert!(reported.contains("failed calling webhook"), "{reported}");
}
