//! The conformance suite of the substrate port, over real processes.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use orlop_cloud::runtime::local::{LocalOptions, LocalPorts, LocalSubstrate};
use orlop_cloud::runtime::process::ProcessRuntime;
use orlop_core::attempt::AttemptKey;
use orlop_core::error::Class;
use orlop_core::testing::artifact::MemoryArtifacts;
use orlop_core::testing::substrate::{Behaviour, SubstrateWorlds, shell_job, substrate_suite};
use serde_json::Value;
use tempfile::TempDir;

/// How long silence lasts.
const SILENCE: Duration = Duration::from_secs(5);
/// Time within which everything due has happened, also on a busy machine.
const DUE: Duration = Duration::from_secs(60);

/// Run directories, away from `/tmp`, which every pod has for itself: pods count their runs there.
#[derive(Default)]
struct Worlds(Mutex<BTreeMap<u32, World>>);

/// What outlives a host: the run directory and the store.
type World = (Arc<TempDir>, Arc<MemoryArtifacts>);

impl Worlds {
    fn world(&self, number: u32) -> World {
        let make = || (Arc::new(tempfile::tempdir_in("/var/tmp").unwrap()), Arc::new(MemoryArtifacts::default()));
        self.0.lock().unwrap().entry(number).or_insert_with(make).clone()
    }

    fn runs(&self, number: u32, key: &AttemptKey) -> std::path::PathBuf {
        self.world(number).0.path().join(format!("runs-{}", key.to_string().replace('/', "_")))
    }
}

impl SubstrateWorlds for Worlds {
    type Substrate = LocalSubstrate<ProcessRuntime>;

    async fn open(&self, number: u32) -> Self::Substrate {
        let (dir, store) = self.world(number);
        let began = Instant::now();
        loop {
            let options = LocalOptions::new(dir.path().join("run"));
            match LocalSubstrate::open(
                Arc::new(super::runtime(None)),
                options,
                LocalPorts::new(Arc::clone(&store) as _),
            ) {
                // A process that another check starts holds copies of all descriptors, of this lock too, until it has become its
                // program.
                Err(error) if error.class == Class::Conflict && began.elapsed() < DUE => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                opened => return opened.unwrap(),
            }
        }
    }

    fn template(&self, number: u32, key: &AttemptKey, behaviour: &Behaviour) -> Value {
        shell_job("none", &format!("echo run >> '{}'", self.runs(number, key).display()), behaviour)
    }

    async fn within<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(SILENCE, future).await.ok()
    }

    async fn due<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(DUE, future).await.ok()
    }

    fn at_once(&self) -> usize {
        8
    }

    async fn executions(&self, number: u32, key: &AttemptKey) -> Option<u32> {
        let runs = std::fs::read_to_string(self.runs(number, key)).unwrap_or_default();
        u32::try_from(runs.lines().count()).ok()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_are_a_substrate() {
    let worlds = Worlds::default();
    let checks = substrate_suite(&worlds).await.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(checks.len() > 40, "{}", checks.len());
}
