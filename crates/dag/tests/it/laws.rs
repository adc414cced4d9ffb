//! Engine against model over random bytes. `PROPTEST_CASES` sets how many.

use std::collections::BTreeSet;

use orlop_dag::testing::{check, check_rebuild};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// Cases that must bring about every situation of [`SITUATIONS`]; they are always the same. Some mistakes of an engine show in one of
/// a thousand.
const CASES: usize = 2000;

/// What the cases must bring about, or the laws say nothing about it: every final phase with its cause, every reason of
/// a step and of a fan-out, every cause of a cancellation, suspensions, and attempts after the first.
const SITUATIONS: &[&str] = &[
    "Failed ActiveDeadlineExceeded",
    "Failed BackoffLimitExceeded",
    "Failed FinallyFailed",
    "Failed FlowFailed",
    "Failed Replaced",
    "Failed ResourceConflict",
    "Failed Stopped",
    "Failed Terminated",
    "Paused ",
    "Succeeded ",
    "Suspended ",
    "cancel ActiveDeadlineExceeded",
    "cancel BackoffLimitExceeded",
    "cancel FlowFailed",
    "cancel Replaced",
    "cancel Terminated",
    "cancel Timeout",
    "fan-out Failed/ConditionError",
    "fan-out Failed/JobMissing",
    "fan-out Failed/Lost",
    "fan-out Failed/NonZeroExit",
    "fan-out Failed/Timeout",
    "fan-out Skipped/ConditionFalse",
    "fan-out Skipped/DependencyFailed",
    "fan-out Skipped/DependencySkipped",
    "fan-out Skipped/DependsFalse",
    "fan-out Skipped/Stopped",
    "fan-out Succeeded/",
    "fan-out Succeeded/EmptyFanOut",
    "resume",
    "start 3",
    "step Failed/ActiveDeadlineExceeded",
    "step Failed/ApprovalTimedOut",
    "step Failed/BackoffLimitExceeded",
    "step Failed/ConditionError",
    "step Failed/FlowFailed",
    "step Failed/Forbidden",
    "step Failed/JobMissing",
    "step Failed/Lost",
    "step Failed/NonZeroExit",
    "step Failed/OutputTooLarge",
    "step Failed/ParameterUnresolved",
    "step Failed/Rejected",
    "step Failed/Replaced",
    "step Failed/RetryScheduled",
    "step Failed/Terminated",
    "step Failed/Timeout",
    "step Pending/Queued",
    "step Pending/QuotaExceeded",
    "step Pending/Throttled",
    "step PendingApproval/",
    "step Running/Cancelling",
    "step Skipped/ConditionFalse",
    "step Skipped/DependencyFailed",
    "step Skipped/DependencySkipped",
    "step Skipped/DependsFalse",
    "step Skipped/FlowFailed",
    "step Skipped/Terminated",
    "step Succeeded/",
    "step Succeeded/FailureCounted",
    "step Succeeded/FailureIgnored",
    "step Succeeded/Reused",
    "suspend",
    "told ConcurrencyBlocked",
    "told SpecChanged",
];

/// Bytes of a flow and what happens to it, in pieces that may be left out one by one.
fn cases() -> impl Strategy<Value = Vec<u8>> {
    let head = proptest::collection::vec(any::<u8>(), 16);
    let steps = proptest::collection::vec(proptest::collection::vec(any::<u8>(), 16), 9);
    let ops = proptest::collection::vec(proptest::collection::vec(any::<u8>(), 4), 0..80);
    (head, steps, ops).prop_map(|(head, steps, ops)| {
        let steps = steps.into_iter().take(steps_of(&head));
        head.iter().copied().chain(steps.flatten()).chain(ops.into_iter().flatten()).collect()
    })
}

/// One case of [`cases`].
fn case(runner: &mut TestRunner) -> Vec<u8> {
    cases().new_tree(runner).expect("bytes without conditions").current()
}

/// Steps that a head asks for.
fn steps_of(head: &[u8]) -> usize {
    orlop_dag::testing::decode(head).0.steps.len()
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_does_what_the_tables_say(bytes in cases()) {
        check(&bytes).map_err(|broken| TestCaseError::fail(broken.to_string()))?;
    }

    #[test]
    fn a_rebuilt_flow_goes_on(bytes in cases()) {
        check_rebuild(&bytes).map_err(|broken| TestCaseError::fail(broken.to_string()))?;
    }
}

/// The limit of the wait for the first pod is over as well, but the attempt waits for its runtime.
#[test]
fn an_attempt_that_waits_for_its_runtime_times_out_and_not_its_wait_for_a_pod() {
    let bytes: &[u8] = &[
        83, 152, 0, 0, 0, 0, 0, 0, 1, 0, 71, 0, 41, 0, 41, 51, 0, 36, 0, 0, 0, 1, 53, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0,
        4, 0, 50, 0, 206, 2, 100, 0, 0, 78, 141, 0, 0, 106,
    ];
    if let Err(broken) = check(bytes) {
        panic!("{broken}");
    }
}

/// Its specification says Suspend, but somebody has drained it: what runs was left to finish.
#[test]
fn a_flow_that_was_drained_is_rebuilt_as_drained() {
    let bytes: &[u8] = &[
        55, 6, 91, 26, 0, 0, 0, 0, 101, 71, 0, 41, 1, 41, 51, 0, 81, 36, 0, 0, 0, 91, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        183, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 36, 0, 0, 0, 91, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 36, 0,
        0, 0, 91, 1, 0, 0, 85, 0, 0, 37, 131, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 28, 0, 0, 0, 0, 0, 0, 0, 36, 0, 0, 0, 0,
        0, 0, 125, 104, 14, 14, 28, 0, 0, 0, 0, 9, 4, 0, 50, 1, 0, 0, 50, 104, 238, 0, 141, 0, 29, 5,
    ];
    check_rebuild(bytes).unwrap_or_else(|broken| panic!("{broken}"));
}

#[test]
fn the_cases_bring_everything_about() {
    let mut runner = TestRunner::deterministic();
    let mut missing: BTreeSet<&str> = SITUATIONS.iter().copied().collect();
    for _ in 0..CASES {
        let bytes = case(&mut runner);
        let seen = check(&bytes).unwrap_or_else(|broken| panic!("{broken}"));
        missing.retain(|what| !seen.contains(*what));
    }
    assert!(missing.is_empty(), "{CASES} cases never bring about {missing:?}");
}
