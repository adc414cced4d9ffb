//! Pods as containers of an engine that speaks the Docker Engine API: Docker, Podman. Owns the life of those containers
//! from image to removal; never touches a container that does not carry the labels of its pod.
//!
//! A pod is one container for each of its containers, all created before the first one starts. Secrets reach the engine
//! with the create request and nothing else, so that an agent that goes on with the pod after a crash does not need them again:
//! it starts containers that exist. What is recorded in the pod's directory and what the engine tells of its containers
//! decide what happens next (`state`), and a driver does it (`driver`).

mod archive;
pub(super) mod connect;
pub(super) mod create;
mod driver;
pub(super) mod engine;
pub(super) mod error;
pub mod hardware;
pub(super) mod image;
mod images;
#[cfg(feature = "worker")]
pub(super) mod jobs;
mod label;
mod log;
pub(super) mod login;
pub(super) mod outage;
mod pod;
mod prepare;
mod record;
pub(super) mod state;
mod words;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use orlop_core::error::{Class, Problem};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use self::engine::Engine;
use self::images::Images;
use self::login::Logins;
use self::pod::{Pod, now};
use self::record::{Record, Why};
use super::pod::{PodExit, PodHandle, PodKey, PodPlan, PodResult, PodRuntime, Pull};
use crate::artifact::Limits;

/// How to reach an engine and how its containers are connected.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DockerOptions {
    /// Address of the engine, as in `DOCKER_HOST`: a socket, or a port of the loopback interface. None means
    /// `ORLOP_DOCKER_HOST`, else `DOCKER_HOST`, else the first engine that answers at a default socket of Docker or
    /// Podman, with or without root.
    pub address: Option<String>,
    /// Network mode of containers, as in `docker run --network`. None means the engine's default network, and no network
    /// where the engine has no such one.
    pub network: Option<String>,
    /// How much a copy out of a container may have.
    pub copies: Limits,
    /// What the names of all containers begin with, where others use the same engine for pods of the same names.
    pub prefix: String,
    /// Which images are pulled, whatever pods say.
    pub pull: Option<Pull>,
    /// File with logins to registries, in the form of `~/.docker/config.json`. None means that of the `docker` command.
    pub logins: Option<PathBuf>,
}

/// Runs pods as containers.
///
/// ```no_run
/// # async fn f() -> Result<(), orlop_core::error::Problem> {
/// use orlop_cloud::runtime::docker::{DockerOptions, DockerRuntime};
/// let runtime = DockerRuntime::connect(DockerOptions::default()).await?;
/// # Ok(()) }
/// ```
///
/// Dropping it ends all tasks of this process and leaves the containers as they are; another one goes on with them.
#[derive(Debug)]
pub struct DockerRuntime {
    engine: Engine,
    images: Images,
    copies: Limits,
    prefix: String,
    pods: Mutex<BTreeMap<PodKey, Arc<Entry>>>,
}

/// What this process does for a pod.
#[derive(Debug)]
struct Entry {
    pod: Arc<Pod>,
    /// Held while the pod is created.
    starting: tokio::sync::Mutex<()>,
    driver: Mutex<Option<Driver>>,
}

/// A task that drives a pod to its end.
#[derive(Debug)]
struct Driver {
    outcome: watch::Receiver<Option<Outcome>>,
    _task: AbortOnDropHandle<()>,
}

type Outcome = Result<PodExit, Problem>;

impl DockerRuntime {
    /// Connects to an engine.
    ///
    /// # Errors
    /// NotFound when there is none, Denied when this user may not use it, Invalid when its address or version cannot be
    /// used, Transient when it does not answer within 5 seconds.
    pub async fn connect(options: DockerOptions) -> Result<Self, Problem> {
        let engine = connect::connect(options.address.as_deref(), options.network.as_deref()).await?;
        let logins = Logins::new(options.logins.or_else(Logins::default_config));
        let images = Images::new(logins, options.pull);
        let DockerOptions { copies, prefix, .. } = options;
        Ok(Self { engine, images, copies, prefix, pods: Mutex::default() })
    }

    /// What this process knows of a pod.
    fn entry(&self, key: &PodKey, directory: &Path) -> Result<Arc<Entry>, Problem> {
        let mut pods = lock(&self.pods);
        if let Some(entry) = pods.get(key) {
            return Ok(Arc::clone(entry));
        }
        let pod = Arc::new(Pod::open(directory)?);
        let entry = Arc::new(Entry { pod, starting: tokio::sync::Mutex::default(), driver: Mutex::default() });
        pods.insert(key.clone(), Arc::clone(&entry));
        Ok(entry)
    }

    /// Creates the containers of a pod; none when it is asked to end before that is done.
    async fn prepare(&self, pod: &Pod, plan: &PodPlan) -> Result<Option<Record>, Problem> {
        let mut asked = pod.watch();
        let stopped = async { asked.wait_for(|control| control.stop.is_some()).await.is_ok() };
        tokio::select! {
            biased;
            _ = stopped => {}
            prepared = prepare::pod(&self.engine, &self.images, &pod.files, plan) => return prepared.map(Some),
        }
        prepare::discard(&self.engine, &plan.key).await?;
        Ok(None)
    }

    /// The outcome of the driver of a pod; starts one when none is at work.
    fn drive(&self, entry: &Entry, record: Record) -> watch::Receiver<Option<Outcome>> {
        let mut driver = lock(&entry.driver);
        if let Some(driver) = driver.as_ref() {
            let outcome = driver.outcome.clone();
            let at_work = outcome.has_changed().is_ok();
            let ended = matches!(*outcome.borrow(), Some(Ok(_)));
            if ended || (at_work && outcome.borrow().is_none()) {
                return outcome;
            }
        }
        let (send, outcome) = watch::channel(None);
        let (engine, pod) = (self.engine.clone(), Arc::clone(&entry.pod));
        let task = tokio::spawn(async move {
            let end = driver::drive(engine, pod, record).await;
            send.send_replace(Some(end));
        });
        *driver = Some(Driver { outcome: outcome.clone(), _task: AbortOnDropHandle::new(task) });
        outcome
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing behind these locks is left half done by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl PodRuntime for DockerRuntime {
    fn kind(&self, _image: Option<&str>) -> &'static str {
        "Container"
    }

    async fn start(&self, plan: &PodPlan) -> Result<PodHandle, Problem> {
        let mut named = plan.clone();
        named.name.insert_str(0, &self.prefix);
        let plan = &named;
        let entry = self.entry(&plan.key, &plan.directory)?;
        let _one_at_a_time = entry.starting.lock().await;
        let record = match entry.pod.files.record()? {
            Some(record) => record,
            None => match self.prepare(&entry.pod, plan).await? {
                Some(record) => record,
                None => return Ok(PodHandle { name: plan.name.clone(), id: String::new() }),
            },
        };
        let id = record.main().map(|main| main.id.clone()).unwrap_or_default();
        let handle = PodHandle { name: record.name.clone(), id };
        self.drive(&entry, record);
        Ok(handle)
    }

    async fn wait(&self, key: &PodKey, directory: &Path) -> Result<PodExit, Problem> {
        let entry = self.entry(key, directory)?;
        let not_while_starting = entry.starting.lock().await;
        if let Some(exit) = entry.pod.files.exit()? {
            return Ok(exit);
        }
        let Some(record) = entry.pod.files.record()? else {
            let stop = entry.pod.control().stop;
            let (result, ended_at) = match stop {
                Some(stop) => (PodResult::Cancelled, stop.at),
                None => (PodResult::Lost, now()),
            };
            return Ok(PodExit { result, containers: Vec::new(), started_at: None, ended_at });
        };
        let mut outcome = self.drive(&entry, record);
        drop(not_while_starting);
        let ended = outcome.wait_for(Option::is_some).await.map(|outcome| outcome.clone());
        match ended {
            Ok(Some(outcome)) => outcome,
            Ok(None) | Err(_) => Err(Problem::new(Class::Transient, format!("the task of pod {key} stopped"))),
        }
    }

    fn outages(&self, key: &PodKey, directory: &Path) -> Option<watch::Receiver<Option<String>>> {
        // What cannot be opened is an error of the other calls.
        Some(self.entry(key, directory).ok()?.pod.outages())
    }

    async fn stop(&self, key: &PodKey, directory: &Path, grace: Duration) -> Result<(), Problem> {
        let entry = self.entry(key, directory)?;
        if !directory.exists() || entry.pod.files.exit()?.is_some() {
            return Ok(());
        }
        entry.pod.lock().await.change(|control| control.stop(Why::Cancel, now(), grace)).await?;
        if let Some(record) = entry.pod.files.record()? {
            self.drive(&entry, record);
        }
        Ok(())
    }

    async fn freeze(&self, key: &PodKey, directory: &Path, on: bool) -> Result<(), Problem> {
        let entry = self.entry(key, directory)?;
        if !directory.exists() || entry.pod.files.exit()?.is_some() {
            return Ok(());
        }
        let lock = entry.pod.lock().await;
        // Written down before the clock stops and after it goes on again: a crash leaves the pod frozen, never running
        // with a clock that stands still.
        if on {
            lock.change(|control| control.freeze(now())).await?;
        }
        let on = on && entry.pod.control().frozen_since.is_some();
        if let Some(record) = entry.pod.files.record()? {
            for container in &record.containers {
                if on {
                    self.engine.pause(&container.id).await?;
                } else {
                    self.engine.unpause(&container.id).await?;
                }
            }
        }
        if !on {
            lock.change(|control| control.thaw(now())).await?;
        }
        Ok(())
    }

    async fn fetch(&self, key: &PodKey, plan: &PodPlan, inside: &str, scratch: &Path) -> Result<PathBuf, Problem> {
        let entry = self.entry(key, &plan.directory)?;
        let record = entry.pod.files.record()?;
        let Some(main) = record.as_ref().and_then(Record::main) else {
            return Err(Problem::new(Class::NotFound, format!("pod {key} has no container")));
        };
        archive::copy(&self.engine, &main.id, inside, scratch, self.copies).await
    }

    async fn remove(&self, key: &PodKey, directory: &Path) -> Result<(), Problem> {
        let entry = self.entry(key, directory)?;
        let _not_while_starting = entry.starting.lock().await;
        // A driver that still works would take this for somebody else's deletion.
        lock(&entry.driver).take();
        prepare::discard(&self.engine, key).await?;
        lock(&self.pods).remove(key);
        Ok(())
    }
}
