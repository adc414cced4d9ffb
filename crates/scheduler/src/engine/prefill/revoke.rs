//! Taking back what was sent ahead and has no slot yet: for a drain, for a reservation, for more urgent work, and for a
//! capable worker that is idle. Owns when; an end that comes first passes its slot on all the same.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Scheduler;
use super::super::starvation::NOBODY;
use super::Claim;
use crate::effect::Effect;
use crate::table::NONE;

impl Scheduler {
    /// Takes back an attempt that has not started.
    pub(in super::super) fn revoke(&mut self, slot: u32, effects: &mut Vec<Effect>) {
        let Some(attempt) = self.attempts.get_mut(slot).filter(|attempt| !attempt.revoking && !attempt.started) else {
            return;
        };
        attempt.revoking = true;
        let attempt = *attempt;
        let (reference, worker) = (self.reference(&attempt), self.key_of(attempt.worker));
        effects.push(Effect::Revoke { attempt: reference, worker });
    }

    /// Takes back everything that waits for a slot of a worker.
    pub(in super::super) fn revoke_waiting(&mut self, worker: u32, effects: &mut Vec<Effect>) {
        if self.workers.get(worker).is_none_or(|worker| worker.waiting == 0) {
            return;
        }
        for slot in self.attempts_on(worker) {
            if self.attempts.get(slot).is_some_and(|attempt| attempt.waiting) {
                self.revoke(slot, effects);
            }
        }
    }

    /// More urgent work waits that the slots would serve.
    pub(super) fn revoke_for_better(&mut self, claims: &[Claim], effects: &mut Vec<Effect>) {
        let Some(best) = claims.iter().map(Claim::priority).min() else { return };
        let mut revoked = Vec::new();
        for (_, feed) in self.feeds.iter().filter(|(_, feed)| !feed.waiting.is_empty() && best < feed.worst) {
            let place = self.workers.get(feed.worker).map_or(NONE, |worker| worker.place);
            let class = self.classes.get(feed.class);
            let Some(slot) = class.and_then(|class| self.requests.get(*class.requests.first()?)) else { continue };
            for waiting in &feed.waiting {
                let job = self.attempts.get(*waiting).map_or(NONE, |attempt| attempt.task.job);
                let Some(priority) = self.spec_of(job).map(|spec| spec.priority) else { continue };
                let better =
                    |claim: &Claim| claim.priority() < priority && self.serves(place, feed.tenant, slot, claim);
                if best < priority && claims.iter().any(better) {
                    revoked.push(*waiting);
                }
            }
        }
        revoked.into_iter().for_each(|slot| self.revoke(slot, effects));
    }

    /// A worker has room for a class that nothing waits for elsewhere: who waits for a slot could start there at once.
    pub(super) fn revoke_for_idle(&mut self, effects: &mut Vec<Effect>) {
        let mut groups: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
        for (number, feed) in self.feeds.iter().filter(|(_, feed)| !feed.waiting.is_empty()) {
            groups.entry((feed.class, feed.tenant)).or_default().push(number);
        }
        let mut given: BTreeSet<u32> = BTreeSet::new();
        for ((class, tenant), mut feeds) in groups {
            if self.ready(class, tenant) > 0 {
                continue;
            }
            let waiting = |feed: &u32| self.feeds.get(*feed).map_or(0, |feed| feed.waiting.len());
            // Those that wait longest are many: they are taken back where most wait.
            feeds.sort_by_key(|feed| std::cmp::Reverse(waiting(feed)));
            let all = feeds.iter().filter_map(|feed| self.feeds.get(*feed)).flat_map(|feed| feed.waiting.iter().rev());
            let all: Vec<u32> = all.copied().collect();
            let revoking = |slot: &&u32| self.attempts.get(**slot).is_some_and(|attempt| attempt.revoking);
            let coming = all.iter().filter(revoking).count();
            let room = self.idle_room(class, tenant, all.len(), &mut given);
            let back: Vec<u32> =
                all.iter().filter(|slot| !revoking(slot)).take(room.saturating_sub(coming)).copied().collect();
            back.into_iter().for_each(|slot| self.revoke(slot, effects));
        }
    }

    /// How many attempts of a class could start at once, up to `most`, on workers that nobody else was promised.
    fn idle_room(&self, class: u32, tenant: u32, most: usize, given: &mut BTreeSet<u32>) -> usize {
        let Some(class) = self.classes.get(class) else { return 0 };
        let quota = self.room(tenant, NOBODY, &class.requests, 1, &mut Vec::new());
        let most = most.min(usize::try_from(quota).unwrap_or(usize::MAX));
        let (mut found, mut promised) = (0, Vec::new());
        for (_, worker) in self.workers.iter().filter(|(_, worker)| worker.place != NONE) {
            let place = worker.place;
            if found >= most {
                break;
            }
            if !self.table.is_open(place) || !class.sees(self.table.kind(place)) || given.contains(&place) {
                continue;
            }
            let hosts = |number: &u32| self.requests.get(*number).map(|request| self.table.hosts(place, &request.need));
            let hosts = class.requests.iter().filter_map(hosts).max().unwrap_or(0);
            if hosts > 0 {
                found += hosts as usize;
                promised.push(place);
            }
        }
        given.extend(promised);
        found.min(most)
    }
}
