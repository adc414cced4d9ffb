//! Requirements and plans as people read them. Owns the form; words of a repository are quoted, on one line, without anything
//! that steers a terminal.

use orlop_cloud::analyze::Requirements;
use orlop_cloud::provision::plan::Plan;
use serde_json::Value;

use crate::view::text::one_line;

/// Facts shown behind a field; all of them with `-v`.
const EVIDENCE: usize = 2;

/// Requirements, field by field, with where each comes from.
pub(super) fn requirements(requirements: &Requirements, verbose: bool) -> String {
    let value = serde_json::to_value(requirements).unwrap_or_default();
    let mut out = String::new();
    for (name, need) in value.as_object().into_iter().flatten().filter(|(_, need)| need.is_object()) {
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
pub(super) fn offerings(plan: &Plan) -> String {
    let mut out = format!("\noffered for {} h, the best first:\n", plan.hours);
    for (index, offering) in plan.offerings.iter().enumerate() {
        let hardware = &offering.hardware;
        let cards = hardware.cards.as_ref();
        let cards = cards
            .map_or(String::new(), |cards| format!(", {} x {} with {} GB", cards.count, cards.model, cards.memory_gb));
        out.push_str(&format!(
            "{:>3}. {} at {}: {} threads, {} GiB{cards}\n     {}, {} to {}, {}, image {}\n",
            index + 1,
            one_line(&offering.node_type, 80),
            one_line(&offering.site, 40),
            hardware.threads,
            hardware.ram_gib,
            if offering.availability == "unknown" { "not known whether free" } else { offering.availability },
            offering.start,
            offering.end,
            offering.su_estimate,
            one_line(&offering.image.name, 120),
        ));
    }
    out
}

/// Lines under a heading; nothing where there are none.
pub(super) fn lines(title: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let body: String = lines.iter().map(|line| format!("  {}\n", one_line(line, 300))).collect();
    format!("\n{title}:\n{body}")
}
