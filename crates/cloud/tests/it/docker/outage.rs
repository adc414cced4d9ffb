//! Connections that break, and engines that do not answer for a while.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bollard::query_parameters as query;
use orlop_cloud::runtime::docker::DockerRuntime;
use orlop_cloud::runtime::pod::{PodResult, PodRuntime as _};
use orlop_core::error::Class;
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;

use super::bench::{Bench, address, options, texts, with};

/// A socket in front of the engine that can be closed.
pub(crate) struct Door {
    socket: PathBuf,
    open: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

impl Door {
    pub(crate) fn new(bench: &Bench) -> Self {
        let door = Self { socket: bench.directory.path().join("door.sock"), open: Mutex::default() };
        door.open();
        door
    }

    pub(crate) fn open(&self) {
        let listener = UnixListener::bind(&self.socket).unwrap();
        *self.open.lock().unwrap() = Some(tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(pass(stream));
            }
        }));
    }

    /// Closes it and breaks every connection.
    pub(crate) fn close(&self) {
        self.open.lock().unwrap().take().unwrap().abort();
        std::fs::remove_file(&self.socket).unwrap();
    }

    pub(crate) fn address(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    async fn runtime(&self) -> DockerRuntime {
        DockerRuntime::connect(options(Some(self.address()))).await.unwrap()
    }
}

async fn pass(mut near: UnixStream) {
    let address = address().unwrap_or_else(|| "unix:///var/run/docker.sock".to_owned());
    // An error is the end of the connection, which the other side notices.
    if let Some(path) = address.strip_prefix("unix://") {
        let mut far = UnixStream::connect(path).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
    } else {
        let host = address.split_once("://").unwrap().1.trim_end_matches('/').to_owned();
        let mut far = TcpStream::connect(host).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
    }
}

async fn behind_a_door<F: Future<Output = ()>>(test: &str, run: impl FnOnce(Arc<Bench>, Door) -> F) {
    with(test, |bench| async move {
        let door = Door::new(&bench);
        run(bench, door).await;
    })
    .await;
}

#[tokio::test]
async fn a_pod_that_ends_during_an_outage_is_seen_after_it() {
    behind_a_door("a_pod_that_ends_during_an_outage_is_seen_after_it", |bench, door| async move {
        let mut plan = bench.plan("through", "for i in $(seq 1 20); do echo $i; sleep 0.1; done; exit 0");
        plan.init = vec![bench.container("init", "echo 0")];
        let runtime = door.runtime().await;
        runtime.start(&plan).await.unwrap();
        bench.until_logged(&plan.stdout, "2").await;
        for _ in 0..3 {
            door.close();
            tokio::time::sleep(Duration::from_millis(300)).await;
            door.open();
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        door.close();
        tokio::time::sleep(Duration::from_secs(2)).await;
        door.open();
        let exit = runtime.wait(&plan.key, &plan.directory).await.unwrap();
        assert_eq!(exit.result, PodResult::Succeeded);
        let expected: Vec<String> = (0..=20).map(|n| n.to_string()).collect();
        assert_eq!(texts(&plan.stdout), expected);
    })
    .await;
}

#[tokio::test]
async fn a_stop_during_an_outage_is_done_after_it() {
    behind_a_door("a_stop_during_an_outage_is_done_after_it", |bench, door| async move {
        let plan = bench.plan("stop", "trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done");
        let runtime = door.runtime().await;
        runtime.start(&plan).await.unwrap();
        bench.until_logged(&plan.stdout, "up").await;
        let mut outages = runtime.outages(&plan.key, &plan.directory).unwrap();
        door.close();
        runtime.stop(&plan.key, &plan.directory, Duration::from_secs(20)).await.unwrap();
        let why = outages.wait_for(Option::is_some).await.unwrap().clone().unwrap();
        assert!(why.contains("the container engine does not answer"), "{why}");
        door.open();
        outages.wait_for(Option::is_none).await.unwrap();
        let exit = runtime.wait(&plan.key, &plan.directory).await.unwrap();
        assert_eq!((exit.result, exit.containers[0].exit_code), (PodResult::Cancelled, 0));
    })
    .await;
}

#[tokio::test]
async fn without_an_engine_a_start_is_to_be_tried_again() {
    behind_a_door("without_an_engine_a_start_is_to_be_tried_again", |bench, door| async move {
        let plan = bench.plan("later", "true");
        let runtime = door.runtime().await;
        door.close();
        let error = runtime.start(&plan).await.unwrap_err();
        assert_eq!(error.class, Class::Transient, "{error}");
        assert!(error.to_string().contains("the container engine does not answer"), "{error}");
        assert_eq!(runtime.remove(&plan.key, &plan.directory).await.unwrap_err().class, Class::Transient);
        door.open();
        runtime.start(&plan).await.unwrap();
        assert_eq!(runtime.wait(&plan.key, &plan.directory).await.unwrap().result, PodResult::Succeeded);
    })
    .await;
}

#[tokio::test]
async fn what_dies_with_its_engine_is_lost() {
    behind_a_door("what_dies_with_its_engine_is_lost", |bench, door| async move {
        let killed = bench.plan("killed", "echo up; sleep 60");
        let deleted = bench.plan("deleted", "echo up; sleep 60");
        let runtime = door.runtime().await;
        for plan in [&killed, &deleted] {
            runtime.start(plan).await.unwrap();
            bench.until_logged(&plan.stdout, "up").await;
        }
        // As an engine does that is shut down, or has lost its data.
        door.close();
        bench.docker.kill_container(&killed.name, None).await.unwrap();
        let options = query::RemoveContainerOptions { v: true, force: true, ..Default::default() };
        bench.docker.remove_container(&deleted.name, Some(options)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        door.open();
        for plan in [&killed, &deleted] {
            let exit = runtime.wait(&plan.key, &plan.directory).await.unwrap();
            assert_eq!(exit.result, PodResult::Lost, "{}: {exit:?}", plan.name);
        }
    })
    .await;
}
