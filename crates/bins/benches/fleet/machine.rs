//! What was measured on: processors, disk, program versions; and what a process has used.

use std::io::Write as _;
use std::time::{Duration, Instant};

use crate::Options;
use crate::samples::Samples;

/// Ticks of `/proc/PID/stat` in a second; fixed on Linux.
const TICKS: f64 = 100.0;

/// The lines at the top of a report.
pub(crate) fn header(options: &Options) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let model = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown").to_owned();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    let peer = options.hyperqueue.as_ref().map_or("not given".to_owned(), |path| crate::peer::version(path));
    let mut sync = Samples::default();
    for took in fsyncs(100) {
        sync.add(took.as_secs_f64() * 1e3);
    }
    format!(
        "orlop {} ({profile}), {cores} cores ({}), load {}\nfsync of 4 KiB: p50 {:.2} ms, p99 {:.2} ms; store: SQLite, \
         synchronous = FULL; enforce: auto\nHyperQueue: {peer}\nrepetitions: {}, part of the work: {}\ncommand: {}",
        env!("CARGO_PKG_VERSION"),
        model.trim_start_matches([' ', '\t', ':']),
        load.split(' ').next().unwrap_or("?"),
        sync.quantile(0.5),
        sync.quantile(0.99),
        options.repeat,
        options.scale,
        std::env::args().skip(1).collect::<Vec<_>>().join(" "),
    )
}

/// How long writes to disk take where data is kept.
fn fsyncs(count: usize) -> Vec<Duration> {
    let mut file = tempfile::tempfile().expect("a file");
    let once = |file: &mut std::fs::File| {
        file.write_all(&[0; 4096]).expect("it is written");
        let began = Instant::now();
        file.sync_data().expect("it is on disk");
        began.elapsed()
    };
    (0..count).map(|_| once(&mut file)).collect()
}

/// Seconds of CPU that a process itself has used, without its children.
pub(crate) fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process lives");
    let (_, rest) = stat.rsplit_once(')').expect("its name stands in brackets");
    let fields: Vec<f64> = rest.split_whitespace().skip(11).take(2).map(|field| field.parse().unwrap()).collect();
    fields.iter().sum::<f64>() / TICKS
}

/// Bytes of memory that a process holds, at present and at most.
pub(crate) fn memory(pid: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let of = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("0");
        line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() << 10
    };
    (of("VmRSS:"), of("VmHWM:"))
}
