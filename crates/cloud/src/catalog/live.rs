//! Hosts as the reservation service lists them, dotted or nested. Owns what is made
//! of the fields; every value is text that may be wrong, and nothing here fails but a document that is none.

use std::collections::BTreeMap;

use orlop_core::hardware::gpu::Catalogue;
use orlop_core::hardware::table::NodeType;
use orlop_core::hardware::{Arch, Device, Tables};
use serde_json::Value;

use super::host::{Cards, Disk, Host, Shape};
use super::window::Allocation;
use crate::analyze::card;
use crate::openstack::hardware::Document;

/// A document that is no list of hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the list of hosts is not JSON with a list `hosts`: {0}")]
pub struct BadHosts(String);

/// Hosts that are read.
const MAX_HOSTS: usize = 10_000;
/// Usual sizes of memory in GiB.
const USUAL: [u64; 16] = [16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 3840, 4096];

/// Reads a list of hosts: `{"hosts": […]}`, `{"items": […]}` or a bare list. Hosts that are disabled or not reservable are
/// left out.
///
/// # Errors
/// The text is no JSON, or holds no list.
pub fn read_hosts(text: &str) -> Result<Vec<Host>, BadHosts> {
    let document: Value = serde_json::from_str(text).map_err(|error| BadHosts(error.to_string()))?;
    let list = ["hosts", "items"].iter().find_map(|key| document.get(*key)?.as_array()).or_else(|| document.as_array());
    let list = list.ok_or_else(|| BadHosts("there is no list".to_owned()))?;
    let types = Tables::default().node_types;
    Ok(list.iter().take(MAX_HOSTS).filter_map(|value| host(Document(value), &types)).collect())
}

/// Reads the allocations of hosts. What has no dates makes its host's availability unknown.
///
/// # Errors
/// The text is no JSON, or holds no list.
pub fn read_allocations(text: &str) -> Result<Vec<Allocation>, BadHosts> {
    let document: Value = serde_json::from_str(text).map_err(|error| BadHosts(error.to_string()))?;
    let list =
        document.get("allocations").and_then(Value::as_array).ok_or_else(|| BadHosts("there is no list".to_owned()))?;
    let mut found = Vec::new();
    for entry in list.iter().take(MAX_HOSTS) {
        let Some(id) = entry.get("resource_id").map(words) else { continue };
        for reservation in entry.get("reservations").and_then(Value::as_array).into_iter().flatten().take(1000) {
            let date = |key: &str| reservation.get(key).and_then(Value::as_str).and_then(super::window::read_time);
            found.push(Allocation { host: id.clone(), window: date("start_date").zip(date("end_date")) });
        }
    }
    Ok(found)
}

/// A scalar as text.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn host(fields: Document<'_>, types: &BTreeMap<String, NodeType>) -> Option<Host> {
    if !fields.is_usable() {
        return None;
    }
    let uid = fields.text("uid").unwrap_or_default();
    let hypervisor = fields.text("hypervisor_hostname").unwrap_or_else(|| uid.clone());
    let id = fields.text("id").unwrap_or_else(|| uid.clone());
    let node_type = fields.text("node_type");
    let su_milli = fields
        .text("su_factor")
        .and_then(|text| text.parse::<f64>().ok())
        .filter(|rate| rate.is_finite() && *rate >= 0.0);
    let su_milli = su_milli.map(|rate| (rate * 1000.0).ceil().min(1e9) as u32);
    if id.is_empty() && hypervisor.is_empty() {
        return None;
    }
    let row = node_type.as_ref().and_then(|name| types.get(name)).cloned().unwrap_or_default();
    let shape = shape(fields, node_type.as_deref().unwrap_or_default(), &row);
    Some(Host { id, uid, hypervisor, node_type, shape, su_milli })
}

fn shape(fields: Document<'_>, node_type: &str, row: &NodeType) -> Shape {
    let platform = fields.text("architecture.platform_type").unwrap_or_default();
    let arch = if platform.contains("aarch64") || platform.contains("arm") { Arch::Arm64 } else { Arch::Amd64 };
    let threads = ["architecture.smt_size", "vcpus", "architecture.smp_size"].iter().find_map(|key| fields.number(key));
    let ram_gib = match fields.number("main_memory.ram_size") {
        Some(bytes) => nominal(bytes / (1 << 30)),
        None => nominal(fields.number("memory_mb").unwrap_or(0) / 1024),
    };
    Shape {
        arch,
        threads: small(threads.unwrap_or(0)),
        ram_gib: small(ram_gib),
        cards: cards(fields, row),
        disks: disks(fields),
        infiniband: fields.truth("infiniband") == Some(true) || node_type.ends_with("_ib"),
        fpga: fields.text("fpga.board_model").is_some(),
        nvdimm: node_type.contains("nvdimm") || fields.text("main_memory.nvdimm").is_some(),
    }
}

/// Memory as it is sold: raised to the next usual size if that is at most 8 % more.
fn nominal(gib: u64) -> u64 {
    USUAL.iter().copied().find(|usual| *usual >= gib && (usual - gib) * 100 <= usual * 8).unwrap_or(gib)
}

/// The cards of the model with the most memory.
fn cards(fields: Document<'_>, row: &NodeType) -> Option<Cards> {
    let devices: Vec<Device> = fields.devices(row, Catalogue::built_in()).into_iter().flatten().collect();
    let best = devices.iter().max_by_key(|device| device.memory_gib)?;
    let count = devices.iter().filter(|device| device.name == best.name).count();
    let known = best.model.as_ref().and_then(|model| card::by_model(model.as_str()));
    Some(Cards {
        model: best.name.clone(),
        vendor: best.vendor,
        memory_gb: best.memory_gib.unwrap_or(0),
        count: small(count as u64),
        capability: known.and_then(|card| card.capability),
        nvlink: best.nvlink_group.is_some(),
    })
}

fn disks(fields: Document<'_>) -> Vec<Disk> {
    let disk = |(index, size): (usize, u64)| {
        let key = |name: &str| fields.text(&format!("storage_devices.{index}.{name}")).unwrap_or_default();
        let bus = key("interface") + &key("media_type");
        let nvme = bus.to_ascii_lowercase().contains("nvme") || bus.contains("PCIe");
        Disk { gb: small(size.div_ceil(1_000_000_000)), nvme }
    };
    let disks: Vec<Disk> = fields.disks().enumerate().map(disk).collect();
    if disks.is_empty()
        && let Some(gb) = fields.number("local_gb").filter(|gb| *gb > 0)
    {
        return vec![Disk { gb: small(gb), nvme: false }];
    }
    disks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(text: &str) -> String {
        let one = |host: Host| {
            let s = host.shape;
            let cards =
                s.cards.map(|c| format!(" {}x{}@{} {}", c.count, c.model, c.memory_gb, c.vendor)).unwrap_or_default();
            let disks = s
                .disks
                .iter()
                .map(|d| format!("{}{}", d.gb, if d.nvme { "n" } else { "" }))
                .collect::<Vec<_>>()
                .join("+");
            format!(
                "{} {:?} {} {}/{}/{disks}{cards}{}",
                host.id,
                host.node_type,
                s.arch,
                s.threads,
                s.ram_gib,
                if s.infiniband { " ib" } else { "" }
            )
        };
        read_hosts(text).unwrap().into_iter().map(one).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn dotted_hosts() {
        let text = r#"{"hosts":[
            {"id":"1","uid":"u1","node_type":"gpu_rtx_6000","reservable":"True","architecture.platform_type":"x86_64","architecture.smt_size":"48",
             "main_memory.ram_size":"201226477568","gpu.gpu":"True","gpu.gpu_count":"1","gpu.gpu_model":"Quadro RTX 6000",
             "storage_devices.0.size":"240057409536","storage_devices.0.interface":"SATA","su_factor":"1.5"},
            {"id":"2","uid":"u2","node_type":"gpu_v100","gpu.gpu":"False","gpu.gpu_model":"x","architecture.smt_size":"n/a","disabled":"true"},
            {"id":"3","uid":"u3","node_type":"a","reservable":"False"},
            {"id":"4","uid":"u4","node_type":"compute_arm64","architecture.platform_type":"aarch64","main_memory.ram_size":"x"},
            {"id":"5","node_type":"compute_haswell_ib","hypervisor_hostname":"h5","vcpus":48,"memory_mb":"128000","local_gb":"200"},
            {"id":"6","hypervisor_hostname":"h6","gpu.0.gpu_model":"A30","gpu.1.gpu_model":"A100 80GB","gpu.2.gpu_model":"A100 80GB","storage_devices.0.size":1920000000000,"storage_devices.0.interface":"NVMe"}
        ]}"#;
        insta::assert_snapshot!(reported(text), @r#"
        1 Some("gpu_rtx_6000") amd64 48/192/241 1xQuadro RTX 6000@24 nvidia
        4 Some("compute_arm64") arm64 0/0/
        5 Some("compute_haswell_ib") amd64 48/128/200 ib
        6 None amd64 0/0/1920n 2xA100 80GB@80 nvidia
        "#);
    }

    #[test]
    fn nested_hosts_whose_gpu_is_an_object_a_list_or_null() {
        let text = r#"{"items":[
            {"uid":"a","node_type":"t","architecture":{"platform_type":"x86_64","smt_size":96},"main_memory":{"ram_size":127775277056},"gpu":null},
            {"uid":"b","node_type":"t","gpu":{"gpu":true,"gpu_count":2,"gpu_model":"MI100"},"storage_devices":[{"size":480103981056}]},
            {"uid":"c","node_type":"t","gpu":[{"gpu_model":"P100"},{"gpu_model":"P100"}]},
            {"uid":"d","node_type":"t","gpu":{"gpu":true,"gpu_model":"Strange 9","gpu_vendor":"Intel"}}
        ]}"#;
        insta::assert_snapshot!(reported(text), @r#"
        a Some("t") amd64 96/128/
        b Some("t") amd64 0/0/481 2xMI100@32 amd
        c Some("t") amd64 0/0/ 2xP100@16 nvidia
        d Some("t") amd64 0/0/ 1xStrange 9@0 intel
        "#);
    }

    #[test]
    fn nominal_memory_is_the_next_usual_size_within_eight_percent() {
        assert_eq!(
            [119, 118, 117, 187, 176, 250, 500, 3000, 7].map(nominal),
            [128, 128, 117, 192, 176, 256, 512, 3072, 7]
        );
    }

    #[test]
    fn what_is_no_list_of_hosts_says_so() {
        assert!(read_hosts("").is_err() && read_hosts("{}").is_err() && read_hosts("3").is_err());
        assert_eq!(read_hosts("[null, 3, {}, {\"id\": null}]").unwrap(), []);
        assert!(read_allocations("{}").is_err());
    }
}
