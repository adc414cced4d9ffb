//! What an agent knows: its attempts, their slots and devices, the spool, the lease.

mod ending;
mod traced;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_cloud::outbox::{Cursor, OutboxLog, Recovered};
use orlop_cloud::runtime::worker::{AttemptPlan, Cause, LogCapacity, LogChunk, Started, User};
use orlop_core::id::TenantName;
use orlop_core::spec::job::OnFull;
use orlop_core::spec::job::Runtime;
use orlop_core::task::{StartMode, TaskRef};
use orlop_core::time::Time;

use crate::host::worker::artifacts::Needs;
use crate::host::worker::clock::{Clock, micros};
use crate::host::worker::extras::ExtrasLedger;
use crate::host::worker::gpus::{Charged, Gpu, Ledger};
use crate::host::worker::work::{Devices, Kind, Specs, Taken, Work, plan};
use crate::telemetry::trace::Tracer;
use crate::wire::attempt::AssignJob;
use crate::wire::session::{Lease, Slots};

use self::traced::Traced;

/// Attempts that wait this long for a slot of a kind of which nothing runs are given back.
const STUCK: Duration = Duration::from_secs(1);

/// What is to be done outside of the lock.
#[derive(Debug)]
pub(in crate::host::worker) enum Act {
    /// Start an attempt.
    Start(Runtime, Box<AttemptPlan>),
    /// Fetch what an attempt needs, then start it.
    Fetch(Runtime, Box<AttemptPlan>, Arc<Needs>),
    /// End one.
    End(Runtime, TaskRef, Cause, Duration),
    /// Let one write again.
    Resume(Runtime, TaskRef),
}

/// How far an attempt is.
#[derive(Debug)]
enum State {
    /// Taken on, not started: for want of a slot, or of a lease. What an agent that starts later needs to know of it is here
    /// where it still lacks the devices that come with the slot.
    Waiting(Box<AttemptPlan>, Option<Box<Taken>>),
    /// With its runtime.
    Running(Option<Time>),
}

#[derive(Debug)]
struct Attempt {
    runtime: Runtime,
    /// None for one that an earlier agent took on.
    kind: Option<Kind>,
    cpu_m: u64,
    memory_bytes: u64,
    /// Files it needs and leaves.
    needs: Option<Arc<Needs>>,
    state: State,
}

/// An attempt that is held, for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::host::worker) struct HeldAttempt {
    pub(in crate::host::worker) id: TaskRef,
    pub(in crate::host::worker) runtime: Runtime,
    pub(in crate::host::worker) running: bool,
    pub(in crate::host::worker) started_at: Option<Time>,
}

/// Amounts that attempts hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::host::worker) struct Sum {
    pub(in crate::host::worker) cpu_m: u64,
    pub(in crate::host::worker) memory_bytes: u64,
    pub(in crate::host::worker) gpus: u32,
    pub(in crate::host::worker) attempts: u32,
}

/// See the module.
#[derive(Debug)]
pub(in crate::host::worker) struct Core {
    pub(in crate::host::worker) spool: OutboxLog,
    pub(in crate::host::worker) slots: Slots<Kind>,
    pub(in crate::host::worker) specs: Specs,
    lease: Lease,
    clock: Clock,
    ledger: Ledger,
    extras: ExtrasLedger,
    runtimes: Vec<Runtime>,
    attempts: BTreeMap<TaskRef, Attempt>,
    /// Attempts that may start when the lease is renewed.
    held: VecDeque<TaskRef>,
    /// Attempts whose specification is on its way.
    parked: BTreeMap<u64, Vec<AssignJob>>,
    /// Specifications that were asked for.
    asked: BTreeSet<u64>,
    traced: Traced,
}

impl Core {
    pub(in crate::host::worker) fn new(
        spool: OutboxLog,
        gpus: Vec<Gpu>,
        extras: &BTreeMap<String, u64>,
        runtimes: Vec<Runtime>,
    ) -> Self {
        Self {
            spool,
            slots: Slots::default(),
            specs: Specs::default(),
            lease: Lease::default(),
            clock: Clock::new(Instant::now()),
            ledger: Ledger::new(gpus),
            extras: ExtrasLedger::new(extras),
            runtimes,
            attempts: BTreeMap::new(),
            held: VecDeque::new(),
            parked: BTreeMap::new(),
            asked: BTreeSet::new(),
            traced: Traced::default(),
        }
    }

    /// As whom processes of each tenant run.
    pub(in crate::host::worker) fn run_as(&mut self, users: BTreeMap<TenantName, User>) {
        self.specs.run_as(users);
    }

    /// Who takes spans of attempts.
    pub(in crate::host::worker) fn trace_by(&mut self, tracer: Tracer) {
        self.traced.by(tracer);
    }

    /// The server assigns an attempt.
    ///
    /// # Errors
    /// When the spool cannot be written: then the attempt was not taken on.
    pub(in crate::host::worker) fn assign(
        &mut self,
        assign: AssignJob,
        now: Instant,
        acts: &mut Vec<Act>,
    ) -> io::Result<()> {
        let id = assign.attempt();
        if self.attempts.contains_key(&id) {
            return Ok(());
        }
        let Some(work) = self.specs.get(assign.spec_id) else {
            self.parked.entry(assign.spec_id).or_default().push(assign);
            return Ok(());
        };
        if !self.runtimes.contains(&work.runtime) {
            return self.spool.rejected(id, "runtime");
        }
        // Who inherits a slot gets its devices with it.
        let mode = assign.start_mode();
        let inherits = mode == StartMode::Inherit && !self.slots.is_vacant(&work.kind);
        let devices = if inherits { Ok(Devices::to_come(&work)) } else { self.take_devices(id, &work, &assign) };
        let devices = match devices {
            Ok(devices) => devices,
            Err(lacking) => return self.spool.rejected(id, lacking),
        };
        let traced = self.traced.take_on(id, &assign.traceparent, &assign.correlation_id);
        let trace =
            if traced { (assign.traceparent.clone(), assign.correlation_id.clone()) } else { Default::default() };
        let plan = match plan(assign, &work, devices) {
            Ok(plan) => plan,
            Err(reason) => {
                self.traced.forget(id);
                self.give_devices_back(&id);
                return self.spool.rejected(id, &reason);
            }
        };
        let keep = work.run.log.on_full == OnFull::Block;
        let (runtime, cpu_m, memory_bytes) = (work.runtime, work.cpu_m, work.memory_bytes);
        let needs = work.needs.as_deref().cloned();
        let ((traceparent, correlation_id), gpus, extras) = (trace, plan.gpus.clone(), plan.extras.clone());
        let taken = Taken { runtime, cpu_m, memory_bytes, gpus, extras, needs, traceparent, correlation_id };
        self.spool.accepted(id, &taken.encode(), keep)?;
        let has_devices = work.gpus.count > 0 || !work.extras.is_empty();
        let taken = (inherits && has_devices).then(|| Box::new(taken));
        self.take_on(id, &work, plan, taken);
        let starts = match mode {
            StartMode::Now => {
                self.slots.started(&work.kind);
                true
            }
            StartMode::Inherit => self.slots.inherit(&work.kind, id),
        };
        if starts {
            self.start(id, now, acts);
        }
        Ok(())
    }

    fn take_on(&mut self, id: TaskRef, work: &Arc<Work>, plan: AttemptPlan, taken: Option<Box<Taken>>) {
        let attempt = Attempt {
            runtime: work.runtime,
            kind: Some(work.kind),
            cpu_m: work.cpu_m,
            memory_bytes: work.memory_bytes,
            needs: work.needs.clone(),
            state: State::Waiting(Box::new(plan), taken),
        };
        self.attempts.insert(id, attempt);
    }

    /// The slot of an attempt that is over goes to the next one, with its devices, or becomes vacant.
    fn pass_slot(&mut self, kind: Option<Kind>, id: TaskRef) -> io::Result<Option<TaskRef>> {
        let next = kind.and_then(|kind| self.slots.ended(&kind, id));
        if let Some(next) = next
            && let Some(State::Waiting(plan, taken)) = self.attempts.get_mut(&next).map(|next| &mut next.state)
            && let Some(mut taken) = taken.take()
        {
            plan.gpus = self.ledger.pass(&id, next);
            self.extras.pass(&id, next, &mut plan.extras);
            taken.gpus.clone_from(&plan.gpus);
            taken.extras.clone_from(&plan.extras);
            self.spool.amended(next, &taken.encode())?;
        }
        self.give_devices_back(&id);
        Ok(next)
    }

    /// Picks the devices and units of an attempt; else what is lacking.
    fn take_devices(&mut self, id: TaskRef, work: &Work, assign: &AssignJob) -> Result<Devices, &'static str> {
        let gpu = assign.charged_gpu();
        let charged = Charged { hint: &assign.device_hint, kind: gpu.as_ref() };
        let gpus = self.ledger.take(id, &work.gpus, charged).ok_or("gpu")?;
        match self.extras.take(id, &work.extras) {
            Some(extras) => Ok(Devices { gpus, extras }),
            None => {
                self.ledger.give_back(&id);
                Err("extra")
            }
        }
    }

    fn give_devices_back(&mut self, id: &TaskRef) {
        self.ledger.give_back(id);
        self.extras.give_back(id);
    }

    /// Starts an attempt that has a slot, or holds it until there is a lease.
    fn start(&mut self, id: TaskRef, now: Instant, acts: &mut Vec<Act>) {
        if self.lease_left(now).is_zero() {
            self.held.push_back(id);
            return;
        }
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        if let State::Waiting(plan, _) = std::mem::replace(&mut attempt.state, State::Running(None)) {
            acts.push(match &attempt.needs {
                Some(needs) if needs.has_inputs() => Act::Fetch(attempt.runtime, plan, Arc::clone(needs)),
                _ => Act::Start(attempt.runtime, plan),
            });
        }
    }

    /// How much is left of the lease; nothing when it has run out or there never was one.
    pub(in crate::host::worker) fn lease_left(&self, now: Instant) -> Duration {
        Duration::from_micros(self.lease.until().saturating_sub(self.clock.micros(now)))
    }

    /// A heartbeat leaves.
    pub(in crate::host::worker) fn beat(&mut self, now: Instant) {
        self.lease.beat(self.clock.micros(now));
    }

    /// The oldest heartbeat is answered.
    pub(in crate::host::worker) fn beat_answered(&mut self, lease_ms: u32) {
        self.lease.answered(lease_ms);
    }

    /// Registration renews the lease as well, from when it was asked for.
    pub(in crate::host::worker) fn lease_granted(&mut self, asked: Instant, lease_ms: u32) {
        self.lease.granted(self.clock.micros(asked), lease_ms);
    }

    /// The stream is gone, and with it the answers.
    pub(in crate::host::worker) fn disconnected(&mut self) {
        self.lease.broken();
    }

    /// The lease was renewed: what was held starts.
    pub(in crate::host::worker) fn renewed(&mut self, now: Instant, acts: &mut Vec<Act>) {
        if !self.lease_left(now).is_zero() {
            for id in std::mem::take(&mut self.held) {
                self.start(id, now, acts);
            }
        }
    }

    /// A specification came: what waited for it is assigned now.
    ///
    /// # Errors
    /// As of [`Core::assign`].
    pub(in crate::host::worker) fn unpark(&mut self, spec: u64, now: Instant, acts: &mut Vec<Act>) -> io::Result<()> {
        self.asked.remove(&spec);
        for assign in self.parked.remove(&spec).unwrap_or_default() {
            self.assign(assign, now, acts)?;
        }
        Ok(())
    }

    /// A new session: the server knows no vacant slots, numbers specifications anew, and has forgotten what it sent.
    pub(in crate::host::worker) fn new_session(&mut self) {
        self.slots.new_session();
        self.specs.clear();
        self.parked.clear();
        self.asked.clear();
        self.spool.rewind(Cursor::default());
    }

    /// Whether there is something to say that somebody waits for.
    pub(in crate::host::worker) fn has_news(&self) -> bool {
        self.spool.has_news() || self.needed_specs().next().is_some()
    }

    /// Specifications that are needed, are not here, and were not asked for yet.
    fn needed_specs(&self) -> impl Iterator<Item = u64> {
        self.parked.keys().filter(|spec| !self.asked.contains(*spec)).copied()
    }

    /// Takes those.
    pub(in crate::host::worker) fn take_needed_specs(&mut self) -> Vec<u64> {
        let needed: Vec<u64> = self.needed_specs().collect();
        self.asked.extend(&needed);
        needed
    }

    /// What was asked for may never have arrived.
    pub(in crate::host::worker) fn ask_again(&mut self) {
        self.asked.clear();
    }

    /// An attempt runs.
    ///
    /// # Errors
    /// When the spool cannot be written.
    pub(in crate::host::worker) fn started(&mut self, id: TaskRef, started: Started) -> io::Result<()> {
        if let Some(attempt) = self.attempts.get_mut(&id) {
            attempt.state = State::Running(Some(started.at));
        }
        self.spool.started(id, started)
    }

    /// An attempt wrote something.
    pub(in crate::host::worker) fn log(&mut self, id: TaskRef, chunk: LogChunk) -> LogCapacity {
        self.spool.log(id, chunk)
    }

    /// An attempt of an earlier agent that goes on.
    pub(in crate::host::worker) fn adopt(&mut self, recovered: &Recovered) {
        let Taken { runtime, cpu_m, memory_bytes, gpus, extras, needs, traceparent, correlation_id } =
            Taken::decode(&recovered.body);
        self.traced.take_on(recovered.id, &traceparent, &correlation_id);
        self.ledger.hold(recovered.id, &gpus);
        self.extras.hold(recovered.id, &extras);
        let started_at = recovered.started.as_ref().map(|started| started.at);
        let (needs, state) = (needs.map(Arc::new), State::Running(started_at));
        let attempt = Attempt { runtime, kind: None, cpu_m, memory_bytes, needs, state };
        self.attempts.insert(recovered.id, attempt);
    }

    /// Does what time brings: gives back what waits for ever, lets write who may.
    ///
    /// # Errors
    /// When the spool cannot be written.
    pub(in crate::host::worker) fn tick(&mut self, now: Instant, acts: &mut Vec<Act>) -> io::Result<()> {
        for attempt in self.slots.stuck(self.clock.micros(now), micros(STUCK)) {
            self.revoke(attempt)?;
        }
        for id in self.spool.take_relieved() {
            if let Some(attempt) = self.attempts.get(&id) {
                acts.push(Act::Resume(attempt.runtime, id));
            }
        }
        Ok(())
    }

    /// Whether an attempt is held.
    pub(in crate::host::worker) fn holds(&self, id: &TaskRef) -> bool {
        self.attempts.contains_key(id)
    }

    /// The runtime of an attempt and the files it needs and leaves, if there are any.
    pub(in crate::host::worker) fn needs(&self, id: &TaskRef) -> Option<(Runtime, Arc<Needs>)> {
        let attempt = self.attempts.get(id)?;
        Some((attempt.runtime, attempt.needs.clone()?))
    }

    /// All attempts that are held.
    pub(in crate::host::worker) fn held(&self) -> Vec<HeldAttempt> {
        let one = |(id, attempt): (&TaskRef, &Attempt)| {
            let started_at = if let State::Running(started_at) = attempt.state { started_at } else { None };
            HeldAttempt { id: *id, runtime: attempt.runtime, running: started_at.is_some(), started_at }
        };
        self.attempts.iter().map(one).collect()
    }

    /// Whether no attempt is held.
    pub(in crate::host::worker) fn is_idle(&self) -> bool {
        self.attempts.is_empty() && self.parked.is_empty()
    }

    /// What running attempts hold.
    pub(in crate::host::worker) fn sum(&self) -> Sum {
        let running = self.attempts.values().filter(|attempt| matches!(attempt.state, State::Running(_)));
        let gpus = u32::try_from(self.ledger.taken()).unwrap_or(u32::MAX);
        running.fold(Sum { gpus, ..Sum::default() }, |sum, attempt| Sum {
            cpu_m: sum.cpu_m.saturating_add(attempt.cpu_m),
            memory_bytes: sum.memory_bytes.saturating_add(attempt.memory_bytes),
            attempts: sum.attempts + 1,
            ..sum
        })
    }
}
