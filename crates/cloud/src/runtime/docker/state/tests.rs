//! Tests of what a pod does next.

use std::time::Duration;

use orlop_core::attempt::AttemptKey;
use proptest::prelude::*;

use super::*;
use crate::runtime::docker::record::{Container, Stop, Words};
use crate::runtime::pod::PodKey;

fn record(containers: usize) -> Record {
    let attempt = AttemptKey { flow: "f".into(), step: "s".into(), item: None, attempt: 1 };
    let container = |n: usize| Container {
        name: format!("c{n}"),
        id: format!("id{n}"),
        secrets: Vec::new(),
        words: Words::None,
        falls_back: false,
    };
    Record {
        key: PodKey { attempt, pod: 0 },
        name: "pod".to_owned(),
        created_at: Time::EPOCH,
        boot: None,
        active_deadline: None,
        restart_on_failure: false,
        restart_limit: 0,
        grace: Duration::from_secs(1),
        secret_files: Vec::new(),
        stdout: "/out".into(),
        stderr: "/err".into(),
        containers: (0..containers).map(container).collect(),
    }
}

fn at(seconds: i64) -> Time {
    Time::from_millis(seconds * 1000)
}

fn seen(phase: Phase) -> Observed {
    Observed { phase, ..Observed::missing() }
}

fn ended(second: i64) -> Observed {
    Observed { execution: Some(format!("execution {second}")), ..seen(Phase::Ended) }
}

fn done(exit_code: i32, failures: u32, second: i64) -> Progress {
    let exit = ContainerExit {
        name: "c".to_owned(),
        exit_code,
        signal: signal(exit_code),
        oom_killed: false,
        message: String::new(),
        masked: false,
        restarts: 0,
        started_at: at(second),
        ended_at: at(second),
    };
    Progress { execution: Some(format!("execution {second}")), failures, exit: Some(exit), lost: false }
}

fn none() -> Progress {
    Progress::default()
}

fn stop(why: Why, second: i64) -> Control {
    Control { stop: Some(Stop { why, at: at(second), kill_at: at(second + 1) }), ..Control::default() }
}

fn result(next: &Next) -> String {
    match next {
        Next::End(Some(PodResult::Failed { reason, .. })) => reason.clone(),
        Next::End(Some(result)) => format!("{result:?}"),
        other => format!("{other:?}"),
    }
}

#[test]
fn containers_run_in_sequence() {
    let (record, control) = (record(2), Control::default());
    let next = |progress: &[Progress], seen: &[Observed]| next(&record, &control, progress, seen, at(100));
    let created = || seen(Phase::Created);
    assert_eq!(next(&[none(), none()], &[created(), created()]), Next::Start(0));
    assert_eq!(next(&[none(), none()], &[seen(Phase::Running), created()]), Next::Watch(0));
    assert_eq!(next(&[none(), none()], &[ended(1), created()]), Next::Absorb(0));
    assert_eq!(next(&[done(0, 0, 1), none()], &[ended(1), created()]), Next::Start(1));
    // A container that is done may be gone.
    assert_eq!(next(&[done(0, 0, 1), none()], &[seen(Phase::Missing), seen(Phase::Paused)]), Next::Watch(1));
    assert_eq!(result(&next(&[done(0, 0, 1), done(0, 0, 2)], &[ended(1), ended(2)])), "Succeeded");
    assert_eq!(result(&next(&[done(3, 1, 1), none()], &[ended(1), created()])), "NonZeroExit");
    assert_eq!(result(&next(&[done(137, 1, 1), none()], &[ended(1), created()])), "Signalled");
}

#[test]
fn a_container_that_is_needed_and_not_there_ends_the_pod() {
    let (record, control) = (record(2), Control::default());
    let next = |progress: &[Progress], seen: &[Observed]| next(&record, &control, progress, seen, at(100));
    assert_eq!(next(&[none(), none()], &[seen(Phase::Missing), seen(Phase::Created)]), Next::End(None));
    assert_eq!(next(&[done(0, 0, 1), none()], &[ended(1), seen(Phase::Missing)]), Next::End(None));
    assert_eq!(next(&[done(0, 0, 1), none()], &[ended(1), seen(Phase::Removing)]), Next::Vanish(1));
}

#[test]
fn restarts_wait_and_are_counted_over_all_containers() {
    let record = Record { restart_on_failure: true, restart_limit: 2, ..record(2) };
    let next =
        |progress: &[Progress], now| next(&record, &Control::default(), progress, &[ended(1), ended(2)], at(now));
    let first = |failures| [done(1, failures, 1), none()];
    let second = |failures| [done(0, 1, 1), done(1, failures, 2)];
    let seen_first = [ended(1), seen(Phase::Created)];
    let on = |progress: &[Progress], now| super::next(&record, &Control::default(), progress, &seen_first, at(now));
    assert_eq!(on(&first(1), 5), Next::Sleep(Some(at(11))));
    assert_eq!(on(&first(1), 11), Next::Start(0));
    assert_eq!(on(&first(2), 5), Next::Sleep(Some(at(21))));
    assert_eq!(result(&on(&first(3), 5)), "NonZeroExit");
    assert_eq!(next(&second(1), 5), Next::Sleep(Some(at(12))));
    assert_eq!(result(&next(&second(2), 5)), "NonZeroExit");
}

#[test]
fn a_frozen_pod_starts_nothing_and_its_deadline_stands_still() {
    let record = Record { active_deadline: Some(Duration::from_secs(10)), ..record(1) };
    let frozen = Control { frozen_since: Some(at(5)), ..Control::default() };
    assert_eq!(next(&record, &frozen, &[none()], &[seen(Phase::Created)], at(99)), Next::Sleep(None));
    assert_eq!(next(&record, &frozen, &[none()], &[seen(Phase::Paused)], at(99)), Next::Watch(0));
    let mut thawed = frozen;
    thawed.thaw(at(25));
    assert_eq!(deadline(&record, &thawed), Some(at(30)));
    assert_eq!(next(&record, &thawed, &[none()], &[seen(Phase::Running)], at(29)), Next::Watch(0));
    assert_eq!(next(&record, &thawed, &[none()], &[seen(Phase::Running)], at(30)), Next::Expire);
}

#[test]
fn what_ended_before_it_was_asked_to_ended_by_itself() {
    let verdict = |exit_code, control: &Control| {
        result(&next(&record(1), control, &[done(exit_code, u32::from(exit_code != 0), 10)], &[ended(10)], at(20)))
    };
    assert_eq!(verdict(0, &stop(Why::Cancel, 11)), "Succeeded");
    assert_eq!(verdict(1, &stop(Why::Cancel, 11)), "NonZeroExit");
    assert_eq!(verdict(0, &stop(Why::Cancel, 9)), "Cancelled");
    assert_eq!(verdict(143, &stop(Why::Cancel, 9)), "Cancelled");
    assert_eq!(verdict(143, &stop(Why::Deadline, 9)), "DeadlineExceeded");
}

#[test]
fn a_pod_that_is_to_end_starts_nothing() {
    let (created, record) = ([seen(Phase::Created), seen(Phase::Created)], record(2));
    let cancelled = next(&record, &stop(Why::Cancel, 1), &[none(), none()], &created, at(2));
    assert_eq!(result(&cancelled), "Cancelled");
    let between = next(&record, &stop(Why::Deadline, 5), &[done(0, 0, 1), none()], &created, at(6));
    assert_eq!(result(&between), "DeadlineExceeded");
    let waiting = Record { restart_on_failure: true, restart_limit: 9, ..record };
    let restart =
        next(&waiting, &stop(Why::Cancel, 5), &[done(1, 1, 1), none()], &[ended(1), seen(Phase::Created)], at(6));
    assert_eq!(result(&restart), "Cancelled");
    let runs = [seen(Phase::Running), seen(Phase::Created)];
    assert_eq!(next(&waiting, &stop(Why::Cancel, 5), &[none(), none()], &runs, at(6)), Next::Watch(0));
}

#[test]
fn a_second_stop_only_shortens_the_time() {
    let mut control = Control::default();
    control.freeze(at(1));
    control.stop(Why::Deadline, at(3), Duration::from_secs(30));
    control.stop(Why::Cancel, at(4), Duration::from_secs(1));
    control.stop(Why::Cancel, at(5), Duration::from_secs(60));
    control.freeze(at(6));
    let stop = Stop { why: Why::Deadline, at: at(3), kill_at: at(5) };
    assert_eq!(control, Control { stop: Some(stop), frozen_since: None, frozen: Duration::from_secs(2) });
}

#[test]
fn what_was_lost_is_not_started_again() {
    let record = Record { restart_on_failure: true, restart_limit: 9, ..record(2) };
    let lost = [Progress { lost: true, ..done(137, 1, 1) }, none()];
    let next = next(&record, &Control::default(), &lost, &[ended(1), seen(Phase::Created)], at(99));
    assert_eq!(result(&next), "Lost");
}

#[test]
fn an_execution_across_a_boot_is_lost() {
    let record = Record { boot: Some("a".to_owned()), ..record(1) };
    let crossed = |boot, started, ended| record.crossed(boot, Some(at(100)), at(started), at(ended));
    assert!(crossed(Some("b"), 50, 150));
    assert!(!crossed(Some("a"), 50, 150));
    assert!(!crossed(Some("b"), 50, 99));
    assert!(!crossed(Some("b"), 101, 150));
    assert!(!crossed(None, 50, 150));
}

#[test]
fn signals_are_exit_codes_above_128() {
    let signals: Vec<Option<i32>> = [0, 1, 128, 129, 137, 192, 193, 255, -1].map(signal).to_vec();
    assert_eq!(signals, [None, None, None, Some(1), Some(9), Some(64), None, None, None]);
}

#[test]
fn failures_are_reported_in_a_sentence() {
    let reported = |exit: ContainerExit, ran| match failure::container(&exit, ran) {
        PodResult::Failed { reason, message } => format!("{reason}: {message}"),
        other => format!("{other:?}"),
    };
    let exit = done(137, 1, 1).exit.unwrap();
    insta::assert_snapshot!(reported(exit.clone(), true), @"Signalled: container `c` was ended by SIGKILL");
    insta::assert_snapshot!(reported(ContainerExit { oom_killed: true, ..exit.clone() }, true), @"OOMKilled: container `c` ran out of memory");
    let gave_up = ContainerExit { exit_code: 1, signal: None, restarts: 3, ..exit };
    insta::assert_snapshot!(reported(gave_up.clone(), true), @"NonZeroExit: container `c` ended with exit code 1 after 3 restarts");
    let never = ContainerExit { message: "no such file".to_owned(), restarts: 0, ..gave_up };
    insta::assert_snapshot!(reported(never, false), @"NonZeroExit: container `c` could not be started: no such file");
}

proptest! {
    #[test]
    fn a_pod_never_has_two_containers_at_work(
        phases in proptest::collection::vec(0_u8..4, 1..4),
        codes in proptest::collection::vec(proptest::option::of(0_i32..3), 1..4),
        frozen: bool,
        stopped: bool,
        limit in 0_u32..3,
    ) {
        let count = phases.len().min(codes.len());
        let record = Record { restart_on_failure: limit > 0, restart_limit: limit, ..record(count) };
        let phase = |n: &u8| [Phase::Created, Phase::Running, Phase::Missing, Phase::Paused][usize::from(*n)];
        let all: Vec<Observed> = phases.iter().take(count).map(|n| seen(phase(n))).collect();
        let progress: Vec<Progress> = codes.iter().take(count)
            .map(|code| code.map_or_else(none, |code| done(code, u32::from(code != 0), 1))).collect();
        let mut control = Control { frozen_since: frozen.then_some(at(1)), ..Control::default() };
        if stopped {
            control.stop(Why::Cancel, at(2), Duration::ZERO);
        }
        let next = next(&record, &control, &progress, &all, at(100));
        let live = all.iter().any(|seen| matches!(seen.phase, Phase::Running | Phase::Paused));
        if let Next::Start(index) = &next {
            prop_assert!(!live && !stopped && !frozen);
            prop_assert!(all[*index].phase == Phase::Created);
            // Everything before it succeeded, nothing after it has run.
            prop_assert!(progress[*index + 1..].iter().all(|after| after.exit.is_none()));
        }
    }
}
