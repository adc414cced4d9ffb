//! What is true of every pod, beyond what is true of every program: init containers, and standing still. Owns these rules.

use std::fs;
use std::time::Duration;

use orlop_cloud::runtime::pod::{ContainerPlan, EnvText, PodPlan, PodResult};
use orlop_core::task::{LogStream, TaskEnd};

use super::{Pods, Subject, Work};
use crate::process::until;

const LONG: Duration = Duration::from_secs(3600);

/// A container that sees what the main one sees.
fn init(plan: &PodPlan, name: &str, script: &str) -> ContainerPlan {
    ContainerPlan { name: name.to_owned(), command: Work::script(script).argv, ..plan.main.clone() }
}

pub(super) async fn init_containers_run_one_after_the_other_before_main(pods: Pods) {
    let script = |name: &str| format!("echo {name} >> {}/order; echo {name}", Pods::SHARED);
    let mut plan = pods.plan(Work::script(&script("main")));
    plan.init = vec![
        init(&plan, "first", &format!("sleep 0.3; {}", script("first"))),
        init(&plan, "second", &script("second")),
    ];
    let pod = pods.begin(plan).await;
    let exit = pods.exit(&pod).await;
    assert_eq!(exit.result, PodResult::Succeeded);
    let names: Vec<&str> = exit.containers.iter().map(|container| container.name.as_str()).collect();
    assert_eq!(names, ["first", "second", "main"]);
    assert_eq!(fs::read_to_string(pods.shared(&pod).join("order")).unwrap(), "first\nsecond\nmain\n");
    assert_eq!(pods.output(&pod, LogStream::Stdout), b"first\nsecond\nmain\n");
}

pub(super) async fn the_first_init_container_that_fails_fails_the_pod(pods: Pods) {
    let mut plan = pods.plan(Work::script("echo main"));
    plan.init = vec![init(&plan, "bad", "exit 7"), init(&plan, "never", "echo never")];
    let pod = pods.begin(plan).await;
    let exit = pods.exit(&pod).await;
    let (reason, message) = ("NonZeroExit".to_owned(), "container `bad` ended with exit code 7".to_owned());
    assert_eq!(exit.result, PodResult::Failed { reason, message });
    assert_eq!((exit.containers.len(), exit.containers[0].exit_code), (1, 7));
    assert_eq!(pods.output(&pod, LogStream::Stdout), b"");
}

/// Of containers after ten seconds, so all of this happens at the same time.
pub(super) async fn a_failed_container_is_started_again_in_place_up_to_the_limit(pods: Pods) {
    let mut begun = Vec::new();
    for (script, limit) in
        [("echo once; exit 3", 0), ("echo once; exit 3", 1), ("[ -e S/again ] || ! echo > S/again", 5)]
    {
        let mut plan = pods.plan(Work::script(&script.replace('S', Pods::SHARED)));
        (plan.restart_on_failure, plan.restart_limit) = (true, limit);
        begun.push(pods.begin(plan).await);
    }
    until(|| pods.output(&begun[1], LogStream::Stdout).starts_with(b"once\n")).await;
    let pods = pods.restarted(async || {}).await;
    let expected = [
        ("Failed", "container `main` ended with exit code 3", 0, "once\n"),
        ("Failed", "container `main` ended with exit code 3 after 1 restart", 1, "once\nonce\n"),
        ("Succeeded", "", 1, ""),
    ];
    for (pod, (outcome, reason, restarts, output)) in begun.iter().zip(expected) {
        let end = pods.wait(pod).await;
        assert_eq!((format!("{:?}", end.outcome).as_str(), end.reason.as_str()), (outcome, reason));
        assert_eq!(pods.exit(pod).await.containers[0].restarts, restarts);
        assert_eq!(pods.output(pod, LogStream::Stdout), output.as_bytes());
    }
}

pub(super) async fn last_words_are_what_the_file_holds_or_the_end_of_the_log(pods: Pods) {
    let many = (122..=200).map(|n| format!("{n}\n")).collect::<String>() + "***";
    let cases = [
        ("echo log; printf words > /dev/termination-log; exit 1", true, "words".to_owned()),
        ("echo log; exit 1", false, String::new()),
        ("echo out; sleep 0.2; echo err >&2; exit 1", true, "out\nerr".to_owned()),
        ("echo log", true, String::new()),
        ("seq 1 200; echo $S; exit 1", true, many),
        ("head -c 5000 /dev/zero | tr '\\0' x > /dev/termination-log", false, "x".repeat(4096)),
    ];
    let mut begun = Vec::new();
    for (script, falls_back, expected) in cases {
        let mut plan = pods.plan(Work::script(script));
        plan.main.env.push(("S".to_owned(), EnvText { value: "hunter-two".to_owned(), secret: true }));
        plan.main.message_falls_back_to_logs = falls_back;
        begun.push((pods.begin(plan).await, script, expected));
    }
    for (pod, script, expected) in begun {
        assert_eq!(pods.exit(&pod).await.containers[0].message.trim_end(), expected, "{script}");
    }
}

pub(super) async fn stopped_before_its_start_it_never_runs(pods: Pods) {
    let plan = pods.plan(Work::script("echo ran"));
    pods.end(&plan, LONG).await;
    let pod = pods.begin(plan).await;
    let exit = pods.exit(&pod).await;
    assert_eq!((exit.result, exit.containers.len()), (PodResult::Cancelled, 0));
    assert_eq!(pods.output(&pod, LogStream::Stdout), b"");
}

pub(super) async fn frozen_it_stands_still_and_its_time_limit_too(pods: Pods) {
    let limit = Duration::from_secs(4);
    let text = format!("echo ready; while :; do echo >> {}/ticks; sleep 0.02; done", Pods::SHARED);
    let pod = pods.start(Work { timeout: Some(limit), grace: Duration::ZERO, ..Work::script(&text) }).await;
    let path = pods.shared(&pod).join("ticks");
    let ticks = || fs::metadata(&path).map_or(0, |file| file.len());
    until(|| ticks() > 0).await;
    for _ in 0..2 {
        pods.freeze(&pod, true).await;
    }
    let mut before = 0;
    while before != ticks() {
        before = ticks();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    tokio::time::sleep(limit).await;
    assert_eq!(ticks(), before);
    let pods = pods.restarted(async || {}).await;
    let wait = tokio::time::timeout(Duration::from_millis(500), pods.exit(&pod)).await;
    assert!(wait.is_err() && ticks() == before, "another instance finds it frozen: {wait:?}");
    for _ in 0..2 {
        pods.freeze(&pod, false).await;
    }
    let end = pods.wait(&pod).await;
    assert_eq!(end.outcome, TaskEnd::TimedOut, "{end:?}");
    assert!(ticks() > before, "it went on");
}

pub(super) async fn frozen_it_can_be_stopped(pods: Pods) {
    let text = "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let pod = pods.start(Work::script(text)).await;
    until(|| pods.output(&pod, LogStream::Stdout) == b"ready\n").await;
    pods.freeze(&pod, true).await;
    pods.end(&pod, LONG).await;
    let end = pods.wait(&pod).await;
    assert_eq!((end.outcome, end.exit_code), (TaskEnd::Cancelled, Some(0)), "{end:?}");
    assert_eq!(pods.output(&pod, LogStream::Stdout), b"ready\nasked\n");
}

pub(super) async fn frozen_before_its_start_it_waits(pods: Pods) {
    let plan = pods.plan(Work::script("echo ran"));
    pods.freeze(&plan, true).await;
    let pod = pods.begin(plan).await;
    let wait = tokio::time::timeout(Duration::from_millis(500), pods.exit(&pod)).await;
    assert!(wait.is_err() && pods.output(&pod, LogStream::Stdout).is_empty(), "{wait:?}");
    pods.freeze(&pod, false).await;
    assert_eq!(pods.wait(&pod).await.outcome, TaskEnd::Succeeded);
    assert_eq!(pods.output(&pod, LogStream::Stdout), b"ran\n");
}
