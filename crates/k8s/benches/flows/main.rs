//! How the controller of flows does at the sizes of its contract, on the API server double and on a real API server: flows that
//! fan out to 100, 1,000 and 10,000 Jobs, with the cost of a Job and how it grows; and 1,000 flows of 20 steps, with the time
//! from step to step, memory and writes. Passes are timed with what the server takes for their requests. Nobody paces the
//! controller, and Jobs end as soon as they are there.
//!
//! ```text
//! cargo bench -p orlop-k8s --features testing --bench flows               everything
//! cargo bench -p orlop-k8s --features testing --bench flows -- 0.1        a tenth of the sizes
//! cargo bench -p orlop-k8s --features testing --bench flows -- real 0.1   the same on a real server alone; or double
//! ```
//!
//! The real API server is that of `ORLOP_TEST_KUBECONFIG`; `scripts/with-kubernetes cargo bench …` starts one.

#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../tests/it/flows/load.rs"]
mod load;
mod real;

use std::process::ExitCode;

use load::{Figures, chain, fan_out, run};
use orlop_k8s::flow::Options;

/// What an object may have at most by the contract, in bytes.
const OBJECT: usize = 1 << 20;

/// Where flows run.
enum Target {
    Double,
    Real(real::Real),
}

impl Target {
    async fn run(&mut self, specs: Vec<serde_json::Value>) -> Figures {
        match self {
            Self::Double => run(specs, Options::default()).await,
            Self::Real(real) => real.run(specs, Options::default()).await,
        }
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let scale = words.iter().find_map(|word| word.parse::<f64>().ok()).unwrap_or(1.0);
    let asked = |target: &str| words.iter().any(|word| word == target);
    let both = !asked("double") && !asked("real");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    if both || asked("double") {
        println!("on the API server double");
        runtime.block_on(measure(Target::Double, scale));
    }
    if both || asked("real") {
        match runtime.block_on(real::Real::find()) {
            Some(found) => {
                println!("on a real API server");
                runtime.block_on(measure(Target::Real(found), scale));
            }
            None => {
                println!("skipped: no Kubernetes API server (ORLOP_TEST_KUBECONFIG is not set)");
                // Who asks for nothing else is told by the code too.
                return if both { ExitCode::SUCCESS } else { ExitCode::from(2) };
            }
        }
    }
    ExitCode::SUCCESS
}

async fn measure(mut target: Target, scale: f64) {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "small counts"
    )]
    let part = |all: usize| ((all as f64 * scale).round() as usize).max(2);
    println!("fan-out: one flow, all its Jobs; microseconds of passes a Job, growth against the smallest");
    let mut first = None;
    for jobs in [100, 1_000, 10_000].map(part) {
        let figures = target.run(vec![fan_out(jobs)]).await;
        let cost = figures.busy * 1e6 / count(jobs);
        let smallest = *first.get_or_insert(cost);
        println!(
            "  {jobs:>6} Jobs: {cost:>8.1} µs a Job, growth {:.2}; {:.2} events of the engine, {:.2} writes and {:.2} passes a Job; object {} of {OBJECT} bytes; {:.1} s",
            cost / smallest,
            whole(figures.events) / count(jobs),
            count(figures.all_writes()) / count(jobs),
            whole(figures.passes) / count(jobs),
            figures.final_object.max(usize::try_from(figures.largest).unwrap_or(usize::MAX)),
            figures.seconds,
        );
        ended(&figures, 1);
    }
    chains(&mut target, part(1_000), 20).await;
}

async fn chains(target: &mut Target, flows: usize, steps: usize) {
    let figures = target.run(vec![chain(steps); flows]).await;
    ended(&figures, flows);
    let mut gaps = figures.gaps.clone();
    gaps.sort_by(f64::total_cmp);
    let all = count(flows * steps);
    println!("{flows} flows of {steps} steps: {:.1} s, {:.0} steps a second", figures.seconds, all / figures.seconds);
    println!(
        "  step to step: p50 {:.1} ms, p99 {:.1} ms; {:.2} writes a step; most memory of this process {} MiB",
        quantile(&gaps, 0.5),
        quantile(&gaps, 0.99),
        count(figures.all_writes()) / all,
        most_memory() / 1024,
    );
    for (what, writes) in &figures.writes {
        println!("    {what}: {:.2} a step", count(*writes) / all);
    }
}

/// A benchmark of flows that fail, or that are too large for their object, measures nothing.
fn ended(figures: &Figures, flows: usize) {
    assert_eq!(figures.phases.get("Succeeded"), Some(&flows), "{:?}", figures.phases);
    assert!(figures.final_object <= OBJECT, "{} bytes", figures.final_object);
}

fn whole(number: u64) -> f64 {
    count(usize::try_from(number).unwrap_or(usize::MAX))
}

#[expect(clippy::cast_precision_loss, reason = "counts are far from the limit")]
fn count(number: usize) -> f64 {
    number as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let at = (part * count(sorted.len().saturating_sub(1))).round() as usize;
    sorted.get(at).copied().unwrap_or_default()
}

/// Most memory of this process so far, in KiB.
fn most_memory() -> u64 {
    let reported = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = reported.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or_default()
}
