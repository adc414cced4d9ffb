//! From an attempt's plan to what the engine is asked to create: names, labels, limits, mounts, and what a container may
//! not do. Owns that translation; never talks to an engine. Secrets stand in the environment of a create request alone.

use std::collections::HashMap;
use std::path::Path;

use bollard::models::{
    ContainerCreateBody, ContainerSummary, ContainerSummaryStateEnum as State, DeviceRequest, HostConfig,
    HostConfigLogConfig, ResourcesUlimits, RestartPolicy, RestartPolicyNameEnum,
};
use orlop_core::error::{Class, Problem};
use orlop_core::task::TaskRef;

use super::ContainerOptions;
use crate::runtime::docker::create::{bind, nano_cpus, shares};
use crate::runtime::docker::engine::Facts;
use crate::runtime::docker::image::ImageDefaults;
use crate::runtime::worker::environ::{self, Places};
use crate::runtime::worker::outputs;
use crate::runtime::worker::plan::{AttemptPlan, GpuDevice, beneath};

/// The attempt, and of which worker and agent it is.
const REF: &str = "orlop.ref";
const WORKER: &str = "orlop.worker";
const AGENT: &str = "orlop.agent";

/// Where directories of the attempt are in the container.
const WORK: &str = "/orlop/job";
const SECRETS: &str = "/orlop/secrets";
const ARTIFACTS: &str = "/orlop/artifacts";

/// Processes and threads of an attempt, at most.
const PIDS: i64 = 4096;
/// The smallest limit of memory an engine takes.
const MEMORY_MIN: u64 = 6 << 20;
/// How much the engine keeps of output that is on its way here, at most, unless the attempt may write more.
const KEPT: u64 = 64 << 20;

/// Where the directories of an attempt are on this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttemptDirectories<'a> {
    pub(super) work: &'a Path,
    pub(super) secrets: Option<&'a Path>,
}

/// A container, as a list of them tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) id: String,
    /// Whether it ran, and whether it runs.
    pub(super) began: bool,
    pub(super) runs: bool,
}

/// Reads an entry of the engine's list; none when it names no attempt.
pub(super) fn seen(found: &ContainerSummary) -> Option<(TaskRef, Seen)> {
    let id = found.labels.as_ref()?.get(REF)?.parse().ok()?;
    let runs = matches!(found.state, Some(State::RUNNING | State::PAUSED | State::RESTARTING | State::STOPPING));
    let began = runs || !matches!(found.state, Some(State::CREATED));
    Some((id, Seen { id: found.id.clone()?, began, runs }))
}

/// The filter that finds the containers of an agent, or of one of its attempts.
pub(super) fn filter(mark: &str, id: Option<&TaskRef>) -> HashMap<String, Vec<String>> {
    let labels = std::iter::once(format!("{AGENT}={mark}")).chain(id.map(|id| format!("{REF}={id}")));
    HashMap::from([("label".to_owned(), labels.collect())])
}

/// The name of an attempt's container.
pub(super) fn name(options: &ContainerOptions, id: &TaskRef) -> String {
    format!("orlop-{}-{id}", options.worker)
}

/// Refuses networks that are this machine's own, or another container's.
pub(super) fn check_network(network: Option<&str>) -> Result<(), Problem> {
    let shared = |name: &str| name == "host" || name.starts_with("container:") || name.starts_with("ns:");
    match network.filter(|name| name.is_empty() || shared(name)) {
        None => Ok(()),
        Some(name) => {
            let message = format!(
                "containers of jobs may not be in the network `{name}`; name one of the engine's own, or `none`"
            );
            Err(Problem::new(Class::Invalid, message))
        }
    }
}

/// The container to create; why it cannot be.
pub(super) fn body(
    plan: &AttemptPlan,
    options: &ContainerOptions,
    facts: &Facts,
    image: &ImageDefaults,
    directories: AttemptDirectories<'_>,
) -> Result<ContainerCreateBody, String> {
    let spec = &plan.run;
    let argv: Vec<String> = spec.argv.iter().map(|text| plan.text(text).into_owned()).collect();
    let labels = [(REF, plan.id.to_string()), (WORKER, options.worker.clone()), (AGENT, options.mark.clone())];
    Ok(ContainerCreateBody {
        image: spec.image.clone(),
        // A command takes the place of the image's own, entry point included: it is what runs.
        entrypoint: (!argv.is_empty()).then_some(argv),
        env: Some(environment(plan, options, directories)),
        working_dir: working_dir(plan, image)?,
        labels: Some(labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        host_config: Some(host(plan, options, facts, directories)),
        ..Default::default()
    })
}

fn environment(plan: &AttemptPlan, options: &ContainerOptions, directories: AttemptDirectories<'_>) -> Vec<String> {
    let output = Path::new(WORK).join(outputs::FILE);
    // Images may ask for all devices of this maker; only those of the attempt are let in.
    let none = [("NVIDIA_VISIBLE_DEVICES", "void".to_owned())];
    let asks = plan.gpus.iter().any(|gpu| gpu.vendor == "nvidia");
    let places = Places {
        defaults: &[],
        devices: if asks { &[] } else { &none },
        output: &output,
        secrets: directories.secrets.map(|_| Path::new(SECRETS)),
        artifacts: plan.artifacts.as_ref().map(|_| Path::new(ARTIFACTS)),
        worker: &options.worker,
        mark: None,
    };
    environ::environment(plan, places).into_iter().map(|(name, value)| format!("{name}={value}")).collect()
}

/// Where the command runs: below the attempt's own directory when the spec names a place, else where the image says, else
/// in the attempt's own.
fn working_dir(plan: &AttemptPlan, image: &ImageDefaults) -> Result<Option<String>, String> {
    let Some(wanted) = &plan.run.working_dir else {
        let own = image.working_dir.is_empty() || image.working_dir == "/";
        return Ok(own.then(|| WORK.to_owned()));
    };
    let wanted = plan.text(wanted);
    match beneath(&wanted) {
        Some(path) => Ok(Some(Path::new(WORK).join(path).display().to_string())),
        None => Err(format!("the working directory `{wanted}` is not below the attempt's own")),
    }
}

fn host(
    plan: &AttemptPlan,
    options: &ContainerOptions,
    facts: &Facts,
    directories: AttemptDirectories<'_>,
) -> HostConfig {
    let spec = &plan.run;
    let memory = (spec.memory_bytes > 0).then(|| spec.memory_bytes.max(MEMORY_MIN));
    let memory = memory.and_then(|bytes| i64::try_from(bytes).ok());
    // A dump would hold what the attempt has in memory, its secrets too.
    let no_dumps = ResourcesUlimits { name: Some("core".to_owned()), soft: Some(0), hard: Some(0) };
    let mounts = std::iter::once(bind(directories.work, WORK, false))
        .chain(directories.secrets.map(|dir| bind(dir, SECRETS, true)))
        .chain(plan.artifacts.as_deref().map(|dir| bind(dir, ARTIFACTS, true)));
    let mut security = vec!["no-new-privileges".to_owned()];
    if facts.selinux {
        // Directories of this machine stay labelled as they are, so a confined container could not use them.
        security.push("label=disable".to_owned());
    }
    HostConfig {
        mounts: Some(mounts.collect()),
        log_config: Some(log(plan, facts)),
        restart_policy: Some(RestartPolicy { name: Some(RestartPolicyNameEnum::NO), maximum_retry_count: None }),
        network_mode: facts.network.clone(),
        nano_cpus: nano_cpus(spec.cpu_m, facts),
        cpu_shares: shares(spec.cpu_m, facts),
        memory,
        // Equal to memory: no swap on top of it.
        memory_swap: memory.filter(|_| facts.swap_limit),
        pids_limit: Some(PIDS),
        ulimits: Some(vec![no_dumps]),
        device_requests: devices(&plan.gpus),
        privileged: Some(false),
        cap_drop: Some(vec!["ALL".to_owned()]),
        cap_add: (!options.capabilities.is_empty()).then(|| options.capabilities.clone()),
        security_opt: Some(security),
        ..Default::default()
    }
}

/// What the engine keeps of the output, for when it was not read at that moment: byte for byte where it can.
fn log(plan: &AttemptPlan, facts: &Facts) -> HostConfigLogConfig {
    let size = plan.run.log.limit.clamp(1 << 20, KEPT).to_string();
    let mut config = HashMap::from([("max-size".to_owned(), size)]);
    if facts.local_log {
        config.extend([("max-file".to_owned(), "2".to_owned()), ("compress".to_owned(), "false".to_owned())]);
    }
    let driver = if facts.local_log { "local" } else { "json-file" };
    HostConfigLogConfig { typ: Some(driver.to_owned()), config: Some(config) }
}

/// Devices by maker: the engine's own request for NVIDIA's, names of the container device interface for others.
fn devices(gpus: &[GpuDevice]) -> Option<Vec<DeviceRequest>> {
    let of = |wanted: bool| gpus.iter().filter(move |gpu| (gpu.vendor == "nvidia") == wanted);
    let own: Vec<String> = of(true).map(GpuDevice::id).collect();
    let others: Vec<String> = of(false).map(|gpu| format!("{}.com/gpu={}", gpu.vendor, gpu.id())).collect();
    let own = (!own.is_empty()).then(|| DeviceRequest {
        device_ids: Some(own),
        capabilities: Some(vec![vec!["gpu".to_owned()]]),
        ..Default::default()
    });
    let others = (!others.is_empty()).then(|| DeviceRequest {
        driver: Some("cdi".to_owned()),
        device_ids: Some(others),
        ..Default::default()
    });
    let all: Vec<DeviceRequest> = own.into_iter().chain(others).collect();
    (!all.is_empty()).then_some(all)
}

#[cfg(test)]
mod tests;
