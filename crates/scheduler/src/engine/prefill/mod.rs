//! Prefill: a worker keeps jobs ready for the slots that its own attempts will leave, so that it is never
//! idle for a round trip. Owns who is sent ahead and in which order; slots pass in `feeds`, how many is in `window`, and who
//! is taken back in `revoke`.

mod feeds;
mod revoke;
mod window;

use std::collections::BTreeMap;

pub(super) use feeds::Feeds;

use super::Scheduler;
use super::assign::Target;
use super::round::RoundStats;
use crate::class::Request;
use crate::effect::Effect;
use crate::job::{Band, Overlap, Priority};
use crate::queue::Key;
use crate::table::NONE;

/// A queue that waits, and what it claims.
#[derive(Clone, Copy, Debug)]
struct Claim {
    band: usize,
    tenant: u32,
    class: u32,
    queue: u32,
    key: Key,
    /// The tenant's limits stop it: only slots of its own tenant serve it.
    stopped: bool,
}

impl Claim {
    /// The priority of its head.
    fn priority(&self) -> Priority {
        let first = [0, 4, 8].get(self.band).copied().unwrap_or(8);
        Priority(self.key.0.saturating_add(first).min(Priority::LAST.0))
    }
}

impl Scheduler {
    /// Sends jobs ahead to workers whose slots they will inherit, and takes back what should not wait any more.
    ///
    /// Cost: one look at every queue that waits if anything may be sent ahead or taken back, then per feed with room those
    /// queues that claim more.
    pub(super) fn prefill(&mut self, limit: u32, stats: &mut RoundStats, effects: &mut Vec<Effect>) {
        if !self.feeds.on {
            return;
        }
        self.feed_dry();
        if self.feeds.hungry.is_empty() && self.feeds.waiting == 0 {
            return;
        }
        let claims = self.claims();
        if self.feeds.waiting > 0 {
            self.revoke_for_better(&claims, effects);
            self.revoke_for_idle(effects);
        }
        let mut hosts = BTreeMap::new();
        for number in std::mem::take(&mut self.feeds.hungry) {
            let left = limit.saturating_sub(stats.placed).saturating_sub(stats.prefilled);
            if left == 0 {
                stats.limited = true;
                self.feeds.hungry.insert(number);
                continue;
            }
            stats.prefilled += self.feed(number, &claims, left, &mut hosts, effects);
        }
    }

    /// Feeds that lacked jobs look again once there are some.
    fn feed_dry(&mut self) {
        let dry = std::mem::take(&mut self.feeds.dry);
        for (class, tenant) in dry {
            if self.ready(class, tenant) == 0 {
                self.feeds.dry.insert((class, tenant));
                continue;
            }
            let feeds = self.feeds.numbers.range((class, tenant, 0)..=(class, tenant, NONE)).map(|(_, number)| *number);
            let feeds: Vec<u32> = feeds.collect();
            self.feeds.hungry.extend(feeds);
        }
    }

    /// Jobs of a tenant's class that wait, of arrays the elements of the one that is next.
    fn ready(&self, class: u32, tenant: u32) -> u64 {
        let mut ready = 0;
        for band in 0..3 {
            let Some(number) = self.queue_numbers.get(&(tenant, band, class)) else { continue };
            let Some(queue) = self.queues.get(*number as usize).filter(|queue| queue.lined) else { continue };
            let first = queue.lists.iter().find_map(|list| list.iter().next());
            let array = first.and_then(|entry| self.array_of(self.jobs.get(entry.job)?));
            let elements = array.map_or(1, |array| array.ready.len());
            ready += queue.len().saturating_sub(1) + elements.max(1);
        }
        ready
    }

    /// Every queue that waits, the best claim first: by the credit of its band, the share of its tenant, its head.
    fn claims(&self) -> Vec<Claim> {
        let mut claims = Vec::new();
        for (number, tenant) in (0_u32..).zip(&self.tenants).filter(|(_, tenant)| tenant.runs()) {
            for (band, lane) in tenant.lanes.iter().enumerate() {
                claims.extend(lane.entries.iter().map(|entry| Claim {
                    band,
                    tenant: number,
                    class: entry.class,
                    queue: entry.queue,
                    key: entry.key,
                    stopped: entry.stopped,
                }));
            }
        }
        let share = |claim: &Claim| self.tenants.get(claim.tenant as usize).map_or(0.0, |tenant| tenant.share);
        let credit = |claim: &Claim| self.credit.get(claim.band).copied().unwrap_or(0.0);
        claims.sort_by(|a, b| {
            let by_band = credit(b).total_cmp(&credit(a)).then(a.band.cmp(&b.band));
            let by_tenant = share(a).total_cmp(&share(b)).then(a.tenant.cmp(&b.tenant));
            by_band.then(by_tenant).then(a.key.cmp(&b.key))
        });
        claims
    }

    /// Whether a slot of this request, once left, would serve a queue that waits.
    fn serves(&self, place: u32, tenant: u32, slot: &Request, claim: &Claim) -> bool {
        let Some(class) = self.classes.get(claim.class) else { return false };
        if class.shape.gang.is_some() || claim.stopped && claim.tenant != tenant || !class.sees(self.table.kind(place))
        {
            return false;
        }
        let fits = |number: &u32| {
            self.requests.get(*number).is_some_and(|request| {
                request.need.iter().all(|(dim, amount)| {
                    let dim = usize::from(*dim);
                    self.table.free(dim, place).saturating_add(slot.amount(dim)) >= *amount
                })
            })
        };
        class.requests.iter().any(fits)
    }

    /// Fills one feed as far as its window and better claims let it; returns how many attempts were sent ahead.
    fn feed(
        &mut self,
        number: u32,
        claims: &[Claim],
        limit: u32,
        hosts: &mut BTreeMap<u32, u64>,
        effects: &mut Vec<Effect>,
    ) -> u32 {
        let Some(feed) = self.feeds.get(number).filter(|feed| feed.lost == 0 && feed.holding > 0) else { return 0 };
        let (class, tenant, worker) = (feed.class, feed.tenant, feed.worker);
        let Some(record) = self.workers.get(worker).filter(|record| self.table.is_open(record.place)) else { return 0 };
        let (place, round_trip) = (record.place, u64::from(record.round_trip));
        let Some(shape) = self.classes.get(class) else { return 0 };
        // What a worker offers may have changed under what runs there. Where devices of several kinds would do, slots differ: the
        // worker could not tell which of them is charged for whom.
        if record.round_trip == NONE || !shape.sees(self.table.kind(place)) || shape.requests.len() > 1 {
            return 0;
        }
        let ready = self.ready(class, tenant);
        if ready == 0 {
            self.feeds.dry.insert((class, tenant));
            return 0;
        }
        let Some(first) = claims.iter().find(|claim| (claim.class, claim.tenant) == (class, tenant)) else { return 0 };
        let next = self
            .queues
            .get(first.queue as usize)
            .and_then(|queue| queue.lists.iter().find_map(|list| list.iter().next()));
        let Some(run) = self.run_time(feed, next.map(|entry| entry.job)) else { return 0 };
        let workers = *hosts.entry(class).or_insert_with(|| self.hosts(class));
        let horizon = window::horizon(round_trip, self.feeds.turn);
        let slots = (self.config.prefill_max, feed.holding, feed.waiting.len());
        let most = window::room(slots, (run, horizon), (ready, workers));
        let most = u32::try_from(most).unwrap_or(u32::MAX).min(limit);
        let mut sent = 0;
        let own = claims.iter().enumerate().filter(|(_, claim)| (claim.class, claim.tenant) == (class, tenant));
        for (rank, claim) in own {
            if sent >= most {
                break;
            }
            match self.rival(claims, rank, place, tenant) {
                Rival::Before => break,
                Rival::Behind(key) => sent += self.send_ahead(claim, worker, most - sent, key, effects),
            }
        }
        if sent < most {
            // Better claims may be served by then.
            self.feeds.hungry.insert(number);
        }
        sent
    }

    /// Workers that run a class.
    fn hosts(&self, class: u32) -> u64 {
        let feeds = self.feeds.numbers.range((class, 0, 0)..=(class, NONE, NONE));
        let holding = feeds.filter(|(_, number)| self.feeds.get(**number).is_some_and(|feed| feed.holding > 0));
        let workers: std::collections::BTreeSet<u32> = holding.map(|((.., worker), _)| *worker).collect();
        workers.len() as u64
    }

    /// Whether somebody with a better claim waits for slots like these, or up to which of its own jobs nobody does.
    fn rival(&self, claims: &[Claim], rank: usize, place: u32, tenant: u32) -> Rival {
        let Some(own) = claims.get(rank) else { return Rival::Behind(None) };
        let slot = self.classes.get(own.class).and_then(|class| self.requests.get(*class.requests.first()?));
        let Some(slot) = slot else { return Rival::Before };
        let serves = |claim: &&Claim| {
            (claim.class, claim.tenant) != (own.class, own.tenant) && self.serves(place, tenant, slot, claim)
        };
        if claims.iter().take(rank).any(|claim| serves(&claim)) {
            return Rival::Before;
        }
        let mine =
            claims.iter().skip(rank + 1).take_while(|claim| (claim.band, claim.tenant) == (own.band, own.tenant));
        Rival::Behind(mine.into_iter().find(serves).map(|claim| claim.key))
    }

    /// Sends jobs of a queue ahead to a worker, as long as they come before `bound`; returns how many.
    fn send_ahead(
        &mut self,
        claim: &Claim,
        worker: u32,
        most: u32,
        bound: Option<Key>,
        effects: &mut Vec<Effect>,
    ) -> u32 {
        let request = self.classes.get(claim.class).and_then(|class| class.requests.first().copied());
        let barred = |request: &u32| self.is_barred(claim.tenant, claim.key, *request);
        let Some(request) = request.filter(|request| !barred(request)) else { return 0 };
        let target = Target { worker, request, tenant: claim.tenant };
        let mut sent = 0;
        while sent < most {
            let Some((key, entry)) = self.head(claim.queue) else { break };
            let avoids = self.life(self.peek(entry.job)).is_some_and(|life| self.avoided(&life) == worker);
            // Nobody may tell when an attempt that waits is surely not running: it may not be repeated by then.
            let forbids = self.spec_of(entry.job).is_some_and(|spec| spec.overlap == Overlap::Forbid);
            if avoids || forbids || bound.is_some_and(|bound| key > bound) {
                break;
            }
            let Some(task) = self.take(claim.queue) else { break };
            if !self.assign_ahead(task, target, effects) {
                self.give_up(task, effects);
                break;
            }
            sent += 1;
        }
        if sent > 0 {
            self.refresh_head(claim.queue);
        }
        sent
    }
}

/// What stands against sending a queue's jobs ahead.
enum Rival {
    /// A better claim.
    Before,
    /// Jobs of another queue of the same tenant and band that come after this one, if any.
    Behind(Option<Key>),
}

/// Bands begin at these priorities, which [`Claim::priority`] counts on.
const _: () = assert!(
    matches!(Priority(3).band(), Band::High)
        && matches!(Priority(4).band(), Band::Normal)
        && matches!(Priority(8).band(), Band::Low)
);
