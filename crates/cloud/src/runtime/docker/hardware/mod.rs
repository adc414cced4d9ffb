//! Hardware needs of one container: what a host has, which of its devices are chosen, and
//! the host configuration that asks for them. Owns that translation; never talks to an engine.

mod inventory;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use bollard::models::{DeviceMapping, DeviceRequest, HostConfig};
use orlop_core::hardware::gpu::Vendor;
use orlop_core::hardware::placement::{DeviceClass, Placement};
use orlop_core::hardware::table::DockerWords;
use orlop_core::hardware::{Device, HardwareError, MachineFit, Resolved, Resources, Substrate, Tables, TeeKind, place};

pub use inventory::{Inventory, InventoryError};

const KFD: &str = "/dev/kfd";
const ENCLAVE: &str = "/dev/sgx_enclave";
const PROVISION: &str = "/dev/sgx_provision";

fn render_node(id: &str) -> String {
    format!("/dev/dri/{id}")
}

/// The nodes that an enclave needs.
fn enclave_nodes(docker: &DockerWords) -> impl Iterator<Item = &'static str> {
    std::iter::once(ENCLAVE).chain(docker.sgx_provision.then_some(PROVISION))
}

/// The host configuration of a need. Without an inventory only CPU, memory and a bare count of NVIDIA devices can be asked
/// for.
///
/// # Errors
/// Docker has no words for the need, the host does not fit, or only an inventory could tell.
pub fn host_config(
    resolved: &Resolved,
    resources: &Resources,
    tables: &Tables,
    inventory: Option<&Inventory>,
) -> Result<HostConfig, HardwareError> {
    let words = tables.vocabulary(Substrate::Docker);
    let placement = place(resolved, resources, &words)?;
    let mut config = plain(&placement);
    let Some(inventory) = inventory else {
        config.device_requests = without_inventory(resolved, resources)?;
        return Ok(config);
    };
    if let Some(runtime) = &placement.runtime {
        if !inventory.runtimes.contains(&runtime.name) {
            let what = format!("{}: runtime {} is not registered and", tee_name(&placement), runtime.name);
            return Err(HardwareError::UnsupportedOnSubstrate { substrate: Substrate::Docker, what });
        }
        config.runtime = Some(runtime.name.clone());
    }
    let machine = inventory.machine(&words, &tables.docker);
    let verdict = placement.check(&machine);
    if !verdict.fits() {
        return Err(HardwareError::NoMatchingHardware { best: MachineFit::nearest([verdict]) });
    }
    if inventory.limits_disk && !resources.disk_bytes.is_zero() {
        config.storage_opt = Some(HashMap::from([("size".to_owned(), resources.disk_bytes.0.to_string())]));
    }
    if placement.tee == Some(TeeKind::Sgx) {
        add(&mut config, enclave_nodes(&tables.docker), &[]);
    }
    devices(&mut config, &placement, &machine.devices, tables.docker.cdi);
    Ok(config)
}

fn tee_name(placement: &Placement) -> String {
    placement.tee.map_or_else(String::new, |kind| kind.to_string())
}

/// CPU and memory. Memory and swap are equal: no swap on top of it.
fn plain(placement: &Placement) -> HostConfig {
    let (cpu, memory) = (placement.resources.cpu().0, placement.resources.memory().0);
    let limit = |amount: u64| i64::try_from(amount).ok().filter(|amount| *amount > 0);
    HostConfig {
        nano_cpus: limit(cpu.saturating_mul(1_000_000)),
        memory: limit(memory),
        memory_swap: limit(memory),
        ..Default::default()
    }
}

fn nvidia(count: Option<i64>, ids: Option<Vec<String>>) -> Vec<DeviceRequest> {
    vec![DeviceRequest {
        driver: Some("nvidia".to_owned()),
        count,
        device_ids: ids,
        capabilities: Some(vec![vec!["gpu".to_owned()]]),
        ..Default::default()
    }]
}

/// What can be asked for without knowing the host.
fn without_inventory(resolved: &Resolved, resources: &Resources) -> Result<Option<Vec<DeviceRequest>>, HardwareError> {
    let required = |what: String| Err(HardwareError::InventoryRequired { what });
    if let Some(kind) = resolved.required_tee() {
        return required(kind.to_string());
    }
    if let Some(arch) = resolved.arch {
        return required(format!("CPU architecture {arch}"));
    }
    if let Some(key) = resolved.labels.keys().next() {
        return required(format!("label {key}"));
    }
    if !resources.disk_bytes.is_zero() {
        return required(format!("a disk of {} bytes", resources.disk_bytes.0));
    }
    if let Some((name, _)) = resources.extended.iter().find(|(_, amount)| *amount > 0) {
        return required(format!("resource {name}"));
    }
    match &resolved.gpu {
        None => Ok(None),
        Some(gpu) if gpu.class == DeviceClass::Unit && gpu.vendor == Vendor::Nvidia => {
            Ok(Some(nvidia(Some(i64::from(gpu.count)), None)))
        }
        Some(gpu) => required(format!("GPU `{}`", gpu.kind)),
    }
}

/// The devices that were chosen, in the way of their maker.
fn devices(config: &mut HostConfig, placement: &Placement, has: &[Device], cdi: bool) {
    let Some(need) = &placement.device else { return };
    let ids = need.choose(has).unwrap_or_default();
    let render: Vec<String> = ids.iter().map(|id| render_node(id)).collect();
    match need.vendor {
        Vendor::Nvidia if cdi => {
            config.device_requests = Some(vec![DeviceRequest {
                driver: Some("cdi".to_owned()),
                device_ids: Some(ids.iter().map(|id| format!("nvidia.com/gpu={id}")).collect()),
                ..Default::default()
            }]);
        }
        Vendor::Nvidia => config.device_requests = Some(nvidia(None, Some(ids))),
        Vendor::Amd => {
            add(config, std::iter::once(KFD).chain(render.iter().map(String::as_str)), &["video", "render"]);
        }
        Vendor::Intel => add(config, render.iter().map(String::as_str), &["render"]),
    }
}

/// Adds device nodes under their own names, and the groups that may open them.
fn add<'a>(config: &mut HostConfig, paths: impl Iterator<Item = &'a str>, groups: &[&str]) {
    let mapping = |path: &str| DeviceMapping {
        path_on_host: Some(path.to_owned()),
        path_in_container: Some(path.to_owned()),
        cgroup_permissions: Some("rwm".to_owned()),
    };
    config.devices.get_or_insert_with(Vec::new).extend(paths.map(mapping));
    if !groups.is_empty() {
        let names = groups.iter().map(|group| (*group).to_owned());
        config.group_add.get_or_insert_with(Vec::new).extend(names);
    }
}
