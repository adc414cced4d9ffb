//! `devcontainer.json`: image, what the host must have, options of the container. Owns the layout and the removal of
//! comments, which the format allows.

use orlop_core::hardware::gpu::Vendor;
use serde_json::Value;

use super::super::fact::{Finding, HARD, Sink, WEAK};
use super::image::{self, Use};
use super::{locate, shell, size, unreadable};

/// Reads a `devcontainer.json`.
pub(super) fn read(text: &str, sink: &mut Sink<'_>) {
    let document: Value = match serde_json::from_str(&without_comments(text)) {
        Ok(document) => document,
        Err(error) => return unreadable(sink, &error.to_string()),
    };
    if let Some(image) = document.get("image").and_then(Value::as_str) {
        image::judge(image, Use::Run, locate(text, image), sink);
    }
    let options: Vec<&str> =
        document.get("runArgs").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    shell::run_options(&options, locate(text, "runArgs"), sink);
    let Some(host) = document.get("hostRequirements") else { return };
    let at = locate(text, "hostRequirements");
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    let memory = |value: &Value| value.as_str().and_then(size::gib);
    if let Some(cpus) = host.get("cpus").and_then(number) {
        sink.add(at, "host-requirement", Finding::Cores(cpus), HARD);
    }
    if let Some(gib) = host.get("memory").and_then(memory) {
        sink.add(at, "host-requirement", Finding::Ram(gib), HARD);
    }
    if let Some(gib) = host.get("storage").and_then(memory) {
        // 2^30 bytes are a little more than 10^9.
        let gb = u32::try_from((u64::from(gib) * 1_073_741_824).div_ceil(1_000_000_000)).unwrap_or(u32::MAX);
        sink.add(at, "host-requirement", Finding::Disk(gb), HARD);
    }
    match host.get("gpu") {
        Some(Value::Bool(true)) => sink.add(at, "host-requirement", Finding::Gpu(Some(Vendor::Nvidia)), HARD),
        Some(Value::String(text)) if text == "optional" => sink.add(at, "host-requirement", Finding::Gpu(None), WEAK),
        Some(Value::Object(gpu)) => {
            sink.add(at, "host-requirement", Finding::Gpu(Some(Vendor::Nvidia)), HARD);
            if let Some(gib) = gpu.get("memory").and_then(memory) {
                sink.add(at, "host-requirement", Finding::Vram(gib), HARD);
            }
        }
        _ => {}
    }
}

/// JSON without `//` and `/* */` comments and without commas before a closing bracket.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut quoted = false;
    while let Some(ch) = chars.next() {
        match ch {
            '\\' if quoted => {
                out.push(ch);
                out.extend(chars.next());
            }
            '"' => {
                quoted = !quoted;
                out.push(ch);
            }
            '/' if !quoted && chars.peek() == Some(&'/') => {
                while chars.peek().is_some_and(|ch| *ch != '\n') {
                    chars.next();
                }
            }
            '/' if !quoted && chars.peek() == Some(&'*') => {
                chars.next();
                let mut before = ' ';
                for ch in chars.by_ref() {
                    if before == '*' && ch == '/' {
                        break;
                    }
                    before = ch;
                }
            }
            ']' | '}' if !quoted => {
                let end = out.trim_end().len();
                if out.get(..end).is_some_and(|text| text.ends_with(',')) {
                    out.truncate(end - 1);
                }
                out.push(ch);
            }
            ch => out.push(ch),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(text: &str) -> String {
        let (mut facts, mut notes) = (Vec::new(), Vec::new());
        read(text, &mut Sink::new(".devcontainer/devcontainer.json", &mut facts, &mut notes));
        let facts = facts.iter().map(|fact| format!("{:?} {} {:?}", fact.strength, fact.rule, fact.finding));
        facts.chain(notes).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_the_host_must_have() {
        let text = "{ // comment\n \"image\": \"mcr.microsoft.com/devcontainers/python:3.11-bookworm\", /* \"x\" */\n \"runArgs\": [\"--gpus\", \"all\",],\n \"hostRequirements\": {\"cpus\": 8, \"memory\": \"32gb\", \"storage\": \"100gb\", \"gpu\": {\"cores\": 1000, \"memory\": \"24gb\"},}\n}";
        insta::assert_snapshot!(reported(text), @r"
        Target os-of-image Os(Os { kind: Ubuntu, version: Version { major: 24, minor: 4 }, mapped: true })
        Target python-of-image Python(Version { major: 3, minor: 11 })
        Hard gpus-option Gpu(Some(Nvidia))
        Hard host-requirement Cores(8)
        Hard host-requirement Ram(32)
        Hard host-requirement Disk(108)
        Hard host-requirement Gpu(Some(Nvidia))
        Hard host-requirement Vram(24)
        ");
        assert!(reported("{\"hostRequirements\": {\"gpu\": \"optional\"}}").starts_with("Weak"));
        assert!(reported("{\"hostRequirements\": {\"gpu\": true}}").starts_with("Hard"));
        assert!(reported("{\"a\": \"// no comment\"}").is_empty());
        assert!(reported("{ /* open").contains("cannot be read"));
    }
}
