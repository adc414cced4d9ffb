//! What the worker's own part of a task costs: `true` through the runtime against a bare spawn loop, side by side in one
//! run. Owns the method and the printing; the target itself is measured in a release build.

use std::collections::VecDeque;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use orlop_cloud::runtime::worker::process::{ProcessOptions, ProcessRuntime};
use orlop_cloud::runtime::worker::{
    AttemptEnd, AttemptEvents, AttemptPlan, JobRuntime, LogCapacity, LogChunk, Started,
};
use orlop_core::task::{Run, TaskEnd, TaskRef};

use super::fresh;

#[derive(Debug)]
struct Counter {
    ends: mpsc::Sender<()>,
    failed: AtomicU64,
}

impl AttemptEvents for Counter {
    fn started(&self, _: TaskRef, _: Started) {}
    fn log(&self, _: TaskRef, _: LogChunk) -> LogCapacity {
        LogCapacity::Free
    }
    fn ended(&self, _: TaskRef, end: AttemptEnd) {
        if end.outcome != TaskEnd::Succeeded {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        self.ends.send(()).unwrap();
    }
    fn flush(&self) {}
}

/// CPU time of this program, without its children.
fn own_cpu() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    let time =
        |value: nix::sys::time::TimeVal| Duration::from_micros((value.tv_sec() * 1_000_000 + value.tv_usec()) as u64);
    time(usage.user_time()) + time(usage.system_time())
}

/// The same processes with nothing around them, some at a time, in as many threads.
fn bare(tasks: usize, at_once: usize) -> (Duration, Duration) {
    let (begun, cpu) = (Instant::now(), own_cpu());
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(move || {
                for _ in 0..tasks / at_once {
                    let mut command = Command::new("/bin/true");
                    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).env_clear();
                    assert!(command.spawn().unwrap().wait().unwrap().success());
                }
            });
        }
    });
    (begun.elapsed(), own_cpu() - cpu)
}

fn through_the_runtime(tasks: usize, at_once: usize) -> (Duration, Duration) {
    let dir = tempfile::tempdir().unwrap();
    let (ends, ended) = mpsc::channel();
    let counter = Arc::new(Counter { ends, failed: AtomicU64::new(0) });
    let mut options = ProcessOptions::new("bench", dir.path().join("work"));
    options.lanes = at_once;
    let runtime = ProcessRuntime::new(options, counter.clone()).unwrap();
    let spec = Arc::new(Run { argv: vec!["/bin/true".to_owned()], ..Run::default() });
    let mut plans: VecDeque<AttemptPlan> = (0..tasks).map(|_| AttemptPlan::new(fresh(), Arc::clone(&spec))).collect();
    let (begun, cpu) = (Instant::now(), own_cpu());
    for plan in plans.drain(..at_once) {
        runtime.start(plan);
    }
    for _ in 0..tasks {
        ended.recv().unwrap();
        if let Some(plan) = plans.pop_front() {
            runtime.start(plan);
        }
    }
    let measured = (begun.elapsed(), own_cpu() - cpu);
    assert_eq!(counter.failed.load(Ordering::Relaxed), 0);
    measured
}

/// On a shared machine and without optimisation only a gross fault is one.
const LEAST: f64 = 0.3;

#[test]
fn true_against_a_bare_spawn_loop() {
    let tasks = std::env::var("ORLOP_BENCH_TASKS").ok().and_then(|text| text.parse().ok()).unwrap_or(400);
    let rounds = std::env::var("ORLOP_BENCH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut ratios: Vec<f64> = Vec::new();
    // A machine that is busy with something else gets more rounds; a gross fault stays one in all of them.
    let slow = |ratios: &[f64]| ratios.iter().all(|ratio| *ratio <= LEAST);
    for round in 0..rounds.max(6) {
        if round >= rounds && !slow(&ratios) {
            break;
        }
        // Alternating order.
        let ((bare_wall, bare_cpu), (wall, cpu)) = if round % 2 == 0 {
            let bare = bare(tasks, 2);
            (bare, through_the_runtime(tasks, 2))
        } else {
            let ours = through_the_runtime(tasks, 2);
            (bare(tasks, 2), ours)
        };
        let ratio = bare_wall.as_secs_f64() / wall.as_secs_f64();
        let each = |time: Duration| time.as_secs_f64() * 1e6 / tasks as f64;
        eprintln!(
            "{tasks} x true, 2 at a time: bare {:.0}/s, runtime {:.0}/s, ratio {ratio:.3}; own CPU a task: bare \
             {:.0} us, runtime {:.0} us, more by {:.0} us",
            tasks as f64 / bare_wall.as_secs_f64(),
            tasks as f64 / wall.as_secs_f64(),
            each(bare_cpu),
            each(cpu),
            each(cpu) - each(bare_cpu),
        );
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    eprintln!(
        "median ratio {median:.3} of {} (spread {:.3}..{:.3})",
        ratios.len(),
        ratios[0],
        ratios[ratios.len() - 1]
    );
    assert!(!slow(&ratios), "{ratios:?}");
}
