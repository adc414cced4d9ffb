//! Children of a performer as objects. Owns what they look like; equal specs give equal objects.

use std::collections::BTreeMap;

use orlop_core::hardware::gpu::Allocation;
use orlop_core::hardware::placement::Note;
use orlop_core::hardware::table::LabelFamily;
use orlop_core::hardware::{HardwareError, Merged, Resolved, resolve};
use serde_json::{Value, json};

use super::normal::NormalSpec;
use super::{ALLOCATION, CONTAINER, INCARNATION, PERFORMER, SPEC_HASH, SWITCHED_AT, SWITCHED_FROM};
use crate::api::Kind;
use crate::hardware::{TranslateError, allocation, claim_template, translate};
use crate::hourglass::children::Meta;
use crate::hourglass::cluster::Cluster;
use crate::hourglass::drift::marked;
use crate::hourglass::reference::GENERATION;
use crate::hourglass::spec::{EnvironmentVariable, PerformerConfig, Probe, ProbeTimes, SecurityProfile};
use crate::hourglass::{Config, RESTARTED, names, secure};

/// Why a spec has no pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// `InvalidSpec`, or `Conflict` where the parts of the spec contradict each other.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

impl From<HardwareError> for Invalid {
    fn from(error: HardwareError) -> Self {
        let conflict = matches!(
            error,
            HardwareError::LabelConflict { .. }
                | HardwareError::ResourceConflict { .. }
                | HardwareError::RuntimeClassConflict { .. }
                | HardwareError::UnsatisfiableAffinity
        );
        let reason = if conflict { "Conflict" } else { "InvalidSpec" };
        Self { reason, message: format!("{error}; {}", error.help()) }
    }
}

impl From<TranslateError> for Invalid {
    fn from(error: TranslateError) -> Self {
        match error {
            TranslateError::Hardware(error) => error.into(),
            TranslateError::Pod(error) => Self { reason: "InvalidSpec", message: error.to_string() },
        }
    }
}

/// A spec with everything that follows from it.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// The spec.
    pub spec: NormalSpec,
    /// Its hash.
    pub hash: String,
    /// The pod's spec.
    pod: Value,
    /// What is asked of a node.
    pub merged: Merged,
    /// Whether special hardware is asked for.
    pub special: bool,
    /// How devices are asked for; none where none are.
    pub allocation: Option<Allocation>,
    /// What is to be known of a device that is asked for by its exact name.
    pub named: Option<String>,
    /// Whose labels tell of the devices; none where none are asked for.
    pub families: Vec<LabelFamily>,
}

/// Renders a spec. `kept` is how devices were asked for before, which holds until the spec changes.
///
/// # Errors
/// Why it has no pod.
pub(super) fn render(
    spec: NormalSpec,
    meta: &Meta,
    config: &Config,
    cluster: &Cluster,
    kept: Option<Allocation>,
) -> Result<Rendered, Invalid> {
    check_probes(&spec.config)?;
    let hash = spec.hash();
    let mut resolved = match &spec.hardware_requirements {
        Some(desired) => resolve(&desired.requirements(&config.tables)?, &config.tables)?,
        None => Resolved::default(),
    };
    let special = resolved != Resolved::default();
    // What nodes bear adds ways to say a need; what is running keeps the way it was made by.
    let words = config.words.on(cluster.machines());
    if let Some(gpu) = &mut resolved.gpu {
        let decided = || allocation(gpu, &words, &cluster.devices, &cluster.hosts());
        gpu.allocation = match gpu.allocation {
            Allocation::Auto => kept.unwrap_or_else(decided),
            said => said,
        };
    }
    let allocation = resolved.gpu.as_ref().map(|gpu| gpu.allocation);
    let named = resolved.gpu.as_ref().and_then(|gpu| config.tables.catalogue.remark(&gpu.kind));
    let plain = pod_spec(&spec, spec.security_profile.unwrap_or(config.security));
    let (pod, merged) = translate(&plain, CONTAINER, &resolved, &words, &template_name(meta, &hash))?;
    let families = resolved.gpu.iter().flat_map(|_| words.families()).collect();
    Ok(Rendered { spec, hash, pod, merged, special, allocation, named, families })
}

impl Rendered {
    /// What the user should know of the translation.
    #[must_use]
    pub fn notes(&self) -> Vec<Note> {
        self.merged.notes.iter().copied().collect()
    }

    /// What is asked of a node once the runtime class, where it exists, has added what it asks for.
    ///
    /// # Errors
    /// The class asks for other nodes than the spec.
    pub fn under(&self, cluster: &Cluster) -> Result<Merged, Invalid> {
        let merged = self.merged.clone();
        let class =
            merged.runtime_class.as_ref().and_then(|name| Some((name, cluster.runtime_classes.as_ref()?.get(name)?)));
        let Some((name, class)) = class else { return Ok(merged) };
        merged.clone().under(class).map_err(|error| match error {
            HardwareError::LabelConflict { key, user, generated } => Invalid {
                reason: "Conflict",
                message: format!(
                    "runtime class `{name}` runs on nodes with {key}={generated}, but the spec asks for {key}={user}; remove \
                     the selector, or name another runtime class"
                ),
            },
            error => error.into(),
        })
    }

    /// The pod of a number.
    #[must_use]
    pub fn pod(&self, meta: &Meta, number: u32) -> Value {
        let name = names::incarnation(&meta.name, &meta.uid, number);
        let mut labels = labels(meta, &self.spec.avs_address);
        labels.insert(INCARNATION.to_owned(), number.to_string());
        let mut metadata = meta.child(Kind::Performer, &name, &labels);
        metadata["annotations"] = self.pod_annotations();
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": self.pod})
    }

    /// Annotations of its pods, also of those that are adopted.
    pub(super) fn pod_annotations(&self) -> Value {
        let mut annotations = json!({ADDRESS: self.spec.avs_address, SPEC_HASH: self.hash});
        if let Some(at) = &self.spec.restarted_at {
            annotations[RESTARTED] = json!(at);
        }
        if self.spec.reference_generation > 0 {
            annotations[GENERATION] = json!(self.spec.reference_generation.to_string());
        }
        annotations
    }

    /// The revision that keeps this spec.
    #[must_use]
    pub fn revision(&self, meta: &Meta) -> Value {
        let mut metadata =
            meta.child(Kind::Performer, &revision_name(meta, &self.hash), &labels(meta, &self.spec.avs_address));
        metadata["annotations"] = json!({SPEC_HASH: self.hash});
        if let Some(allocation) = self.allocation {
            metadata["annotations"][ALLOCATION] = json!(allocation.to_string());
        }
        let data = serde_json::to_value(&self.spec).unwrap_or_default();
        json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata, "revision": 1, "data": data})
    }

    /// The template of its claims; none where it makes none.
    #[must_use]
    pub fn template(&self, meta: &Meta, cluster: &Cluster) -> Option<Value> {
        let version = cluster.devices.version().unwrap_or("v1");
        let name = template_name(meta, &self.hash);
        let mut template = claim_template(&self.merged, &name, &meta.namespace, version)?;
        let mut metadata = meta.child(Kind::Performer, &name, &labels(meta, &self.spec.avs_address));
        metadata["annotations"] = json!({SPEC_HASH: self.hash});
        template["metadata"] = metadata;
        Some(template)
    }
}

/// The fields of a Service that follow from the pod behind it.
#[derive(Clone, Debug)]
pub(super) struct ServiceSpec {
    /// The port, of the pod as of the Service.
    pub(super) port: i32,
    /// Whether the pod has given it its name.
    pub(super) named: bool,
    /// The address of the service that is performed.
    pub(super) address: String,
}

impl ServiceSpec {
    /// That of a spec.
    pub(super) fn of(spec: &NormalSpec) -> Self {
        Self { port: spec.config.grpc_port, named: true, address: spec.avs_address.clone() }
    }

    /// The Service before the pod of a number. Whoever drains is named in it, so that one write switches all of it.
    pub(super) fn service(&self, meta: &Meta, number: u32, switched: &BTreeMap<&'static str, String>) -> Value {
        let mut metadata =
            meta.child(Kind::Performer, &names::service(CONTAINER, &meta.name), &labels(meta, &self.address));
        metadata["annotations"] = json!(switched);
        let target = if self.named { json!("grpc") } else { json!(self.port) };
        marked(json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {
                "type": "ClusterIP",
                "selector": {PERFORMER: names::label_value(&meta.name), INCARNATION: number.to_string()},
                "ports": [{"name": "grpc", "port": self.port, "protocol": "TCP", "targetPort": target}],
            },
        }))
    }
}

/// Annotation of pods: the address of the service as it was written.
pub(super) const ADDRESS: &str = "hourglass.eigenlayer.io/avs-address";

fn labels(meta: &Meta, address: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([
        ("app".to_owned(), "hourglass-performer".to_owned()),
        (PERFORMER.to_owned(), names::label_value(&meta.name)),
    ]);
    labels.extend(names::address_value(address).map(|value| ("hourglass.eigenlayer.io/avs".to_owned(), value)));
    labels
}

/// Name of the revision of a hash.
pub(super) fn revision_name(meta: &Meta, hash: &str) -> String {
    let short: String = hash.chars().take(10).collect();
    format!("performer-{}-{short}", names::base(&meta.name))
}

fn template_name(meta: &Meta, hash: &str) -> String {
    let short: String = hash.chars().take(8).collect();
    format!("performer-{}-{short}", names::base(&meta.name))
}

/// What the Service says about its last switch.
pub(super) fn switched(at: Option<String>, from: Option<u32>) -> BTreeMap<&'static str, String> {
    let at = at.map(|at| (SWITCHED_AT, at));
    at.into_iter().chain(from.map(|from| (SWITCHED_FROM, from.to_string()))).collect()
}

/// The pod before its hardware.
fn pod_spec(spec: &NormalSpec, profile: SecurityProfile) -> Value {
    let mut pod = json!({
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "automountServiceAccountToken": spec.config.service_account_name.is_some(),
        "securityContext": secure::pod(profile),
        "containers": [container(spec, profile)],
    });
    let Some(members) = pod.as_object_mut() else { return pod };
    let mut set = |name: &str, value: Value| drop(members.insert(name.to_owned(), value));
    if profile == SecurityProfile::Restricted {
        set("volumes", json!([secure::scratch().0]));
    }
    if !spec.image_pull_secrets.is_empty() {
        set("imagePullSecrets", json!(spec.image_pull_secrets));
    }
    if let Some(account) = &spec.config.service_account_name {
        set("serviceAccountName", json!(account));
    }
    let scheduling = &spec.scheduling;
    if !scheduling.node_selector.is_empty() {
        set("nodeSelector", json!(scheduling.node_selector));
    }
    if !scheduling.tolerations.is_empty() {
        set("tolerations", json!(scheduling.tolerations));
    }
    let texts =
        [("runtimeClassName", &scheduling.runtime_class), ("priorityClassName", &scheduling.priority_class_name)];
    for (name, text) in texts {
        if let Some(text) = text {
            set(name, json!(text));
        }
    }
    if let Some(affinity) = &scheduling.affinity {
        set("affinity", affinity.clone());
    }
    pod
}

fn container(spec: &NormalSpec, profile: SecurityProfile) -> Value {
    let config = &spec.config;
    let mut container = json!({
        "name": CONTAINER,
        "image": spec.image,
        "imagePullPolicy": spec.image_pull_policy,
        "ports": [{"name": "grpc", "containerPort": config.grpc_port, "protocol": "TCP"}],
        "securityContext": secure::container(profile),
    });
    let Some(members) = container.as_object_mut() else { return container };
    let mut set = |name: &str, value: Value| drop(members.insert(name.to_owned(), value));
    if profile == SecurityProfile::Restricted {
        set("volumeMounts", json!([secure::scratch().1]));
    }
    for (name, list) in [("command", &config.command), ("args", &config.args)] {
        if !list.is_empty() {
            set(name, json!(list));
        }
    }
    let env = environment(config.environment.iter(), &config.environment_from);
    if !env.is_empty() {
        set("env", Value::Array(env));
    }
    if let Some(resources) = &spec.resources {
        set("resources", resources.clone());
    }
    for (name, probe) in probes(config) {
        set(name, probe);
    }
    container
}

/// The probes of a container: until it listens nothing else is asked, so that it may load for as long as it needs.
fn probes(config: &PerformerConfig) -> Vec<(&'static str, Value)> {
    let (port, own) = (config.grpc_port, &config.probes);
    let tcp = || json!({"tcpSocket": {"port": port}});
    let readiness = |ask| ("readinessProbe", timed(ask, own.readiness.as_ref(), usual(5, 2, 3)));
    let ask = match config.probe {
        Probe::Grpc => json!({"grpc": {"port": port}}),
        Probe::Tcp => tcp(),
        // A switch waits for readiness.
        Probe::None => return vec![readiness(tcp())],
    };
    let startup = timed(ask.clone(), own.startup.as_ref(), usual(2, 2, 300));
    let liveness = timed(ask.clone(), own.liveness.as_ref(), usual(10, 5, 3));
    vec![("startupProbe", startup), ("livenessProbe", liveness), readiness(ask)]
}

fn usual(period: i32, timeout: i32, failures: i32) -> ProbeTimes {
    ProbeTimes {
        period_seconds: Some(period),
        timeout_seconds: Some(timeout),
        failure_threshold: Some(failures),
        ..ProbeTimes::default()
    }
}

/// A probe with its times: the usual ones where the spec names no others.
fn timed(mut probe: Value, own: Option<&ProbeTimes>, usual: ProbeTimes) -> Value {
    let own = own.cloned().unwrap_or_default();
    let times = [
        ("initialDelaySeconds", own.initial_delay_seconds),
        ("periodSeconds", own.period_seconds.or(usual.period_seconds)),
        ("timeoutSeconds", own.timeout_seconds.or(usual.timeout_seconds)),
        ("failureThreshold", own.failure_threshold.or(usual.failure_threshold)),
        ("successThreshold", own.success_threshold),
    ];
    for (name, time) in times.into_iter().filter_map(|(name, time)| Some((name, time?))) {
        probe[name] = json!(time);
    }
    probe
}

/// Kubernetes takes more than one success for readiness alone.
fn check_probes(config: &PerformerConfig) -> Result<(), Invalid> {
    let probes = [("startup", &config.probes.startup), ("liveness", &config.probes.liveness)];
    for (name, times) in probes {
        if let Some(found) = times.as_ref().and_then(|times| times.success_threshold).filter(|found| *found != 1) {
            let message = format!("config.probes.{name}.successThreshold is {found}; it can only be 1, or be left out");
            return Err(Invalid { reason: "InvalidSpec", message });
        }
    }
    Ok(())
}

/// Variables by name, then those from elsewhere by name; one entry per name.
fn environment<'e>(plain: impl Iterator<Item = (&'e String, &'e String)>, from: &[EnvironmentVariable]) -> Vec<Value> {
    let mut from: Vec<&EnvironmentVariable> = from.iter().collect();
    from.sort_by(|a, b| a.name.cmp(&b.name));
    from.dedup_by(|a, b| a.name == b.name);
    let taken = |name: &str| from.iter().any(|variable| variable.name == name);
    let plain = plain.filter(|(name, _)| !taken(name));
    let plain = plain.map(|(name, value)| json!({"name": name, "value": value}));
    plain.chain(from.iter().map(|variable| json!(variable))).collect()
}

/// Names that are both in the environment and taken from elsewhere.
pub(super) fn duplicates(spec: &NormalSpec) -> Vec<&str> {
    let from = spec.config.environment_from.iter().map(|variable| variable.name.as_str());
    from.filter(|name| spec.config.environment.contains_key(*name)).collect()
}
