//! What the largest flow holds, and how deep it reaches: alone in its process, because it counts every byte. Numbers are
//! printed; the bounds are those of the engine's contract.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests fail by panic")]

use std::sync::Arc;

use orlop_core::effect::FlowEffect;
use orlop_core::event::FlowEvent;
use orlop_core::spec::flow::FlowSpec;
use orlop_core::spec::meta::ObjectReference;
use orlop_core::spec::step::Step;
use orlop_core::time::Time;
use orlop_dag::engine::{FlowMeta, State, apply, init, restore, snapshot};
use orlop_dag::plan::Plan;
use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const NOW: Time = Time::from_millis(1_700_000_000_000);
/// What a plan of 100,000 steps and 300,000 edges, with the state of its run, may hold besides the manifest.
const BOUND: usize = 100 << 20;
/// Threads of programs have at least this much stack.
const SMALL_STACK: usize = 256 << 10;

fn spec(steps: usize, needs: impl Fn(usize) -> Vec<usize>) -> Arc<FlowSpec> {
    let name = |n: usize| format!("step-{n:06}");
    let step = |n: usize| Step {
        name: name(n),
        template: Some(serde_json::json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {}})),
        dependencies: needs(n).into_iter().map(name).collect(),
        ..Step::default()
    };
    Arc::new(FlowSpec { steps: (0..steps).map(step).collect(), ..FlowSpec::default() })
}

fn begun(plan: &Plan) -> (State, Vec<FlowEffect>) {
    let mut effects = Vec::new();
    let mut state = init(plan, &FlowMeta { uid: "large".into(), ..FlowMeta::default() }, NOW, &mut effects);
    apply(plan, &mut state, &FlowEvent::Admit, NOW, &mut effects);
    (state, effects)
}

/// Lets every attempt run and succeed.
fn run(plan: &Plan, state: &mut State, mut effects: Vec<FlowEffect>) {
    while let Some(effect) = effects.pop() {
        let FlowEffect::StartAttempt { at, attempt, .. } = effect else { continue };
        let reference = ObjectReference { kind: "Process".into(), name: "p".into(), ..ObjectReference::default() };
        apply(plan, state, &FlowEvent::AttemptAccepted { at, attempt, reference }, NOW, &mut effects);
        let ended = FlowEvent::AttemptSucceeded { at, attempt, result: Box::default(), ended_at: NOW };
        apply(plan, state, &ended, NOW, &mut effects);
    }
}

#[test]
fn the_largest_flow_holds_under_100_mib_and_a_chain_of_200_000_steps_fits_a_small_stack() {
    let spec_of_all = spec(100_000, |n| {
        let first = n.saturating_sub(3);
        (first..n).collect()
    });
    let before = HEAP.current_usage();
    let plan = Plan::build(spec_of_all).expect("the flow plans");
    let planned = HEAP.current_usage() - before;
    let (mut state, effects) = begun(&plan);
    run(&plan, &mut state, effects);
    assert!(state.phase().is_terminal());
    let held = HEAP.current_usage() - before;
    println!(
        "{} steps, {} edges: plan {} KiB, plan and state {} KiB",
        plan.len(),
        plan.edges(),
        planned >> 10,
        held >> 10
    );
    assert!(plan.edges() > 299_000 && held < BOUND, "{held} bytes, {BOUND} are allowed");
    drop((plan, state));

    let chain = || {
        let plan = Plan::build(spec(200_000, |n| n.checked_sub(1).into_iter().collect())).expect("the chain plans");
        let (mut state, effects) = begun(&plan);
        run(&plan, &mut state, effects);
        assert!(state.phase().is_terminal());
        let again = restore(&plan, &snapshot(&state)).expect("a snapshot restores");
        assert_eq!(again.phase(), state.phase());
        // A first step that fails skips all others in one call.
        let (mut state, effects) = begun(&plan);
        let first = effects.iter().find_map(|effect| match effect {
            FlowEffect::StartAttempt { at, attempt, .. } => Some((*at, *attempt)),
            _ => None,
        });
        let (at, attempt) = first.expect("the first step starts");
        apply(&plan, &mut state, &FlowEvent::AttemptGone { at, attempt, ended_at: NOW }, NOW, &mut Vec::new());
        assert!(state.phase().is_terminal());
    };
    let thread = std::thread::Builder::new().stack_size(SMALL_STACK).spawn(chain).expect("a thread");
    thread.join().expect("no step of a chain needs stack of its own");
}
