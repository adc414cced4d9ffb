//! What a status shows: conditions, reasons, messages, progress, the estimate, what stands beside the run.

use std::time::Duration;

use orlop_core::event::{AttemptResult, FlowEvent};
use orlop_core::machine::flow::FlowPhase;
use orlop_core::spec::flow::{StopMode, SuspendMode};
use orlop_core::spec::meta::ObjectReference;
use orlop_core::spec::status::{Condition, ConditionStatus, InstanceCounts};
use orlop_core::time::Time;
use serde_json::json;

use super::support::Bench;
use crate::engine::{FlowMeta, HoldReason, held, terminated};

fn condition(flow: &Bench, kind: &str) -> Option<Condition> {
    flow.status().conditions.into_iter().find(|condition| condition.kind == kind)
}

/// `Status/Reason` of a condition, and since when.
fn shown(flow: &Bench, kind: &str) -> Option<(String, Time)> {
    condition(flow, kind).map(|one| (format!("{:?}/{}", one.status, one.reason), one.last_transition_time.unwrap()))
}

#[test]
fn ready_follows_the_phase_and_its_time_moves_only_when_the_status_flips() {
    let mut flow =
        Bench::new(json!({"steps": [{"name": "a"}, {"name": "g", "type": "Manual", "dependencies": ["a"]}]}));
    let begin = flow.now;
    assert_eq!(shown(&flow, "Ready"), Some(("False/FlowPending".into(), begin)));
    flow.wait(1);
    flow.accept("a");
    let running = flow.now;
    assert_eq!(shown(&flow, "Ready"), Some(("True/FlowRunning".into(), running)));
    flow.wait(1);
    flow.succeed("a");
    let paused = flow.now;
    assert_eq!(shown(&flow, "Ready"), Some(("False/FlowPaused".into(), paused)));
    flow.wait(1);
    flow.tell(FlowEvent::SetSuspend { on: true, mode: SuspendMode::Drain });
    assert_eq!(shown(&flow, "Ready"), Some(("False/FlowSuspended".into(), paused)), "False stays False");
    flow.tell(FlowEvent::SetSuspend { on: false, mode: SuspendMode::Drain });
    assert_eq!((condition(&flow, "Completed"), condition(&flow, "Failed")), (None, None));
    flow.wait(1);
    let (at, decided_at) = (flow.at("g"), flow.now);
    let decision = orlop_core::spec::status::Decision::Approved;
    flow.tell(FlowEvent::Approval { at, decision, by: None, verified: false, decided_at, reason: None });
    assert_eq!(shown(&flow, "Ready"), Some(("True/FlowSucceeded".into(), flow.now)));
    assert_eq!(shown(&flow, "Completed"), Some(("True/FlowSucceeded".into(), flow.now)));
    assert_eq!(condition(&flow, "Failed"), None);
}

#[test]
fn a_failed_flow_is_not_ready_for_its_cause() {
    let mut flow = Bench::new(json!({"steps": [{"name": "a"}]}));
    flow.fail("a");
    assert_eq!(shown(&flow, "Ready"), Some(("False/FlowFailed".into(), flow.now)));
    assert_eq!((shown(&flow, "Failed").unwrap().0.as_str(), condition(&flow, "Completed")), ("True/FlowFailed", None));
    assert_eq!(flow.status().message, "step a failed: NonZeroExit: exit code 1");
}

#[test]
fn the_cause_of_an_end_is_the_reason_of_its_condition_and_no_type_comes_twice() {
    let steps = json!([{"name": "a"}, {"name": "b", "dependencies": ["a"]}]);
    let spec = || json!({"executionPolicy": {"activeDeadlineSeconds": 50}, "steps": steps});
    let stop = |mode| FlowEvent::Stop { mode, replaced: false };
    type End = (&'static str, fn(&mut Bench));
    let ends: [End; 3] = [
        ("Stopped", |flow| {
            flow.tell(FlowEvent::Stop { mode: StopMode::Graceful, replaced: false });
            flow.succeed("a");
        }),
        ("ActiveDeadlineExceeded", |flow| {
            flow.wait(50);
            flow.fail("a");
        }),
        ("FlowFailed", |flow| flow.fail("a")),
    ];
    for (cause, end) in ends {
        let mut flow = Bench::unadmitted(spec());
        flow.tell(FlowEvent::Blocked { reason: "ConcurrencyBlocked".into(), message: String::new() });
        flow.tell(FlowEvent::Admit);
        end(&mut flow);
        flow.tell(stop(StopMode::Terminate));
        let conditions = flow.status().conditions;
        let mut kinds: Vec<&str> = conditions.iter().map(|one| one.kind.as_str()).collect();
        kinds.sort_unstable();
        assert_eq!(kinds, ["Blocked", "Failed", "Ready"], "{cause}");
        assert_eq!(shown(&flow, "Failed").unwrap().0, format!("True/{cause}"));
    }
}

#[test]
fn blocked_and_spec_changed_stay_and_turn_false() {
    let mut flow = Bench::unadmitted(json!({"steps": [{"name": "a"}]}));
    assert_eq!((condition(&flow, "Blocked"), condition(&flow, "SpecChanged")), (None, None));
    flow.tell(FlowEvent::Blocked { reason: "ConcurrencyBlocked".into(), message: "x holds the key".into() });
    let blocked = condition(&flow, "Blocked").unwrap();
    assert_eq!((blocked.status, blocked.reason.as_str()), (ConditionStatus::True, "ConcurrencyBlocked"));
    assert_eq!(blocked.message, "x holds the key");
    flow.tell(FlowEvent::Admit);
    assert_eq!(condition(&flow, "Blocked").unwrap().status, ConditionStatus::False);
    flow.tell(FlowEvent::Hold { on: true });
    assert_eq!(shown(&flow, "SpecChanged").unwrap().0, "True/SpecChanged");
    flow.tell(FlowEvent::Hold { on: false });
    assert_eq!(condition(&flow, "SpecChanged").unwrap().status, ConditionStatus::False);
}

/// Puts off the start of a step.
fn put_off(flow: &mut Bench, step: &str, reason: &str) {
    let (at, retry_at) = (flow.at(step), flow.now.plus(std::time::Duration::from_secs(5)));
    let message = format!("no room for {step}");
    flow.tell(FlowEvent::AttemptDelayed { at, attempt: 1, reason: reason.into(), message, retry_at });
}

#[test]
fn a_flow_of_which_nothing_runs_is_blocked_by_the_first_start_that_is_put_off() {
    for word in ["QuotaExceeded", "Throttled", "ApiUnavailable"] {
        let mut flow =
            Bench::new(json!({"steps": [{"name": "a"}, {"name": "b"}, {"name": "c", "dependencies": ["b"]}]}));
        put_off(&mut flow, "b", word);
        let since = flow.now;
        let blocked = condition(&flow, "Blocked").unwrap();
        assert_eq!((blocked.status, blocked.reason.as_str()), (ConditionStatus::True, word));
        assert_eq!((blocked.message.as_str(), flow.status().message.as_str()), ("no room for b", "no room for b"));
        put_off(&mut flow, "a", "QuotaExceeded");
        assert_eq!(condition(&flow, "Blocked").unwrap().message, "no room for a", "the first in spec order");
        // It stands while the start is asked for again and put off again.
        flow.wait(5);
        put_off(&mut flow, "a", "QuotaExceeded");
        assert_eq!(shown(&flow, "Blocked"), Some(("True/QuotaExceeded".into(), since)));
        flow.accept("b");
        assert_eq!(shown(&flow, "Blocked").unwrap().0, "False/Admitted", "something runs");
        flow.succeed("b");
        assert_eq!(shown(&flow, "Blocked").unwrap().0, "True/QuotaExceeded");
        flow.accept("a");
        assert_eq!(shown(&flow, "Blocked").unwrap().0, "False/Admitted");
    }
    let mut flow = Bench::new(json!({"steps": [{"name": "a"}]}));
    put_off(&mut flow, "a", "Queued");
    assert_eq!(condition(&flow, "Blocked"), None, "a line that is not the API server's");
}

#[test]
fn a_flow_whose_resources_have_no_room_is_pending_and_says_so() {
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let mut flow =
        Bench::new(json!({"steps": [{"name": "a"}], "resourceTemplates": {"volumeClaimTemplates": [claim]}}));
    flow.tell(FlowEvent::Blocked { reason: "QuotaExceeded".into(), message: "exceeded quota: storage".into() });
    assert_eq!((flow.phase(), flow.status().message.as_str()), (FlowPhase::Pending, "exceeded quota: storage"));
    assert_eq!(shown(&flow, "Blocked").unwrap().0, "True/QuotaExceeded");
    flow.tell(FlowEvent::ResourcesReady { refs: vec![] });
    assert_eq!((shown(&flow, "Blocked").unwrap().0.as_str(), flow.status().message.as_str()), ("False/Admitted", ""));
    flow.tell(FlowEvent::Blocked { reason: "QuotaExceeded".into(), message: "late".into() });
    assert_eq!(shown(&flow, "Blocked").unwrap().0, "False/Admitted", "afterwards steps tell");
}

#[test]
fn a_held_flow_that_is_told_to_end_shows_what_was_cut_off() {
    let mut flow = Bench::new(json!({"steps": [{"name": "a"}, {"name": "b"}, {"name": "c", "retryPolicy": {}},
        {"name": "d", "dependencies": ["a"]}]}));
    flow.accept("a");
    flow.succeed("a");
    flow.accept("b");
    flow.accept("c");
    flow.fail("c");
    let status = terminated(held(flow.status(), HoldReason::SpecChanged, flow.now), false, flow.now);
    let reported: Vec<String> = status
        .steps
        .iter()
        .map(|step| format!("{} {} {}: {}", step.name, step.phase, step.reason, step.message).trim().to_owned())
        .collect();
    insta::assert_snapshot!(reported.join("\n"), @"
    a Succeeded :
    b Failed Terminated: its attempt was cancelled
    c Failed NonZeroExit: the retry was not made: exit code 1
    d Skipped Terminated:
    ");
    assert_eq!((status.phase, status.completion_time), (FlowPhase::Failed, Some(flow.now)));
    let counts = &status.progress;
    assert_eq!(
        (counts.successful_steps, counts.failed_steps, counts.skipped_steps, counts.running_steps),
        (1, 2, 1, 0)
    );
    assert_eq!((counts.completed_steps, counts.summary.as_str()), (4, "4/4"));
    insta::assert_snapshot!(status.message, @"Terminated: the flow was asked to stop while it was held");
    let of = |kind: &str| status.conditions.iter().find(|condition| condition.kind == kind).unwrap();
    assert_eq!((of("Failed").status, of("Failed").reason.as_str()), (ConditionStatus::True, "Terminated"));
    assert_eq!((of("Ready").status, of("Ready").reason.as_str()), (ConditionStatus::False, "Terminated"));
}

/// The table of step reasons: which failures the retry policy applies to.
#[test]
fn reasons_say_whether_a_failure_is_retried() {
    let reported = |reason: &str| {
        let mut flow = Bench::new(json!({"steps": [{"name": "a", "retryPolicy": {}}]}));
        flow.accept("a");
        let (at, ended_at, message) = (flow.at("a"), flow.now, "so it is".to_owned());
        let (pods, result) = (vec![], Box::default());
        flow.tell(FlowEvent::AttemptFailed { at, attempt: 1, reason: reason.into(), message, pods, result, ended_at });
        flow.outcome("a")
    };
    for reason in [
        "BackoffLimitExceeded",
        "DeadlineExceeded",
        "PodFailurePolicy",
        "NonZeroExit",
        "Signalled",
        "OOMKilled",
        "ArtifactUnavailable",
        "OutputMissing",
        "ParameterUnresolved",
    ] {
        assert_eq!(reported(reason), "Failed/RetryScheduled", "{reason}");
    }
    for reason in ["TemplateInvalid", "Forbidden", "NameConflict", "Unschedulable", "OutputTooLarge", "Permanent"] {
        assert_eq!(reported(reason), format!("Failed/{reason}"));
    }
}

#[test]
fn messages_are_cut_at_1024_characters() {
    let mut flow = Bench::new(json!({"steps": [{"name": "a"}]}));
    let (at, ended_at, message) = (flow.at("a"), flow.now, "é".repeat(3000));
    let (reason, pods, result) = ("NonZeroExit".into(), vec![], Box::default());
    flow.tell(FlowEvent::AttemptFailed { at, attempt: 1, reason, message, pods, result, ended_at });
    assert_eq!(flow.step("a").message.chars().count(), 1024);
    assert_eq!(flow.status().message.chars().count(), 1024);
}

#[test]
fn a_fan_out_counts_as_its_instances_and_as_one_until_they_are_known() {
    let mut flow = Bench::new(json!({"executionPolicy": {"failurePolicy": "Continue"}, "steps": [
        {"name": "list", "outputs": {"parameters": [{"name": "l", "valueFrom": {"path": "/l"}}]}},
        {"name": "fan", "withParam": "list:$.outputs.l", "when": "parameters.index != '3'"},
        {"name": "later", "dependencies": ["fan"], "withItems": [1, 2]}]}));
    assert_eq!(flow.status().progress.total_steps, 4, "a list of the spec is known at once");
    let outputs = [("l".to_owned(), "x".to_owned())].into();
    flow.succeed_with("list", AttemptResult { outputs, ..AttemptResult::default() });
    let at = flow.at("fan");
    flow.tell(FlowEvent::ItemsResolved { at, items: Ok(vec![json!(0); 4]) });
    flow.accept("fan-i0");
    flow.succeed("fan-i1");
    flow.fail("fan-i2");
    let counts = InstanceCounts { total: 4, running: 1, succeeded: 1, failed: 1, skipped: 1 };
    assert_eq!((flow.step("fan").instances, flow.outcome("fan").as_str()), (Some(counts), "Running"));
    let progress = flow.status().progress;
    assert_eq!((progress.summary.as_str(), progress.running_steps), ("4/7", 1));
    assert_eq!((progress.successful_steps, progress.failed_steps, progress.skipped_steps), (2, 1, 1));
}

#[test]
fn the_estimate_is_the_longest_path_times_the_mean_attempt() {
    let mut flow = Bench::new(json!({"steps": [
        {"name": "a"}, {"name": "b", "dependencies": ["a"]}, {"name": "c", "dependencies": ["b"]}, {"name": "d", "dependencies": ["a"]}]}));
    flow.accept("a");
    flow.wait(10);
    assert_eq!(flow.status().estimated_completion_time, None, "no step has ended");
    flow.succeed("a");
    assert_eq!(flow.status().estimated_completion_time, Some(flow.now.plus(Duration::from_secs(20))));
    flow.tell(FlowEvent::Stop { mode: StopMode::Terminate, replaced: false });
    for name in ["b", "d"] {
        flow.accept(name);
        flow.confirm(name);
    }
    assert_eq!(flow.status().estimated_completion_time, None, "the flow is over");
}

#[test]
fn audit_generation_and_resources_are_shown() {
    let annotations = ["initiated-by", "initiator-type", "correlation-id"]
        .map(|key| (format!("workflow.kube-zen.io/{key}"), key.to_owned()))
        .into();
    let meta = FlowMeta { annotations, generation: Some(7), ..FlowMeta::default() };
    let templates = json!({"configMapTemplates": [{"metadata": {"name": "settings"}}]});
    let mut flow = Bench::with_meta(json!({"resourceTemplates": templates, "steps": [{"name": "a"}]}), meta);
    flow.tell(FlowEvent::Admit);
    assert!(flow.status().resource_refs.is_empty());
    let reference =
        ObjectReference { kind: "ConfigMap".into(), name: "f-settings".into(), ..ObjectReference::default() };
    flow.tell(FlowEvent::ResourcesReady { refs: vec![reference.clone()] });
    let status = flow.status();
    assert_eq!((status.resource_refs, status.observed_generation), (vec![reference], Some(7)));
    let audit = status.audit.unwrap();
    let by = audit.initiated_by.unwrap();
    assert_eq!((by.user.as_str(), by.kind.as_str()), ("initiated-by", "initiator-type"));
    assert_eq!(audit.correlation_id.as_deref(), Some("correlation-id"));
    assert_eq!(Bench::unadmitted(json!({"steps": [{"name": "a"}]})).status().audit, None);
}
