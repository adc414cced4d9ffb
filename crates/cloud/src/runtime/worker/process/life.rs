//! The life of one attempt as a process: running, asked to end, killed, swept up after. Owns what each of these leads to
//! and how its end is judged; waiting is the [lane](super::lane)'s.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use orlop_core::task::{LogStream, Usage};
use orlop_core::time::Time;
use rustix::process::{WaitOptions, waitpid};

use super::sweep::{self, Kin};
use super::{Shared, usage};
use crate::runtime::logs::{Masker, now};
use crate::runtime::process::cgroup::Cgroup;
use crate::runtime::process::tree::Ended;
use crate::runtime::worker::event::{AttemptEnd, LogChunk};
use crate::runtime::worker::logs::{Cutter, Fill, Moment};
use crate::runtime::worker::outputs;
use crate::runtime::worker::plan::AttemptPlan;
use crate::runtime::worker::verdict::{Why, judge};

/// When an attempt is first looked at for what it uses, and how often after that.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_secs(5);
/// An attempt shorter than a clock tick of the kernel has no usage that can be measured.
const TICK: Duration = Duration::from_millis(10);
/// Between two passes over what is left, at first and at most.
const PASS_MIN: Duration = Duration::from_millis(1);
const PASS_MAX: Duration = Duration::from_millis(100);
/// Passes after which those that may not be killed are given up.
const GIVE_UP: u32 = 40;
/// Reads of a pipe after its writers are dead: pipes hold 64 KiB and at most 1 MiB.
const DRAIN_READS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// It was asked to end and has until then.
    Asked(Instant),
    /// Its first process is being killed with all others.
    Killing {
        again: Instant,
        pass: u32,
    },
    /// Its first process is dead; what it left behind is being killed.
    Sweeping {
        again: Instant,
        pass: u32,
    },
    /// Nothing is left.
    Over,
}

/// What a life is made of.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) plan: AttemptPlan,
    pub(super) pid: i32,
    pub(super) end: OwnedFd,
    pub(super) out: File,
    pub(super) err: File,
    pub(super) dir: PathBuf,
    pub(super) secrets: Option<PathBuf>,
    pub(super) mark: String,
    pub(super) masker: Option<Arc<Masker>>,
    pub(super) group: Option<Cgroup>,
    pub(super) started: Instant,
    pub(super) started_at: Time,
}

/// One attempt that runs.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) body: BodyParts,
    pub(super) pipes: [Option<File>; 2],
    /// Whether its pipes are left alone because there is no room.
    pub(super) paused: bool,
    /// Chunks that were not reported yet.
    pub(super) fresh: Vec<LogChunk>,
    /// When its timer is set to ring.
    pub(super) armed: Option<Instant>,
    phase: Phase,
    why: Option<Why>,
    cutter: Cutter,
    usage: Usage,
    look: Instant,
    immune: bool,
}

/// What does not change in a life.
#[derive(Debug)]
pub(super) struct BodyParts {
    pub(super) plan: AttemptPlan,
    pub(super) pid: i32,
    pub(super) end: OwnedFd,
    dir: PathBuf,
    secrets: Option<PathBuf>,
    mark: String,
    masker: Option<Arc<Masker>>,
    pub(super) group: Option<Cgroup>,
    started: Instant,
    started_at: Time,
}

/// The end of a life and what is to be cleared away.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) end: AttemptEnd,
    pub(super) dir: PathBuf,
    pub(super) secrets: Option<PathBuf>,
    pub(super) group: Option<Cgroup>,
}

impl Life {
    pub(super) fn new(body: Body) -> Self {
        let Body { plan, pid, end, out, err, dir, secrets, mark, masker, group, started, started_at } = body;
        let cutter = Cutter::new(plan.run.log, masker.clone());
        Self {
            body: BodyParts { plan, pid, end, dir, secrets, mark, masker, group, started, started_at },
            pipes: [Some(out), Some(err)],
            paused: false,
            fresh: Vec::new(),
            armed: None,
            phase: Phase::Running,
            why: None,
            cutter,
            usage: Usage::default(),
            look: started + FIRST_LOOK,
            immune: false,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    fn moment(&self, at: Instant) -> Moment {
        Moment { since: at.saturating_duration_since(self.body.started), wall: now() }
    }

    /// When it wants to be looked at again.
    pub(super) fn due(&self) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Running => self
                .body
                .plan
                .timeout
                .and_then(|limit| self.body.started.checked_add(limit))
                .filter(|_| self.why.is_none()),
            Phase::Asked(until) => Some(until),
            Phase::Killing { again, .. } | Phase::Sweeping { again, .. } => Some(again),
            Phase::Over => None,
        };
        let log = self.cutter.due().and_then(|since| self.body.started.checked_add(since));
        [phase, log, Some(self.look)].into_iter().flatten().min()
    }

    /// Does what is due. What it uses is looked at from time to time, for its end no longer tells of memory.
    pub(super) fn tick(&mut self, at: Instant, shared: &Shared, starters: &BTreeSet<i32>) {
        let moment = self.moment(at);
        if self.cutter.due().is_some_and(|due| due <= moment.since) {
            self.cutter.tick(moment, &mut self.fresh);
        }
        match self.phase {
            Phase::Running if self.due_for_timeout(at) => self.ask(Why::Timeout, self.body.plan.grace, at, shared),
            Phase::Asked(until) if until <= at => self.kill(at, shared, 0),
            Phase::Killing { again, pass } if again <= at => self.kill(at, shared, pass + 1),
            Phase::Sweeping { again, pass } if again <= at => self.sweep(at, shared, starters, pass + 1),
            _ => {}
        }
        if self.look > at {
            return;
        }
        self.look = at + LOOK;
        if !matches!(self.phase, Phase::Sweeping { .. } | Phase::Over) {
            self.usage = self.usage.most(usage::of(self.body.pid));
        }
    }

    fn due_for_timeout(&self, at: Instant) -> bool {
        self.body.plan.timeout.is_some_and(|limit| at.saturating_duration_since(self.body.started) >= limit)
    }

    /// Asks it to end. The first reason counts, and the shortest time.
    pub(super) fn ask(&mut self, why: Why, grace: Duration, at: Instant, shared: &Shared) {
        let until = at.checked_add(grace).unwrap_or(at);
        match self.phase {
            Phase::Running => {
                self.why.get_or_insert(why);
                if grace.is_zero() {
                    return self.kill(at, shared, 0);
                }
                // A group without anybody left to signal ends by itself.
                let _ = killpg(Pid::from_raw(self.body.pid), Signal::SIGTERM);
                self.phase = Phase::Asked(until);
            }
            Phase::Asked(before) => self.phase = Phase::Asked(before.min(until)),
            Phase::Killing { .. } | Phase::Sweeping { .. } | Phase::Over => {}
        }
    }

    fn kin<'a>(body: &'a BodyParts, pipes: &'a [Option<File>], shared: &'a Shared) -> Kin<'a> {
        let alone = shared.options.exclusive && shared.live.load(Ordering::Relaxed) == 1;
        let (mark, group) = (&body.mark, body.group.as_ref());
        Kin { leader: body.pid, mark, group, work: &shared.real_work, id: body.plan.id, pipes, alone }
    }

    fn kill(&mut self, at: Instant, shared: &Shared, pass: u32) {
        if let Some(group) = &self.body.group {
            group.kill();
        }
        let kin = Self::kin(&self.body, &self.pipes, shared);
        // What cannot be looked at now is looked at again.
        let whole = shared.orphans.whole(&kin).unwrap_or_default();
        self.immune = sweep::kill(&whole);
        self.phase = Phase::Killing { again: at + pause(pass), pass };
    }

    /// Its first process is dead.
    pub(super) fn died(&mut self, at: Instant, shared: &Shared, starters: &BTreeSet<i32>) {
        if at.saturating_duration_since(self.body.started) >= TICK {
            self.usage = self.usage.most(usage::of(self.body.pid));
        }
        self.sweep(at, shared, starters, 0);
    }

    fn sweep(&mut self, at: Instant, shared: &Shared, starters: &BTreeSet<i32>, pass: u32) {
        let kin = Self::kin(&self.body, &self.pipes, shared);
        match shared.orphans.left(&kin, starters) {
            Ok(left) if left.is_empty() => self.phase = Phase::Over,
            Ok(left) => {
                if let Some(group) = &self.body.group {
                    group.kill();
                }
                self.immune = sweep::kill(&left);
                let given_up = self.immune && pass >= GIVE_UP;
                let again = Phase::Sweeping { again: at + pause(pass), pass };
                self.phase = if given_up { Phase::Over } else { again };
            }
            Err(error) => {
                tracing::warn!(attempt = %self.body.plan.id, %error, "looking for what an attempt left behind");
                self.phase = Phase::Sweeping { again: at + PASS_MAX, pass };
            }
        }
    }

    /// Reads what a pipe holds now, at most one buffer full. False at its end: then the pipe is of no more use.
    pub(super) fn read(&mut self, which: usize, buffer: &mut [u8], at: Instant, shared: &Shared) -> bool {
        let Some(Some(pipe)) = self.pipes.get_mut(which) else { return false };
        let len = match pipe.read(buffer) {
            Ok(0) => return false,
            Ok(len) => len,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return true,
            Err(_) => return false,
        };
        let stream = if which == 0 { LogStream::Stdout } else { LogStream::Stderr };
        let moment = self.moment(at);
        match self.cutter.push(stream, buffer.get(..len).unwrap_or_default(), moment, &mut self.fresh) {
            Fill::Open => {}
            Fill::Wait => self.paused = true,
            Fill::Fail => self.ask(Why::LogLimit, self.body.plan.grace, at, shared),
        }
        true
    }

    /// The end, once nothing is left: reads what the pipes still hold, judges, and gives back what is to be cleared.
    pub(super) fn finish(mut self, buffer: &mut [u8], shared: &Shared) -> (Finished, Vec<LogChunk>) {
        let at = Instant::now();
        for which in 0..self.pipes.len() {
            for _ in 0..DRAIN_READS {
                let before = self.cutter.totals();
                if !self.read(which, buffer, at, shared) || self.cutter.totals() == before {
                    break;
                }
            }
        }
        let checked = self.body.plan.run.checks_outputs;
        let found = outputs::read(&self.body.dir, checked, self.body.masker.as_deref());
        let moment = self.moment(at);
        if let Some(complaint) = &found.complaint {
            self.cutter.say(complaint, moment, &mut self.fresh);
        }
        if self.immune {
            self.cutter.say("some processes of this attempt may not be killed and go on", moment, &mut self.fresh);
        }
        let oom = self.body.group.as_ref().is_some_and(|group| group.oom_kills() > 0);
        if let Some(group) = &self.body.group {
            self.usage = self.usage.most(group_usage(group));
        }
        let ended = reap(self.body.pid);
        let (log, tail) = self.cutter.finish(moment, &mut self.fresh);
        let (outcome, reason) = judge(ended, self.why, oom, &self.body.plan.run.success_codes);
        let (exit_code, signal) = match ended {
            Some(Ended::Exited(code)) => (Some(code), None),
            Some(Ended::Signalled(signal)) => (None, Some(signal)),
            None => (None, None),
        };
        let end = AttemptEnd {
            outcome,
            exit_code,
            signal,
            reason: reason.to_owned(),
            started_at: Some(self.body.started_at),
            finished_at: moment.wall,
            usage: self.usage,
            outputs: found.values,
            log,
            tail,
            artifacts: Vec::new(),
        };
        let BodyParts { dir, secrets, group, .. } = self.body;
        (Finished { end, dir, secrets, group }, self.fresh)
    }
}

/// What a whole group used, where it counts.
fn group_usage(group: &Cgroup) -> Usage {
    let (cpu_ms, max_rss) = group.used();
    Usage { cpu_ms, max_rss, ..Usage::default() }
}

fn pause(pass: u32) -> Duration {
    PASS_MIN.saturating_mul(1 << pass.min(7)).min(PASS_MAX)
}

fn reap(pid: i32) -> Option<Ended> {
    let pid = rustix::process::Pid::from_raw(pid)?;
    let (_, status) = waitpid(Some(pid), WaitOptions::empty()).ok()??;
    let exited = status.exit_status().map(Ended::Exited);
    exited.or_else(|| status.terminating_signal().map(Ended::Signalled))
}
