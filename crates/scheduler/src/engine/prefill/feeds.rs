//! Feeds: per worker, tenant and class who holds a slot and who waits for one. Owns their numbers and the passing of a slot
//! from an attempt that ended to the oldest one that waits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use orlop_core::machine::attempt::AttemptState;
use serde::{Deserialize, Serialize};

use super::super::Scheduler;
use super::super::record::Attempt;
use crate::effect::Effect;
use crate::job::Priority;
use crate::table::{NONE, Slab};

/// Attempts of one worker, tenant and class.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in super::super) struct Feed {
    pub(super) class: u32,
    pub(super) tenant: u32,
    pub(super) worker: u32,
    /// Attempts that hold capacity and were not given up.
    pub(in super::super) holding: u32,
    /// Attempts that were given up and may still run.
    pub(in super::super) lost: u32,
    /// Prefilled attempts without a slot, the oldest first.
    pub(in super::super) waiting: VecDeque<u32>,
    /// The least urgent priority among these, or of some before them.
    pub(super) worst: Priority,
}

/// All feeds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in super::super) struct Feeds {
    /// They are kept: some worker's round trip is known, or something waits.
    pub(in super::super) on: bool,
    /// The 99th percentile of turns, in microseconds.
    pub(super) turn: u64,
    pub(super) list: Slab<Feed>,
    /// By class, tenant and worker.
    #[serde(with = "crate::table::stored::pairs")]
    pub(super) numbers: BTreeMap<(u32, u32, u32), u32>,
    /// Those that may take more.
    pub(super) hungry: BTreeSet<u32>,
    /// Classes and tenants whose feeds would take more, had they a job that waits.
    pub(super) dry: BTreeSet<(u32, u32)>,
    /// Attempts that wait in all feeds.
    pub(in super::super) waiting: u32,
}

impl Feeds {
    pub(in super::super) fn get(&self, number: u32) -> Option<&Feed> {
        self.list.get(number)
    }

    pub(in super::super) fn iter(&self) -> impl Iterator<Item = (u32, &Feed)> {
        self.list.iter()
    }

    /// The feed's place; it exists from then on.
    fn number(&mut self, class: u32, tenant: u32, worker: u32) -> u32 {
        if let Some(number) = self.numbers.get(&(class, tenant, worker)) {
            return *number;
        }
        let number = self.list.insert(Feed { class, tenant, worker, ..Feed::default() }).unwrap_or(NONE);
        self.numbers.insert((class, tenant, worker), number);
        number
    }

    /// Drops a feed with nothing in it.
    fn drop_empty(&mut self, number: u32) {
        let Some(feed) = self.list.get(number) else { return };
        if feed.holding == 0 && feed.lost == 0 && feed.waiting.is_empty() {
            self.numbers.remove(&(feed.class, feed.tenant, feed.worker));
            self.hungry.remove(&number);
            self.list.remove(number);
        }
    }

    /// An attempt that waits is the next that gets a slot.
    pub(in super::super) fn put_first(&mut self, slot: u32, attempts: &Slab<Attempt>) {
        let Some(feed) = attempts.get(slot).and_then(|attempt| self.list.get_mut(attempt.feed)) else { return };
        if let Some(at) = feed.waiting.iter().position(|waiting| *waiting == slot) {
            feed.waiting.remove(at);
            feed.waiting.push_front(slot);
        }
    }

    /// Takes an attempt that waits out.
    fn leave(&mut self, number: u32, slot: u32) -> bool {
        let Some(feed) = self.list.get_mut(number) else { return false };
        let Some(at) = feed.waiting.iter().position(|waiting| *waiting == slot) else { return false };
        feed.waiting.remove(at);
        self.waiting = self.waiting.saturating_sub(1);
        self.hungry.insert(number);
        true
    }
}

impl Scheduler {
    /// Keeps feeds from now on.
    pub(in super::super) fn keep_feeds(&mut self) {
        if !self.feeds.on {
            self.feeds.on = true;
            self.list_feeds();
        }
    }

    /// Lists every attempt in its feed, again if classes have changed.
    pub(in super::super) fn list_feeds(&mut self) {
        if !self.feeds.on {
            return;
        }
        self.feeds = Feeds { on: true, turn: self.feeds.turn, ..Feeds::default() };
        let workers: Vec<u32> = self.workers.iter().map(|(number, _)| number).collect();
        for worker in workers {
            self.attempts_on(worker).into_iter().for_each(|slot| self.join_feed(slot));
        }
    }

    /// An attempt is listed in its feed.
    pub(in super::super) fn join_feed(&mut self, slot: u32) {
        let Some(attempt) = self.attempts.get(slot).copied() else { return };
        let number = if self.is_gang(attempt.task.job) { NONE } else { self.class_of(attempt.task.job) };
        let number = if number == NONE { NONE } else { self.feeds.number(number, attempt.tenant, attempt.worker) };
        if let Some(attempt) = self.attempts.get_mut(slot) {
            attempt.feed = number;
        }
        let priority = self.spec_of(attempt.task.job).map_or(Priority::LAST, |spec| spec.priority);
        let Some(feed) = self.feeds.list.get_mut(number) else { return };
        match (attempt.waiting, attempt.state == AttemptState::Lost) {
            (_, true) => feed.lost += 1,
            (true, false) => {
                feed.worst = if feed.waiting.is_empty() { priority } else { feed.worst.max(priority) };
                feed.waiting.push_back(slot);
                self.feeds.waiting += 1;
            }
            (false, false) => feed.holding += 1,
        }
        self.feeds.hungry.insert(number);
    }

    /// The class of a job.
    pub(in super::super) fn class_of(&self, job: u32) -> u32 {
        let spec = self.jobs.get(job).map_or(NONE, |job| job.spec);
        self.specs.get(spec as usize).map_or(NONE, |spec| spec.class)
    }

    /// An attempt has ended: its slot goes to the oldest one that waits for it. Returns whether there is nothing to give
    /// back: it was passed on, or the attempt never had one.
    pub(in super::super) fn pass_slot(&mut self, slot: u32, attempt: &Attempt, effects: &mut Vec<Effect>) -> bool {
        if attempt.waiting {
            self.leave_feed(slot, attempt);
            self.feeds.drop_empty(attempt.feed);
            self.worker_waits(attempt.worker, -1);
            return true;
        }
        let gone = self.workers.get(attempt.worker).is_none_or(|worker| worker.state.is_terminal());
        let Some(feed) = self.feeds.list.get_mut(attempt.feed) else { return false };
        if attempt.state == AttemptState::Lost {
            feed.lost = feed.lost.saturating_sub(1);
            self.feeds.hungry.insert(attempt.feed);
            self.feeds.drop_empty(attempt.feed);
            return false;
        }
        feed.holding = feed.holding.saturating_sub(1);
        let next = if gone { None } else { feed.waiting.pop_front() };
        self.feeds.hungry.insert(attempt.feed);
        let Some(heir) = next else {
            self.feeds.drop_empty(attempt.feed);
            return false;
        };
        self.feeds.waiting = self.feeds.waiting.saturating_sub(1);
        let from = Some(self.reference(attempt));
        self.inherit(heir, attempt.request, from, effects);
        true
    }

    /// A prefilled attempt has a slot from now on: that of an ended one, which its capacity and charge come from.
    fn inherit(&mut self, slot: u32, request: u32, from: Option<orlop_core::task::TaskRef>, effects: &mut Vec<Effect>) {
        let Some(attempt) = self.attempts.get_mut(slot) else { return };
        (attempt.waiting, attempt.charged, attempt.request) = (false, true, request);
        let (known, number) = (*attempt, attempt.feed);
        self.add_end_time(slot);
        if let Some(feed) = self.feeds.list.get_mut(number) {
            feed.holding += 1;
        }
        self.feeds.hungry.insert(number);
        self.worker_waits(known.worker, -1);
        let (attempt, worker) = (self.reference(&known), self.key_of(known.worker));
        effects.push(Effect::Inherited { attempt, worker, from });
        let band = self.spec_of(known.task.job).map(|spec| spec.priority.band().index());
        let share = self.requests.get(request).map(|request| request.share(&self.table));
        if let (Some(band), Some(share)) = (band, share) {
            self.charge_band(band, share);
        }
    }

    /// An attempt runs although no end was heard of that it could inherit from: what it takes is counted as it is.
    pub(in super::super) fn take_slot(&mut self, slot: u32, effects: &mut Vec<Effect>) {
        let Some(attempt) = self.attempts.get(slot).copied().filter(|attempt| attempt.waiting) else { return };
        self.leave_feed(slot, &attempt);
        let place = self.workers.get(attempt.worker).map_or(NONE, |worker| worker.place);
        if let Some(request) = self.requests.get(attempt.request) {
            self.table.charge(place, &request.need, 1);
            if let Some(tenant) = self.tenants.get_mut(attempt.tenant as usize) {
                tenant.charge(request, 1);
            }
        }
        self.inherit(slot, attempt.request, None, effects);
        self.weigh_tenant(attempt.tenant);
        self.refresh_open(attempt.worker);
    }

    /// Whoever waits where nobody holds a slot any more has inherited one, which the store does not know.
    pub(in super::super) fn give_slots(&mut self, effects: &mut Vec<Effect>) {
        let alone = self.feeds.list.iter().filter(|(_, feed)| feed.holding == 0);
        let heirs: Vec<u32> = alone.filter_map(|(_, feed)| feed.waiting.front().copied()).collect();
        heirs.into_iter().for_each(|slot| self.take_slot(slot, effects));
    }

    /// An attempt was given up: it waits for nothing any more.
    pub(in super::super) fn lose_slot(&mut self, slot: u32) {
        let Some(attempt) = self.attempts.get(slot).copied() else { return };
        if attempt.waiting {
            self.feeds.leave(attempt.feed, slot);
        }
        if let Some(feed) = self.feeds.list.get_mut(attempt.feed) {
            feed.holding -= u32::from(!attempt.waiting && feed.holding > 0);
            feed.lost += 1;
        }
    }

    /// An attempt does not wait for a slot any more, be it that it was given up before.
    fn leave_feed(&mut self, slot: u32, attempt: &Attempt) {
        if !self.feeds.leave(attempt.feed, slot)
            && let Some(feed) = self.feeds.list.get_mut(attempt.feed)
        {
            feed.lost = feed.lost.saturating_sub(1);
        }
    }

    /// An attempt that was given up runs on after all.
    pub(in super::super) fn regain_slot(&mut self, slot: u32) {
        let Some(attempt) = self.attempts.get(slot).copied().filter(|attempt| !attempt.waiting) else { return };
        if let Some(feed) = self.feeds.list.get_mut(attempt.feed) {
            feed.lost = feed.lost.saturating_sub(1);
            feed.holding += 1;
        }
    }

    /// Counts attempts of a worker that wait for a slot.
    pub(in super::super) fn worker_waits(&mut self, worker: u32, by: i32) {
        if let Some(worker) = self.workers.get_mut(worker) {
            worker.waiting = worker.waiting.saturating_add_signed(by);
        }
    }
}
