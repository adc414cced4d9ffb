//! Rules whose other tests leave something open: toleration, reads of failures, timers, slots, retention.

use std::time::Duration;

use orlop_core::effect::FlowEffect;
use orlop_core::event::{AttemptResult, FlowEvent};
use orlop_core::machine::flow::FlowPhase;
use orlop_core::spec::flow::{StopMode, SuspendMode};
use orlop_core::spec::status::ArtifactRecord;
use orlop_core::spec::step::FlowFact;
use orlop_core::time::Time;
use serde_json::{Value, json};

use super::support::Bench;
use crate::engine::{flow_fact, next_deadline, read_path};

/// A failure by a Job's own reason, with what it gave.
fn fail_as(flow: &mut Bench, name: &str, reason: &str, result: AttemptResult) {
    let at = flow.at(name);
    let attempt = flow.state.attempt(at).unwrap().1;
    let (message, pods, ended_at) = ("as it went".to_owned(), vec![], flow.now);
    let (reason, result) = (reason.to_owned(), Box::new(result));
    flow.tell(FlowEvent::AttemptFailed { at, attempt, reason, message, pods, result, ended_at });
}

/// What the last event asked to be deleted: attempt and delay.
fn forgotten(flow: &Bench) -> Vec<(u32, Duration)> {
    let forget = flow.effects.iter().filter_map(|effect| match effect {
        FlowEffect::ForgetAttempt { attempt, after, .. } => Some((*attempt, *after)),
        _ => None,
    });
    forget.collect()
}

fn tolerated(flow: &Bench) -> Option<String> {
    let status = flow.status();
    status.conditions.into_iter().find(|one| one.kind == "FailuresTolerated").map(|one| one.message)
}

#[test]
fn at_most_twenty_tolerated_steps_are_named() {
    let steps: Vec<Value> = (0..21).map(|n| json!({"name": format!("s{n}"), "continueOnFailure": true})).collect();
    let mut flow = Bench::new(json!({"steps": steps}));
    for n in 0..21 {
        flow.fail(&format!("s{n}"));
    }
    let named = tolerated(&flow).unwrap();
    assert!(named.starts_with("s0, s1, ") && named.ends_with("s19 and 1 more"), "{named}");
    assert_eq!((flow.phase(), flow.status().progress.failed_steps), (FlowPhase::Succeeded, 21));
}

#[test]
fn a_job_may_fail_for_the_word_of_a_halt_and_is_tolerated() {
    let steps = json!([{"name": "a", "continueOnFailure": true}, {"name": "fan", "withItems": [1, 2], "continueOnFailure": true}]);
    let mut flow = Bench::new(json!({"executionPolicy": {"toleratedOutcome": "Failed"}, "steps": steps}));
    for name in ["a", "fan-i0"] {
        flow.accept(name);
        fail_as(&mut flow, name, "BackoffLimitExceeded", AttemptResult::default());
    }
    assert_eq!(flow.outcome("a"), "Failed/BackoffLimitExceeded");
    assert_eq!(tolerated(&flow).as_deref(), Some("a, fan"));
    flow.succeed("fan-i1");
    assert_eq!((flow.phase(), flow.cause().as_str()), (FlowPhase::Failed, "FlowFailed"));
}

/// What is read of a step is extracted when its attempt ends, also when it failed.
#[test]
fn others_read_what_a_failed_attempt_gave() {
    let outputs = json!({"parameters": [
        {"name": "n", "valueFrom": {"path": "/n"}}, {"name": "d", "valueFrom": {"path": "/d"}, "default": "x"}]});
    let mut flow = Bench::new(json!({"steps": [
        {"name": "a", "continueOnFailure": true, "outputs": outputs, "retryPolicy": {"limit": 1}},
        {"name": "b", "dependencies": ["a"], "when": "steps.a.outputs.n == '2'",
         "inputs": {"parameters": [{"name": "code", "valueFrom": {"jsonPath": "a:$.termination.exitCode"}}]}}]}));
    let gave = |n: &str| AttemptResult {
        outputs: [("n".to_owned(), n.to_owned())].into(),
        projections: [("$.termination.exitCode".to_owned(), "7".to_owned())].into(),
        ..AttemptResult::default()
    };
    fail_as(&mut flow, "a", "NonZeroExit", gave("1"));
    assert_eq!(flow.step("a").outputs, None, "retrying");
    flow.wait(1);
    fail_as(&mut flow, "a", "NonZeroExit", gave("2"));
    let outputs = flow.step("a").outputs.unwrap();
    assert_eq!((outputs.parameter("n"), outputs.parameter("d")), (Some("2"), None), "a default is for successes");
    assert_eq!(read_path(&flow.plan, &flow.state, "a:$.termination.exitCode"), Ok("7".into()));
    assert_eq!(flow.started(), ["b#1"]);
}

#[test]
fn an_artifact_of_a_failed_step_is_there_to_be_taken() {
    let step =
        json!({"name": "a", "continueOnFailure": true, "outputs": {"artifacts": [{"name": "log", "path": "/log"}]}});
    let mut flow = Bench::new(json!({"steps": [step]}));
    let artifact = |name: &str| ArtifactRecord { name: name.into(), path: "/log".into(), location: None };
    let artifacts = vec![artifact("log"), artifact("undeclared")];
    fail_as(&mut flow, "a", "NonZeroExit", AttemptResult { artifacts, ..AttemptResult::default() });
    assert_eq!(flow.outcome("a"), "Failed/NonZeroExit");
    assert_eq!(flow.step("a").outputs.unwrap().artifacts, [artifact("log")]);
}

#[test]
fn outputs_that_are_too_large_fail_for_good_and_those_of_retries_do_not_add_up() {
    let output = json!({"parameters": [{"name": "n", "valueFrom": {"path": "/n"}}]});
    let big = |bytes: usize| AttemptResult {
        outputs: [("n".to_owned(), "x".repeat(bytes))].into(),
        ..AttemptResult::default()
    };
    let step = json!({"name": "a", "outputs": output, "retryPolicy": {"limit": 50, "backoff": {"type": "Fixed"}}});
    let mut flow = Bench::new(json!({"executionPolicy": {"backoffLimit": 50}, "steps": [step]}));
    for _ in 0..40 {
        fail_as(&mut flow, "a", "NonZeroExit", big(256 * 1024));
        flow.wait(1);
    }
    flow.succeed_with("a", big(256 * 1024 + 1));
    assert_eq!(flow.outcome("a"), "Failed/OutputTooLarge");

    let mut flow = Bench::new(json!({"executionPolicy": {"backoffLimit": 50}, "steps": [step]}));
    for _ in 0..40 {
        fail_as(&mut flow, "a", "NonZeroExit", big(256 * 1024));
        flow.wait(1);
    }
    flow.succeed_with("a", big(256 * 1024));
    assert_eq!(flow.outcome("a"), "Succeeded", "10 MiB of failed attempts are not recorded");
}

#[test]
fn people_are_warned_once_when_outputs_near_what_a_flow_may_record() {
    let output = json!({"parameters": [{"name": "n", "valueFrom": {"path": "/n"}}]});
    let steps: Vec<_> = (0..33).map(|n| json!({"name": format!("s{n}"), "outputs": output})).collect();
    let mut flow = Bench::new(json!({"executionPolicy": {"failurePolicy": "Continue"}, "steps": steps}));
    let result =
        || AttemptResult { outputs: [("n".to_owned(), "x".repeat(256 * 1024))].into(), ..AttemptResult::default() };
    let warned = |flow: &Bench| flow.notices().iter().filter(|reason| **reason == "StatusTooLarge").count();
    // 8 MiB are 32 such values; the 26th is the first past four fifths.
    for n in 0..33 {
        flow.succeed_with(&format!("s{n}"), result());
        assert_eq!(warned(&flow), usize::from(n == 25), "s{n}");
    }
    assert_eq!(flow.outcome("s31"), "Succeeded");
    assert_eq!(flow.outcome("s32"), "Failed/OutputTooLarge");
}

#[test]
fn the_next_deadline_is_the_earliest_of_all_timers_and_nothing_fires_before() {
    let fixed = |seconds: u32| json!({"limit": 1, "backoff": {"type": "Fixed", "duration": format!("{seconds}s")}});
    let mut flow = Bench::new(json!({"executionPolicy": {"activeDeadlineSeconds": 50}, "steps": [
        {"name": "retry", "retryPolicy": fixed(10)}, {"name": "limit", "timeoutSeconds": 20},
        {"name": "gate", "type": "Manual", "timeoutSeconds": 30, "continueOnFailure": true}, {"name": "delayed"}]}));
    let begin = flow.now;
    flow.accept("limit");
    flow.fail("retry");
    let (at, retry_at) = (flow.at("delayed"), begin.plus(Duration::from_secs(40)));
    let (reason, message) = ("Throttled".into(), "later".into());
    flow.tell(FlowEvent::AttemptDelayed { at, attempt: 1, reason, message, retry_at });
    for (seconds, shown) in [
        (10, [("retry", "Pending/Starting"), ("limit", "Running")]),
        (20, [("limit", "Running/Cancelling"), ("gate", "PendingApproval")]),
        (30, [("gate", "Failed/ApprovalTimedOut"), ("delayed", "Pending/Throttled")]),
        (40, [("delayed", "Pending/Throttled"), ("retry", "Pending/Starting")]),
    ] {
        let due = begin.plus(Duration::from_secs(seconds));
        assert_eq!(next_deadline(&flow.state), Some(due));
        flow.now = Time::from_millis(due.millis() - 1);
        flow.tell(FlowEvent::Tick);
        assert!(flow.effects.is_empty(), "{:?}", flow.effects);
        flow.now = due;
        flow.tell(FlowEvent::Tick);
        assert_eq!(shown.map(|(name, _)| flow.outcome(name)), shown.map(|(_, outcome)| outcome.to_owned()));
    }
    let deadline = begin.plus(Duration::from_secs(50));
    assert_eq!(next_deadline(&flow.state), Some(deadline));
    flow.now = Time::from_millis(deadline.millis() - 1);
    flow.tell(FlowEvent::Tick);
    assert!(flow.effects.is_empty(), "{:?}", flow.effects);
    flow.now = deadline;
    flow.tell(FlowEvent::Tick);
    assert!(flow.status().message.starts_with("ActiveDeadlineExceeded"), "{}", flow.status().message);
}

#[test]
fn an_approval_is_recorded_and_a_stop_works_while_the_flow_is_suspended() {
    let mut flow =
        Bench::new(json!({"steps": [{"name": "gate", "type": "Manual"}, {"name": "b", "dependencies": ["gate"]}]}));
    flow.tell(FlowEvent::SetSuspend { on: true, mode: SuspendMode::Drain });
    let (at, decided_at) = (flow.at("gate"), flow.now);
    let decision = orlop_core::spec::status::Decision::Approved;
    flow.tell(FlowEvent::Approval { at, decision, by: Some("ann".into()), verified: true, decided_at, reason: None });
    assert_eq!((flow.outcome("gate").as_str(), flow.phase()), ("Succeeded", FlowPhase::Suspended));
    assert!(flow.started().is_empty());
    flow.tell(FlowEvent::Stop { mode: StopMode::Graceful, replaced: false });
    assert_eq!((flow.outcome("b").as_str(), flow.phase()), ("Skipped/Stopped", FlowPhase::Failed));
}

#[test]
fn with_nothing_left_to_run_a_suspended_flow_ends() {
    let mut flow = Bench::new(json!({"steps": [{"name": "a"}]}));
    flow.accept("a");
    flow.tell(FlowEvent::SetSuspend { on: true, mode: SuspendMode::Drain });
    flow.succeed("a");
    assert_eq!(flow.phase(), FlowPhase::Succeeded);
}

#[test]
fn paths_and_artifacts_that_are_read_order_too() {
    let reader = |inputs: Value| {
        Bench::new(json!({"executionPolicy": {"failurePolicy": "Continue"}, "steps": [
            {"name": "reader", "inputs": inputs},
            {"name": "a", "outputs": {"artifacts": [{"name": "f", "path": "/f"}]}}]}))
    };
    let path = json!({"parameters": [{"name": "p", "valueFrom": {"jsonPath": "a:$.phase"}}]});
    for inputs in [path, json!({"artifacts": [{"name": "f", "from": "a/f"}]})] {
        let mut flow = reader(inputs);
        assert_eq!(flow.started(), ["a#1"]);
        flow.fail("a");
        assert_eq!(flow.started(), ["reader#1"]);
    }
}

#[test]
fn approvals_and_retry_delays_hold_no_slot() {
    let mut flow = Bench::new(json!({"executionPolicy": {"parallelism": 1}, "steps": [
        {"name": "gate", "type": "Manual"}, {"name": "a", "retryPolicy": {}}, {"name": "b"}]}));
    assert_eq!((flow.outcome("gate").as_str(), flow.started()), ("PendingApproval", vec!["a#1".to_owned()]));
    flow.fail("a");
    assert_eq!(flow.started(), ["b#1"]);
    flow.wait(1);
    assert_eq!((flow.outcome("a").as_str(), flow.started().len()), ("Pending/Queued", 0));
    flow.succeed("b");
    assert_eq!(flow.started(), ["a#2"]);
}

/// The field `jobRetention`, and the time to live of a template.
#[test]
fn retention_decides_which_ended_jobs_are_forgotten() {
    let now = Duration::ZERO;
    for (retention, failed, succeeded) in
        [("All", vec![], vec![]), ("Failed", vec![], vec![(2, now)]), ("None", vec![(1, now)], vec![(2, now)])]
    {
        let step = json!({"name": "a", "retryPolicy": {}});
        let mut flow = Bench::new(json!({"executionPolicy": {"jobRetention": retention}, "steps": [step]}));
        flow.accept("a");
        flow.fail("a");
        assert_eq!(forgotten(&flow), failed, "{retention}");
        flow.wait(1);
        flow.accept("a");
        flow.succeed("a");
        assert_eq!(forgotten(&flow), succeeded, "{retention}");
    }
    let template = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"ttlSecondsAfterFinished": 30}});
    let mut flow = Bench::new(json!({"steps": [{"name": "a", "template": template}]}));
    flow.accept("a");
    flow.succeed("a");
    assert_eq!(forgotten(&flow), [(1, Duration::from_secs(30))]);
}

/// The numbers of the policy table where nothing is said.
#[test]
fn absent_policies_have_the_defaults_of_the_table() {
    let step = json!({"name": "a", "retryPolicy": {"limit": 9, "backoff": {"type": "Fixed"}}});
    let mut flow = Bench::new(json!({"steps": [step]}));
    for _ in 0..6 {
        flow.fail("a");
        flow.wait(1);
    }
    assert_eq!((flow.started(), flow.status().retries), (vec!["a#7".to_owned()], 6));
    flow.fail("a");
    assert_eq!(flow.cause(), "BackoffLimitExceeded");
    assert_eq!(next_deadline(&flow.state), Some(flow.now.plus(Duration::from_secs(86_400))));
}

#[test]
fn a_false_join_over_an_untolerated_failure_is_skipped_for_the_failure() {
    let mut flow = Bench::new(json!({"executionPolicy": {"failurePolicy": "Continue"}, "steps": [
        {"name": "a"}, {"name": "b", "depends": "a"}, {"name": "c", "depends": "b.Succeeded"}, {"name": "d", "depends": "a || b.Omitted"}]}));
    flow.fail("a");
    let outcomes = ["b", "c"].map(|name| flow.outcome(name));
    assert_eq!(outcomes, ["Skipped/DependencyFailed", "Skipped/DependencyFailed"]);
    assert_eq!(flow.started(), ["d#1"]);
}

/// Steps of `finally` read the outcome, the failures and the name of the flow.
#[test]
fn steps_of_finally_read_how_the_flow_came_out() {
    let fact = |flow: &Bench, fact| flow_fact(&flow.plan, &flow.state, fact);
    let mut flow = Bench::new(json!({"steps": [
        {"name": "a"}, {"name": "fan", "withItems": [1, 2], "continueOnFailure": true}, {"name": "b", "dependencies": ["a"]}],
        "finally": [{"name": "notify"}]}));
    flow.fail("fan-i1");
    assert_eq!((fact(&flow, FlowFact::Outcome), fact(&flow, FlowFact::Failures)), (String::new(), String::new()));
    flow.succeed("fan-i0");
    flow.wait(90);
    flow.fail("a");
    assert_eq!(flow.started(), ["notify#1"]);
    assert_eq!(fact(&flow, FlowFact::Outcome), "Failed");
    assert_eq!(fact(&flow, FlowFact::Duration), "1m30s");
    assert_eq!((fact(&flow, FlowFact::Name), fact(&flow, FlowFact::Url)), ("flow".to_owned(), String::new()));
    let failure = |step: &str| json!({"step": step, "reason": "NonZeroExit", "message": "exit code 1"});
    assert_eq!(fact(&flow, FlowFact::Failures), json!([failure("a"), failure("fan-i1")]).to_string());
}

/// A value that others read counts once, and one that is too large is named.
#[test]
fn a_value_may_have_a_quarter_of_a_mebibyte_also_where_others_read_it() {
    for (bytes, outcome) in [(256 * 1024, "Succeeded"), (256 * 1024 + 1, "Failed/OutputTooLarge")] {
        let outputs = json!({"parameters": [{"name": "small", "valueFrom": {"path": "/s"}}, {"name": "big", "valueFrom": {"path": "/b"}}]});
        let mut flow = Bench::new(json!({"steps": [
            {"name": "a", "outputs": outputs},
            {"name": "b", "inputs": {"parameters": [{"name": "x", "valueFrom": {"jsonPath": "a:$.outputs.big"}}]}}]}));
        assert!(flow.plan.projections(flow.at("a").step).is_empty());
        let value = |name: &str, text: String| (name.to_owned(), text);
        let result = AttemptResult {
            outputs: [value("small", String::new()), value("big", "x".repeat(bytes))].into(),
            ..AttemptResult::default()
        };
        flow.succeed_with("a", result);
        assert_eq!(flow.outcome("a"), outcome);
        if bytes > 256 * 1024 {
            let message = flow.step("a").message;
            assert!(message.contains("output `big` takes 262145 bytes") && message.contains("artifact"), "{message}");
        } else {
            assert_eq!(read_path(&flow.plan, &flow.state, "a:$.outputs.big").unwrap().len(), bytes);
        }
    }
}

#[test]
fn finally_runs_after_the_deadline_but_not_after_terminate() {
    for (terminate, outcome) in [(false, "Pending/Starting"), (true, "Skipped/Terminated")] {
        let mut flow = Bench::new(json!({"executionPolicy": {"activeDeadlineSeconds": 5},
            "steps": [{"name": "a"}], "finally": [{"name": "clean"}]}));
        flow.accept("a");
        flow.wait(5);
        if terminate {
            flow.tell(FlowEvent::Stop { mode: StopMode::Terminate, replaced: false });
        }
        flow.confirm("a");
        let shown = ["a", "clean"].map(|name| flow.outcome(name));
        assert_eq!(shown, ["Failed/ActiveDeadlineExceeded", outcome]);
    }
}
