//! What an agent has of attempts under supervisors: reads their journals as they grow, passes requests on, and notices when
//! a supervisor dies. Owns the thread that does it; runs and ends nothing itself, but for what a dead supervisor left.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use nix::sys::signal::Signal;
use orlop_core::error::Problem;
use orlop_core::task::TaskRef;

use super::control::{Control, Report, Request, Spares, SupervisorState, read_lease};
use super::order::{RuntimeOptions, Start};
use crate::clock::uptime;
use crate::runtime::blocking::blocking;
use crate::runtime::logs::now;
use crate::runtime::process::RoleProgram;
use crate::runtime::process::identity::{Identity, stat};
use crate::runtime::process::watcher::{Descriptor, Mailbox, Watcher};
use crate::runtime::process::wire;
use crate::runtime::worker::event::{AttemptEnd, AttemptEvents, Cause, LogCapacity};
use crate::runtime::worker::plan::AttemptPlan;
use crate::segment::follow::SegmentFollower;
use crate::segment::{Kind, decode};

/// What a supervisor needs of the agent's environment to find a container engine and its logins as the agent does.
const PASSED: [&str; 6] = ["PATH", "HOME", "XDG_RUNTIME_DIR", "DOCKER_CONFIG", "DOCKER_HOST", "ORLOP_DOCKER_HOST"];
/// How long a supervisor may take to say that it started an attempt, or why not. Images are fetched before an attempt is
/// handed over to one, or by one that keeps the attempt meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the thread is asked to do.
#[derive(Debug)]
pub(in crate::runtime::worker) enum FollowerCommand {
    Start(Box<AttemptPlan>),
    Adopt(TaskRef, u64, mpsc::SyncSender<io::Result<()>>),
    End(TaskRef, Cause, Duration),
    Resume(TaskRef),
    Stop,
}

/// What becomes of an attempt whose supervisor died and did not write its end: the attempt, its last chunk of output, and the
/// reason where it is lost.
pub(in crate::runtime::worker) type OnSupervisorDeath = Box<dyn Fn(&TaskRef, u64, &str) -> Result<(), Problem> + Send>;

/// On whose behalf attempts are followed.
pub(in crate::runtime::worker) struct FollowerContext {
    /// The directory of attempts.
    pub(in crate::runtime::worker) work: PathBuf,
    /// Receives the events.
    pub(in crate::runtime::worker) events: Arc<dyn AttemptEvents>,
    /// Those of the runtime in the supervisor.
    pub(in crate::runtime::worker) options: RuntimeOptions,
    /// What becomes of attempts without a supervisor.
    pub(in crate::runtime::worker) on_supervisor_death: OnSupervisorDeath,
}

impl fmt::Debug for FollowerContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowerContext").field("work", &self.work).finish_non_exhaustive()
    }
}

/// The way to the thread.
#[derive(Debug)]
pub(in crate::runtime::worker) struct Followers {
    pub(in crate::runtime::worker) mailbox: Arc<Mailbox<FollowerCommand>>,
    thread: Option<JoinHandle<()>>,
}

impl Followers {
    /// Starts it.
    pub(in crate::runtime::worker) fn start(context: FollowerContext, program: RoleProgram) -> io::Result<Self> {
        let mailbox = Mailbox::new()?;
        let mut thread = Thread::new(context, program, Arc::clone(&mailbox))?;
        let work = move || {
            if let Err(error) = thread.run() {
                tracing::error!(%error, "following supervised attempts was aborted");
            }
        };
        let thread = std::thread::Builder::new().name("orlop-follow".to_owned()).spawn(work)?;
        Ok(Self { mailbox, thread: Some(thread) })
    }

    /// Goes on with an attempt of an earlier agent.
    ///
    /// # Errors
    /// When its control files cannot be read.
    pub(in crate::runtime::worker) async fn adopt(&self, id: TaskRef, after_seq: u64) -> Result<(), Problem> {
        let mailbox = Arc::clone(&self.mailbox);
        blocking(move || {
            let (send, answer) = mpsc::sync_channel(1);
            mailbox.send(FollowerCommand::Adopt(id, after_seq, send));
            let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            Ok(answer.recv().map_err(gone)??)
        })
        .await
    }
}

impl Drop for Followers {
    fn drop(&mut self) {
        self.mailbox.send(FollowerCommand::Stop);
        if let Some(thread) = self.thread.take() {
            // One that panicked has nothing more to say.
            drop(thread.join());
        }
    }
}

#[derive(Debug)]
struct Followed {
    control: Control,
    journal: SegmentFollower,
    owner: Identity,
    /// Output up to this is known already, and the start is.
    after_seq: u64,
    /// The last chunk of output that was read.
    last_seq: u64,
    adopted: bool,
    over: bool,
    /// Whether nothing was heard of it yet: then it is looked from time to time whether a supervisor has it.
    is_silent: bool,
    /// Its number for the watcher.
    number: u64,
}

/// A supervisor that lives.
#[derive(Debug)]
struct Owner {
    number: u64,
    end: OwnedFd,
    /// Of one that this agent started.
    child: Option<Child>,
}

#[derive(Debug)]
struct Thread {
    context: FollowerContext,
    program: RoleProgram,
    mailbox: Arc<Mailbox<FollowerCommand>>,
    watcher: Watcher,
    /// The number of the mailbox.
    bell: u64,
    /// That of the changes of journals.
    changes: u64,
    notes: Inotify,
    watched: HashMap<WatchDescriptor, TaskRef>,
    followed: BTreeMap<TaskRef, Followed>,
    spares: Spares,
    owners: BTreeMap<Identity, Owner>,
    /// The one that takes new attempts.
    taking: Option<(Identity, ChildStdin)>,
    /// There are reports that must be made durable.
    reported: bool,
}

impl Thread {
    fn new(context: FollowerContext, program: RoleProgram, mailbox: Arc<Mailbox<FollowerCommand>>) -> io::Result<Self> {
        let mut watcher = Watcher::new()?;
        let notes = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        let (bell, changes) = (watcher.number(), watcher.number());
        watcher.watch(mailbox.bell(), bell, Descriptor::Only)?;
        watcher.watch(&notes, changes, Descriptor::Only)?;
        let spares = Spares::of(&context.work);
        Ok(Self {
            context,
            program,
            mailbox,
            watcher,
            bell,
            changes,
            notes,
            watched: HashMap::new(),
            followed: BTreeMap::new(),
            spares,
            owners: BTreeMap::new(),
            taking: None,
            reported: false,
        })
    }

    fn run(&mut self) -> io::Result<()> {
        loop {
            for order in self.mailbox.take() {
                match order {
                    FollowerCommand::Start(plan) => self.start(*plan),
                    FollowerCommand::Adopt(id, after_seq, answer) => drop(answer.send(self.adopt(id, after_seq))),
                    FollowerCommand::End(id, cause, grace) => self.end(&id, cause, grace),
                    FollowerCommand::Resume(id) => self.read(&id),
                    FollowerCommand::Stop => return Ok(()),
                }
            }
            if std::mem::take(&mut self.reported) {
                self.context.events.flush();
            }
            self.clear();
            for (number, _) in self.watcher.wait()? {
                match number {
                    number if number == self.bell => self.mailbox.silence(),
                    number if number == self.changes => self.note(),
                    number => self.died(number),
                }
            }
            while let Some(number) = self.watcher.due(Instant::now()) {
                self.look_after(number);
            }
        }
    }

    /// Nothing was heard of an attempt: it is about to begin, or its supervisor could not take it on and will never report its end.
    fn look_after(&mut self, number: u64) {
        let numbered = |(_, followed): &(&TaskRef, &Followed)| followed.number == number;
        let Some(id) = self.followed.iter().find(numbered).map(|(id, _)| *id) else { return };
        self.read(&id);
        let Some(followed) = self.followed.get_mut(&id).filter(|followed| followed.is_silent) else { return };
        match followed.control.supervisor() {
            Ok(SupervisorState::Left) => {
                followed.over = true;
                return self.refuse(&id, "it did not begin; see the disk and the limits of this machine");
            }
            Ok(SupervisorState::Kept(_)) => {}
            Err(error) => tracing::warn!(attempt = %id, %error, "cannot determine whether an attempt has a supervisor"),
        }
        self.watcher.arm(number, Instant::now().checked_add(PATIENCE));
    }

    /// Tells that an attempt was not started.
    fn refuse(&mut self, id: &TaskRef, why: &str) {
        let message = format!("no supervisor takes the attempt on: {why}");
        let (end, said) = AttemptEnd::start_failed("supervisor", &message, now());
        // There may be no room: why it did not start is reported all the same.
        let _ = self.context.events.log(*id, said);
        self.context.events.ended(*id, end);
        self.reported = true;
    }

    fn start(&mut self, plan: AttemptPlan) {
        let id = plan.id;
        if let Err(error) = self.try_start(plan) {
            let control = Control::of(&self.context.work, &id);
            // A supervisor that got a part of the order may not take it on any more.
            drop(control.supervisor());
            control.remove();
            self.followed.remove(&id);
            self.refuse(&id, &error.to_string());
        }
    }

    fn try_start(&mut self, plan: AttemptPlan) -> io::Result<()> {
        let id = plan.id;
        let control = Control::of(&self.context.work, &id);
        let journal = SegmentFollower::new(Kind::Attempt, control.create(&mut self.spares)?);
        // Nobody else needs it.
        let leased = plan.run.forbid_overlap.then(|| read_lease(&self.context.work));
        let left = leased.unwrap_or_default().saturating_sub(uptime());
        let order = wire::encode(&Start { plan, lease_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX) })?;
        let owner = self.hand_over(&order)?;
        self.follow(id, control, journal, owner, None)
    }

    /// Gives an order to the supervisor that takes them; starts another when there is none, or it is dead.
    fn hand_over(&mut self, order: &[u8]) -> io::Result<Identity> {
        if let Some((owner, input)) = &mut self.taking {
            if input.write_all(order).is_ok() {
                return Ok(*owner);
            }
            self.taking = None;
        }
        let first = wire::encode(&self.context.options)?;
        let mut command = Command::new(&self.program.path);
        command.args(&self.program.args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let passed = PASSED.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        let mut child = command.env_clear().envs(passed).current_dir("/").spawn()?;
        let input = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        let owner = stat(pid).ok_or(io::ErrorKind::NotFound)?.identity;
        let end = owner.open()?.ok_or(io::ErrorKind::NotFound)?;
        self.watch_owner(owner, end, Some(child))?;
        let (owner, input) = self.taking.insert((owner, input));
        input.write_all(&first)?;
        input.write_all(order)?;
        Ok(*owner)
    }

    fn watch_owner(&mut self, owner: Identity, end: OwnedFd, child: Option<Child>) -> io::Result<()> {
        let number = self.watcher.number();
        self.watcher.watch(&end, number, Descriptor::End)?;
        self.owners.insert(owner, Owner { number, end, child });
        Ok(())
    }

    fn follow(
        &mut self,
        id: TaskRef,
        control: Control,
        journal: SegmentFollower,
        owner: Identity,
        after_seq: Option<u64>,
    ) -> io::Result<()> {
        let watch = self.notes.add_watch(control.journal(), AddWatchFlags::IN_MODIFY)?;
        self.watched.insert(watch, id);
        let (adopted, after_seq) = (after_seq.is_some(), after_seq.unwrap_or(0));
        let number = self.watcher.number();
        self.watcher.arm(number, Instant::now().checked_add(PATIENCE).filter(|_| !adopted));
        let (last_seq, over, is_silent) = (after_seq, false, !adopted);
        let followed = Followed { control, journal, owner, after_seq, last_seq, adopted, over, is_silent, number };
        self.followed.insert(id, followed);
        self.read(&id);
        Ok(())
    }

    fn adopt(&mut self, id: TaskRef, after_seq: u64) -> io::Result<()> {
        let control = Control::of(&self.context.work, &id);
        let owner = match control.supervisor()? {
            SupervisorState::Kept(owner) => owner,
            SupervisorState::Left => Identity { pid: 0, start: 0 },
        };
        if !self.owners.contains_key(&owner)
            && owner.pid > 0
            && let Some(end) = owner.open()?
        {
            self.watch_owner(owner, end, None)?;
        }
        let journal = SegmentFollower::open(Kind::Attempt, control.journal())?;
        self.follow(id, control, journal, owner, Some(after_seq))?;
        // A supervisor that died before it was watched is noticed by nobody else.
        if !self.owners.contains_key(&owner) {
            self.end_attempts_of(owner);
        }
        Ok(())
    }

    fn end(&mut self, id: &TaskRef, cause: Cause, grace: Duration) {
        let Some(followed) = self.followed.get(id) else { return };
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let asked = followed.control.ask(Request { cause, grace_ms });
        // One that is dead is noticed otherwise.
        let reported = asked.and_then(|()| followed.owner.signal(Signal::SIGUSR1));
        if let Err(error) = reported {
            tracing::error!(attempt = %id, %error, "a supervisor cannot be asked to end an attempt");
        }
    }

    /// Journals have grown.
    fn note(&mut self) {
        loop {
            match self.notes.read_events() {
                Ok(events) => {
                    let grown: Vec<TaskRef> =
                        events.iter().filter_map(|event| self.watched.get(&event.wd).copied()).collect();
                    grown.iter().for_each(|id| self.read(id));
                }
                Err(Errno::EAGAIN) => return,
                Err(error) => {
                    tracing::error!(%error, "journals of supervised attempts cannot be watched");
                    return;
                }
            }
        }
    }

    /// Tells what is new of an attempt.
    fn read(&mut self, id: &TaskRef) {
        let Some(followed) = self.followed.get_mut(id).filter(|followed| !followed.over) else { return };
        let Followed { journal, after_seq, last_seq, adopted, over, is_silent, number, .. } = followed;
        let (events, reported) = (&self.context.events, &mut self.reported);
        let outcome = journal.read(|payload| {
            match decode(payload) {
                Some(Report::Started(started)) => {
                    *is_silent = false;
                    if !*adopted {
                        *reported = true;
                        events.started(*id, started);
                    }
                }
                Some(Report::Log(chunk)) => {
                    *last_seq = chunk.seq.max(*last_seq);
                    if chunk.seq > *after_seq {
                        *reported = true;
                        return events.log(*id, chunk) == LogCapacity::Free;
                    }
                }
                Some(Report::Ended(end)) => {
                    (*over, *is_silent, *reported) = (true, false, true);
                    events.ended(*id, end);
                    return false;
                }
                Some(Report::Supervisor(_)) | None => {}
            }
            true
        });
        if !*is_silent {
            self.watcher.arm(*number, None);
        }
        if let Err(error) = outcome {
            tracing::error!(attempt = %id, %error, "the journal of a supervised attempt cannot be read");
        }
    }

    /// A supervisor died.
    fn died(&mut self, number: u64) {
        let dead = self.owners.iter().find(|(_, owner)| owner.number == number).map(|(identity, _)| *identity);
        let Some(owner) = dead else { return };
        if let Some(gone) = self.owners.remove(&owner) {
            self.watcher.forget(&gone.end);
            if let Some(mut child) = gone.child {
                // It is dead: this does not wait.
                drop(child.wait());
            }
        }
        if self.taking.as_ref().is_some_and(|(taking, _)| *taking == owner) {
            self.taking = None;
        }
        self.end_attempts_of(owner);
    }

    /// Deals with the attempts of a dead supervisor: those whose end it wrote have ended, the others are lost.
    fn end_attempts_of(&mut self, owner: Identity) {
        let all: Vec<TaskRef> =
            self.followed.iter().filter(|(_, followed)| followed.owner == owner).map(|(id, _)| *id).collect();
        for id in all {
            self.read(&id);
            let Some(followed) = self.followed.get_mut(&id).filter(|followed| !followed.over) else { continue };
            let reason = if followed.adopted { "agent_restart" } else { "supervisor" };
            self.reported = true;
            match (self.context.on_supervisor_death)(&id, followed.last_seq, reason) {
                // An agent that took it over has no use for what its supervisor wrote.
                Ok(()) => followed.over = true,
                Err(error) => tracing::error!(attempt = %id, %error, "what a dead supervisor left cannot be ended"),
            }
        }
    }

    /// Forgets attempts that are over; their reports are in the outbox log.
    fn clear(&mut self) {
        let over: Vec<TaskRef> =
            self.followed.iter().filter(|(_, followed)| followed.over).map(|(id, _)| *id).collect();
        if over.is_empty() {
            return;
        }
        for id in over {
            if let Some(Followed { control, journal, .. }) = self.followed.remove(&id) {
                control.retire(journal.into_file(), &mut self.spares);
            }
        }
        let followed = &self.followed;
        self.watched.retain(|_, id| followed.contains_key(id));
    }
}
