//! The scheduler, [`Scheduler`]: events and the time go in, effects come out. The other types are what its methods take and give.

use serde::{Deserialize, Serialize};
mod admit;
mod adopt;
mod assign;
mod avoid;
mod backfill;
mod cancel;
mod candidates;
mod changes;
mod direct;
mod dot;
mod embed;
mod ends;
mod epoch;
mod explain;
mod explanation;
mod forecast;
mod gang;
mod grant;
mod heads;
mod health;
mod machine;
mod message;
mod order;
mod preempt;
mod preemptible;
mod preemption_plan;
mod prefill;
mod rebuild;
mod record;
mod reserve;
mod round;
mod rows;
mod sanity;
mod settle;
mod site;
mod snapshot;
mod starvation;
mod sync;
mod tenants;
#[cfg(test)]
mod tests;
mod timer;
mod victim_choice;
mod view;
mod waiting;
mod wake;
mod worker;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use orlop_core::id::{Epoch, JobId, TenantName, WorkerId};

use crate::class::{Classes, OpenClasses, Refused, Requests};
use crate::config::Config;
use crate::effect::Effect;
use crate::error::EventError;
use crate::event::Event;
use crate::fleet::dims::Dims;
use crate::fleet::kind::Kinds;
use crate::fleet::table::Table;
use crate::job::{Demand, Prefer};
use crate::queue::Queue;
use crate::score::{Scale, Shortlist};
use crate::table::{Ids, LeastTree, Slab};
use crate::tenant::Tenant;
use changes::Changes;
pub use embed::Admitted;
pub use explanation::{
    Explanation, GangRoom, Lacking, LimitReached, Misfit, Obstacle, ReservedWorkers, Unmet, UnmetDemand, WorkerFit,
};
use gang::Members;
use heads::Heads;
use preemptible::Preemptibles;
use prefill::Feeds;
use record::{Array, Attempt, Job, Past, Spec, Task, Worker};
use reserve::Reservation;
pub use round::RoundStats;
pub use rows::MemberEnd;
use site::OwnPolicy;
pub use site::{PlacementPolicy, Room, Site};
pub use snapshot::Snapshot;
use timer::{Timer, Timers};
pub use view::{FleetUse, JobView, ResourceUse, TenantView, WorkerView};
pub use waiting::{BlockedQueue, TenantQueue, Waiting};

/// A scheduler, without threads or I/O: give it workers and jobs, call [`Scheduler::round`] to place jobs that wait, and carry out the
/// effects it gives.
///
/// ```
/// use orlop_scheduler::prelude::*;
///
/// let mut scheduler = Scheduler::new(Config::without_timeouts(), 7)?;
/// let mut effects = Vec::new();
/// // A worker of 4 cores and 8 GiB joins, and a job of one core is submitted.
/// let worker = scheduler.join(0, "w1".parse()?, Capabilities::new(4000, 8 << 30), &mut effects)?;
/// scheduler.submit(1, Submission::new(JobId::from_u64(1), Demand::new("physics".parse()?)), &mut effects)?;
/// // A round places what fits …
/// assert_eq!(scheduler.round(2, u32::MAX, &mut effects).placed, 1);
/// let placement = effects.iter().find_map(Effect::placement).ok_or("there is room")?;
/// assert_eq!(placement.worker, worker);
/// // … and what ends makes room for the next one.
/// scheduler.finish(3, placement, Outcome::Succeeded, &mut effects)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Scheduler {
    config: Config,
    #[serde(skip)]
    own_policy: OwnPolicy,
    seed: u64,
    now: u64,
    revision: u64,
    /// Tells entries of queues apart.
    stamp: u32,
    /// Epochs that tokens were issued in; the last is the current one.
    epochs: Vec<Epoch>,

    jobs: Slab<Job>,
    ids: Ids,
    arrays: Slab<Array>,
    attempts: Slab<Attempt>,
    /// Newest attempts of gangs, by the slot of the job.
    #[serde(with = "crate::table::stored::pairs")]
    gangs: BTreeMap<u32, Members>,
    /// Tokens before the newest, of units with several.
    #[serde(with = "crate::table::stored::pairs")]
    past: BTreeMap<Task, Vec<Past>>,
    /// Which members of older attempts of gangs had answered, by the slot of the job and the attempt; none are left out.
    #[serde(with = "crate::table::stored::pairs")]
    past_members: BTreeMap<(u32, u32), Vec<u32>>,
    /// Final jobs, the oldest first, with their ids so that forgetting one need not wait for its record.
    finished: VecDeque<(u32, JobId)>,
    /// How many attempts of a job were given up and are not known to have ended: as long as there are some it is remembered.
    #[serde(skip)]
    given_up: BTreeMap<u32, u32>,
    /// Jobs of which something was assigned and had not started when they would have expired.
    #[serde(default)]
    overdue: BTreeSet<u32>,

    /// Who had the newest attempt of units that was given up and left with its worker: only that worker can bring it back.
    #[serde(with = "crate::table::stored::pairs")]
    parted: BTreeMap<Task, WorkerId>,

    specs: Vec<Spec>,
    #[serde(with = "crate::table::stored::pairs")]
    spec_numbers: BTreeMap<Arc<Demand>, u32>,
    /// Specifications seen lately, by address: a shortcut past comparing them.
    #[serde(skip)]
    recent: Vec<(Arc<Demand>, u32)>,
    /// Preferences by number; the first is none.
    preferences: Vec<Vec<Prefer>>,

    dims: Dims,
    kinds: Kinds,
    table: Table,
    /// How many dimensions classes and table know.
    table_dims: usize,
    scale: Scale,
    workers: Slab<Worker>,
    worker_ids: BTreeMap<WorkerId, u32>,
    /// Workers that left, the oldest first.
    gone: VecDeque<u32>,
    /// The greatest incarnation of ids of which nothing is known any more.
    #[serde(default)]
    forgotten: u32,

    requests: Requests,
    classes: Classes,
    refused: Refused,
    /// Classes that have jobs and are not blocked.
    #[serde(skip)]
    open_classes: OpenClasses,
    queues: Vec<Queue>,
    #[serde(with = "crate::table::stored::pairs")]
    queue_numbers: BTreeMap<(u32, usize, u32), u32>,

    tenants: Vec<Tenant>,
    tenant_numbers: BTreeMap<TenantName, u32>,
    /// Per band the tenants with ready queues, by weighted dominant share.
    turns: [LeastTree; 3],
    /// What each band is owed, in dominant shares.
    credit: [f64; 3],
    was_ready: [bool; 3],
    /// Shares, request costs and the scale are to be worked out again: the fleet changed.
    fleet_changed: bool,

    /// The place that grew last, for `dot-product`.
    grown: Option<u32>,
    /// Places that grew since the last round.
    grew: Vec<u32>,
    timers: Timers,
    /// Workers with a pending drain.
    #[serde(default)]
    leaving: BTreeSet<u32>,
    #[serde(default)]
    feeds: Feeds,
    /// Tasks that wait outside their queues because only the worker that they avoid has room, by queue and that worker.
    #[serde(default, with = "crate::table::stored::pairs")]
    held_back: BTreeMap<avoid::Avoiding, avoid::HeldBack>,
    reservations: Vec<Reservation>,
    #[serde(skip)]
    heads: Heads,
    /// What reservations need not look at again.
    #[serde(skip)]
    changes: Changes,
    /// Reservations made since whoever waits longest had one.
    #[serde(default)]
    passed_over: u32,
    /// Heads that wait are to be looked at for reservations.
    reserve_due: bool,
    /// The timer that makes that so is set.
    reserve_timer: bool,
    /// Attempts that may be ended for others.
    #[serde(skip)]
    preemptibles: Preemptibles,
    /// When attempts were ended for others lately, the oldest first.
    #[serde(default)]
    preempted: VecDeque<u64>,
    /// The timer for more of that is set.
    #[serde(default)]
    preempt_timer: bool,
    #[serde(skip)]
    shortlist: Shortlist,
    #[serde(skip)]
    scratch: Vec<u32>,
    /// Request vectors of the class in turn, and those that its tenant's limits allow.
    #[serde(skip)]
    numbers: Vec<u32>,
    #[serde(skip)]
    allowed: Vec<u32>,
    /// Classes that were woken for some places and have not been blocked since, or more.
    woken: Vec<u32>,
    /// Tenants whose stopped queues are to be judged again.
    relieved: Vec<u32>,
    /// Tenants with a queue that is stopped although part of its request vectors is allowed.
    half_stopped: Vec<u32>,
    /// Tenants whose reservations are to be looked at, the same one several times at most in between.
    #[serde(default)]
    reservations_due: Vec<u32>,
    /// Other workers than before may be there for what is reserved for.
    #[serde(default)]
    fleet_moved: bool,
    /// What each kind scores, by preferences.
    preference_scores: Vec<Vec<u32>>,
}

impl Scheduler {
    /// An empty scheduler. The seed only decides between workers that are equally good; the same seed gives the same choices.
    ///
    /// # Errors
    /// A value of the configuration is out of its bounds.
    pub fn new(config: Config, seed: u64) -> Result<Self, EventError> {
        config.check()?;
        Ok(Self::empty(config, seed))
    }

    fn empty(config: Config, seed: u64) -> Self {
        Self {
            config,
            own_policy: OwnPolicy::default(),
            seed,
            now: 0,
            revision: 0,
            stamp: 0,
            epochs: vec![Epoch(1)],
            jobs: Slab::default(),
            ids: Ids::new(seed),
            arrays: Slab::default(),
            attempts: Slab::default(),
            gangs: BTreeMap::new(),
            past: BTreeMap::new(),
            past_members: BTreeMap::new(),
            finished: VecDeque::new(),
            given_up: BTreeMap::new(),
            overdue: BTreeSet::new(),
            parted: BTreeMap::new(),
            specs: Vec::new(),
            spec_numbers: BTreeMap::new(),
            recent: Vec::new(),
            preferences: vec![Vec::new()],
            dims: Dims::default(),
            kinds: Kinds::default(),
            table: Table::default(),
            table_dims: 0,
            scale: Scale::default(),
            workers: Slab::default(),
            worker_ids: BTreeMap::new(),
            gone: VecDeque::new(),
            forgotten: 0,
            requests: Requests::default(),
            classes: Classes::default(),
            refused: Refused::default(),
            open_classes: OpenClasses::default(),
            queues: Vec::new(),
            queue_numbers: BTreeMap::new(),
            tenants: Vec::new(),
            tenant_numbers: BTreeMap::new(),
            turns: [LeastTree::default(), LeastTree::default(), LeastTree::default()],
            credit: [0.0; 3],
            was_ready: [false; 3],
            fleet_changed: true,
            grown: None,
            grew: Vec::new(),
            timers: Timers::default(),
            leaving: BTreeSet::new(),
            feeds: Feeds::default(),
            held_back: BTreeMap::new(),
            reservations: Vec::new(),
            heads: Heads::default(),
            changes: Changes::default(),
            passed_over: 0,
            reserve_due: false,
            reserve_timer: false,
            preemptibles: Preemptibles::default(),
            preempted: VecDeque::new(),
            preempt_timer: false,
            shortlist: Shortlist::default(),
            scratch: Vec::new(),
            numbers: Vec::new(),
            allowed: Vec::new(),
            woken: Vec::new(),
            relieved: Vec::new(),
            half_stopped: Vec::new(),
            reservations_due: Vec::new(),
            fleet_moved: false,
            preference_scores: vec![Vec::new()],
        }
    }

    /// Applies an event. It places nothing: [`Scheduler::round`] does. `now` is in monotonic milliseconds; a time before the latest one
    /// counts as the latest one. [`Scheduler::submit`], [`Scheduler::join`] and [`Scheduler::finish`] apply the usual events and
    /// return their results.
    ///
    /// ```
    /// use orlop_scheduler::prelude::*;
    ///
    /// let mut scheduler = Scheduler::new(Config::without_timeouts(), 7)?;
    /// let mut effects = Vec::new();
    /// let worker = scheduler.join(0, "w1".parse()?, Capabilities::new(4000, 8 << 30), &mut effects)?;
    /// scheduler.submit(0, Submission::new(JobId::from_u64(1), Demand::new("physics".parse()?)), &mut effects)?;
    /// // A worker that is cordoned gets no work.
    /// scheduler.apply(0, Event::Cordon { worker }, &mut effects)?;
    /// assert_eq!(scheduler.round(0, u32::MAX, &mut effects).placed, 0);
    /// scheduler.apply(1, Event::Uncordon { worker }, &mut effects)?;
    /// assert_eq!(scheduler.round(1, u32::MAX, &mut effects).placed, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Costs: a submit and a message about an attempt, logarithmic in queues and tenants; a heartbeat, constant; a cancel,
    /// linear in what it cancels, ranges of elements that never started counting as one.
    ///
    /// # Errors
    /// The event cannot be taken; then nothing has changed, unless the error's class is Fatal.
    pub fn apply(&mut self, now: u64, event: Event, effects: &mut Vec<Effect>) -> Result<(), EventError> {
        self.now = self.now.max(now);
        match event {
            Event::Submit { job, spec, gate } => self.submitted(job, &spec, gate, None, effects),
            Event::SubmitArray { job, spec, gate, array } => self.submitted(job, &spec, gate, Some(array), effects),
            Event::Cancel { job, elements } => self.cancel(job, elements, effects),
            Event::TenantChanged { tenant, settings } => self.tenant_changed(tenant, settings),
            Event::QuotaChanged { tenant, quota } => self.quota_changed(tenant, quota),
            Event::ConfigChanged { config } => self.config_changed(*config),
            Event::Tick => {
                self.fire(effects);
                Ok(())
            }
            Event::WorkerDeclared { id } => self.declare(id, effects).map(drop),
            Event::Registered { worker, capabilities } => self.registered(worker, capabilities, effects),
            Event::Connected { worker, kept } => self.connected(worker, &kept, effects),
            Event::Updated { worker, capabilities } => self.updated(worker, capabilities, effects),
            Event::ConnectionLost { worker } => self.connection_lost(worker, effects),
            Event::AssignJob { job, worker } => self.assign_job(job, worker, effects),
            Event::RoundTrip { worker, micros } => self.round_trip(worker, micros),
            Event::TurnTime { micros } => {
                self.turn_time(micros);
                Ok(())
            }
            Event::Heartbeat { worker } => self.heartbeat(worker, effects),
            Event::HealthReport { worker, good } => self.health_report(worker, good, effects),
            Event::Drain { worker, order } => self.drain(worker, order, effects),
            Event::Undrain { worker } => self.undrain(worker, effects),
            Event::Cordon { worker } => self.cordon(worker, true),
            Event::Uncordon { worker } => self.cordon(worker, false),
            Event::Remove { worker, why } => self.remove(worker, why, effects),
            Event::Accepted { attempt, worker } => self.accepted(attempt, worker, effects),
            Event::Rejected { attempt, worker, permanent } => self.rejected(attempt, worker, permanent, effects),
            Event::Started { attempt, worker } => self.started(attempt, worker, effects),
            Event::Result { attempt, worker, outcome, ran_ms } => {
                self.result(attempt, worker, (outcome, ran_ms), effects).map(drop)
            }
            Event::Revoked { attempt, worker } => self.revoked(attempt, worker, effects),
        }
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The latest time seen, in monotonic milliseconds.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    fn config_changed(&mut self, config: Config) -> Result<(), EventError> {
        config.check()?;
        self.config = config;
        if self.reserve_timer {
            // Who waits by now may have waited long enough, or will sooner than was set.
            let soonest = self.now.saturating_add(self.config.reserve_after);
            [self.now, soonest].into_iter().for_each(|at| self.timers.set(at, Timer::Reserve));
        }
        self.note_fleet();
        Ok(())
    }

    fn next_revision(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }
}
