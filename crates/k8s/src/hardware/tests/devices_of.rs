//! Devices as drivers publish them, and which claims get them. Owns the needs, and a reading of the few conditions that claims
//! are made of; devices and verdicts stand in `devices_of.txt`, each row with its source, version and date. What the scheduler
//! would find and what the operator tells of the same devices must both be the verdict.

use std::collections::BTreeSet;

use orlop_core::hardware::Machine;
use orlop_core::hardware::gpu::Catalogue;
use orlop_core::quantity::Quantity;
use serde_json::{Value, json};

use super::{bare, given};
use crate::hardware::{Node, availability, slices};

/// The texts in quotes.
fn quoted(text: &str) -> Vec<&str> {
    text.split('"').skip(1).step_by(2).collect()
}

/// Whether a device meets a condition of a claim.
fn meets(device: &Value, condition: &str) -> bool {
    let reported = device.get("basic").unwrap_or(device);
    if let Some((guard, rest)) = condition.split_once(" || ") {
        let brand = reported.pointer("/attributes/brand/string").and_then(Value::as_str);
        assert!(guard.starts_with("!(\"brand\" in ") && rest.ends_with(".brand.startsWith(\"NvidiaV\")"));
        return brand.is_none_or(|brand| !brand.starts_with("NvidiaV"));
    }
    let (guard, rest) = condition.split_once(" && ").unwrap();
    let name = quoted(guard)[0];
    if name == "memory" {
        let least: Quantity = quoted(rest)[1].parse().unwrap();
        let has = reported.pointer("/capacity/memory/value").or_else(|| reported.pointer("/capacity/memory"));
        let has = has.and_then(Value::as_str).and_then(|text| text.parse::<Quantity>().ok()).and_then(Quantity::bytes);
        return has.is_some_and(|has| has >= least.bytes().unwrap());
    }
    let has = reported.pointer(&format!("/attributes/{name}/string")).and_then(Value::as_str);
    has.is_some_and(|has| quoted(rest)[1..].contains(&has))
}

/// Whether a device is of a class, as the drivers' installations define them.
fn is_of(device: &Value, class: &str) -> bool {
    let reported = device.get("basic").unwrap_or(device);
    let kind = reported.pointer("/attributes/type/string").and_then(Value::as_str);
    match class {
        "gpu.nvidia.com" => kind == Some("gpu"),
        "mig.nvidia.com" => kind == Some("mig"),
        _ => true,
    }
}

fn needs() -> Vec<(String, Value)> {
    let mut all = vec![
        ("gpu".to_owned(), json!({"gpuType": "nvidia"})),
        ("2gpus".to_owned(), json!({"gpuType": "nvidia", "gpuCount": 2})),
        ("amd".to_owned(), json!({"gpuType": "amd"})),
        ("intel".to_owned(), json!({"gpuType": "intel"})),
        ("amd-64G".to_owned(), json!({"gpuType": "amd", "gpuMemoryGiB": 64})),
        ("intel-16G".to_owned(), json!({"gpuType": "intel", "gpuMemoryGiB": 16})),
    ];
    for gib in [4, 8, 16, 24, 40, 80] {
        all.push((format!("{gib}G"), json!({"gpuMemoryGiB": gib})));
    }
    let kinds = [
        "t4",
        "a30",
        "a100",
        "a100-40gb",
        "a100-80gb",
        "a100-sxm4",
        "a100-pcie",
        "h100",
        "mi300x",
        "mi325x",
        "flex140",
        "flex170",
        "max1100",
        "max1550",
        "mig-1g.5gb",
        "a100-mig-1g.5gb",
        "a30-mig-1g.6gb",
    ];
    all.extend(kinds.map(|text| (text.to_owned(), json!({"gpuType": text}))));
    all
}

#[test]
fn claims_get_what_the_row_of_each_driver_says() {
    let lines = include_str!("devices_of.txt").lines().filter(|line| !line.starts_with('#'));
    let (mut rows, mut wrong) = (0, Vec::new());
    for line in lines {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, source, version, date, driver, devices, verdict] = fields[..] else { panic!("{line}") };
        assert!(!source.is_empty() && !version.is_empty() && date.len() == 10, "{name}");
        rows += 1;
        let devices: Vec<Value> = serde_json::from_str(devices).unwrap();
        let slice = json!({"spec": {"driver": driver, "nodeName": name, "devices": devices}});
        let (_, reported) = slices(&slice, Catalogue::built_in()).unwrap();
        let machine = Machine { name: name.to_owned(), devices: reported, ..Machine::default() };
        let node = Node { machine, ready: true, schedulable: true };
        let (mut claimed, mut shown) = (Vec::new(), Vec::new());
        for (need, mut input) in needs() {
            input["allocation"] = json!("dra");
            let Ok((_, merged)) = given(&bare(), input, json!({})) else { continue };
            let claim = &merged.claims[0];
            let is_of_driver =
                |class: &str| class == driver || (class == "mig.nvidia.com" && driver == "gpu.nvidia.com");
            let meets_all = |device: &&Value| {
                is_of(device, &claim.class) && claim.selectors.iter().all(|condition| meets(device, condition))
            };
            let count = if is_of_driver(&claim.class) { devices.iter().filter(meets_all).count() } else { 0 };
            if count >= claim.count as usize {
                claimed.push(need.clone());
            }
            if availability(&merged, std::slice::from_ref(&node)).available {
                shown.push(need);
            }
        }
        let expected: BTreeSet<&str> = verdict.split(' ').filter(|need| *need != "-").collect();
        if claimed != shown || claimed.iter().map(String::as_str).collect::<BTreeSet<_>>() != expected {
            let (claimed, shown) = (claimed.join(" "), shown.join(" "));
            wrong.push(format!(
                "{name} | claimed {claimed}{}",
                if claimed == shown { String::new() } else { format!(" | shown {shown}") }
            ));
        }
    }
    assert!(rows >= 12, "{rows}");
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}
