//! Children of an executor as objects. Owns what they look like; equal specs give equal objects. Keys and
//! addresses with credentials are in the Secret and nowhere else.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_core::name::sha256_hex;
use serde_json::{Value, json};

use super::file::{File, KEYS};
use super::observe::Names;
use super::{CONTAINER, NAME};
use crate::api::Kind;
use crate::hourglass::children::Meta;
use crate::hourglass::drift::marked;
use crate::hourglass::reference::GENERATION;
use crate::hourglass::spec::{ExecutorSpec, SecurityProfile};
use crate::hourglass::{MANAGER, RESTARTED, names, secure};
use crate::value::canonical;

/// Annotation of pods: what they were configured with.
pub(super) const CHECKSUM: &str = "hourglass.eigenlayer.io/config-checksum";
/// Annotation of the Deployment: everything but the number of pods.
pub(super) const TEMPLATE_HASH: &str = "hourglass.eigenlayer.io/template-hash";
/// Names of the file, of which both have the same content.
const FILES: [&str; 2] = ["executor-config.yaml", "config.yaml"];
/// What keys of the operator are called in the Secret.
const PREFIX: &str = "operator-key.";
/// Who owns mounted files.
const GROUP: i64 = 65532;

/// All children. Their `Debug` form would show secrets, so there is none.
#[derive(Clone)]
pub struct Rendered {
    /// The ConfigMap.
    pub config: Value,
    /// The Secret; none where there is nothing to hide.
    pub secret: Option<Value>,
    /// The service account, bare.
    pub account: Value,
    /// The Deployment.
    pub deployment: Value,
    /// The PodDisruptionBudget; none for one pod.
    pub budget: Option<Value>,
    /// The Service.
    pub service: Value,
    /// Hash of what the executor is configured with.
    pub hash: String,
}

/// Renders all children.
///
/// # Errors
/// A sentence: the file cannot be written.
pub(super) fn render(
    meta: &Meta,
    spec: &ExecutorSpec,
    default: SecurityProfile,
    generation: u32,
) -> Result<Rendered, String> {
    let names = Names::of(&meta.name);
    let file = File::of(&spec.config);
    let hidden = file.is_secret();
    let shown = if hidden { file.redacted() } else { file.clone() };
    let text = shown.to_yaml()?;
    let data: BTreeMap<&str, &str> = FILES.into_iter().map(|name| (name, text.as_str())).collect();
    let config = child(meta, &names.config, json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data}));
    let mut secrets: BTreeMap<String, String> = BTreeMap::new();
    for (name, key) in spec.config.operator_keys.iter().flatten() {
        secrets.insert(format!("{PREFIX}{name}"), STANDARD.encode(key));
    }
    if hidden {
        let whole = STANDARD.encode(file.to_yaml()?);
        secrets.extend(FILES.map(|name| (name.to_owned(), whole.clone())));
    }
    let hash = sha256_hex(canonical(&json!([data, secrets])).as_bytes(), 64);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": secrets});
    let secret = (!secrets.is_empty()).then(|| child(meta, &names.secrets, secret));
    let account = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": spec.service_account_name, "namespace": meta.namespace},
    });
    let budget = json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": selector(meta)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    });
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "spec": {
            "type": "ClusterIP",
            "selector": selector(meta),
            "ports": [{"name": "grpc", "port": 9090, "protocol": "TCP", "targetPort": "grpc"}],
        },
    });
    Ok(Rendered {
        deployment: deployment(meta, spec, hidden, &hash, default, generation),
        config,
        secret,
        account,
        budget: (spec.replicas > 1).then(|| child(meta, &names.deployment, budget)),
        service: child(meta, &names.service, service),
        hash,
    })
}

/// The labels pods are selected by.
pub(super) fn selector(meta: &Meta) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("app".to_owned(), "hourglass-executor".to_owned()),
        (NAME.to_owned(), names::label_value(&meta.name)),
    ])
}

fn labels(meta: &Meta) -> BTreeMap<String, String> {
    let mut labels = selector(meta);
    labels.insert("app.kubernetes.io/managed-by".to_owned(), MANAGER.to_owned());
    labels
}

fn child(meta: &Meta, name: &str, object: Value) -> Value {
    let mut whole = json!({
        "apiVersion": object.get("apiVersion"),
        "kind": object.get("kind"),
        "metadata": meta.child(Kind::Executor, name, &labels(meta)),
    });
    for (name, value) in object.as_object().into_iter().flatten() {
        whole[name] = value.clone();
    }
    marked(whole)
}

fn deployment(
    meta: &Meta,
    spec: &ExecutorSpec,
    hidden: bool,
    hash: &str,
    default: SecurityProfile,
    generation: u32,
) -> Value {
    let profile = spec.security_profile.unwrap_or(default);
    let names = Names::of(&meta.name);
    let mut pod = json!({
        "serviceAccountName": spec.service_account_name,
        "terminationGracePeriodSeconds": 30,
        "securityContext": security(profile),
        "containers": [container(spec, profile)],
        "volumes": volumes(spec, &names, hidden),
    });
    if !spec.image_pull_secrets.is_empty() {
        pod["imagePullSecrets"] = json!(spec.image_pull_secrets);
    }
    if !spec.node_selector.is_empty() {
        pod["nodeSelector"] = json!(spec.node_selector);
    }
    if !spec.tolerations.is_empty() {
        pod["tolerations"] = json!(spec.tolerations);
    }
    // Also for one pod: a change of the number alone must not roll the pods.
    let spread = |key: &str| {
        json!({
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": selector(meta)},
        })
    };
    pod["topologySpreadConstraints"] = json!([spread("kubernetes.io/hostname"), spread("topology.kubernetes.io/zone")]);
    let mut annotations = json!({CHECKSUM: hash});
    if let Some(at) = meta.annotations.get(RESTARTED).filter(|at| !at.is_empty()) {
        annotations[RESTARTED] = json!(at);
    }
    if generation > 0 {
        annotations[GENERATION] = json!(generation.to_string());
    }
    let mut whole = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta.child(Kind::Executor, &names.deployment, &labels(meta)),
        "spec": {
            "selector": {"matchLabels": selector(meta)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "progressDeadlineSeconds": 600,
            "revisionHistoryLimit": 3,
            "template": {
                "metadata": {"labels": labels(meta), "annotations": annotations},
                "spec": pod,
            },
        },
    });
    let template = sha256_hex(canonical(&whole).as_bytes(), 32);
    whole["metadata"]["annotations"] = json!({TEMPLATE_HASH: template});
    whole["spec"]["replicas"] = json!(spec.replicas);
    marked(whole)
}

fn security(profile: SecurityProfile) -> Value {
    let mut pod = secure::pod(profile);
    pod["fsGroup"] = json!(GROUP);
    if profile == SecurityProfile::Restricted {
        pod["runAsUser"] = json!(GROUP);
    }
    pod
}

fn container(spec: &ExecutorSpec, profile: SecurityProfile) -> Value {
    let probe = |path: &str, delay: u32, period: u32| json!({"httpGet": {"path": path, "port": 8080, "scheme": "HTTP"}, "initialDelaySeconds": delay, "periodSeconds": period});
    let mut container = json!({
        "name": CONTAINER,
        "image": spec.image,
        "imagePullPolicy": spec.image_pull_policy,
        "args": ["--config=/etc/hourglass/executor-config.yaml"],
        "ports": [
            {"name": "grpc", "containerPort": 9090, "protocol": "TCP"},
            {"name": "health", "containerPort": 8080, "protocol": "TCP"},
        ],
        "livenessProbe": probe("/healthz", 30, 10),
        "readinessProbe": probe("/readyz", 5, 5),
        "securityContext": secure::container(profile),
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/hourglass", "readOnly": true},
            {"name": "keys", "mountPath": KEYS, "readOnly": true},
            secure::scratch().1,
        ],
    });
    if let Some(resources) = &spec.resources {
        container["resources"] = resources.clone();
    }
    container
}

fn volumes(spec: &ExecutorSpec, names: &Names, hidden: bool) -> Value {
    let items: Vec<Value> = FILES.into_iter().map(|name| json!({"key": name, "path": name})).collect();
    let config = if hidden {
        json!({"name": "config", "secret": {"secretName": names.secrets, "items": items}})
    } else {
        json!({"name": "config", "configMap": {"name": names.config, "items": items}})
    };
    let keys = match (&spec.config.operator_keys, &spec.config.operator_keys_secret_ref) {
        (Some(keys), _) if !keys.is_empty() => {
            let item = |name: &String| json!({"key": format!("{PREFIX}{name}"), "path": name, "mode": 0o440});
            let items: Vec<Value> = keys.keys().map(item).collect();
            json!({"name": "keys", "secret": {"secretName": names.secrets, "items": items}})
        }
        (None, Some(secret)) => json!({"name": "keys", "secret": {"secretName": secret.name, "defaultMode": 0o440}}),
        // Without keys there is no Secret for them, and of one for addresses nothing belongs here.
        (_, _) => json!({"name": "keys", "emptyDir": {}}),
    };
    json!([config, keys, secure::scratch().0])
}
