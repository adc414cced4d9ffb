//! Jobs of several pods, deadlines, suspension, cancelling, capacity and what is left afterwards.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use orlop_core::attempt::{AttemptEnd, AttemptSpec, EndResult};
use orlop_core::error::{Class, Problem};
use orlop_core::ports::substrate::Substrate;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::{Bench, failure, key, spec};
use crate::runtime::local::remove_memory;
use crate::runtime::pod::{PodKey, PodResult};

fn pod(number: u32) -> PodKey {
    PodKey { attempt: key("s"), pod: number }
}

async fn end(substrate: &impl Substrate) -> AttemptEnd {
    timeout(Duration::from_secs(100_000), substrate.next()).await.unwrap().end
}

/// A Job of these fields whose pods run a command.
fn job(fields: Value, command: Value) -> AttemptSpec {
    let mut spec = spec("s", json!({"command": command, "args": ["{\"n\": 1}"]}));
    let template = Arc::make_mut(&mut spec.template);
    for (name, value) in fields.as_object().unwrap() {
        template["spec"][name] = value.clone();
    }
    spec
}

#[tokio::test(start_paused = true)]
async fn completions_and_parallelism_run_as_many_pods() {
    let bench = Bench::new();
    let substrate = bench.open();
    let began = Instant::now();
    substrate
        .start(job(json!({"completions": 4, "parallelism": 2, "completionMode": "Indexed"}), json!(["take", "1000"])))
        .await
        .unwrap();
    let end = end(&substrate).await;
    assert_eq!(end.result, EndResult::Succeeded);
    assert!((2_000..2_500).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    let status = &end.document["status"];
    assert_eq!((&status["succeeded"], &status["completedIndexes"]), (&json!(4), &json!("0-3")));
    let plans = bench.fake.plans();
    let named: Vec<_> = plans.iter().map(|plan| (plan.name.as_str(), plan.main.env[0].1.value.as_str())).collect();
    assert_eq!(named, [("flow-s-f", "0"), ("flow-s-f-1", "1"), ("flow-s-f-2", "2"), ("flow-s-f-3", "3")]);
    assert_eq!(end.document["termination"]["json"]["n"], 1);
}

#[tokio::test(start_paused = true)]
async fn the_backoff_limit_retries_with_growing_delays() {
    let bench = Bench::new();
    let substrate = bench.open();
    let began = Instant::now();
    substrate.start(job(json!({"backoffLimit": 2}), json!(["exits", "1", "1", "0"]))).await.unwrap();
    let ended = end(&substrate).await;
    assert_eq!(ended.result, EndResult::Succeeded);
    assert_eq!(began.elapsed().as_secs(), 30, "10 s and 20 s");
    assert_eq!(ended.failed_pods.len(), 2);
    assert_eq!(ended.document["status"]["failed"], 2);
}

/// On several threads, so that the order comes at any moment of the start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_is_cancelled_while_it_starts_ends() {
    for round in 0..40 {
        let bench = Bench::new();
        let substrate = bench.open();
        let key = key("s");
        let cancel = async {
            for _ in 0..round {
                tokio::task::yield_now().await;
            }
            substrate.cancel(&key, None).await
        };
        let (_, cancelled) = tokio::join!(substrate.start(job(json!({}), json!(["take", "100000"]))), cancel);
        cancelled.unwrap();
        let ended = timeout(Duration::from_secs(20), substrate.next()).await.expect("its end").end;
        assert_eq!(ended.result, EndResult::Cancelled, "round {round}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_backoff_delay_survives_the_host() {
    let bench = Bench::new();
    let wanted = job(json!({"backoffLimit": 1}), json!(["exits", "1", "0"]));
    let first = bench.open();
    let began = Instant::now();
    first.start(wanted.clone()).await.unwrap();
    sleep(Duration::from_secs(4)).await;
    drop(first);
    let next = bench.open();
    next.adopt(wanted).await.unwrap();
    assert_eq!(end(&next).await.result, EndResult::Succeeded);
    assert_eq!((began.elapsed().as_secs(), bench.fake.plans().len()), (10, 2));
}

#[tokio::test(start_paused = true)]
async fn beyond_its_limits_a_job_fails_with_its_own_reason() {
    let bench = Bench::new();
    let substrate = bench.open();
    substrate.start(job(json!({"backoffLimit": 1}), json!(["exit", "1"]))).await.unwrap();
    assert_eq!(failure(&end(&substrate).await).0, "BackoffLimitExceeded");
}

#[tokio::test(start_paused = true)]
async fn a_fail_job_rule_ends_the_other_pods() {
    let bench = Bench::new();
    let substrate = bench.open();
    let rules = json!({"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]});
    let fields = json!({"completions": 2, "parallelism": 2, "backoffLimit": 5, "podFailurePolicy": rules});
    substrate.start(job(fields, json!(["exits", "-", "42"]))).await.unwrap();
    let ended = end(&substrate).await;
    insta::assert_snapshot!(format!("{}: {}", failure(&ended).0, failure(&ended).1), @"PodFailurePolicy: container main of pod 1 ended with exit code 42, which a FailJob rule of podFailurePolicy names");
    let codes: Vec<i32> = ended.failed_pods.iter().flat_map(|pod| &pod.containers).map(|end| end.exit_code).collect();
    assert_eq!(codes, [42], "the other pod was ended, it did not fail");
    assert_eq!(bench.fake.world().pods[&pod(0)].stops, [Duration::from_secs(30)]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_pod_ends_the_others_and_loses_the_attempt() {
    let bench = Bench::new();
    let substrate = bench.open();
    substrate.start(job(json!({"completions": 2, "parallelism": 2}), json!(["run"]))).await.unwrap();
    bench.fake.until(&pod(1), |_| Some(())).await;
    bench.fake.end(&pod(0), PodResult::Lost, None);
    assert_eq!(end(&substrate).await.result, EndResult::Lost);
    assert_eq!(bench.fake.world().pods[&pod(1)].stops.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_job_ends_its_pods() {
    let bench = Bench::new();
    let substrate = bench.open();
    let mut wanted = job(json!({"activeDeadlineSeconds": 60, "parallelism": 2}), json!(["resist"]));
    Arc::make_mut(&mut wanted.template)["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(7);
    substrate.start(wanted).await.unwrap();
    let began = Instant::now();
    let ended = end(&substrate).await;
    assert_eq!((failure(&ended).0, began.elapsed().as_secs()), ("DeadlineExceeded", 67));
    insta::assert_snapshot!(failure(&ended).1, @"the Job ran longer than its activeDeadlineSeconds, 60 s");
    assert!(ended.failed_pods.is_empty(), "ended on request");
}

#[tokio::test(start_paused = true)]
async fn the_deadline_stands_still_while_suspended_also_across_hosts() {
    let bench = Bench::new();
    let wanted = job(json!({"activeDeadlineSeconds": 60}), json!(["run"]));
    let first = bench.open();
    first.start(wanted.clone()).await.unwrap();
    sleep(Duration::from_secs(50)).await;
    first.suspend(&key("s")).await.unwrap();
    assert!(bench.fake.world().pods[&pod(0)].frozen);
    drop(first);
    sleep(Duration::from_secs(1_000)).await;
    let next = bench.open();
    next.adopt(wanted).await.unwrap();
    assert!(timeout(Duration::from_secs(1_000), next.next()).await.is_err(), "nothing happens to it");
    next.resume(&key("s")).await.unwrap();
    assert!(!bench.fake.world().pods[&pod(0)].frozen);
    let began = Instant::now();
    assert_eq!(failure(&end(&next).await).0, "DeadlineExceeded");
    assert_eq!(began.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_pod_goes_on_where_the_next_host_is_told_so_before_it_has_seen_it() {
    let bench = Bench::new();
    let wanted = spec("s", json!({"command": ["run"]}));
    let first = bench.open();
    first.start(wanted.clone()).await.unwrap();
    first.suspend(&key("s")).await.unwrap();
    drop(first);
    let next = bench.open();
    next.adopt(wanted).await.unwrap();
    next.resume(&key("s")).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert!(!bench.fake.world().pods[&pod(0)].frozen);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_cannot_be_suspended_keeps_its_clock_and_its_pods() {
    let bench = Bench::new();
    let substrate = bench.open();
    let began = Instant::now();
    let wanted = job(json!({"activeDeadlineSeconds": 60, "parallelism": 2, "completions": 2}), json!(["run"]));
    substrate.start(wanted).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    bench.fake.world().unwilling.push_back(Problem::new(Class::Invalid, "this engine cannot pause"));
    substrate.suspend(&key("s")).await.unwrap_err();
    assert!(bench.fake.world().pods.values().all(|pod| !pod.frozen), "all or none");
    assert_eq!((failure(&end(&substrate).await).0, began.elapsed().as_secs()), ("DeadlineExceeded", 60));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_suspended_yet_can_be_cancelled() {
    let bench = Bench::new();
    let wanted = spec("s", json!({"command": ["run"]}));
    let first = bench.open();
    first.start(wanted.clone()).await.unwrap();
    first.suspend(&key("s")).await.unwrap();
    drop(first);
    let never = || Problem::new(Class::Transient, "the engine does not answer").retry_after(Duration::from_secs(9_999));
    bench.fake.world().unwilling.extend([never(), never()]);
    let next = bench.open();
    next.adopt(wanted).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    next.cancel(&key("s"), None).await.unwrap();
    assert_eq!(end(&next).await.result, EndResult::Cancelled);
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn cancelling_has_its_own_grace_and_wins_over_later_deadlines() {
    let bench = Bench::new();
    let substrate = bench.open();
    substrate.start(job(json!({"activeDeadlineSeconds": 10, "backoffLimit": 3}), json!(["resist"]))).await.unwrap();
    substrate.cancel(&key("s"), Some(Duration::from_secs(20))).await.unwrap();
    let began = Instant::now();
    let ended = end(&substrate).await;
    assert_eq!((ended.result, began.elapsed().as_secs()), (EndResult::Cancelled, 20));
    assert_eq!(bench.fake.world().pods[&pod(0)].stops, [Duration::from_secs(20)]);
}

#[tokio::test(start_paused = true)]
async fn a_second_cancellation_may_shorten_the_grace() {
    let bench = Bench::new();
    let substrate = bench.open();
    substrate.start(spec("s", json!({"command": ["run"]}))).await.unwrap();
    substrate.cancel(&key("s"), Some(Duration::from_secs(30))).await.unwrap();
    substrate.cancel(&key("s"), Some(Duration::ZERO)).await.unwrap();
    assert_eq!(end(&substrate).await.result, EndResult::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_job_starts_no_further_pod() {
    let bench = Bench::new();
    let substrate = bench.open();
    substrate.start(job(json!({"backoffLimit": 5}), json!(["exit", "1"]))).await.unwrap();
    sleep(Duration::from_secs(5)).await;
    substrate.cancel(&key("s"), None).await.unwrap();
    assert_eq!(end(&substrate).await.result, EndResult::Cancelled);
    assert_eq!(bench.fake.plans().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn requests_are_counted_against_the_machine() {
    let bench = Bench::new();
    let substrate = bench.open();
    let asking =
        |step: &str, cpu: &str| spec(step, json!({"command": ["run"], "resources": {"requests": {"cpu": cpu}}}));
    let error = substrate.start(asking("huge", "5")).await.unwrap_err();
    assert_eq!((error.class, error.reason), (Class::Invalid, Some("Unschedulable")));
    substrate.start(asking("s", "3")).await.unwrap();
    let error = substrate.start(asking("t", "2")).await.unwrap_err();
    assert_eq!(
        (error.class, error.reason, error.retry_after),
        (Class::Capacity, Some("Throttled"), Some(Duration::from_secs(15)))
    );
    assert!(!bench.options.run_dir.join("attempts/f/t").exists(), "asking leaves nothing on the disk");
    assert_eq!(substrate.list("f").await.unwrap(), [key("s")], "what was not created is not listed");
    substrate.cancel(&key("s"), None).await.unwrap();
    assert_eq!(end(&substrate).await.result, EndResult::Cancelled);
    substrate.start(asking("t", "2")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pods_of_one_job_wait_for_room_and_share_no_gpu() {
    let bench = Bench::new();
    let substrate = bench.open();
    let began = Instant::now();
    let mut wanted = job(json!({"completions": 4, "parallelism": 4}), json!(["take", "1000"]));
    Arc::make_mut(&mut wanted.template)["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"limits": {"nvidia.com/gpu": 1}});
    substrate.start(wanted).await.unwrap();
    assert_eq!(end(&substrate).await.result, EndResult::Succeeded);
    assert!(began.elapsed().as_millis() >= 2_000, "two at a time: {:?}", began.elapsed());
    let mut gpus: Vec<u32> = bench.fake.plans().iter().flat_map(|plan| plan.main.gpus.clone()).collect();
    gpus.sort_unstable();
    assert_eq!(gpus, [0, 0, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn adopted_pods_hold_their_share() {
    let bench = Bench::new();
    let wanted = spec("s", json!({"command": ["run"], "resources": {"limits": {"cpu": 3}}}));
    let first = bench.open();
    first.start(wanted.clone()).await.unwrap();
    drop(first);
    let next = bench.open();
    next.adopt(wanted).await.unwrap();
    let other = spec("t", json!({"command": ["run"], "resources": {"limits": {"cpu": 2}}}));
    assert_eq!(next.start(other).await.unwrap_err().class, Class::Capacity);
}

#[tokio::test(start_paused = true)]
async fn secrets_and_volumes_are_gone_with_the_pod_and_records_with_forgetting() {
    let bench = Bench::new();
    fs::create_dir_all(bench.root.path().join("secrets/s")).unwrap();
    fs::write(bench.root.path().join("secrets/s/token"), "hunter2").unwrap();
    let container = json!({
        "command": ["run"], "volumeMounts": [{"name": "s", "mountPath": "/s"}],
        "env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}}],
    });
    let mut wanted = spec("s", container);
    bench.set_volumes(&mut wanted, json!([{"name": "s", "secret": {"secretName": "s"}}]));
    let substrate = bench.open();
    substrate.start(wanted).await.unwrap();
    let plan = bench.running("s").await;
    assert!(plan.main.mounts[0].source.join("token").is_file() && plan.main.env[0].1.secret);
    assert_eq!(plan.secret_files, [plan.main.mounts[0].source.join("token")], "masked in the logs");
    let run_dir = &bench.options.run_dir;
    assert!(!holds(run_dir, "hunter2"), "no secret lies in the run directory");
    substrate.cancel(&key("s"), None).await.unwrap();
    let ended = end(&substrate).await;
    assert!(!plan.main.mounts[0].source.exists() && !holds(bench.root.path().join("memory").as_path(), "hunter2"));
    assert!(!ended.document.to_string().contains("hunter2"));
    assert_eq!(substrate.forget(&key("s")).await.map_err(|error| error.class), Ok(()));
    assert_eq!(bench.fake.world().removed, [pod(0)]);
    assert!(!run_dir.join("attempts/f/s/1").exists() && run_dir.join("logs/s").is_dir());
    drop(substrate);
    let left = fs::read_dir(bench.root.path().join("memory")).unwrap().count();
    assert_eq!(left, 0, "not even a directory stays in memory");
}

#[tokio::test(start_paused = true)]
async fn what_a_run_has_in_memory_can_be_deleted_without_opening_it() {
    let bench = Bench::new();
    let substrate = bench.open();
    let mut wanted = spec("s", json!({"command": ["run"], "volumeMounts": [{"name": "m", "mountPath": "/m"}]}));
    bench.set_volumes(&mut wanted, json!([{"name": "m", "emptyDir": {"medium": "Memory"}}]));
    substrate.start(wanted).await.unwrap();
    let plan = bench.running("s").await;
    drop(substrate);
    assert!(plan.main.mounts[0].source.is_dir(), "the pod lives on");
    remove_memory(&bench.options).unwrap();
    remove_memory(&bench.options).unwrap();
    assert_eq!(fs::read_dir(bench.root.path().join("memory")).unwrap().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_live_attempt_cannot_be_forgotten() {
    let bench = Bench::new();
    let substrate = bench.open();
    substrate.start(spec("s", json!({"command": ["run"]}))).await.unwrap();
    assert_eq!(substrate.forget(&key("s")).await.unwrap_err().class, Class::Conflict);
}

#[tokio::test(start_paused = true)]
async fn a_missing_secret_refuses_the_start_and_fails_a_later_pod() {
    let bench = Bench::new();
    let env = json!([{"name": "T", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}}]);
    let wanted = spec("s", json!({"command": ["run"], "env": env}));
    let substrate = bench.open();
    let error = substrate.start(wanted).await.unwrap_err();
    assert_eq!((error.class, error.reason), (Class::NotFound, Some("ParameterUnresolved")));
    assert!(bench.fake.plans().is_empty() && substrate.list("f").await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_later_pod_that_cannot_be_created_now_is_tried_again() {
    let bench = Bench::new();
    let substrate = bench.open();
    substrate.start(job(json!({"completions": 2}), json!(["take", "100"]))).await.unwrap();
    let busy = || Problem::new(Class::Transient, "busy");
    bench.fake.world().refusals.extend([busy(), busy()]);
    assert_eq!(end(&substrate).await.result, EndResult::Succeeded);
    assert_eq!(bench.fake.plans().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_later_pod_that_fails_to_start_is_no_fault_of_the_template_unless_it_is() {
    for (class, reason) in
        [(Class::Fatal, "StartError"), (Class::NotFound, "NotFound"), (Class::Invalid, "TemplateInvalid")]
    {
        let bench = Bench::new();
        let substrate = bench.open();
        substrate.start(job(json!({"completions": 2}), json!(["take", "100"]))).await.unwrap();
        bench.fake.world().refusals.push_back(Problem::new(class, "why"));
        let result = end(&substrate).await.result;
        let told = format!("the last one: {reason}, why");
        assert!(
            matches!(&result, EndResult::Failed { message, .. } if message.ends_with(&told)),
            "{class}: {result:?}"
        );
    }
}

/// Whether a file below a directory holds a text.
fn holds(directory: &std::path::Path, text: &str) -> bool {
    let Ok(entries) = fs::read_dir(directory) else { return false };
    entries.map(|entry| entry.unwrap().path()).any(|path| {
        if path.is_dir() {
            holds(&path, text)
        } else {
            String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(text)
        }
    })
}
