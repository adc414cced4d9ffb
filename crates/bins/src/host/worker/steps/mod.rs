//! Steps of flows on a worker: jobs that have a step in place of a command. Each is one attempt, which runs here as in a flow on one
//! machine, with the same substrate and the same runtimes under it; its output and its end are those of its job. Knows no server.
//!
//! The work of a step is below the directory of its job, which goes when it has ended. The artifacts that it needs were put beside it,
//! and those that it leaves are stored from there. Claims of a flow are in the worker's directory of flows, so that later steps on
//! this worker find them. An agent that starts later finds the steps by the plans in their directories, and their pods by what the
//! substrate wrote down.

mod end;
mod files;
mod output;
mod step;
mod volumes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use orlop_cloud::runtime::logs::now;
use orlop_cloud::runtime::plan::{JobTemplate, TemplatePolicy};
use orlop_cloud::runtime::process::{ProcessOptions, ProcessRuntime as Pods, ResourceLimits, RoleProgram};
use orlop_cloud::runtime::worker::process::ProcessRuntime;
use orlop_cloud::runtime::worker::{
    AttemptEnd as JobEnd, AttemptEvents, AttemptPlan, Cause, InUse, JobRuntime, LogTotals, Remains, RemainsState,
    Started,
};
use orlop_core::backoff::{Backoff, Growth};
use orlop_core::error::{Class, Problem};
use orlop_core::ports::substrate::Substrate;
use orlop_core::spec::job::{StepBackend, StepSpec};
use orlop_core::task::TaskRef;
use orlop_dag::manifest::substrate::Runtime;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};

use self::files::StepDir;
use self::step::Step;
pub(super) use self::volumes::remove_unused as remove_unused_claims;
use crate::host::local::LocalSetup;

/// Pause before the next try of what cannot be done now.
const RETRY_DELAY: Duration = Duration::from_secs(2);
/// Backoff between retries that run in the background.
const RETRY_BACKOFF: Backoff = Backoff {
    growth: Growth::Exponential,
    base: RETRY_DELAY,
    factor: 2.0,
    ceiling: Some(Duration::from_secs(60)),
    jitter: 0.0,
};
/// How long the start of an agent waits for the clean-up of unknown steps, all together.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(10);

/// What a step is asked to do.
#[derive(Debug)]
enum StepCommand {
    End(Cause, Duration),
    Resume,
}

/// Where things of this worker are, and what holds for its steps.
#[derive(Clone, Debug)]
pub(super) struct StepOptions {
    /// The directory of attempts.
    pub(super) work: PathBuf,
    /// Where claims of flows are.
    pub(super) flows: PathBuf,
    /// Address of the container engine; none: where engines are looked for.
    pub(super) engine: Option<String>,
    /// Limits of resources of processes.
    pub(super) limits: ResourceLimits,
    /// Whether attempts are other users': their files are not this program's own, as those of steps are.
    pub(super) users: bool,
}

/// The task that follows a step, or cleans up after it.
#[derive(Debug)]
struct StepTask {
    commands: mpsc::UnboundedSender<StepCommand>,
    task: AbortHandle,
}

/// What all steps share.
struct Shared {
    jobs: ProcessRuntime,
    pods: Pods,
    events: Arc<dyn AttemptEvents>,
    options: StepOptions,
    live: Mutex<BTreeMap<TaskRef, StepTask>>,
}

/// Runs attempts as processes, and those that are steps of flows as their pods.
pub(super) struct StepRuntime {
    shared: Arc<Shared>,
    tasks: Handle,
    made: Instant,
}

impl std::fmt::Debug for StepRuntime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StepRuntime").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl StepRuntime {
    /// A runtime whose steps are followed by tasks of this runtime, and kept by a supervisor.
    pub(super) fn new(
        jobs: ProcessRuntime,
        supervisor: RoleProgram,
        options: StepOptions,
        events: Arc<dyn AttemptEvents>,
        tasks: Handle,
    ) -> Self {
        let mut chosen = ProcessOptions::default();
        // Nothing of this program's own environment passes, and what steps write others may read.
        let env = [("HOME", "/tmp"), ("LANG", "C.UTF-8")];
        chosen.environment = Some(env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec());
        chosen.umask = Some(0o022);
        chosen.limits.clone_from(&options.limits);
        let pods = Pods::with_options(supervisor, chosen);
        let shared = Shared { jobs, pods, events, options, live: Mutex::default() };
        Self { shared: Arc::new(shared), tasks, made: Instant::now() }
    }

    /// Has a step followed; nothing where it is already.
    fn follow(&self, plan: AttemptPlan, step: Arc<StepSpec>, known: Option<u64>) {
        let shared = Arc::clone(&self.shared);
        self.spawn(plan.id, |commands| Step::new(shared, plan, step, commands, known).run());
    }

    /// Spawns the task of a step, which takes itself from the list; nothing where there is one.
    fn spawn<F: Future<Output = ()> + Send + 'static>(
        &self,
        id: TaskRef,
        task: impl FnOnce(mpsc::UnboundedReceiver<StepCommand>) -> F,
    ) -> Option<JoinHandle<()>> {
        // Held until the task is listed: it may be done at once.
        let mut live = self.shared.live();
        if live.contains_key(&id) {
            return None;
        }
        let (commands, taken) = mpsc::unbounded_channel();
        let task = self.tasks.spawn(task(taken));
        live.insert(id, StepTask { commands, task: task.abort_handle() });
        Some(task)
    }

    fn send(&self, id: &TaskRef, command: StepCommand) {
        if let Some(live) = self.shared.live().get(id) {
            // One that has just ended takes no commands.
            let _ = live.commands.send(command);
        }
    }
}

impl Drop for StepRuntime {
    fn drop(&mut self) {
        // Pods live on; a later agent finds them.
        self.shared.live().values().for_each(|live| live.task.abort());
    }
}

impl Shared {
    fn live(&self) -> MutexGuard<'_, BTreeMap<TaskRef, StepTask>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dir(&self, id: &TaskRef) -> StepDir {
        StepDir::of(&self.options.work, id)
    }

    /// Whether this worker runs such a step at all.
    fn check(&self, plan: &AttemptPlan) -> Result<(), Problem> {
        let why = if self.options.users {
            "this worker cannot run steps of flows: it runs processes as users of their tenants (`users` is set); run steps on a \
             worker without `users`"
        } else if plan.run.forbid_overlap {
            "`overlap: forbid` is not supported for jobs that are steps of flows; leave it out"
        } else {
            return Ok(());
        };
        Err(unsupported(why))
    }

    /// Ends what is left of a step, however long that takes, and has it forgotten.
    async fn clean_up(&self, plan: &AttemptPlan, step: &StepSpec, substrate: Option<Arc<dyn Substrate>>) {
        let mut tries = 0;
        let dir = self.dir(&plan.id);
        // Without a directory of attempts there is nothing to end.
        while dir.has_attempts().unwrap_or(true)
            && let Err(error) = self.try_clean_up(plan, step, substrate.clone()).await
        {
            let (directory, error) = (dir.path().display(), error.chain());
            tracing::warn!(attempt = %plan.id, %directory, error, "cannot clean up an ended step; trying again");
            tokio::time::sleep(RETRY_BACKOFF.delay(tries, 0.0)).await;
            tries = tries.saturating_add(1);
        }
    }

    async fn try_clean_up(
        &self,
        plan: &AttemptPlan,
        step: &StepSpec,
        substrate: Option<Arc<dyn Substrate>>,
    ) -> Result<(), Problem> {
        let key = &step.attempt.key;
        let substrate = match substrate {
            Some(substrate) => substrate,
            None => {
                let substrate = self.substrate(plan, step, None, None).await?;
                substrate.cancel(key, Some(Duration::ZERO)).await?;
                drop(substrate.next().await);
                substrate
            }
        };
        substrate.forget(key).await
    }

    /// The substrate of a step.
    async fn substrate(
        &self,
        plan: &AttemptPlan,
        step: &StepSpec,
        secrets: Option<PathBuf>,
        group: Option<&Path>,
    ) -> Result<Arc<dyn Substrate>, Problem> {
        let spec = &step.attempt;
        let setup = LocalSetup {
            runtime: match step.backend {
                StepBackend::Docker => Runtime::ByImage,
                StepBackend::Process => Runtime::Process,
            },
            volumes_dir: Some(self.volumes(step)?),
            secrets_dir: secrets,
            // Flows of the same name may be of several tenants.
            prefix: format!("{}-", plan.id),
            engine: self.options.engine.clone(),
            gpus: Some(plan.gpus.iter().map(|gpu| gpu.index).collect()),
            ..LocalSetup::default()
        };
        let template = JobTemplate::read(&spec.template, &TemplatePolicy::default())?;
        let images = template.pod.containers().any(|container| container.image.is_some());
        let pods = self.pods.within(group, vec![self.jobs.resources_of(plan.id).mark()]);
        setup.substrate(self.dir(&plan.id).path(), Arc::new(pods), images).await
    }

    /// The directory of the claims of a step's flow.
    fn volumes(&self, step: &StepSpec) -> Result<PathBuf, Problem> {
        let spec = &step.attempt;
        below(&self.options.flows, &spec.key.flow)?;
        Ok(volumes::of(&below(&self.options.flows, &spec.namespace)?, &spec.key.flow))
    }
}

/// That a step cannot run here, and why.
fn unsupported(why: &str) -> Problem {
    Problem::new(Class::Invalid, why).with_reason("StepsUnsupported")
}

/// The end of a step whose job is for a runtime that runs no steps.
pub(super) fn refused() -> JobEnd {
    let why = "this worker cannot run the step: its runtime runs no steps of flows; run steps on a worker that runs processes \
               under a supervisor";
    end::job_end(&end::refused(&unsupported(why)), None, None, LogTotals::default())
}

/// A directory below another one, by a plain name.
fn below(directory: &Path, name: &str) -> Result<PathBuf, Problem> {
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
        let message = format!("`{name}` cannot be the name of a directory");
        return Err(Problem::new(Class::Invalid, message).with_reason("TemplateInvalid"));
    }
    Ok(directory.join(name))
}

#[async_trait]
impl JobRuntime for StepRuntime {
    fn kind(&self) -> &'static str {
        self.shared.jobs.kind()
    }

    fn runs_steps(&self) -> bool {
        true
    }

    fn start(&self, plan: AttemptPlan) {
        match plan.run.step.clone() {
            Some(step) => self.follow(plan, step, None),
            None => self.shared.jobs.start(plan),
        }
    }

    fn end(&self, id: TaskRef, cause: Cause, grace: Duration) {
        self.send(&id, StepCommand::End(cause, grace));
        self.shared.jobs.end(id, cause, grace);
    }

    fn resume(&self, id: TaskRef) {
        self.send(&id, StepCommand::Resume);
        self.shared.jobs.resume(id);
    }

    fn renew_lease(&self, left: Duration) {
        self.shared.jobs.renew_lease(left);
    }

    async fn list(&self) -> Result<Vec<Remains>, Problem> {
        let mut all = self.shared.jobs.list().await?;
        for remains in &mut all {
            let dir = self.shared.dir(&remains.id);
            if dir.is_prepared()? {
                let unknown = || Started { handle: "0".to_owned(), at: now() };
                remains.state = RemainsState::Alive { started: dir.started()?.unwrap_or_else(unknown) };
            }
        }
        Ok(all)
    }

    async fn adopt(&self, id: TaskRef, after_seq: u64) -> Result<(), Problem> {
        if let Some((plan, step)) = self.shared.dir(&id).plan()? {
            self.follow(plan, step, Some(after_seq));
            return Ok(());
        }
        self.shared.jobs.adopt(id, after_seq).await
    }

    async fn remove(&self, id: TaskRef) -> Result<(), Problem> {
        if self.shared.live().contains_key(&id) {
            // Its own task does it.
            return Ok(());
        }
        let Some((plan, step)) = self.shared.dir(&id).plan()? else { return self.shared.jobs.remove(id).await };
        let shared = Arc::clone(&self.shared);
        let task = self.spawn(id, |_| async move {
            shared.clean_up(&plan, &step, None).await;
            if let Err(error) = shared.jobs.remove(id).await {
                tracing::warn!(attempt = %id, error = error.chain(), "cannot remove the directory of an ended step");
            }
            shared.live().remove(&id);
        });
        if let Some(task) = task {
            // An engine that does not answer is waited for in the background.
            let _ = tokio::time::timeout(CLEANUP_TIMEOUT.saturating_sub(self.made.elapsed()), task).await;
        }
        Ok(())
    }

    async fn in_use(&self, ids: &[TaskRef]) -> Result<Vec<(TaskRef, InUse)>, Problem> {
        self.shared.jobs.in_use(ids).await
    }

    async fn check(&self) -> Result<(), Problem> {
        self.shared.jobs.check().await
    }
}
