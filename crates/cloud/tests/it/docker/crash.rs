//! The host dies at some stage of a pod and another one goes on: dropping a runtime ends all it does, as `kill -9` would.

use std::sync::Arc;
use std::time::Duration;

use orlop_cloud::runtime::pod::{Mount, PodPlan, PodResult, PodRuntime as _};

use super::bench::{Bench, texts, with};

/// A pod of two init containers and main, each of which writes its name to a file once.
fn three(bench: &Bench, name: &str) -> PodPlan {
    let mut plan = bench.plan(name, "echo main >> /shared/order; sleep 0.4; echo main done");
    let source = plan.directory.join("shared");
    std::fs::create_dir(&source).unwrap();
    plan.init = vec![
        bench.container("a", "echo a >> /shared/order; sleep 0.4; echo a done"),
        bench.container("b", "echo b >> /shared/order; sleep 0.4; echo b done"),
    ];
    for container in plan.init.iter_mut().chain([&mut plan.main]) {
        container.mounts = vec![Mount { source: source.clone(), target: "/shared".to_owned(), read_only: false }];
    }
    plan
}

async fn ends_well(bench: &Bench, plan: &PodPlan) {
    let exit = bench.runtime().await.wait(&plan.key, &plan.directory).await.unwrap();
    assert_eq!(exit.result, PodResult::Succeeded, "{exit:?}");
    assert_eq!(std::fs::read_to_string(plan.directory.join("shared/order")).unwrap(), "a\nb\nmain\n");
    assert_eq!(texts(&plan.stdout), ["a done", "b done", "main done"]);
    assert_eq!(exit.containers.len(), 3);
}

#[tokio::test]
async fn every_container_runs_once_when_the_host_dies_after_the_start() {
    with("every_container_runs_once_when_the_host_dies_after_the_start", |bench| async move {
        let pods = [0, 100, 300, 700, 1100, 1600].map(|millis| {
            let bench = Arc::clone(&bench);
            async move {
                let plan = three(&bench, &format!("after-{millis}"));
                let runtime = bench.runtime().await;
                runtime.start(&plan).await.unwrap();
                tokio::time::sleep(Duration::from_millis(millis)).await;
                drop(runtime);
                tokio::time::sleep(Duration::from_millis(300)).await;
                ends_well(&bench, &plan).await;
            }
        });
        futures::future::join_all(pods).await;
    })
    .await;
}

#[tokio::test]
async fn every_container_runs_once_when_the_host_dies_again_and_again() {
    with("every_container_runs_once_when_the_host_dies_again_and_again", |bench| async move {
        let plan = three(&bench, "again");
        bench.runtime().await.start(&plan).await.unwrap();
        for millis in (20..260).step_by(40) {
            let runtime = bench.runtime().await;
            let wait = runtime.wait(&plan.key, &plan.directory);
            if tokio::time::timeout(Duration::from_millis(millis), wait).await.is_ok() {
                break;
            }
        }
        ends_well(&bench, &plan).await;
    })
    .await;
}

#[tokio::test]
async fn containers_created_before_the_crash_are_adopted_by_the_next_start() {
    with("containers_created_before_the_crash_are_adopted_by_the_next_start", |bench| async move {
        // The drop falls between the creation of one container and the next, or before all, or after.
        for micros in [1_000, 20_000, 60_000, 120_000, 250_000, 500_000] {
            let plan = three(&bench, &format!("creating-{micros}"));
            let runtime = bench.runtime().await;
            let started = tokio::time::timeout(Duration::from_micros(micros), runtime.start(&plan)).await;
            drop(runtime);
            let runtime = bench.runtime().await;
            let handle = runtime.start(&plan).await.unwrap();
            if let Ok(Ok(first)) = started {
                assert_eq!(first, handle);
            }
            drop(runtime);
            ends_well(&bench, &plan).await;
        }
    })
    .await;
}

#[tokio::test]
async fn starting_twice_is_starting_once() {
    with("starting_twice_is_starting_once", |bench| async move {
        let plan = three(&bench, "twice");
        let (one, two) = (bench.runtime().await, bench.runtime().await);
        let first = one.start(&plan).await.unwrap();
        let (a, b) = tokio::join!(one.start(&plan), two.start(&plan));
        assert_eq!([a.unwrap(), b.unwrap()], [first.clone(), first]);
        drop(two);
        let (a, b) = tokio::join!(one.wait(&plan.key, &plan.directory), one.wait(&plan.key, &plan.directory));
        assert_eq!(a.unwrap(), b.unwrap());
        ends_well(&bench, &plan).await;
    })
    .await;
}

#[tokio::test]
async fn the_end_is_when_it_ended_not_when_it_was_seen() {
    with("the_end_is_when_it_ended_not_when_it_was_seen", |bench| async move {
        let plan = bench.plan("alone", "echo up; sleep 0.5");
        let runtime = bench.runtime().await;
        runtime.start(&plan).await.unwrap();
        bench.until_logged(&plan.stdout, "up").await;
        drop(runtime);
        while bench.inspect(&plan.name).await.state.unwrap().running == Some(true) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let ended = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let runtime = bench.runtime().await;
        let exit = runtime.wait(&plan.key, &plan.directory).await.unwrap();
        let reported = u128::try_from(exit.containers[0].ended_at.millis()).unwrap();
        assert!(reported <= ended, "{reported} {ended}");
        // It is the same when the containers are gone.
        runtime.remove(&plan.key, &plan.directory).await.unwrap();
        assert_eq!(bench.runtime().await.wait(&plan.key, &plan.directory).await.unwrap(), exit);
    })
    .await;
}

#[tokio::test]
async fn a_pod_without_a_trace_is_lost() {
    with("a_pod_without_a_trace_is_lost", |bench| async move {
        let plan = bench.plan("never", "true");
        let runtime = bench.runtime().await;
        let exit = runtime.wait(&plan.key, &plan.directory).await.unwrap();
        assert_eq!((exit.result, exit.containers.len()), (PodResult::Lost, 0));
        let plan = bench.plan("deleted", "sleep 60");
        runtime.start(&plan).await.unwrap();
        drop(runtime);
        let options = bollard::query_parameters::RemoveContainerOptions { v: true, force: true, ..Default::default() };
        bench.docker.remove_container(&plan.name, Some(options)).await.unwrap();
        let exit = bench.runtime().await.wait(&plan.key, &plan.directory).await.unwrap();
        assert_eq!(exit.result, PodResult::Lost);
        // What ran is not run again.
        let runtime = bench.runtime().await;
        runtime.start(&plan).await.unwrap();
        assert!(bench.containers().await.is_empty());
    })
    .await;
}
