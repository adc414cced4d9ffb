//! A need on every substrate: what it becomes there, or why it cannot.

use orlop_cloud::openstack::hardware::{Candidate, SiteNode, survey};
use orlop_core::hardware::fleet::{FleetNeed, demand};
use orlop_core::hardware::merge::Merged;
use orlop_core::hardware::placement::{LabelExpr, Note, Placement};
use orlop_core::hardware::table::LabelFamily;
use orlop_core::hardware::{
    HardwareError, HardwareInput, MachineFit, Resolved, Resources, Substrate, Tables, Vocabulary, place,
};
use orlop_core::resource::{Bytes, CpuMilli, ResourceVector};
use orlop_k8s::hardware::{Node, allocation, claim_template, translate};
use serde::Serialize;
use serde_json::Value;

use super::hosts::Inventory;
use super::nodes::Cluster;
use super::request::{CONTAINER, Request};

/// The name of a claim's template in answers.
const CLAIM: &str = "need-gpu";

/// Why a substrate cannot serve a need.
#[derive(Debug, Serialize)]
pub(super) struct Refusal {
    pub(super) error: String,
    pub(super) help: String,
}

impl From<HardwareError> for Refusal {
    fn from(error: HardwareError) -> Self {
        Self { help: error.help().to_owned(), error: error.to_string() }
    }
}

/// What a need becomes on a substrate, or why it cannot.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Translation<T> {
    Becomes(T),
    Refused(Refusal),
}

impl<T> From<Result<T, HardwareError>> for Translation<T> {
    fn from(result: Result<T, HardwareError>) -> Self {
        result.map_or_else(|error| Self::Refused(error.into()), Self::Becomes)
    }
}

/// A pod and its claim.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pod {
    pub(super) pod: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) claim_template: Option<Value>,
    pub(super) notes: Vec<Note>,
    /// Whose labels tell of devices, on the nodes that are given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) label_families: Vec<LabelFamily>,
}

/// What is looked for on a site's catalogue, and the filters of reservations where its hosts are known.
#[derive(Debug, Serialize)]
pub(super) struct Site {
    pub(super) placement: Placement,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) reserve: Vec<Candidate>,
}

/// Machines that a need is held against.
#[derive(Debug, Default)]
pub(super) struct Machines {
    pub(super) cluster: Option<Cluster>,
    pub(super) site: Option<Vec<SiteNode>>,
    pub(super) docker: Option<Inventory>,
}

/// What a worker must be, and what of it a job can say.
#[derive(Debug, Serialize)]
pub(super) struct Fleet {
    pub(super) placement: Placement,
    pub(super) job: Translation<FleetNeed>,
}

/// What is said of one node, or of one host of a site.
#[derive(Debug, Serialize)]
pub(super) struct NodeVerdict {
    pub(super) name: String,
    pub(super) fits: bool,
    pub(super) reasons: Vec<NodeReason>,
}

/// A dimension in which a node does not fit.
#[derive(Debug, Serialize)]
pub(super) struct NodeReason {
    pub(super) dimension: String,
    pub(super) message: String,
}

/// The whole answer.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    pub(super) asked: HardwareInput,
    pub(super) resolved: Resolved,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<String>,
    pub(super) kubernetes: Translation<Pod>,
    pub(super) openstack: Translation<Site>,
    pub(super) docker: Translation<Value>,
    pub(super) fleet: Translation<Fleet>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nodes: Option<Vec<NodeVerdict>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hosts: Option<Vec<NodeVerdict>>,
}

impl Answer {
    /// Those that were judged: nodes of a cluster, hosts of a site.
    pub(super) fn judged(&self) -> impl Iterator<Item = &Vec<NodeVerdict>> {
        self.nodes.iter().chain(&self.hosts)
    }
}

/// Tells what a request becomes, and which machines fit.
pub(super) fn tell(request: &Request, tables: &Tables, machines: &Machines) -> Answer {
    let resolved = &request.resolved;
    let resources = plain(&request.pod);
    let words = |substrate| tables.vocabulary(substrate);
    let all_words = words(Substrate::Kubernetes);
    let cluster_words =
        all_words.on(machines.cluster.iter().flat_map(|cluster| &cluster.nodes).map(|node| &node.machine));
    let chosen = chosen(resolved, &cluster_words, machines.cluster.as_ref());
    let translated = translate(&request.pod, CONTAINER, &chosen, &cluster_words, CLAIM);
    let nodes = match (&translated, &machines.cluster) {
        (_, None) => None,
        (Ok((_, merged)), Some(cluster)) => Some(judge(merged, cluster)),
        (Err(_), Some(_)) => Some(Vec::new()),
    };
    let version = machines.cluster.as_ref().and_then(|cluster| cluster.devices.version()).unwrap_or("v1");
    let kubernetes = match translated {
        Ok((pod, merged)) => Translation::Becomes(Pod {
            claim_template: claim_template(&merged, CLAIM, "default", version),
            notes: merged.notes.iter().copied().collect(),
            label_families: chosen.gpu.iter().flat_map(|_| cluster_words.families()).collect(),
            pod,
        }),
        Err(orlop_k8s::hardware::TranslateError::Hardware(error)) => Translation::Refused(error.into()),
        Err(other) => Translation::Refused(Refusal { error: other.to_string(), help: "correct the field".to_owned() }),
    };
    let placed = place(resolved, &resources, &words(Substrate::OpenStack));
    let (openstack, hosts) = match (placed, &machines.site) {
        (Ok(placement), None) => (Ok(Site { placement, reserve: Vec::new() }), None),
        (Ok(placement), Some(site)) => match survey(resolved, &resources, tables, site) {
            Ok(choice) => {
                let hosts = site.iter().map(|host| judged(host, &choice.verdicts)).collect();
                (Ok(Site { placement, reserve: choice.candidates }), Some(hosts))
            }
            Err(error) => (Err(error), Some(Vec::new())),
        },
        (Err(error), site) => (Err(error), site.as_ref().map(|_| Vec::new())),
    };
    let fleet = place(resolved, &resources, &words(Substrate::Fleet))
        .map(|placement| Fleet { placement, job: demand(resolved, &resources).into() });
    Answer {
        asked: request.input.clone(),
        resolved: resolved.clone(),
        warnings: resolved.gpu.iter().filter_map(|gpu| tables.catalogue.remark(&gpu.kind)).collect(),
        kubernetes,
        openstack: openstack.into(),
        docker: docker(resolved, &resources, tables, machines.docker.as_ref()),
        fleet: fleet.into(),
        nodes,
        hosts,
    }
}

#[cfg(feature = "docker")]
fn docker(resolved: &Resolved, resources: &Resources, tables: &Tables, host: Option<&Inventory>) -> Translation<Value> {
    let config = orlop_cloud::runtime::docker::hardware::host_config(resolved, resources, tables, host);
    config.map(|config| serde_json::to_value(config).unwrap_or_default()).into()
}

#[cfg(not(feature = "docker"))]
fn docker(
    _resolved: &Resolved,
    _resources: &Resources,
    _tables: &Tables,
    _host: Option<&Inventory>,
) -> Translation<Value> {
    let error = "Docker is not in this build".to_owned();
    Translation::Refused(Refusal { error, help: format!("build it with `{}`", crate::features::install("docker")) })
}

/// Plain resources of the pod's container.
fn plain(pod: &Value) -> Resources {
    let Ok(user) = orlop_k8s::hardware::read(pod, CONTAINER) else { return Resources::default() };
    let asked = user.limits.larger_of(&user.requests);
    let mut extended = ResourceVector::new();
    for (name, amount) in asked.iter().filter(|(name, _)| name.as_str().contains('/')) {
        extended.set(name.clone(), amount);
    }
    Resources {
        cpu_milli: CpuMilli(asked.cpu().0),
        memory_bytes: Bytes(asked.memory().0),
        disk_bytes: Bytes(asked.get(orlop_core::resource::EPHEMERAL_STORAGE)),
        extended,
    }
}

/// A need with the choice an operator would make in a cluster, where it is left open how devices are asked for.
fn chosen(resolved: &Resolved, words: &Vocabulary, cluster: Option<&Cluster>) -> Resolved {
    let mut chosen = resolved.clone();
    if let (Some(gpu), Some(cluster)) = (&mut chosen.gpu, cluster) {
        gpu.allocation = allocation(gpu, words, &cluster.devices, &cluster.nodes);
    }
    chosen
}

fn judge(merged: &Merged, cluster: &Cluster) -> Vec<NodeVerdict> {
    let known = cluster.classes.as_ref();
    let class = merged.runtime_class.as_ref().and_then(|class| known?.get(class));
    let under = class.map_or_else(|| Ok(merged.clone()), |class| merged.clone().under(class));
    // What does not exist in a cluster is on none of its nodes.
    let mut missing = Vec::new();
    if let (Some(name), Some(_), None) = (&merged.runtime_class, known, class) {
        missing.push(("RuntimeClass", format!("runtime class `{name}` does not exist; install it")));
    }
    let classes = cluster.devices.classes.as_ref();
    if let Some(claim) = merged.claims.first().filter(|claim| classes.is_some_and(|all| !all.contains(&claim.class))) {
        missing.push(("DeviceClass", format!("device class `{}` does not exist; install its driver", claim.class)));
    }
    let one = |node: &Node| {
        let mut one = verdict_on(node, under.as_ref());
        one.reasons.extend(missing.iter().map(|(dimension, message)| reason(dimension, message.clone())));
        one.fits = one.reasons.is_empty();
        one
    };
    cluster.nodes.iter().map(one).collect()
}

fn reason(dimension: &str, message: String) -> NodeReason {
    NodeReason { dimension: dimension.to_owned(), message }
}

fn failures(verdict: &MachineFit) -> impl Iterator<Item = NodeReason> {
    verdict.failures.iter().map(|failure| reason(failure.dimension(), failure.to_string()))
}

/// What is said of a host, by the verdict on it.
fn judged(host: &SiteNode, verdicts: &[MachineFit]) -> NodeVerdict {
    let verdict = verdicts.iter().find(|verdict| verdict.machine == host.uid);
    let reasons: Vec<NodeReason> = match verdict {
        Some(verdict) => failures(verdict).collect(),
        None => vec![reason("Reservable", "cannot be reserved".to_owned())],
    };
    NodeVerdict { name: host.uid.clone(), fits: reasons.is_empty(), reasons }
}

fn verdict_on(node: &Node, merged: Result<&Merged, &HardwareError>) -> NodeVerdict {
    let mut reasons = Vec::new();
    if !node.ready {
        reasons.push(reason("Ready", "is not ready".to_owned()));
    }
    if !node.schedulable {
        reasons.push(reason("Schedulable", "is cordoned".to_owned()));
    }
    match merged.map(|merged| merged.check(&node.machine)) {
        Ok(verdict) => reasons.extend(failures(&verdict)),
        Err(error) => reasons.push(reason("RuntimeClass", error.to_string())),
    }
    NodeVerdict { name: node.machine.name.clone(), fits: reasons.is_empty(), reasons }
}

/// Conditions of a placement as people read them.
pub(super) fn conditions(placement: &Placement) -> Vec<String> {
    let arch: Vec<String> = placement.arch.iter().map(LabelExpr::to_string).collect();
    arch.into_iter().chain(placement.required.iter().map(ToString::to_string)).collect()
}
