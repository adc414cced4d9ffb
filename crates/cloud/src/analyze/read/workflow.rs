//! Workflows of Nextflow and Snakemake: what one of their processes asks for, which a machine must have. Owns the patterns; both
//! are programs, and none is run.

use std::collections::BTreeSet;

use super::super::fact::{At, Fact, Finding, PINNED, SOFT, Sink, WEAK};
use super::super::sizing::Class;

/// Threads of a rule of Snakemake that are asked for; what goes beyond is scaled down.
const MAX_THREADS: f64 = 32.0;

/// Reads settings or processes of Nextflow: `cpus = { 12 * task.attempt }`, `memory '72.GB'`, `time = 16.h`.
pub(super) fn read_nextflow(text: &str, sink: &mut Sink<'_>) {
    class(text, sink);
    let mut blocks = Blocks::default();
    for (index, line) in text.lines().enumerate() {
        let at = At { line: index + 1, quote: line };
        let code = line.split("//").next().unwrap_or_default().trim();
        blocks.enter(code);
        read_setting(code, at, blocks.label(), sink);
        blocks.leave();
    }
}

/// The blocks of settings that are open, by the depth at which each begins.
#[derive(Default)]
struct Blocks {
    depth: usize,
    labels: Vec<(usize, String)>,
}

impl Blocks {
    fn enter(&mut self, code: &str) {
        let name = code.strip_prefix("withLabel").map(|rest| rest.trim_start_matches([':', ' ', '\t']));
        let name = name.and_then(|rest| rest.split_once('{')).map(|(name, _)| unquoted(name));
        self.labels.extend(name.map(|name| (self.depth, name)));
        let count = |bracket: char| code.matches(bracket).count();
        self.depth = (self.depth + count('{')).saturating_sub(count('}'));
    }

    /// The label whose processes a setting is for.
    fn label(&self) -> Option<&str> {
        self.labels.last().map(|(_, label)| label.as_str())
    }

    fn leave(&mut self) {
        while self.labels.last().is_some_and(|(begin, _)| *begin >= self.depth) {
            self.labels.pop();
        }
    }
}

fn unquoted(text: &str) -> String {
    text.trim().trim_matches(['\'', '"']).to_owned()
}

/// Reads a line of settings or of a process.
fn read_setting(code: &str, at: At<'_>, label: Option<&str>, sink: &mut Sink<'_>) {
    let mut ask = |value: Option<f64>, finding: fn(u32) -> Finding| match label {
        Some(label) => add(value, |value| Finding::OfLabel(label.to_owned(), Box::new(finding(value))), at, sink),
        None => add(value, finding, at, sink),
    };
    if let Some((key, value)) = code.split_once(|ch: char| ch.is_whitespace() || ch == '=') {
        let key = key.trim().rsplit('.').next().unwrap_or_default();
        let value = value.trim_start_matches(['=', ' ', '{', '\'', '"', '(', '\t']);
        match key {
            "cpus" | "max_cpus" => ask(number(value).map(|(cores, _)| cores), Finding::Cores),
            "memory" => ask(number(value).and_then(|(size, unit)| gib(size, unit)), Finding::Ram),
            "disk" => ask(number(value).and_then(|(size, unit)| gib(size, unit)), Finding::Disk),
            "time" => ask(number(value).and_then(|(time, unit)| hours(time, unit)), Finding::Hours),
            // A process may bear several labels, or none.
            "process" if value.ends_with('{') && !value.starts_with('{') => {
                sink.add(at, "workflow-process", Finding::Label(String::new()), PINNED);
            }
            "label" => sink.add(at, "workflow-label", Finding::Label(unquoted(value)), PINNED),
            // A process that can use a card is one of several.
            "accelerator" => sink.add(at, "workflow-accelerator", Finding::Gpu(None), WEAK),
            _ => {}
        }
    }
}

/// Reads rules of Snakemake: `threads: 8`, `mem_mb=65536`, `disk_mb=…`, `runtime=…` in minutes.
pub(super) fn read_snakemake(text: &str, sink: &mut Sink<'_>) {
    class(text, sink);
    for (index, line) in text.lines().enumerate() {
        let at = At { line: index + 1, quote: line };
        let code = line.split('#').next().unwrap_or_default();
        for part in code.split(',') {
            let part = part.trim().trim_start_matches("resources:").trim();
            let Some((key, value)) = part.split_once([':', '=']) else { continue };
            let value = number(value.trim()).map(|(value, _)| value);
            match key.trim() {
                // The most a rule can use: it runs on fewer.
                "threads" => add(value.map(|threads| threads.min(MAX_THREADS)), Finding::Cores, at, sink),
                "mem_mb" => add(value.map(|mb| mb / 1024.0), Finding::Ram, at, sink),
                "mem_gb" => add(value, Finding::Ram, at, sink),
                "disk_mb" => add(value.map(|mb| mb / 1000.0), Finding::Disk, at, sink),
                "runtime" => add(value.map(|minutes| minutes / 60.0), Finding::Hours, at, sink),
                "gpu" | "gpus" | "nvidia_gpu" if value.is_some_and(|count| count > 0.0) => {
                    sink.add(at, "workflow-accelerator", Finding::Gpu(None), PINNED);
                    add(value, Finding::GpuCount, at, sink);
                }
                _ => {}
            }
        }
    }
}

fn class(text: &str, sink: &mut Sink<'_>) {
    let at = At { line: 1, quote: text.lines().next().unwrap_or_default() };
    sink.add(at, "class-of-project", Finding::Class(Class::Numeric), SOFT);
}

/// What is asked for processes of a label counts where a process bears it; where no process is known, any may.
pub(in super::super) fn settle(facts: &mut Vec<Fact>) {
    let label = |fact: &Fact| match &fact.finding {
        Finding::Label(label) => Some(label.clone()),
        _ => None,
    };
    let borne: BTreeSet<String> = facts.iter().filter_map(label).collect();
    let is_borne = |pattern: &str| {
        let plain = |name: &str| name.chars().all(|ch| ch.is_alphanumeric() || ch == '_');
        borne.is_empty() || pattern.split('|').any(|name| !plain(name) || borne.contains(name))
    };
    facts.retain(|fact| match &fact.finding {
        Finding::OfLabel(label, _) => is_borne(label),
        Finding::Label(_) => false,
        _ => true,
    });
    for fact in facts {
        if let Finding::OfLabel(_, finding) = &fact.finding {
            fact.finding = finding.as_ref().clone();
        }
    }
}

fn add(value: Option<f64>, finding: impl Fn(u32) -> Finding, at: At<'_>, sink: &mut Sink<'_>) {
    if let Some(value) = value.filter(|value| (0.0..1e9).contains(value) && *value > 0.0) {
        sink.add(at, "workflow-demand", finding(value.ceil() as u32), PINNED);
    }
}

/// A number at the beginning of a text, and the unit behind it.
fn number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|ch: char| !ch.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    let decimals = rest.strip_prefix('.').map_or(0, |rest| {
        let count = rest.chars().take_while(char::is_ascii_digit).count();
        if count > 0 { count + 1 } else { 0 }
    });
    let (more, unit) = rest.split_at_checked(decimals)?;
    let value = format!("{digits}{more}").parse().ok()?;
    Some((value, unit.trim_start_matches(['.', ' '])))
}

fn gib(size: f64, unit: &str) -> Option<f64> {
    let small = unit.get(..2).unwrap_or(unit).to_ascii_lowercase();
    match small.as_str() {
        "gb" | "g" => Some(size),
        "tb" => Some(size * 1024.0),
        "mb" => Some(size / 1024.0),
        _ => None,
    }
}

fn hours(time: f64, unit: &str) -> Option<f64> {
    match unit.chars().next()? {
        'h' => Some(time),
        'd' => Some(time * 24.0),
        'm' => Some(time / 60.0),
        _ => None,
    }
}
