//! The substrate whose attempts are functions of this program. Owns which of them run and how they ended; keeps nothing after
//! the program has ended: what ran then is lost, and the engine starts the next attempt.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use orlop_core::attempt::{
    AttemptEnd, AttemptKey, AttemptSpec, ContainerEnd, EndResult, FunctionInput, OutputFile, PodEnd,
};
use orlop_core::error::{Class, Problem};
use orlop_core::ports::clock::Clock as _;
use orlop_core::ports::substrate::{AttemptReport, FlowOwner, Substrate};
use orlop_core::spec::flow::ResourceTemplates;
use orlop_core::spec::meta::ObjectReference;
use orlop_dag::engine::PERMANENT;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, JoinError, JoinHandle};
use tracing::Instrument as _;

use super::error::StepError;
use crate::host::flow::SystemClock;

/// How long functions may take to end that are no longer wanted.
const STOPPING: Duration = Duration::from_secs(10);

/// A function that runs, as long as this lives.
struct Counted(watch::Sender<usize>);

impl Counted {
    fn new(running: &watch::Sender<usize>) -> Self {
        running.send_modify(|running| *running += 1);
        Self(running.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running = running.saturating_sub(1));
    }
}

/// The context of an attempt: its idempotency key, its number, and whether it should end.
#[derive(Clone, Debug)]
pub struct StepContext {
    key: AttemptKey,
    cancelled: watch::Receiver<bool>,
}

impl StepContext {
    /// The same text for each attempt of this step, or instance of a fan-out, of this flow: the idempotency key to hand to
    /// other services.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}", self.key.flow, self.key.instance())
    }

    /// Number of the attempt, from 1.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.key.attempt
    }

    /// Number of the item, from 0, where the step runs once for each.
    #[must_use]
    pub const fn index(&self) -> Option<u32> {
        self.key.item
    }

    /// Completes once the attempt should end, because its time limit is over or the flow is stopped. Its future is dropped after the
    /// [grace](super::Step::grace) of the step, at once without one.
    pub async fn cancelled(&self) {
        let mut cancelled = self.cancelled.clone();
        // Without its sender nobody can cancel it.
        if cancelled.wait_for(|cancelled| *cancelled).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The outputs of an attempt, as texts by their names.
pub type FunctionOutputs = BTreeMap<String, String>;

/// A function of a step.
pub(super) type Function =
    Arc<dyn Fn(StepContext, FunctionInput) -> BoxFuture<'static, Result<FunctionOutputs, StepError>> + Send + Sync>;

/// A function and how long it may take to end once it was asked to.
#[derive(Clone)]
struct Entry {
    function: Function,
    grace: Duration,
}

/// One attempt of a function.
struct Execution {
    step: Arc<str>,
    outputs: Vec<OutputFile>,
    cancel: watch::Sender<bool>,
    /// Lets it begin.
    begin: Option<oneshot::Sender<()>>,
    task: AbortHandle,
    end: Option<AttemptEnd>,
    /// Where its end is reported.
    watcher: UnboundedSender<AttemptReport>,
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Default)]
struct Executions {
    list: Mutex<BTreeMap<AttemptKey, Execution>>,
    /// How many functions run.
    running: watch::Sender<usize>,
}

impl Executions {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<AttemptKey, Execution>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self, key: &AttemptKey, outcome: Result<Result<FunctionOutputs, StepError>, JoinError>) {
        let mut executions = self.lock();
        let Some(execution) = executions.get_mut(key) else { return };
        let end = execution.end_of(outcome);
        execution.end = Some(end);
        execution.report(key);
    }
}

impl Execution {
    fn end_of(&self, outcome: Result<Result<FunctionOutputs, StepError>, JoinError>) -> AttemptEnd {
        let now = SystemClock.now();
        let cancelled = *self.cancel.borrow();
        match outcome {
            Ok(Ok(mut outputs)) => {
                let given = self.outputs.iter().filter_map(|file| Some((&file.name, outputs.remove(&file.name)?)));
                let end = given.fold(exited(AttemptEnd::succeeded(now), 0), |end, (name, text)| end.file(name, text));
                match outputs.into_keys().next() {
                    None => end,
                    Some(name) => failed(PERMANENT, &format!("the step declares no output `{name}`"), 1),
                }
            }
            // A cancelled function may return any error.
            Ok(Err(_)) if cancelled => AttemptEnd::without_job(EndResult::Cancelled, now),
            Ok(Err(error)) => {
                let reason = if error.is_permanent() { PERMANENT } else { "Error" };
                failed(reason, error.message(), error.exit_code())
            }
            Err(stopped) => match stopped.try_into_panic() {
                Ok(panic) => {
                    let message = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                    let message = message.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
                    // Dropping it may panic, too.
                    std::mem::forget(panic);
                    failed("Panicked", &format!("step `{}` panicked: {message}", self.step), 101)
                }
                Err(_) => AttemptEnd::without_job(EndResult::Cancelled, now),
            },
        }
    }

    fn report(&self, key: &AttemptKey) {
        if let Some(end) = &self.end {
            // A host that has gone hears of it when the next one asks.
            drop(self.watcher.send(AttemptReport { key: key.clone(), end: end.clone() }));
        }
    }
}

fn failed(reason: &str, message: &str, exit_code: i32) -> AttemptEnd {
    let container = ContainerEnd { name: "main".to_owned(), exit_code };
    let pod = PodEnd { containers: vec![container] };
    let end = AttemptEnd { failed_pods: vec![pod], ..AttemptEnd::failed(reason, message, SystemClock.now()) };
    exited(end, exit_code)
}

/// The same end, whose document names the exit code.
fn exited(mut end: AttemptEnd, exit_code: i32) -> AttemptEnd {
    if let Some(members) = end.document.as_object_mut() {
        members.insert("termination".to_owned(), serde_json::json!({ "exitCode": exit_code }));
    }
    end
}

/// A substrate that runs the steps of a flow as functions of this program, found by the name of the step.
///
/// [`Durable`](super::Durable) makes one for each flow. A [`FlowHost`](crate::host::flow::FlowHost) takes it as any other substrate:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use orlop::cloud::store::sqlite::{Access, SqliteJournal};
/// use orlop::core::spec::flow::{FlowSpec, JobFlow};
/// use orlop::core::spec::step::{OutputParameter, Step};
/// use orlop::durable::Functions;
/// use orlop::host::flow::{FlowHost, HostParts, Keep, Submission};
///
/// let mut functions = Functions::new();
/// functions.add("year", |_, _| async { Ok([("value".to_owned(), "2026".to_owned())].into()) });
/// let spec = FlowSpec::new([Step::new("year").output(OutputParameter::file("value", "/value"))]);
/// # let folder = std::env::temp_dir().join(format!("orlop-functions-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let journal = SqliteJournal::open(folder.join("flows.db"), Access::Host).await?;
/// let parts = HostParts::new(Arc::new(functions), Arc::new(journal));
/// // Ends of attempts are kept until then: nothing reads them once they are in the journal.
/// let parts = HostParts { keep: Keep::Nothing, ..parts };
/// let submission = Submission::new(JobFlow::new("calendar", spec), "calendar-1");
/// let mut host = FlowHost::submit(parts, submission, Vec::new()).await?;
/// host.run().await?;
/// assert_eq!(host.status().progress.summary, "1/1");
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(()) }
/// ```
pub struct Functions {
    entries: BTreeMap<String, Entry>,
    executions: Arc<Executions>,
    /// Whether attempts begin without waiting until that is written down: for the suite, which has no journal.
    at_once: bool,
    ends: UnboundedSender<AttemptReport>,
    reports: tokio::sync::Mutex<UnboundedReceiver<AttemptReport>>,
}

impl Default for Functions {
    fn default() -> Self {
        Self::new()
    }
}

impl Functions {
    /// No functions.
    #[must_use]
    pub fn new() -> Self {
        let (ends, reports) = unbounded_channel();
        let executions = Arc::new(Executions::default());
        let reports = tokio::sync::Mutex::new(reports);
        Self { entries: BTreeMap::new(), executions, at_once: false, ends, reports }
    }

    /// Adds the function of the step of this name. Its future is dropped as soon as it is to end.
    pub fn add<F, R>(&mut self, step: impl Into<String>, function: F)
    where
        F: Fn(StepContext, FunctionInput) -> R + Send + Sync + 'static,
        R: Future<Output = Result<FunctionOutputs, StepError>> + Send + 'static,
    {
        self.add_with_grace(step, Duration::ZERO, function);
    }

    /// The same for a function that has some time to end after [`StepContext::cancelled`].
    pub fn add_with_grace<F, R>(&mut self, step: impl Into<String>, grace: Duration, function: F)
    where
        F: Fn(StepContext, FunctionInput) -> R + Send + Sync + 'static,
        R: Future<Output = Result<FunctionOutputs, StepError>> + Send + 'static,
    {
        self.insert(step.into(), grace, Arc::new(move |context, input| Box::pin(function(context, input))));
    }

    pub(super) fn insert(&mut self, step: String, grace: Duration, function: Function) {
        self.entries.insert(step, Entry { function, grace });
    }

    /// The same functions for the next host of their flows in this program: it finds what runs.
    #[cfg(test)]
    pub(super) fn reconnect(&self) -> Self {
        let executions = Arc::clone(&self.executions);
        Self { entries: self.entries.clone(), executions, ..Self::new() }
    }

    #[cfg(test)]
    pub(super) fn begins_at_once(self) -> Self {
        Self { at_once: true, ..self }
    }

    /// Ends all of them and waits until none runs any more, for a while: one that blocks its thread cannot be ended.
    pub(super) async fn stop(&self) {
        let all = std::mem::take(&mut *self.executions.lock());
        // Each is aborted when it is dropped.
        drop(all);
        let mut running = self.executions.running.subscribe();
        if tokio::time::timeout(STOPPING, running.wait_for(|running| *running == 0)).await.is_err() {
            tracing::warn!(
                functions = *running.borrow(),
                "functions block their threads and go on though their flow is left"
            );
        }
    }

    fn prepare(&self, spec: AttemptSpec, entry: &Entry) -> Execution {
        let (cancel, cancelled) = watch::channel(false);
        let key = spec.key;
        let context = StepContext { key: key.clone(), cancelled };
        let span = tracing::info_span!("step", flow = %key.flow, step = key.instance(), attempt = key.attempt);
        let (function, input) = (Arc::clone(&entry.function), spec.function.unwrap_or_default());
        let (begin, begun) = oneshot::channel();
        let counted = Counted::new(&self.executions.running);
        // On a task of its own from its first line on: it may panic or take long there.
        let work = async move {
            let _counted = counted;
            // One that may never begin is aborted.
            if begun.await.is_err() {
                std::future::pending::<()>().await;
            }
            function(context, input).await
        };
        let task = tokio::spawn(work.instrument(span));
        let execution = Execution {
            step: Arc::clone(&key.step),
            outputs: spec.output_files,
            cancel,
            begin: Some(begin),
            task: task.abort_handle(),
            end: None,
            watcher: self.ends.clone(),
        };
        self.wait(key, task);
        execution
    }

    fn wait(&self, key: AttemptKey, task: JoinHandle<Result<FunctionOutputs, StepError>>) {
        let executions = Arc::downgrade(&self.executions);
        tokio::spawn(async move {
            let outcome = task.await;
            if let Some(executions) = executions.upgrade() {
                executions.ended(&key, outcome);
            }
        });
    }

    fn report(&self, key: &AttemptKey, result: EndResult) {
        let end = AttemptEnd::without_job(result, SystemClock.now());
        // The receiver lives as long as the sender: both are fields.
        drop(self.ends.send(AttemptReport { key: key.clone(), end }));
    }
}

#[async_trait]
impl Substrate for Functions {
    fn runs_functions(&self) -> bool {
        true
    }

    async fn ensure_resources(
        &self,
        _owner: &FlowOwner,
        templates: &ResourceTemplates,
    ) -> Result<Vec<ObjectReference>, Problem> {
        match templates.names().next() {
            None => Ok(Vec::new()),
            Some(name) => {
                let message =
                    format!("functions have no volumes and no ConfigMaps; remove the resource template `{name}`");
                Err(Problem::new(Class::Invalid, message))
            }
        }
    }

    async fn start(&self, spec: AttemptSpec) -> Result<ObjectReference, Problem> {
        let key = spec.key.clone();
        let reference = ObjectReference {
            kind: "Function".to_owned(),
            name: key.instance(),
            namespace: spec.namespace.clone(),
            ..ObjectReference::default()
        };
        let mut executions = self.executions.lock();
        if let Some(execution) = executions.get_mut(&key) {
            execution.watcher = self.ends.clone();
            execution.report(&key);
            return Ok(reference);
        }
        let Some(entry) = self.entries.get(&*key.step) else {
            let message = format!("there is no function for step `{}`; add one", key.step);
            return Err(Problem::new(Class::Invalid, message));
        };
        let execution = self.prepare(spec, entry);
        executions.insert(key.clone(), execution);
        drop(executions);
        if self.at_once {
            self.accepted(&key);
        }
        Ok(reference)
    }

    fn accepted(&self, key: &AttemptKey) {
        let begin = self.executions.lock().get_mut(key).and_then(|execution| execution.begin.take());
        if let Some(begin) = begin {
            // It may have been cancelled.
            let _ = begin.send(());
        }
    }

    async fn adopt(&self, spec: AttemptSpec) -> Result<(), Problem> {
        match self.executions.lock().get_mut(&spec.key) {
            Some(execution) => {
                execution.watcher = self.ends.clone();
                execution.report(&spec.key);
            }
            // It ran in a program that has ended.
            None => self.report(&spec.key, EndResult::Lost),
        }
        Ok(())
    }

    async fn cancel(&self, key: &AttemptKey, grace: Option<Duration>) -> Result<(), Problem> {
        let mut executions = self.executions.lock();
        let Some(execution) = executions.get_mut(key) else {
            self.report(key, EndResult::Cancelled);
            return Ok(());
        };
        execution.watcher = self.ends.clone();
        if execution.end.is_some() {
            execution.report(key);
            return Ok(());
        }
        execution.cancel.send_replace(true);
        let own = self.entries.get(&*key.step).map(|entry| entry.grace).unwrap_or_default();
        let (grace, task) = (grace.unwrap_or(own), execution.task.clone());
        if grace.is_zero() {
            task.abort();
            return Ok(());
        }
        tokio::spawn(async move {
            tokio::time::sleep(grace).await;
            task.abort();
        });
        Ok(())
    }

    async fn suspend(&self, key: &AttemptKey) -> Result<(), Problem> {
        let message = format!("step `{}` is a function, and its clock cannot be stopped", key.step);
        Err(Problem::new(Class::Invalid, message))
    }

    async fn resume(&self, _key: &AttemptKey) -> Result<(), Problem> {
        Ok(())
    }

    async fn forget(&self, key: &AttemptKey) -> Result<(), Problem> {
        self.executions.lock().remove(key);
        Ok(())
    }

    async fn list(&self, flow: &str) -> Result<Vec<AttemptKey>, Problem> {
        Ok(self.executions.lock().keys().filter(|key| &*key.flow == flow).cloned().collect())
    }

    async fn next(&self) -> AttemptReport {
        match self.reports.lock().await.recv().await {
            Some(report) => report,
            // The sender is a field.
            None => std::future::pending().await,
        }
    }
}
