//! Files of attempts while the server is away, and without it.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use orlop_cloud::runtime::worker::AttemptEnd;
use orlop_core::id::{Epoch, JobId};
use orlop_core::spec::job::{JobSpec, Runtime};
use orlop_core::task::{TaskEnd, TaskRef};
use orlop_core::time::Time;
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::tries::{TRIES, TransferError, Tries};
use super::{Files, Needs};
use crate::host::worker::link::{Link, LinkError, Stream};
use crate::host::worker::runtimes::directory;
use crate::wire::frame::WorkerFrame;
use crate::wire::grpc::ArtifactClient;
use crate::wire::grpc::tests::workers::{Served, served_channel};
use crate::wire::status::{Heartbeat, HeartbeatResponse};
use crate::wire::worker::{Registered, Registration};

/// A server that is away until some time.
#[derive(Debug)]
struct Away {
    until: Instant,
    back: AtomicBool,
    client: ArtifactClient,
}

fn away() -> LinkError {
    LinkError::Unreachable("nobody is there".to_owned())
}

#[async_trait]
impl Link for Away {
    async fn register(&self, _: Registration) -> Result<Registered, LinkError> {
        Err(away())
    }

    async fn open(&self, _: WorkerFrame) -> Result<Stream, LinkError> {
        Err(away())
    }

    async fn heartbeat(&self, _: Heartbeat) -> Result<HeartbeatResponse, LinkError> {
        Err(away())
    }

    async fn artifacts(&self) -> Result<ArtifactClient, LinkError> {
        if Instant::now() < self.until {
            return Err(away());
        }
        // What is left goes over a real connection.
        if !self.back.swap(true, Ordering::Relaxed) {
            tokio::time::resume();
        }
        Ok(self.client.clone())
    }

    fn rotate(&self) {}
}

struct Fixture {
    files: Arc<Files>,
    id: TaskRef,
    _dir: tempfile::TempDir,
    _served: Served,
}

/// Files of an attempt that left one, with a server that is away for so long.
async fn fixture(away: Duration) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(None).await;
    let client = ArtifactClient::new(served_channel(&served).await, None).unwrap();
    let id = TaskRef { job: JobId::from_u64(1), index: 0, member: 0, attempt: 1, epoch: Epoch(1) };
    let work = directory(dir.path(), Runtime::Process).join(id.to_string());
    fs::create_dir_all(&work).unwrap();
    fs::write(work.join("left"), "left").unwrap();
    tokio::time::pause();
    let link = Away { until: Instant::now() + away, back: AtomicBool::new(false), client };
    let files = Arc::new(Files::open(dir.path(), Arc::new(link)).unwrap());
    Fixture { files, id, _dir: dir, _served: served }
}

fn needs(path: &str, required: bool) -> Arc<Needs> {
    let job = json!({ "command": ["true"], "artifacts_out": [{ "name": "left", "path": path, "required": required }] });
    Needs::of(&JobSpec::from_json(&job).unwrap()).unwrap()
}

fn succeeded() -> AttemptEnd {
    AttemptEnd::without_run(TaskEnd::Succeeded, "", Time::EPOCH)
}

#[tokio::test]
async fn an_output_waits_for_a_server_that_is_away_and_its_job_succeeds() {
    let fixture = fixture(Duration::from_secs(15)).await;
    let needs = needs("left", true);
    let end = fixture.files.store(fixture.id, Runtime::Process, &needs, succeeded()).await;
    assert_eq!((end.outcome, end.reason.as_str()), (TaskEnd::Succeeded, ""));
    assert_eq!(end.artifacts.iter().map(|kept| kept.bytes).collect::<Vec<_>>(), [4]);
}

#[tokio::test]
async fn an_agent_that_ends_waits_for_no_server() {
    let fixture = fixture(Duration::from_secs(1_000_000)).await;
    let files = Arc::clone(&fixture.files);
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        files.leave();
    });
    let needs = needs("left", true);
    let stored = fixture.files.store(fixture.id, Runtime::Process, &needs, succeeded());
    let end = timeout(Duration::from_secs(120), stored).await.unwrap();
    assert!(end.outcome == TaskEnd::Failed && end.reason.contains("nobody is there"), "{end:?}");
}

#[tokio::test]
async fn trouble_with_what_need_not_be_there_fails_no_job() {
    let fixture = fixture(Duration::from_secs(1_000_000)).await;
    fixture.files.leave();
    for (needs, outcome) in [(needs("left", false), TaskEnd::Succeeded), (needs("left", true), TaskEnd::Failed)] {
        let end = fixture.files.store(fixture.id, Runtime::Process, &needs, succeeded()).await;
        assert_eq!((end.outcome, end.artifacts.len()), (outcome, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn five_tries_are_five_answers() {
    let leaving = tokio::sync::watch::Sender::new(false);
    let mut tries = Tries::new(leaving.subscribe());
    let passing = || TransferError::Passing("no".to_owned());
    for _ in 0..100 {
        assert!(tries.again(TransferError::Away("nobody".to_owned())).await.is_ok());
    }
    for _ in 1..TRIES {
        assert!(tries.again(passing()).await.is_ok());
    }
    assert!(tries.again(passing()).await.is_err());
    assert!(Tries::new(leaving.subscribe()).again(TransferError::Final("no".to_owned())).await.is_err());
}
