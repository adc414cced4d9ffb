//! Requirements and plans as people read them.

use std::io::Write as _;

use orlop_cloud::analyze::Requirements;
use orlop_cloud::provision::info::Info;
use orlop_cloud::provision::plan::PlannedOffering;
use orlop_core::machine::saga::SagaState;
use serde_json::Value;

use super::args::{Form, OutputArgs};
use super::document::Report;
use super::failure::Failure;
use crate::view::text::one_line;

/// Facts shown behind a field; all of them with `-v`.
const EVIDENCE: usize = 2;

/// Requirements, field by field, with where each comes from.
pub(super) fn requirements(requirements: &Requirements, verbose: bool) -> String {
    let value = serde_json::to_value(requirements).unwrap_or_default();
    let mut needs: Vec<(&String, &Value)> = value.as_object().into_iter().flatten().collect();
    needs.retain(|(_, need)| need.is_object());
    needs.sort_by_key(|(name, _)| FIELDS.iter().position(|field| field == name).unwrap_or(FIELDS.len()));
    let mut out = String::new();
    for (name, need) in needs {
        let part = |key: &str| need.get(key).map_or_else(String::new, shown);
        let (hard, target) = (part("hard"), part("target"));
        if hard.is_empty() && target.is_empty() {
            continue;
        }
        let least = if hard.is_empty() || hard == target { String::new() } else { format!(" (at least {hard})") };
        let must = if !hard.is_empty() && hard == target { ", hard" } else { "" };
        let confidence = need.get("confidence").map(ToString::to_string).unwrap_or_default();
        out.push_str(&format!("{name:21} {target}{least}   [{confidence}{must}]\n"));
        evidence(need, verbose, &mut out);
    }
    out
}

/// Fields in the order in which people ask for a machine: what it has, then what runs on it.
const FIELDS: [&str; 18] = [
    "cpu_cores",
    "ram_gb",
    "disk_gb",
    "gpu_required",
    "gpu_count",
    "gpu_vendor",
    "gpu_memory_gb",
    "cuda_required",
    "cuda_version",
    "compute_capability",
    "rocm_required",
    "arch",
    "os_type",
    "os_version",
    "python_version",
    "features",
    "special_requirements",
    "duration_hours",
];

fn evidence(need: &Value, verbose: bool, out: &mut String) {
    let all: Vec<&Value> = need.get("evidence").and_then(Value::as_array).into_iter().flatten().collect();
    let count = if verbose { all.len() } else { EVIDENCE };
    for line in all.iter().take(count) {
        let text = |key: &str| line.get(key).and_then(Value::as_str).unwrap_or_default();
        let number = line.get("line").and_then(Value::as_u64).filter(|number| *number > 0);
        let place = match (text("file"), number) {
            ("", _) => String::new(),
            (file, Some(number)) => format!("{file}:{number} "),
            (file, None) => format!("{file} "),
        };
        let quote =
            if text("quote").is_empty() { String::new() } else { format!(" \u{201c}{}\u{201d}", text("quote")) };
        out.push_str(&format!("    {}\n", one_line(&format!("{place}{}{quote}", text("rule")), 140)));
    }
    if all.len() > count {
        out.push_str(&format!("    and {} more\n", all.len() - count));
    }
}

/// A value for people; nothing for what is not there.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::String(text) => one_line(text, 200),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Offerings, the best first.
pub(super) fn offerings(offerings: &[PlannedOffering], hours: u32) -> String {
    let mut out = format!("\noffered for {hours} h, the best first:\n");
    for (index, offering) in offerings.iter().enumerate() {
        let hardware = &offering.hardware;
        let cards = hardware.cards.as_ref();
        let cards = cards
            .map_or(String::new(), |cards| format!(", {} x {} with {} GB", cards.count, cards.model, cards.memory_gb));
        out.push_str(&format!(
            "{:>3}. {} at {}{}: {} threads, {} GiB{cards}\n     {}, {} to {}, {}, image {}\n",
            index + 1,
            one_line(&offering.node_type, 80),
            one_line(&offering.site, 40),
            machine(offering),
            hardware.threads,
            hardware.ram_gib,
            if offering.availability == "unknown" { "not known whether free" } else { &offering.availability },
            offering.start,
            offering.end,
            offering.su_estimate,
            one_line(&offering.image.name, 120),
        ));
    }
    out
}

/// What is said of a virtual machine.
fn machine(offering: &PlannedOffering) -> &'static str {
    match &offering.flavor {
        None => "",
        Some(flavor) if flavor.reserved => ", a virtual machine",
        Some(_) => ", a virtual machine without a lease",
    }
}

/// Lines under a heading; nothing where there are none.
pub(super) fn lines(title: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let body: String = lines.iter().map(|line| format!("  {}\n", one_line(line, 300))).collect();
    format!("\n{title}:\n{body}")
}

/// A deployment, with the command that opens it as the last line if it is there.
pub(super) fn deployment(info: &Info, state: SagaState, failure: Option<&Failure>) -> String {
    let value = serde_json::to_value(info).unwrap_or_default();
    let mut out = String::new();
    for (name, key) in [
        ("deployment", "deployment_id"),
        ("server", "server_name"),
        ("status", "status"),
        ("node type", "node_type"),
        ("site", "site"),
        ("image", "image_name"),
        ("lease", "lease_id"),
        ("lease end", "lease_end"),
        ("server id", "server_id"),
        ("floating IP", "floating_ip"),
        ("fixed IP", "fixed_ip"),
        ("key", "key_name"),
        ("estimate", "su_estimate"),
    ] {
        let text = value.get(key).map_or_else(String::new, shown);
        if !text.is_empty() {
            out.push_str(&format!("{name:12} {text}\n"));
        }
    }
    out.push_str(&lines("left behind", &info.leftovers));
    let is_alive = !matches!(state, SagaState::Failed | SagaState::Destroyed);
    let name = if info.server_name.is_empty() { &info.deployment_id } else { &info.server_name };
    let is_ready = matches!(state, SagaState::Ready | SagaState::Degraded);
    if is_alive && !is_ready && failure.is_some() {
        out.push_str(&format!("\ngo on:  orlop provisioner resume {name}\nremove: orlop provisioner destroy {name}\n"));
    }
    if let Some(done) = complete(info).filter(|_| is_ready && failure.is_none()) {
        out.push_str(&format!("\n{done}\n"));
    }
    out
}

/// How one signs in to a server; nothing while that is not known.
pub(super) fn complete(info: &Info) -> Option<String> {
    let command = info.ssh_command.as_ref()?;
    let user = info.ssh_user.as_deref().unwrap_or("<user>");
    let address = info.floating_ip.as_deref().or(info.fixed_ip.as_deref()).unwrap_or_default();
    Some(format!("Complete! SSH: {}@{address}\n{command}", one_line(user, 64)))
}

/// What the cloud shows of a deployment.
pub(super) fn live(live: &Value) -> String {
    let mut out = String::new();
    for (name, key) in [("lease", "lease"), ("server", "server"), ("floating IP", "floating_ip")] {
        let Some(object) = live.get(key).filter(|object| object.is_object()) else { continue };
        let text =
            ["status", "address", "end", "fault", "error"].map(|part| object.get(part).map_or_else(String::new, shown));
        let words: Vec<String> = text.into_iter().filter(|text| !text.is_empty()).collect();
        out.push_str(&format!("live {name:11} {}\n", words.join(", ")));
    }
    out
}

/// Deployments of this machine, one a line.
pub(super) fn list(rows: &[Value]) -> String {
    let mut out = String::new();
    for row in rows {
        let cell =
            |key: &str| row.get(key).map(shown).filter(|text| !text.is_empty()).unwrap_or_else(|| "-".to_owned());
        let (name, id, status, site) = (cell("server_name"), cell("deployment_id"), cell("status"), cell("site"));
        let (end, address) = (cell("lease_end"), cell("address"));
        out.push_str(&format!("{name:32} {id} {status:12} {site:8} {end:20} {address}\n"));
    }
    if rows.is_empty() { "there are no deployments\n".to_owned() } else { out }
}

/// Objects that bear marks, one a line.
pub(super) fn objects(objects: &[Value]) -> String {
    let mut out = String::new();
    for object in objects {
        let cell = |key: &str| object.get(key).map_or_else(String::new, shown);
        let known = match object.get("known").and_then(Value::as_bool) {
            Some(false) => " (not known here)",
            _ => "",
        };
        out.push_str(&format!("  {} {:14} {} {}{known}\n", cell("deployment"), cell("kind"), cell("id"), cell("name")));
    }
    if objects.is_empty() { "nothing is marked\n".to_owned() } else { out }
}

/// A result of which another follows.
pub(super) fn interim(output: &OutputArgs, report: &Report) {
    let text = match output.output {
        Form::Text => format!("{}\n", report.text),
        Form::Json => return,
        Form::Jsonl => {
            let event = serde_json::json!({
                "ts": jiff::Timestamp::now().to_string(), "step": null, "state": "running",
                "message": report.data.get("status"), "attempt": report.data.get("attempt"), "fields": report.data,
            });
            format!("{event}\n")
        }
    };
    // A reader that has gone misses it; the last one counts.
    drop(std::io::stdout().lock().write_all(text.as_bytes()));
}
