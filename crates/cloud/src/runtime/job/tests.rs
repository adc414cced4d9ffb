//! Tests of the rules of a Job off Kubernetes.

use std::time::Duration;

use orlop_core::time::Time;
use proptest::prelude::*;
use serde_json::json;

use super::clock::PauseClock;
use super::decide::{Decision, JobOutcome, JobState, PodStart, decide};
use super::document::{EndedJob, document, speaker};
use super::rules::{CodeMatch, FailureAction, FailureRule, JobRules, PodRecord};
use crate::runtime::pod::{ContainerExit, PodExit, PodResult};

fn at(seconds: i64) -> Time {
    Time::from_millis(seconds * 1000)
}

fn rules() -> JobRules {
    JobRules {
        completions: Some(1),
        parallelism: 1,
        indexed: false,
        backoff_limit: 0,
        active_deadline: None,
        failure_rules: Vec::new(),
    }
}

fn container(code: i32, ended: i64) -> ContainerExit {
    ContainerExit {
        name: "main".into(),
        exit_code: code,
        signal: None,
        oom_killed: false,
        message: String::new(),
        masked: false,
        restarts: 0,
        started_at: at(0),
        ended_at: at(ended),
    }
}

fn exit(result: PodResult, code: i32, ended: i64) -> PodExit {
    PodExit { result, containers: vec![container(code, ended)], started_at: Some(at(0)), ended_at: at(ended) }
}

fn failure(code: i32, ended: i64) -> PodExit {
    let message = format!("container main ended with exit code {code}");
    exit(PodResult::Failed { reason: "NonZeroExit".into(), message }, code, ended)
}

fn success(ended: i64) -> PodExit {
    exit(PodResult::Succeeded, 0, ended)
}

fn pod(number: u32, exit: Option<PodExit>) -> PodRecord {
    PodRecord { number, index: None, created_at: at(0), exit }
}

fn indexed(number: u32, index: u32, exit: Option<PodExit>) -> PodRecord {
    PodRecord { index: Some(index), ..pod(number, exit) }
}

fn next(rules: &JobRules, pods: &[PodRecord], now: i64) -> Decision {
    let clock = PauseClock::default();
    decide(&JobState { rules, started_at: at(0), clock: &clock, pods: &refs(pods) }, at(now))
}

fn refs(pods: &[PodRecord]) -> Vec<&PodRecord> {
    pods.iter().collect()
}

fn numbers(decision: &Decision) -> Vec<u32> {
    decision.start.iter().map(|start| start.number).collect()
}

fn reason(decision: &Decision) -> &str {
    match &decision.verdict {
        Some(JobOutcome::Failed { reason, .. }) => reason,
        Some(JobOutcome::Complete) => "Complete",
        Some(JobOutcome::Lost) => "Lost",
        Some(JobOutcome::Gone) => "Gone",
        None => "",
    }
}

#[test]
fn a_job_of_one_pod_starts_it_and_takes_over_its_end() {
    assert_eq!(next(&rules(), &[], 0).start, [PodStart { number: 0, index: None }]);
    assert_eq!(next(&rules(), &[pod(0, None)], 1), Decision::default());
    assert_eq!(reason(&next(&rules(), &[pod(0, Some(success(5)))], 6)), "Complete");
}

#[test]
fn a_single_pod_keeps_its_own_reason() {
    let failed = next(&rules(), &[pod(0, Some(failure(3, 5)))], 6);
    let expected =
        JobOutcome::Failed { reason: "NonZeroExit".into(), message: "container main ended with exit code 3".into() };
    assert_eq!(failed.verdict, Some(expected));
}

#[test]
fn parallelism_bounds_live_pods_and_completions_all_of_them() {
    let rules = JobRules { completions: Some(5), parallelism: 2, ..rules() };
    assert_eq!(numbers(&next(&rules, &[], 0)), [0, 1]);
    assert_eq!(numbers(&next(&rules, &[pod(0, Some(success(1))), pod(1, None)], 2)), [2]);
    let four: Vec<PodRecord> = (0..4).map(|n| pod(n, Some(success(1)))).collect();
    assert_eq!(numbers(&next(&rules, &four, 2)), [4], "only one is missing");
    let five: Vec<PodRecord> = (0..5).map(|n| pod(n, Some(success(1)))).collect();
    assert_eq!(reason(&next(&rules, &five, 2)), "Complete");
}

#[test]
fn no_completions_at_all_is_done_and_no_parallelism_waits() {
    let none = JobRules { completions: Some(0), ..rules() };
    assert_eq!(reason(&next(&none, &[], 0)), "Complete");
    let held = JobRules { parallelism: 0, ..rules() };
    assert_eq!(next(&held, &[], 0), Decision::default());
}

#[test]
fn a_work_queue_ends_with_its_last_pod_after_a_first_success() {
    let rules = JobRules { completions: None, parallelism: 3, backoff_limit: 6, ..rules() };
    assert_eq!(numbers(&next(&rules, &[], 0)), [0, 1, 2]);
    let pods = [pod(0, Some(success(1))), pod(1, None), pod(2, Some(failure(1, 2)))];
    let waiting = next(&rules, &pods, 60);
    assert_eq!((numbers(&waiting), reason(&waiting)), (vec![], ""), "no new pod, no end yet");
    let pods = [pod(0, Some(success(1))), pod(1, Some(failure(1, 3))), pod(2, Some(failure(1, 2)))];
    assert_eq!(reason(&next(&rules, &pods, 60)), "Complete");
}

#[test]
fn indexed_jobs_fill_the_lowest_free_index() {
    let rules = JobRules { completions: Some(3), parallelism: 2, indexed: true, backoff_limit: 5, ..rules() };
    let start = |number, index| PodStart { number, index: Some(index) };
    assert_eq!(next(&rules, &[], 0).start, [start(0, 0), start(1, 1)]);
    let pods = [indexed(0, 0, Some(failure(1, 1))), indexed(1, 1, Some(success(2)))];
    assert_eq!(next(&rules, &pods, 60).start, [start(2, 0), start(3, 2)]);
    let twice = [indexed(0, 0, Some(success(1))), indexed(1, 0, Some(success(1))), indexed(2, 1, Some(success(1)))];
    assert_eq!(next(&rules, &twice, 2).start, [start(3, 2)], "an index counts once");
}

#[test]
fn the_backoff_limit_counts_failures_and_equality_is_allowed() {
    let rules = JobRules { backoff_limit: 2, ..rules() };
    let failed = |count: u32| (0..count).map(|n| pod(n, Some(failure(1, i64::from(n))))).collect::<Vec<_>>();
    assert_eq!(reason(&next(&rules, &failed(2), 1_000)), "");
    assert_eq!(numbers(&next(&rules, &failed(2), 1_000)), [2]);
    let over = next(&rules, &failed(3), 1_000);
    insta::assert_debug_snapshot!(over.verdict, @r#"
    Some(
        Failed {
            reason: "BackoffLimitExceeded",
            message: "3 failures, backoffLimit allows 2; the last one: NonZeroExit, container main ended with exit code 1",
        },
    )
    "#);
}

#[test]
fn restarts_in_place_count_against_the_backoff_limit() {
    let rules = JobRules { completions: Some(2), parallelism: 2, backoff_limit: 3, ..rules() };
    let restarted = |n: u32, restarts| {
        let mut exit = failure(1, 5);
        exit.containers[0].restarts = restarts;
        pod(n, Some(exit))
    };
    assert_eq!(next(&rules, &[restarted(0, 2), pod(1, None)], 6).restarts_left, 0);
    assert_eq!(reason(&next(&rules, &[restarted(0, 2), pod(1, None)], 6)), "");
    assert_eq!(reason(&next(&rules, &[restarted(0, 3), pod(1, None)], 6)), "BackoffLimitExceeded");
    assert_eq!(reason(&next(&rules, &[restarted(0, 1), restarted(1, 1)], 6)), "BackoffLimitExceeded");
}

#[test]
fn delays_double_from_ten_seconds_and_start_anew_after_a_success() {
    let rules = JobRules { completions: Some(3), backoff_limit: 9, ..rules() };
    let one = [pod(0, Some(failure(1, 100)))];
    let held = next(&rules, &one, 109);
    assert_eq!((numbers(&held), held.wake), (vec![], Some(at(110))));
    assert_eq!(numbers(&next(&rules, &one, 110)), [1]);
    let two = [pod(0, Some(failure(1, 100))), pod(1, Some(failure(1, 200)))];
    assert_eq!(next(&rules, &two, 200).wake, Some(at(220)));
    let recovered = [pod(0, Some(failure(1, 100))), pod(1, Some(success(200)))];
    assert_eq!(numbers(&next(&rules, &recovered, 200)), [2]);
}

#[test]
fn the_deadline_ends_the_job_but_not_work_done_in_time() {
    let rules = JobRules { active_deadline: Some(Duration::from_secs(60)), ..rules() };
    assert_eq!(next(&rules, &[pod(0, None)], 10).wake, Some(at(60)));
    assert_eq!(reason(&next(&rules, &[pod(0, None)], 60)), "DeadlineExceeded");
    assert_eq!(reason(&next(&rules, &[pod(0, Some(success(59)))], 500)), "Complete", "seen late, done in time");
    assert_eq!(reason(&next(&rules, &[pod(0, Some(success(61)))], 500)), "DeadlineExceeded");
    assert_eq!(reason(&next(&rules, &[pod(0, Some(exit(PodResult::Cancelled, 143, 62)))], 500)), "DeadlineExceeded");
}

#[test]
fn a_suspended_job_starts_nothing_and_its_deadline_stands_still() {
    let rules = JobRules { active_deadline: Some(Duration::from_secs(60)), backoff_limit: 1, ..rules() };
    let mut clock = PauseClock::default();
    clock.pause(at(5));
    let pods = [pod(0, Some(failure(1, 4)))];
    let ask = |clock: &PauseClock, now| {
        decide(&JobState { rules: &rules, started_at: at(0), clock, pods: &refs(&pods) }, at(now))
    };
    assert_eq!(ask(&clock, 1_000), Decision { restarts_left: 0, ..Decision::default() });
    clock.go_on(at(1_005));
    assert_eq!(ask(&clock, 1_005).wake, Some(at(1_014)), "one of ten seconds had passed");
    assert_eq!(numbers(&ask(&clock, 1_014)), [1]);
    assert_eq!(reason(&ask(&clock, 1_060)), "DeadlineExceeded");
}

fn rule(action: FailureAction, container: Option<&str>, matches: CodeMatch, values: &[i32]) -> FailureRule {
    FailureRule { action, container: container.map(Into::into), matches, values: values.to_vec() }
}

#[test]
fn the_failure_policy_takes_the_first_rule_that_matches() {
    let policy = |rules_: Vec<FailureRule>| JobRules { backoff_limit: 3, failure_rules: rules_, ..rules() };
    let fail_42 = rule(FailureAction::FailJob, None, CodeMatch::In, &[42]);
    let ignore_rest = rule(FailureAction::Ignore, Some("main"), CodeMatch::NotIn, &[1]);
    let rules = policy(vec![fail_42, ignore_rest]);
    let end = |code| next(&rules, &[pod(0, Some(failure(code, 1)))], 100);
    assert_eq!(reason(&end(42)), "PodFailurePolicy");
    assert_eq!((reason(&end(7)), end(7).restarts_left), ("", 3), "ignored");
    assert_eq!((reason(&end(1)), end(1).restarts_left), ("", 2), "counted, no rule matched");
    let other = policy(vec![rule(FailureAction::FailJob, Some("sidecar"), CodeMatch::In, &[42])]);
    assert_eq!(next(&other, &[pod(0, Some(failure(42, 1)))], 100).restarts_left, 2, "another container");
    let count = policy(vec![rule(FailureAction::Count, None, CodeMatch::In, &[42])]);
    assert_eq!(next(&count, &[pod(0, Some(failure(42, 1)))], 100).restarts_left, 2);
}

#[test]
fn an_ignored_failure_is_replaced_even_without_any_backoff_limit() {
    let rules = JobRules { failure_rules: vec![rule(FailureAction::Ignore, None, CodeMatch::In, &[9])], ..rules() };
    assert_eq!(numbers(&next(&rules, &[pod(0, Some(failure(9, 1)))], 11)), [1]);
}

#[test]
fn a_lost_pod_loses_the_job_and_a_deleted_one_deletes_it() {
    assert_eq!(reason(&next(&rules(), &[pod(0, Some(exit(PodResult::Lost, 0, 1)))], 2)), "Lost");
    assert_eq!(reason(&next(&rules(), &[pod(0, Some(exit(PodResult::Gone, 0, 1)))], 2)), "Gone");
}

#[test]
fn the_first_end_in_time_settles_the_job_for_good() {
    let fail_42 = vec![rule(FailureAction::FailJob, None, CodeMatch::In, &[42])];
    let rules = JobRules { completions: Some(1), parallelism: 3, failure_rules: fail_42, ..rules() };
    let pods = [pod(0, Some(failure(42, 9))), pod(1, Some(success(3))), pod(2, None)];
    assert_eq!(reason(&next(&rules, &pods, 10)), "Complete", "the success came first");
    let pods = [pod(0, Some(failure(42, 2))), pod(1, Some(success(3))), pod(2, None)];
    assert_eq!(reason(&next(&rules, &pods, 10)), "PodFailurePolicy");
}

#[test]
fn the_succeeded_pod_of_the_lowest_index_speaks_else_the_last_to_finish() {
    let pods = [indexed(0, 1, Some(success(1))), indexed(1, 0, Some(success(2))), indexed(2, 2, Some(success(3)))];
    assert_eq!(speaker(&refs(&pods)).unwrap().number, 1);
    let pods = [pod(0, Some(failure(1, 9))), pod(1, Some(failure(1, 5)))];
    assert_eq!(speaker(&refs(&pods)).unwrap().number, 0);
    assert_eq!(speaker(&[&pod(0, None)]), None);
}

#[test]
fn the_document_is_that_of_a_job() {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"completions": 2}});
    let rules = JobRules { completions: Some(2), parallelism: 2, indexed: true, ..rules() };
    let mut last = success(7);
    last.containers[0].message = r#"{"rows": 3}"#.into();
    let pods = [indexed(0, 1, Some(success(5))), indexed(1, 0, Some(last))];
    let ended = EndedJob {
        template: &template,
        name: "etl-load-01234567",
        namespace: "default",
        uid: "u",
        rules: &rules,
        pods: &refs(&pods),
        main: "main",
        started_at: Time::from_millis(1_500),
        ended_at: at(7),
        verdict: Some(&JobOutcome::Complete),
    };
    let shown = document(&ended);
    insta::assert_snapshot!(shown["metadata"], @r#"{"creationTimestamp":"1970-01-01T00:00:01Z","labels":{"a":"b"},"name":"etl-load-01234567","namespace":"default","uid":"u"}"#);
    insta::assert_snapshot!(shown["status"], @r#"{"completedIndexes":"0-1","completionTime":"1970-01-01T00:00:07Z","conditions":[{"lastProbeTime":"1970-01-01T00:00:07Z","lastTransitionTime":"1970-01-01T00:00:07Z","message":"as many pods succeeded as were asked for","reason":"CompletionsReached","status":"True","type":"Complete"}],"startTime":"1970-01-01T00:00:01Z","succeeded":2}"#);
    insta::assert_snapshot!(shown["termination"], @r#"{"exitCode":0,"json":{"rows":3},"message":"{\"rows\": 3}","reason":"Completed"}"#);
    assert_eq!((&shown["kind"], &shown["spec"]), (&json!("Job"), &json!({"completions": 2})));
    let failed = JobOutcome::Failed { reason: "NonZeroExit".into(), message: "no".into() };
    let pods = [pod(0, Some(failure(3, 5)))];
    let shown = document(&EndedJob { verdict: Some(&failed), pods: &refs(&pods), ..ended });
    assert_eq!((&shown["status"]["failed"], &shown["status"]["succeeded"]), (&json!(1), &json!(null)));
    assert_eq!(shown["status"]["conditions"][0]["reason"], "NonZeroExit");
    assert_eq!(shown["termination"], json!({"exitCode": 3, "reason": "Error", "message": ""}));
}

proptest! {
    /// Whatever happens, a Job never has more live pods than its parallelism, never starts one after its verdict, and
    /// never gives a second verdict.
    #[test]
    fn laws_hold_for_every_course(
        completions in proptest::option::of(0_u32..5),
        parallelism in 0_u32..4,
        is_indexed: bool,
        backoff_limit in 0_u32..4,
        deadline in proptest::option::of(1_u64..200),
        course in proptest::collection::vec((0_usize..4, 0_u8..5, 0_i64..30), 0..40),
    ) {
        let rules = JobRules {
            completions: if is_indexed { Some(completions.unwrap_or(2)) } else { completions },
            parallelism,
            indexed: is_indexed,
            backoff_limit,
            active_deadline: deadline.map(Duration::from_secs),
            failure_rules: vec![rule(FailureAction::Ignore, None, CodeMatch::In, &[9])],
        };
        let (mut pods, mut now, mut settled) = (Vec::<PodRecord>::new(), 0, None);
        for (which, what, wait) in course {
            now += wait;
            let decision = next(&rules, &pods, now);
            if let Some(settled) = &settled {
                prop_assert_eq!(&decision.verdict, &Some(JobOutcome::clone(settled)));
            }
            if decision.verdict.is_some() {
                prop_assert!(decision.start.is_empty());
                settled = decision.verdict;
            }
            for start in decision.start {
                prop_assert_eq!(start.number as usize, pods.len());
                pods.push(PodRecord { index: start.index, ..pod(start.number, None) });
            }
            let live: Vec<usize> = (0..pods.len()).filter(|n| pods[*n].exit.is_none()).collect();
            prop_assert!(live.len() <= parallelism as usize);
            let mut indexes: Vec<u32> = live.iter().filter_map(|n| pods[*n].index).collect();
            indexes.dedup();
            prop_assert!(!is_indexed || indexes.len() == live.len(), "two live pods of one index");
            if let Some(number) = live.get(which) {
                pods[*number].exit = Some(match what {
                    0 | 1 => success(now),
                    2 => failure(9, now),
                    3 => failure(1, now),
                    _ => exit(PodResult::Cancelled, 143, now),
                });
            }
        }
    }
}
