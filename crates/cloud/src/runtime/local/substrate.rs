//! The substrate port on one machine. Owns the way from a call of the host to the task that follows the attempt.

use std::fs::{self, File};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use orlop_core::attempt::{AttemptEnd, AttemptKey, AttemptSpec, EndResult};
use orlop_core::error::{Class, Problem};
use orlop_core::ports::substrate::{AttemptDelay, AttemptReport, FlowOwner, Substrate};
use orlop_core::spec::flow::ResourceTemplates;
use orlop_core::spec::meta::ObjectReference;
use tokio::sync::{mpsc, oneshot, watch};

use super::attempt::{Answer, Attempt, Command, Inner, Live};
use super::deliver::check;
use super::driver::{Driver, no_room};
use super::layout::AttemptDir;
use super::load::{AttemptTrace, create, discard, load, removed};
use super::memory;
use super::options::{LocalOptions, LocalPorts};
use super::records::{AttemptRecord, CancelOrder, Control, read, write};
use super::resources;
use crate::runtime::blocking::blocking;
use crate::runtime::plan::{JobTemplate, TemplatePolicy};
use crate::runtime::pod::{PodKey, PodRuntime};
use crate::runtime::volume::prepare::undeletable;

/// A substrate that runs attempts on this machine: pods by the runtime `R`; records, volumes, logs and artifacts in one run directory,
/// which is for one flow.
///
/// Dropping it leaves its pods running; the next one that opens the directory finds them.
///
/// ```no_run
/// # async fn f() -> Result<(), orlop_core::error::Problem> {
/// # #[cfg(all(feature = "docker", feature = "artifact"))] {
/// use std::sync::Arc;
/// use orlop_cloud::artifact::{CasStore, Limits};
/// use orlop_cloud::runtime::docker::{DockerOptions, DockerRuntime};
/// use orlop_cloud::runtime::local::{LocalOptions, LocalPorts, LocalSubstrate};
/// let runtime = Arc::new(DockerRuntime::connect(DockerOptions::default()).await?);
/// let store = Arc::new(CasStore::open("/srv/run-1", Limits::default())?);
/// let substrate = LocalSubstrate::open(runtime, LocalOptions::new("/srv/run-1"), LocalPorts::new(store))?;
/// # drop(substrate);
/// # }
/// # Ok(()) }
/// ```
pub struct LocalSubstrate<R: PodRuntime + ?Sized> {
    inner: Arc<Inner<R>>,
    /// Held as long as this process works on the directory.
    _lock: File,
}

/// What a task follows.
enum Target {
    /// An attempt that is to exist, created if it does not.
    Ensure(Box<AttemptSpec>, Box<JobTemplate>),
    /// An attempt of which there must be a trace.
    Existing,
}

/// What became of an order.
enum Ordered {
    /// The attempt has it.
    Given,
    /// The attempt had ended.
    Ended,
    /// There is no such attempt.
    Nothing,
}

impl<R: PodRuntime + ?Sized> LocalSubstrate<R> {
    /// Opens a run directory, which is made where it is missing. Needs a tokio runtime with time when it is used.
    ///
    /// # Errors
    /// Conflict when another process works on the directory; Denied, Capacity or Transient as the file system says.
    pub fn open(runtime: Arc<R>, mut options: LocalOptions, ports: LocalPorts) -> Result<Self, Problem> {
        fs::create_dir_all(&options.run_dir)?;
        // Pods see absolute paths, wherever they are started.
        options.run_dir = fs::canonicalize(&options.run_dir)?;
        if let Some(memory) = &options.memory_dir
            && let Err(error) = memory::secure(&memory::top(memory, &options.run_dir))
        {
            tracing::warn!(%error, "files that should be kept in memory are on disk");
            options.memory_dir = None;
        }
        let inner = Inner::new(runtime, options, ports);
        let layout = &inner.layout;
        for directory in [layout.attempts(), layout.volumes(), layout.config_maps(), layout.resources()] {
            fs::create_dir_all(directory)?;
        }
        let lock = File::create(layout.lock())?;
        lock.try_lock().map_err(|error| match error {
            fs::TryLockError::WouldBlock => {
                let message = format!("{} is in use by another process", inner.options.run_dir.display());
                Problem::new(Class::Conflict, message)
            }
            fs::TryLockError::Error(error) => error.into(),
        })?;
        if let Err(error) = removed(fs::remove_dir_all(layout.trash())) {
            tracing::warn!(
                error = undeletable(&layout.trash(), error).chain(),
                "something is left of earlier attempts"
            );
        }
        Ok(Self { inner: Arc::new(inner), _lock: lock })
    }

    /// The task that follows an attempt, spawned where there is none.
    fn follow(&self, key: &AttemptKey, target: Target) -> Live {
        let mut live = self.inner.live();
        if let Some(known) = live.get(key) {
            return known.clone();
        }
        self.inner.reports.close(key);
        let (commands, orders) = mpsc::unbounded_channel();
        let (answer, answered) = watch::channel(None);
        let task = tokio::spawn(follow(self.inner.clone(), key.clone(), target, answer, orders));
        let new = Live { commands, answer: answered, task: task.abort_handle() };
        live.insert(key.clone(), new.clone());
        new
    }

    /// Has an attempt followed and lets its end through.
    async fn attend(&self, key: &AttemptKey, target: Target) -> Result<ObjectReference, Problem> {
        let mut live = self.follow(key, target);
        let answer = live.answer.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone());
        let answer = answer.unwrap_or_else(|| {
            Err(Problem::new(Class::Transient, format!("attempt {key} is not followed any more")))
        })?;
        self.inner.reports.open(key);
        Ok(answer)
    }

    /// Writes down that an attempt nobody follows is to end, so that who takes it up creates nothing for it.
    async fn condemn(&self, key: &AttemptKey, grace: Option<Duration>) -> Result<(), Problem> {
        let (path, now) = (self.inner.layout.attempt(key)?.control(), self.inner.now());
        blocking(move || {
            let mut control = read::<Control>(&path)?.unwrap_or_default();
            control.cancel = Some(CancelOrder::new(control.cancel, now, grace));
            write(&path, &control)
        })
        .await
    }

    /// Gives an attempt an order; `ending` is the grace of one to end.
    async fn order(
        &self,
        key: &AttemptKey,
        ending: Option<Option<Duration>>,
        command: impl FnOnce(oneshot::Sender<Result<(), Problem>>) -> Command,
    ) -> Result<Ordered, Problem> {
        let followed = self.inner.live().get(key).cloned();
        let live = match followed {
            Some(live) => live,
            None => {
                let dir = self.inner.layout.attempt(key)?;
                let known = blocking(move || Ok((dir.attempt().exists(), dir.end().exists()))).await?;
                match known {
                    (false, _) => return Ok(Ordered::Nothing),
                    (true, true) => return Ok(Ordered::Ended),
                    (true, false) => {
                        if let Some(grace) = ending {
                            self.condemn(key, grace).await?;
                        }
                        self.follow(key, Target::Existing)
                    }
                }
            }
        };
        let (reply, replied) = oneshot::channel();
        // If the task has ended, nothing is replied.
        drop(live.commands.send(command(reply)));
        match replied.await {
            Ok(answer) => answer.map(|()| Ordered::Given),
            Err(_) => self.after_the_end(key).await,
        }
    }

    /// What became of an order to an attempt whose task ended when the order came: it ended, or was refused.
    async fn after_the_end(&self, key: &AttemptKey) -> Result<Ordered, Problem> {
        let dir = self.inner.layout.attempt(key)?;
        let (exists, has_ended) = blocking(move || Ok((dir.attempt().exists(), dir.end().exists()))).await?;
        if has_ended {
            // Its end is on its way.
            return Ok(Ordered::Given);
        }
        if !exists && !self.inner.live().contains_key(key) {
            return Ok(Ordered::Nothing);
        }
        Err(Problem::new(Class::Transient, format!("attempt {key} is not followed at this moment")))
    }
}

impl<R: PodRuntime + ?Sized> Drop for LocalSubstrate<R> {
    fn drop(&mut self) {
        for live in self.inner.live().values() {
            live.task.abort();
        }
        // Stays where pods still have something in it.
        drop(self.inner.layout.memory().map(fs::remove_dir));
    }
}

/// Follows an attempt: reads what is known of it, creates it if it is to exist, and drives it to its end.
async fn follow<R: PodRuntime + ?Sized>(
    inner: Arc<Inner<R>>,
    key: AttemptKey,
    target: Target,
    answer: watch::Sender<Option<Answer>>,
    commands: mpsc::UnboundedReceiver<Command>,
) {
    match take_up(&inner, &key, target).await {
        Ok(AttemptLookup::Attempt(attempt, known)) => Driver::new(attempt, known, answer, commands).run().await,
        Ok(AttemptLookup::Nothing) => {
            inner.live().remove(&key);
            answer.send_replace(Some(Ok(ObjectReference::default())));
            inner.reports.deliver(&key, AttemptEnd::without_job(EndResult::Lost, inner.now()));
        }
        Ok(AttemptLookup::Ended(known)) => {
            inner.live().remove(&key);
            answer.send_replace(Some(Ok(known.accepted.unwrap_or_default())));
            if let Some(end) = known.end {
                inner.reports.deliver(&key, end);
            }
        }
        Err(error) => {
            inner.live().remove(&key);
            answer.send_replace(Some(Err(error)));
        }
    }
}

/// What there is of an attempt.
enum AttemptLookup<R: ?Sized> {
    Attempt(Arc<Attempt<R>>, AttemptTrace),
    Ended(AttemptTrace),
    Nothing,
}

async fn take_up<R: PodRuntime + ?Sized>(
    inner: &Arc<Inner<R>>,
    key: &AttemptKey,
    target: Target,
) -> Result<AttemptLookup<R>, Problem> {
    let dir = inner.layout.attempt(key)?;
    let place = dir.clone();
    let mut known = blocking(move || load(&place)).await?;
    if known.end.is_some() {
        return Ok(AttemptLookup::Ended(known));
    }
    let is_new = known.accepted.is_none() && !known.has_run;
    let (record, template) = match (target, known.record.take()) {
        (Target::Ensure(spec, template), record) if record.is_none() || is_new => {
            // Who finds no room asks again and again: nothing is looked for or written before there is.
            let first = PodKey { attempt: key.clone(), pod: 0 };
            let reserves = known.pods.is_empty();
            if reserves && inner.ledger.try_take(&first, template.pod.request()).is_none() {
                return Err(no_room());
            }
            let record = begin(inner, *spec, &dir).await;
            if reserves && record.is_err() {
                inner.ledger.release(&first);
            }
            (record?, *template)
        }
        (_, Some(record)) => {
            let template = adopted(&record, &inner.options)?;
            (record, template)
        }
        (_, None) => return Ok(AttemptLookup::Nothing),
    };
    let AttemptRecord { spec, started_at, .. } = record;
    Ok(AttemptLookup::Attempt(Arc::new(Attempt { inner: inner.clone(), spec, template, dir, started_at }), known))
}

/// Checks what an attempt needs and writes down that it exists.
async fn begin<R: PodRuntime + ?Sized>(
    inner: &Arc<Inner<R>>,
    spec: AttemptSpec,
    dir: &AttemptDir,
) -> Result<AttemptRecord, Problem> {
    check(inner, &spec.inputs).await?;
    let backoff_default = inner.options.policy.backoff_default;
    let record = AttemptRecord { spec, started_at: inner.now(), backoff_default };
    let (creator, place) = (inner.clone(), dir.clone());
    blocking(move || create(&creator.layout, &place, record)).await
}

/// The template of an attempt that exists. What was allowed when it was created is not asked again.
fn adopted(record: &AttemptRecord, options: &LocalOptions) -> Result<JobTemplate, Problem> {
    let everything = TemplatePolicy {
        allow_privileged: true,
        allow_host_path: vec!["/".into()],
        backoff_default: record.backoff_default,
        folder: options.policy.folder.clone(),
    };
    JobTemplate::read(&record.spec.template, &everything)
}

#[async_trait]
impl<R: PodRuntime + ?Sized> Substrate for LocalSubstrate<R> {
    async fn ensure_resources(
        &self,
        owner: &FlowOwner,
        templates: &ResourceTemplates,
    ) -> Result<Vec<ObjectReference>, Problem> {
        let (inner, owner, templates) = (self.inner.clone(), owner.clone(), templates.clone());
        blocking(move || resources::ensure(&inner.layout, &owner, &templates)).await
    }

    async fn start(&self, spec: AttemptSpec) -> Result<ObjectReference, Problem> {
        let key = spec.key.clone();
        let template = JobTemplate::read(&spec.template, &self.inner.options.policy)?;
        self.inner.options.machine.check(&template.pod.request())?;
        self.attend(&key, Target::Ensure(Box::new(spec), Box::new(template))).await
    }

    async fn adopt(&self, spec: AttemptSpec) -> Result<(), Problem> {
        self.attend(&spec.key, Target::Existing).await.map(drop)
    }

    async fn cancel(&self, key: &AttemptKey, grace: Option<Duration>) -> Result<(), Problem> {
        match self.order(key, Some(grace), |reply| Command::Cancel(grace, reply)).await? {
            Ordered::Given => self.inner.reports.open(key),
            Ordered::Ended => drop(self.attend(key, Target::Existing).await?),
            Ordered::Nothing => {
                self.inner.reports.deliver(key, AttemptEnd::without_job(EndResult::Cancelled, self.inner.now()));
                self.inner.reports.open(key);
            }
        }
        Ok(())
    }

    async fn release(&self, key: &AttemptKey) -> Result<(), Problem> {
        if let Some(live) = self.inner.live().get(key) {
            // An error means that it has ended.
            drop(live.commands.send(Command::Release));
        }
        Ok(())
    }

    async fn suspend(&self, key: &AttemptKey) -> Result<(), Problem> {
        self.order(key, None, |reply| Command::Freeze(true, reply)).await.map(drop)
    }

    async fn resume(&self, key: &AttemptKey) -> Result<(), Problem> {
        self.order(key, None, |reply| Command::Freeze(false, reply)).await.map(drop)
    }

    async fn forget(&self, key: &AttemptKey) -> Result<(), Problem> {
        if self.inner.live().contains_key(key) {
            let message = format!("attempt {key} has not ended; cancel it first");
            return Err(Problem::new(Class::Conflict, message));
        }
        let dir = self.inner.layout.attempt(key)?;
        let place = dir.clone();
        let known = blocking(move || load(&place)).await?;
        for pod in &known.pods {
            let pod_key = PodKey { attempt: key.clone(), pod: pod.record.number };
            self.inner.runtime.remove(&pod_key, &dir.pod(pod.record.number).runtime).await?;
        }
        let inner = self.inner.clone();
        blocking(move || discard(&inner.layout, &dir)).await
    }

    async fn list(&self, flow: &str) -> Result<Vec<AttemptKey>, Problem> {
        let attempts = self.inner.layout.attempts().join(flow);
        let flow = flow.to_owned();
        blocking(move || {
            let mut keys = Vec::new();
            for instance in children(&attempts)? {
                for attempt in children(&instance)? {
                    if let Some(record) = read::<AttemptRecord>(&attempt.join("attempt.json"))? {
                        keys.push(record.spec.key);
                    }
                }
            }
            keys.retain(|key| *key.flow == flow);
            keys.sort();
            Ok(keys)
        })
        .await
    }

    async fn next(&self) -> AttemptReport {
        self.inner.reports.next().await
    }

    async fn next_delay(&self) -> AttemptDelay {
        self.inner.reports.next_delay().await
    }
}

/// What is in a directory; nothing when there is none.
fn children(directory: &std::path::Path) -> Result<Vec<std::path::PathBuf>, Problem> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error.into()),
    };
    entries.map(|entry| Ok(entry?.path())).collect()
}
