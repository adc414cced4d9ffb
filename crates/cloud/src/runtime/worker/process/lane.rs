//! One thread that starts attempts and keeps them to their end. Owns the order of reports; what happens in an attempt's life is
//! [`Life`]'s.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use orlop_core::spec::job::OnFull;
use orlop_core::task::TaskRef;

use super::life::Life;
use super::spawn::Spawner;
use super::{Shared, begin};
use crate::runtime::logs::now;
use crate::runtime::process::tree::Others;
use crate::runtime::process::watcher::{Descriptor, Mailbox, Watcher};
use crate::runtime::worker::directories::clear;
use crate::runtime::worker::event::{AttemptEnd, Cause, LogCapacity, LogChunk};
use crate::runtime::worker::plan::AttemptPlan;
use crate::runtime::worker::verdict::Why;

/// Bytes read at once.
const READ: usize = 64 * 1024;

/// What a lane is asked to do.
#[derive(Debug)]
pub(super) enum LaneCommand {
    Start(Box<AttemptPlan>),
    End(TaskRef, Cause, Duration),
    Resume(TaskRef),
    Stop,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Lane {
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox<LaneCommand>>,
    /// Attempts it was given and that have not ended.
    load: Arc<AtomicUsize>,
    spawner: Spawner,
    watcher: Watcher,
    /// The number of the mailbox.
    bell: u64,
    lives: BTreeMap<u64, Life>,
    numbers: BTreeMap<TaskRef, u64>,
    /// Whether this is the first thread of the program, whose children are not all orphans.
    first_thread: bool,
    starters: BTreeSet<i32>,
    buffer: Vec<u8>,
    reported: bool,
}

/// What a lane knows beside one of its attempts.
fn others<'a>(shared: &'a Shared, starters: &'a BTreeSet<i32>) -> Others<'a> {
    let alone = shared.options.exclusive && shared.live.load(Ordering::Relaxed) == 1;
    Others { orphans: &shared.orphans, starters, alone }
}

impl Lane {
    /// For the calling thread.
    pub(super) fn new(
        shared: Arc<Shared>,
        mailbox: Arc<Mailbox<LaneCommand>>,
        load: Arc<AtomicUsize>,
    ) -> io::Result<Self> {
        let mut watcher = Watcher::new()?;
        let bell = watcher.number();
        watcher.watch(mailbox.bell(), bell, Descriptor::Only)?;
        let first_thread = u32::try_from(nix::unistd::gettid().as_raw()).is_ok_and(|id| id == std::process::id());
        Ok(Self {
            shared,
            mailbox,
            load,
            spawner: Spawner::new()?,
            watcher,
            bell,
            lives: BTreeMap::new(),
            numbers: BTreeMap::new(),
            first_thread,
            starters: BTreeSet::new(),
            buffer: vec![0; READ],
            reported: false,
        })
    }

    /// Works until it gets the command to stop.
    pub(super) fn run(&mut self) -> io::Result<()> {
        loop {
            for order in self.mailbox.take() {
                match order {
                    LaneCommand::Start(plan) => self.start(*plan),
                    LaneCommand::End(id, cause, grace) => self.end(&id, cause, grace),
                    LaneCommand::Resume(id) => self.resume(&id),
                    LaneCommand::Stop => return Ok(()),
                }
            }
            self.ring();
            if std::mem::take(&mut self.reported) {
                self.shared.events.flush();
            }
            for (number, kind) in self.watcher.wait()? {
                if number == self.bell { self.mailbox.silence() } else { self.ready(number, kind) }
            }
        }
    }

    fn start(&mut self, plan: AttemptPlan) {
        let id = plan.id;
        if self.numbers.contains_key(&id) {
            return;
        }
        match begin::begin(plan, &self.shared, &self.spawner) {
            Ok((life, started)) => {
                self.shared.live.fetch_add(1, Ordering::Relaxed);
                if self.first_thread {
                    self.starters.insert(life.process.pid);
                }
                let number = self.watcher.number();
                let watched = self.watch(number, &life);
                self.numbers.insert(id, number);
                self.lives.insert(number, life);
                self.reported = true;
                self.shared.events.started(id, started);
                if let Err(error) = watched {
                    tracing::error!(attempt = %id, %error, "an attempt cannot be waited for; it is ended");
                    self.end(&id, Cause::Cancel, Duration::ZERO);
                }
                self.settle(number);
            }
            Err(refused) => {
                self.reported = true;
                self.load.fetch_sub(1, Ordering::Relaxed);
                let message = refused.to_string();
                let (end, said) = match refused.exit_code() {
                    Some(code) => AttemptEnd::cannot_start(code, &message, now()),
                    None => AttemptEnd::start_failed(refused.word(), &message, now()),
                };
                // There may be no room: why it did not start is reported all the same.
                let _ = self.shared.events.log(id, said);
                self.shared.events.ended(id, end);
            }
        }
    }

    fn watch(&self, number: u64, life: &Life) -> nix::Result<()> {
        self.watcher.watch(&life.process.end, number, Descriptor::End)?;
        self.watch_pipes(number, life)
    }

    fn watch_pipes(&self, number: u64, life: &Life) -> nix::Result<()> {
        for (pipe, kind) in life.process.pipes.iter().zip([Descriptor::Out, Descriptor::Err]) {
            if let Some(pipe) = pipe {
                self.watcher.watch(pipe, number, kind)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, id: &TaskRef, cause: Cause, grace: Duration) {
        let Some(number) = self.numbers.get(id).copied() else { return };
        if let Some(life) = self.lives.get_mut(&number) {
            life.ask(Why::Asked(cause), grace, Instant::now());
        }
        self.settle(number);
    }

    fn resume(&mut self, id: &TaskRef) {
        let Some(number) = self.numbers.get(id).copied() else { return };
        let Some(life) = self.lives.get_mut(&number).filter(|life| life.paused) else { return };
        life.paused = false;
        let watched = self.lives.get(&number).map_or(Ok(()), |life| self.watch_pipes(number, life));
        if let Err(error) = watched {
            tracing::error!(attempt = %id, %error, "the output of an attempt cannot be waited for");
        }
    }

    /// A descriptor of a life has something to say.
    fn ready(&mut self, number: u64, kind: Descriptor) {
        let Some(life) = self.lives.get_mut(&number) else { return };
        let at = Instant::now();
        if kind == Descriptor::End {
            // It stays readable; the process is reaped when nothing else is left of the attempt.
            self.watcher.forget(&life.process.end);
            life.died(at, others(&self.shared, &self.starters));
        } else {
            let which = usize::from(kind == Descriptor::Err);
            if !life.read(which, &mut self.buffer, at)
                && let Some(pipe) = life.process.pipes.get_mut(which).and_then(Option::take)
            {
                self.watcher.forget(&pipe);
            }
        }
        self.settle(number);
    }

    /// Does what is due by time.
    fn ring(&mut self) {
        let at = Instant::now();
        while let Some(number) = self.watcher.due(at) {
            let Some(life) = self.lives.get_mut(&number) else { continue };
            life.tick(at, others(&self.shared, &self.starters));
            self.settle(number);
        }
    }

    /// After something happened in a life: tells its output, sets its timer, and ends it when it is over.
    fn settle(&mut self, number: u64) {
        let Some(life) = self.lives.get_mut(&number) else { return };
        if !life.fresh.is_empty() {
            self.reported = true;
            let room = tell(&self.shared, life.plan.id, std::mem::take(&mut life.fresh));
            if room == LogCapacity::Full && life.plan.run.log.on_full == OnFull::Block {
                life.paused = true;
            }
        }
        if life.paused {
            life.process.pipes.iter().flatten().for_each(|pipe| self.watcher.forget(pipe));
        }
        if life.process.is_over() {
            return self.finish(number);
        }
        self.watcher.arm(number, life.due());
    }

    fn finish(&mut self, number: u64) {
        let Some(life) = self.lives.remove(&number) else { return };
        life.process.pipes.iter().flatten().for_each(|pipe| self.watcher.forget(pipe));
        self.watcher.arm(number, None);
        let (id, keep, pid) = (life.plan.id, life.plan.run.keep, life.process.pid);
        self.numbers.remove(&id);
        let (finished, fresh) = life.finish(&mut self.buffer);
        self.starters.remove(&pid);
        // There may be no room: the last output of an attempt is reported all the same.
        let _ = tell(&self.shared, id, fresh);
        if let Some(secrets) = &finished.secrets {
            clear(secrets);
        }
        if let Some(Err(error)) = finished.group.map(|group| group.remove()) {
            tracing::warn!(attempt = %id, %error, "a control group stays");
        }
        if !keep {
            self.shared.directories.retire(&finished.dir, finished.end.outcome);
        }
        self.reported = true;
        self.shared.live.fetch_sub(1, Ordering::Relaxed);
        self.load.fetch_sub(1, Ordering::Relaxed);
        self.shared.events.ended(id, finished.end);
    }
}

fn tell(shared: &Shared, id: TaskRef, chunks: Vec<LogChunk>) -> LogCapacity {
    let mut room = LogCapacity::Free;
    for chunk in chunks {
        if shared.events.log(id, chunk) == LogCapacity::Full {
            room = LogCapacity::Full;
        }
    }
    room
}
