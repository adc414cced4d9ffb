//! Attempts as containers of an engine that speaks the Docker Engine API: Docker, Podman. Owns the life of those containers
//! from image to removal; never touches a container that does not carry this worker's labels, and gives none a privilege
//! or the socket of the engine.
//!
//! Its own thread drives one task for each attempt. An engine that does not answer ends no attempt: its task waits
//! for the engine to come back and goes on with what it finds then.

mod begin;
mod hub;
mod life;
mod output;
mod pull;
mod remains;
mod request;
mod usage;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use orlop_core::error::{Class, Problem};
use orlop_core::task::TaskRef;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use self::hub::{Ask, Hub};
use super::directories::memory_dir;
use super::event::{AttemptEnd, AttemptEvents, Cause};
use super::plan::AttemptPlan;
use super::process::supervise::{Control, FollowerCommand, FollowerContext, Followers, RuntimeOptions, write_lease};
use super::{InUse, JobRuntime, Remains};
use crate::runtime::logs::now;
use crate::runtime::process::RoleProgram;

/// What may be chosen about a runtime of containers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ContainerOptions {
    /// Where the directories of attempts are; made if it is not there, and nobody else's.
    pub work: PathBuf,
    /// Where files of secrets are: a directory in memory of this user alone. None where the machine has none.
    pub secrets: Option<PathBuf>,
    /// The worker's name.
    pub worker: String,
    /// Distinguishes containers of this worker from those of others on the same engine.
    pub mark: String,
    /// Address of the engine, as in `DOCKER_HOST`: a socket, or a port of the loopback interface. None means
    /// `ORLOP_DOCKER_HOST`, else `DOCKER_HOST`, else the first engine that answers at a default socket.
    pub address: Option<String>,
    /// The network containers are in, and no other. None means the engine's default network, and no network where it has
    /// no such one. The machine's own network is refused.
    pub network: Option<String>,
    /// Capabilities that containers keep, such as `CHOWN`; all others are dropped.
    pub capabilities: Vec<String>,
    /// How many directories of attempts that failed stay, the latest ones.
    pub keep_failed: usize,
    /// File with logins to registries, in the form of `~/.docker/config.json`. None means that of the `docker` command.
    pub logins: Option<PathBuf>,
    /// How the supervisor is started that keeps attempts while this program is away: it calls
    /// [`supervise::main`](super::process::supervise::main). None: their output in between is not seen, and those that
    /// must end without this program are refused.
    #[serde(skip)]
    pub supervisor: Option<RoleProgram>,
    /// Whether this is the runtime of a supervisor.
    #[serde(skip)]
    pub(in crate::runtime::worker) inside: bool,
}

impl ContainerOptions {
    /// The usual choices for a worker of that name, with its attempts below `work`.
    #[must_use]
    pub fn new(worker: impl Into<String>, work: impl Into<PathBuf>) -> Self {
        let (worker, work) = (worker.into(), work.into());
        Self {
            secrets: memory_dir(&format!("{worker}-containers"), &work),
            work,
            mark: worker.clone(),
            worker,
            address: None,
            network: None,
            capabilities: Vec::new(),
            keep_failed: 0,
            logins: None,
            supervisor: None,
            inside: false,
        }
    }
}

/// Runs attempts as containers.
///
/// Dropping it stops its thread and leaves the containers as they are; what an agent that starts later makes of them is
/// said by [`JobRuntime::list`].
#[derive(Debug)]
pub struct ContainerRuntime {
    hub: Arc<Hub>,
    tasks: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    followers: Option<Followers>,
}

impl ContainerRuntime {
    /// A runtime that tells `events`. The engine need not answer yet.
    ///
    /// # Errors
    /// Invalid when the engine's address or the network cannot be used; else when its directories or its thread cannot be
    /// made.
    pub fn new(options: ContainerOptions, events: Arc<dyn AttemptEvents>) -> Result<Self, Problem> {
        let hub = Hub::new(options, events)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let tasks = runtime.handle().clone();
        // A dropped sender means the same.
        let work = move || drop(runtime.block_on(stopped));
        let thread = std::thread::Builder::new().name("orlop-containers".to_owned()).spawn(work)?;
        let mut runtime = Self { hub, tasks, stop: Some(stop), thread: Some(thread), followers: None };
        let program = runtime.hub.options.supervisor.clone();
        runtime.followers = program.map(|program| Followers::start(runtime.context(), program)).transpose()?;
        Ok(runtime)
    }

    /// On whose behalf supervised attempts are followed. Those whose supervisor died are gone on with here.
    fn context(&self) -> FollowerContext {
        let (hub, tasks) = (Arc::clone(&self.hub), self.tasks.clone());
        FollowerContext {
            work: self.hub.options.work.clone(),
            events: Arc::clone(&self.hub.events),
            options: RuntimeOptions::Containers(self.hub.options.clone()),
            on_supervisor_death: Box::new(move |id, last_seq, _| {
                go_on(&hub, &tasks, *id, last_seq);
                Ok(())
            }),
        }
    }

    /// Does something on the thread of this runtime, where the connections to the engine live.
    async fn there<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Problem>> + Send + 'static,
    ) -> Result<T, Problem> {
        let stopped = |error| Problem::new(Class::Transient, "the runtime of containers stopped").because(error);
        self.tasks.spawn(work).await.unwrap_or_else(|error| Err(stopped(error)))
    }
}

/// Takes over the container of an attempt.
fn go_on(hub: &Arc<Hub>, tasks: &Handle, id: TaskRef, after_seq: u64) {
    if let Some(asks) = hub.enter(id) {
        tasks.spawn(life::adopt(Arc::clone(hub), id, after_seq, asks));
    }
}

impl Drop for ContainerRuntime {
    fn drop(&mut self) {
        // Its thread may hand attempts over, which nobody hears any more.
        drop(self.followers.take());
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // One that panicked has nothing more to say.
            drop(thread.join());
        }
    }
}

#[async_trait]
impl JobRuntime for ContainerRuntime {
    fn kind(&self) -> &'static str {
        "docker"
    }

    fn start(&self, plan: AttemptPlan) {
        if let Some(followers) = &self.followers {
            return followers.mailbox.send(FollowerCommand::Start(Box::new(plan)));
        }
        if plan.run.forbid_overlap && !self.hub.options.inside {
            let message = "an attempt that may not overlap needs a supervisor, and this worker has none";
            let (end, said) = AttemptEnd::start_failed("supervisor", message, now());
            // There may be no room: why it did not start is reported all the same.
            let _ = self.hub.events.log(plan.id, said);
            self.hub.events.ended(plan.id, end);
            return self.hub.events.flush();
        }
        let Some(asks) = self.hub.enter(plan.id) else { return };
        self.tasks.spawn(life::run(Arc::clone(&self.hub), plan, asks));
    }

    fn end(&self, id: TaskRef, cause: Cause, grace: Duration) {
        self.hub.ask(&id, Ask::End(cause, grace));
        if let Some(followers) = &self.followers {
            followers.mailbox.send(FollowerCommand::End(id, cause, grace));
        }
    }

    fn resume(&self, id: TaskRef) {
        self.hub.ask(&id, Ask::Resume);
        if let Some(followers) = &self.followers {
            followers.mailbox.send(FollowerCommand::Resume(id));
        }
    }

    fn renew_lease(&self, left: Duration) {
        if self.followers.is_some()
            && let Err(error) = write_lease(&self.hub.options.work, left)
        {
            tracing::error!(%error, "the lease cannot be passed on: attempts that may not overlap will end");
        }
    }

    async fn list(&self) -> Result<Vec<Remains>, Problem> {
        let hub = Arc::clone(&self.hub);
        self.there(async move { remains::list(&hub).await }).await
    }

    async fn adopt(&self, id: TaskRef, after_seq: u64) -> Result<(), Problem> {
        if let Some(followers) = &self.followers
            && Control::of(&self.hub.options.work, &id).exists()
        {
            return followers.adopt(id, after_seq).await;
        }
        remains::left_a_trace(&self.hub, &id)?;
        go_on(&self.hub, &self.tasks, id, after_seq);
        Ok(())
    }

    async fn remove(&self, id: TaskRef) -> Result<(), Problem> {
        let hub = Arc::clone(&self.hub);
        self.there(async move { remains::remove(&hub, &id).await }).await
    }

    async fn in_use(&self, ids: &[TaskRef]) -> Result<Vec<(TaskRef, InUse)>, Problem> {
        let (hub, ids) = (Arc::clone(&self.hub), ids.to_vec());
        self.there(async move { usage::look(&hub, &ids).await }).await
    }

    async fn check(&self) -> Result<(), Problem> {
        let hub = Arc::clone(&self.hub);
        self.there(async move { hub.check().await }).await
    }
}
