//! An observation sorted by what the rules ask: which pods are whose, what is wanted, what the Service selects.
//! Owns these readings; decides nothing.

use std::borrow::Cow;

use orlop_core::hardware::gpu::Allocation;
use orlop_core::time::Time;
use serde_json::Value;

use super::normal::NormalSpec;
use super::observe::{Observation, number};
use super::render::{ADDRESS, Invalid, Rendered, ServiceSpec, render, revision_name};
use super::{ALLOCATION, INCARNATION, PERFORMER, RETRY, SPEC_HASH, SWITCHED_AT, SWITCHED_FROM};
use crate::api::Kind;
use crate::hourglass::children::is_terminating;
use crate::hourglass::pod::Pod;
use crate::hourglass::reference::{GENERATION, follow};
use crate::hourglass::spec::{ExecutorSpec, PerformerStatus, Reference, Upgrade};
use crate::hourglass::{Config, MANAGER, RESTARTED, names, plan::Failure};
use crate::value::{item, items, text, texts, word};

/// The hash of a pod whose spec nobody knows.
pub(super) const UNKNOWN: &str = "unknown";

/// A pod that this performer owns.
#[derive(Clone, Debug)]
pub(super) struct ChildPod<'a> {
    pub(super) number: u32,
    pub(super) hash: String,
    pub(super) pod: Pod<'a>,
}

/// An image that is not the one of a pod's spec.
pub(super) struct ChangedImage<'a> {
    pub(super) image: String,
    /// The client that has put it there.
    pub(super) by: &'a str,
}

/// The Service of the performer, as it was observed.
#[derive(Clone, Debug, Default)]
pub(super) struct ServiceState<'a> {
    /// The Service, where it is ours and stays.
    pub(super) object: Option<&'a Value>,
    /// Whether the name is held by one that is on its way out.
    pub(super) terminating: bool,
    /// Whether it belongs to another owner.
    pub(super) foreign: bool,
    /// The number it selects.
    pub(super) selects: Option<u32>,
    pub(super) switched_at: Option<Time>,
    pub(super) switched_from: Option<u32>,
}

/// See the module.
pub(super) struct Facts<'a> {
    pub(super) obs: &'a Observation,
    pub(super) config: &'a Config,
    pub(super) now: Time,
    /// Pods of this performer with a number, highest last.
    pub(super) pods: Vec<ChildPod<'a>>,
    /// Pods of this performer without one.
    pub(super) unlabelled: Vec<Pod<'a>>,
    pub(super) service: ServiceState<'a>,
    /// What the spec asks for.
    pub(super) desired: Result<Rendered, Invalid>,
    /// The status with what follows from a spec that has changed.
    pub(super) status: PerformerStatus,
}

impl<'a> Facts<'a> {
    pub(super) fn of(obs: &'a Observation, config: &'a Config, now: Time) -> Self {
        let mut pods = Vec::new();
        let mut unlabelled = Vec::new();
        for object in obs.pods.iter().filter(|pod| obs.meta.owns(pod)) {
            let pod = Pod::of(object, &obs.cluster, now);
            let hash = texts(object, "/metadata/annotations").remove(SPEC_HASH).unwrap_or_else(|| UNKNOWN.to_owned());
            match number(object) {
                Some(number) => pods.push(ChildPod { number, hash, pod }),
                None => unlabelled.push(pod),
            }
        }
        pods.sort_by_key(|child| child.number);
        let desired = desired(obs, config);
        let status = status(obs, desired.as_ref().ok());
        Self { obs, config, now, pods, unlabelled, service: service_state(obs), desired, status }
    }

    /// How upgrades go.
    pub(super) fn upgrade(&self) -> Upgrade {
        self.obs.spec.as_ref().map(|spec| spec.upgrade.clone()).unwrap_or_default()
    }

    /// What went wrong last.
    pub(super) fn last_failure(&self) -> Option<&Failure> {
        self.obs.last_failure.as_ref()
    }

    /// Whether the server has refused to take a child of a kind, and it is not time yet to ask again.
    pub(super) fn is_refused(&self, kind: Kind) -> bool {
        self.last_failure().and_then(|failure| failure.at.as_ref()).is_some_and(|at| at.kind == kind)
    }

    /// A pod by its number.
    pub(super) fn pod(&self, number: u32) -> Option<&ChildPod<'a>> {
        self.pods.iter().find(|child| child.number == number)
    }

    /// The spec of a hash: what is asked for, or what a revision keeps.
    pub(super) fn rendered(&self, hash: &str) -> Option<Rendered> {
        if let Some(desired) = self.desired.as_ref().ok().filter(|desired| desired.hash == hash) {
            return Some(desired.clone());
        }
        let (revision, spec) = self.kept(hash)?;
        render(spec, &self.obs.meta, self.config, &self.obs.cluster, kept(revision)).ok()
    }

    /// What the Service before a pod says of it: as its spec does, also where that has no pod any more, or as the pod itself
    /// where nobody knows its spec.
    pub(super) fn service_spec(&self, hash: &str, pod: Option<&ChildPod<'_>>) -> Option<ServiceSpec> {
        if let Some(spec) = self.spec(hash) {
            return Some(ServiceSpec::of(&spec));
        }
        let spec = self.obs.spec.as_ref().ok();
        let container = item(pod?.pod.object, "/spec/containers", "name", super::CONTAINER);
        let named = container.and_then(|container| item(container, "/ports", "name", "grpc"));
        let own = named.and_then(|port| port.get("containerPort")?.as_i64()).and_then(|port| i32::try_from(port).ok());
        let address = texts(pod?.pod.object, "/metadata/annotations").remove(ADDRESS);
        Some(ServiceSpec {
            port: own.or_else(|| Some(spec?.config.grpc_port))?,
            named: own.is_some(),
            address: address.or_else(|| Some(spec?.avs_address.clone())).unwrap_or_default(),
        })
    }

    /// The spec of a hash as it was written.
    fn spec(&self, hash: &str) -> Option<Cow<'_, NormalSpec>> {
        match &self.desired {
            Ok(desired) if desired.hash == hash => Some(Cow::Borrowed(&desired.spec)),
            _ => self.kept(hash).map(|(_, spec)| Cow::Owned(spec)),
        }
    }

    /// The image of the spec that a pod was made of.
    pub(super) fn spec_image(&self, child: &ChildPod<'_>) -> Option<String> {
        self.spec(&child.hash).map(|spec| spec.image.clone())
    }

    /// The image of a pod, where another client has put it in place of the one of its spec; who that was. What admission makes of
    /// an image is not of another client: the server counts it to the one who has made the pod.
    pub(super) fn changed_image<'c>(&self, child: &ChildPod<'c>) -> Option<ChangedImage<'c>> {
        let image = image(child.pod.object);
        let mut managers = items(child.pod.object, "/metadata/managedFields").iter();
        let holds = |entry: &&Value| {
            let fields = "/fieldsV1/f:spec/f:containers/k:{\"name\":\"performer\"}/f:image";
            word(entry, "/manager") != MANAGER && entry.pointer(fields).is_some()
        };
        let by = managers.find(holds)?;
        let spec = self.spec_image(child)?;
        (image != spec).then(|| ChangedImage { image, by: word(by, "/manager") })
    }

    /// Why no connection to the Service, as it is stored, reaches a pod; none where one does.
    pub(super) fn misrouted(&self, child: &ChildPod<'_>) -> Option<String> {
        let service = self.service.object?;
        let (selector, labels) = (texts(service, "/spec/selector"), texts(child.pod.object, "/metadata/labels"));
        let matches = !selector.is_empty() && selector.iter().all(|(key, value)| labels.get(key) == Some(value));
        if !matches || word(service, "/spec/type") == "ExternalName" {
            return Some("the selector of the Service does not match the pod that serves".to_owned());
        }
        let port = i64::from(self.service_spec(&child.hash, Some(child))?.port);
        let containers = items(child.pod.object, "/spec/containers");
        let target = |service_port: &Value| match service_port.get("targetPort") {
            Some(Value::String(name)) => containers
                .iter()
                .find_map(|container| item(container, "/ports", "name", name)?.get("containerPort")?.as_i64()),
            Some(number) => number.as_i64(),
            None => service_port.get("port")?.as_i64(),
        };
        let leads =
            |known: &Value| known.get("port").and_then(Value::as_i64) == Some(port) && target(known) == Some(port);
        let reached = items(service, "/spec/ports").iter().any(leads);
        (!reached).then(|| format!("port {port} of the Service does not lead to port {port} of the pod that serves"))
    }

    /// What a revision keeps of a hash.
    fn kept(&self, hash: &str) -> Option<(&Value, NormalSpec)> {
        let is = |revision: &&Value| {
            self.obs.meta.owns(revision)
                && texts(revision, "/metadata/annotations").get(SPEC_HASH).is_some_and(|known| known == hash)
        };
        let revision = self.obs.revisions.iter().find(is)?;
        let spec: NormalSpec = serde_json::from_value(revision.get("data")?.clone()).ok()?;
        (spec.hash() == hash).then_some((revision, spec))
    }

    /// The last spec that served.
    pub(super) fn good(&self) -> Option<Rendered> {
        self.rendered(self.status.spec_hash.as_deref()?)
    }

    /// What is wanted: what is asked for, or the last good spec where that is invalid or has failed. Where nothing serves and
    /// nobody knows the last good spec, one that has failed is better than none.
    pub(super) fn wanted(&self) -> Option<Rendered> {
        self.wanted_unless(self.status.failed_spec_hash.as_ref())
    }

    /// The same where the spec of this hash has failed.
    pub(super) fn wanted_unless(&self, failed: Option<&String>) -> Option<Rendered> {
        match &self.desired {
            Ok(desired) if failed != Some(&desired.hash) => Some(desired.clone()),
            Ok(desired) if self.status.active.is_none() => self.good().or_else(|| Some(desired.clone())),
            _ => self.good(),
        }
    }

    /// Why nothing may be changed: what is asked for is invalid, or a name is another's.
    pub(super) fn invalid(&self) -> Option<Invalid> {
        if self.service.foreign {
            let name = names::service(super::CONTAINER, &self.obs.meta.name);
            let message =
                format!("Service `{name}` exists and belongs to another owner; delete it or rename this object");
            return Some(Invalid { reason: "Conflict", message });
        }
        if let Err(invalid) = &self.desired {
            return Some(invalid.clone());
        }
        let refused = self.last_failure().filter(|failure| failure.reason == "Conflict");
        refused.map(|failure| Invalid { reason: failure.reason, message: failure.message.clone() })
    }

    /// Whether the name of the next pod is held by another's.
    pub(super) fn name_is_taken(&self) -> bool {
        let name = names::incarnation(&self.obs.meta.name, &self.obs.meta.uid, self.obs.next_incarnation);
        self.obs.pods.iter().any(|pod| word(pod, "/metadata/name") == name && !self.obs.meta.owns(pod))
    }
}

fn desired(obs: &Observation, config: &Config) -> Result<Rendered, Invalid> {
    let spec = obs.spec.as_ref().map_err(|message| Invalid { reason: "InvalidSpec", message: message.clone() })?;
    let executor = obs.executor.as_ref().and_then(|executor| executor.get("spec"));
    let executor = executor.and_then(|spec| serde_json::from_value::<ExecutorSpec>(spec.clone()).ok());
    let defaults = executor.and_then(|executor| executor.config.kubernetes?.default_scheduling);
    let mut spec = NormalSpec::of(spec, defaults.as_ref());
    spec.restarted_at = obs.meta.annotations.get(RESTARTED).filter(|at| !at.is_empty()).cloned();
    spec.reference_generation = references(obs).1;
    let name = revision_name(&obs.meta, &spec.hash());
    let made = obs.revisions.iter().find(|known| obs.meta.owns(known) && word(known, "/metadata/name") == name);
    let same = obs.status.observed_generation == Some(obs.meta.generation);
    let said = || obs.status.allocation.as_deref().filter(|_| same).and_then(|text| text.parse().ok());
    let rendered = render(spec, &obs.meta, config, &obs.cluster, made.and_then(kept).or_else(said))?;
    // The server would refuse its pod.
    drop(rendered.under(&obs.cluster)?);
    Ok(rendered)
}

/// What is to be recorded of references, and how often they have changed: not less than pods know, so that a status that is lost
/// starts no pod.
fn references(obs: &Observation) -> (Vec<Reference>, u32) {
    let of_pod = |pod: &Value| texts(pod, "/metadata/annotations").get(GENERATION)?.parse::<u32>().ok();
    let known = obs.pods.iter().filter(|pod| obs.meta.owns(pod)).filter_map(of_pod).max().unwrap_or_default();
    follow(&obs.status.references, obs.status.reference_generation.max(known), &obs.references)
}

/// How the pods of a revision ask for devices: what was chosen for a spec holds for it.
fn kept(revision: &Value) -> Option<Allocation> {
    texts(revision, "/metadata/annotations").get(ALLOCATION)?.parse().ok()
}

fn status(obs: &Observation, desired: Option<&Rendered>) -> PerformerStatus {
    let mut known = obs.status.clone();
    if known.observed_generation != Some(obs.meta.generation) {
        // What failed was another spec.
        known.retry = None;
    }
    if let Some(failure) = &obs.last_failure {
        known.retry = failure.retry(known.retry.as_ref()).or(known.retry);
    }
    let again = obs.meta.annotations.get(RETRY) != known.failed_retry.as_ref();
    let other = desired.is_some_and(|desired| known.failed_spec_hash.as_ref() != Some(&desired.hash));
    if again || other {
        known.failed_spec_hash = None;
    }
    if known.failed_spec_hash.is_none() {
        known.failed_retry = None;
    }
    // It is not deleted: a deletion drains its pods from then on.
    known.drain_until = None;
    let named = obs.spec.as_ref().is_ok_and(|spec| spec.executor_ref.is_some());
    known.executor_missing = named && obs.executor.is_none();
    (known.references, known.reference_generation) = references(obs);
    if let Some(desired) = desired {
        known.allocation = desired.allocation.map(|allocation| allocation.to_string());
    }
    known
}

fn service_state(obs: &Observation) -> ServiceState<'_> {
    let Some(service) = &obs.service else { return ServiceState::default() };
    if !obs.meta.owns(service) {
        return ServiceState { foreign: true, ..ServiceState::default() };
    }
    if is_terminating(service) {
        return ServiceState { terminating: true, ..ServiceState::default() };
    }
    let selector = texts(service, "/spec/selector");
    let ours = selector.get(PERFORMER) == Some(&names::label_value(&obs.meta.name));
    let annotations = texts(service, "/metadata/annotations");
    ServiceState {
        object: Some(service),
        selects: selector.get(INCARNATION).filter(|_| ours).and_then(|number| number.parse().ok()),
        switched_at: annotations.get(SWITCHED_AT).and_then(|at| at.parse().ok()),
        switched_from: annotations.get(SWITCHED_FROM).and_then(|from| from.parse().ok()),
        ..ServiceState::default()
    }
}

/// The image of the container that performs, wherever it stands among others.
pub(super) fn image(pod: &Value) -> String {
    item(pod, "/spec/containers", "name", super::CONTAINER)
        .map(|container| text(container, "/image"))
        .unwrap_or_default()
}
