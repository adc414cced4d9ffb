//! The task that follows an attempt: it asks the Job's rules what is next and keeps a task for each live pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use orlop_core::error::{Class, Problem};
use orlop_core::ports::substrate::{AttemptDelay, DelayCause};
use orlop_core::spec::meta::ObjectReference;
use orlop_core::spec::status::WaitsOn;
use orlop_core::time::Time;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};

use super::attempt::{Answer, Attempt, Command};
use super::life::{Ended, Life, News, Orders, Patience, PodNews};
use super::load::{AttemptTrace, discard};
use super::records::{CancelOrder, Control, PodIntent, write};
use super::retry::keep;
use crate::runtime::blocking::blocking;
use crate::runtime::job::decide::{Decision, JobState, PodStart, decide};
use crate::runtime::job::rules::PodRecord;
use crate::runtime::pod::{PodExit, PodHandle, PodResult, PodRuntime};

/// How long the host waits before it asks again for a start there is no room for, when no attempt ends before.
const NO_ROOM: Duration = Duration::from_secs(15);

/// An attempt and the tasks of its pods.
pub(super) struct Driver<R: ?Sized> {
    pub(super) attempt: Arc<Attempt<R>>,
    pub(super) control: Control,
    pub(super) pods: BTreeMap<u32, PodIntent>,
    accepted: bool,
    answer: watch::Sender<Option<Answer>>,
    pub(super) commands: mpsc::UnboundedReceiver<Command>,
    orders: watch::Sender<Orders>,
    running: BTreeSet<u32>,
    /// Pods that an earlier host started and that were not seen to run yet.
    adopted: BTreeSet<u32>,
    lives: JoinSet<Ended>,
    news: (mpsc::UnboundedSender<PodNews>, mpsc::UnboundedReceiver<PodNews>),
    /// Why no pod of it runs yet, and since when.
    delay: Option<(DelayCause, Time)>,
    /// Whether an earlier host may know already that it waits.
    reported_before: bool,
    /// Whether somebody has confirmed that nothing of it runs any more.
    released: bool,
}

/// What becomes of the records of a refused attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trace {
    /// The pod may exist: the next try finds it.
    Kept,
    /// There is nothing to find.
    Removed,
}

/// What a driver hears next.
enum Heard {
    Command(Command),
    News(u32, News),
    Ended(Result<Ended, JoinError>),
    Time,
}

impl<R: PodRuntime + ?Sized> Driver<R> {
    pub(super) fn new(
        attempt: Arc<Attempt<R>>,
        known: AttemptTrace,
        answer: watch::Sender<Option<Answer>>,
        commands: mpsc::UnboundedReceiver<Command>,
    ) -> Self {
        let accepted = known.accepted.is_some();
        if let Some(reference) = known.accepted {
            answer.send_replace(Some(Ok(reference)));
        }
        let frozen = known.control.pauses.is_paused();
        Self {
            adopted: known.pods.iter().map(|intent| intent.record.number).collect(),
            attempt,
            control: known.control,
            pods: known.pods.into_iter().map(|intent| (intent.record.number, intent)).collect(),
            accepted,
            answer,
            commands,
            orders: watch::Sender::new(Orders { stop: None, frozen }),
            running: BTreeSet::new(),
            lives: JoinSet::new(),
            news: mpsc::unbounded_channel(),
            delay: None,
            reported_before: accepted,
            released: false,
        }
    }

    /// Follows the attempt until its end is written down and on its way to the host.
    pub(super) async fn run(mut self) {
        // Before any pod is taken up, so that none is created only to be ended.
        if self.decide().verdict.is_some() || self.control.cancel.is_some() {
            self.stop();
        }
        self.take_up();
        // Artifacts may take long to come: the attempt exists, and can be cancelled, from here on.
        if !self.accepted && !self.attempt.spec.inputs.is_empty() {
            self.accept(None).await;
        }
        loop {
            let mut decision = self.decide();
            if self.released {
                self.lives.shutdown().await;
                return self.finish(None).await;
            }
            if decision.verdict.is_some() || self.control.cancel.is_some() {
                self.stop();
                if self.lives.is_empty() {
                    return self.finish(decision.verdict).await;
                }
                decision.wake = None;
            } else if let Err(error) = self.start(&decision).await {
                // The runtime was asked for nothing yet.
                let trace = if self.pods.is_empty() { Trace::Removed } else { Trace::Kept };
                return self.refuse(error, trace).await;
            }
            let heard = self.hear(decision.wake).await;
            if let Some(error) = self.handle(heard).await {
                let trace = if error.class.is_retryable() { Trace::Kept } else { Trace::Removed };
                return self.refuse(error, trace).await;
            }
        }
    }

    /// Follows the pods an earlier process left.
    fn take_up(&mut self) {
        let left: Vec<PodIntent> = self.pods.values().filter(|pod| pod.record.exit.is_none()).cloned().collect();
        let request = self.attempt.template.pod.request();
        for intent in left {
            let key = self.attempt.pod_key(intent.record.number);
            self.attempt.inner.ledger.enter(&key, request, intent.gpus.clone());
            self.live(intent);
        }
    }

    fn live(&mut self, intent: PodIntent) {
        let patience = if self.accepted { Patience::Persist } else { Patience::Ask };
        let orders = self.orders.subscribe();
        let life = Life::new(self.attempt.clone(), intent, orders, self.news.0.clone(), patience);
        self.lives.spawn(life.run());
    }

    fn decide(&self) -> Decision {
        let pods: Vec<&PodRecord> = self.pods.values().map(|intent| &intent.record).collect();
        let state = JobState {
            rules: &self.attempt.template.rules,
            started_at: self.attempt.started_at,
            clock: &self.control.pauses,
            pods: &pods,
        };
        // Nothing that happens by time happens to an attempt that was cancelled before.
        let now = self.attempt.inner.now();
        decide(&state, self.control.cancel.map_or(now, |cancel| cancel.at.min(now)))
    }

    /// Starts what is to start. Until the host has its answer that is one pod, whose errors are the answer.
    async fn start(&mut self, decision: &Decision) -> Result<(), Problem> {
        let inner = self.attempt.inner.clone();
        let request = self.attempt.template.pod.request();
        for start in &decision.start {
            if !self.accepted && !self.lives.is_empty() {
                return Ok(());
            }
            let intent = self.intent(*start, decision.restarts_left);
            if !self.accepted && inner.ledger.try_take(&self.attempt.pod_key(start.number), request).is_none() {
                return Err(no_room());
            }
            self.pods.insert(start.number, intent.clone());
            self.live(intent);
        }
        if !self.accepted && self.lives.is_empty() {
            self.accept(None).await;
        }
        Ok(())
    }

    fn intent(&self, start: PodStart, restart_limit: u32) -> PodIntent {
        let created_at = self.attempt.inner.now();
        let record = PodRecord { number: start.number, index: start.index, created_at, exit: None };
        PodIntent { record, gpus: Vec::new(), restart_limit }
    }

    async fn hear(&mut self, wake: Option<Time>) -> Heard {
        let wake = wake.map(|wake| wake.since(self.attempt.inner.now()));
        let due = tokio::time::sleep(wake.unwrap_or_default());
        tokio::select! {
            biased;
            Some(command) = self.commands.recv() => Heard::Command(command),
            // Before its end: a pod says that it runs before it says that it ended.
            Some((number, news)) = self.news.1.recv() => Heard::News(number, news),
            Some(ended) = self.lives.join_next(), if !self.lives.is_empty() => Heard::Ended(ended),
            () = due, if wake.is_some() => Heard::Time,
        }
    }

    /// Takes in what was heard; an error is the answer to the host's start.
    async fn handle(&mut self, heard: Heard) -> Option<Problem> {
        match heard {
            Heard::Time => {}
            Heard::Command(command) => self.obey(command).await,
            Heard::News(number, News::Started(handle)) => self.has_started(number, handle).await,
            Heard::News(_, News::Delayed(cause)) => self.is_delayed(Some(cause)),
            Heard::News(_, News::Reached) => self.is_delayed(None),
            Heard::Ended(Ok((number, Ok(exit)))) => self.has_ended(number, exit),
            Heard::Ended(Ok((number, Err(error)))) => {
                self.pods.remove(&number);
                // Who cancelled it has the answer already, and waits for its end.
                return Some(error).filter(|_| self.control.cancel.is_none());
            }
            Heard::Ended(Err(error)) => {
                tracing::error!(attempt = %self.attempt.spec.key, %error, "the task of a pod was interrupted");
                self.lives.abort_all();
                let ended_at = self.attempt.inner.now();
                let lost = PodExit { result: PodResult::Lost, containers: Vec::new(), started_at: None, ended_at };
                for pod in self.pods.values_mut() {
                    pod.record.exit.get_or_insert(lost.clone());
                }
            }
        }
        None
    }

    /// Carries out an order and answers it; who gave it may be gone.
    pub(super) async fn obey(&mut self, command: Command) {
        match command {
            Command::Cancel(grace, reply) => {
                self.cancel(grace).await;
                let _ = reply.send(Ok(()));
            }
            Command::Freeze(on, reply) => {
                let _ = reply.send(self.freeze(on).await);
            }
            Command::Release => self.released = true,
        }
    }

    async fn has_started(&mut self, number: u32, handle: PodHandle) {
        self.running.insert(number);
        self.is_delayed(None);
        let frozen = self.orders.borrow().frozen;
        // The pod's own task does the same and insists; this is for an order that came between its two looks. A pod of an
        // earlier host may stand still, and the order to let it go may have come before it was seen to run.
        let orders = frozen | self.adopted.remove(&number);
        if orders && let Err(error) = self.set_frozen(number, frozen).await {
            let pod = self.attempt.pod_key(number);
            tracing::warn!(%pod, frozen, error = error.chain(), "suspending or resuming a pod failed");
        }
        if !self.accepted {
            self.accept(Some(handle)).await;
        }
    }

    /// A pod cannot be started yet or not be watched now, or one runs. Reported where that is new; that a pod cannot be
    /// started only where none runs.
    fn is_delayed(&mut self, cause: Option<DelayCause>) {
        let known = self.delay.as_ref().map(|(cause, _)| cause);
        let new = known != cause.as_ref() || self.reported_before;
        let starts = cause.as_ref().is_some_and(|cause| cause.on == WaitsOn::FirstPod);
        if !new || starts && !self.running.is_empty() {
            return;
        }
        self.reported_before = false;
        let now = self.attempt.inner.now();
        let since = self.delay.take().map_or(now, |(_, since)| since);
        self.delay = cause.clone().map(|cause| (cause, since));
        let since = if cause.is_some() { since } else { now };
        self.attempt.inner.reports.delay(AttemptDelay { key: self.attempt.spec.key.clone(), cause, since });
    }

    fn has_ended(&mut self, number: u32, exit: PodExit) {
        self.running.remove(&number);
        if let Some(pod) = self.pods.get_mut(&number) {
            pod.record.exit = Some(exit);
        }
    }

    async fn cancel(&mut self, grace: Option<Duration>) {
        self.control.cancel = Some(CancelOrder::new(self.control.cancel, self.attempt.inner.now(), grace));
        // The host repeats the order after a crash, so a full disk need not keep anything running.
        if let Err(error) = self.write_control().await {
            tracing::warn!(attempt = %self.attempt.spec.key, error = error.chain(), "a cancellation is not written down");
        }
        self.stop();
    }

    async fn freeze(&mut self, on: bool) -> Result<(), Problem> {
        let now = self.attempt.inner.now();
        let before = self.control.pauses.clone();
        if on {
            self.control.pauses.pause(now);
        } else {
            self.control.pauses.go_on(now);
        }
        if let Err(error) = self.write_control().await {
            self.control.pauses = before;
            return Err(error);
        }
        self.orders.send_modify(|orders| orders.frozen = on);
        let mut trouble = None;
        for number in &self.running {
            if let Err(error) = self.set_frozen(*number, on).await {
                trouble.get_or_insert(error);
            }
        }
        let Some(error) = trouble else { return Ok(()) };
        if on {
            // An attempt stands still as a whole or runs on as a whole, its clock with it.
            self.orders.send_modify(|orders| orders.frozen = false);
            self.control.pauses = before;
            for number in &self.running {
                if let Err(error) = self.set_frozen(*number, false).await {
                    tracing::warn!(pod = %self.attempt.pod_key(*number), error = error.chain(), "a pod stays suspended");
                }
            }
            self.write_control().await?;
        }
        Err(error)
    }

    async fn set_frozen(&self, number: u32, on: bool) -> Result<(), Problem> {
        let directory = self.attempt.dir.pod(number).runtime;
        self.attempt.inner.runtime.freeze(&self.attempt.pod_key(number), &directory, on).await
    }

    async fn write_control(&self) -> Result<(), Problem> {
        let (path, record) = (self.attempt.dir.control(), self.control.clone());
        blocking(move || write(&path, &record)).await
    }

    /// Tells all pods to end.
    fn stop(&self) {
        let ordered = self.control.cancel.and_then(|cancel| cancel.grace_millis).map(Duration::from_millis);
        let grace = ordered.unwrap_or(self.attempt.template.pod.grace);
        self.orders.send_if_modified(|orders| orders.stop.replace(grace) != Some(grace));
    }

    /// Writes down and answers that the attempt exists.
    pub(super) async fn accept(&mut self, handle: Option<PodHandle>) {
        if self.accepted {
            return;
        }
        let spec = &self.attempt.spec;
        let handle = handle.unwrap_or_else(|| PodHandle { name: spec.job_name.clone(), id: String::new() });
        let reference = ObjectReference {
            api_version: String::new(),
            kind: self.attempt.inner.runtime.kind(self.attempt.template.pod.main.image.as_deref()).to_owned(),
            name: handle.name,
            namespace: spec.namespace.clone(),
            uid: handle.id,
        };
        let path = self.attempt.dir.accepted();
        keep("that an attempt exists", path, reference.clone()).await;
        self.accepted = true;
        self.answer.send_replace(Some(Ok(reference)));
    }

    /// Gives back what its pods have of the machine, and what was kept for the first one.
    pub(super) fn give_back(&self) {
        for number in self.pods.keys().chain([&0]) {
            self.attempt.inner.ledger.release(&self.attempt.pod_key(*number));
        }
    }

    /// Answers that the attempt does not exist.
    async fn refuse(mut self, error: Problem, trace: Trace) {
        let inner = self.attempt.inner.clone();
        self.lives.shutdown().await;
        self.give_back();
        if trace == Trace::Removed {
            let (inner, dir) = (inner.clone(), self.attempt.dir.clone());
            if let Err(error) = blocking(move || discard(&inner.layout, &dir)).await {
                tracing::warn!(attempt = %self.attempt.spec.key, error = error.chain(), "a refused attempt stays listed");
            }
        }
        inner.live().remove(&self.attempt.spec.key);
        self.answer.send_replace(Some(Err(error)));
    }
}

/// The answer to a start there is no room for.
pub(super) fn no_room() -> Problem {
    let message = "other steps have what this one asks for of the machine's CPU, memory or GPUs";
    Problem::new(Class::Capacity, message).with_reason("Throttled").retry_after(NO_ROOM)
}
