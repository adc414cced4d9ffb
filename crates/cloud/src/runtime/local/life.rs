//! One pod from its creation to its end. Owns the order of its records: intent, prepared, started, exit, each written
//! before or after the act it stands for as a crash demands; what its end means is the Job's.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use orlop_core::error::{Class, Problem};
use orlop_core::ports::substrate::DelayCause;
use orlop_core::spec::status::WaitsOn;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::attempt::Attempt;
use super::deliver::deliver;
use super::layout::PodDir;
use super::records::{PodIntent, read, write};
use super::retry::{insist, keep};
use crate::retry::delay;
use crate::runtime::blocking::blocking;
use crate::runtime::plan::env::Missing;
use crate::runtime::pod::{PodExit, PodHandle, PodKey, PodResult, PodRuntime};

/// How long the start of a pod is tried that may come to work.
const START_BUDGET: Duration = Duration::from_secs(600);
/// After its grace, how long a pod that is to end may go on before it is asked again.
const TOLD_AGAIN: Duration = Duration::from_secs(10);
/// A watch of a pod that has lasted so long reaches what runs it.
const REACHED_AFTER: Duration = Duration::from_secs(5);
/// Tries of a suspension before the pod is left running.
const SUSPEND_TRIES: u32 = 8;

/// What all pods of an attempt are asked to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Orders {
    /// To end, and be killed after this grace.
    pub(super) stop: Option<Duration>,
    /// To stand still.
    pub(super) frozen: bool,
}

/// What becomes of an error before a pod has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// It is the answer to the host's start.
    Ask,
    /// It is tried again where that can help, and fails the pod otherwise.
    Persist,
}

/// What is heard of a pod before it ends.
pub(super) enum News {
    /// It began to run.
    Started(PodHandle),
    /// It cannot be started yet, or what runs it cannot be reached now.
    Delayed(DelayCause),
    /// What runs it is reached again.
    Reached,
}

/// The same with the number of the pod.
pub(super) type PodNews = (u32, News);

/// The end of a pod's task: its number and how the pod ended, or why it could not be created.
pub(super) type Ended = (u32, Result<PodExit, Problem>);

/// A pod as it is followed.
pub(super) struct Life<R: ?Sized> {
    attempt: Arc<Attempt<R>>,
    intent: PodIntent,
    key: PodKey,
    dir: PodDir,
    orders: watch::Receiver<Orders>,
    news: mpsc::UnboundedSender<PodNews>,
    patience: Patience,
}

/// How far a pod came.
enum Begun {
    Running(PodHandle),
    /// It was asked to end before it ran.
    Stopped,
    /// It was asked to end while it was unknown whether it runs.
    Unclear,
}

impl<R: PodRuntime + ?Sized> Life<R> {
    pub(super) fn new(
        attempt: Arc<Attempt<R>>,
        intent: PodIntent,
        orders: watch::Receiver<Orders>,
        news: mpsc::UnboundedSender<PodNews>,
        patience: Patience,
    ) -> Self {
        let number = intent.record.number;
        Self { key: attempt.pod_key(number), dir: attempt.dir.pod(number), attempt, intent, orders, news, patience }
    }

    /// Follows the pod to its end, which is written down when this returns.
    pub(super) async fn run(mut self) -> Ended {
        let number = self.intent.record.number;
        let end = self.follow().await;
        self.attempt.inner.ledger.release(&self.key);
        (number, end)
    }

    async fn follow(&mut self) -> Result<PodExit, Problem> {
        let exit = match self.begin().await {
            Ok(Begun::Running(handle)) => {
                self.tell(News::Started(handle));
                self.suspend().await;
                self.wait().await
            }
            // Without a directory nothing was prepared, and there is nothing to write its end to.
            Ok(Begun::Stopped) if !self.dir.runtime.exists() => return Ok(self.ended(PodResult::Cancelled)),
            Ok(Begun::Stopped) => self.ended(PodResult::Cancelled),
            Ok(Begun::Unclear) => match self.wait().await {
                exit if exit.result == PodResult::Lost => self.ended(PodResult::Cancelled),
                exit => exit,
            },
            Err(error) if self.patience == Patience::Ask => return Err(error),
            Err(error) => self.ended(failure(&error)),
        };
        keep("the end of a pod", self.dir.exit(), exit.clone()).await;
        Ok(exit)
    }

    fn tell(&self, news: News) {
        // The driver lives as long as its pods' tasks.
        let _ = self.news.send((self.intent.record.number, news));
    }

    /// What keeps the pod from starting will be tried again.
    fn delayed(&self, error: &Problem) {
        tracing::warn!(pod = %self.key, error = error.chain(), "a pod cannot be started yet");
        let reason = error.reason.unwrap_or("StartError").to_owned();
        self.tell(News::Delayed(DelayCause { on: WaitsOn::FirstPod, reason, message: error.chain() }));
    }

    /// What runs the pod cannot be reached now, and will be asked again.
    fn unreachable(&self, why: &str) {
        tracing::warn!(pod = %self.key, why, "a pod cannot be watched now");
        let (reason, message) = ("RuntimeUnavailable".to_owned(), why.to_owned());
        self.tell(News::Delayed(DelayCause { on: WaitsOn::Runtime, reason, message }));
    }

    fn ended(&self, result: PodResult) -> PodExit {
        PodExit { result, containers: Vec::new(), started_at: None, ended_at: self.attempt.inner.now() }
    }

    /// Brings the pod to run, or finds that it does.
    async fn begin(&mut self) -> Result<Begun, Problem> {
        if let Some(handle) = self.known().await? {
            return Ok(Begun::Running(handle));
        }
        if self.orders.borrow().stop.is_some() {
            // An earlier process may have asked for it, but never before it was prepared.
            let path = self.dir.prepared();
            let asked = blocking(move || Ok(read::<bool>(&path)?.is_some())).await?;
            return Ok(if asked { Begun::Unclear } else { Begun::Stopped });
        }
        let (inner, request) = (self.attempt.inner.clone(), self.attempt.template.pod.request());
        let mut orders = self.orders.clone();
        tokio::select! {
            biased;
            () = told_to_stop(&mut orders) => return Ok(Begun::Stopped),
            gpus = inner.ledger.take(&self.key, request) => self.intent.gpus = gpus,
        }
        let begun = Instant::now();
        let mut tries = 0;
        let mut asked = false;
        loop {
            let error = match self.try_begin(&mut asked).await {
                Ok(begun) => return Ok(begun),
                Err(error) => error,
            };
            if self.orders.borrow().stop.is_some() {
                return Ok(if asked { Begun::Unclear } else { Begun::Stopped });
            }
            if self.patience == Patience::Ask || !error.class.is_retryable() {
                return Err(error);
            }
            if begun.elapsed() >= START_BUDGET {
                return Err(gave_up(&error));
            }
            self.delayed(&error);
            tokio::select! {
                () = tokio::time::sleep(delay(tries, &error)) => tries = tries.saturating_add(1),
                () = told_to_stop(&mut orders) => {}
            }
        }
    }

    /// What runs the pod, if that is written down.
    async fn known(&self) -> Result<Option<PodHandle>, Problem> {
        let path = self.dir.started();
        blocking(move || read::<(String, String)>(&path))
            .await
            .map(|known| known.map(|(name, id)| PodHandle { name, id }))
    }

    /// One try. `asked` tells whether the runtime was asked to start it.
    async fn try_begin(&mut self, asked: &mut bool) -> Result<Begun, Problem> {
        let mut orders = self.orders.clone();
        let prepare = async {
            self.prepare().await?;
            let (attempt, intent) = (self.attempt.clone(), self.intent.clone());
            blocking(move || attempt.plan(&intent, Missing::Refused)).await
        };
        let plan = tokio::select! {
            biased;
            () = told_to_stop(&mut orders) => return Ok(if *asked { Begun::Unclear } else { Begun::Stopped }),
            plan = prepare => plan?,
        };
        *asked = true;
        let runtime = &self.attempt.inner.runtime;
        let mut start = pin!(runtime.start(&plan));
        let handle = tokio::select! {
            handle = &mut start => handle?,
            () = told_to_stop(&mut orders) => {
                // It may be at work for long, fetching an image: it is asked, and still awaited to its end.
                let grace = orders.borrow().stop.unwrap_or_default();
                if let Err(error) = runtime.stop(&self.key, &self.dir.runtime, grace).await {
                    tracing::warn!(pod = %self.key, error = error.chain(), "stopping a pod that starts failed");
                }
                start.await?
            }
        };
        let (path, record) = (self.dir.started(), (handle.name.clone(), handle.id.clone()));
        blocking(move || write(&path, &record)).await?;
        Ok(Begun::Running(handle))
    }

    /// Makes volumes and artifacts, once: after that is written down the pod may run and nothing is touched again.
    async fn prepare(&self) -> Result<(), Problem> {
        let (attempt, intent, dir) = (self.attempt.clone(), self.intent.clone(), self.dir.clone());
        let plan = blocking(move || {
            if read::<bool>(&dir.prepared())?.is_some() {
                return Ok(None);
            }
            std::fs::create_dir_all(&dir.runtime)?;
            write(&dir.intent(), &intent)?;
            attempt.prepare(&intent)?;
            attempt.bare_plan(&intent, Missing::Refused).map(Some)
        })
        .await?;
        if let Some(plan) = plan {
            let attempt = &self.attempt;
            deliver(&attempt.inner, &attempt.spec.inputs, &plan.main, &self.dir, &|error| self.delayed(error)).await?;
            let path = self.dir.prepared();
            blocking(move || write(&path, &true)).await?;
        }
        Ok(())
    }

    /// Suspends a pod that just began while it is to stand still. An order to end it comes first, and a runtime that will
    /// never do it lets the pod run.
    async fn suspend(&self) {
        let mut orders = self.orders.clone();
        let runtime = &self.attempt.inner.runtime;
        let mut tries = 0;
        let frozen = async {
            while self.orders.borrow().frozen {
                let Err(error) = runtime.freeze(&self.key, &self.dir.runtime, true).await else { return };
                tracing::warn!(pod = %self.key, error = error.chain(), tries, "suspending a pod failed");
                if !error.class.is_retryable() || tries >= SUSPEND_TRIES {
                    return;
                }
                tokio::time::sleep(delay(tries, &error)).await;
                tries = tries.saturating_add(1);
            }
        };
        tokio::select! {
            biased;
            () = told_to_stop(&mut orders) => {}
            () = frozen => {}
        }
    }

    /// Waits for the end, passing on the order to stop, again where the pod does not end by it.
    async fn wait(&mut self) -> PodExit {
        let runtime = self.attempt.inner.runtime.clone();
        let (mut reported, mut tries, mut reached) = (None, 0, true);
        let mut outages = runtime.outages(&self.key, &self.dir.runtime);
        let mut wait = Box::pin(runtime.wait(&self.key, &self.dir.runtime));
        loop {
            let order = self.orders.borrow_and_update().stop;
            // A pod that ends by itself need not be asked any more.
            let stopping = async {
                match order.filter(|_| order != reported) {
                    Some(grace) => {
                        insist("stopping a pod", || runtime.stop(&self.key, &self.dir.runtime, grace)).await;
                    }
                    None => std::future::pending().await,
                }
            };
            let lingering = async {
                match reported {
                    Some(grace) => tokio::time::sleep(TOLD_AGAIN.saturating_add(grace)).await,
                    None => std::future::pending().await,
                }
            };
            // A runtime that reports its outages reports their ends too.
            let heard = reached || outages.is_some();
            let reaching = async {
                match heard {
                    false => tokio::time::sleep(REACHED_AFTER).await,
                    true => std::future::pending().await,
                }
            };
            let error = tokio::select! {
                biased;
                () = stopping => {
                    reported = order;
                    continue;
                }
                () = lingering => {
                    tracing::warn!(pod = %self.key, "a pod that was asked to stop is still running; asking it again");
                    reported = None;
                    continue;
                }
                exit = &mut wait => match exit {
                    Ok(exit) => return exit,
                    Err(error) => error,
                },
                () = reaching => {
                    (reached, tries) = (true, 0);
                    self.tell(News::Reached);
                    continue;
                }
                outage = changed_outage(&mut outages) => {
                    match outage {
                        Some(why) => self.unreachable(&why),
                        None => self.tell(News::Reached),
                    }
                    continue;
                }
                () = changed(&mut self.orders) => continue,
            };
            if !error.class.is_retryable() {
                tracing::error!(pod = %self.key, error = error.chain(), "a pod cannot be seen any more");
                return self.ended(PodResult::Lost);
            }
            reached = false;
            self.unreachable(&error.chain());
            tokio::time::sleep(delay(tries, &error)).await;
            tries = tries.saturating_add(1);
            wait = Box::pin(runtime.wait(&self.key, &self.dir.runtime));
        }
    }
}

/// Returns once the pods are asked to end.
async fn told_to_stop(orders: &mut watch::Receiver<Orders>) {
    if orders.wait_for(|orders| orders.stop.is_some()).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Returns when it changes whether what runs the pod can be reached.
async fn changed_outage(outages: &mut Option<watch::Receiver<Option<String>>>) -> Option<String> {
    if let Some(outages) = outages
        && outages.changed().await.is_ok()
    {
        return outages.borrow_and_update().clone();
    }
    std::future::pending().await
}

/// Returns at the next order.
async fn changed(orders: &mut watch::Receiver<Orders>) {
    if orders.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The error of a pod that could not be started for long, and why the last time.
fn gave_up(error: &Problem) -> Problem {
    let message = format!("{}; tried for {} minutes", error.chain(), START_BUDGET.as_secs() / 60);
    Problem::new(Class::Fatal, message).with_reason(error.reason.unwrap_or("StartError"))
}

/// What an error makes of a pod that has not run.
fn failure(error: &Problem) -> PodResult {
    let reason = error.reason.unwrap_or(match error.class {
        Class::Denied => "Forbidden",
        Class::Exists => "NameConflict",
        Class::Capacity => "Unschedulable",
        Class::Invalid => "TemplateInvalid",
        Class::NotFound => "NotFound",
        Class::Transient | Class::Conflict | Class::Fatal => "StartError",
    });
    PodResult::Failed { reason: reason.to_owned(), message: error.chain() }
}
