//! Every host that a site describes in public, and which needs it serves. Owns the needs; the hosts and the verdicts stand in
//! `sites.txt`, which names its source, version and date. A verdict there is a decision: what a host has is read off its row,
//! never off the program.

use std::collections::BTreeSet;

use orlop_core::hardware::{HardwareInput, Resolved, Resources, Tables, resolve};
use serde_json::{Value, json};

use super::super::{SiteNode, choose};

/// A kind of host: how many there are, where they stand, what each one's document says, what it serves.
struct Kind<'t> {
    hosts: usize,
    site: &'t str,
    node_type: &'t str,
    platform: &'t str,
    threads: u64,
    memory: u64,
    disks: &'t str,
    devices: &'t str,
    serves: BTreeSet<&'t str>,
}

fn kinds() -> Vec<Kind<'static>> {
    let rows = include_str!("sites.txt").lines().filter(|line| !line.starts_with('#'));
    let read = |line: &'static str| {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [hosts, site, node_type, platform, threads, memory, disks, devices, serves] = fields[..] else {
            panic!("{line}")
        };
        Kind {
            hosts: hosts.parse().unwrap(),
            site,
            node_type,
            platform,
            threads: threads.parse().unwrap(),
            memory: memory.parse().unwrap(),
            disks,
            devices,
            serves: serves.split(' ').filter(|need| *need != "-").collect(),
        }
    };
    rows.map(read).collect()
}

/// The document of one host of a kind.
fn document(kind: &Kind<'_>, uid: String) -> Value {
    let mut disks: Vec<Value> = Vec::new();
    for disk in kind.disks.split(' ').filter(|disk| *disk != "-") {
        let (count, size) = disk.split_once('x').unwrap_or(("1", disk));
        let size: u64 = size.parse().unwrap();
        disks.extend(vec![json!({"size": size}); count.parse().unwrap()]);
    }
    let mut document = json!({
        "uid": uid, "node_type": kind.node_type, "storage_devices": disks,
        "architecture": {"platform_type": kind.platform, "smt_size": kind.threads},
        "main_memory": {"ram_size": kind.memory},
    });
    match kind.devices {
        "-" => {}
        "none" => document["gpu"] = json!({"gpu": false}),
        devices => {
            let (count, name) = devices.split_once(" x ").unwrap();
            let (vendor, model) = name.split_once(' ').unwrap();
            let count: u64 = count.parse().unwrap();
            document["gpu"] = json!({"gpu": true, "gpu_count": count, "gpu_vendor": vendor, "gpu_model": model});
        }
    }
    document
}

/// What is asked of every host, by the name that the table uses.
fn needs() -> Vec<(&'static str, Value, Value)> {
    let gpu = |text: &str| json!({"gpuType": text});
    let of = |count: u32| json!({"gpuCount": count});
    let memory = |gib: u32| json!({"gpuMemoryGiB": gib});
    let plain = json!({});
    let mut all = vec![
        ("arm64", json!({"cpuArch": "arm64"}), plain.clone()),
        ("256threads", json!({}), json!({"cpuMilli": 256_000})),
        ("1TiB", json!({}), json!({"memoryBytes": 1_u64 << 40})),
        ("1TBdisk", json!({}), json!({"diskBytes": 1_000_000_000_000_u64})),
        ("sgx", json!({"teeType": "sgx"}), plain.clone()),
        ("tdx", json!({"teeType": "tdx"}), plain.clone()),
        ("nvlink", json!({"gpuCount": 4, "nvlink": true}), plain.clone()),
    ];
    all.extend([("gpu", 1), ("2gpus", 2), ("4gpus", 4), ("5gpus", 5)].map(|(name, n)| (name, of(n), plain.clone())));
    let sizes = [
        ("12G", 12),
        ("16G", 16),
        ("24G", 24),
        ("32G", 32),
        ("40G", 40),
        ("48G", 48),
        ("80G", 80),
        ("94G", 94),
        ("128G", 128),
    ];
    all.extend(sizes.map(|(name, gib)| (name, memory(gib), plain.clone())));
    let kinds = [
        "amd",
        "intel",
        "k80",
        "m40",
        "p100",
        "p100-sxm2",
        "p100-pcie",
        "v100",
        "v100-16gb",
        "v100-32gb",
        "v100-sxm2",
        "v100-pcie",
        "rtx6000",
        "a30",
        "a100",
        "a100-40gb",
        "a100-80gb",
        "a100-sxm4",
        "a100-pcie",
        "h100",
        "h100-80gb",
        "h100-94gb",
        "h100-sxm5",
        "h100-nvl",
        "mi100",
        "max1550",
        "a100-mig-1g.5gb",
        "a100-mig-3g.40gb",
        "a30-mig-1g.6gb",
        "h100-mig-1g.12gb",
    ];
    all.extend(kinds.map(|text| (text, gpu(text), plain.clone())));
    all
}

fn need(input: &Value, tables: &Tables) -> Resolved {
    let input: HardwareInput = serde_json::from_value(input.clone()).unwrap();
    resolve(&input.requirements(tables).unwrap(), tables).unwrap()
}

#[test]
fn every_described_host_serves_what_its_row_says() {
    let (tables, kinds) = (Tables::default(), kinds());
    assert_eq!(kinds.iter().map(|kind| kind.hosts).sum::<usize>(), 500);
    let needs: Vec<(&str, Resolved, Resources)> = needs()
        .iter()
        .map(|(name, input, resources)| {
            (*name, need(input, &tables), serde_json::from_value(resources.clone()).unwrap())
        })
        .collect();
    let mut wrong = Vec::new();
    for (at, kind) in kinds.iter().enumerate() {
        let host = |n: usize| SiteNode::read(&document(kind, format!("{}-{at}-{n}", kind.site)), &tables).unwrap();
        let hosts: Vec<SiteNode> = (0..kind.hosts).map(host).collect();
        // All of a type or none: hosts of one kind are equal, so the type itself is reserved.
        let serves = |(_, need, resources): &&(&str, Resolved, Resources)| {
            choose(need, resources, &tables, &hosts).is_ok_and(|choice| choice.candidates.len() == 1)
        };
        let found: BTreeSet<&str> = needs.iter().filter(serves).map(|(name, ..)| *name).collect();
        if found != kind.serves {
            let words: Vec<&str> = needs.iter().map(|(name, ..)| *name).filter(|name| found.contains(name)).collect();
            wrong.push(format!("{} | {} | {} | {}", kind.site, kind.node_type, kind.devices, words.join(" ")));
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}
