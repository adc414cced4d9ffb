//! Pods that are stopped, frozen, out of time, deleted by somebody else, and removed.

use std::time::{Duration, Instant};

use bollard::query_parameters as query;
use orlop_cloud::runtime::pod::{PodResult, PodRuntime as _};

use super::bench::{reason, texts, with};

const GRACE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_pod_that_listens_ends_at_once() {
    with("a_pod_that_listens_ends_at_once", |bench| async move {
        let plan = bench.plan("listens", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done");
        let runtime = bench.runtime().await;
        runtime.start(&plan).await.unwrap();
        bench.until_logged(&plan.stdout, "up").await;
        let begun = Instant::now();
        runtime.stop(&plan.key, &plan.directory, GRACE).await.unwrap();
        let exit = runtime.wait(&plan.key, &plan.directory).await.unwrap();
        assert_eq!(exit.result, PodResult::Cancelled);
        assert!(begun.elapsed() < GRACE, "{:?}", begun.elapsed());
        assert_eq!(texts(&plan.stdout), ["up", "bye"]);
        // Stopping what has ended changes nothing.
        runtime.stop(&plan.key, &plan.directory, GRACE).await.unwrap();
        assert_eq!(runtime.wait(&plan.key, &plan.directory).await.unwrap(), exit);
    })
    .await;
}

#[tokio::test]
async fn a_pod_that_does_not_listen_is_killed_after_the_grace() {
    with("a_pod_that_does_not_listen_is_killed_after_the_grace", |bench| async move {
        let plan = bench.plan("deaf", "trap '' TERM; echo up; while :; do sleep 0.1; done");
        let runtime = bench.runtime().await;
        runtime.start(&plan).await.unwrap();
        bench.until_logged(&plan.stdout, "up").await;
        let begun = Instant::now();
        runtime.stop(&plan.key, &plan.directory, Duration::from_secs(2)).await.unwrap();
        let exit = runtime.wait(&plan.key, &plan.directory).await.unwrap();
        assert_eq!((exit.result, exit.containers[0].exit_code), (PodResult::Cancelled, 137));
        assert!(begun.elapsed() >= Duration::from_millis(1900), "{:?}", begun.elapsed());
    })
    .await;
}

#[tokio::test]
async fn a_second_stop_may_be_less_patient() {
    with("a_second_stop_may_be_less_patient", |bench| async move {
        let plan = bench.plan("impatient", "trap '' TERM; echo up; while :; do sleep 0.1; done");
        let runtime = bench.runtime().await;
        runtime.start(&plan).await.unwrap();
        bench.until_logged(&plan.stdout, "up").await;
        let begun = Instant::now();
        runtime.stop(&plan.key, &plan.directory, Duration::from_secs(3600)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        runtime.stop(&plan.key, &plan.directory, Duration::ZERO).await.unwrap();
        let exit = runtime.wait(&plan.key, &plan.directory).await.unwrap();
        assert_eq!(exit.result, PodResult::Cancelled);
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    })
    .await;
}

#[tokio::test]
async fn a_stop_outlives_the_host() {
    with("a_stop_outlives_the_host", |bench| async move {
        let mut plan = bench.plan("stop-crash", "echo never");
        plan.init = vec![bench.container("init", "trap 'sleep 1; exit 0' TERM; echo up; while :; do sleep 0.1; done")];
        let runtime = bench.runtime().await;
        runtime.start(&plan).await.unwrap();
        bench.until_logged(&plan.stdout, "up").await;
        runtime.stop(&plan.key, &plan.directory, GRACE).await.unwrap();
        drop(runtime);
        let exit = bench.runtime().await.wait(&plan.key, &plan.directory).await.unwrap();
        assert_eq!(exit.result, PodResult::Cancelled);
        assert_eq!(texts(&plan.stdout), ["up"]);
    })
    .await;
}

#[tokio::test]
async fn a_pod_that_is_stopped_before_it_starts_never_runs() {
    with("a_pod_that_is_stopped_before_it_starts_never_runs", |bench| async move {
        let plan = bench.plan("early", "echo never");
        let runtime = bench.runtime().await;
        runtime.stop(&plan.key, &plan.directory, GRACE).await.unwrap();
        runtime.start(&plan).await.unwrap();
        let exit = runtime.wait(&plan.key, &plan.directory).await.unwrap();
        assert_eq!(exit.result, PodResult::Cancelled);
        assert!(bench.containers().await.is_empty());
        // One that never was is fine.
        let other = bench.plan("other", "true");
        let nowhere = bench.directory.path().join("nowhere");
        runtime.stop(&other.key, &nowhere, GRACE).await.unwrap();
        runtime.freeze(&other.key, &nowhere, true).await.unwrap();
        runtime.remove(&other.key, &nowhere).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_frozen_pod_stands_still_until_it_is_let_go() {
    with("a_frozen_pod_stands_still_until_it_is_let_go", |bench| async move {
        let mut plan = bench.plan("frozen", "while :; do echo tick; sleep 0.1; done");
        plan.active_deadline = Some(Duration::from_secs(8));
        let runtime = bench.runtime().await;
        runtime.start(&plan).await.unwrap();
        bench.until_logged(&plan.stdout, "tick").await;
        runtime.freeze(&plan.key, &plan.directory, true).await.unwrap();
        runtime.freeze(&plan.key, &plan.directory, true).await.unwrap();
        // What was under way arrives.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let ticks = texts(&plan.stdout).len();
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_eq!(texts(&plan.stdout).len(), ticks);
        assert_eq!(bench.inspect(&plan.name).await.state.unwrap().paused, Some(true));
        // The next host finds it frozen, and its clock too.
        drop(runtime);
        let runtime = bench.runtime().await;
        let still = tokio::time::timeout(Duration::from_secs(1), runtime.wait(&plan.key, &plan.directory)).await;
        assert!(still.is_err(), "{still:?}");
        runtime.freeze(&plan.key, &plan.directory, false).await.unwrap();
        runtime.freeze(&plan.key, &plan.directory, false).await.unwrap();
        let exit = runtime.wait(&plan.key, &plan.directory).await.unwrap();
        assert_eq!(reason(&exit), "DeadlineExceeded");
        assert!(texts(&plan.stdout).len() > ticks);
        runtime.freeze(&plan.key, &plan.directory, true).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_pod_frozen_between_containers_starts_none() {
    with("a_pod_frozen_between_containers_starts_none", |bench| async move {
        let mut plan = bench.plan("between", "echo main");
        plan.init = vec![bench.container("init", "echo up; sleep 1")];
        let runtime = bench.runtime().await;
        runtime.start(&plan).await.unwrap();
        bench.until_logged(&plan.stdout, "up").await;
        runtime.freeze(&plan.key, &plan.directory, true).await.unwrap();
        // Somebody lets go the container, not the pod: its end is not the start of the next one.
        bench.docker.unpause_container(&format!("{}_init-0", plan.name)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let main = bench.inspect(&plan.name).await.state.unwrap();
        assert_eq!(main.status, Some(bollard::models::ContainerStateStatusEnum::CREATED));
        assert_eq!(texts(&plan.stdout), ["up"]);
        runtime.freeze(&plan.key, &plan.directory, false).await.unwrap();
        let exit = runtime.wait(&plan.key, &plan.directory).await.unwrap();
        assert_eq!(exit.result, PodResult::Succeeded);
        assert_eq!(texts(&plan.stdout), ["up", "main"]);
    })
    .await;
}

#[tokio::test]
async fn a_frozen_pod_can_be_stopped() {
    with("a_frozen_pod_can_be_stopped", |bench| async move {
        let plan = bench.plan("frozen-stop", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done");
        let runtime = bench.runtime().await;
        runtime.start(&plan).await.unwrap();
        bench.until_logged(&plan.stdout, "up").await;
        runtime.freeze(&plan.key, &plan.directory, true).await.unwrap();
        runtime.stop(&plan.key, &plan.directory, GRACE).await.unwrap();
        let exit = runtime.wait(&plan.key, &plan.directory).await.unwrap();
        assert_eq!((exit.result, exit.containers[0].exit_code), (PodResult::Cancelled, 0));
        assert_eq!(texts(&plan.stdout), ["up", "bye"]);
    })
    .await;
}

#[tokio::test]
async fn the_deadline_ends_a_pod_whoever_watches_it() {
    with("the_deadline_ends_a_pod_whoever_watches_it", |bench| async move {
        let mut plan = bench.plan("deadline", "echo up; trap '' TERM; while :; do sleep 0.1; done");
        (plan.active_deadline, plan.grace) = (Some(Duration::from_secs(2)), Duration::from_secs(1));
        let runtime = bench.runtime().await;
        runtime.start(&plan).await.unwrap();
        bench.until_logged(&plan.stdout, "up").await;
        drop(runtime);
        let exit = bench.runtime().await.wait(&plan.key, &plan.directory).await.unwrap();
        insta::assert_debug_snapshot!(exit.result, @r#"
        Failed {
            reason: "DeadlineExceeded",
            message: "the pod ran longer than its activeDeadlineSeconds",
        }
        "#);
        assert_eq!(exit.containers[0].exit_code, 137);
    })
    .await;
}

#[tokio::test]
async fn a_container_that_somebody_else_deletes_is_gone() {
    with("a_container_that_somebody_else_deletes_is_gone", |bench| async move {
        let mut plan = bench.plan("gone", "echo up; sleep 60");
        plan.init = vec![bench.container("init", "true")];
        let runtime = bench.runtime().await;
        runtime.start(&plan).await.unwrap();
        bench.until_logged(&plan.stdout, "up").await;
        let options = query::RemoveContainerOptions { v: true, force: true, ..Default::default() };
        bench.docker.remove_container(&plan.name, Some(options)).await.unwrap();
        let exit = runtime.wait(&plan.key, &plan.directory).await.unwrap();
        assert_eq!(exit.result, PodResult::Gone, "{exit:?}");
    })
    .await;
}

#[tokio::test]
async fn removing_leaves_neither_container_nor_volume() {
    with("removing_leaves_neither_container_nor_volume", |bench| async move {
        let mut plan = bench.plan("remove", "echo x > /data/x");
        plan.init = vec![bench.container("init", "true")];
        let runtime = bench.runtime().await;
        runtime.start(&plan).await.unwrap();
        runtime.wait(&plan.key, &plan.directory).await.unwrap();
        let mounts = bench.inspect(&plan.name).await.mounts.unwrap();
        let volume = mounts.into_iter().find_map(|mount| mount.name).expect("the image has a volume");
        bench.docker.inspect_volume(&volume).await.unwrap();
        runtime.remove(&plan.key, &plan.directory).await.unwrap();
        assert!(bench.containers().await.is_empty());
        bench.docker.inspect_volume(&volume).await.unwrap_err();
        runtime.remove(&plan.key, &plan.directory).await.unwrap();
    })
    .await;
}
