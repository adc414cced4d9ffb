//! Blocked classes and stopped queues: when they leave the rounds and what brings them back. Owns the
//! invariant that while a class is blocked no open worker that it may see has room for it.

use super::Scheduler;
use super::record::Task;
use super::round::{Pick, RoundStats};
use crate::class::Class;
use crate::effect::Effect;
use crate::fleet::dims::{CPU, MEMORY, mebi_up, requested};
use crate::fleet::table::Spot;
use crate::table::NONE;

/// More hints than this say as little as none.
const MANY_HINTS: usize = 256;
/// Up to this many woken classes are looked at again after every run.
const FEW_WOKEN: usize = 256;

/// What a class asks of cpu and memory, by which it is found among refused ones.
fn need(class: &Class) -> (i32, i32) {
    let resources = &class.shape.resources;
    (requested(resources.cpu_m), requested(mebi_up(resources.memory_bytes)))
}

impl Scheduler {
    /// Notes that a worker has more to give than before.
    pub(super) fn note_growth(&mut self, worker: u32) {
        self.note_worker(worker);
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
        let classes = &self.classes;
        self.woken.retain(|number| classes.get(*number).is_some_and(|class| !class.hints.is_empty()));
        if !self.grew.is_empty() {
            self.relieved.append(&mut self.half_stopped);
            self.wake_places();
        }
        self.release_fitting();
        self.relieve_all(effects);
    }

    /// Judges stopped queues of tenants with new room.
    pub(super) fn relieve_all(&mut self, effects: &mut Vec<Effect>) {
        for tenant in std::mem::take(&mut self.relieved) {
            self.relieve(tenant, effects);
        }
    }

    fn wake_places(&mut self) {
        let mut grew = std::mem::take(&mut self.grew);
        let mut could = std::mem::take(&mut self.scratch);
        self.grown = grew.last().copied().or(self.grown);
        for place in &grew {
            if let Some(worker) = self.workers.get_mut(self.table.owner(*place)) {
                worker.grew = false;
            }
            let spot = self.table.spot(*place);
            if !spot.open {
                continue;
            }
            self.refused.within(spot.free[CPU], spot.free[MEMORY], &mut could);
            for number in &could {
                self.wake(*number, &spot);
            }
        }
        self.scratch = could;
        grew.clear();
        self.grew = grew;
    }

    /// A refused class may fit a place that grew.
    fn wake(&mut self, number: u32, spot: &Spot) {
        let (place, Some(class)) = (spot.place, self.classes.get_mut(number)) else { return };
        if !class.fits(spot, &self.requests) {
            return;
        }
        // A gang needs more than one place: the whole fleet is looked at again.
        if class.queues == 0 || class.shape.gang.is_some() || class.hints.len() >= MANY_HINTS {
            self.refresh_class(number);
            return;
        }
        if class.hints.last() == Some(&place) {
            return;
        }
        class.hints.push(place);
        if class.hints.len() == 1 {
            self.woken.push(number);
            self.open_classes.set(number, true);
        }
    }

    /// Takes a class out of the rounds: it fits nowhere.
    pub(super) fn block(&mut self, number: u32, stats: &mut RoundStats) {
        let now = self.now;
        let Some(class) = self.classes.get_mut(number).filter(|class| !class.is_blocked()) else { return };
        class.hints.clear();
        if !class.refused {
            class.refused = true;
            class.since = now;
            class.seat = self.refused.insert(need(class), number);
        }
        stats.blocked += 1;
        if class.queues > 0 {
            self.open_classes.set(number, false);
            self.await_reservation();
        }
    }

    /// A class knows nothing any more: its next run looks at the whole fleet.
    pub(super) fn refresh_class(&mut self, number: u32) {
        let Some(class) = self.classes.get_mut(number).filter(|class| class.refused) else { return };
        let opens = class.is_blocked() && class.queues > 0;
        class.refused = false;
        class.hints.clear();
        let (need, seat) = (need(class), class.seat);
        if let Some(moved) = self.refused.remove(need, seat).and_then(|moved| self.classes.get_mut(moved)) {
            moved.seat = seat;
        }
        if opens {
            self.open_classes.set(number, true);
        }
    }

    /// After a run: a class that was woken for one place only, which is now taken, need not wait for its turn to find out.
    pub(super) fn block_again(&mut self, stats: &mut RoundStats) {
        if self.woken.is_empty() || self.woken.len() > FEW_WOKEN {
            return;
        }
        let mut woken = std::mem::take(&mut self.woken);
        let (mut spot, mut waits) = (self.table.spot(NONE), false);
        woken.retain(|number| {
            let class = self.classes.get_mut(*number).filter(|class| !class.hints.is_empty());
            let Some(class) = class else { return false };
            let [place] = class.hints.as_slice() else { return true };
            if spot.place != *place {
                spot = self.table.spot(*place);
            }
            if class.fits(&spot, &self.requests) {
                return true;
            }
            class.hints.clear();
            stats.blocked += 1;
            if class.queues > 0 {
                self.open_classes.set(*number, false);
                waits = true;
            }
            false
        });
        if waits {
            self.await_reservation();
        }
        self.woken = woken;
    }

    /// A queue whose tenant has no room for its class left.
    pub(super) fn stop(&mut self, turn: Pick, effects: &mut Vec<Effect>) {
        let revision = self.revision + 1;
        let Some(tenant) = self.tenants.get_mut(turn.tenant as usize) else { return };
        if !tenant.stopped {
            tenant.stopped = true;
            self.revision = revision;
            effects.push(Effect::Quota { tenant: tenant.name.clone(), stopped: true, revision });
        }
        if let Some(lane) = tenant.lanes.get_mut(turn.band) {
            if let Some(entry) = lane.get_mut(turn.entry.class) {
                entry.stopped = true;
            }
            lane.refresh();
        }
        self.note_queue(turn.entry.queue);
        self.watch_stopped(&turn);
        self.turn(turn.tenant);
    }

    /// A tenant uses less or may use more: its stopped queues are judged again in the next round.
    pub(super) fn note_relief(&mut self, number: u32) {
        if self.tenants.get(number as usize).is_some_and(crate::tenant::Tenant::is_limited) {
            self.heads.note_tenant(number);
        }
        if self.tenants.get(number as usize).is_some_and(|tenant| tenant.stopped)
            && self.relieved.last() != Some(&number)
        {
            self.relieved.push(number);
        }
    }

    fn relieve(&mut self, number: u32, effects: &mut Vec<Effect>) {
        let Some(tenant) = self.tenants.get_mut(number as usize).filter(|tenant| tenant.stopped) else { return };
        let mut lanes = std::mem::take(&mut tenant.lanes);
        let (mut stopped, mut freed) = (false, Vec::new());
        for lane in &mut lanes {
            for entry in lane.entries.iter_mut().filter(|entry| entry.stopped) {
                let class = self.classes.get(entry.class);
                let numbers = class.map_or(&[][..], |class| &class.requests);
                let members = class.and_then(|class| class.shape.gang.as_ref()).map_or(1, |gang| gang.size);
                entry.stopped = self.room(number, entry.key, numbers, members, &mut Vec::new()) == 0;
                stopped |= entry.stopped;
                freed.extend((!entry.stopped).then_some(entry.queue));
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
        freed.into_iter().for_each(|queue| self.note_queue(queue));
        self.turn(number);
    }

    /// The task that the head of a queue stands for.
    pub(super) fn peek(&self, job: u32) -> Task {
        let first = self.jobs.get(job).and_then(|job| self.array_of(job)).and_then(|array| array.ready.iter().next());
        Task { job, index: first.map_or(0, |(first, ..)| first) }
    }
}
