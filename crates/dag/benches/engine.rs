//! The flow engine at the sizes of its contract: plans of 1,000 to 100,000 steps with three dependencies each, all events of
//! a run, a skip cascade, a halt, snapshots and pages of a view. Beside the events stands the bound: walking the same graph
//! once, counting down in-degrees and nothing else. Run with `cargo bench -p orlop-dag --bench engine`.

#![allow(missing_docs)]

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use orlop_core::attempt::StepIndex;
use orlop_core::effect::FlowEffect;
use orlop_core::event::{AttemptResult, FlowEvent};
use orlop_core::spec::flow::FlowSpec;
use orlop_core::spec::meta::ObjectReference;
use orlop_core::spec::step::Step;
use orlop_core::time::Time;
use orlop_dag::engine::{FlowMeta, State, apply, init, restore, snapshot, view};
use orlop_dag::plan::Plan;

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
const LARGEST: usize = 100_000;
const BEGIN: Time = Time::from_millis(1_700_000_000_000);

/// Steps that need those at a half, a third and a quarter of their number.
fn wide(steps: usize) -> Arc<FlowSpec> {
    flow(steps, |n| [n / 2, n / 3, n / 4].into_iter().filter(|need| *need < n).collect())
}

/// Steps that need the one before.
fn chain(steps: usize) -> Arc<FlowSpec> {
    flow(steps, |n| n.checked_sub(1).into_iter().collect())
}

fn flow(steps: usize, needs: impl Fn(usize) -> Vec<usize>) -> Arc<FlowSpec> {
    let name = |n: usize| format!("step-{n:06}");
    let template = Some(serde_json::json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {}}));
    let step = |n: usize| Step {
        name: name(n),
        template: template.clone(),
        dependencies: needs(n).into_iter().map(name).collect(),
        ..Step::default()
    };
    Arc::new(FlowSpec { steps: (0..steps).map(step).collect(), ..FlowSpec::default() })
}

fn planned(spec: &Arc<FlowSpec>) -> Plan {
    Plan::build(Arc::clone(spec)).unwrap_or_else(|errors| unreachable!("the flow of the benchmark plans: {errors:?}"))
}

/// An admitted flow, and the attempts it asks for.
fn admitted(plan: &Plan) -> (State, Vec<FlowEffect>) {
    let meta = FlowMeta { uid: "benchmark".to_owned(), ..FlowMeta::default() };
    let mut effects = Vec::new();
    let mut state = init(plan, &meta, BEGIN, &mut effects);
    apply(plan, &mut state, &FlowEvent::Admit, BEGIN, &mut effects);
    (state, effects)
}

/// Accepts every attempt and lets it succeed until the flow is over; returns how many events that took.
fn run(plan: &Plan, begun: (State, Vec<FlowEffect>)) -> u64 {
    let (mut state, mut effects) = begun;
    let (mut events, mut now) = (1, BEGIN);
    let mut asked = VecDeque::new();
    let mut tell = |state: &mut State, event: &FlowEvent, now, effects: &mut Vec<FlowEffect>| {
        apply(plan, state, event, now, effects);
        events += 1;
    };
    loop {
        asked.extend(effects.drain(..).filter_map(|effect| match effect {
            FlowEffect::StartAttempt { at, attempt, .. } => Some((at, attempt)),
            _ => None,
        }));
        let Some((at, attempt)) = asked.pop_front() else { break };
        let reference = ObjectReference { kind: "Process".to_owned(), ..ObjectReference::default() };
        tell(&mut state, &FlowEvent::AttemptAccepted { at, attempt, reference }, now, &mut effects);
        now = Time::from_millis(now.millis() + 1);
        let result = Box::<AttemptResult>::default();
        tell(&mut state, &FlowEvent::AttemptSucceeded { at, attempt, result, ended_at: now }, now, &mut effects);
    }
    assert!(state.phase().is_terminal(), "the flow of the benchmark ends");
    events
}

/// The bound: every step and edge once, in an order that respects the edges.
fn walk(plan: &Plan, steps: usize) -> usize {
    let index = |n: usize| StepIndex(u32::try_from(n).unwrap_or(u32::MAX));
    let mut waits = vec![0_u32; steps];
    for n in 0..steps {
        for (target, _) in plan.dependents(index(n)) {
            waits[target.0 as usize] += 1;
        }
    }
    let mut ready: VecDeque<usize> = (0..steps).filter(|n| waits[*n] == 0).collect();
    let mut settled = 0;
    while let Some(n) = ready.pop_front() {
        settled += 1;
        for (target, _) in plan.dependents(index(n)) {
            let target = target.0 as usize;
            waits[target] -= 1;
            if waits[target] == 0 {
                ready.push_back(target);
            }
        }
    }
    settled
}

fn plans(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("plan");
    group.sample_size(10);
    for steps in SIZES {
        let spec = wide(steps);
        group.throughput(Throughput::Elements(steps as u64));
        group.bench_with_input(BenchmarkId::from_parameter(steps), &spec, |bench, spec| bench.iter(|| planned(spec)));
    }
    group.finish();
}

fn events(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("events");
    group.sample_size(10);
    let flows = SIZES.map(|steps| ("three needs", steps, wide(steps)));
    for (shape, steps, spec) in flows.into_iter().chain([("chain", 2 * LARGEST, chain(2 * LARGEST))]) {
        let plan = planned(&spec);
        group.throughput(Throughput::Elements(run(&plan, admitted(&plan))));
        group.bench_function(BenchmarkId::new(shape, steps), |bench| {
            bench.iter_batched(|| admitted(&plan), |begun| run(&plan, begun), BatchSize::PerIteration);
        });
        group.throughput(Throughput::Elements(steps as u64));
        group.bench_function(BenchmarkId::new(format!("bound of {shape}"), steps), |bench| {
            bench.iter(|| walk(&plan, steps));
        });
    }
    group.finish();
}

fn moments(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("100,000 steps");
    group.sample_size(10);
    let spec = wide(LARGEST);
    let plan = planned(&spec);
    let (begun, effects) = admitted(&plan);
    let first = effects.iter().find_map(|effect| match effect {
        FlowEffect::StartAttempt { at, attempt, .. } => Some((*at, *attempt)),
        _ => None,
    });
    let (at, attempt) = first.unwrap_or_else(|| unreachable!("the flow of the benchmark starts"));
    let lost = FlowEvent::AttemptGone { at, attempt, ended_at: BEGIN };
    let stopped = FlowEvent::Stop { mode: orlop_core::spec::flow::StopMode::Graceful, replaced: false };
    for (name, event) in [("a failure that halts the flow", lost), ("a stop", stopped)] {
        group.bench_function(name, |bench| {
            bench.iter_batched_ref(
                || begun.clone(),
                |state| apply(&plan, state, &event, BEGIN, &mut Vec::new()),
                BatchSize::PerIteration,
            );
        });
    }
    let bytes = snapshot(&begun);
    group.bench_function("snapshot", |bench| bench.iter(|| snapshot(black_box(&begun))));
    group.bench_function("restore", |bench| bench.iter(|| restore(&plan, black_box(&bytes))));
    group.bench_function("a page of 100 steps", |bench| bench.iter(|| view(&plan, &begun, 50_000..50_100)));
    group.finish();
}

criterion_group!(benches, plans, events, moments);
criterion_main!(benches);
