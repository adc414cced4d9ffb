//! The life of one attempt as a process: its time, its output, what it uses, and how its end is judged. Waiting is the
//! [lane](super::lane)'s; asking, killing and sweeping up after it are those of every process that is kept.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_core::task::{LogStream, Usage};
use orlop_core::time::Time;

use super::usage;
use crate::runtime::logs::{Masker, now};
use crate::runtime::process::cgroup::Cgroup;
use crate::runtime::process::tree::{Ended, Marks, Others, Process};
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
/// Reads of a pipe after its writers are dead: pipes hold 64 KiB and at most 1 MiB.
const DRAIN_READS: usize = 64;

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
    pub(super) marks: Marks,
    pub(super) masker: Option<Arc<Masker>>,
    pub(super) started: Instant,
    pub(super) started_at: Time,
}

/// One attempt that runs.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) plan: AttemptPlan,
    pub(super) process: Process,
    /// Whether its pipes are left alone because there is no room.
    pub(super) paused: bool,
    /// Chunks that were not reported yet.
    pub(super) fresh: Vec<LogChunk>,
    dir: PathBuf,
    secrets: Option<PathBuf>,
    masker: Option<Arc<Masker>>,
    group: Option<Cgroup>,
    started: Instant,
    started_at: Time,
    why: Option<Why>,
    cutter: Cutter,
    usage: Usage,
    look: Instant,
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
        let Body { plan, pid, end, out, err, dir, secrets, marks, masker, started, started_at } = body;
        Self {
            cutter: Cutter::new(plan.run.log, masker.clone()),
            plan,
            group: marks.group.clone(),
            process: Process::new(pid, end, [out, err], marks),
            paused: false,
            fresh: Vec::new(),
            dir,
            secrets,
            masker,
            started,
            started_at,
            why: None,
            usage: Usage::default(),
            look: started + FIRST_LOOK,
        }
    }

    fn moment(&self, at: Instant) -> Moment {
        Moment { since: at.saturating_duration_since(self.started), wall: now() }
    }

    /// When its time is over, as long as it was not asked to end.
    fn limit(&self) -> Option<Instant> {
        self.plan.timeout.filter(|_| self.why.is_none()).and_then(|limit| self.started.checked_add(limit))
    }

    /// When it wants to be looked at again.
    pub(super) fn due(&self) -> Option<Instant> {
        let limit = self.limit().filter(|_| self.process.is_alive());
        let log = self.cutter.due().and_then(|since| self.started.checked_add(since));
        [limit, self.process.due(), log, Some(self.look)].into_iter().flatten().min()
    }

    /// Does what is due. What it uses is looked at from time to time, for its end no longer tells of memory.
    pub(super) fn tick(&mut self, at: Instant, others: Others<'_>) {
        let moment = self.moment(at);
        if self.cutter.due().is_some_and(|due| due <= moment.since) {
            self.cutter.tick(moment, &mut self.fresh);
        }
        if self.limit().is_some_and(|limit| limit <= at) {
            self.ask(Why::Timeout, self.plan.grace, at);
        }
        self.process.tick(at, others);
        if self.look > at {
            return;
        }
        self.look = at + LOOK;
        if self.process.is_alive() {
            self.usage = self.usage.most(usage::of(self.process.pid));
        }
    }

    /// Asks it to end. The first reason counts, and the shortest time.
    pub(super) fn ask(&mut self, why: Why, grace: Duration, at: Instant) {
        if self.process.ask(grace, at) {
            self.why.get_or_insert(why);
        }
    }

    /// Its first process is dead.
    pub(super) fn died(&mut self, at: Instant, others: Others<'_>) {
        if at.saturating_duration_since(self.started) >= TICK {
            self.usage = self.usage.most(usage::of(self.process.pid));
        }
        self.process.died(at, others);
    }

    /// Reads what a pipe holds now, at most one buffer full. False at its end: then the pipe is of no more use.
    pub(super) fn read(&mut self, which: usize, buffer: &mut [u8], at: Instant) -> bool {
        let Some(Some(pipe)) = self.process.pipes.get_mut(which) else { return false };
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
            Fill::Fail => self.ask(Why::LogLimit, self.plan.grace, at),
        }
        true
    }

    /// The end, once nothing is left: reads what the pipes still hold, judges, and gives back what is to be cleared.
    pub(super) fn finish(mut self, buffer: &mut [u8]) -> (Finished, Vec<LogChunk>) {
        let at = Instant::now();
        for which in 0..self.process.pipes.len() {
            for _ in 0..DRAIN_READS {
                let before = self.cutter.totals();
                if !self.read(which, buffer, at) || self.cutter.totals() == before {
                    break;
                }
            }
        }
        let found = outputs::read(&self.dir, self.masker.as_deref());
        let moment = self.moment(at);
        if let Some(complaint) = &found.complaint {
            self.cutter.say(complaint, moment, &mut self.fresh);
        }
        if !self.process.immune().is_empty() {
            self.cutter.say(
                "some processes of this attempt cannot be killed and keep running",
                moment,
                &mut self.fresh,
            );
        }
        let oom = self.group.as_ref().is_some_and(|group| group.oom_kills() > 0);
        if let Some(group) = &self.group {
            self.usage = self.usage.most(group_usage(group));
        }
        let ended = self.process.reap();
        let (log, tail) = self.cutter.finish(moment, &mut self.fresh);
        let (outcome, reason) = judge(ended, self.why, oom, &self.plan.run.success_codes);
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
            started_at: Some(self.started_at),
            finished_at: moment.wall,
            usage: self.usage,
            outputs: found.values,
            log,
            tail,
            artifacts: Vec::new(),
        };
        let Self { dir, secrets, group, fresh, .. } = self;
        (Finished { end, dir, secrets, group }, fresh)
    }
}

/// What a whole group used, where it counts.
pub(super) fn group_usage(group: &Cgroup) -> Usage {
    let (cpu_ms, max_rss) = group.used();
    Usage { cpu_ms, max_rss, ..Usage::default() }
}
