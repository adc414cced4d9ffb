//! Gangs: one decision for all members, one outcome. Owns which workers a gang gets and how the ends of its
//! members become the end of its attempt: the first that fails ends the others. A member that is given up has failed, so its
//! fellows on other workers are told to end. Those on the same worker went out of sight with it: if it returns with all of
//! them, the gang is adopted late as it was started, whole or not at all.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use orlop_core::machine::job::{self, JobState};

use super::Scheduler;
use super::assign::Target;
use super::ends::Ending;
use super::heads::Head;
use super::record::{Attempt, Life, Task, Worker};
use super::round::Pick;
use crate::class::Class;
use crate::config::Policy;
use crate::effect::{CancelReason, Effect, Reason};
use crate::score::tie;
use crate::table::NONE;
use crate::token::WorkerKey;

/// The newest attempt of a gang.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Members {
    /// Slots of the members' attempts; `NONE` once they ended or were given up.
    pub(super) slots: Vec<u32>,
    /// Whose result was accepted.
    pub(super) answered: Vec<bool>,
    /// How the first failing member ended, and on which worker.
    pub(super) ending: Option<(Ending, WorkerKey)>,
    /// A member has ended for sure and without success, or two workers were lost: this attempt cannot come back whole.
    #[serde(default)]
    pub(super) broken: bool,
}

impl Members {
    pub(super) fn new(slots: Vec<u32>) -> Self {
        let answered = vec![false; slots.len()];
        Self { slots, answered, ending: None, broken: false }
    }

    /// Members whose result was accepted, in order.
    pub(super) fn who_answered(&self) -> Vec<u32> {
        (0..).zip(&self.answered).filter(|(_, answered)| **answered).map(|(member, _)| member).collect()
    }
}

/// A worker that could take members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GangCandidate {
    /// Greater is chosen later.
    pub(super) fewer: u32,
    pub(super) tie: u64,
    pub(super) place: u32,
    pub(super) request: u32,
    /// How many members it takes, above 0.
    pub(super) times: u32,
}

impl Scheduler {
    /// Places the gang at the head of a queue as a whole, or nothing; returns how many members. Only for a head that may pass
    /// do reserved workers count, with what the reservations leave it.
    pub(super) fn place_gang(
        &mut self,
        turn: Pick,
        allowed: &[u32],
        passing: Option<&Head>,
        effects: &mut Vec<Effect>,
    ) -> u32 {
        let Some((_, entry)) = self.head(turn.entry.queue) else { return 0 };
        let avoid = self.shunned(self.peek(entry.job));
        let Some((size, rooms)) = self.best_rooms(turn.entry.class, allowed, avoid, passing) else { return 0 };
        let targets = self.deal(turn, size, rooms);
        let Some(task) = self.take(turn.entry.queue) else { return 0 };
        for target in &targets {
            let place = self.workers.get(target.worker).map_or(NONE, |worker| worker.place);
            if let Some(request) = self.requests.get(target.request) {
                self.table.charge(place, &request.need, 1);
                if let Some(tenant) = self.tenants.get_mut(target.tenant as usize) {
                    tenant.charge(request, 1);
                }
            }
        }
        if !self.assign(task, &targets, effects) {
            self.give_up(task, effects);
        }
        self.weigh_tenant(turn.tenant);
        self.refresh_head(turn.entry.queue);
        size
    }

    /// Whether a gang of a class fits now, whatever it avoids.
    pub(super) fn gang_fits(&self, class: u32, allowed: &[u32]) -> bool {
        self.best_rooms(class, allowed, NONE, None).is_some()
    }

    /// The group of workers for a gang of a class that is left with the least room, and the gang's size; one worker is not
    /// wanted.
    fn best_rooms(
        &self,
        class: u32,
        allowed: &[u32],
        avoid: u32,
        passing: Option<&Head>,
    ) -> Option<(u32, Vec<GangCandidate>)> {
        let class = self.classes.get(class)?;
        let gang = class.shape.gang.as_ref()?;
        let size = gang.size;
        let most = gang.max_per_worker.unwrap_or(u32::MAX);
        let mut best: Option<Vec<GangCandidate>> = None;
        for (_, rooms) in self.rooms(class, gang.same_label.as_deref(), allowed, most, avoid, passing) {
            let sum = |rooms: &[GangCandidate]| rooms.iter().map(|room| u64::from(room.times)).sum::<u64>();
            let fits = sum(&rooms) >= u64::from(size);
            // Of equals the first by label.
            if fits && best.as_ref().is_none_or(|best| sum(&rooms) < sum(best)) {
                best = Some(rooms);
            }
        }
        best.map(|rooms| (size, rooms))
    }

    /// Workers with room for members, by the value of the label that all members share; those with the most room first.
    fn rooms(
        &self,
        class: &Class,
        label: Option<&str>,
        allowed: &[u32],
        most: u32,
        avoid: u32,
        passing: Option<&Head>,
    ) -> BTreeMap<String, Vec<GangCandidate>> {
        let mut groups: BTreeMap<String, Vec<GangCandidate>> = BTreeMap::new();
        let wanted = |(number, worker): &(u32, &Worker)| worker.place != NONE && *number != avoid;
        for (number, worker) in self.workers.iter().filter(wanted) {
            let place = worker.place;
            let kind = self.table.kind(place);
            let kept = || self.reservations.iter().find_map(|kept| kept.seat(number).map(|seat| (kept, seat)));
            let past =
                passing.filter(|_| worker.reserved).and_then(|head| kept().map(|(kept, seat)| (head, kept, seat)));
            if !class.sees(kind) || (!self.table.is_open(place) && past.is_none()) {
                continue;
            }
            let group = match label {
                None => Some(String::new()),
                Some(label) => self.kinds.get(kind).and_then(|kind| kind.labels.get(label)).cloned(),
            };
            let hosts = |request: u32| match past {
                Some((head, kept, seat)) => self.passing(kept, seat, head, request),
                None => self.requests.get(request).map_or(0, |request| self.table.hosts(place, &request.need)),
            };
            // Of its vectors the one by which most members fit, of equals the preferred one.
            let rooms = allowed.iter().map(|request| (hosts(*request).min(most), *request));
            let best = rooms.rev().max_by_key(|(times, _)| *times).filter(|(times, _)| *times > 0);
            if let (Some(group), Some((times, request))) = (group, best) {
                let room = GangCandidate { fewer: u32::MAX - times, tie: tie(self.seed, place), place, request, times };
                groups.entry(group).or_default().push(room);
            }
        }
        groups.values_mut().for_each(|rooms| rooms.sort_unstable());
        groups
    }

    /// Deals members to workers: the fewest workers, or one each in turn under `spread`.
    pub(super) fn deal(&self, turn: Pick, size: u32, mut rooms: Vec<GangCandidate>) -> Vec<Target> {
        let mut targets = Vec::new();
        let missing = |targets: &[Target]| size.saturating_sub(u32::try_from(targets.len()).unwrap_or(u32::MAX));
        let target = |room: &GangCandidate| Target {
            worker: self.table.owner(room.place),
            request: room.request,
            tenant: turn.tenant,
        };
        if self.policy() == Policy::Spread {
            while missing(&targets) > 0 && !rooms.is_empty() {
                for room in &mut rooms {
                    if missing(&targets) > 0 {
                        targets.push(target(room));
                        room.times -= 1;
                    }
                }
                rooms.retain(|room| room.times > 0);
            }
            return targets;
        }
        for (at, room) in rooms.iter().enumerate() {
            // The last worker is the one with the least room that is enough.
            let left = missing(&targets);
            let enough = rooms.iter().skip(at).take_while(|other| other.times >= left).last();
            let room = enough.unwrap_or(room);
            (0..room.times.min(left)).for_each(|_| targets.push(target(room)));
            if missing(&targets) == 0 {
                break;
            }
        }
        targets
    }

    /// Whether a job is a gang.
    pub(super) fn is_gang(&self, job: u32) -> bool {
        self.spec_of(job).is_some_and(|spec| spec.gang.is_some())
    }

    /// A member's attempt has ended; none = it succeeded. The gang moves on with its last member.
    pub(super) fn member_ended(
        &mut self,
        task: Task,
        member: (u32, u32),
        ending: Option<Ending>,
        effects: &mut Vec<Effect>,
    ) {
        self.member_left(task, member.0, member.1, ending, false, effects);
    }

    /// A member's attempt was given up although it may still run. Of a gang that nobody else is left of, and nobody ended
    /// without success, this worker may yet bring back all that was given up.
    pub(super) fn member_given_up(&mut self, slot: u32, ending: Ending, effects: &mut Vec<Effect>) {
        let Some(Attempt { task, member, worker, .. }) = self.attempts.get(slot).copied() else { return };
        self.member_left(task, member, worker, Some(ending), true, effects);
        let whole = self.gangs.get(&task.job).is_some_and(|members| !members.broken);
        let waits = |life: &Life| matches!(life.state, JobState::Queued | JobState::Backoff) && life.live == NONE;
        if let Some(mut life) = self.life(task).filter(|life| whole && waits(life)) {
            (life.lost, life.live) = (true, slot);
            self.set_life(task, life);
        }
    }

    fn member_left(
        &mut self,
        task: Task,
        member: u32,
        worker: u32,
        ending: Option<Ending>,
        given_up: bool,
        effects: &mut Vec<Effect>,
    ) {
        let worker = self.key_of(worker);
        let Some(members) = self.gangs.get_mut(&task.job) else { return };
        if let Some(slot) = members.slots.get_mut(member as usize) {
            *slot = NONE;
        }
        let first = ending.is_some() && members.ending.is_none();
        if first {
            members.ending = ending.map(|ending| (ending, worker));
        }
        let alone = members.ending.is_none_or(|(_, lost_with)| lost_with == worker);
        members.broken |= ending.is_some() && !(given_up && alone);
        let left: Vec<u32> = members.slots.iter().copied().filter(|slot| *slot != NONE).collect();
        let last = members.ending;
        let Some(mut life) = self.life(task) else { return };
        life.live = left.first().copied().unwrap_or(NONE);
        self.set_life(task, life);
        if first {
            // Who is out of sight with it is given up next, and is not told what may have to be taken back.
            let is_ending = |slot: &u32| {
                self.attempts
                    .get(*slot)
                    .is_some_and(|attempt| attempt.ending.is_some() || given_up && attempt.worker == worker.index)
            };
            let going_on: Vec<u32> = left.iter().copied().filter(|slot| !is_ending(slot)).collect();
            going_on.iter().for_each(|slot| self.tell_to_end(*slot, CancelReason::Gang, effects));
        }
        if !left.is_empty() {
            return;
        }
        let (mut ending, worker) = last.unwrap_or((Ending::of(job::Event::ResultSucceeded, Reason::Plain), worker));
        // Some members ran when another was taken back: nothing counts.
        if ending.event == job::Event::Revoked && life.state == JobState::Running {
            ending.event = job::Event::Drained;
        }
        life.answered = true;
        if !self.move_on(task, life, worker, ending, effects) {
            self.set_life(task, life);
        }
    }
}
