//! Every reason once, as people read it.

use orlop_core::event::FlowEvent;
use orlop_core::spec::flow::{StopMode, SuspendMode};
use serde_json::{Value, json};

use super::support::Bench;
use crate::engine::{Because, Explainer, explain};

fn said(bench: &Bench, name: &str) -> String {
    explain(&bench.plan, &bench.state, bench.at(name)).expect("the step exists").to_string()
}

fn flow(steps: Value) -> Value {
    json!({"steps": steps})
}

#[test]
fn a_waiting_step_names_what_it_waits_for() {
    let bench = Bench::new(flow(json!([
        {"name": "a"},
        {"name": "b", "dependencies": ["a"]},
        {"name": "c", "dependencies": ["a", "b"]},
    ])));
    insta::assert_snapshot!(said(&bench, "c"), @"
    c is Pending
      it waits for a (Pending), b (Pending)
    ");
    insta::assert_snapshot!(said(&bench, "a"), @"
    a is Pending (Starting)
      what runs it was asked to start it
    ");
}

#[test]
fn a_flow_that_is_not_admitted_or_paused_says_so() {
    let steps = flow(json!([{"name": "a"}, {"name": "b", "dependencies": ["a"]}]));
    let mut bench = Bench::unadmitted(steps);
    bench.tell(FlowEvent::Blocked { reason: "ConcurrencyBlocked".into(), message: "x holds the key".into() });
    insta::assert_snapshot!(said(&bench, "a"), @"
    a is Pending
      the flow is not admitted yet: x holds the key
    ");
    bench.tell(FlowEvent::Admit);
    bench.tell(FlowEvent::SetSuspend { on: true, mode: SuspendMode::Drain });
    insta::assert_snapshot!(said(&bench, "b"), @"
    b is Pending
      the flow is suspended: resume it to go on
      it waits for a (Pending)
    ");
}

#[test]
fn a_queued_step_counts_the_slots_and_who_is_ahead() {
    let bench = Bench::new(json!({
        "steps": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d", "withItems": [1, 2, 3], "parallelism": 1}],
        "executionPolicy": {"parallelism": 1},
    }));
    insta::assert_snapshot!(said(&bench, "c"), @"
    c is Pending (Queued)
      1 of the flow's 1 slots are taken; 1 come before it
    ");
    insta::assert_snapshot!(said(&bench, "d-i1"), @"
    d-i1 is Pending (Queued)
      1 of the flow's 1 slots are taken; 3 come before it
    ");
}

#[test]
fn a_skip_leads_to_the_failure_behind_it() {
    let mut bench = Bench::new(json!({
        "steps": [
            {"name": "a"}, {"name": "b", "dependencies": ["a"]}, {"name": "c", "dependencies": ["b"]}, {"name": "other"},
        ],
        "executionPolicy": {"failurePolicy": "Continue"},
    }));
    bench.accept("a");
    bench.fail("a");
    insta::assert_snapshot!(said(&bench, "c"), @"
    c is Skipped (DependencyFailed)
      step b did not succeed
      that began with a, which is Failed (NonZeroExit): exit code 1
    ");
    insta::assert_snapshot!(said(&bench, "a"), @"
    a is Failed (NonZeroExit)
      exit code 1
    ");
    insta::assert_snapshot!(said(&bench, "other"), @"
    other is Pending (Starting)
      what runs it was asked to start it
    ");
}

#[test]
fn a_retry_a_decision_and_a_halt() {
    let mut bench = Bench::new(flow(json!([
        {"name": "a", "retryPolicy": {"limit": 1, "backoff": {"duration": "10s", "jitter": 0.0}}},
        {"name": "ok", "type": "Manual", "timeoutSeconds": 60},
        {"name": "b", "dependencies": ["a"]},
    ])));
    bench.accept("a");
    bench.fail("a");
    insta::assert_snapshot!(said(&bench, "a"), @"
    a is Failed (RetryScheduled)
      it failed (NonZeroExit) and is tried again at 1970-01-01T00:16:50Z
    ");
    insta::assert_snapshot!(said(&bench, "ok"), @"
    ok is PendingApproval
      a person must approve or reject it before 1970-01-01T00:17:40Z
    ");
    bench.tell(FlowEvent::Stop { mode: StopMode::Graceful, replaced: false });
    insta::assert_snapshot!(said(&bench, "b"), @"
    b is Skipped (Stopped)
      the flow was halted: Stopped
    ");
}

#[test]
fn finally_and_items_are_waited_for() {
    let bench = Bench::new(json!({
        "steps": [{"name": "a", "outputs": {"parameters": [{"name": "o", "valueFrom": {"path": "/o"}}]}}],
        "finally": [{"name": "clean"}],
    }));
    insta::assert_snapshot!(said(&bench, "clean"), @"
    clean is Pending
      `finally` begins when all steps are settled, 1 are not
    ");
    assert_eq!(explain(&bench.plan, &bench.state, orlop_core::attempt::Address::step(7)), None);
}

#[test]
fn a_jobs_own_reason_is_distinguished_from_a_halt_of_that_name() {
    let mut bench = Bench::new(json!({
        "steps": [{"name": "a"}, {"name": "b", "retryPolicy": {}}, {"name": "c"}],
        "executionPolicy": {"failurePolicy": "CancelRunning", "backoffLimit": 0},
    }));
    bench.accept("a");
    bench.accept("c");
    bench.fail("b");
    bench.confirm("a");
    insta::assert_snapshot!(said(&bench, "a"), @"
    a is Failed (BackoffLimitExceeded)
      the flow was halted: BackoffLimitExceeded
    ");

    let mut bench = Bench::new(flow(json!([{"name": "a"}])));
    let (at, ended_at) = (bench.at("a"), bench.now);
    let (reason, message) = ("BackoffLimitExceeded".into(), "Job has reached the specified backoff limit".into());
    let (pods, result) = (vec![], Box::default());
    bench.tell(FlowEvent::AttemptFailed { at, attempt: 1, reason, message, pods, result, ended_at });
    insta::assert_snapshot!(said(&bench, "a"), @"
    a is Failed (BackoffLimitExceeded)
      Job has reached the specified backoff limit
    ");
}

#[test]
fn all_steps_of_a_long_chain_are_explained_in_one_walk() {
    let last = 20_000;
    let step = |n: usize| match n {
        0 => json!({"name": "s0"}),
        n => json!({"name": format!("s{n}"), "dependencies": [format!("s{}", n - 1)]}),
    };
    let steps: Vec<Value> = (0..=last).map(step).chain([json!({"name": "other"})]).collect();
    let mut bench = Bench::new(json!({"steps": steps, "executionPolicy": {"failurePolicy": "Continue"}}));
    bench.accept("s0");
    bench.fail("s0");
    let mut explainer = Explainer::new(&bench.plan, &bench.state);
    for n in (1..=last).rev() {
        let reported = explainer.explain(bench.at(&format!("s{n}"))).expect("the step exists");
        let root = reported.because.last().expect("a reason");
        assert!(matches!(root, Because::Root { name, .. } if name == "s0"), "{reported}");
    }
}
