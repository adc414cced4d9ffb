//! Nodes that public material shows, and which needs each of them serves. Owns the needs; the nodes and the verdicts stand in
//! `nodes_of.txt`, each row with its source, version and date. A verdict there is a decision: what a node has is read off its
//! row, never off the program.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::hardware::merge::{Merged, merge};
use orlop_core::hardware::{Resources, Substrate, Tables, place};
use serde_json::{Value, json};

use super::{bare, need, tables};
use crate::hardware::{availability, node, read};

/// A node: where it is told of, how the cluster's labels are read, what it has, what it serves.
struct Row<'t> {
    name: &'t str,
    reported: [&'t str; 3],
    labels_of: &'t str,
    labels: BTreeMap<&'t str, &'t str>,
    offers: BTreeMap<&'t str, &'t str>,
    serves: BTreeSet<&'t str>,
}

fn pairs(text: &str) -> BTreeMap<&str, &str> {
    text.split(' ').filter(|pair| *pair != "-").map(|pair| pair.split_once('=').unwrap()).collect()
}

fn rows() -> Vec<Row<'static>> {
    let lines = include_str!("nodes_of.txt").lines().filter(|line| !line.starts_with('#'));
    let row = |line: &'static str| {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, source, version, date, labels_of, labels, offers, serves] = fields[..] else { panic!("{line}") };
        let serves = serves.split(' ').filter(|need| *need != "-").collect();
        Row { name, reported: [source, version, date], labels_of, labels: pairs(labels), offers: pairs(offers), serves }
    };
    lines.map(row).collect()
}

fn object(row: &Row<'_>) -> Value {
    json!({
        "metadata": {"name": row.name, "labels": row.labels},
        "status": {"allocatable": row.offers, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// What is asked of every node, by the name that the table uses.
fn needs() -> Vec<(String, Value)> {
    let mut all = vec![
        ("gpu".to_owned(), json!({"gpuCount": 1})),
        ("2gpus".to_owned(), json!({"gpuCount": 2})),
        ("8gpus".to_owned(), json!({"gpuCount": 8})),
        ("nvlink8".to_owned(), json!({"gpuCount": 8, "nvlink": true})),
        ("sgx".to_owned(), json!({"teeType": "sgx"})),
        ("tdx".to_owned(), json!({"teeType": "tdx"})),
        ("sev-snp".to_owned(), json!({"teeType": "sev-snp"})),
        ("sev-snp+gpu".to_owned(), json!({"teeType": "sev-snp", "gpuCount": 1})),
        ("tdx+gpu".to_owned(), json!({"teeType": "tdx", "gpuCount": 1})),
    ];
    for gib in [4, 8, 12, 16, 24, 32, 40, 48, 80, 96, 141, 180, 256] {
        all.push((format!("{gib}G"), json!({"gpuMemoryGiB": gib})));
    }
    let kinds = [
        "t4",
        "p4",
        "p100",
        "v100",
        "v100-16gb",
        "v100-32gb",
        "a10g",
        "l4",
        "l40s",
        "a100",
        "a100-40gb",
        "a100-80gb",
        "a100-sxm4",
        "a100-pcie",
        "a30",
        "h100",
        "h100-sxm5",
        "h100-pcie",
        "h100-nvl",
        "h200",
        "b200",
        "b300",
        "gb200",
        "gb300",
        "rtxpro6000",
        "amd",
        "mi210",
        "mi300x",
        "mi325x",
        "amd-64gb",
        "intel",
        "flex140",
        "flex170",
        "max1100",
        "max1550",
        "intel-16gb",
        "mig-1g.5gb",
        "mig-3g.20gb",
        "mig-7g.80gb",
        "a100-mig-1g.5gb",
        "a100-mig-2g.10gb",
        "h100-mig-1g.10gb",
        "h100-mig-3g.40gb",
        "h200-mig-1g.18gb",
    ];
    all.extend(kinds.map(|text| (text.to_owned(), json!({"gpuType": text}))));
    all
}

fn tables_of(row: &Row<'_>) -> Tables {
    match row.labels_of {
        "native" => tables(json!({})),
        "single" => tables(json!({"gpu": {"migStrategy": "single"}})),
        family => tables(json!({"gpu": {"labelFamilies": ["native", family]}})),
    }
}

/// What a pod of a need asks for; nothing where Kubernetes has no words for it.
fn asked(input: &Value, tables: &Tables) -> Option<Merged> {
    let words = tables.vocabulary(Substrate::Kubernetes);
    let placement = place(&need(input.clone(), tables), &Resources::default(), &words).ok()?;
    merge(&read(&bare(), "performer").unwrap(), &placement).ok()
}

#[test]
fn every_node_of_public_material_serves_what_its_row_says() {
    let (rows, needs) = (rows(), needs());
    assert!(rows.len() >= 60, "{}", rows.len());
    let mut asked_of: BTreeMap<&str, Vec<(&str, Option<Merged>)>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for row in &rows {
        let [source, version, date] = row.reported;
        assert!(!source.is_empty() && !version.is_empty() && date.len() == 10, "{}", row.name);
        let asked = asked_of.entry(row.labels_of).or_insert_with(|| {
            let tables = tables_of(row);
            needs.iter().map(|(name, input)| (name.as_str(), asked(input, &tables))).collect()
        });
        let node = node(&object(row)).unwrap();
        let serves = |asked: &Option<Merged>| {
            asked.as_ref().is_some_and(|merged| availability(merged, std::slice::from_ref(&node)).available)
        };
        let found: Vec<&str> = asked.iter().filter(|(_, asked)| serves(asked)).map(|(name, _)| *name).collect();
        if found.iter().copied().collect::<BTreeSet<_>>() != row.serves {
            wrong.push(format!("{} | {}", row.name, found.join(" ")));
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}
