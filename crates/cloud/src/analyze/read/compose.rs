//! Compose files: services, what they reserve, what their virtual machines take.

use std::collections::BTreeMap;

use orlop_core::hardware::gpu::Vendor;
use serde_json::{Map, Value};

use super::super::fact::{At, Finding, HARD, SOFT, Sink};
use super::super::sizing::{ServiceClass, heap};
use super::dockerfile::{arch_of, environment};
use super::image::{self, Use};
use super::{launch, locate, size, unreadable, yaml};

/// Services that are counted.
const MAX_SERVICES: usize = 100;

/// Reads a compose file.
pub(super) fn read(text: &str, sink: &mut Sink<'_>) {
    let document: Value = match yaml(text) {
        Ok(document) => document,
        Err(error) => return unreadable(sink, &error.to_string()),
    };
    let mut reserved = Reserved::default();
    let services = document.get("services").and_then(Value::as_object);
    for (name, service) in services.map(|services| in_order(services, text)).into_iter().flatten().take(MAX_SERVICES) {
        let at = locate(text, &format!("{name}:"));
        one(name, service, text, at, sink);
        reserved.add(service);
    }
    let at = locate(text, "reservations:");
    if reserved.milli_cpus > 0 {
        sink.add(at, "compose-reservation", Finding::Cores(reserved.milli_cpus.div_ceil(1000)), HARD);
    }
    if reserved.tenths > 0 {
        sink.add(at, "compose-reservation", Finding::Ram(reserved.tenths.div_ceil(10)), HARD);
    }
}

/// Services in the order in which lines begin with their names, so that those that are read are the first of the file.
fn in_order<'d>(services: &'d Map<String, Value>, text: &str) -> Vec<(&'d String, &'d Value)> {
    let mut lines = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        if let Some((key, _)) = line.split_once(':') {
            lines.entry(key.trim().trim_matches(['"', '\''])).or_insert(number);
        }
    }
    let mut all: Vec<_> = services.iter().collect();
    all.sort_by_key(|(name, _)| lines.get(name.as_str()).copied().unwrap_or(usize::MAX));
    all
}

/// What all services reserve together, since they run at the same time.
#[derive(Default)]
struct Reserved {
    milli_cpus: u32,
    tenths: u32,
}

impl Reserved {
    fn add(&mut self, service: &Value) {
        let Some(reservations) = service.pointer("/deploy/resources/reservations") else { return };
        let cpus = reservations.get("cpus").map(words).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
        if cpus.is_finite() && cpus > 0.0 {
            self.milli_cpus = self.milli_cpus.saturating_add((cpus * 1000.0).ceil() as u32);
        }
        let tenths = reservations.get("memory").map(words).and_then(|text| size::gib_tenths(&text)).unwrap_or(0);
        self.tenths = self.tenths.saturating_add(tenths);
    }
}

/// A scalar as text.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

fn one(name: &str, service: &Value, text: &str, at: At<'_>, sink: &mut Sink<'_>) {
    let image = service.get("image").map(words).unwrap_or_default();
    if !image.is_empty() {
        image::judge(&image, Use::Beside, locate(text, &image), sink);
    }
    if let Some(arch) = service.get("platform").map(words).as_deref().and_then(arch_of) {
        sink.add(at, "arch-of-platform", Finding::Arch(arch), HARD);
    }
    let all = service.to_string();
    let heap = size::heap_tenths(&all).map(heap);
    let limit = ["mem_limit", "mem_reservation"].iter().filter_map(|key| service.get(*key)).map(words);
    let limit = limit.filter_map(|text| size::gib(&text)).max();
    let class = ServiceClass::of(&image, name);
    let class = if heap.is_some() && class == ServiceClass::Light { ServiceClass::Jvm } else { class };
    sink.add(at, "compose-service", Finding::Service(name.to_owned(), class, heap.max(limit)), SOFT);
    if let Some(shared) = service.get("shm_size").map(words).and_then(|text| size::gib(&text)) {
        sink.add(locate(text, "shm_size"), "compose-shared-memory", Finding::Ram(shared), SOFT);
    }
    for key in ["entrypoint", "command"] {
        let command = service.get(key).map(Value::to_string).unwrap_or_default();
        launch::judge(&launch::words(&command), locate(text, &format!("{key}:")), sink);
    }
    devices(service, text, sink);
    for (key, value) in service.get("environment").and_then(Value::as_object).into_iter().flatten() {
        environment(&format!("{key}={}", words(value)), locate(text, key), sink);
    }
    for entry in service.get("environment").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        environment(entry, locate(text, entry), sink);
    }
}

/// Cards a service asks for: `runtime: nvidia`, `gpus`, reserved devices.
fn devices(service: &Value, text: &str, sink: &mut Sink<'_>) {
    let nvidia = Finding::Gpu(Some(Vendor::Nvidia));
    if service.get("runtime").and_then(Value::as_str) == Some("nvidia") {
        sink.add(locate(text, "runtime:"), "compose-runtime", nvidia.clone(), HARD);
    }
    let gpus = service.get("gpus");
    let listed = gpus.and_then(Value::as_array).into_iter().flatten();
    let reserved =
        service.pointer("/deploy/resources/reservations/devices").and_then(Value::as_array).into_iter().flatten();
    if gpus.is_some_and(|gpus| !words(gpus).is_empty()) {
        sink.add(locate(text, "gpus:"), "compose-gpus", nvidia.clone(), HARD);
    }
    let mut together: u32 = 0;
    for device in listed.chain(reserved) {
        let driver = device.get("driver").map(words).unwrap_or_default();
        let capable = device.get("capabilities").is_some_and(|all| all.to_string().contains("gpu"));
        if !capable && !["nvidia", "amd"].contains(&driver.as_str()) {
            continue;
        }
        let vendor = if driver == "amd" { Vendor::Amd } else { Vendor::Nvidia };
        sink.add(locate(text, "devices:"), "compose-device", Finding::Gpu(Some(vendor)), HARD);
        let ids = device.get("device_ids").and_then(Value::as_array).map_or(0, Vec::len);
        let count = device
            .get("count")
            .map(words)
            .and_then(|count| count.parse().ok())
            .unwrap_or(u32::try_from(ids).unwrap_or(0));
        together = together.saturating_add(count);
    }
    if together > 0 {
        sink.add(locate(text, "devices:"), "compose-device", Finding::GpuCount(together), HARD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(text: &str) -> String {
        let (mut facts, mut notes) = (Vec::new(), Vec::new());
        read(text, &mut Sink::new("compose.yml", &mut facts, &mut notes));
        let facts =
            facts.iter().map(|fact| format!("{} {:?} {} {:?}", fact.line, fact.strength, fact.rule, fact.finding));
        facts.chain(notes).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn services_reservations_and_devices() {
        let text = r#"
services:
  train:
    image: pytorch/pytorch:2.1.0-cuda12.1-cudnn8-runtime
    shm_size: 8gb
    deploy:
      resources:
        reservations:
          cpus: "2.5"
          memory: 16G
          devices:
            - driver: nvidia
              count: 2
              capabilities: [gpu]
  db:
    image: postgres:15
    mem_limit: 2g
    deploy: {resources: {reservations: {memory: 512M}}}
  search:
    image: elasticsearch:8
    environment:
      - ES_JAVA_OPTS=-Xms2g -Xmx4g
"#;
        insta::assert_snapshot!(reported(text), @r#"
        4 Hard gpu-image Gpu(Some(Nvidia))
        4 Hard cuda-image Cuda(Version { major: 12, minor: 1 })
        4 Target class-of-image Class(DeepLearning)
        3 Target compose-service Service("train", Light, None)
        5 Target compose-shared-memory Ram(8)
        11 Hard compose-device Gpu(Some(Nvidia))
        11 Hard compose-device GpuCount(2)
        15 Target compose-service Service("db", Light, Some(2))
        19 Target compose-service Service("search", Heavy, Some(6))
        8 Hard compose-reservation Cores(3)
        8 Hard compose-reservation Ram(17)
        "#);
    }

    #[test]
    fn other_ways_to_ask_for_cards() {
        assert!(reported("services: {a: {runtime: nvidia}}").contains("compose-runtime Gpu(Some(Nvidia))"));
        assert!(reported("services: {a: {gpus: all}}").contains("compose-gpus Gpu(Some(Nvidia))"));
        assert!(reported("services: {a: {gpus: [{driver: amd, count: 1}]}}").contains("compose-device Gpu(Some(Amd))"));
        assert!(reported("services: {a: {environment: {CUDA_VISIBLE_DEVICES: ''}}}").contains("CpuOnly"));
        assert!(reported("services: {a: {environment: ['CUDA_VISIBLE_DEVICES=-1']}}").contains("CpuOnly"));
        assert!(reported("services: {a: {platform: linux/arm64}}").contains("Arch(Arm64)"));
        assert!(
            !reported("services: {a: {deploy: {resources: {reservations: {devices: [{driver: fpga}]}}}}}")
                .contains("Gpu")
        );
    }

    #[test]
    fn a_block_that_many_services_repeat_is_read() {
        let services: Vec<String> = (0..300).map(|n| format!("  s{n}: {{<<: *base, image: x}}")).collect();
        let text = format!("x-base: &base {{restart: always, mem_limit: 1g}}\nservices:\n{}\n", services.join("\n"));
        assert!(reported(&text).contains("Service(\"s99\""));
    }

    #[test]
    fn bombs_and_broken_files_give_a_note() {
        let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
        for (name, before) in
            ["b", "c", "d", "e", "f", "g", "h", "i"].iter().zip(["a", "b", "c", "d", "e", "f", "g", "h"])
        {
            let nine = vec![format!("*{before}"); 9].join(", ");
            bomb.push_str(&format!("{name}: &{name} [{nine}]\n"));
        }
        assert!(reported(&bomb).contains("cannot be read") || reported(&bomb).is_empty());
        assert!(reported("services: [").contains("compose.yml cannot be read and is ignored"));
        assert_eq!(reported("services: 3"), "");
    }
}
