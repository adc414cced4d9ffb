//! Scripts of batch managers: what their directives ask of one machine. Owns the names of options; runs nothing.

use super::super::card;
use super::super::fact::{At, Finding, PINNED, SOFT, Sink};
use super::size;

/// What the directives of a script ask for, all together.
#[derive(Debug, Default)]
struct Directives {
    nodes: Option<u32>,
    tasks: Option<u32>,
    tasks_of_node: Option<u32>,
    threads_of_task: Option<u32>,
    memory_of_thread: Option<u32>,
}

/// Reads the directives of a script, if it has any.
pub(super) fn read(text: &str, sink: &mut Sink<'_>) {
    let (mut directives, mut first) = (Directives::default(), None);
    for (index, line) in text.lines().enumerate() {
        let at = At { line: index + 1, quote: line };
        if let Some(options) = line.strip_prefix("#SBATCH") {
            first.get_or_insert(at);
            slurm(options.split(" #").next().unwrap_or_default(), at, &mut directives, sink);
        } else if let Some(options) = line.strip_prefix("#PBS") {
            first.get_or_insert(at);
            pbs(options, at, &mut directives, sink);
        }
    }
    if let Some(at) = first {
        directives.add_to(at, sink);
    }
}

/// Options with their values: `-c 4`, `-c4`, `--mem=8G`, `--mem 8G`.
fn pairs(options: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut words = options.split_whitespace().peekable();
    while let Some(word) = words.next() {
        if let Some((option, value)) = word.split_once('=').filter(|_| word.starts_with("--")) {
            found.push((option, value));
        } else if let Some((option, value)) = word
            .split_at_checked(2)
            .filter(|(option, value)| option.starts_with('-') && !option.ends_with('-') && !value.is_empty())
        {
            found.push((option, value));
        } else if word.starts_with('-') {
            let value = words.next_if(|next| !next.starts_with('-')).unwrap_or_default();
            found.push((word, value));
        }
    }
    found
}

fn slurm(options: &str, at: At<'_>, directives: &mut Directives, sink: &mut Sink<'_>) {
    for (option, value) in pairs(options) {
        // Ranges such as `2-4` ask for the first.
        let number = value.split('-').next().and_then(|text| text.parse::<u32>().ok());
        match option {
            "-N" | "--nodes" => directives.nodes = number,
            "-n" | "--ntasks" => directives.tasks = number,
            "--ntasks-per-node" | "--tasks-per-node" => directives.tasks_of_node = number,
            "-c" | "--cpus-per-task" => directives.threads_of_task = number,
            "--mem" => memory(value, at, sink),
            "--mem-per-cpu" => directives.memory_of_thread = mebi(value),
            "--gres" => value.split(',').filter_map(|one| one.strip_prefix("gpu")).for_each(|of| cards(of, at, sink)),
            "-G" | "--gpus" | "--gpus-per-node" | "--gpus-per-task" => cards(&format!(":{value}"), at, sink),
            "-t" | "--time" => time(value, at, sink),
            _ => {}
        }
    }
}

fn pbs(options: &str, at: At<'_>, directives: &mut Directives, sink: &mut Sink<'_>) {
    let parts = options.split([' ', ':', ',']).filter_map(|part| part.split_once('='));
    // `walltime=12:00:00` has the mark that separates parts of a `select`.
    if let Some((_, time_given)) = options.split_once("walltime=") {
        time(time_given.split([' ', ',']).next().unwrap_or_default(), at, sink);
    }
    for (key, value) in parts {
        let number = value.parse::<u32>().ok();
        match key {
            "select" | "nodes" => directives.nodes = number,
            "ncpus" | "ppn" => directives.threads_of_task = number,
            "mem" => memory(value, at, sink),
            "ngpus" | "gpus" => cards(&format!(":{value}"), at, sink),
            _ => {}
        }
    }
}

/// Cards as `:4`, `:a100:4`, `:a100` or nothing, which is one.
fn cards(of: &str, at: At<'_>, sink: &mut Sink<'_>) {
    let parts: Vec<&str> = of.split(':').filter(|part| !part.is_empty()).collect();
    let count = parts.last().and_then(|text| text.split('(').next()?.parse::<u32>().ok());
    if count == Some(0) {
        return;
    }
    let named = parts.iter().find_map(|name| card::find(&format!("{name} GPU")).into_iter().next());
    sink.add(at, "batch-gpus", Finding::Gpu(named.as_ref().map(|one| one.card.vendor)), PINNED);
    sink.add(at, "batch-gpus", Finding::GpuCount(count.unwrap_or(1)), PINNED);
    if let Some(named) = named {
        sink.add(at, "batch-gpus", Finding::Vram(named.memory_gb), PINNED);
    }
}

/// Memory in MiB; Slurm's numbers without a unit are such.
fn mebi(text: &str) -> Option<u32> {
    match text.parse::<u32>() {
        Ok(mebi) => Some(mebi),
        Err(_) => size::gib_tenths(text).map(|tenths| tenths.saturating_mul(1024) / 10),
    }
}

fn memory(text: &str, at: At<'_>, sink: &mut Sink<'_>) {
    // 0 is all that the machine has.
    if let Some(mebi) = mebi(text).filter(|mebi| *mebi > 0) {
        sink.add(at, "batch-memory", Finding::Ram(mebi.div_ceil(1024)), PINNED);
    }
}

/// A time as `D-HH:MM:SS`, `D-HH`, `HH:MM:SS`, `MM:SS` or minutes.
fn time(text: &str, at: At<'_>, sink: &mut Sink<'_>) {
    let (days, rest) = text.split_once('-').map_or((None, text), |(days, rest)| (Some(days), rest));
    let parts: Option<Vec<u32>> = rest.split(':').map(|part| part.parse().ok()).collect();
    let days = days.map_or(Some(0), |days| days.parse::<u32>().ok());
    let (Some(parts), Some(whole)) = (parts, days) else { return };
    let minutes = match (parts.as_slice(), text.contains('-')) {
        ([hours, minutes, _] | [hours, minutes], true) | ([hours, minutes, _], false) => {
            hours.saturating_mul(60).saturating_add(*minutes)
        }
        ([hours], true) => hours.saturating_mul(60),
        ([minutes] | [minutes, _], false) => *minutes,
        _ => return,
    };
    let minutes = whole.saturating_mul(24 * 60).saturating_add(minutes);
    if minutes > 0 {
        sink.add(at, "batch-time", Finding::Hours(minutes.div_ceil(60)), PINNED);
    }
}

impl Directives {
    fn add_to(&self, at: At<'_>, sink: &mut Sink<'_>) {
        let nodes = self.nodes.unwrap_or(1).max(1);
        let tasks = self.tasks_of_node.or(self.tasks.map(|tasks| tasks.div_ceil(nodes))).unwrap_or(1);
        let threads = tasks.saturating_mul(self.threads_of_task.unwrap_or(1));
        if threads > 1 {
            sink.add(at, "batch-cores", Finding::Cores(threads), PINNED);
        }
        if let Some(mebi) = self.memory_of_thread.map(|mebi| mebi.saturating_mul(threads)).filter(|mebi| *mebi > 0) {
            sink.add(at, "batch-memory", Finding::Ram(mebi.div_ceil(1024)), PINNED);
        }
        if nodes > 1 {
            let file = sink.file();
            let words = format!("{nodes} machines at once, by {file}: one is planned");
            sink.add(at, "batch-nodes", Finding::Special(words), SOFT);
        }
    }
}
