//! From a template that was read to the plan of one pod. Owns the filling in of environment, mounts and identity; makes
//! nothing on disk but missing directories of `subPath`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use orlop_core::attempt::AttemptKey;
use orlop_core::error::Problem;
use orlop_core::name::sha256_hex;
use orlop_core::quantity::Quantity;

use super::JobTemplate;
use super::container::ContainerTemplate;
use super::downward::PodFacts;
use super::env::{Environment, Missing, environment};
use super::request::{GPU, Machine};
use super::source::{Sources, Store};
use crate::runtime::pod::{ContainerPlan, PodKey, PodPlan, PullSecret};
use crate::runtime::volume::VolumeRoot;
use crate::runtime::volume::mount::mounts;
use crate::runtime::volume::prepare::secret_files;

/// Label that tells a pod the name of its Job.
const JOB_NAME: &str = "batch.kubernetes.io/job-name";
/// Label and annotation that tell a pod its completion index.
const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Who a pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodIdentity {
    /// Which pod.
    pub key: PodKey,
    /// Its name: the Job's, for later pods with a suffix.
    pub name: String,
    /// Namespace of the flow.
    pub namespace: String,
    /// Its unique id, a function of the key.
    pub uid: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its completion index, of an indexed Job.
    pub index: Option<u32>,
}

impl PodIdentity {
    /// Who pod `key` of a Job is.
    #[must_use]
    pub fn new(key: PodKey, index: Option<u32>, job: (&str, &str), template: &JobTemplate) -> Self {
        let (job_name, namespace) = job;
        let mut labels = template.pod.labels.clone();
        let mut annotations = template.pod.annotations.clone();
        labels.insert(JOB_NAME.into(), job_name.into());
        if let Some(index) = index {
            labels.insert(COMPLETION_INDEX.into(), index.to_string());
            annotations.insert(COMPLETION_INDEX.into(), index.to_string());
        }
        Self {
            name: if key.pod == 0 { job_name.to_owned() } else { format!("{job_name}-{}", key.pod) },
            namespace: namespace.to_owned(),
            uid: uid(&key.to_string()),
            labels,
            annotations,
            index,
            key,
        }
    }

    /// What the pod may learn about itself.
    #[must_use]
    pub fn facts<'a>(
        &'a self,
        template: &'a JobTemplate,
        containers: &'a [&'a ContainerTemplate],
        machine: &'a Machine,
    ) -> PodFacts<'a> {
        PodFacts {
            name: &self.name,
            namespace: &self.namespace,
            uid: &self.uid,
            labels: &self.labels,
            annotations: &self.annotations,
            service_account: &template.pod.service_account,
            completion_index: self.index,
            machine,
            container: &template.pod.main,
            containers,
        }
    }
}

/// Unique id of an attempt as an object, a function of its key.
#[must_use]
pub(crate) fn attempt_uid(key: &AttemptKey) -> String {
    uid(&key.to_string())
}

/// A text in the form of a UUID (version 8) that is a function of `text`.
fn uid(text: &str) -> String {
    let hex = sha256_hex(text.as_bytes(), 32);
    let part = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default();
    format!("{}-{}-8{}-8{}-{}", part(0..8), part(8..12), part(13..16), part(17..20), part(20..32))
}

/// Where things of a pod are, and what it was given.
#[derive(Clone, Debug)]
pub struct PodPlace<'a> {
    /// Who it is.
    pub identity: &'a PodIdentity,
    /// The machine.
    pub machine: &'a Machine,
    /// ConfigMaps and Secrets.
    pub sources: &'a Sources,
    /// Whether missing ones are an error.
    pub missing: Missing,
    /// Its volumes.
    pub volumes: &'a BTreeMap<String, VolumeRoot>,
    /// GPUs it was given.
    pub gpus: Vec<u32>,
    /// Restarts in place left.
    pub restart_limit: u32,
    /// Where its standard output goes.
    pub stdout: PathBuf,
    /// Where its standard error goes.
    pub stderr: PathBuf,
    /// Paths outputs are read from.
    pub outputs: Vec<String>,
    /// The runtime's directory.
    pub directory: PathBuf,
}

/// The plan of a pod.
///
/// # Errors
/// NotFound with reason ParameterUnresolved for a missing ConfigMap, Secret or key; Invalid for a `subPath` that leaves
/// its volume.
pub(crate) fn pod_plan(template: &JobTemplate, place: &PodPlace<'_>) -> Result<PodPlan, Problem> {
    let pod = &template.pod;
    let init = pod.init.iter().map(|container| container_plan(template, container, place)).collect::<Result<_, _>>()?;
    let main = container_plan(template, &pod.main, place)?;
    Ok(PodPlan {
        key: place.identity.key.clone(),
        name: place.identity.name.clone(),
        labels: place.identity.labels.clone(),
        init,
        main,
        restart_on_failure: pod.restart_on_failure,
        restart_limit: place.restart_limit,
        grace: pod.grace,
        active_deadline: pod.active_deadline,
        further_groups: pod.further_groups.clone(),
        host_namespaces: pod.host_namespaces,
        hostname: pod.hostname.clone(),
        host_aliases: pod.host_aliases.clone(),
        pull_secrets: pod.pull_secrets.iter().map(|(name, path)| pull_secret(place, name, path)).collect(),
        secret_files: secret_files(&pod.volumes, place.volumes, place.sources)?,
        stdout: place.stdout.clone(),
        stderr: place.stderr.clone(),
        delivered: Vec::new(),
        outputs: place.outputs.clone(),
        directory: place.directory.clone(),
    })
}

/// Keys of Secrets with logins, and whether what they hold are the bare logins.
const LOGINS: [(&str, bool); 2] = [(".dockerconfigjson", false), (".dockercfg", true)];

/// A Secret with logins. That it is missing is reported where it is needed.
fn pull_secret(place: &PodPlace<'_>, name: &str, path: &str) -> PullSecret {
    let found = LOGINS.into_iter().find_map(|(key, bare)| {
        let text = match place.sources.key(Store::Secret, name, key) {
            Err(error) => return Some(Err(format!("{path}: {}", error.chain()))),
            Ok(bytes) => String::from_utf8(bytes?).ok()?,
        };
        Some(Ok(if bare { format!("{{\"auths\": {text}}}") } else { text }))
    });
    let missing = || {
        let [(key, _), _] = LOGINS;
        Err(place.sources.unresolved(Store::Secret, name, Some(key), path).message)
    };
    PullSecret { name: name.to_owned(), config: found.unwrap_or_else(missing) }
}

fn container_plan(
    template: &JobTemplate,
    container: &ContainerTemplate,
    place: &PodPlace<'_>,
) -> Result<ContainerPlan, Problem> {
    let containers: Vec<&ContainerTemplate> = template.pod.containers().collect();
    let facts = PodFacts { container, ..place.identity.facts(template, &containers, place.machine) };
    let environment = environment(&container.env_from, &container.env, &facts, place.sources, place.missing)?;
    let mounts = mounts(&container.mounts, place.volumes, place.missing, |text| environment.expand(text).value)?;
    let asked = container.resources.asked();
    let limit = |resource: &str| container.resources.limits.get(resource).copied().filter(|limit| !limit.is_zero());
    let request = |resource: &str| container.resources.request(resource);
    Ok(ContainerPlan {
        name: container.name.clone(),
        image: container.image.clone(),
        image_pull_policy: container.image_pull_policy.clone(),
        command: expanded(&container.command, &environment),
        args: expanded(&container.args, &environment),
        working_dir: container.working_dir.clone(),
        mounts,
        cpu_limit_milli: limit("cpu").and_then(Quantity::millicores),
        memory_limit_bytes: limit("memory").and_then(Quantity::bytes),
        cpu_request_milli: request("cpu").and_then(Quantity::millicores),
        memory_request_bytes: request("memory").and_then(Quantity::bytes),
        gpus: if container.resources.request(GPU).is_some() {
            place.gpus.iter().copied().take(asked.gpus as usize).collect()
        } else {
            Vec::new()
        },
        user: container.security.user,
        group: container.security.group,
        termination_message_path: container.termination_message_path.clone(),
        message_falls_back_to_logs: container.message_falls_back_to_logs,
        read_only_root: container.security.read_only_root,
        privileged: container.security.privileged,
        add_capabilities: container.security.add.clone(),
        drop_capabilities: container.security.drop.clone(),
        seccomp: container.security.seccomp.clone(),
        env: environment.into_order(),
    })
}

fn expanded(texts: &[String], environment: &Environment) -> Vec<String> {
    texts.iter().map(|text| environment.expand(text).value).collect()
}
