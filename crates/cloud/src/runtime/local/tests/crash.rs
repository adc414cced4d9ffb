//! A host killed at any moment: whatever was written by then, the next host runs the pod once and reports its one end.

use std::fs;
use std::time::Duration;

use orlop_core::attempt::{AttemptEnd, EndResult};
use orlop_core::error::{Class, Problem};
use orlop_core::ports::substrate::Substrate;
use serde_json::json;

use super::{Bench, key, spec};
use crate::runtime::local::records;
use crate::runtime::pod::{PodKey, PodResult};

fn pod(number: u32) -> PodKey {
    PodKey { attempt: key("s"), pod: number }
}

async fn end(substrate: &impl Substrate) -> AttemptEnd {
    tokio::time::timeout(Duration::from_secs(100_000), substrate.next()).await.unwrap().end
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_number_of_steps_it_runs_once() {
    for steps in 0..60 {
        let bench = Bench::new();
        let first = bench.open();
        {
            let start = first.start(spec("s", json!({"command": ["take", "100"]})));
            tokio::pin!(start);
            // The start goes on for so many turns of the scheduler, with time for the disk in between.
            for _ in 0..steps {
                tokio::select! {
                    biased;
                    _ = &mut start => break,
                    () = tokio::task::yield_now() => std::thread::sleep(Duration::from_micros(200)),
                }
            }
        }
        drop(first);
        let next = bench.open();
        next.start(spec("s", json!({"command": ["take", "100"]}))).await.unwrap();
        assert_eq!(end(&next).await.result, EndResult::Succeeded, "after {steps} steps");
        assert_eq!(bench.fake.plans().len(), 1, "after {steps} steps");
    }
}

/// The files a finished attempt leaves, in the order they were written.
const RECORDS: [&str; 7] = [
    "attempt.json",
    "pod-0/pod.json",
    "pod-0/prepared.json",
    "pod-0/started.json",
    "accepted.json",
    "pod-0/exit.json",
    "end.json",
];

#[tokio::test(start_paused = true)]
async fn whatever_record_was_the_last_one_the_next_host_goes_on() {
    for last in 0..RECORDS.len() {
        let bench = Bench::new();
        let first = bench.open();
        first.start(spec("s", json!({"command": ["exit", "3"]}))).await.unwrap();
        let whole = end(&first).await;
        drop(first);
        let directory = bench.options.run_dir.join("attempts/f/s/1");
        for record in &RECORDS[last + 1..] {
            fs::remove_file(directory.join(record)).unwrap();
        }
        if last < 3 {
            // The runtime was never asked, or asked by nobody who wrote its answer down.
            bench.fake.world().pods.clear();
        }
        let next = bench.open();
        if last >= 4 {
            next.adopt(spec("s", json!({"command": ["exit", "3"]}))).await.unwrap();
        } else {
            next.start(spec("s", json!({"command": ["exit", "3"]}))).await.unwrap();
        }
        let again = end(&next).await;
        assert_eq!(again.result, whole.result, "last was {}", RECORDS[last]);
        assert_eq!(again.failed_pods, whole.failed_pods);
        assert_eq!(bench.fake.plans().len(), 1);
        if last >= 5 {
            assert_eq!(again, whole);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_started_pod_without_a_trace_is_lost() {
    let bench = Bench::new();
    let first = bench.open();
    first.start(spec("s", json!({"command": ["run"]}))).await.unwrap();
    drop(first);
    bench.fake.world().pods.clear();
    let next = bench.open();
    next.adopt(spec("s", json!({"command": ["run"]}))).await.unwrap();
    assert_eq!(end(&next).await.result, EndResult::Lost);
    assert!(bench.fake.plans().is_empty(), "nothing was started again");
}

#[tokio::test(start_paused = true)]
async fn a_pod_somebody_deleted_is_gone() {
    let bench = Bench::new();
    let substrate = bench.open();
    substrate.start(spec("s", json!({"command": ["run"]}))).await.unwrap();
    bench.fake.end(&pod(0), PodResult::Gone, None);
    assert_eq!(end(&substrate).await.result, EndResult::Gone);
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_outcome_is_unknown_is_found_by_the_next_try() {
    let bench = Bench::new();
    bench.fake.world().doubts.push_back(Problem::new(Class::Transient, "connection lost"));
    let substrate = bench.open();
    let wanted = spec("s", json!({"command": ["take", "50"]}));
    assert_eq!(substrate.start(wanted.clone()).await.unwrap_err().class, Class::Transient);
    substrate.start(wanted).await.unwrap();
    assert_eq!(end(&substrate).await.result, EndResult::Succeeded);
    assert_eq!(bench.fake.plans().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_attempt_is_not_created_by_who_takes_it_up() {
    let bench = Bench::new();
    bench.fake.world().refusals.push_back(Problem::new(Class::Transient, "busy"));
    let first = bench.open();
    let wanted = spec("s", json!({"command": ["run"]}));
    first.start(wanted.clone()).await.unwrap_err();
    drop(first);
    let next = bench.open();
    next.cancel(&key("s"), None).await.unwrap();
    assert_eq!(end(&next).await.result, EndResult::Cancelled);
    assert!(bench.fake.plans().is_empty());
    drop(next);
    let last = bench.open();
    last.adopt(wanted).await.unwrap();
    assert_eq!(end(&last).await.result, EndResult::Cancelled, "and stays so");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_attempt_whose_start_was_unclear_is_ended() {
    let bench = Bench::new();
    bench.fake.world().doubts.push_back(Problem::new(Class::Transient, "connection lost"));
    let first = bench.open();
    first.start(spec("s", json!({"command": ["run"]}))).await.unwrap_err();
    drop(first);
    let next = bench.open();
    next.cancel(&key("s"), Some(Duration::from_secs(3))).await.unwrap();
    assert_eq!(end(&next).await.result, EndResult::Cancelled);
    assert_eq!(bench.fake.world().pods[&pod(0)].stops, [Duration::from_secs(3)]);
}

#[tokio::test(start_paused = true)]
async fn what_can_never_run_leaves_nothing() {
    let bench = Bench::new();
    let refusal = Problem::new(Class::Invalid, "no such image").with_reason("TemplateInvalid");
    bench.fake.world().refusals.push_back(refusal);
    let substrate = bench.open();
    let error = substrate.start(spec("s", json!({"command": ["run"]}))).await.unwrap_err();
    assert_eq!(
        (error.class, error.reason, error.chain().as_str()),
        (Class::Invalid, Some("TemplateInvalid"), "no such image")
    );
    assert!(substrate.list("f").await.unwrap().is_empty());
    assert!(!bench.options.run_dir.join("attempts/f/s/1").exists());
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_cannot_see_is_asked_again() {
    let bench = Bench::new();
    let blind = || Problem::new(Class::Transient, "daemon restarts");
    bench.fake.world().blindness.extend([blind(), blind(), blind()]);
    let substrate = bench.open();
    substrate.start(spec("s", json!({"command": ["exit", "0"]}))).await.unwrap();
    assert_eq!(end(&substrate).await.result, EndResult::Succeeded);
    bench.fake.world().blindness.push_back(Problem::new(Class::Fatal, "records are damaged"));
    substrate.start(spec("t", json!({"command": ["run"]}))).await.unwrap();
    assert_eq!(end(&substrate).await.result, EndResult::Lost);
}

#[tokio::test(start_paused = true)]
async fn who_watches_learns_that_what_runs_a_pod_cannot_be_reached_and_that_it_is_reached_again() {
    let bench = Bench::new();
    let away = || Problem::new(Class::Transient, "connection refused");
    bench.fake.world().blindness.extend([away(), away(), away()]);
    let substrate = bench.open();
    substrate.start(spec("s", json!({"command": ["take", "60000"]}))).await.unwrap();
    let first = substrate.next_delay().await;
    let cause = first.cause.unwrap();
    insta::assert_snapshot!(format!("{:?} {}: {}", cause.on, cause.reason, cause.message), @"Runtime RuntimeUnavailable: connection refused");
    assert_eq!(substrate.next_delay().await.cause, None);
    assert_eq!(end(&substrate).await.result, EndResult::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_for_an_attempt_is_free_once_it_is_confirmed_to_be_gone() {
    let bench = Bench::new();
    let substrate = bench.open();
    substrate.start(spec("s", json!({"command": ["resist"]}))).await.unwrap();
    substrate.cancel(&key("s"), Some(std::time::Duration::ZERO)).await.unwrap();
    bench.fake.world().blindness.extend(std::iter::repeat_with(|| Problem::new(Class::Transient, "away")).take(99));
    substrate.release(&key("s")).await.unwrap();
    assert_eq!(end(&substrate).await.result, EndResult::Cancelled);
    substrate.release(&key("s")).await.unwrap();
    substrate.forget(&key("s")).await.unwrap();
    assert!(substrate.list("f").await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn records_that_are_damaged_are_said_to_be() {
    let bench = Bench::new();
    let first = bench.open();
    first.start(spec("s", json!({"command": ["run"]}))).await.unwrap();
    drop(first);
    let path = bench.options.run_dir.join("attempts/f/s/1/attempt.json");
    fs::write(&path, "{\"half").unwrap();
    let error = bench.open().adopt(spec("s", json!({"command": ["run"]}))).await.unwrap_err();
    assert_eq!(error.class, Class::Fatal);
    assert!(error.message.contains("attempt.json is damaged"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn one_process_at_a_time_works_on_a_directory() {
    let bench = Bench::new();
    let first = bench.open();
    let second = super::LocalSubstrate::open(
        std::sync::Arc::new(bench.fake.clone()),
        bench.options.clone(),
        bench.ports.clone(),
    );
    assert_eq!(second.err().map(|error| error.class), Some(Class::Conflict));
    drop(first);
    drop(bench.open());
}

#[test]
fn a_record_is_whole_or_absent() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r.json");
    assert_eq!(records::read::<u32>(&path).unwrap(), None);
    records::write(&path, &7).unwrap();
    records::write(&path, &8).unwrap();
    assert_eq!(records::read::<u32>(&path).unwrap(), Some(8));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no half is left");
    let nowhere = records::write(&directory.path().join("none/r.json"), &1).unwrap_err();
    assert_eq!(nowhere.class, Class::Transient);
}
