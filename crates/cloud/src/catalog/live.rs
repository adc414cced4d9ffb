//! Hosts as the reservation service lists them, dotted or nested (provisioner contract, 5.1). Owns the keys and their many
//! spellings; every value is text that may be wrong, and nothing here fails but a document that is none.

use orlop_core::hardware::Arch;
use serde_json::Value;

use super::host::{Cards, Disk, Host, Shape};
use super::window::Allocation;
use crate::analyze::card;

/// A document that is no list of hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the list of hosts is not JSON with a list `hosts`: {0}")]
pub struct BadHosts(String);

/// Hosts that are read.
const MAX_HOSTS: usize = 10_000;
/// Cards and disks of a host that are looked at.
const MAX_PARTS: usize = 64;
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
    Ok(list.iter().take(MAX_HOSTS).filter_map(host).collect())
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

/// A value by its dotted key, whether the host has it so or nested; numbers index lists.
fn field(host: &Value, key: &str) -> Option<String> {
    let value = host.get(key).or_else(|| {
        key.split('.').try_fold(host, |value, part| match part.parse::<usize>() {
            Ok(index) if value.is_array() => value.get(index),
            _ => value.get(part),
        })
    })?;
    let text = if value.is_object() || value.is_array() { String::new() } else { words(value) };
    (!text.is_empty() && text != "null" && text != "None").then_some(text)
}

fn is_true(text: &str) -> bool {
    ["true", "1", "yes"].contains(&text.to_ascii_lowercase().as_str())
}

fn number(host: &Value, key: &str) -> Option<u64> {
    let text = field(host, key)?;
    text.parse().ok().or_else(|| {
        text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0).map(|number| number as u64)
    })
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn host(value: &Value) -> Option<Host> {
    let flag = |key: &str, default: bool| field(value, key).map_or(default, |text| is_true(&text));
    if !flag("reservable", true) || flag("disabled", false) {
        return None;
    }
    let uid = field(value, "uid").unwrap_or_default();
    let hypervisor = field(value, "hypervisor_hostname").unwrap_or_else(|| uid.clone());
    let id = field(value, "id").unwrap_or_else(|| uid.clone());
    let node_type = field(value, "node_type");
    let su_milli = field(value, "su_factor")
        .and_then(|text| text.parse::<f64>().ok())
        .filter(|rate| rate.is_finite() && *rate >= 0.0);
    let su_milli = su_milli.map(|rate| (rate * 1000.0).ceil().min(1e9) as u32);
    if id.is_empty() && hypervisor.is_empty() {
        return None;
    }
    let shape = shape(value, node_type.as_deref().unwrap_or_default());
    Some(Host { id, uid, hypervisor, node_type, shape, su_milli })
}

fn shape(value: &Value, node_type: &str) -> Shape {
    let platform = field(value, "architecture.platform_type").unwrap_or_default();
    let arch = if platform.contains("aarch64") || platform.contains("arm") { Arch::Arm64 } else { Arch::Amd64 };
    let threads = number(value, "architecture.smt_size").or_else(|| number(value, "vcpus"));
    let threads = threads.or_else(|| number(value, "architecture.smp_size")).unwrap_or(0);
    let bytes = number(value, "main_memory.ram_size");
    let ram_gib = match bytes {
        Some(bytes) => nominal(bytes / (1 << 30)),
        None => nominal(number(value, "memory_mb").unwrap_or(0) / 1024),
    };
    Shape {
        arch,
        threads: small(threads),
        ram_gib: small(ram_gib),
        cards: cards(value, node_type),
        disks: disks(value),
        infiniband: field(value, "infiniband").is_some_and(|text| is_true(&text)) || node_type.ends_with("_ib"),
        fpga: field(value, "fpga.board_model").is_some(),
        nvdimm: node_type.contains("nvdimm") || field(value, "main_memory.nvdimm").is_some(),
    }
}

/// Memory as it is sold: raised to the next usual size if that is at most 8 % more.
fn nominal(gib: u64) -> u64 {
    USUAL.iter().copied().find(|usual| *usual >= gib && (usual - gib) * 100 <= usual * 8).unwrap_or(gib)
}

/// The cards: either one model with a count, or one entry each.
fn cards(value: &Value, node_type: &str) -> Option<Cards> {
    let nvlink = node_type.contains("nvlink") || node_type == "gpu_h100";
    let mut models: Vec<String> = Vec::new();
    for index in 0..MAX_PARTS {
        let model =
            field(value, &format!("gpu.{index}.gpu_model")).or_else(|| field(value, &format!("gpu.{index}.model")));
        match model {
            Some(model) => models.push(model),
            None => break,
        }
    }
    if models.is_empty() {
        let present = field(value, "gpu.gpu").is_none_or(|text| is_true(&text));
        let model = field(value, "gpu.gpu_model").filter(|_| present)?;
        let count = number(value, "gpu.gpu_count").unwrap_or(1).clamp(1, MAX_PARTS as u64);
        return Some(of_model(&model, small(count), value, nvlink));
    }
    let best = models.iter().max_by_key(|model| memory(model))?;
    let count = models.iter().filter(|model| *model == best).count();
    Some(of_model(best, small(count as u64), value, nvlink))
}

fn of_model(model: &str, count: u32, value: &Value, nvlink: bool) -> Cards {
    use orlop_core::hardware::gpu::Vendor;
    let known = card::by_model(product(model));
    let said = field(value, "gpu.gpu_vendor").unwrap_or_default().to_ascii_lowercase();
    let vendor = match known {
        Some(card) => card.vendor,
        None if said.contains("amd") || said.contains("advanced micro") => Vendor::Amd,
        None if said.contains("intel") => Vendor::Intel,
        None => Vendor::Nvidia,
    };
    let capability = known.and_then(|card| card.capability);
    Cards { model: model.to_owned(), vendor, memory_gb: memory(model), count, capability, nvlink }
}

/// The name of the product where a model is told as lists of PCI ids have it: the chip before it may be that of other products too
/// (`GA100GL [A30 PCIe]`).
fn product(model: &str) -> &str {
    let listed = model.split_once('[').and_then(|(chip, name)| Some((chip, name.trim_end().strip_suffix(']')?)));
    listed.filter(|(chip, name)| !chip.is_empty() && !name.is_empty()).map_or(model, |(_, name)| name)
}

/// Memory by the number before GB in the model, else by the card's name; zero if neither is known.
fn memory(model: &str) -> u32 {
    let small = model.to_ascii_lowercase();
    let before = small.find("gb").or_else(|| small.find("gib")).and_then(|at| small.get(..at)).map(str::trim_end);
    let digits: String = before.unwrap_or_default().chars().rev().take_while(char::is_ascii_digit).collect();
    let written = digits.chars().rev().collect::<String>().parse().ok().filter(|gb| (1..=512).contains(gb));
    written.or_else(|| card::by_model(product(model)).map(|card| card.memory_gb)).unwrap_or(0)
}

fn disks(value: &Value) -> Vec<Disk> {
    let mut disks = Vec::new();
    for index in 0..MAX_PARTS {
        let key = |name: &str| format!("storage_devices.{index}.{name}");
        let Some(size) = number(value, &key("size")) else { break };
        let bus =
            field(value, &key("interface")).unwrap_or_default() + &field(value, &key("media_type")).unwrap_or_default();
        disks.push(Disk {
            gb: small(size.div_ceil(1_000_000_000)),
            nvme: bus.to_ascii_lowercase().contains("nvme") || bus.contains("PCIe"),
        });
    }
    if disks.is_empty()
        && let Some(gb) = number(value, "local_gb").filter(|gb| *gb > 0)
    {
        disks.push(Disk { gb: small(gb), nvme: false });
    }
    disks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
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
    fn s5_1_dotted_hosts() {
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
        insta::assert_snapshot!(told(text), @r#"
        1 Some("gpu_rtx_6000") amd64 48/192/241 1xQuadro RTX 6000@24 nvidia
        4 Some("compute_arm64") arm64 0/0/
        5 Some("compute_haswell_ib") amd64 48/128/200 ib
        6 None amd64 0/0/1920n 2xA100 80GB@80 nvidia
        "#);
    }

    #[test]
    fn s5_1_nested_hosts_whose_gpu_is_an_object_a_list_or_null() {
        let text = r#"{"items":[
            {"uid":"a","node_type":"t","architecture":{"platform_type":"x86_64","smt_size":96},"main_memory":{"ram_size":127775277056},"gpu":null},
            {"uid":"b","node_type":"t","gpu":{"gpu":true,"gpu_count":2,"gpu_model":"MI100"},"storage_devices":[{"size":480103981056}]},
            {"uid":"c","node_type":"t","gpu":[{"gpu_model":"P100"},{"gpu_model":"P100"}]},
            {"uid":"d","node_type":"t","gpu":{"gpu":true,"gpu_model":"Strange 9","gpu_vendor":"Intel"}}
        ]}"#;
        insta::assert_snapshot!(told(text), @r#"
        a Some("t") amd64 96/128/
        b Some("t") amd64 0/0/481 2xMI100@32 amd
        c Some("t") amd64 0/0/ 2xP100@16 nvidia
        d Some("t") amd64 0/0/ 1xStrange 9@0 intel
        "#);
    }

    #[test]
    fn s5_1_nominal_memory_is_the_next_usual_size_within_eight_percent() {
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
