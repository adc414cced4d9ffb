//! From a container's plan to what the engine is asked to create. Owns that translation; never talks to an engine. This
//! is the only place where secrets leave this process: in the environment of a create request.

use std::path::Path;

use bollard::models::{
    ContainerCreateBody, DeviceRequest, HostConfig, HostConfigLogConfig, Mount, MountType, RestartPolicy,
    RestartPolicyNameEnum,
};
use orlop_core::error::{Class, Problem};

use super::engine::Facts;
use super::label;
use super::record::Words;
use crate::runtime::pod::{ContainerPlan, PodPlan};

/// The smallest CPU limit an engine takes, in millicores.
const CPU_MIN_MILLI: u64 = 10;

/// Nanoseconds of CPU time a second that a millicore is.
const NANO_CPUS_PER_MILLI: u64 = 1_000_000;

/// What else a container needs to be created.
pub(super) struct Surroundings<'a> {
    /// What the engine can do.
    pub(super) facts: &'a Facts,
    /// Where its last words go.
    pub(super) words: &'a Words,
    /// The user its image names.
    pub(super) image_user: &'a str,
    /// Text of its seccomp profile, where it is a file.
    pub(super) seccomp: Option<String>,
}

/// The container to create.
pub(super) fn body(plan: &PodPlan, container: &ContainerPlan, around: &Surroundings<'_>) -> ContainerCreateBody {
    let list = |values: &[String]| if values.is_empty() { None } else { Some(values.to_vec()) };
    // The host's network brings the host's name.
    let hostname = plan.hostname.clone().filter(|_| !plan.host_namespaces.network);
    ContainerCreateBody {
        hostname,
        user: user(container, around.image_user),
        env: Some(container.env.iter().map(|(name, text)| format!("{name}={}", text.value)).collect()),
        image: container.image.clone(),
        entrypoint: list(&container.command),
        cmd: list(&container.args),
        working_dir: container.working_dir.clone(),
        labels: Some(label::all(plan, &container.name)),
        host_config: Some(host(plan, container, around)),
        ..Default::default()
    }
}

fn host(plan: &PodPlan, container: &ContainerPlan, around: &Surroundings<'_>) -> HostConfig {
    let facts = around.facts;
    let shared = |on: bool| on.then(|| "host".to_owned());
    let memory = container.memory_limit_bytes.and_then(|bytes| i64::try_from(bytes).ok());
    let some = |values: Vec<String>| if values.is_empty() { None } else { Some(values) };
    let hosts = plan.host_aliases.iter();
    let hosts = hosts.flat_map(|(address, names)| names.iter().map(move |name| format!("{name}:{address}")));
    HostConfig {
        mounts: Some(mounts(container, around.words)),
        // Its log must be readable from the first line to the last, whatever the engine does by default.
        log_config: Some(HostConfigLogConfig { typ: Some("json-file".to_owned()), config: None }),
        // Restarts are counted, delayed and given up by the host.
        restart_policy: Some(RestartPolicy { name: Some(RestartPolicyNameEnum::NO), maximum_retry_count: None }),
        network_mode: shared(plan.host_namespaces.network).or_else(|| facts.network.clone()),
        pid_mode: shared(plan.host_namespaces.pid),
        ipc_mode: shared(plan.host_namespaces.ipc),
        extra_hosts: some(hosts.collect()),
        group_add: some(plan.further_groups.iter().map(ToString::to_string).collect()),
        nano_cpus: container.cpu_limit_milli.and_then(|milli| nano_cpus(milli, facts)),
        cpu_shares: container.cpu_request_milli.or(container.cpu_limit_milli).and_then(|milli| shares(milli, facts)),
        memory,
        // Equal to memory: no swap on top of it.
        memory_swap: memory.filter(|_| facts.swap_limit),
        device_requests: gpus(container),
        readonly_rootfs: Some(container.read_only_root),
        privileged: Some(container.privileged),
        cap_add: some(container.add_capabilities.clone()),
        cap_drop: some(container.drop_capabilities.clone()),
        security_opt: some(security(container, around)),
        ..Default::default()
    }
}

/// `user[:group]`; a group without a user keeps the user of the image.
fn user(container: &ContainerPlan, image_user: &str) -> Option<String> {
    let image_user = image_user.split(':').next().filter(|user| !user.is_empty()).unwrap_or("0");
    match (container.user, container.group) {
        (None, None) => None,
        (Some(user), None) => Some(user.to_string()),
        (Some(user), Some(group)) => Some(format!("{user}:{group}")),
        (None, Some(group)) => Some(format!("{image_user}:{group}")),
    }
}

/// A directory or file of this machine in a container.
pub(in crate::runtime) fn bind(source: &Path, target: &str, read_only: bool) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(source.to_string_lossy().into_owned()),
        target: Some(target.to_owned()),
        read_only: Some(read_only),
        ..Default::default()
    }
}

fn mounts(container: &ContainerPlan, words: &Words) -> Vec<Mount> {
    let planned = container.mounts.iter().map(|mount| bind(&mount.source, &mount.target, mount.read_only));
    let words = match words {
        Words::File(file) => Some(bind(file, &container.termination_message_path, false)),
        Words::None | Words::Inside(_) => None,
    };
    planned.chain(words).collect()
}

/// The CPU limit. An engine refuses less than 0.01 and more than its machine has; more than all of them is no limit that
/// could be felt.
pub(in crate::runtime) fn nano_cpus(milli: u64, facts: &Facts) -> Option<i64> {
    let all = facts.cpus.saturating_mul(1000);
    let least = milli.max(CPU_MIN_MILLI);
    let milli = if all == 0 { least } else { least.min(all) };
    i64::try_from(milli.saturating_mul(NANO_CPUS_PER_MILLI)).ok().filter(|_| facts.cpu_quota)
}

/// The weight against other containers, as Kubernetes computes it: 1024 a CPU asked for, at least 2.
pub(in crate::runtime) fn shares(milli: u64, facts: &Facts) -> Option<i64> {
    i64::try_from((milli.saturating_mul(1024) / 1000).clamp(2, 262_144)).ok().filter(|_| facts.cpu_shares)
}

fn gpus(container: &ContainerPlan) -> Option<Vec<DeviceRequest>> {
    let ids: Vec<String> = container.gpus.iter().map(ToString::to_string).collect();
    (!ids.is_empty()).then(|| {
        vec![DeviceRequest {
            device_ids: Some(ids),
            capabilities: Some(vec![vec!["gpu".to_owned()]]),
            ..Default::default()
        }]
    })
}

fn security(container: &ContainerPlan, around: &Surroundings<'_>) -> Vec<String> {
    let mut options = Vec::new();
    match (container.seccomp.as_deref(), &around.seccomp) {
        (Some("Unconfined"), _) => options.push("seccomp=unconfined".to_owned()),
        (_, Some(profile)) => options.push(format!("seccomp={profile}")),
        // RuntimeDefault is what engines do unasked.
        _ => {}
    }
    // Files of the host stay labelled as they are, so a confined container could not read what it mounts.
    if around.facts.selinux && !container.privileged {
        options.push("label=disable".to_owned());
    }
    options
}

/// The text of a seccomp profile that is a file of this machine; the engine wants the text.
pub(super) fn seccomp(container: &ContainerPlan) -> Result<Option<String>, Problem> {
    let path = match container.seccomp.as_deref() {
        None | Some("Unconfined" | "RuntimeDefault") => return Ok(None),
        Some(path) => path,
    };
    let fail = |why: String| {
        let message = format!("the seccomp profile {path} of container `{}` cannot be used: {why}", container.name);
        Problem::new(Class::Invalid, message)
    };
    let text = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
    serde_json::from_str::<serde_json::Value>(&text).map_err(|error| fail(error.to_string()))?;
    Ok(Some(text))
}

/// Where the last words of container `index` go: into `file`, mounted at its path, unless a mount already exists.
pub(super) fn words(container: &ContainerPlan, file: &Path) -> Words {
    let path = &container.termination_message_path;
    let same = |target: &str| target.trim_end_matches('/') == path.trim_end_matches('/');
    if path.is_empty() {
        Words::None
    } else if container.mounts.iter().any(|mount| same(&mount.target)) {
        Words::Inside(path.clone())
    } else {
        Words::File(file.to_owned())
    }
}

#[cfg(test)]
mod tests;
