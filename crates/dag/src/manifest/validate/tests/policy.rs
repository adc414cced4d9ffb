//! `executionPolicy` and `retryPolicy`, cell by cell.

use serde_json::json;

use crate::manifest::testing::{says, step, step_with};

#[test]
fn concurrency_key_has_1_to_253_characters() {
    insta::assert_snapshot!(says([("spec.executionPolicy.concurrencyKey", json!(""))]), @"error[value] spec.executionPolicy.concurrencyKey: a concurrency key of 0 characters (use 1 to 253 characters)");
    insta::assert_snapshot!(says([("spec.executionPolicy.concurrencyKey", json!("é".repeat(254)))]), @"error[value] spec.executionPolicy.concurrencyKey: a concurrency key of 254 characters (use 1 to 253 characters)");
    assert_eq!(says([("spec.executionPolicy.concurrencyKey", json!("é".repeat(253)))]), "");
}

#[test]
fn numbers_of_the_policy_have_their_least_values() {
    let policy = json!({"ttlSecondsAfterFinished": -1, "backoffLimit": -1, "activeDeadlineSeconds": 0, "parallelism": 0, "lostLimit": -1});
    insta::assert_snapshot!(says([("spec.executionPolicy", policy)]), @"
    error[value] spec.executionPolicy.ttlSecondsAfterFinished: -1 is too small (use 0 or more)
    error[value] spec.executionPolicy.backoffLimit: -1 is too small (use 0 or more)
    error[value] spec.executionPolicy.activeDeadlineSeconds: 0 is too small (use 1 or more)
    error[value] spec.executionPolicy.parallelism: 0 is too small (use 1 or more)
    error[value] spec.executionPolicy.lostLimit: -1 is too small (use 0 or more)
    ");
    let least = json!({"ttlSecondsAfterFinished": 0, "backoffLimit": 0, "activeDeadlineSeconds": 1, "parallelism": 1, "lostLimit": 0});
    assert_eq!(says([("spec.executionPolicy", least)]), "");
}

#[test]
fn words_of_the_policy_are_those_of_the_table() {
    let policy = json!({"concurrencyPolicy": "forbid", "failurePolicy": "FailSlow", "skipPolicy": "No", "toleratedOutcome": "Skipped", "jobRetention": "Always"});
    insta::assert_snapshot!(says([("spec.executionPolicy", policy)]), @"
    error[value] spec.executionPolicy.concurrencyPolicy: expected one of Forbid, Allow, Replace, found the text `forbid` (did you mean `Forbid`?)
    error[value] spec.executionPolicy.failurePolicy: expected one of FailFast, CancelRunning, Continue, found the text `FailSlow`
    error[value] spec.executionPolicy.jobRetention: expected one of All, Failed, None, found the text `Always`
    error[value] spec.executionPolicy.skipPolicy: expected one of Lenient, Strict, found the text `No`
    error[value] spec.executionPolicy.toleratedOutcome: expected one of Succeeded, Failed, found the text `Skipped`
    ");
    for (field, words) in [
        ("concurrencyPolicy", ["Allow", "Forbid", "Replace"].as_slice()),
        ("failurePolicy", &["FailFast", "CancelRunning", "Continue"]),
        ("skipPolicy", &["Lenient", "Strict"]),
        ("toleratedOutcome", &["Succeeded", "Failed"]),
        ("jobRetention", &["All", "Failed", "None"]),
    ] {
        for word in words {
            assert_eq!(says([(&format!("spec.executionPolicy.{field}"), json!(word))]), "", "{field} {word}");
        }
    }
}

#[test]
fn failure_rules_say_what_they_are_about() {
    let of = |rules| says([("spec.executionPolicy.podFailurePolicy.rules", rules)]);
    insta::assert_snapshot!(of(json!([])), @"error[value] spec.executionPolicy.podFailurePolicy.rules: the failure policy has no rule (list at least one, or remove the policy)");
    insta::assert_snapshot!(of(json!([{"action": "Retry"}])), @"
    error[value] spec.executionPolicy.podFailurePolicy.rules[0].action: `Retry` is not allowed here (use one of FailJob, Ignore, Count)
    error[value] spec.executionPolicy.podFailurePolicy.rules[0].onExitCodes: the rule does not say which exit codes it is about (add onExitCodes with operator and values)
    ");
    insta::assert_snapshot!(of(json!([{"action": "ignore", "onExitCodes": {"operator": "Is", "values": [256, -1], "containerName": ""}}])), @"
    error[value] spec.executionPolicy.podFailurePolicy.rules[0].action: `ignore` is not allowed here (did you mean `Ignore`?)
    error[value] spec.executionPolicy.podFailurePolicy.rules[0].onExitCodes.operator: `Is` is not allowed here (use one of In, NotIn)
    error[value] spec.executionPolicy.podFailurePolicy.rules[0].onExitCodes.containerName: the container name is empty (name a container, or leave it out for `main`)
    error[value] spec.executionPolicy.podFailurePolicy.rules[0].onExitCodes.values[0]: 256 is not an exit code (exit codes are 0 to 255)
    error[value] spec.executionPolicy.podFailurePolicy.rules[0].onExitCodes.values[1]: -1 is not an exit code (exit codes are 0 to 255)
    warning[reference] spec.executionPolicy.podFailurePolicy.rules[0].onExitCodes: no step has a container ``, so the rule never matches (set containerName to the container whose exit code counts)
    ");
    insta::assert_snapshot!(of(json!([{"action": "Count", "onExitCodes": {"operator": "In", "values": []}}])), @"error[value] spec.executionPolicy.podFailurePolicy.rules[0].onExitCodes.values: the rule lists no exit code (list at least one)");
    insta::assert_snapshot!(of(json!([{"onExitCodes": {}}])), @"
    error[value] spec.executionPolicy.podFailurePolicy.rules[0].onExitCodes.operator: `operator` is missing (it must be text)
    error[value] spec.executionPolicy.podFailurePolicy.rules[0].onExitCodes.values: `values` is missing (it must be a list of whole numbers)
    error[value] spec.executionPolicy.podFailurePolicy.rules[0].action: `action` is missing (it must be text)
    ");
    for action in ["FailJob", "Ignore", "Count"] {
        for operator in ["In", "NotIn"] {
            assert_eq!(of(json!([{"action": action, "onExitCodes": {"operator": operator, "values": [0, 255]}}])), "");
        }
    }
}

#[test]
fn failure_rules_for_containers_no_step_has_are_warned_about() {
    let rules = |name: &str| json!([{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3], "containerName": name}}]);
    insta::assert_snapshot!(says([("spec.executionPolicy.podFailurePolicy.rules", rules("worker"))]), @"warning[reference] spec.executionPolicy.podFailurePolicy.rules[0].onExitCodes: no step has a container `worker`, so the rule never matches (set containerName to the container whose exit code counts)");
    let mut other = step("b");
    other["template"]["spec"]["template"]["spec"]["containers"][0]["name"] = json!("worker");
    insta::assert_snapshot!(says([("spec.executionPolicy.podFailurePolicy.rules", rules("worker")), ("spec.steps.-", other)]), @"warning[reference] spec.executionPolicy.podFailurePolicy.rules[0].onExitCodes: 1 of 2 steps have no container `worker`, so the rule never matches them (`a`) (set containerName to the container whose exit code counts)");
    assert_eq!(
        says([
            ("spec.executionPolicy.podFailurePolicy.rules", rules("main")),
            ("spec.steps.-", json!({"name": "ok", "type": "Manual"}))
        ]),
        ""
    );
}

#[test]
fn retry_policies_have_sensible_numbers() {
    let of = |policy| says([("spec.steps.0", step_with("a", json!({"retryPolicy": policy})))]);
    insta::assert_snapshot!(of(json!({"limit": -1})), @"error[value] spec.steps[0].retryPolicy.limit: -1 is too small (use 0 or more)");
    insta::assert_snapshot!(of(json!({"backoff": {"type": "Quadratic", "factor": 0.5, "jitter": 1.5, "duration": "0s", "maxDuration": "soon"}})), @"
    error[value] spec.steps[0].retryPolicy.backoff.type: `Quadratic` is not allowed here (use one of Exponential, Linear, Fixed)
    error[value] spec.steps[0].retryPolicy.backoff.factor: 0.5 is too small (use 1 or more)
    error[value] spec.steps[0].retryPolicy.backoff.jitter: 1.5 is not a fraction (use 0 to 1)
    error[value] spec.steps[0].retryPolicy.backoff.duration: a delay of zero (use a duration above 0, or leave it out for 1s)
    error[value] spec.steps[0].retryPolicy.backoff.maxDuration: `soon` is not a duration (write a number and a unit (ns, us, ms, s, m, h), such as 300ms, 90s or 1h30m)
    ");
    insta::assert_snapshot!(of(json!({"backoff": {"type": "exponential", "duration": "721h", "maxDuration": "720h1ms"}})), @"
    error[value] spec.steps[0].retryPolicy.backoff.type: `exponential` is not allowed here (did you mean `Exponential`?)
    error[value] spec.steps[0].retryPolicy.backoff.duration: the delay is too long (use at most 720h)
    error[value] spec.steps[0].retryPolicy.backoff.maxDuration: the delay is too long (use at most 720h)
    ");
    insta::assert_snapshot!(of(json!({"backoff": {"duration": "90s", "maxDuration": "1m"}})), @"error[value] spec.steps[0].retryPolicy.backoff.maxDuration: maxDuration 1m0s is below the delay it limits, 1m30s (set duration to at most maxDuration; absent it is 1s)");
    insta::assert_snapshot!(of(json!({"backoff": {"maxDuration": "500ms"}})), @"error[value] spec.steps[0].retryPolicy.backoff.maxDuration: maxDuration 500ms is below the delay it limits, 1s (set duration to at most maxDuration; absent it is 1s)");
    insta::assert_snapshot!(of(json!({"backoff": {"duration": "-5s", "jitter": -0.1}})), @"
    error[value] spec.steps[0].retryPolicy.backoff.jitter: -0.1 is not a fraction (use 0 to 1)
    error[value] spec.steps[0].retryPolicy.backoff.duration: `-5s` is not a duration (it is negative) (write a number and a unit (ns, us, ms, s, m, h), such as 300ms, 90s or 1h30m)
    ");
    for good in [
        json!({}),
        json!({"limit": 0}),
        json!({"backoff": {"type": "", "duration": "", "factor": 1.0, "jitter": 0, "maxDuration": "720h"}}),
        json!({"backoff": {"type": "Fixed", "duration": "720h", "maxDuration": "720h", "jitter": 1}}),
        json!({"backoff": {"type": "Linear", "duration": "1h30m"}}),
    ] {
        assert_eq!(of(good.clone()), "", "{good}");
    }
}
