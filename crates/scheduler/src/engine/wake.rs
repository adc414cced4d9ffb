//! Blocked classes and stopped queues: when they leave the rounds and what brings them back (section 2.5). Owns the
//! invariant that while a class is blocked no open worker that it may see has room for it.

use super::Scheduler;
use super::record::Unit;
use super::round::{RoundStats, Turn};
use crate::class::{Class, Standing};
use crate::effect::Effect;
use crate::fleet::dims::{CPU, MEMORY, mebi_up, requested};
use crate::fleet::table::magnitude;
use crate::table::NONE;

/// More hints than this say as little as none.
const MANY_HINTS: usize = 256;
/// Up to this many woken classes are looked at again after every run.
const FEW_WOKEN: usize = 256;

/// The bucket of a class among blocked ones.
fn bucket(class: &Class) -> (u32, u32) {
    let resources = &class.shape.resources;
    (magnitude(requested(resources.cpu_m)), magnitude(requested(mebi_up(resources.memory_bytes))))
}

impl Scheduler {
    /// Notes that a worker has more to give than before.
    pub(super) fn note_growth(&mut self, worker: u32) {
        if let Some(worker) = self.workers.get_mut(worker)
            && worker.place != NONE
            && !worker.grew
        {
            worker.grew = true;
            self.grew.push(worker.place);
        }
    }

    /// Wakes every blocked class that fits a place that grew, and judges stopped queues of tenants with new room.
    pub(super) fn wake_grown(&mut self, effects: &mut Vec<Effect>) {
        if !self.grew.is_empty() {
            self.relieved.append(&mut self.half_stopped);
            self.wake_places();
        }
        for tenant in std::mem::take(&mut self.relieved) {
            self.relieve(tenant, effects);
        }
    }

    fn wake_places(&mut self) {
        let classes = &self.classes;
        self.woken
            .retain(|number| classes.get(*number).is_some_and(|class| matches!(class.standing, Standing::Hinted(_))));
        self.woken.sort_unstable();
        self.woken.dedup();
        let mut grew = std::mem::take(&mut self.grew);
        let mut could = std::mem::take(&mut self.scratch);
        for place in &grew {
            if let Some(worker) = self.workers.get_mut(self.table.owner(*place)) {
                worker.grew = false;
            }
            if !self.table.is_open(*place) {
                continue;
            }
            for at in 0..self.woken.len() {
                self.hint(at, *place);
            }
            let free = (magnitude(self.table.free(CPU, *place)), magnitude(self.table.free(MEMORY, *place)));
            self.blocked.within(free, &mut could);
            for number in &could {
                if self.classes.get(*number).is_some_and(|class| self.fits(class, *place)) {
                    self.wake(*number, *place);
                }
            }
        }
        self.scratch = could;
        grew.clear();
        self.grew = grew;
    }

    fn fits(&self, class: &Class, place: u32) -> bool {
        self.classes.fits(class, place, (&self.table, &self.requests)).is_some()
    }

    /// A blocked class fits a place again.
    fn wake(&mut self, number: u32, place: u32) {
        let Some(class) = self.classes.get(number) else { return };
        // A gang needs more than one place: the whole fleet is looked at again.
        let hinted = class.queues > 0 && class.shape.gang.is_none();
        let standing = if hinted { Standing::Hinted(vec![place]) } else { Standing::Fresh };
        self.unblock(number, standing);
        if hinted {
            self.woken.push(number);
        }
    }

    /// A class that was woken before may fit another place too.
    fn hint(&mut self, at: usize, place: u32) {
        let Some(number) = self.woken.get(at).copied() else { return };
        let Some(class) = self.classes.get(number) else { return };
        if !matches!(&class.standing, Standing::Hinted(places) if !places.contains(&place)) || !self.fits(class, place)
        {
            return;
        }
        let Some(class) = self.classes.get_mut(number) else { return };
        if let Standing::Hinted(places) = &mut class.standing {
            places.push(place);
            if places.len() > MANY_HINTS {
                class.standing = Standing::Fresh;
            }
        }
    }

    /// Takes a class out of the rounds.
    pub(super) fn block(&mut self, number: u32, stats: &mut RoundStats) {
        let Some(class) = self.classes.get_mut(number).filter(|class| !class.is_blocked()) else { return };
        class.standing = Standing::Blocked(self.now);
        class.seat = self.blocked.insert(bucket(class), number);
        stats.blocked += 1;
        if class.queues > 0 {
            self.open_class(number, false);
        }
    }

    /// Lets a class take part again.
    pub(super) fn unblock(&mut self, number: u32, standing: Standing) {
        let Some(class) = self.classes.get_mut(number).filter(|class| class.is_blocked()) else { return };
        class.standing = standing;
        let (bucket, seat, queues) = (bucket(class), class.seat, class.queues);
        if let Some(moved) = self.blocked.remove(bucket, seat).and_then(|moved| self.classes.get_mut(moved)) {
            moved.seat = seat;
        }
        if queues > 0 {
            self.open_class(number, true);
        }
    }

    /// After a run: a class that was woken for one place only, which is now taken, need not wait for its turn to find out.
    pub(super) fn block_again(&mut self, stats: &mut RoundStats) {
        if self.woken.is_empty() || self.woken.len() > FEW_WOKEN {
            return;
        }
        let woken = std::mem::take(&mut self.woken);
        let mut left = Vec::new();
        for number in woken {
            let Some(class) = self.classes.get(number) else { continue };
            match &class.standing {
                Standing::Hinted(places)
                    if places.len() == 1 && !places.iter().any(|place| self.fits(class, *place)) =>
                {
                    self.block(number, stats);
                }
                Standing::Hinted(_) => left.push(number),
                Standing::Fresh | Standing::Blocked(_) => {}
            }
        }
        self.woken = left;
    }

    /// A queue whose tenant has no room for its class left.
    pub(super) fn stop(&mut self, turn: Turn, effects: &mut Vec<Effect>) {
        let seat = self.queues.get(turn.entry.queue as usize).and_then(|queue| queue.seat);
        let revision = self.revision + 1;
        let Some(tenant) = self.tenants.get_mut(turn.tenant as usize) else { return };
        if !tenant.stopped {
            tenant.stopped = true;
            self.revision = revision;
            effects.push(Effect::Quota { tenant: tenant.name.clone(), stopped: true, revision });
        }
        if let Some(lane) = tenant.lanes.get_mut(turn.band) {
            if let Some(entry) = seat.and_then(|seat| lane.get_mut(seat)) {
                entry.stopped = true;
            }
            lane.refresh();
        }
        self.turn(turn.tenant);
    }

    /// A tenant uses less or may use more: its stopped queues are judged again in the next round.
    pub(super) fn note_relief(&mut self, number: u32) {
        if self.tenants.get(number as usize).is_some_and(|tenant| tenant.stopped)
            && self.relieved.last() != Some(&number)
        {
            self.relieved.push(number);
        }
    }

    fn relieve(&mut self, number: u32, effects: &mut Vec<Effect>) {
        let Some(tenant) = self.tenants.get_mut(number as usize).filter(|tenant| tenant.stopped) else { return };
        let mut lanes = std::mem::take(&mut tenant.lanes);
        let mut stopped = false;
        for lane in &mut lanes {
            for entry in lane.entries.iter_mut().filter(|entry| entry.stopped) {
                let numbers = self.classes.get(entry.class).map_or(&[][..], |class| &class.requests);
                let gang = self
                    .classes
                    .get(entry.class)
                    .and_then(|class| class.shape.gang.as_ref())
                    .map_or(1, |gang| gang.size);
                entry.stopped = self.room(number, numbers, &mut Vec::new()) < u64::from(gang);
                stopped |= entry.stopped;
            }
            lane.refresh();
        }
        let revision = self.revision + 1;
        if let Some(tenant) = self.tenants.get_mut(number as usize) {
            tenant.lanes = lanes;
            tenant.stopped = stopped;
            if !stopped {
                self.revision = revision;
                effects.push(Effect::Quota { tenant: tenant.name.clone(), stopped, revision });
            }
        }
        self.turn(number);
    }

    /// The unit that the head of a queue stands for.
    pub(super) fn peek(&self, job: u32) -> Unit {
        let first = self.jobs.get(job).and_then(|job| self.array_of(job)).and_then(|array| array.ready.iter().next());
        Unit { job, index: first.map_or(0, |(first, ..)| first) }
    }
}
