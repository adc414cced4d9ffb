//! Takes a pod from where it is to its end. Owns the loop of looking, deciding and acting, and what is done while a
//! container runs; the decisions are those of [`super::state`].
//!
//! A driver holds nothing that is not written down: it may be dropped at any point and another one goes on.

use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use orlop_core::error::Problem;
use orlop_core::time::Time;

use super::engine::Engine;
use super::log::follow::Follower;
use super::log::sink::Sink;
use super::outage::Outage;
use super::pod::{Pod, now};
use super::record::{Control, Record, Why, Words};
use super::state::{self, Next, Observed, Phase, Progress, signal};
use super::{error, words};
use crate::runtime::blocking::blocking;
use crate::runtime::logs::{Masker, read_secrets};
use crate::runtime::pod::{ContainerExit, PodExit, PodResult};

/// Exit codes of containers that end with their engine: killed, asked to end, or it does not know.
const KILLED: [i32; 3] = [137, 143, 255];

/// Exit code of a container that could not be started, where the engine gives none.
const NOT_STARTED: i32 = 128;

/// Drives a pod to its end and records that.
///
/// # Errors
/// When the engine cannot be reached for a minute, or refuses what it must not: another driver may try again.
pub(super) async fn drive(engine: Engine, pod: Arc<Pod>, record: Record) -> Result<PodExit, Problem> {
    if let Some(exit) = pod.files.exit()? {
        return Ok(exit);
    }
    let count = record.containers.len();
    let mut progress = pod.files.progress()?;
    progress.resize(count, Progress::default());
    let known = vec![false; count];
    let outage = Outage::default();
    let mut driver = Driver { engine, pod, record, progress, known, outage, follower: None, adopted: false };
    loop {
        match driver.step().await {
            Ok(Some(exit)) => {
                let files = driver.pod.files.clone();
                return blocking(move || files.write_exit(&exit).map(|()| exit)).await;
            }
            Ok(None) => driver.outage.end(),
            Err(error) => {
                // Whatever vanishes while nobody looks was not seen to be deleted.
                driver.known.fill(false);
                if error.class.is_retryable() {
                    driver.pod.outage_begins(error::outage(&error));
                }
                driver.outage.wait(error).await?;
            }
        }
    }
}

struct Driver {
    engine: Engine,
    pod: Arc<Pod>,
    record: Record,
    progress: Vec<Progress>,
    /// Containers that were there when last looked at, without an outage since.
    known: Vec<bool>,
    /// The last time the engine did not answer.
    outage: Outage,
    /// Follows the log of the container that runs.
    follower: Option<(usize, Follower)>,
    /// Whether what an earlier process left half done has been looked after.
    adopted: bool,
}

impl Driver {
    /// Looks, decides and acts once; the end of the pod when that is reached.
    async fn step(&mut self) -> Result<Option<PodExit>, Problem> {
        let mut seen = Vec::with_capacity(self.record.containers.len());
        for container in &self.record.containers {
            seen.push(self.engine.observe(&container.id).await?);
        }
        self.pod.outage_ends();
        let vanished = seen.iter().zip(&self.known).any(|(seen, known)| *known && seen.phase == Phase::Missing);
        self.known = seen.iter().map(|seen| seen.phase != Phase::Missing).collect();
        let control = self.pod.control();
        let next = state::next(&self.record, &control, &self.progress, &seen, now());
        match next {
            Next::Start(index) => self.start(index).await?,
            Next::Absorb(index) => self.absorb(index, seen.get(index)).await?,
            Next::Watch(index) => self.watch(index, seen.get(index)).await?,
            Next::Vanish(index) => self.engine.removed(self.id(index)).await?,
            Next::Sleep(until) => self.sleep(until, &control).await,
            Next::Expire => {
                let (at, grace) = (now(), self.record.grace);
                self.pod.lock().await.change(|control| control.stop(Why::Deadline, at, grace)).await?;
            }
            Next::End(Some(result)) => return Ok(Some(self.exit(result))),
            Next::End(None) if vanished => return Ok(Some(self.exit(PodResult::Gone))),
            Next::End(None) => return Ok(Some(self.exit(PodResult::Lost))),
        }
        Ok(None)
    }

    fn id(&self, index: usize) -> &str {
        self.record.containers.get(index).map_or("", |container| container.id.as_str())
    }

    fn exit(&self, result: PodResult) -> PodExit {
        let containers: Vec<ContainerExit> = self.progress.iter().filter_map(|done| done.exit.clone()).collect();
        let started_at = containers.iter().map(|exit| exit.started_at).min();
        let ended_at = match (&result, containers.iter().map(|exit| exit.ended_at).max()) {
            (PodResult::Succeeded | PodResult::Failed { .. }, Some(ended)) => ended,
            _ => now(),
        };
        PodExit { result, containers, started_at, ended_at }
    }

    /// Starts a container, unless something else has been asked meanwhile.
    async fn start(&mut self, index: usize) -> Result<(), Problem> {
        let pod = Arc::clone(&self.pod);
        let _lock = pod.lock().await;
        let control = pod.control();
        if control.stop.is_some() || control.frozen_since.is_some() {
            return Ok(());
        }
        if let Some(Words::File(path)) = self.record.containers.get(index).map(|container| &container.words) {
            words::prepare(path)?;
        }
        match self.engine.start(self.id(index)).await {
            Ok(()) => Ok(()),
            Err(error) => self.not_started(index, error).await,
        }
    }

    /// An engine that refuses to start a container has written down why, and that is how the container ended. Any other
    /// failure is looked at again.
    async fn not_started(&mut self, index: usize, error: bollard::errors::Error) -> Result<(), Problem> {
        let seen = self.engine.observe(self.id(index)).await?;
        let same = self.progress.get(index).is_none_or(|done| done.execution == seen.execution);
        let reported_code = error::refused_start(&error);
        let refused = !seen.error.is_empty() || reported_code.is_some();
        match seen.phase {
            Phase::Created | Phase::Ended if same && refused => {}
            Phase::Created | Phase::Ended if same => {
                return Err(error::engine(error, &format!("starting container `{}`", self.id(index))));
            }
            _ => return Ok(()),
        }
        let masker = self.masker(index).await?;
        let reported = if seen.error.is_empty() { error.to_string() } else { seen.error.clone() };
        let code = if seen.exit_code == 0 { reported_code.unwrap_or(NOT_STARTED) } else { seen.exit_code };
        let at = now();
        self.count(index, &seen, false, |name, restarts| ContainerExit {
            name,
            exit_code: code,
            signal: None,
            oom_killed: false,
            message: masker.mask_text(reported.trim()),
            masked: false,
            restarts,
            started_at: at,
            ended_at: at,
        })
        .await
    }

    /// Counts the end of a container's last execution, when its log and its last words are safe.
    async fn absorb(&mut self, index: usize, seen: Option<&Observed>) -> Result<(), Problem> {
        let (Some(seen), Some(container)) = (seen, self.record.containers.get(index).cloned()) else { return Ok(()) };
        let masker = self.masker(index).await?;
        self.finish_log(index, &masker).await?;
        let (message, masked) = words::last(&self.engine, &container, seen.exit_code, &masker).await?;
        let started_at = seen.started_at.unwrap_or_else(now);
        // The engine notes the start of a short execution after its end.
        let ended_at = seen.ended_at.unwrap_or_else(now).max(started_at);
        let lost = self.record.died_with_machine(started_at, ended_at) || self.died_with_engine(seen, ended_at);
        self.count(index, seen, lost, |name, restarts| ContainerExit {
            name,
            exit_code: seen.exit_code,
            signal: signal(seen.exit_code),
            oom_killed: seen.oom_killed && seen.exit_code != 0,
            message,
            masked,
            restarts,
            started_at,
            ended_at,
        })
        .await
    }

    /// Whether nobody but an engine that went down can have killed a container.
    fn died_with_engine(&self, seen: &Observed, ended_at: Time) -> bool {
        let killed = KILLED.contains(&seen.exit_code) && !seen.oom_killed;
        killed && self.pod.control().stop.is_none() && self.outage.explains(ended_at)
    }

    async fn count(
        &mut self,
        index: usize,
        seen: &Observed,
        lost: bool,
        exit: impl FnOnce(String, u32) -> ContainerExit,
    ) -> Result<(), Problem> {
        let mut progress = self.progress.clone();
        let (Some(done), Some(container)) = (progress.get_mut(index), self.record.containers.get(index)) else {
            return Ok(());
        };
        let exit = exit(container.name.clone(), done.failures);
        done.failures = done.failures.saturating_add(u32::from(exit.exit_code != 0));
        done.execution.clone_from(&seen.execution);
        done.lost = lost;
        done.exit = Some(exit);
        let files = self.pod.files.clone();
        self.progress = blocking(move || files.write_progress(&progress).map(|()| progress)).await?;
        Ok(())
    }

    /// Waits for the end of a container that runs, ends it when that is asked, and returns when something has happened.
    async fn watch(&mut self, index: usize, seen: Option<&Observed>) -> Result<(), Problem> {
        self.follow_log(index).await?;
        self.adopt(index, seen).await?;
        let id = self.id(index).to_owned();
        let mut asked = self.pod.watch();
        let mut ended = pin!(self.engine.ended(&id));
        let mut stopping: Option<BoxFuture<'_, Result<(), Problem>>> = None;
        let mut killed = false;
        loop {
            let control = asked.borrow_and_update().clone();
            let alarm = match &control.stop {
                Some(_) if killed => None,
                Some(stop) => Some(stop.kill_at),
                None => state::deadline(&self.record, &control),
            };
            if let Some(stop) = &control.stop
                && stopping.is_none()
            {
                // What is paused takes no signal.
                self.engine.unpause(&id).await?;
                stopping = Some(self.engine.stop(&id, stop.kill_at.since(now())).boxed());
            }
            let stopped = async {
                match stopping.as_mut() {
                    Some(stopping) => stopping.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                result = &mut ended => return result,
                result = stopped => {
                    result?;
                    return ended.await;
                }
                changed = asked.changed() => {
                    // The other end is the pod, which this driver holds.
                    if changed.is_err() {
                        return Ok(());
                    }
                }
                () = alarm_at(alarm) => {
                    if control.stop.is_none() {
                        return Ok(());
                    }
                    self.engine.kill(&id).await?;
                    killed = true;
                }
            }
        }
    }

    /// Finishes what an earlier process had written down and not done.
    async fn adopt(&mut self, index: usize, seen: Option<&Observed>) -> Result<(), Problem> {
        let pod = Arc::clone(&self.pod);
        let _lock = pod.lock().await;
        let runs = seen.is_some_and(|seen| seen.phase == Phase::Running);
        if !self.adopted && runs && pod.control().frozen_since.is_some() {
            self.engine.pause(self.id(index)).await?;
        }
        self.adopted = true;
        Ok(())
    }

    /// Sleeps until that time, or until something else is asked than what was decided upon.
    async fn sleep(&self, until: Option<Time>, decided: &Control) {
        let mut asked = self.pod.watch();
        tokio::select! {
            () = alarm_at(until) => {}
            // An error means that nobody can ask any more.
            _ = asked.wait_for(|control| control != decided) => {}
        }
    }

    /// What hides the secrets of a container; the engine and files know them, this side only their names.
    async fn masker(&self, index: usize) -> Result<Masker, Problem> {
        let Some(container) = self.record.containers.get(index) else { return Ok(Masker::default()) };
        let files = self.record.secret_files.clone();
        let mut secrets = blocking(move || Ok(read_secrets(&files)?)).await?;
        if !container.secrets.is_empty() {
            let environment = self.engine.environment(&container.id).await?;
            let variables = environment.iter().filter_map(|variable| variable.split_once('='));
            let is_secret = |name: &str| container.secrets.iter().any(|secret| secret == name);
            secrets.extend(variables.filter(|(name, _)| is_secret(name)).map(|(_, value)| value.to_owned()));
        }
        Ok(Masker::with_encodings(secrets))
    }

    async fn follow_log(&mut self, index: usize) -> Result<(), Problem> {
        if self.follower.as_ref().is_none_or(|(followed, _)| *followed != index) {
            let masker = self.masker(index).await?;
            let sink = self.sink(index, masker)?;
            self.follower = Some((index, Follower::begin(self.engine.clone(), self.id(index).to_owned(), sink)));
        }
        Ok(())
    }

    fn sink(&self, index: usize, masker: Masker) -> Result<Sink, Problem> {
        let record = &self.record;
        let note = self.pod.files.log_cursor(index);
        Sink::open(&note, &record.stdout, &record.stderr, masker).map_err(|error| {
            let error = Problem::from(error);
            let message = format!("opening the log of pod {} failed: {error}", record.key);
            Problem::new(error.class, message)
        })
    }

    /// Reads the log of a container that has ended to its end. A log that can never be read does not keep the pod.
    async fn finish_log(&mut self, index: usize, masker: &Masker) -> Result<(), Problem> {
        let follower = match self.follower.take() {
            Some((followed, follower)) if followed == index => follower,
            _ => Follower::begin(self.engine.clone(), self.id(index).to_owned(), self.sink(index, masker.clone())?),
        };
        match follower.finish().await {
            Ok(()) => Ok(()),
            Err(error) if error.class.is_retryable() => Err(error),
            Err(error) => {
                tracing::warn!(pod = %self.record.key, error = %error.chain(), "a log is not complete");
                Ok(())
            }
        }
    }
}

/// Waits until a time by the clock; for ever without one.
async fn alarm_at(time: Option<Time>) {
    match time {
        Some(time) => tokio::time::sleep(time.since(now())).await,
        None => std::future::pending().await,
    }
}
