//! A pod as its template gives it.

use std::collections::BTreeMap;
use std::time::Duration;

use orlop_core::error::Problem;

use super::TemplatePolicy;
use super::container::ContainerTemplate;
use super::field::Field;
use super::request::Request;
use super::security;
use super::texts;
use super::volume::VolumeTemplate;
use crate::runtime::pod::HostNamespaces;

/// Time between asking a pod to end and killing it where its template gives none.
pub const GRACE: Duration = Duration::from_secs(30);

/// Pod fields that can mean nothing here, and why.
const REFUSED: [(&str, &str); 3] = [
    ("resourceClaims", "claims on devices need a scheduler"),
    ("schedulingGates", "nothing here lifts them"),
    ("ephemeralContainers", "a pod has one container here"),
];

/// The pod of a template.
#[derive(Clone, Debug, PartialEq)]
pub struct PodTemplate {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Containers that run first, one after the other.
    pub init: Vec<ContainerTemplate>,
    /// The container that does the work.
    pub main: ContainerTemplate,
    /// Volumes.
    pub volumes: Vec<VolumeTemplate>,
    /// Whether a failed container is started again in place.
    pub restart_on_failure: bool,
    /// Time between asking the pod to end and killing it.
    pub grace: Duration,
    /// Limit of one pod.
    pub active_deadline: Option<Duration>,
    /// Group that owns the pod's volumes and is one of its groups.
    pub fs_group: Option<u32>,
    /// Further groups, `fsGroup` first.
    pub further_groups: Vec<u32>,
    /// Host name inside.
    pub hostname: Option<String>,
    /// Further lines of the hosts file.
    pub host_aliases: Vec<(String, Vec<String>)>,
    /// Names of Secrets with logins to registries, each with the path of its field.
    pub pull_secrets: Vec<(String, String)>,
    /// Namespaces of the host it shares.
    pub host_namespaces: HostNamespaces,
    /// Name of the service account, which only the pod reads.
    pub service_account: String,
}

impl PodTemplate {
    pub(super) fn read(field: &Field<'_>, policy: &TemplatePolicy) -> Result<Self, Problem> {
        let (metadata, spec) = (field.get("metadata"), field.get("spec"));
        for (name, why) in REFUSED {
            spec.get(name).refuse(why)?;
        }
        let containers = spec.get("containers");
        let mut all = containers.items()?.into_iter();
        let first = all.next().ok_or_else(|| containers.invalid("needs a container"))?;
        if let Some(second) = all.next() {
            return Err(second.invalid("cannot be used off Kubernetes: a pod has one container here"));
        }
        let context = spec.get("securityContext");
        let fs_group = context.get("fsGroup").number()?;
        let mut further_groups: Vec<u32> = fs_group.into_iter().collect();
        for group in context.get("supplementalGroups").items()? {
            further_groups.extend(group.number::<u32>()?);
        }
        let init = spec.get("initContainers").items()?;
        let pod = Self {
            labels: texts(&metadata.get("labels"))?,
            annotations: texts(&metadata.get("annotations"))?,
            init: init.iter().map(|item| ContainerTemplate::read(item, &spec, policy)).collect::<Result<_, _>>()?,
            main: ContainerTemplate::read(&first, &spec, policy)?,
            volumes: VolumeTemplate::read_all(&spec.get("volumes"), policy)?,
            restart_on_failure: restarts(&spec.get("restartPolicy"))?,
            grace: seconds(&spec.get("terminationGracePeriodSeconds"))?.unwrap_or(GRACE),
            active_deadline: seconds(&spec.get("activeDeadlineSeconds"))?,
            fs_group,
            further_groups,
            hostname: spec.get("hostname").text()?.filter(|name| !name.is_empty()).map(str::to_owned),
            host_aliases: host_aliases(&spec.get("hostAliases"))?,
            pull_secrets: pull_secrets(&spec.get("imagePullSecrets"))?,
            host_namespaces: security::host_namespaces(&spec, policy)?,
            service_account: spec.get("serviceAccountName").text()?.unwrap_or("default").to_owned(),
        };
        pod.check_mounts(&spec)?;
        Ok(pod)
    }

    /// All containers, in the order they run.
    pub fn containers(&self) -> impl Iterator<Item = &ContainerTemplate> {
        self.init.iter().chain([&self.main])
    }

    /// What a pod asks for: per resource the most that one of its containers does.
    #[must_use]
    pub fn request(&self) -> Request {
        self.containers().fold(Request::default(), |sum, container| sum.max(container.resources.asked()))
    }

    fn check_mounts(&self, spec: &Field<'_>) -> Result<(), Problem> {
        for mount in self.containers().flat_map(|container| &container.mounts) {
            if !self.volumes.iter().any(|volume| volume.name == mount.volume) {
                let why = format!("has no volume {}, which {} mounts", mount.volume, mount.path);
                return Err(spec.get("volumes").invalid(&why));
            }
        }
        Ok(())
    }
}

fn restarts(field: &Field<'_>) -> Result<bool, Problem> {
    match field.text()? {
        None | Some("Never" | "") => Ok(false),
        Some("OnFailure") => Ok(true),
        Some(_) => Err(field.invalid("must be Never or OnFailure")),
    }
}

pub(super) fn seconds(field: &Field<'_>) -> Result<Option<Duration>, Problem> {
    Ok(field.number::<u64>()?.map(Duration::from_secs))
}

fn pull_secrets(field: &Field<'_>) -> Result<Vec<(String, String)>, Problem> {
    let secret = |item: Field<'_>| Ok((item.get("name").required()?.to_owned(), item.path().to_owned()));
    field.items()?.into_iter().map(secret).collect()
}

fn host_aliases(field: &Field<'_>) -> Result<Vec<(String, Vec<String>)>, Problem> {
    let alias = |item: Field<'_>| Ok((item.get("ip").required()?.to_owned(), item.get("hostnames").texts()?));
    field.items()?.into_iter().map(alias).collect()
}
