//! Tenants as operators change them, and what workers and jobs say about them. Owns settings, limits, visibility and preferences.

use std::collections::BTreeSet;

use orlop_core::id::TenantName;

use super::Scheduler;
use crate::class::Class;
use crate::config::Policy;
use crate::error::EventError;
use crate::event::{Quota, TenantSettings};
use crate::fleet::dims::{CPU, MEMORY, SLOTS};
use crate::table::NONE;

impl Scheduler {
    pub(super) fn tenant_changed(&mut self, name: TenantName, settings: TenantSettings) -> Result<(), EventError> {
        if !(1..=1000).contains(&settings.weight) {
            return Err(EventError::Weight { tenant: name, weight: settings.weight });
        }
        let number = self.tenant_number(&name);
        if let Some(tenant) = self.tenant_mut(number) {
            tenant.settings = settings;
        }
        self.weigh_tenant(number);
        self.note_fleet();
        Ok(())
    }

    pub(super) fn quota_changed(&mut self, name: TenantName, quota: Quota) -> Result<(), EventError> {
        let number = self.tenant_number(&name);
        if let Some(tenant) = self.tenant_mut(number) {
            tenant.quota = quota;
        }
        self.note_fleet();
        self.limits_changed(number);
        self.note_relief(number);
        Ok(())
    }

    /// Tenants that a worker names see other workers than the rest: their jobs get classes of their own.
    pub(super) fn name_tenants(&mut self, names: &BTreeSet<TenantName>) {
        for name in names {
            let number = self.tenant_number(name);
            let Some(tenant) = self.tenants.get_mut(number as usize).filter(|tenant| !tenant.named) else { continue };
            tenant.named = true;
            self.reclass(number, name);
        }
    }

    /// Moves every queue of a tenant to the class that sees what the tenant may see now.
    fn reclass(&mut self, tenant: u32, name: &TenantName) {
        let mine: Vec<usize> =
            (0..self.specs.len()).filter(|at| self.specs.get(*at).is_some_and(|spec| spec.tenant == tenant)).collect();
        for task in self.held_units(tenant) {
            self.bring_back(task);
        }
        let mut waiting = Vec::new();
        for (slot, job) in self.jobs.iter() {
            if job.queued && self.tenant_of(slot) == tenant {
                waiting.push(slot);
            }
        }
        waiting.iter().for_each(|slot| self.dequeue(*slot));
        for at in mine {
            let Some(spec) = self.specs.get(at).map(|spec| std::sync::Arc::clone(&spec.spec)) else { continue };
            let parts = (&self.kinds, &self.dims, &mut self.requests);
            let class = self.classes.intern(&spec, Some(name.clone()), parts);
            let queue = self.queue_number(tenant, spec.priority.band().index(), class);
            let Some(spec) = self.specs.get_mut(at) else { continue };
            let old = std::mem::replace(&mut spec.queue, queue);
            spec.class = class;
            // Whoever was passed over waits on in the other queue.
            let passes = self.queues.get_mut(old as usize).map(|queue| std::mem::take(&mut queue.passes));
            if let (Some(passes), Some(queue)) =
                (passes.filter(|passes| !passes.is_empty()), self.queues.get_mut(queue as usize))
            {
                queue.passes = passes;
            }
        }
        waiting.iter().for_each(|slot| self.enqueue(*slot));
        self.list_feeds();
    }

    /// The number of a job's preferences; 0 = none.
    pub(super) fn preferences_of(&self, job: u32) -> u32 {
        let number = self.jobs.get(job).map_or(NONE, |job| job.spec);
        self.specs.get(number as usize).map_or(0, |spec| spec.preferences)
    }

    /// What a kind scores: the sum of the weights of preferences that it meets.
    pub(super) fn preference_score(&self, preferences: u32, kind: u32) -> u32 {
        self.preference_scores
            .get(preferences as usize)
            .and_then(|kinds| kinds.get(kind as usize))
            .copied()
            .unwrap_or(0)
    }

    /// Judges a new kind by every set of preferences.
    pub(super) fn like_kind(&mut self, number: u32) {
        let Some(kind) = self.kinds.get(number) else { return };
        for (prefers, kinds) in self.preferences.iter().zip(&mut self.preference_scores) {
            let met = prefers.iter().filter(|prefer| prefer.label.matches(&kind.labels));
            kinds.push(met.map(|prefer| u32::from(prefer.weight)).sum());
        }
    }

    /// Judges every kind by a new set of preferences.
    pub(super) fn score_preferences(&mut self, preferences: usize) {
        let Some(prefers) = self.preferences.get(preferences) else { return };
        let sum = |labels| {
            let met = prefers.iter().filter(|prefer| prefer.label.matches(labels));
            met.map(|prefer| u32::from(prefer.weight)).sum()
        };
        let kinds = self.kinds.iter().map(|(_, kind)| sum(&kind.labels)).collect();
        self.preference_scores.push(kinds);
    }

    /// The score of a place under `balanced`, least is best, in 16-bit fixed point: 1 less the drawn score
    /// 0.40·(0.6·fit(cpu) + 0.4·fit(memory)) + 0.30·load + 0.20·health + 0.10·preference.
    pub(super) fn balance(&self, preferences: u32, class: &Class, place: u32) -> u32 {
        debug_assert!(self.policy() == Policy::Balanced, "only `balanced` and policies of users ask");
        let Some(worker) = self.workers.get(self.table.owner(place)) else { return u32::MAX };
        let request = class.requests.first().and_then(|number| self.requests.get(*number));
        let use_of = |dim: usize| {
            let (free, total) = (self.table.free(dim, place), self.table.total(dim, place));
            let asked = request.map_or(0, |request| request.amount(dim));
            if total <= 0 { 0.0 } else { 1.0 - (f64::from(free) - f64::from(asked)) / f64::from(total) }
        };
        let (attempts, slots) = (
            f64::from(worker.attempts.saturating_sub(worker.waiting)),
            f64::from(self.table.total(SLOTS, place).max(1)),
        );
        let age = self.now.saturating_sub(worker.seen) as f64 / self.config.heartbeat_timeout.max(1) as f64;
        let recent = worker.losses.iter().filter(|at| at.saturating_add(600_000) > self.now).count().min(5);
        let health = (1.0 - 0.5 * age.min(1.0)) * (1.0 - 0.1 * recent as f64);
        let all: u32 = self
            .preferences
            .get(preferences as usize)
            .map_or(0, |preferences| preferences.iter().map(|prefer| u32::from(prefer.weight)).sum());
        let kind = self.table.kind(place);
        let preferred =
            if all == 0 { 1.0 } else { f64::from(self.preference_score(preferences, kind)) / f64::from(all) };
        let fit = 0.6 * fit(use_of(CPU)) + 0.4 * fit(use_of(MEMORY));
        let score = 0.40 * fit + 0.30 * (1.0 - attempts / slots) + 0.20 * health + 0.10 * preferred;
        ((1.0 - score.clamp(0.0, 1.0)) * 65_536.0) as u32
    }
}

/// How good a use of capacity is: 0.70 + 0.30·u ÷ 0.60 below 0.60, 1 from there to 0.85, then down to 0.10 at 1.
pub(super) fn fit(used: f64) -> f64 {
    if used < 0.60 {
        0.70 + 0.30 * used.max(0.0) / 0.60
    } else if used <= 0.85 {
        1.0
    } else {
        1.0 - 0.90 * (used.min(1.0) - 0.85) / 0.15
    }
}
