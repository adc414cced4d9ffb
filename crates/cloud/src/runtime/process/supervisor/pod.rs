//! The life of a pod: its containers one after the other, started again in place where that was asked for, until the
//! last has ended or the pod is cut off. Owns what interrupts it and what follows what; what one container does is in
//! [`container`](super::container).

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::clock::PodClock;
use super::container::Running;
use super::verdict::{self, Cause};
use crate::clock::{now, uptime};
use crate::runtime::failure;
use crate::runtime::logs::Masker;
use crate::runtime::logs::capture::Capture;
use crate::runtime::pod::{ContainerExit, PodExit, PodResult};
use crate::runtime::process::cgroup::Cgroup;
use crate::runtime::process::record::{Directory, ExitRecord, Life, LockRegion, Locks, Reserved};
use crate::runtime::process::request;
use crate::runtime::process::tree::{Ended, Orphans};
use crate::runtime::process::watcher::{Descriptor, Watcher};
use crate::runtime::process::wire::{Container, KeepOrder};

/// A container that ran this long before it failed starts its delays anew.
const SETTLED: Duration = Duration::from_secs(600);
/// Between two looks at a request that is being written.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// A time on a clock that counts the sleep of the machine is looked at so often: waiting does not count it.
const LOOK: Duration = Duration::from_secs(30);

/// What a supervisor has beside a pod.
pub(super) struct Context<'a> {
    /// The pod's number.
    pub(super) number: u64,
    pub(super) watcher: &'a Watcher,
    pub(super) orphans: &'a Orphans,
    pub(super) starters: &'a mut BTreeSet<i32>,
    /// Descriptors that no other process may have.
    pub(super) private: &'a BTreeSet<RawFd>,
    /// Whether there is no other pod.
    pub(super) alone: bool,
    /// What is read from pipes.
    pub(super) buffer: &'a mut [u8],
    /// Open files of a program, at most.
    pub(super) files: u64,
}

/// What a pod does now.
#[derive(Debug)]
enum Stage {
    /// Its next container starts, as soon as its clock goes.
    Between,
    /// A container runs, or what it left is being ended.
    Running(Box<Running>),
    /// A container starts again when the clock shows that.
    Pausing(Duration),
    /// Nothing runs any more.
    Over,
}

/// What a pod is made of.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) order: KeepOrder,
    pub(super) directory: Directory,
    /// Held until its end is written; let go before its life is.
    pub(super) locks: Locks,
    pub(super) life: Option<Life>,
    pub(super) reserved: Reserved,
    /// Room for the layout, until it is written.
    pub(super) layout: Option<Reserved>,
    pub(super) view: PathBuf,
    pub(super) token: String,
    pub(super) cgroup: Option<Cgroup>,
    pub(super) masker: Arc<Masker>,
    pub(super) stdout: Capture,
    pub(super) stderr: Capture,
}

/// A pod that is kept.
#[derive(Debug)]
pub(super) struct Pod {
    pub(super) parts: Parts,
    clock: PodClock,
    stage: Stage,
    /// Why it is being cut off.
    ending: Option<Cause>,
    /// When it is looked again at what is asked.
    look_again: Option<Instant>,
    /// Number of the container that runs or is the next to do so, init containers first.
    pub(super) index: usize,
    /// How often it was started again, and how often it failed since it last ran for long.
    restarts: u32,
    failures: usize,
    /// How often any may be started again.
    restarts_left: u32,
    /// What the clock showed when it started.
    begun: Duration,
    done: Vec<ContainerExit>,
    /// What became of it, where that does not follow from `ending`.
    result: Option<PodResult>,
    /// What of it may not be killed.
    immune: Option<String>,
}

/// How a container went.
pub(super) struct ContainerEnd {
    pub(super) exit: ContainerExit,
    /// Whether its process could not even be made.
    pub(super) cannot_start: bool,
    /// What of it may not be killed.
    pub(super) immune: Option<String>,
}

impl Pod {
    /// A pod that is claimed.
    pub(super) fn new(parts: Parts) -> Self {
        Self {
            restarts_left: parts.order.restart_limit,
            parts,
            clock: PodClock::new(uptime()),
            stage: Stage::Between,
            ending: None,
            look_again: None,
            index: 0,
            restarts: 0,
            failures: 0,
            begun: Duration::ZERO,
            done: Vec::new(),
            result: None,
            immune: None,
        }
    }

    /// Descriptors by which others see that it is kept.
    pub(super) fn private(&self) -> Vec<RawFd> {
        let life = self.parts.life.as_ref().map(AsRawFd::as_raw_fd);
        [self.parts.locks.as_raw_fd()].into_iter().chain(life).collect()
    }

    pub(super) const fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// The number of init containers is that of the main one.
    pub(super) fn is_main(&self, index: usize) -> bool {
        index == self.parts.order.init.len()
    }

    pub(super) fn container(&self, index: usize) -> &Container {
        self.parts.order.init.get(index).unwrap_or(&self.parts.order.main)
    }

    fn elapsed(&self) -> Duration {
        self.clock.elapsed(uptime())
    }

    /// The pod's limit on its clock, as long as that can end something: what a dead container left is being ended already.
    fn deadline(&self) -> Option<Duration> {
        let sweeps = matches!(&self.stage, Stage::Running(running) if !running.process.is_alive());
        self.parts.order.active_deadline_ms.filter(|_| self.ending.is_none() && !sweeps).map(Duration::from_millis)
    }

    /// When something is due that nobody tells of.
    pub(super) fn due(&self) -> Option<Instant> {
        let (at, time) = (Instant::now(), uptime());
        let by_clock = |shown: Duration| {
            let left = self.clock.when(shown)?.saturating_sub(time).min(LOOK);
            at.checked_add(left)
        };
        let (process, pause) = match &self.stage {
            Stage::Running(running) => (running.process.due(), None),
            Stage::Pausing(due) => (None, by_clock(*due)),
            Stage::Between | Stage::Over => (None, None),
        };
        [process, pause, self.deadline().and_then(by_clock), self.look_again].into_iter().flatten().min()
    }

    /// Makes the control group, now that the claim names it: so it is found and removed whatever becomes of this process.
    pub(super) fn make_group(&mut self) {
        if let Err(failure) = self.parts.cgroup.as_ref().map_or(Ok(()), Cgroup::create) {
            self.fail(&io::Error::other(failure));
        }
    }

    /// Does what is due by time.
    pub(super) fn tick(&mut self, context: &mut Context<'_>) {
        if self.look_again.is_some_and(|again| again <= Instant::now()) {
            self.look();
        }
        if self.deadline().and_then(|deadline| self.clock.when(deadline)).is_some_and(|due| due <= uptime()) {
            self.cut_off(Cause::Deadline, Duration::from_millis(self.parts.order.grace_ms));
        }
        if let Stage::Running(running) = &mut self.stage {
            running.process.tick(Instant::now(), context.others());
        }
    }

    /// A descriptor of its container has something to say.
    pub(super) fn ready(&mut self, kind: Descriptor, context: &mut Context<'_>) {
        let Stage::Running(running) = &mut self.stage else { return };
        match kind {
            Descriptor::End => {
                // It stays readable; the process is reaped when nothing else is left.
                context.watcher.forget(&running.process.end);
                running.process.died(Instant::now(), context.others());
            }
            kind => drop(running.read(kind, &mut self.parts.stdout, &mut self.parts.stderr, context)),
        }
    }

    /// Goes on as far as nothing has to be waited for.
    pub(super) fn go_on(&mut self, context: &mut Context<'_>) {
        loop {
            match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Over => return,
                Stage::Running(running) if running.process.is_over() => {
                    let end = self.finish(*running, context);
                    self.ended(end);
                }
                Stage::Running(running) => {
                    self.stage = Stage::Running(running);
                    return;
                }
                Stage::Between | Stage::Pausing(_) if self.ending.is_some() || self.result.is_some() => {}
                Stage::Pausing(due) if self.clock.is_frozen() || self.elapsed() < due => {
                    self.stage = Stage::Pausing(due);
                    return;
                }
                Stage::Between if self.clock.is_frozen() => {
                    self.stage = Stage::Between;
                    return;
                }
                Stage::Between | Stage::Pausing(_) => {
                    self.begun = self.elapsed();
                    match self.start(context) {
                        Ok(running) => self.stage = Stage::Running(Box::new(running)),
                        Err(end) => self.ended(Ok(end)),
                    }
                }
            }
        }
    }

    /// A container has ended: the next one starts, it starts again, or the pod is over.
    fn ended(&mut self, end: io::Result<ContainerEnd>) {
        let mut end = match end {
            Ok(end) => end,
            Err(error) => return self.fail(&error),
        };
        end.exit.restarts = self.restarts;
        let succeeded = end.exit.exit_code == 0;
        self.done.truncate(self.index);
        self.done.push(end.exit);
        self.immune = end.immune.or(self.immune.take());
        if self.ending.is_some() || self.result.is_some() {
            return;
        }
        if succeeded {
            if self.is_main(self.index) {
                self.result = Some(PodResult::Succeeded);
                return;
            }
            (self.index, self.restarts, self.failures) = (self.index + 1, 0, 0);
            self.stage = Stage::Between;
            return;
        }
        if self.restarts_left == 0 {
            self.result = Some(verdict::failed(self.done.last(), end.cannot_start));
            return;
        }
        let elapsed = self.elapsed();
        self.failures = if elapsed.saturating_sub(self.begun) >= SETTLED { 1 } else { self.failures + 1 };
        self.restarts_left -= 1;
        self.restarts += 1;
        let delays = &self.parts.order.restart_delays_ms;
        let delay = delays.get(self.failures.saturating_sub(1)).or(delays.last()).copied().unwrap_or(0);
        self.stage = Stage::Pausing(elapsed.saturating_add(Duration::from_millis(delay)));
    }

    /// The pod cannot go on.
    fn fail(&mut self, error: &io::Error) {
        let message = self.parts.masker.mask_text(&format!("the supervisor of the pod failed: {error}"));
        self.result.get_or_insert(failure::pod(message));
    }

    /// Looks at what is asked.
    pub(super) fn look(&mut self) {
        self.look_again = None;
        let request = match request::read(&self.parts.directory) {
            Ok(request) => request,
            // It is being written at this moment.
            Err(failure) if failure.source.kind() == io::ErrorKind::InvalidData => {
                self.look_again = Some(Instant::now() + LOOK_AGAIN);
                return;
            }
            Err(failure) => return self.break_off(&failure.source),
        };
        if let Some(grace) = request.stop {
            self.cut_off(Cause::Stop, Duration::from_millis(grace));
        } else if self.ending.is_none() && request.frozen != self.clock.is_frozen() {
            self.freeze(request.frozen);
        }
    }

    /// The supervisor was asked to end, by nobody who knows what it is.
    pub(super) fn supervisor_ends(&mut self) {
        self.cut_off(Cause::Supervisor, Duration::from_millis(self.parts.order.grace_ms));
    }

    /// The pod cannot go on; what runs of it is killed.
    fn break_off(&mut self, error: &io::Error) {
        self.fail(error);
        if let Stage::Running(running) = &mut self.stage {
            running.process.ask(Duration::ZERO, Instant::now());
        }
    }

    fn freeze(&mut self, on: bool) {
        let (time, was_frozen) = (uptime(), self.clock.is_frozen());
        if on {
            self.clock.freeze(time);
        } else {
            self.clock.thaw(time);
        }
        let Stage::Running(running) = &self.stage else { return };
        if on == was_frozen {
            return;
        }
        let signal = if on { Signal::SIGSTOP } else { Signal::SIGCONT };
        if let Err(error) = running.process.signal(signal) {
            self.break_off(&error);
        }
    }

    /// Asks the running container to end and sets the time it is killed. The first cause counts, and the shortest time.
    fn cut_off(&mut self, cause: Cause, grace: Duration) {
        let at = Instant::now();
        if let Stage::Running(running) = &mut self.stage {
            if self.ending.is_none() && running.is_main && running.process.ended() == Some(Ended::Exited(0)) {
                // It came to its end first.
                return;
            }
            running.process.ask(grace, at);
        }
        if self.ending.is_none() {
            self.ending = Some(cause);
            // A stopped process cannot end.
            self.freeze(false);
        }
    }

    /// Writes how it ended.
    pub(super) fn write_end(mut self) {
        let deadline = self.parts.order.active_deadline_ms.map(Duration::from_millis);
        let result = match (self.result.take(), self.ending) {
            (Some(failed @ PodResult::Failed { .. }), None) => failed,
            (_, Some(cause)) => verdict::cut_off(cause, deadline),
            (Some(result), None) => result,
            (None, None) => verdict::failed(self.done.last(), false),
        };
        self.parts.stdout.close(now());
        self.parts.stderr.close(now());
        let losses = [&self.parts.stdout, &self.parts.stderr].into_iter().filter_map(Capture::losses);
        let notes: Vec<String> = self.immune.into_iter().chain(losses).collect();
        let result = match result {
            PodResult::Failed { reason, message } if !notes.is_empty() => {
                PodResult::Failed { reason, message: format!("{message}; {}", notes.join("; ")) }
            }
            result => result,
        };
        let exit = PodExit {
            result,
            started_at: self.done.first().map(|exit| exit.started_at),
            containers: self.done,
            ended_at: now(),
        };
        let (lost_stdout, lost_stderr) = (self.parts.stdout.lost().bytes, self.parts.stderr.lost().bytes);
        // Without a record the next host finds that the pod is lost.
        drop(self.parts.reserved.write_exit(ExitRecord { exit, lost_stdout, lost_stderr }));
        // A group that cannot be removed now is removed with the pod.
        drop(self.parts.cgroup.as_ref().map(Cgroup::remove));
        // Let go of before the end of its life is seen, whatever else has a copy of the lock at this moment.
        drop(self.parts.locks.release(LockRegion::Life));
        drop(self.parts.life);
    }
}
