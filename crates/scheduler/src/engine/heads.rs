//! Heads that wait: the first jobs of queues whose class fits nowhere, and of those that are held back. Owns them in order of
//! waiting time, and the oldest of them, which backfill tries; both are kept up by what changed and follow from the queues.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::Scheduler;
use super::avoid::{Avoiding, HeldBack};
use super::changes::Marks;
use super::order::valid;
use super::record::Task;
use super::round::Pick;
use crate::queue::{Entry, LaneEntry};

/// How many heads of queues backfill looks at.
const HEADS: usize = 64;

/// When the first job of a queue was submitted, its id, and the queue.
type Age = (u64, u64, u32);

/// A head that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) turn: Pick,
    pub(super) job: u32,
    pub(super) task: Task,
    /// It is held back outside its queue.
    pub(super) held: bool,
    pub(super) stamp: u32,
    pub(super) submitted: u64,
}

/// One of the oldest heads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Old {
    age: Age,
    pub(super) head: Head,
    pub(super) gang: bool,
    /// It may enter workers now that it could not when it was last tried.
    pub(super) fresh: bool,
    /// That came about while others were tried.
    pub(super) again: bool,
}

/// Queues with jobs by the age of the first.
#[derive(Clone, Debug, Default)]
pub(super) struct Heads {
    /// Queues of which that may be another by now.
    pub(super) changed: Marks,
    /// Those of them that are younger than the oldest ones, before and after: they wait for the next walk.
    later: Marks,
    by_age: BTreeSet<Age>,
    /// Where each queue stands there.
    ages: Vec<Option<Age>>,
    /// The oldest ones that wait because they fit nowhere.
    pub(super) oldest: Vec<Old>,
    /// Queues that may stand there otherwise by now.
    moved: Marks,
    /// Up to which age they are all; absent = there are no others.
    until: Option<Age>,
    /// It is just being tried who may enter reserved workers.
    pub(super) trying: bool,
    /// Everything as old as these was looked at, and all of it waits for that reason.
    whole: bool,
}

impl Heads {
    /// Nothing that is known of the oldest ones holds any more.
    pub(super) fn forget_front(&mut self) {
        (self.oldest, self.whole) = (Vec::new(), false);
    }

    /// Which of the oldest ones are of some sort, one bit each.
    pub(super) fn bits(&self, sort: impl Fn(&Old) -> bool) -> u64 {
        self.oldest.iter().rev().fold(0, |bits, old| bits << 1 | u64::from(sort(old)))
    }

    /// The oldest ones were tried, save those that became fresh meanwhile.
    pub(super) fn note_tried(&mut self) {
        for old in self.oldest.iter_mut().filter(|old| old.fresh) {
            old.fresh = std::mem::take(&mut old.again);
        }
    }

    /// A tenant may use more than before.
    pub(super) fn note_tenant(&mut self, number: u32) {
        for old in self.oldest.iter_mut().filter(|old| old.head.turn.tenant == number) {
            (old.fresh, old.again) = (true, self.trying);
        }
    }

    fn age(&self, queue: u32) -> Option<Age> {
        self.ages.get(queue as usize).copied().flatten()
    }

    /// Whether a queue of such an age does not belong to the oldest ones, whatever changes elsewhere among the others.
    fn is_young(&self, age: Option<Age>) -> bool {
        self.until.is_some_and(|until| age.is_none_or(|age| age > until))
    }

    /// Puts a queue where it belongs.
    fn set(&mut self, queue: u32, age: Option<Age>) {
        let at = queue as usize;
        if self.ages.len() <= at {
            self.ages.resize(at + 1, None);
        }
        self.moved.insert(queue);
        let Some(known) = self.ages.get_mut(at).filter(|known| **known != age) else { return };
        if let Some(old) = std::mem::replace(known, age) {
            self.by_age.remove(&old);
        }
        self.by_age.extend(age);
    }
}

/// A walk over all heads that wait.
pub(super) struct Walk {
    after: Bound<Age>,
    /// Those that are held back and still to come, the last one first.
    held: Vec<Head>,
}

impl Scheduler {
    /// Every queue counts as changed: nothing is known of heads.
    pub(super) fn forget_heads(&mut self) {
        self.heads = Heads::default();
        (0..self.queues.len()).filter_map(|queue| u32::try_from(queue).ok()).for_each(|queue| self.note_queue(queue));
    }

    /// Whether a queue waits because its class fits nowhere, or because what its tenant's limits allow of it does: of several
    /// kinds of devices these may allow one that is taken and never the other.
    fn is_crowded_out(&self, tenant: u32, entry: &LaneEntry) -> bool {
        let Some(class) = self.classes.get(entry.class) else { return false };
        let members = class.shape.gang.as_ref().map_or(1, |gang| gang.size);
        let allowed = || self.room(tenant, entry.key, &class.requests, members, &mut Vec::new()) > 0;
        if entry.stopped { class.requests.len() > 1 && allowed() } else { class.is_blocked() }
    }

    /// The first of those that are held back, by queue and the worker that they avoid: they wait for others as well.
    pub(super) fn held_heads(&self) -> Vec<Head> {
        let head = |(queue, _): &Avoiding, held: &HeldBack| {
            let (step, id, task) = *held.first()?;
            let record = self.queues.get(*queue as usize)?;
            let job = self.jobs.get(task.job)?;
            let entry = LaneEntry { class: record.class, queue: *queue, key: (step, id), stopped: false };
            let turn = Pick { band: record.band, tenant: record.tenant, entry };
            Some(Head { turn, job: task.job, task, held: true, stamp: job.stamp, submitted: job.submitted })
        };
        let mut heads: Vec<Head> = self.held_back.iter().filter_map(|(key, held)| head(key, held)).collect();
        heads.sort_by_key(|head| (head.submitted, head.turn.entry.key.1));
        heads
    }

    /// The first job of a queue, if it waits because it fits nowhere.
    pub(super) fn crowded_head(&mut self, queue: u32) -> Option<Head> {
        let record = self.queues.get(queue as usize).filter(|record| record.lined)?;
        let (tenant, band, class) = (record.tenant, record.band, record.class);
        let entry = *self.tenants.get(tenant as usize)?.lanes.get(band)?.get(class)?;
        if !self.is_crowded_out(tenant, &entry) {
            return None;
        }
        let (_, first) = self.head(queue)?;
        let submitted = self.jobs.get(first.job)?.submitted;
        let (turn, task) = (Pick { band, tenant, entry }, self.peek(first.job));
        Some(Head { turn, job: first.job, task, held: false, stamp: first.stamp, submitted })
    }

    /// Whether a queue has jobs that its tenant's limits do not stop for good: of several kinds of devices another may do.
    fn may_wait(&self, queue: u32) -> bool {
        let Some(record) = self.queues.get(queue as usize).filter(|record| record.lined) else { return false };
        let lane = self.tenants.get(record.tenant as usize).and_then(|tenant| tenant.lanes.get(record.band));
        let several = || self.classes.get(record.class).is_some_and(|class| class.requests.len() > 1);
        lane.and_then(|lane| lane.get(record.class)).is_some_and(|entry| !entry.stopped || several())
    }

    /// Where a queue stands by age.
    fn age_of(&mut self, queue: u32) -> Option<Age> {
        let (_, first) = if self.may_wait(queue) { self.head(queue) } else { None }?;
        self.age_by(queue, first)
    }

    fn age_by(&self, queue: u32, first: Entry) -> Option<Age> {
        let job = self.jobs.get(first.job)?;
        Some((job.submitted, job.id.as_u64(), queue))
    }

    /// Makes the order of queues agree with what changed. Cost: logarithmic in queues for each that changed.
    fn order_heads(&mut self) {
        while let Some(queue) = self.heads.changed.pop().or_else(|| self.heads.later.pop()) {
            let age = self.age_of(queue);
            self.heads.set(queue, age);
        }
    }

    /// Begins a walk over the heads that wait.
    pub(super) fn walk_heads(&mut self) -> Walk {
        self.order_heads();
        let mut held = if self.held_back.is_empty() { Vec::new() } else { self.held_heads() };
        held.reverse();
        Walk { after: Bound::Unbounded, held }
    }

    /// The next head that waits because it fits nowhere or is held back, the longest waiting first.
    pub(super) fn next_head(&mut self, walk: &mut Walk) -> Option<Head> {
        loop {
            let next = self.heads.by_age.range((walk.after, Bound::Unbounded)).next().copied();
            let first_held = walk.held.last().map(|head| (head.submitted, head.turn.entry.key.1));
            match next {
                Some((submitted, id, _)) if first_held.is_some_and(|held| held < (submitted, id)) => {
                    return walk.held.pop();
                }
                None => return walk.held.pop(),
                Some(age) => {
                    walk.after = Bound::Excluded(age);
                    if let Some(head) = self.crowded_head(age.2) {
                        return Some(head);
                    }
                }
            }
        }
    }

    /// Heads of queues that wait because they fit nowhere, and those that are held back, the longest waiting first.
    pub(super) fn waiting_heads(&mut self) -> Vec<Head> {
        let mut walk = self.walk_heads();
        std::iter::from_fn(|| self.next_head(&mut walk)).collect()
    }

    /// The head that a reservation is for, if that is what waits.
    pub(super) fn head_of(&mut self, queue: u32, job: u32) -> Option<Head> {
        let first = self.crowded_head(queue).filter(|head| head.job == job);
        first.or_else(|| self.held_heads().into_iter().find(|head| head.job == job))
    }

    /// Makes the oldest heads agree with what changed. Cost: logarithmic in queues for each that changed, unless something as
    /// old as these does not wait for room.
    pub(super) fn refresh_oldest(&mut self) {
        while let Some(queue) = self.heads.changed.pop() {
            let age = self.age_of(queue);
            if self.heads.is_young(age) && self.heads.is_young(self.heads.age(queue)) {
                self.heads.later.insert(queue);
            } else {
                self.heads.set(queue, age);
            }
        }
        if !self.heads.whole || !self.heads.oldest.iter().all(|old| self.waits_for_room(&old.head)) {
            self.order_heads();
            let known = std::mem::take(&mut self.heads.oldest);
            self.look_for_oldest(&known);
            return;
        }
        while let Some(queue) = self.heads.moved.pop() {
            self.move_old(queue);
        }
        if let Some(until) = self.heads.until.filter(|_| self.heads.oldest.len() < HEADS) {
            self.order_heads();
            self.fill_oldest(Bound::Excluded(until), &[]);
        }
    }

    /// The same without the queues: whether what was found of a head still holds.
    fn waits_for_room(&self, head: &Head) -> bool {
        let entry = &head.turn.entry;
        if entry.stopped {
            return self.is_crowded_out(head.turn.tenant, entry);
        }
        // While no class is open, all are blocked.
        self.open_classes.mask() == 0 || self.classes.get(entry.class).is_some_and(crate::class::Class::is_blocked)
    }

    /// A queue among the oldest has another first job, or one that is not among them may be by now.
    fn move_old(&mut self, queue: u32) {
        let age = self.heads.age(queue);
        let oldest = &mut self.heads.oldest;
        let known = oldest.iter().position(|old| old.age.2 == queue).map(|at| oldest.remove(at));
        let Some(age) = age.filter(|age| self.heads.until.is_none_or(|until| *age <= until)) else { return };
        match self.crowded_head(queue) {
            Some(head) => {
                let fresh = !known.is_some_and(|known| !known.fresh && is_same(&known.head, &head));
                let (at, gang) = (self.heads.oldest.partition_point(|old| old.age < age), self.is_gang(head.job));
                self.heads.oldest.insert(at, Old { age, head, gang, fresh, again: false });
                if self.heads.oldest.len() > HEADS {
                    self.heads.oldest.truncate(HEADS);
                    self.heads.until = self.heads.oldest.last().map(|old| old.age);
                }
            }
            None => self.heads.whole = false,
        }
    }

    /// Looks at all queues, the oldest first, until there are enough.
    fn look_for_oldest(&mut self, known: &[Old]) {
        self.heads.whole = true;
        let moved = std::mem::take(&mut self.heads.moved);
        let unmoved: Vec<Old> = known.iter().filter(|old| !moved.has(old.age.2)).copied().collect();
        self.fill_oldest(Bound::Unbounded, &unmoved);
        self.heads.moved = moved;
        self.heads.moved.clear();
    }

    /// Adds queues in order until there are enough.
    fn fill_oldest(&mut self, mut after: Bound<Age>, known: &[Old]) {
        while self.heads.oldest.len() < HEADS {
            let next = self.heads.by_age.range((after, Bound::Unbounded)).next().copied();
            self.heads.until = next;
            let Some(age) = next else { return };
            after = Bound::Excluded(age);
            let Some(head) = self.crowded_head(age.2) else {
                self.heads.whole = false;
                continue;
            };
            let same = known.iter().find(|old| old.age == age && is_same(&old.head, &head));
            let (gang, fresh) = (self.is_gang(head.job), same.is_none_or(|old| old.fresh));
            self.heads.oldest.push(Old { age, head, gang, fresh, again: false });
        }
    }

    /// Whether a queue stands where its first job says, unless it is noted as changed; for `sanity_check`.
    pub(super) fn heads_hold(&self) -> bool {
        (0..self.queues.len()).filter_map(|queue| u32::try_from(queue).ok()).all(|queue| {
            let known = self.heads.age(queue);
            let first = self.first_entry(queue).filter(|_| self.may_wait(queue));
            self.heads.changed.has(queue)
                || self.heads.later.has(queue)
                || known == first.and_then(|first| self.age_by(queue, first))
        })
    }

    /// The first job of a queue, by a look at all of them.
    pub(super) fn first_entry(&self, queue: u32) -> Option<Entry> {
        let lists = &self.queues.get(queue as usize)?.lists;
        lists.iter().find_map(|list| {
            let waiting = list.iter().filter(|entry| valid(&self.jobs, *entry));
            waiting.min_by_key(|entry| self.jobs.get(entry.job).map(|job| job.id))
        })
    }

    /// The oldest heads that are as they were when they were last tried, and that nothing has changed for.
    pub(super) fn tried_heads(&self) -> impl Iterator<Item = &Old> {
        let same = |old: &&Old| {
            let queue = old.age.2;
            !old.fresh && !self.heads.changed.has(queue) && !self.heads.moved.has(queue)
        };
        self.heads.oldest.iter().filter(same)
    }
}

/// Whether the same task is first for the same reasons.
fn is_same(one: &Head, other: &Head) -> bool {
    (one.task, one.stamp, one.turn.entry) == (other.task, other.stamp, other.turn.entry)
}
