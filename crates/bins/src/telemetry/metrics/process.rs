//! Metrics of the process itself, read when they are asked for: processor time, memory, descriptors, start. On systems
//! without `/proc` they are absent.

use std::fmt;

use nix::unistd::{SysconfVar, sysconf};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::group::{Group, Kind};

/// A metric of this process: its name and its help.
type Named = (&'static str, &'static str);

const CPU: Named = ("process_cpu_seconds", "Processor time in seconds");
const MEMORY: Named = ("process_resident_memory_bytes", "Resident memory in bytes");
const FILES: Named = ("process_open_fds", "Open file descriptors");
const START: Named = ("process_start_time_seconds", "Start time as a Unix timestamp");

/// Registers the metrics of this process.
pub(super) fn register(group: &mut Group) {
    group.note(CPU.0, CPU.1, Kind::Counter, &[]);
    for (name, help) in [MEMORY, FILES, START] {
        group.note(name, help, Kind::Gauge, &[]);
    }
    group.registry.register_collector(Box::new(Process));
}

#[derive(Debug)]
struct Process;

/// What `/proc` says of this process: seconds of processor time, resident bytes, open files, start as a Unix time.
struct ProcessStats {
    cpu_seconds: f64,
    resident_bytes: u64,
    open_files: u64,
    started_at: f64,
}

fn read() -> Option<ProcessStats> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program stands in brackets and may hold anything; fields are counted from behind it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let ticks = sysconf(SysconfVar::CLK_TCK).ok()??;
    let page = sysconf(SysconfVar::PAGE_SIZE).ok()??;
    let boot = std::fs::read_to_string("/proc/stat").ok()?;
    let booted_at: f64 = boot.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    let per_second = |ticks_of: u64| ticks_of as f64 / ticks as f64;
    Some(ProcessStats {
        cpu_seconds: per_second(number(11)?.saturating_add(number(12)?)),
        resident_bytes: number(21)?.saturating_mul(u64::try_from(page).ok()?),
        open_files: u64::try_from(std::fs::read_dir("/proc/self/fd").ok()?.count()).ok()?,
        started_at: booted_at + per_second(number(19)?),
    })
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(stats) = read() else { return Ok(()) };
        let cpu = ConstCounter::new(stats.cpu_seconds);
        cpu.encode(encoder.encode_descriptor(CPU.0, CPU.1, None, cpu.metric_type())?)?;
        let gauges =
            [(MEMORY, stats.resident_bytes as f64), (FILES, stats.open_files as f64), (START, stats.started_at)];
        for ((name, help), value) in gauges {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}
