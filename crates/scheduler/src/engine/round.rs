//! Rounds: which band, which tenant, which queue, and a run of its jobs. Owns the order of decisions;
//! where a class fits is found by the search.

use super::Scheduler;
use super::assign::Target;
use crate::class::Request;
use crate::config::Policy;
use crate::effect::Effect;
use crate::queue::{Key, LaneEntry};
use crate::score::{self, Candidate, Scorer, Search, Shortlist};
use crate::table::NONE;

/// The result of [`Scheduler::round`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct RoundStats {
    /// Attempts that were placed, members of gangs counted one by one.
    pub placed: u32,
    /// Attempts that were sent to workers ahead, to start when others end.
    pub prefilled: u32,
    /// Groups of jobs of one class that were placed by one ranking.
    pub runs: u32,
    /// Classes that were found to fit nowhere.
    pub blocked: u32,
    /// It ended at the limit; there may be more to place.
    pub limited: bool,
}

/// A queue whose turn it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pick {
    pub(super) band: usize,
    pub(super) tenant: u32,
    pub(super) entry: LaneEntry,
}

impl Scheduler {
    /// Places jobs that wait: fires due timers, then places, or sends to workers ahead, at most `limit` attempts. Members of a gang count
    /// one by one but are placed together.
    ///
    /// Cost: per run of up to `run_max` jobs one search, O(workers ÷ 64) summaries and the blocks that these do not rule
    /// out; per woken class what its hints cost. With preemption and an urgent job that waits, one look at every
    /// attempt that it may end.
    pub fn round(&mut self, now: u64, limit: u32, effects: &mut Vec<Effect>) -> RoundStats {
        self.now = self.now.max(now);
        self.fire(effects);
        if self.fleet_changed {
            self.fleet_changed = false;
            self.fleet_moved = true;
            self.scale = score::scale(&self.table);
            (0..self.tenants.len()).for_each(|tenant| self.weigh_tenant(u32::try_from(tenant).unwrap_or(NONE)));
        }
        self.review_quota_reservations();
        self.wake_grown(effects);
        let mut stats = RoundStats::default();
        if !self.reservations.is_empty() {
            self.honour(limit, &mut stats, effects);
            self.wake_grown(effects);
        }
        self.place(limit, &mut stats, effects);
        self.vacate(limit, &mut stats, effects);
        // Where the worker that they avoid is full by now too, tasks wait in their place in the queue.
        self.release_fitting();
        if !stats.limited {
            self.enter_draining(limit, &mut stats, effects);
            stats.limited = stats.placed >= limit;
        }
        if !stats.limited && self.preempt(effects) {
            self.wake_grown(effects);
            self.place(limit, &mut stats, effects);
        }
        if !stats.limited && self.move_reservations(effects) {
            self.wake_grown(effects);
            self.place(limit, &mut stats, effects);
        }
        if !stats.limited {
            self.reserve(limit, &mut stats, effects);
        }
        self.vacate(limit, &mut stats, effects);
        self.release_fitting();
        if !stats.limited {
            self.prefill(limit, &mut stats, effects);
            // Whom others had to reserve for may have left by backfill or ahead.
            while !stats.limited && !self.relieved.is_empty() {
                self.wake_grown(effects);
                self.place(limit.saturating_sub(stats.prefilled), &mut stats, effects);
            }
        }
        // Those whom limits stop by now may be the first that are to be reserved for.
        self.release_fitting();
        if !stats.limited {
            self.begin_quota_reservations();
        }
        stats
    }

    /// Whoever has started elsewhere needs nothing that is kept for it any more: others may have it in the same round.
    fn vacate(&mut self, limit: u32, stats: &mut RoundStats, effects: &mut Vec<Effect>) {
        while self.unreserve_started(effects) && !stats.limited {
            self.wake_grown(effects);
            self.place(limit, stats, effects);
        }
    }

    /// Places what is ready, up to the limit of the round.
    fn place(&mut self, limit: u32, stats: &mut RoundStats, effects: &mut Vec<Effect>) {
        while stats.placed < limit {
            let Some(turn) = self.next_turn() else { break };
            self.run(turn, limit - stats.placed, stats, effects);
            self.relieve_all(effects);
        }
        stats.limited = stats.placed >= limit;
    }

    /// The queue whose turn it is: the band with the greatest credit, its tenant with the least share, that tenant's first
    /// head.
    fn next_turn(&mut self) -> Option<Pick> {
        let mut tenants = [NONE; 3];
        let open = self.open_classes.mask();
        for (band, tree) in self.turns.iter().enumerate() {
            if tree.any(open) {
                let ready = |tenant: u32| {
                    let tenant = self.tenants.get(tenant as usize);
                    tenant.and_then(|tenant| tenant.lanes.get(band)).is_some_and(|lane| lane.any(&self.open_classes))
                };
                tenants[band] = tree.least(open, ready).unwrap_or(NONE);
            }
        }
        let ready = tenants.map(|tenant| tenant != NONE);
        self.note_ready(ready);
        let mut best: Option<usize> = None;
        for band in (0..3).filter(|band| ready[*band]) {
            if best.is_none_or(|best| self.credit[band] > self.credit[best]) {
                best = Some(band);
            }
        }
        let band = best?;
        let tenant = tenants[band];
        let entry = match self.policy() {
            Policy::DotProduct => self.suited(tenant, band)?,
            _ => self.tenants.get(tenant as usize)?.lanes.get(band)?.first(&self.open_classes)?,
        };
        Some(Pick { band, tenant, entry })
    }

    /// A band that stops being ready passes what it is owed to the highest ready band and forgets what it owes.
    fn note_ready(&mut self, ready: [bool; 3]) {
        for band in 0..3 {
            if self.was_ready[band] && !ready[band] {
                let credit = std::mem::take(&mut self.credit[band]);
                if credit > 0.0
                    && let Some(heir) = (0..3).find(|heir| ready[*heir])
                {
                    self.credit[heir] += credit;
                }
            }
        }
        self.was_ready = ready;
    }

    /// Charges a placement to its band.
    pub(super) fn charge_band(&mut self, band: usize, cost: f64) {
        let ready = self.was_ready;
        let shares = self.config.band_share;
        let given: f64 = (0..3).filter(|band| ready[*band]).map(|band| shares[band]).sum();
        let mut rest = (1.0 - given).max(0.0);
        for other in (0..3).filter(|band| ready[*band]) {
            self.credit[other] += (shares[other] + rest) * cost;
            rest = 0.0;
        }
        // A band that is not ready owes nothing for what passes a reservation: it starts at 0 once it is.
        let owes = ready.get(band).copied().unwrap_or(false);
        self.credit[band] -= if owes { cost } else { 0.0 };
    }

    /// Places a run of the queue's class, or finds that nothing of it can be placed.
    fn run(&mut self, turn: Pick, limit: u32, stats: &mut RoundStats, effects: &mut Vec<Effect>) {
        stats.runs += 1;
        let mut numbers = std::mem::take(&mut self.numbers);
        numbers.clear();
        numbers.extend(self.classes.get(turn.entry.class).into_iter().flat_map(|class| class.requests.iter().copied()));
        let first = numbers.first().and_then(|number| self.requests.get(*number));
        let Some(share) = first.map(|first| first.share(&self.table)) else {
            self.numbers = numbers;
            // The fleet never had what it asks for.
            self.block(turn.entry.class, stats);
            return;
        };
        let mut allowed = std::mem::take(&mut self.allowed);
        let gang =
            self.classes.get(turn.entry.class).and_then(|class| class.shape.gang.as_ref()).map_or(0, |gang| gang.size);
        let room = self.room(turn.tenant, turn.entry.key, &numbers, gang, &mut allowed);
        let partly = allowed.len() < numbers.len();
        self.numbers = numbers;
        let fill = (1.0 / (256.0 * share)) as u32;
        let most = self.config.run_max.min(limit).min(fill.max(1)).min(u32::try_from(room).unwrap_or(u32::MAX));
        let most = if self.fills() { most } else { most.min(1) };
        let placed = match (most, gang) {
            (0, _) => Some(0),
            (_, 0) => self.place_run(turn, most, &allowed, effects),
            _ => self.place_head_gang(turn, &allowed, effects),
        };
        self.allowed = allowed;
        // Who is held back leaves its turn to the next.
        let Some(placed) = placed else { return };
        match placed {
            0 if partly => {
                if most > 0 {
                    // Other kinds of GPUs have no room now: growth may change that as well as the quota.
                    self.half_stopped.push(turn.tenant);
                    self.await_reservation();
                }
                self.stop(turn, effects);
            }
            0 => self.block(turn.entry.class, stats),
            _ => {
                stats.placed += placed;
                self.charge_band(turn.band, share * f64::from(placed));
                self.block_again(stats);
            }
        }
    }

    /// How many more attempts the tenant's limits allow a job beside what it reserves for another, by the request vectors
    /// that they allow `members` of at all: members of a gang may get different kinds of GPUs, but which is known only
    /// once their workers are, so each kind has to allow all of them, as at submit.
    pub(super) fn room(&self, tenant: u32, key: Key, numbers: &[u32], members: u32, allowed: &mut Vec<u32>) -> u64 {
        self.room_beside(tenant, &self.reserved_quota(tenant, key), numbers, members, allowed)
    }

    /// How many more attempts the tenant's limits allow beside what is reserved of each of them.
    pub(super) fn room_beside(
        &self,
        tenant: u32,
        reserved: &[u64],
        numbers: &[u32],
        members: u32,
        allowed: &mut Vec<u32>,
    ) -> u64 {
        allowed.clear();
        let Some(tenant) = self.tenants.get(tenant as usize) else { return 0 };
        let mut least = u64::MAX;
        for number in numbers {
            let request = self.requests.get(*number);
            let room = request.map_or(0, |request| tenant.room_beside(request, &self.dims, reserved));
            if room >= u64::from(members.max(1)) {
                allowed.push(*number);
                least = least.min(room);
            }
        }
        if allowed.is_empty() { 0 } else { least }
    }

    /// Places up to `most` jobs of a queue by the request vectors that are allowed; returns how many. None if its head was
    /// held back, since only the worker that it avoids has room.
    fn place_run(&mut self, turn: Pick, most: u32, allowed: &[u32], effects: &mut Vec<Effect>) -> Option<u32> {
        let Some((key, entry)) = self.head(turn.entry.queue) else { return Some(0) };
        let task = self.peek(entry.job);
        let avoid = self.shunned(task);
        let most = if avoid == NONE { most } else { 1 };
        let preferences = self.preferences_of(entry.job);
        let mut found = std::mem::take(&mut self.shortlist);
        self.search(turn.entry.class, allowed, most, avoid, preferences, &mut found);
        if found.is_empty() && avoid != NONE {
            self.search(turn.entry.class, allowed, most, NONE, preferences, &mut found);
            let there = !found.is_empty();
            self.shortlist = found;
            return if there {
                self.hold_back(turn.entry.queue, task);
                None
            } else {
                Some(0)
            };
        }
        let mut placed = 0;
        for candidate in found.iter() {
            if placed >= most {
                break;
            }
            let taken = self.fill(turn, key.0, candidate, most - placed, preferences, effects);
            placed += taken;
            if taken == 0 {
                break;
            }
        }
        self.shortlist = found;
        if placed > 0 {
            self.weigh_tenant(turn.tenant);
            self.refresh_head(turn.entry.queue);
        }
        Some(placed)
    }

    /// Places the gang at the head of a queue; returns how many members. None if it was held back, since without the worker
    /// that it avoids there is no room for it.
    fn place_head_gang(&mut self, turn: Pick, allowed: &[u32], effects: &mut Vec<Effect>) -> Option<u32> {
        let Some((_, entry)) = self.head(turn.entry.queue) else { return Some(0) };
        let task = self.peek(entry.job);
        let placed = self.place_gang(turn, allowed, None, effects);
        if placed == 0 && self.shunned(task) != NONE && self.gang_fits(turn.entry.class, allowed) {
            self.hold_back(turn.entry.queue, task);
            return None;
        }
        Some(placed)
    }

    /// Finds the best workers for a run of a class: among those it was woken for, else everywhere.
    fn search(&mut self, number: u32, numbers: &[u32], run: u32, avoid: u32, preferences: u32, found: &mut Shortlist) {
        let mut loose = std::mem::take(&mut self.scratch);
        loose.clear();
        let Some(class) = self.classes.get(number) else { return };
        let avoid = self.workers.get(avoid).map_or(NONE, |worker| worker.place);
        let score = |kind: u32| self.preference_score(preferences, kind);
        let balance = |place: u32, _: &Request| self.balance(preferences, class, place);
        let own = |place: u32, request: &Request| self.own_score(preferences, class, place, request);
        let scorer: Option<Scorer<'_>> = match self.policy() {
            Policy::Balanced if self.has_own_policy() => Some(&own),
            Policy::Balanced => Some(&balance),
            _ => None,
        };
        let search = Search {
            policy: self.policy(),
            class,
            numbers,
            requests: &self.requests,
            scale: &self.scale,
            seed: self.seed,
            run,
            avoid,
            preference: (preferences != 0).then_some(&score),
            scorer,
        };
        let mut look = |search: &Search<'_>, found: &mut Shortlist| {
            if class.refused {
                search.among(&self.table, &class.hints, found);
            } else {
                search.everywhere(&self.table, found, &mut loose);
            }
        };
        look(&search, found);
        loose.iter().for_each(|block| self.table.tighten(*block as usize));
        self.scratch = loose;
    }

    /// Fills one worker with jobs of the queue that have the same priority and preferences; returns how many.
    fn fill(
        &mut self,
        turn: Pick,
        step: u8,
        candidate: Candidate,
        most: u32,
        preferences: u32,
        effects: &mut Vec<Effect>,
    ) -> u32 {
        let worker = self.table.owner(candidate.place);
        let target = Target { worker, request: candidate.request, tenant: turn.tenant };
        let Some(request) = self.requests.get(candidate.request) else { return 0 };
        let times = self.table.hosts(candidate.place, &request.need).min(most);
        let mut placed = 0;
        while placed < times {
            let Some((key, entry)) = self.head(turn.entry.queue) else { break };
            let task = self.peek(entry.job);
            let avoids = placed > 0 && self.life(task).is_some_and(|life| self.avoided(&life) != NONE);
            if key.0 != step || avoids || self.preferences_of(entry.job) != preferences {
                break;
            }
            let Some(task) = self.take(turn.entry.queue) else { break };
            if !self.assign(task, &[target], effects) {
                // Its token cannot grow any more.
                self.give_up(task, effects);
                break;
            }
            placed += 1;
        }
        if let Some(request) = self.requests.get(candidate.request) {
            self.table.charge(candidate.place, &request.need, i32::try_from(placed).unwrap_or(0));
            if let Some(tenant) = self.tenants.get_mut(turn.tenant as usize) {
                tenant.charge(request, placed);
            }
        }
        placed
    }
}
