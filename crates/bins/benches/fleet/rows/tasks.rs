//! Many short tasks: real processes, nothing at all, many shapes.

use std::time::Instant;

use orlop::wire::grpc::JobClient;
use orlop::wire::job::Submission;
use orlop_core::spec::job::JobSpec;
use serde_json::json;

use crate::Options;
use crate::fixture::{Fixture, array, ended, job};
use crate::machine;
use crate::peer::Peer;
use crate::samples::{Samples, line, sides};
use crate::spawn;

/// Submits jobs and waits for all of them. Gives seconds.
async fn run(client: &JobClient, jobs: Vec<JobSpec>) -> f64 {
    let began = Instant::now();
    let taken = client.submit(Submission { jobs, key: None }).await.expect("they are taken");
    for id in taken.jobs() {
        ended(client, id).await;
    }
    began.elapsed().as_secs_f64()
}

fn noop(cpu_m: u64) -> JobSpec {
    job(json!({"runtime": "noop", "resources": {"cpu_m": cpu_m, "memory_bytes": 0}, "expected_ms": 1}))
}

/// Real processes, beside a bare loop: those that outlive their agent, as is usual for tasks without a time limit, and those
/// that end with it, as HyperQueue's do.
pub(super) async fn processes(options: &Options) {
    let count = options.part(20_000);
    let task = |survives: bool| {
        let resources = json!({"cpu_m": 1000, "memory_bytes": 1 << 20});
        let task = json!({"command": ["true"], "resources": resources, "expected_ms": 1, "survive_agent": survives});
        array(&job(task), count)
    };
    let kinds = [("kept beyond their agent", task(true)), ("ending with their agent", task(false))];
    let (mut bare, mut theirs) = (Samples::default(), Samples::default());
    let mut ours: [(Samples, Samples); 2] = Default::default();
    for turn in 0..options.repeat {
        let mut sides = [0, 1, 2, 3];
        sides.rotate_left(turn % 4);
        for side in sides {
            match side {
                0 => bare.add(spawn::loop_rate(count, 2, "true", None)),
                1 | 2 => {
                    let ((_, task), (rates, cost)) = (&kinds[side - 1], &mut ours[side - 1]);
                    let fixture = Fixture::with_workers(1, 2).await;
                    let (client, pid) = (fixture.client().await, fixture.worker_pids()[0]);
                    let before = machine::cpu_seconds(pid);
                    rates.add(f64::from(count) / run(&client, vec![task.clone()]).await);
                    cost.add((machine::cpu_seconds(pid) - before) * 1e6 / f64::from(count));
                }
                _ => {
                    let Some(program) = &options.hyperqueue else { continue };
                    theirs.add(f64::from(count) / Peer::new(program, 1, 2).run(count, &["true"]));
                }
            }
        }
    }
    line("bare spawn loop, 2 at a time", &bare, "/s", "");
    for ((kind, _), (rates, cost)) in kinds.iter().zip(&ours) {
        line(&format!("orlop, {kind}"), rates, "/s", "");
        line("  ÷ bare loop", &rates.over(&bare), "×", "≥ 0.9");
        line("  CPU of the agent a task", cost, " µs", "≤ 100");
        compare("HyperQueue", rates, &theirs, "≥ 1.6");
    }
    if !theirs.is_empty() {
        line("HyperQueue ÷ bare loop", &theirs.over(&bare), "×", "");
    }
}

fn compare(name: &str, ours: &Samples, theirs: &Samples, target: &str) {
    if theirs.is_empty() {
        println!("  {name}: not measured, its program was not given");
        return;
    }
    line(name, theirs, "/s", "");
    line(&format!("orlop ÷ {name}"), &ours.over(theirs), "×", target);
}

async fn noop_rates(options: &Options, workers: u32, slots: u32, targets: [&str; 2]) {
    let count = options.part(200_000);
    let (mut ours, mut theirs, mut server) = (Samples::default(), Samples::default(), Samples::default());
    for side in (0..options.repeat).flat_map(sides) {
        if side == 0 {
            let fixture = Fixture::with_workers(workers, slots).await;
            let client = fixture.client().await;
            let before = machine::cpu_seconds(fixture.server_pid());
            ours.add(f64::from(count) / run(&client, vec![array(&noop(1000), count)]).await);
            server.add((machine::cpu_seconds(fixture.server_pid()) - before) * 1e6 / f64::from(count));
        } else if let Some(program) = &options.hyperqueue_zero {
            theirs.add(f64::from(count) / Peer::new(program, workers, slots).run(count, &["true"]));
        }
    }
    line(&format!("orlop, {workers} × {slots} slots"), &ours, "/s", targets[0]);
    line("  CPU of the server a task", &server, " µs", "");
    compare("HyperQueue, zero-worker", &ours, &theirs, targets[1]);
}

pub(super) async fn noop_all(options: &Options) {
    for (workers, slots, targets) in
        [(1, 2, ["≥ 50,000", "≥ 20"]), (4, 64, ["≥ 100,000", "≥ 10"]), (1, 1024, ["≥ 200,000", "≥ 10"])]
    {
        noop_rates(options, workers, slots, targets).await;
    }
}

/// Many classes with mixed priorities.
pub(super) async fn shapes(options: &Options) {
    let count = options.part(10_000);
    let mut first = Samples::default();
    for classes in [1, 10, 40, 100] {
        let (mut rates, mut theirs) = (Samples::default(), Samples::default());
        let each = (count / classes).max(1);
        for side in (0..options.repeat).flat_map(sides) {
            if side == 1 {
                if let Some(program) = &options.hyperqueue_zero {
                    let seconds = Peer::new(program, 16, 64).run_shapes(classes, each);
                    theirs.add(f64::from(each * classes) / seconds);
                }
                continue;
            }
            let fixture = Fixture::with_workers(16, 64).await;
            let client = fixture.client().await;
            let shape = |class: u32| {
                let resources = json!({"cpu_m": 1000 + u64::from(class), "memory_bytes": u64::from(class) << 10});
                let task = json!({"runtime": "noop", "resources": resources, "priority": class % 10, "expected_ms": 1});
                array(&job(task), each)
            };
            let jobs: Vec<_> = (0..classes).map(shape).collect();
            rates.add(f64::from(each * classes) / run(&client, jobs).await);
        }
        line(&format!("{classes} classes"), &rates, "/s", if classes == 100 { "≥ 100,000" } else { "" });
        compare("HyperQueue, zero-worker, without priorities", &rates, &theirs, "");
        if classes == 1 {
            first = rates;
        } else if classes == 100 {
            line("cost of a task, 100 classes ÷ 1", &first.over(&rates), "×", "≤ 2");
        }
    }
}
