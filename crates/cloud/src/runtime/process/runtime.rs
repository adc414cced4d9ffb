//! The runtime: the port, implemented over the files of pods' directories and a supervisor. Owns what is decided in the
//! parent; all that must survive the parent is in the supervisor.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf, absolute};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use nix::sys::signal::Signal;
use nix::unistd::Uid;
use orlop_core::error::{Class, Problem};
use tokio::sync::OnceCell;

use super::cgroup::{self, Cgroup, Limits};
use super::failure::During;
use super::layout::Layout;
use super::orphans;
use super::paths::Paths;
use super::probe::Capabilities;
use super::record::{Directory, DirectoryState, ExitRecord};
use super::request::{self, Request};
use super::rlimit::{self, ResourceLimits};
use super::start::{RoleProgram, SupervisorClient};
use super::watch;
use super::wire::{Container, KeepOrder, KeepReply, Variable};
use crate::clock;
use crate::runtime::blocking::blocking;
use crate::runtime::job::backoff::restart_delay;
use crate::runtime::pod::{ContainerPlan, PROCESS, PodExit, PodHandle, PodKey, PodPlan, PodRuntime};

/// What may be chosen about a runtime.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProcessOptions {
    /// How absolute paths become real; none: the best this machine allows.
    pub paths: Option<Paths>,
    /// Control group (version 2) below which those of pods are made. No process is in it, and it is this program's.
    /// None: the program's own group, if it was delegated to it.
    pub cgroup: Option<PathBuf>,
    /// Variables of the supervisor's environment that containers see unless their plan sets them.
    pub inherit: Vec<String>,
    /// The supervisor's environment; none: that of this program.
    pub environment: Option<Vec<(String, String)>>,
    /// The umask of containers; none: that of this program.
    pub umask: Option<u32>,
    /// Resource limits of every process of a pod, beside those of the supervisor. A pod is refused where this program may not give them.
    pub limits: ResourceLimits,
    /// Delays before a failed container is started again in place; the last one repeats.
    pub restart_delays: Vec<Duration>,
}

impl Default for ProcessOptions {
    fn default() -> Self {
        let inherit = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ"];
        Self {
            paths: None,
            cgroup: None,
            inherit: inherit.map(str::to_owned).to_vec(),
            environment: None,
            umask: None,
            limits: ResourceLimits::new(),
            restart_delays: (1..=8).map(restart_delay).collect(),
        }
    }
}

/// Runs pods as processes.
#[derive(Debug)]
pub struct ProcessRuntime {
    supervisor: Arc<SupervisorClient>,
    options: ProcessOptions,
    /// Variables of every container.
    variables: Vec<(String, String)>,
    /// Control group limits of its pods; none: probed on first use.
    groups: Option<Limits>,
    /// How absolute paths are provided, and why no better way is possible.
    paths: Arc<OnceCell<(Paths, Option<String>)>>,
    capabilities: OnceCell<Capabilities>,
    /// Warnings about them that were logged.
    warned: Arc<Mutex<BTreeSet<String>>>,
}

impl ProcessRuntime {
    /// A runtime whose supervisor is started like this.
    #[must_use]
    pub fn new(supervisor: RoleProgram) -> Self {
        Self::with_options(supervisor, ProcessOptions::default())
    }

    /// A runtime with choices.
    #[must_use]
    pub fn with_options(supervisor: RoleProgram, options: ProcessOptions) -> Self {
        let supervisor = Arc::new(SupervisorClient::new(supervisor, options.environment.clone()));
        let (paths, capabilities, warned) = (Arc::default(), OnceCell::new(), Arc::default());
        Self { supervisor, options, variables: Vec::new(), groups: None, paths, capabilities, warned }
    }

    /// The same runtime, with the same supervisor, for pods of one owner. Their control groups are made in this one, which limits what
    /// all of them use together; none: pods without groups. Nothing runs in the group itself, and it is this program's. The variables
    /// are in the environment of every container, whatever its plan says.
    #[must_use]
    pub fn within(&self, group: Option<&Path>, variables: Vec<(String, String)>) -> Self {
        Self {
            supervisor: Arc::clone(&self.supervisor),
            options: self.options.clone(),
            variables,
            groups: Some(group.map_or_else(Limits::default, |group| cgroup::probe(Some(group)))),
            paths: Arc::clone(&self.paths),
            capabilities: OnceCell::new(),
            warned: Arc::clone(&self.warned),
        }
    }

    /// What the runtime can do on this machine. Found out once, by trying.
    ///
    /// # Errors
    /// Invalid when the supervisor program cannot be run.
    pub async fn capabilities(&self) -> Result<&Capabilities, Problem> {
        let find = || async {
            let limits = self.groups.clone();
            let limits = limits.unwrap_or_else(|| cgroup::probe(self.options.cgroup.as_deref()));
            let (paths, why) = match self.options.paths {
                Some(paths) => (paths, None),
                None => self.paths.get_or_try_init(|| self.supervisor.probe()).await?.clone(),
            };
            Ok(Capabilities { paths, why, limits })
        };
        self.capabilities.get_or_try_init(find).await
    }

    /// The record of a pod's end, if it has ended: beyond the [`PodExit`] it says how much of the logs was lost.
    ///
    /// # Errors
    /// Transient when it cannot be read now.
    pub fn exit_record(directory: &Path) -> Result<Option<ExitRecord>, Problem> {
        Ok(Directory::new(directory).exit()?)
    }

    /// The handle of a pod that was started before, by whomever.
    fn started(directory: &Directory, plan: &PodPlan) -> Result<Option<PodHandle>, Problem> {
        let Some(claim) = directory.claim()? else { return Ok(None) };
        if let Some(other) = claim.key.as_ref().filter(|key| **key != plan.key) {
            let place = directory.path().display();
            let message = format!("`{place}` is the directory of pod {other}, not {}", plan.key);
            return Err(Problem::new(Class::Exists, message));
        }
        let id = claim.supervisor.map_or_else(|| "never started".to_owned(), |supervisor| supervisor.to_string());
        Ok(Some(PodHandle { name: plan.name.clone(), id }))
    }

    /// Says, once each, what a pod asks for and this machine does not give.
    fn warn(&self, plan: &PodPlan, capabilities: &Capabilities) {
        let mut all = plan.init.iter().chain([&plan.main]);
        let limited = all.clone().any(|plan| plan.cpu_limit_milli.is_some() || plan.memory_limit_bytes.is_some());
        let placed = !plan.outputs.is_empty() || all.any(|plan| !plan.mounts.is_empty());
        for warning in capabilities.warnings(limited, placed) {
            if self.warned.lock().unwrap_or_else(PoisonError::into_inner).insert(warning.clone()) {
                tracing::warn!("{warning}");
            }
        }
    }

    fn order(&self, plan: &PodPlan, capabilities: &Capabilities) -> Result<KeepOrder, Problem> {
        rlimit::check(&self.options.limits)?;
        let here = |path: &Path| absolute(path).during(|| format!("finding `{}`", path.display()));
        let container = |plan: &ContainerPlan| -> Result<Container, Problem> {
            check(plan, capabilities.paths)?;
            let mut container = Container::from(plan);
            let own = self.variables.iter().cloned();
            container.env.extend(own.map(|(name, value)| Variable { name, value, secret: false }));
            for mount in &mut container.mounts {
                mount.source = here(&mount.source)?;
            }
            Ok(container)
        };
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Ok(KeepOrder {
            now: clock::now(),
            key: plan.key.clone(),
            directory: here(&plan.directory)?,
            stdout: here(&plan.stdout)?,
            stderr: here(&plan.stderr)?,
            init: plan.init.iter().map(container).collect::<Result<_, _>>()?,
            main: container(&plan.main)?,
            outputs: plan.outputs.clone(),
            secret_files: plan.secret_files.iter().map(|path| here(path)).collect::<Result<_, _>>()?,
            further_groups: plan.further_groups.clone(),
            restart_limit: if plan.restart_on_failure { plan.restart_limit } else { 0 },
            restart_delays_ms: self.options.restart_delays.iter().copied().map(millis).collect(),
            grace_ms: millis(plan.grace),
            active_deadline_ms: plan.active_deadline.map(millis),
            paths: capabilities.paths,
            cgroup_parent: capabilities.limits.parent.clone(),
            inherit: self.options.inherit.clone(),
            umask: self.options.umask,
            limits: self.options.limits.clone(),
        })
    }

    /// Writes a request and tells the supervisor, if there is one. A supervisor that a program of its pod has stopped goes on to read it;
    /// where it is stopped again when the pod is to end, and was asked before, the programs of the pod are killed first.
    fn ask(directory: &Path, change: impl FnOnce(Request) -> Request) -> Result<(), Problem> {
        let directory = Directory::new(directory);
        if !directory.path().exists() || directory.exit()?.is_some() {
            return Ok(());
        }
        // First the request, then the look for a supervisor: one that claims in between sees the request.
        let (before, now) = request::update(&directory, change)?;
        if let DirectoryState::Alive(supervisor) = directory.find()? {
            let is_repeated = before == now && now.stop.is_some();
            if let Some(claim) = directory.claim()?.filter(|_| is_repeated && supervisor.is_stopped()) {
                orphans::kill(&directory, &claim)?;
            }
            for signal in [request::LOOK, Signal::SIGCONT] {
                supervisor.signal(signal).during(|| format!("telling supervisor {supervisor} of a request"))?;
            }
        }
        Ok(())
    }
}

/// Refuses what processes cannot do.
fn check(plan: &ContainerPlan, paths: Paths) -> Result<(), Problem> {
    let name = &plan.name;
    if plan.command.is_empty() && plan.args.is_empty() {
        let message = format!("container `{name}` has no command; without an image there is no entry point to run");
        return Err(Problem::new(Class::Invalid, message).with_reason("TemplateInvalid"));
    }
    let own = Uid::effective();
    let foreign_user = plan.user.is_some_and(|user| user != own.as_raw());
    let foreign_group = plan.group.is_some_and(|group| group != nix::unistd::Gid::effective().as_raw());
    if (foreign_user || foreign_group) && (!own.is_root() || paths == Paths::UserNamespace) {
        let message = format!("container `{name}` asks for another user or group; only root may run it as that");
        return Err(Problem::new(Class::Denied, message).with_reason("Forbidden"));
    }
    Ok(())
}

#[async_trait]
impl PodRuntime for ProcessRuntime {
    fn kind(&self, _image: Option<&str>) -> &'static str {
        PROCESS
    }

    async fn start(&self, plan: &PodPlan) -> Result<PodHandle, Problem> {
        let directory = Directory::new(&plan.directory);
        if let Some(handle) = Self::started(&directory, plan)? {
            return Ok(handle);
        }
        let capabilities = self.capabilities().await?;
        self.warn(plan, capabilities);
        let order = self.order(plan, capabilities)?;
        match self.supervisor.keep(order).await? {
            KeepReply::Claimed(supervisor) => Ok(PodHandle { name: plan.name.clone(), id: supervisor.to_string() }),
            KeepReply::Taken => Self::started(&directory, plan)?.ok_or_else(|| {
                let message = format!("the directory of pod {} changes hands", plan.key);
                Problem::new(Class::Transient, message)
            }),
            KeepReply::Refused(number, message) => {
                let class = number
                    .map_or(Class::Transient, |number| Problem::from(std::io::Error::from_raw_os_error(number)).class);
                Err(Problem::new(class, message))
            }
        }
    }

    async fn wait(&self, key: &PodKey, directory: &Path) -> Result<PodExit, Problem> {
        watch::end(key, &Directory::new(directory)).await
    }

    async fn stop(&self, _key: &PodKey, directory: &Path, grace: Duration) -> Result<(), Problem> {
        let directory = directory.to_owned();
        blocking(move || Self::ask(&directory, |request| request.stopped(grace))).await
    }

    async fn freeze(&self, _key: &PodKey, directory: &Path, on: bool) -> Result<(), Problem> {
        let directory = directory.to_owned();
        blocking(move || Self::ask(&directory, |request| Request { frozen: on, ..request })).await
    }

    async fn fetch(&self, key: &PodKey, plan: &PodPlan, inside: &str, _scratch: &Path) -> Result<PathBuf, Problem> {
        let directory = Directory::new(&plan.directory);
        let (key, inside) = (key.clone(), inside.to_owned());
        blocking(move || {
            let layout: Option<Layout> = directory.read("layout")?;
            let layout = layout.ok_or_else(|| {
                let message = format!("the main container of pod {key} never started, so there is no `{inside}`");
                Problem::new(Class::NotFound, message)
            })?;
            Ok(layout.resolve(&inside).during(|| format!("looking for `{inside}` of pod {key}"))?)
        })
        .await
    }

    async fn remove(&self, _key: &PodKey, directory: &Path) -> Result<(), Problem> {
        let directory = Directory::new(directory);
        blocking(move || {
            let group = directory.claim()?.and_then(|claim| claim.cgroup).map(Cgroup::at);
            Ok(group.map_or(Ok(()), |group| group.remove())?)
        })
        .await
    }
}
