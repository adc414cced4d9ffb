//! Containers for steps that name an image, processes for those that do not. Runs nothing itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use orlop_cloud::runtime::pod::{PodExit, PodHandle, PodKey, PodPlan, PodRuntime};
use orlop_core::error::Problem;
use tokio::sync::watch;

/// File in a pod's directory that says that it is a container.
const MARK: &str = "container";

/// Two runtimes as one.
pub(super) struct ByImage {
    containers: Arc<dyn PodRuntime>,
    processes: Arc<dyn PodRuntime>,
}

impl ByImage {
    pub(super) fn new(containers: Arc<dyn PodRuntime>, processes: Arc<dyn PodRuntime>) -> Self {
        Self { containers, processes }
    }

    /// The runtime of a pod that was begun.
    fn of(&self, directory: &Path) -> &dyn PodRuntime {
        if directory.join(MARK).exists() { self.containers.as_ref() } else { self.processes.as_ref() }
    }
}

#[async_trait]
impl PodRuntime for ByImage {
    fn kind(&self, image: Option<&str>) -> &'static str {
        if image.is_some() { self.containers.kind(image) } else { self.processes.kind(image) }
    }

    async fn start(&self, plan: &PodPlan) -> Result<PodHandle, Problem> {
        if plan.main.image.is_none() {
            return self.processes.start(plan).await;
        }
        match fs::File::create_new(plan.directory.join(MARK)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
            _ => {}
        }
        self.containers.start(plan).await
    }

    async fn wait(&self, key: &PodKey, directory: &Path) -> Result<PodExit, Problem> {
        self.of(directory).wait(key, directory).await
    }

    fn outages(&self, key: &PodKey, directory: &Path) -> Option<watch::Receiver<Option<String>>> {
        self.of(directory).outages(key, directory)
    }

    async fn stop(&self, key: &PodKey, directory: &Path, grace: Duration) -> Result<(), Problem> {
        self.of(directory).stop(key, directory, grace).await
    }

    async fn freeze(&self, key: &PodKey, directory: &Path, on: bool) -> Result<(), Problem> {
        self.of(directory).freeze(key, directory, on).await
    }

    async fn fetch(&self, key: &PodKey, plan: &PodPlan, inside: &str, scratch: &Path) -> Result<PathBuf, Problem> {
        self.of(&plan.directory).fetch(key, plan, inside, scratch).await
    }

    async fn remove(&self, key: &PodKey, directory: &Path) -> Result<(), Problem> {
        self.of(directory).remove(key, directory).await
    }
}
