//! Job fields off Kubernetes.

use std::time::Duration;

use serde_json::json;

use super::{read, with};
use crate::runtime::job::rules::{CodeMatch, FailureAction, FailureRule};
use crate::runtime::plan::{JobTemplate, TemplatePolicy};

#[test]
fn a_bare_job_is_one_pod_that_runs_once() {
    let rules = read(&with(json!({}))).unwrap().rules;
    assert_eq!((rules.completions, rules.parallelism, rules.backoff_limit, rules.indexed), (Some(1), 1, 0, false));
    assert!(rules.is_single() && rules.active_deadline.is_none());
}

#[test]
fn every_honoured_field_is_read() {
    let rules = read(&with(json!({"completions": 5, "parallelism": 2, "completionMode": "Indexed", "backoffLimit": 3, "activeDeadlineSeconds": 90}))).unwrap().rules;
    assert_eq!((rules.completions, rules.parallelism, rules.indexed, rules.backoff_limit), (Some(5), 2, true, 3));
    assert_eq!(rules.active_deadline, Some(Duration::from_secs(90)));
    assert!(!rules.is_single());
}

#[test]
fn parallelism_without_completions_is_a_work_queue() {
    let rules = read(&with(json!({"parallelism": 4}))).unwrap().rules;
    assert_eq!((rules.completions, rules.parallelism), (None, 4));
    assert!(read(&with(json!({"completionMode": "Indexed"}))).unwrap_err().to_string().contains("spec.completions"));
    assert!(read(&with(json!({"completionMode": "Both"}))).is_err());
}

#[test]
fn the_default_backoff_limit_is_the_machines() {
    let policy = TemplatePolicy { backoff_default: 6, ..TemplatePolicy::default() };
    let limit = |job| JobTemplate::read(&job, &policy).unwrap().rules.backoff_limit;
    assert_eq!((limit(with(json!({}))), limit(with(json!({"backoffLimit": 0})))), (6, 0));
}

#[test]
fn failure_rules_by_exit_code_are_read_and_those_by_condition_left_out() {
    let codes = |operator: &str| json!({"operator": operator, "values": [1, 2], "containerName": "main"});
    let rules = json!([
        {"action": "FailJob", "onExitCodes": codes("In")},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
        {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [0]}},
    ]);
    let found = read(&with(json!({"podFailurePolicy": {"rules": rules}}))).unwrap().rules.failure_rules;
    let first = FailureRule {
        action: FailureAction::FailJob,
        container: Some("main".into()),
        matches: CodeMatch::In,
        values: vec![1, 2],
    };
    let last =
        FailureRule { action: FailureAction::Count, container: None, matches: CodeMatch::NotIn, values: vec![0] };
    assert_eq!(found, [first, last]);
    let per_index = json!({"rules": [{"action": "FailIndex", "onExitCodes": codes("In")}]});
    assert!(read(&with(json!({"podFailurePolicy": per_index}))).is_err());
    let mut restarting = with(json!({"podFailurePolicy": {"rules": []}}));
    restarting["spec"]["template"]["spec"]["restartPolicy"] = json!("OnFailure");
    assert_eq!(read(&restarting).unwrap_err().to_string(), "spec.podFailurePolicy needs restartPolicy Never");
}

#[test]
fn suspend_and_replacement_are_passed_over() {
    assert!(
        read(&with(json!({"suspend": true, "podReplacementPolicy": "Failed", "ttlSecondsAfterFinished": 5}))).is_ok()
    );
}
