//! Flows with a start that a quota refused: they are reconciled as soon as a Job of their namespace has ended or is gone, not only
//! after their backoff.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::effect::FlowEffect;
use orlop_core::event::FlowEvent;
use orlop_core::time::Time;

use super::memory::{AttemptKey, Memory};
use super::{Controller, Key};
use crate::api::Api;

/// The word for a start that quota refused.
pub(super) const QUOTA: &str = "QuotaExceeded";

/// Flows that wait for quota, by namespace.
#[derive(Debug, Default)]
pub(super) struct QuotaWaiters {
    waiting: BTreeMap<String, BTreeSet<Key>>,
}

impl QuotaWaiters {
    /// A flow waits for room.
    fn wait(&mut self, key: &Key) {
        self.waiting.entry(key.namespace.clone()).or_default().insert(key.clone());
    }

    /// A flow waits no longer.
    pub(super) fn leave(&mut self, key: &Key) {
        if let Some(keys) = self.waiting.get_mut(&key.namespace) {
            keys.remove(key);
            if keys.is_empty() {
                self.waiting.remove(&key.namespace);
            }
        }
    }

    fn waits(&self, key: &Key) -> bool {
        self.waiting.get(&key.namespace).is_some_and(|keys| keys.contains(key))
    }

    /// A quota may have room again: takes out the flows that wait for it in a namespace, to be reconciled.
    pub(super) fn wake(&mut self, namespace: &str) -> BTreeSet<Key> {
        self.waiting.remove(namespace).unwrap_or_default()
    }
}

impl Memory {
    /// Whether something of it was refused by quota.
    fn is_over_quota(&self) -> bool {
        self.resources_over_quota || !self.over_quota.is_empty()
    }

    /// The first of what quota refused is tried again now; the others once it had success.
    fn retry_over_quota(&mut self, now: Time) {
        if std::mem::take(&mut self.resources_over_quota) {
            for (at, effect) in &mut self.later {
                if matches!(effect, FlowEffect::EnsureResources) {
                    *at = now;
                }
            }
            return;
        }
        let Some(((at, attempt), message)) = self.over_quota.pop_first() else { return };
        let key = FlowEffect::StartAttempt { at, attempt, item: None }.key();
        self.done(&key);
        let reason = QUOTA.to_owned();
        self.apply_event(&FlowEvent::AttemptDelayed { at, attempt, reason, message, retry_at: now }, now);
    }

    /// Takes in what quota has to do with what the engine is told.
    pub(super) fn record_over_quota(&mut self, event: &FlowEvent) -> bool {
        match event {
            FlowEvent::AttemptDelayed { at, attempt, reason, message, .. } if reason == QUOTA => {
                self.over_quota.insert((*at, *attempt), message.clone());
                true
            }
            FlowEvent::Blocked { reason, .. } if reason == QUOTA => {
                self.resources_over_quota = true;
                true
            }
            _ => false,
        }
    }

    /// A start was answered otherwise.
    pub(super) fn clear_over_quota(&mut self, unit: AttemptKey) {
        self.over_quota.remove(&unit);
    }
}

impl<A: Api> Controller<A> {
    /// A flow is told what came of something: where that is a refusal for quota it waits for room.
    pub(super) fn wait_for_quota(&self, memory: &mut Memory, event: &FlowEvent) {
        if memory.record_over_quota(event) {
            self.known().over_quota.wait(&memory.key());
        }
    }

    /// Tries what quota refused where there may be room since.
    pub(super) fn retry_after_quota(&self, memory: &mut Memory) {
        if memory.is_over_quota() && !self.known().over_quota.waits(&memory.key()) {
            memory.retry_over_quota(self.now());
        }
    }

    /// Whether there is more to be tried at once.
    pub(super) fn may_retry_quota(&self, memory: &Memory) -> bool {
        memory.is_over_quota() && !self.known().over_quota.waits(&memory.key())
    }
}
