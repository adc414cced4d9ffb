//! Pods that are stopped or frozen between containers, deleted by somebody else, and removed.

use std::time::Duration;

use bollard::query_parameters as query;
use orlop_cloud::runtime::pod::{PodResult, PodRuntime as _};

use super::bench::{texts, with};

const GRACE: Duration = Duration::from_secs(60);

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
async fn a_pod_that_is_stopped_before_it_starts_has_no_container() {
    with("a_pod_that_is_stopped_before_it_starts_has_no_container", |bench| async move {
        let plan = bench.plan("early", "echo never");
        let runtime = bench.runtime().await;
        runtime.stop(&plan.key, &plan.directory, GRACE).await.unwrap();
        runtime.start(&plan).await.unwrap();
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
        let handle = runtime.start(&plan).await.unwrap();
        runtime.wait(&plan.key, &plan.directory).await.unwrap();
        let found = bench.inspect(&plan.name).await;
        assert_eq!(found.id.unwrap(), handle.id);
        let volume = found.mounts.unwrap().into_iter().find_map(|mount| mount.name).expect("the image has a volume");
        bench.docker.inspect_volume(&volume).await.unwrap();
        runtime.remove(&plan.key, &plan.directory).await.unwrap();
        assert!(bench.containers().await.is_empty());
        bench.docker.inspect_volume(&volume).await.unwrap_err();
        runtime.remove(&plan.key, &plan.directory).await.unwrap();
    })
    .await;
}
