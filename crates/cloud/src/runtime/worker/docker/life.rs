//! The life of one attempt as a container: running, asked to end, killed, removed. Owns what each of these leads to, also
//! while the engine does not answer; waiting for the engine's answers is all it does in between.

use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_core::error::Problem;
use orlop_core::task::{TaskEnd, TaskRef, Usage};
use orlop_core::time::Time;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep_until, timeout};

use super::begin::{Begun, begin};
use super::hub::{Ask, Hub, is_passing};
use super::output::{LAST, Tap, Voice};
use super::usage::BRIEF;
use super::{remains, usage};
use crate::runtime::docker::engine::Engine;
use crate::runtime::docker::outage::Outage;
use crate::runtime::docker::state::{Observed, Phase as Seen};
use crate::runtime::logs::{Masker, now};
use crate::runtime::process::tree::Ended;
use crate::runtime::worker::event::{AttemptEnd, Cause, LogTotals, Started, command_reason};
use crate::runtime::worker::logs::{Cutter, Fill, masker};
use crate::runtime::worker::outputs;
use crate::runtime::worker::plan::AttemptPlan;
use crate::runtime::worker::verdict::{Why, judge};

/// When a container is first looked at for what it uses, and how often after that.
const FIRST_LOOK: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_secs(5);
/// Between two kills of one that does not die.
const KILL_AGAIN: Duration = Duration::from_secs(2);
/// Between two tries of an engine that does not answer, at first and at most.
const TRY_MIN: Duration = Duration::from_millis(100);
const TRY_MAX: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// It was asked to end and has until then.
    Asked(Instant),
    /// It is being killed, next at that time.
    Killing(Instant),
}

/// One attempt that runs.
struct Life<'a> {
    hub: &'a Hub,
    plan: &'a AttemptPlan,
    engine: Engine,
    container: String,
    /// Asks it to end.
    signal: String,
    voice: Voice,
    asks: UnboundedReceiver<Ask>,
    started_at: Time,
    /// When its time is over.
    limit: Option<Instant>,
    phase: Phase,
    why: Option<Why>,
    usage: Usage,
    look: Instant,
    outage: Outage,
}

/// Starts an attempt and keeps it to its end.
pub(super) async fn run(hub: Arc<Hub>, plan: AttemptPlan, mut asks: UnboundedReceiver<Ask>) {
    let masker = masker_of(&plan);
    let mut voice = Voice::new(plan.id, plan.run.log.on_full, Cutter::new(plan.run.log, masker.clone()));
    let begun = tokio::select! {
        biased;
        cause = asked_to_end(&mut asks) => {
            let (outcome, reason) = judge(None, Some(Why::Asked(cause)), false, &[]);
            Err((outcome, reason.to_owned(), None))
        }
        begun = begin(&hub, &plan, &mut voice) => begun.map_err(|refused| {
            let (message, code) = (refused.to_string(), refused.exit_code());
            voice.say(&message);
            let reason = code.map_or_else(|| refused.word().to_owned(), |_| command_reason(&message));
            (TaskEnd::StartFailed, reason, code)
        }),
    };
    let Begun { engine, container, image, tap, started, started_at } = match begun {
        Ok(begun) => begun,
        Err((outcome, reason, exit_code)) => {
            let (log, tail) = voice.finish(&*hub.events);
            let end = AttemptEnd { exit_code, log, tail, ..AttemptEnd::without_run(outcome, reason, now()) };
            return finish(&hub, &plan, end).await;
        }
    };
    voice.begins();
    hub.events.started(plan.id, Started { handle: container.clone(), at: started_at });
    hub.events.flush();
    let limit = plan.timeout.and_then(|limit| started.checked_add(limit));
    let signal = if image.stop_signal.is_empty() { "SIGTERM".to_owned() } else { image.stop_signal };
    let life = Life {
        hub: &hub,
        plan: &plan,
        engine,
        container,
        signal,
        voice,
        asks,
        started_at,
        limit,
        phase: Phase::Running,
        why: None,
        usage: Usage::default(),
        look: started + FIRST_LOOK,
        outage: Outage::default(),
    };
    life.keep(tap, masker.as_deref()).await;
}

/// Goes on with the container of an attempt that an earlier agent started, once the engine answers.
pub(super) async fn adopt(hub: Arc<Hub>, id: TaskRef, after_seq: u64, asks: UnboundedReceiver<Ask>) {
    let found = remains::found(&hub, &id).await;
    let Some(remains::RemainingContainer { plan, engine, container, runs, started_at, signal }) = found else {
        let plan = AttemptPlan::new(id, Arc::default());
        return finish(&hub, &plan, AttemptEnd::without_run(TaskEnd::Lost, "agent_restart", now())).await;
    };
    let masker = masker_of(&plan);
    let known = LogTotals { last_seq: after_seq, ..LogTotals::default() };
    let cutter = Cutter::resumed(plan.run.log, masker.clone(), known);
    let mut voice = Voice::new(id, plan.run.log.on_full, cutter);
    voice.say("the worker's agent was started again: output of this container in between is not shown");
    let ran = u64::try_from(now().millis() - started_at.millis()).map_or(Duration::ZERO, Duration::from_millis);
    let (at, limit) = (Instant::now(), plan.timeout.map(|limit| limit.saturating_sub(ran)));
    let tap = if runs { Tap::adopted(&engine, &container).await } else { Tap::closed() };
    let life = Life {
        hub: &hub,
        plan: &plan,
        engine,
        container,
        signal,
        voice,
        asks,
        started_at,
        limit: limit.and_then(|left| at.checked_add(left)),
        phase: Phase::Running,
        why: None,
        usage: Usage::default(),
        look: at,
        outage: Outage::default(),
    };
    life.keep(tap, masker.as_deref()).await;
}

fn masker_of(plan: &AttemptPlan) -> Option<Arc<Masker>> {
    let values = plan.secrets.iter().map(|secret| secret.value.as_str());
    (!plan.secrets.is_empty()).then(|| Arc::new(masker(values)))
}

async fn asked_to_end(asks: &mut UnboundedReceiver<Ask>) -> Cause {
    loop {
        match asks.recv().await {
            Some(Ask::End(cause, _)) => return cause,
            Some(Ask::Resume) => {}
            // Nobody is left who could ask.
            None => std::future::pending().await,
        }
    }
}

impl Life<'_> {
    /// Keeps it to its end, and removes it.
    async fn keep(mut self, mut tap: Tap, masker: Option<&Masker>) {
        let seen = loop {
            let waited = self.watch(&mut tap).await;
            let broken = waited.is_err();
            let seen = self.observe(waited).await;
            if broken {
                // What it wrote meanwhile is kept by the engine.
                tap.again(&self.engine, &self.container).await;
            }
            match seen.phase {
                Seen::Running | Seen::Paused => self.ask_again().await,
                Seen::Missing | Seen::Created | Seen::Ended | Seen::Removing => break seen,
            }
        };
        self.drain(&mut tap).await;
        let Self { hub, plan, mut voice, why, usage, started_at, outage, .. } = self;
        let found = outputs::read(&hub.directories.of(&plan.id), masker);
        if let Some(complaint) = &found.complaint {
            voice.say(complaint);
        }
        let by_engine = why.is_none() && seen.ended_at.is_some_and(|at| killed(&seen) && outage.explains(at));
        let ended = (seen.phase == Seen::Ended && !by_engine).then_some(Ended::Exited(seen.exit_code));
        let (outcome, reason) = judge(ended, why, seen.oom_killed, &plan.run.success_codes);
        let (log, tail) = voice.finish(&*hub.events);
        let end = AttemptEnd {
            outcome,
            exit_code: ended.map(|_| seen.exit_code),
            signal: None,
            reason: if by_engine { "engine" } else { reason }.to_owned(),
            started_at: Some(started_at),
            finished_at: seen.ended_at.unwrap_or_else(now),
            usage,
            outputs: found.values,
            log,
            tail,
            artifacts: Vec::new(),
        };
        finish(hub, plan, end).await;
    }

    /// Waits for the end of the container; sees to everything else meanwhile.
    ///
    /// # Errors
    /// The engine does not answer any more.
    async fn watch(&mut self, tap: &mut Tap) -> Result<(), Problem> {
        let (engine, container) = (self.engine.clone(), self.container.clone());
        let mut waiting = std::pin::pin!(async move { engine.ended(&container).await });
        loop {
            let due = tokio::time::Instant::from_std(self.due());
            tokio::select! {
                biased;
                Some(ask) = self.asks.recv() => self.hear(ask).await,
                ended = &mut waiting => return ended,
                () = sleep_until(due) => self.tick(true).await,
                piece = tap.next(), if tap.is_open() && !self.voice.paused => if let Some((stream, bytes)) = piece
                    && self.voice.push(stream, &bytes) == Fill::Fail
                {
                    self.ask(Why::LogLimit, self.plan.grace).await;
                },
            }
            self.voice.tell(&*self.hub.events);
        }
    }

    /// What the container does, once the engine says so.
    async fn observe(&mut self, waited: Result<(), Problem>) -> Observed {
        let mut trouble = waited.err();
        let mut pause = TRY_MIN;
        loop {
            if let Some(error) = trouble.take() {
                self.hub.missed();
                self.outage.note(&error);
                tracing::debug!(attempt = %self.plan.id, error = %error.chain(), "the container engine does not answer");
                self.rest(pause).await;
                pause = (pause * 2).min(TRY_MAX);
            }
            match self.engine.observe(&self.container).await {
                Ok(seen) => {
                    self.outage.end();
                    return seen;
                }
                Err(error) if is_passing(&error) => trouble = Some(error),
                Err(error) => {
                    tracing::error!(attempt = %self.plan.id, error = %error.chain(), "a container cannot be looked at");
                    return Observed::missing();
                }
            }
        }
    }

    /// Waits; what is asked meanwhile is done when the engine is back.
    async fn rest(&mut self, pause: Duration) {
        let until = tokio::time::Instant::now() + pause;
        loop {
            let due = tokio::time::Instant::from_std(self.due()).min(until);
            tokio::select! {
                Some(ask) = self.asks.recv() => self.hear(ask).await,
                () = sleep_until(due) => self.tick(false).await,
            }
            self.voice.tell(&*self.hub.events);
            if tokio::time::Instant::now() >= until {
                return;
            }
        }
    }

    /// When it wants to be looked at again.
    fn due(&self) -> Instant {
        let phase = match self.phase {
            Phase::Running => self.limit,
            Phase::Asked(until) | Phase::Killing(until) => Some(until),
        };
        [phase, self.voice.due()].into_iter().flatten().min().map_or(self.look, |due| due.min(self.look))
    }

    async fn tick(&mut self, measure: bool) {
        let at = Instant::now();
        self.voice.tick();
        match self.phase {
            Phase::Running if self.limit.is_some_and(|limit| limit <= at) => {
                self.ask(Why::Timeout, self.plan.grace).await;
            }
            Phase::Asked(until) | Phase::Killing(until) if until <= at => self.kill().await,
            _ => {}
        }
        if self.look <= at {
            let looked = measure.then(|| timeout(BRIEF, self.engine.stats(&self.container)));
            if let Some(looked) = looked
                && let Ok(Ok(Some(stats))) = looked.await
            {
                self.usage = self.usage.most(usage::of(&stats));
            }
            // Counted from after the call, which may be slow: output is read in between.
            self.look = Instant::now() + LOOK;
        }
    }

    async fn hear(&mut self, ask: Ask) {
        match ask {
            Ask::End(cause, grace) => self.ask(Why::Asked(cause), grace).await,
            Ask::Resume => self.voice.paused = false,
        }
    }

    /// Asks it to end. The first reason counts, and the shortest time.
    async fn ask(&mut self, why: Why, grace: Duration) {
        let at = Instant::now();
        let until = at.checked_add(grace).unwrap_or(at);
        match self.phase {
            Phase::Running => {
                self.why.get_or_insert(why);
                if grace.is_zero() {
                    return self.kill().await;
                }
                self.phase = Phase::Asked(until);
                self.send(&self.signal).await;
            }
            Phase::Asked(before) => self.phase = Phase::Asked(before.min(until)),
            Phase::Killing(_) => {}
        }
    }

    async fn kill(&mut self) {
        self.send("SIGKILL").await;
        // Counted from after the call, which may be slow: output is read in between.
        self.phase = Phase::Killing(Instant::now() + KILL_AGAIN);
    }

    /// The engine is back: what it did not hear is said again.
    async fn ask_again(&mut self) {
        match self.phase {
            Phase::Running => {}
            Phase::Asked(_) => self.send(&self.signal).await,
            Phase::Killing(_) => self.kill().await,
        }
    }

    async fn send(&self, signal: &str) {
        let sent = timeout(BRIEF, self.engine.signal(&self.container, signal)).await;
        if let Ok(Err(error)) = sent {
            tracing::debug!(attempt = %self.plan.id, error = %error.chain(), signal, "a container did not get a signal");
        }
    }

    /// Reads what it wrote last.
    async fn drain(&mut self, tap: &mut Tap) {
        let (engine, container) = (self.engine.clone(), self.container.clone());
        let read = async {
            loop {
                while let Some((stream, bytes)) = tap.next().await {
                    // It has ended: there is nothing more to be done about the limit.
                    let _ = self.voice.push(stream, &bytes);
                    self.voice.tell(&*self.hub.events);
                }
                if !tap.last(&engine, &container) {
                    return;
                }
            }
        };
        if timeout(LAST, read).await.is_err() {
            self.voice.say("the container engine does not send the end of the output");
        }
    }
}

/// Whether a container was killed by somebody, as engines do at their own end.
const fn killed(seen: &Observed) -> bool {
    matches!(seen.exit_code, 137 | 143)
}

/// Removes what is left of an attempt and tells its end.
async fn finish(hub: &Hub, plan: &AttemptPlan, end: AttemptEnd) {
    let removed = timeout(BRIEF, remains::discard(hub, &plan.id)).await;
    remains::clear_away(hub, plan, end.outcome);
    hub.events.ended(plan.id, end);
    hub.events.flush();
    if !matches!(removed, Ok(Ok(()))) {
        // It has ended; when the engine is back, its container is removed as one that nobody knows.
        hub.missed();
    }
    hub.leave(&plan.id);
}
