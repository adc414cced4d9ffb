//! Attempts as processes of this machine. Owns starting them without a helper, keeping them to the end of their whole
//! tree, and their directories; never talks to a server, and never runs anything in a shell that the plan does not name.
//!
//! A few threads, the *lanes*, do all of it: each starts processes, reads their pipes, waits for their ends and tells
//! what becomes of them. An attempt belongs to one lane for life, so nothing about it needs a lock.
//!
//! No process of this runtime is a sandbox: it runs on this machine, as this user or the one of its plan, and sees what that
//! user may see.

mod begin;
mod group;
mod in_use;
mod lane;
mod launcher;
mod life;
mod remains;
mod resources;
mod spawn;
pub mod supervise;
mod usage;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use orlop_core::error::{Class, Problem};
use orlop_core::task::TaskRef;
use serde::{Deserialize, Serialize};

use self::group::Groups;
use self::lane::{Lane, LaneCommand};
pub use self::launcher::launch;
pub use self::resources::AttemptResources;
use self::supervise::{Control, FollowerContext, Followers, RuntimeOptions};
use super::directories::{Directories, memory_dir};
use super::environ::MARK;
use super::event::{AttemptEnd, AttemptEvents, Cause};
use super::plan::AttemptPlan;
use super::{InUse, JobRuntime, Remains};
use crate::runtime::blocking::blocking;
use crate::runtime::confidential;
use crate::runtime::logs::now;
use crate::runtime::process::RoleProgram;
use crate::runtime::process::cgroup::Cgroup;
use crate::runtime::process::rlimit::{self, ResourceLimits};
use crate::runtime::process::tree::{Marks, Orphans};
use crate::runtime::process::watcher::Mailbox;

/// Open files of a process, at most.
const FILES: u64 = 65_536;
/// Threads that keep processes, at most.
const LANES_MAX: usize = 8;

/// Whether limits are enforced by control groups (version 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Enforce {
    /// As far as this machine lets this program.
    #[default]
    Auto,
    /// Limits of CPU, memory and processes, or nothing is run.
    Require,
    /// Not at all.
    Off,
}

/// What may be chosen about a process runtime.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProcessOptions {
    /// Where the directories of attempts are; made if it is not there.
    pub work: PathBuf,
    /// Where files of secrets are: a directory in memory of this user alone. None where the machine has none.
    pub secrets: Option<PathBuf>,
    /// The worker's name.
    pub worker: String,
    /// Distinguishes processes of this worker from those of others on the same machine.
    pub mark: String,
    /// Vendors of this machine's GPUs.
    pub gpu_vendors: Vec<String>,
    /// Whether this program runs nothing but attempts, so that an orphan nothing else explains is theirs.
    pub exclusive: bool,
    /// How many directories of attempts that failed stay, the latest ones.
    pub keep_failed: usize,
    /// Threads that keep processes; 0 for one per CPU, at most 8.
    pub lanes: usize,
    /// How the supervisor is started that keeps attempts which outlive this program: it calls [`supervise::main`]. None:
    /// such attempts end with this program, and those that must end without it are refused.
    #[serde(skip)]
    pub supervisor: Option<RoleProgram>,
    /// Whether limits are enforced.
    pub enforce: Enforce,
    /// Control group below which those of attempts are made; no process is in it, and it is this program's. None: the
    /// program's own group, if it was delegated and can limit CPU, memory or processes.
    pub cgroup: Option<PathBuf>,
    /// How processes are started in a group, under limits or as other users: a program that calls [`launch`] when it is run
    /// with these arguments. None: no groups, and neither of the others.
    pub launcher: Option<RoleProgram>,
    /// Limits of resources that every attempt gets, instead of no core dumps and at most 65 536 open files.
    pub limits: ResourceLimits,
    /// Whether attempts run as the users that their plans name, and none as this program's. This program must be root's.
    pub users: bool,
    /// Whether this is the runtime of a supervisor.
    #[serde(skip)]
    pub(in crate::runtime::worker) inside: bool,
}

impl ProcessOptions {
    /// The usual choices for a worker of that name, with its attempts below `work`.
    #[must_use]
    pub fn new(worker: impl Into<String>, work: impl Into<PathBuf>) -> Self {
        let (worker, work) = (worker.into(), work.into());
        let secrets = memory_dir(&worker, &work);
        let mark = worker.clone();
        Self {
            work,
            secrets,
            worker,
            mark,
            gpu_vendors: Vec::new(),
            exclusive: false,
            keep_failed: 0,
            lanes: 0,
            supervisor: None,
            enforce: Enforce::Auto,
            cgroup: None,
            launcher: None,
            limits: ResourceLimits::new(),
            users: false,
            inside: false,
        }
    }
}

/// What all lanes of a runtime share, and the names by which directories and processes of an attempt are found.
#[derive(Debug)]
struct Shared {
    events: Arc<dyn AttemptEvents>,
    options: ProcessOptions,
    orphans: Orphans,
    /// Where control groups are made, if they are.
    groups: Option<Groups>,
    /// Attempts that run.
    live: AtomicUsize,
    directories: Directories,
    /// Where the directories of attempts are, as the kernel names it.
    real_work: PathBuf,
}

impl Shared {
    /// Makes the directories, and this program the reaper of its descendants.
    fn new(options: ProcessOptions, groups: Option<Groups>, events: Arc<dyn AttemptEvents>) -> io::Result<Arc<Self>> {
        let mut directories = Directories::new(options.work.clone(), options.secrets.clone(), options.keep_failed)?;
        if !options.users {
            directories = directories.using_again()?;
        }
        let (orphans, live, real_work) = (Orphans::new()?, AtomicUsize::new(0), options.work.canonicalize()?);
        Ok(Arc::new(Self { events, options, orphans, groups, live, directories, real_work }))
    }

    /// The directory of an attempt.
    fn dir(&self, id: &TaskRef) -> PathBuf {
        self.directories.of(id)
    }

    /// The variable by which its processes are recognised, `NAME=value`.
    fn mark(&self, id: &TaskRef) -> String {
        format!("{MARK}={}", self.mark_value(id))
    }

    fn mark_value(&self, id: &TaskRef) -> String {
        format!("{}/{id}", self.options.mark)
    }

    /// By what all that comes of its process is recognised.
    fn marks(&self, id: &TaskRef, group: Option<Cgroup>) -> Marks {
        Marks { variable: self.mark(id), dir: self.real_work.join(id.to_string()), mount: None, group }
    }
}

/// The way to a lane.
#[derive(Debug)]
struct LaneHandle {
    mailbox: Arc<Mailbox<LaneCommand>>,
    /// Attempts it was given and that have not ended.
    load: Arc<AtomicUsize>,
}

/// Runs attempts as processes.
///
/// Dropping it stops its threads and leaves the processes as they are; what an agent that starts later makes of them is
/// said by [`JobRuntime::list`]. An attempt is to be started once: its directory is made for it and for nobody else.
#[derive(Debug)]
pub struct ProcessRuntime {
    shared: Arc<Shared>,
    lanes: Vec<LaneHandle>,
    threads: Vec<JoinHandle<()>>,
    followers: Option<Followers>,
}

impl ProcessRuntime {
    /// A runtime that tells `events`. This program becomes the reaper of all it starts, writes no core dumps from now on,
    /// and has at most 65 536 open files; so has all it starts.
    ///
    /// # Errors
    /// When its directories, threads or descriptors cannot be made. Invalid when what is asked for cannot be enforced here;
    /// Denied when this program may not run others' attempts.
    pub fn new(options: ProcessOptions, events: Arc<dyn AttemptEvents>) -> Result<Self, Problem> {
        let lanes = match options.lanes {
            0 => std::thread::available_parallelism().map_or(1, usize::from).min(LANES_MAX),
            lanes => lanes,
        };
        let program = options.supervisor.clone();
        restrain()?;
        check(&options)?;
        let (groups, users) = (Groups::find(&options)?, options.users);
        let shared = Shared::new(options, groups, events)?;
        if users {
            shared.directories.admit_users()?;
        }
        let context = |shared: Arc<Shared>| FollowerContext {
            work: shared.options.work.clone(),
            events: Arc::clone(&shared.events),
            options: RuntimeOptions::Processes(shared.options.clone()),
            on_supervisor_death: Box::new(move |id, _, reason| remains::end(&shared, id, reason)),
        };
        let followers = program.map(|program| Followers::start(context(Arc::clone(&shared)), program)).transpose()?;
        let mut runtime = Self { shared, lanes: Vec::new(), threads: Vec::new(), followers };
        for number in 0..lanes {
            runtime.add_lane(number)?;
        }
        Ok(runtime)
    }

    /// Starts a lane; returns when it works.
    fn add_lane(&mut self, number: usize) -> io::Result<()> {
        let (mailbox, load) = (Mailbox::new()?, Arc::new(AtomicUsize::new(0)));
        let (shared, own, own_load) = (Arc::clone(&self.shared), Arc::clone(&mailbox), Arc::clone(&load));
        let (ready, answer) = mpsc::sync_channel(1);
        let work = move || match Lane::new(shared, own, own_load) {
            Ok(mut lane) => {
                drop(ready.send(Ok(())));
                if let Err(error) = lane.run() {
                    tracing::error!(%error, "a thread that keeps attempts gave up");
                }
            }
            Err(error) => drop(ready.send(Err(error))),
        };
        let thread = std::thread::Builder::new().name(format!("orlop-lane-{number}")).spawn(work)?;
        self.threads.push(thread);
        self.lanes.push(LaneHandle { mailbox, load });
        answer.recv().unwrap_or_else(|_| Err(io::ErrorKind::UnexpectedEof.into()))
    }

    /// Tells every lane: only one knows the attempt.
    fn tell(&self, order: impl Fn() -> LaneCommand) {
        self.lanes.iter().for_each(|lane| lane.mailbox.send(order()));
    }
}

/// Limits this program, and with it all that it starts, at no cost for each of them. A dump would hold secrets.
fn restrain() -> io::Result<()> {
    confidential::no_core_dump()?;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let files = hard.min(FILES);
    Ok(setrlimit(Resource::RLIMIT_NOFILE, files, files)?)
}

/// Whether limits and users can be what they are asked to be.
fn check(options: &ProcessOptions) -> Result<(), Problem> {
    if options.users && !nix::unistd::geteuid().is_root() {
        let message = "attempts must run as users of their tenants, which only root may do; run the worker as root, or set no users";
        return Err(Problem::new(Class::Denied, message));
    }
    if options.launcher.is_none() && (options.users || !options.limits.is_empty()) {
        let message = "limits of resources and users of tenants need a launcher, and this program has none";
        return Err(Problem::new(Class::Invalid, message));
    }
    rlimit::check(&options.limits)
}

impl Drop for ProcessRuntime {
    fn drop(&mut self) {
        self.tell(|| LaneCommand::Stop);
        for thread in self.threads.drain(..) {
            // One that panicked has nothing more to say.
            drop(thread.join());
        }
    }
}

#[async_trait]
impl JobRuntime for ProcessRuntime {
    fn kind(&self) -> &'static str {
        "process"
    }

    fn start(&self, plan: AttemptPlan) {
        if let Some(followers) = self.followers.as_ref().filter(|_| plan.supervised()) {
            return followers.mailbox.send(supervise::FollowerCommand::Start(Box::new(plan)));
        }
        if plan.run.forbid_overlap && !self.shared.options.inside {
            let message = "an attempt that may not overlap needs a supervisor, and this worker has none";
            let (end, said) = AttemptEnd::start_failed("supervisor", message, now());
            // There may be no room: why it did not start is reported all the same.
            let _ = self.shared.events.log(plan.id, said);
            self.shared.events.ended(plan.id, end);
            return self.shared.events.flush();
        }
        let least = self.lanes.iter().min_by_key(|lane| lane.load.load(Ordering::Relaxed));
        if let Some(lane) = least {
            lane.load.fetch_add(1, Ordering::Relaxed);
            lane.mailbox.send(LaneCommand::Start(Box::new(plan)));
        }
    }

    fn end(&self, id: TaskRef, cause: Cause, grace: Duration) {
        self.tell(|| LaneCommand::End(id, cause, grace));
        if let Some(followers) = &self.followers {
            followers.mailbox.send(supervise::FollowerCommand::End(id, cause, grace));
        }
    }

    fn resume(&self, id: TaskRef) {
        self.tell(|| LaneCommand::Resume(id));
        if let Some(followers) = &self.followers {
            followers.mailbox.send(supervise::FollowerCommand::Resume(id));
        }
    }

    fn renew_lease(&self, left: Duration) {
        if self.followers.is_some()
            && let Err(error) = supervise::write_lease(&self.shared.options.work, left)
        {
            tracing::error!(%error, "the lease cannot be passed on: attempts that may not overlap will end");
        }
    }

    async fn list(&self) -> Result<Vec<Remains>, Problem> {
        let shared = Arc::clone(&self.shared);
        blocking(move || remains::list(&shared)).await
    }

    async fn adopt(&self, id: TaskRef, after_seq: u64) -> Result<(), Problem> {
        if let Some(followers) = &self.followers
            && Control::of(&self.shared.options.work, &id).exists()
        {
            return followers.adopt(id, after_seq).await;
        }
        let shared = Arc::clone(&self.shared);
        blocking(move || remains::end(&shared, &id, "agent_restart")).await
    }

    async fn remove(&self, id: TaskRef) -> Result<(), Problem> {
        let shared = Arc::clone(&self.shared);
        blocking(move || remains::remove(&shared, &id)).await
    }

    async fn in_use(&self, ids: &[TaskRef]) -> Result<Vec<(TaskRef, InUse)>, Problem> {
        let (shared, ids) = (Arc::clone(&self.shared), ids.to_vec());
        blocking(move || Ok(in_use::look(&shared, &ids)?)).await
    }

    async fn check(&self) -> Result<(), Problem> {
        let work = self.shared.options.work.clone();
        match tokio::fs::metadata(&work).await {
            Ok(_) => Ok(()),
            Err(error) => {
                let message = format!("the directory of attempts `{}` is not there", work.display());
                Err(Problem::new(Class::NotFound, message).because(error))
            }
        }
    }
}
