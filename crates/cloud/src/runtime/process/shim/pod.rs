//! The life of a pod: its containers one after the other, started again in place where that was asked for, until the
//! last has ended or the pod is cut off. Owns the event loop of the shim and what interrupts it; what one container
//! does is in [`container`](super::container).

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::sys::signalfd::SignalFd;
use nix::unistd::Pid;

use super::clock::{Alarm, PodClock};
use super::container::Running;
use super::verdict::{self, Cause};
use crate::runtime::clock::{now, uptime};
use crate::runtime::failure;
use crate::runtime::logs::Masker;
use crate::runtime::logs::capture::{Capture, Tail};
use crate::runtime::pod::{ContainerExit, PodExit, PodResult};
use crate::runtime::process::cgroup::Cgroup;
use crate::runtime::process::record::{Directory, ExitRecord, Locks, Reserved};
use crate::runtime::process::request;
use crate::runtime::process::tree::{Children, Ended, Family};
use crate::runtime::process::wire::{Container, KeepOrder};

/// A container that ran this long before it failed starts its delays anew.
const SETTLED: Duration = Duration::from_secs(600);

/// Time between two tries to kill a process that could not be killed.
const KILL_AGAIN: Duration = Duration::from_secs(10);

/// A pod that is being cut off.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    cause: Cause,
    /// When what is left is killed; never is far enough away.
    kill_at: Duration,
}

/// A pod and its shim.
#[derive(Debug)]
pub(super) struct Pod {
    pub(super) order: KeepOrder,
    pub(super) directory: Directory,
    /// Held until the process ends.
    pub(super) locks: Locks,
    pub(super) reserved: Option<Reserved>,
    /// Room for the layout, until it is written.
    pub(super) layout: Option<Reserved>,
    pub(super) signals: SignalFd,
    pub(super) alarm: Alarm,
    pub(super) clock: PodClock,
    pub(super) view: PathBuf,
    pub(super) token: String,
    pub(super) cgroup: Option<Cgroup>,
    pub(super) family: Family,
    pub(super) masker: Arc<Masker>,
    pub(super) stdout: Capture,
    pub(super) stderr: Capture,
    pub(super) tail: Tail,
    pub(super) running: Option<Running>,
    pub(super) ending: Option<Ending>,
    pub(super) done: Vec<ContainerExit>,
    /// What is read from pipes.
    pub(super) buffer: Vec<u8>,
    /// Whether the last of `done` failed the pod.
    pub(super) failed: bool,
}

/// How a container went.
pub(super) struct Attempt {
    pub(super) exit: ContainerExit,
    /// Whether its process could not even be made.
    pub(super) cannot_start: bool,
}

impl Pod {
    /// Runs the pod to its end and writes the record.
    pub(super) fn run(&mut self) -> ExitCode {
        // Made only now that the claim names it, so that it is found and removed whatever becomes of this process.
        let group = self.cgroup.as_ref().map_or(Ok(()), Cgroup::create);
        let containers = group.map_err(io::Error::other).and_then(|()| self.containers());
        let result = match containers {
            Ok(cannot_start) => self.result(cannot_start),
            Err(error) => {
                let message = self.masker.mask_text(&format!("the shim of the pod failed: {error}"));
                failure::pod(message)
            }
        };
        // Nothing of the pod may outlive its record. What may not be killed is said there.
        let immune = self.end_all();
        let result = match (result, immune) {
            (PodResult::Failed { reason, message }, Some(left)) => {
                PodResult::Failed { reason, message: format!("{message}; {left}") }
            }
            (result, _) => result,
        };
        self.stdout.close(now());
        self.stderr.close(now());
        let losses: Vec<String> = [&self.stdout, &self.stderr].into_iter().filter_map(Capture::losses).collect();
        let result = match result {
            PodResult::Failed { reason, message } if !losses.is_empty() => {
                PodResult::Failed { reason, message: format!("{message}; {}", losses.join("; ")) }
            }
            result => result,
        };
        let exit = PodExit {
            result,
            started_at: self.done.first().map(|exit| exit.started_at),
            containers: std::mem::take(&mut self.done),
            ended_at: now(),
        };
        let record = ExitRecord { exit, lost_stdout: self.stdout.lost().bytes, lost_stderr: self.stderr.lost().bytes };
        let written = self.reserved.take().map(|reserved| reserved.write_exit(record));
        // A group that cannot be removed now is removed with the pod.
        drop(self.cgroup.as_ref().map(Cgroup::remove));
        if matches!(written, Some(Ok(()))) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn result(&self, cannot_start: bool) -> PodResult {
        let deadline = self.order.active_deadline_ms.map(Duration::from_millis);
        match self.ending {
            Some(ending) => verdict::cut_off(ending.cause, deadline),
            None if self.failed => verdict::failed(self.done.last(), cannot_start),
            None => PodResult::Succeeded,
        }
    }

    /// Kills what is left of the pod; says what may not be killed.
    pub(super) fn end_all(&mut self) -> Option<String> {
        if let Some(group) = &self.cgroup {
            group.kill();
        }
        match self.family.end_all() {
            Ok(left) if left.is_empty() => None,
            Ok(left) => {
                let left: Vec<String> = left.iter().map(|one| one.pid.to_string()).collect();
                Some(format!("processes {} may not be ended by this user", left.join(", ")))
            }
            Err(error) => Some(format!("ending its processes failed: {error}")),
        }
    }

    /// Runs all containers; says whether the failed one could not even be started.
    fn containers(&mut self) -> io::Result<bool> {
        self.look()?;
        let containers: Vec<Container> = self.order.init.iter().chain([&self.order.main]).cloned().collect();
        let mut left = self.order.restart_limit;
        for (index, container) in containers.iter().enumerate() {
            let (mut restarts, mut failures) = (0_u32, 0_usize);
            loop {
                self.until_thawed()?;
                if self.ending.is_some() {
                    return Ok(false);
                }
                let begun = self.elapsed();
                let mut attempt = self.run_container(index, container)?;
                attempt.exit.restarts = restarts;
                let succeeded = attempt.exit.exit_code == 0;
                self.done.truncate(index);
                self.done.push(attempt.exit);
                if self.ending.is_some() {
                    return Ok(false);
                }
                if succeeded {
                    break;
                }
                if left == 0 {
                    self.failed = true;
                    return Ok(attempt.cannot_start);
                }
                failures = if self.elapsed().saturating_sub(begun) >= SETTLED { 1 } else { failures + 1 };
                self.pause(failures)?;
                left -= 1;
                restarts += 1;
            }
        }
        Ok(false)
    }

    /// Waits before a container is started again, on the pod's clock.
    fn pause(&mut self, failures: usize) -> io::Result<()> {
        let delays = &self.order.restart_delays_ms;
        let delay = delays.get(failures.saturating_sub(1)).or(delays.last()).copied().unwrap_or(0);
        let due = self.elapsed().saturating_add(Duration::from_millis(delay));
        while self.ending.is_none() && self.elapsed() < due {
            self.turn(Some(due))?;
        }
        Ok(())
    }

    fn until_thawed(&mut self) -> io::Result<()> {
        while self.clock.is_frozen() && self.ending.is_none() {
            self.turn(None)?;
        }
        Ok(())
    }

    fn elapsed(&self) -> Duration {
        self.clock.elapsed(uptime())
    }

    /// Waits for something to happen and deals with it; `due` on the pod's clock is something, too.
    pub(super) fn turn(&mut self, due: Option<Duration>) -> io::Result<()> {
        let deadline = self.order.active_deadline_ms.filter(|_| self.ending.is_none()).map(Duration::from_millis);
        let timers = [
            deadline.and_then(|deadline| self.clock.when(deadline)),
            due.and_then(|due| self.clock.when(due)),
            self.ending.map(|ending| ending.kill_at),
        ];
        self.alarm.set(timers.into_iter().flatten().min())?;
        {
            let mut fds = vec![
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.alarm.as_fd(), PollFlags::POLLIN),
            ];
            let pipes = self.running.as_ref().map(Running::descriptors).unwrap_or_default();
            fds.extend(pipes.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)));
            match poll(&mut fds, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.read_pipes();
        self.read_signals()?;
        let time = uptime();
        if deadline.and_then(|deadline| self.clock.when(deadline)).is_some_and(|at| at <= time) {
            self.cut_off(Cause::Deadline, Duration::from_millis(self.order.grace_ms))?;
        }
        if self.ending.is_some_and(|ending| ending.kill_at <= time) {
            self.end_all();
            // Once more later, should one of them not be killable now.
            let kill_at = time.saturating_add(KILL_AGAIN);
            self.ending = self.ending.map(|ending| Ending { kill_at, ..ending });
        }
        Ok(())
    }

    fn read_signals(&mut self) -> io::Result<()> {
        while let Some(info) = self.signals.read_signal()? {
            match i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok()) {
                Some(Signal::SIGCHLD) => drop(self.family.reap()?),
                Some(request::LOOK) => self.look()?,
                Some(Signal::SIGTERM) => self.cut_off(Cause::Shim, Duration::from_millis(self.order.grace_ms))?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Looks at what is asked.
    fn look(&mut self) -> io::Result<()> {
        let request = request::read(&self.directory).map_err(|failure| failure.source)?;
        if let Some(grace) = request.stop {
            self.cut_off(Cause::Stop, Duration::from_millis(grace))?;
        } else if self.ending.is_none() && request.frozen != self.clock.is_frozen() {
            self.freeze(request.frozen)?;
        }
        Ok(())
    }

    fn freeze(&mut self, on: bool) -> io::Result<()> {
        let time = uptime();
        if on {
            self.clock.freeze(time);
            self.family.signal_all(Signal::SIGSTOP)
        } else {
            self.clock.thaw(time);
            self.family.signal_all(Signal::SIGCONT)
        }
    }

    /// Asks the running container to end and sets the time it is killed. The first cause counts, and the shortest time.
    fn cut_off(&mut self, cause: Cause, grace: Duration) -> io::Result<()> {
        let kill_at = uptime().saturating_add(grace);
        if let Some(ending) = &mut self.ending {
            ending.kill_at = ending.kill_at.min(kill_at);
            return Ok(());
        }
        let alive = self.family.reap()? == Children::Some;
        let is_main = self.running.as_ref().is_some_and(Running::is_main);
        if is_main && self.family.ended() == Some(Ended::Exited(0)) {
            // It came to its end first.
            return Ok(());
        }
        self.ending = Some(Ending { cause, kill_at });
        let Some(running) = self.running.as_ref().filter(|_| alive) else { return Ok(()) };
        match killpg(Pid::from_raw(running.pid()), Signal::SIGTERM) {
            // The group is gone; what left it is killed when its time comes.
            Ok(()) | Err(Errno::ESRCH | Errno::EPERM) => {}
            Err(error) => return Err(error.into()),
        }
        // What stands still could not end.
        self.freeze(false)
    }
}
