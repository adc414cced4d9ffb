//! The parts of an agent that its threads share: what it knows, behind one lock, and its runtimes. Never decides what
//! follows.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Instant;

use orlop_cloud::runtime::worker::noop::succeeded;
use orlop_cloud::runtime::worker::{
    AttemptEnd, AttemptEvents, AttemptPlan, Cause, JobRuntime, LogCapacity, LogChunk, Started,
};
use orlop_core::spec::job::Runtime;
use orlop_core::task::{TaskEnd, TaskRef};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::artifacts::{Files, Needs};
use super::clock::now;
use super::core::{Act, Core};
use super::steps;

/// See the module.
#[derive(Debug)]
pub(super) struct Shared {
    core: Mutex<Core>,
    /// Set when they exist, for they tell this; taken out at the end, for they hold this.
    runtimes: Mutex<BTreeMap<Runtime, Arc<dyn JobRuntime>>>,
    /// What runtimes reported that leads to something, until the round is over.
    acts: Mutex<Vec<Act>>,
    /// Files of attempts, and where they are fetched and stored.
    files: OnceLock<(Arc<Files>, Handle)>,
    /// Attempts whose files are being fetched.
    fetching: Mutex<BTreeMap<TaskRef, AbortHandle>>,
    /// Attempts that have ended and whose files are being stored, and why they are to end before that is done.
    storing: Mutex<BTreeMap<TaskRef, (AbortHandle, Option<Cause>)>>,
    /// Itself, for what goes on beside.
    me: Weak<Self>,
    /// Rings when there is something for the server.
    pub(super) bell: Notify,
}

impl Shared {
    pub(super) fn new(core: Core) -> Arc<Self> {
        let (core, acts) = (Mutex::new(core), Mutex::default());
        Arc::new_cyclic(|me| Self {
            core,
            runtimes: Mutex::default(),
            acts,
            files: OnceLock::new(),
            fetching: Mutex::default(),
            storing: Mutex::default(),
            me: Weak::clone(me),
            bell: Notify::new(),
        })
    }

    /// The agent ends: what waits for a server that is away gives up.
    pub(super) fn leave(&self) {
        if let Some((files, _)) = self.files.get() {
            files.leave();
        }
    }

    /// Hands over where files of attempts are. Once.
    pub(super) fn set_files(&self, files: Files, handle: Handle) -> Arc<Files> {
        Arc::clone(&self.files.get_or_init(|| (Arc::new(files), handle)).0)
    }

    /// Hands the runtimes over, in place of those before; none at the end of the agent.
    pub(super) fn set_runtimes(&self, runtimes: BTreeMap<Runtime, Arc<dyn JobRuntime>>) {
        let mut place = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *place, runtimes);
        drop(place);
        // Their threads may be telling something: they end without the lock.
        drop(before);
    }

    /// The runtimes.
    pub(super) fn runtimes(&self) -> BTreeMap<Runtime, Arc<dyn JobRuntime>> {
        self.runtimes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn runtime(&self, runtime: Runtime) -> Option<Arc<dyn JobRuntime>> {
        self.runtimes.lock().unwrap_or_else(PoisonError::into_inner).get(&runtime).cloned()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        // Every change is made whole before anything can fail in it.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out what was decided. What runs nothing ends here and now, and leads to more.
    pub(super) fn perform(&self, acts: Vec<Act>) {
        let mut acts = VecDeque::from(acts);
        let mut more = Vec::new();
        while let Some(act) = acts.pop_front() {
            match act {
                Act::Start(Runtime::Noop, plan) => {
                    self.finish(plan.id, succeeded(now()), &mut more);
                    acts.extend(more.drain(..));
                }
                Act::Start(runtime, plan) | Act::Fetch(runtime, plan, _)
                    if plan.run.step.is_some()
                        && self.runtime(runtime).is_some_and(|runtime| !runtime.runs_steps()) =>
                {
                    self.finish(plan.id, steps::refused(), &mut more);
                    acts.extend(more.drain(..));
                }
                Act::Start(runtime, plan) => match self.runtime(runtime) {
                    Some(runtime) => runtime.start(*plan),
                    None => {
                        tracing::error!(attempt = %plan.id, %runtime, "an attempt needs a runtime that this worker does not have");
                    }
                },
                Act::Fetch(runtime, plan, needs) => self.fetch(runtime, plan, needs),
                Act::End(_, id, cause, _) if self.fetched(&id).inspect(AbortHandle::abort).is_some() => {
                    let outcome = if cause == Cause::Preempt { TaskEnd::Preempted } else { TaskEnd::Cancelled };
                    let end = AttemptEnd::without_run(outcome, "", now());
                    self.finish(id, end, &mut more);
                    acts.extend(more.drain(..));
                }
                Act::End(_, id, cause, _) if self.stop_storing(&id, cause) => {}
                Act::End(runtime, id, cause, grace) => {
                    if let Some(runtime) = self.runtime(runtime) {
                        runtime.end(id, cause, grace);
                    }
                }
                Act::Resume(runtime, id) => {
                    if let Some(runtime) = self.runtime(runtime) {
                        runtime.resume(id);
                    }
                }
            }
        }
    }

    /// Notes the end of an attempt that no runtime has.
    fn finish(&self, id: TaskRef, end: AttemptEnd, acts: &mut Vec<Act>) {
        let ended = self.lock().ended(id, end, Instant::now(), acts);
        complain(id, ended);
        self.bell.notify_one();
    }

    /// Fetches what an attempt needs, beside everything else, and starts it then.
    fn fetch(&self, runtime: Runtime, plan: Box<AttemptPlan>, needs: Arc<Needs>) {
        let (Some(me), Some((files, handle))) = (self.me.upgrade(), self.files.get()) else {
            tracing::error!(attempt = %plan.id, "an attempt needs files, but the artifact store is not ready");
            return;
        };
        let (id, files) = (plan.id, Arc::clone(files));
        // The lock is held until the task is noted: it may be done at once.
        let mut fetching = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        let task = handle.spawn(async move {
            let fetched = files.fetch(id, &needs).await;
            // It was asked to end meanwhile.
            if me.fetched(&id).is_none() {
                return;
            }
            match (fetched, me.runtime(runtime)) {
                (Ok(folder), Some(runtime)) => runtime.start(AttemptPlan { artifacts: Some(folder), ..*plan }),
                (Ok(_), None) => tracing::error!(attempt = %id, %runtime, "an attempt needs a runtime that this worker does not have"),
                (Err(reason), _) => {
                    files.clear(id);
                    let end = AttemptEnd::without_run(TaskEnd::StartFailed, reason, now());
                    me.note(id, |core, acts| core.ended(id, end, Instant::now(), acts));
                    me.flush();
                }
            }
        });
        fetching.insert(id, task.abort_handle());
    }

    /// Takes the task that fetches files of an attempt; none when nothing is fetched.
    fn fetched(&self, id: &TaskRef) -> Option<AbortHandle> {
        self.fetching.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
    }

    /// Stops storing what an attempt left; false when nothing is stored.
    fn stop_storing(&self, id: &TaskRef, cause: Cause) -> bool {
        let mut storing = self.storing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((task, stopped)) = storing.get_mut(id) else { return false };
        *stopped = stopped.or(Some(cause));
        task.abort();
        true
    }

    /// Stores what an attempt left, and gives its end with that, or as that of one that was stopped meanwhile.
    async fn stored(&self, id: TaskRef, end: AttemptEnd, runtime: Runtime, needs: Arc<Needs>) -> AttemptEnd {
        let Some((files, handle)) = self.files.get() else { return end };
        let (files, whole) = (Arc::clone(files), end.clone());
        let task = {
            // The lock is held until the task is noted: it may be done at once.
            let mut storing = self.storing.lock().unwrap_or_else(PoisonError::into_inner);
            let task = handle.spawn(async move { files.store(id, runtime, &needs, whole).await });
            storing.insert(id, (task.abort_handle(), None));
            task
        };
        let done = task.await;
        let noted = self.storing.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        match (done, noted.and_then(|(_, cause)| cause)) {
            (Ok(end), _) => end,
            (Err(_), Some(cause)) => {
                let outcome = if cause == Cause::Preempt { TaskEnd::Preempted } else { TaskEnd::Cancelled };
                AttemptEnd { outcome, reason: "while its artifacts were stored".to_owned(), ..end }
            }
            (Err(error), None) => {
                tracing::error!(attempt = %id, %error, "artifacts of an attempt are not stored");
                AttemptEnd { outcome: TaskEnd::Failed, reason: format!("artifact: {error}"), ..end }
            }
        }
    }

    /// Stores what an attempt left, beside everything else, and tells its end then.
    fn store(&self, id: TaskRef, end: AttemptEnd, runtime: Runtime, needs: Arc<Needs>) {
        let (Some(me), Some((files, handle))) = (self.me.upgrade(), self.files.get()) else {
            return self.note(id, |core, acts| core.ended(id, end, Instant::now(), acts));
        };
        let files = Arc::clone(files);
        handle.spawn(async move {
            let end = me.stored(id, end, runtime, Arc::clone(&needs)).await;
            me.note(id, |core, acts| core.ended(id, end, Instant::now(), acts));
            me.flush();
            me.clear(id, runtime, &files).await;
        });
    }

    /// Removes what is left of an attempt with files, which has ended.
    async fn clear(&self, id: TaskRef, runtime: Runtime, files: &Files) {
        files.clear(id);
        if let Some(runtime) = self.runtime(runtime)
            && let Err(error) = runtime.remove(id).await
        {
            tracing::warn!(attempt = %id, error = error.chain(), "files of an attempt could not be removed");
        }
    }

    fn note(&self, id: TaskRef, change: impl FnOnce(&mut Core, &mut Vec<Act>) -> io::Result<()>) {
        let mut acts = Vec::new();
        let changed = change(&mut self.lock(), &mut acts);
        complain(id, changed);
        if !acts.is_empty() {
            self.acts.lock().unwrap_or_else(PoisonError::into_inner).append(&mut acts);
        }
    }
}

/// The spool keeps what it cannot write and tries again; the agent's health says that something is wrong.
fn complain(id: TaskRef, outcome: io::Result<()>) {
    if let Err(error) = outcome {
        tracing::error!(attempt = %id, %error, "the spool cannot be written");
    }
}

impl AttemptEvents for Shared {
    fn started(&self, id: TaskRef, started: Started) {
        self.note(id, |core, _| core.started(id, started));
    }

    fn log(&self, id: TaskRef, chunk: LogChunk) -> LogCapacity {
        self.lock().log(id, chunk)
    }

    fn ended(&self, id: TaskRef, end: AttemptEnd) {
        let needs = self.lock().needs(&id);
        let runtime = match needs {
            Some((runtime, needs)) if needs.collects(end.outcome) => return self.store(id, end, runtime, needs),
            needs => needs.map(|(runtime, _)| runtime),
        };
        self.note(id, |core, acts| core.ended(id, end, Instant::now(), acts));
        if let (Some(runtime), Some(me), Some((files, handle))) = (runtime, self.me.upgrade(), self.files.get()) {
            let files = Arc::clone(files);
            handle.spawn(async move {
                // What it left goes after its end is durable.
                me.flush();
                me.clear(id, runtime, &files).await;
            });
        }
    }

    fn flush(&self) {
        let flushed = self.lock().spool.flush();
        if let Err(error) = flushed {
            tracing::error!(%error, "the spool cannot be written: results wait");
        }
        let acts = std::mem::take(&mut *self.acts.lock().unwrap_or_else(PoisonError::into_inner));
        self.perform(acts);
        self.bell.notify_one();
    }
}
