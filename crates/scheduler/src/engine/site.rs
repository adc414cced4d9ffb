//! A policy of the user's own: where a job goes among the workers that have room for it. Owns what such a policy sees of a
//! worker; what fits, whose turn it is and every limit are none of its business.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use orlop_core::id::WorkerId;

use super::Scheduler;
use crate::class::{Class, Request};
use crate::config::Policy;
use crate::fleet::dims::{CPU, MEMORY, SLOTS};
use crate::job::Resources;
use crate::score;
use crate::token::WorkerKey;

/// A rule of your own for which worker a job gets among those with room for it. Any function of a [`Site`] is one, and so is each
/// [`Policy`], so that a rule can call it and add to its score.
///
/// ```
/// use std::sync::Arc;
/// use orlop_scheduler::prelude::*;
///
/// let mut scheduler = Scheduler::new(Config::without_timeouts(), 7)?;
/// // Cheap workers first, the fullest of them first.
/// scheduler.set_placement_policy(Some(Arc::new(|site: &Site<'_>| {
///     let price: u32 = site.labels().get("price").and_then(|price| price.parse().ok()).unwrap_or(100);
///     price.saturating_mul(1 << 17).saturating_add(site.cpu().part_left())
/// })));
/// let mut effects = Vec::new();
/// let offer = Capabilities::new(8000, 32 << 30);
/// scheduler.join(0, "dear".parse()?, offer.clone().label("price", "9"), &mut effects)?;
/// let cheap = scheduler.join(0, "cheap".parse()?, offer.label("price", "2"), &mut effects)?;
/// scheduler.submit(0, Submission::new(JobId::from_u64(1), Demand::new("physics".parse()?)), &mut effects)?;
/// let _ = scheduler.round(0, u32::MAX, &mut effects);
/// assert_eq!(effects.iter().find_map(Effect::placement).map(|placed| placed.worker), Some(cheap));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Equal questions must have equal answers; otherwise runs cannot be repeated.
///
/// # Cost
/// Built-in policies skip blocks of 64 workers by what is known of a block as a whole. With a rule of your own nothing can be
/// skipped: it is asked for every worker with room, each time a run begins, and a run is one job unless the rule
/// [fills](PlacementPolicy::fills) workers. So with 10,000 workers of which all have room, a job costs 10,000 questions.
///
/// # What it does not decide
/// Members of a gang go to the fewest workers that take them. Preferences decide between workers of equal score only. Where a job
/// is placed by an operator, preempts others, or gets workers that were reserved for it, nobody is asked.
pub trait PlacementPolicy: Send + Sync {
    /// The score of a worker that has room: the least is chosen, of equals the one that jobs prefer, then by the seed.
    fn score(&self, site: &Site<'_>) -> u32;

    /// Whether the chosen worker is filled with jobs that ask the same (at most `run_max` of them) before the next question.
    fn fills(&self) -> bool {
        false
    }
}

impl<F: Fn(&Site<'_>) -> u32 + Send + Sync> PlacementPolicy for F {
    fn score(&self, site: &Site<'_>) -> u32 {
        self(site)
    }
}

impl PlacementPolicy for Policy {
    fn score(&self, site: &Site<'_>) -> u32 {
        site.score_by(*self)
    }

    fn fills(&self) -> bool {
        Self::fills(*self)
    }
}

/// How much a worker has of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// What is free now; 0 where more is held than there is.
    pub free: u64,
    /// All of it.
    pub total: u64,
    /// What the job asks, as it is counted.
    pub asked: u64,
}

impl Room {
    /// What is free after the job got what it asks.
    #[must_use]
    pub const fn left(self) -> u64 {
        self.free.saturating_sub(self.asked)
    }

    /// What is free after that as a part of all, from 0 to 65,536; 0 where there is nothing.
    #[must_use]
    pub fn part_left(self) -> u32 {
        let part = (u128::from(self.left()) << 16).checked_div(u128::from(self.total)).unwrap_or(0);
        u32::try_from(part.min(1 << 16)).unwrap_or(1 << 16)
    }
}

/// A worker that has room for a job, as a [`PlacementPolicy`] sees both.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    scheduler: &'a Scheduler,
    class: &'a Class,
    request: &'a Request,
    preferences: u32,
    place: u32,
}

impl fmt::Debug for Site<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cpu, memory) = (self.cpu(), self.memory());
        f.debug_struct("Site").field("worker", &self.worker()).field("cpu", &cpu).field("memory", &memory).finish()
    }
}

impl<'a> Site<'a> {
    /// The worker.
    #[must_use]
    pub fn worker(&self) -> WorkerKey {
        self.scheduler.key_of(self.scheduler.table.owner(self.place))
    }

    /// The id of the worker.
    #[must_use]
    pub fn id(&self) -> Option<&'a WorkerId> {
        let worker = self.scheduler.workers.get(self.scheduler.table.owner(self.place))?;
        Some(&worker.id)
    }

    /// The labels of the worker.
    #[must_use]
    pub fn labels(&self) -> &'a BTreeMap<String, String> {
        const NONE: &BTreeMap<String, String> = &BTreeMap::new();
        let kind = self.scheduler.kinds.get(self.scheduler.table.kind(self.place));
        kind.map_or(NONE, |kind| &kind.labels)
    }

    /// What the job asks.
    #[must_use]
    pub fn resources(&self) -> &'a Resources {
        &self.class.shape.resources
    }

    /// The weights of those preferences of the job that the worker meets, together.
    #[must_use]
    pub fn preferred(&self) -> u32 {
        self.scheduler.preference_score(self.preferences, self.scheduler.table.kind(self.place))
    }

    /// Millicores.
    #[must_use]
    pub fn cpu(&self) -> Room {
        self.room(CPU, 0)
    }

    /// Bytes of memory, in whole mebibytes.
    #[must_use]
    pub fn memory(&self) -> Room {
        self.room(MEMORY, 20)
    }

    /// Attempts.
    #[must_use]
    pub fn slots(&self) -> Room {
        self.room(SLOTS, 0)
    }

    /// GPUs of all kinds together.
    #[must_use]
    pub fn gpus(&self) -> Room {
        sum(self.scheduler.dims.gpus().map(|dim| self.room(dim, 0)))
    }

    /// A counter by name.
    #[must_use]
    pub fn extra(&self, name: &str) -> Room {
        // A worker has a counter in one unit; what is asked in others is not asked of it.
        let rooms = self.scheduler.dims.extras(name).map(|(dim, shift)| self.room(dim, shift));
        sum(rooms.filter(|room| room.total > 0))
    }

    /// The score that a built-in policy gives the worker: under `first-fit` its place. Of `spread`, attempts do not decide
    /// between equals.
    #[must_use]
    pub fn score_by(&self, policy: Policy) -> u32 {
        let Scheduler { table, scale, .. } = self.scheduler;
        match policy {
            Policy::FirstFit => self.place,
            Policy::Balanced => self.scheduler.balance(self.preferences, self.class, self.place),
            _ => score::of_place(policy, table, self.place, self.request, scale),
        }
    }

    fn room(&self, dim: usize, shift: u32) -> Room {
        let amount = |amount: i32| u64::try_from(amount).unwrap_or(0) << shift;
        let table = &self.scheduler.table;
        let (free, total) = (table.free(dim, self.place), table.total(dim, self.place));
        Room { free: amount(free), total: amount(total), asked: amount(self.request.amount(dim)) }
    }
}

fn sum(rooms: impl Iterator<Item = Room>) -> Room {
    let plus = |sum: Room, room: Room| Room {
        free: sum.free.saturating_add(room.free),
        total: sum.total.saturating_add(room.total),
        asked: sum.asked.saturating_add(room.asked),
    };
    rooms.fold(Room::default(), plus)
}

/// The user's own policy, if there is one. It is no part of what is written down.
#[derive(Clone, Default)]
pub(super) struct OwnPolicy(Option<Arc<dyn PlacementPolicy>>);

impl fmt::Debug for OwnPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "OwnPolicy(set)" } else { "OwnPolicy(none)" })
    }
}

impl Scheduler {
    /// Chooses workers by a rule of your own instead of the configured policy from now on; none: by the configured one again. The rule is
    /// not part of the configuration or of a snapshot: set it again on a scheduler that is restored or rebuilt.
    pub fn set_placement_policy(&mut self, policy: Option<Arc<dyn PlacementPolicy>>) {
        self.own_policy = OwnPolicy(policy);
    }

    /// The policy by which searches are cut short. Under the user's own that is the one by which none is.
    pub(super) fn policy(&self) -> Policy {
        if self.own_policy.0.is_some() { Policy::Balanced } else { self.config.policy }
    }

    /// Whether a run fills the chosen worker before it chooses the next.
    pub(super) fn fills(&self) -> bool {
        self.own_policy.0.as_ref().map_or(self.config.policy.fills(), |own| own.fills())
    }

    pub(super) fn has_own_policy(&self) -> bool {
        self.own_policy.0.is_some()
    }

    /// The score of a place by the user's own policy.
    pub(super) fn own_score(&self, preferences: u32, class: &Class, place: u32, request: &Request) -> u32 {
        let site = Site { scheduler: self, class, request, preferences, place };
        self.own_policy.0.as_ref().map_or(0, |own| own.score(&site))
    }
}
