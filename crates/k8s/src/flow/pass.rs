//! One pass over one flow, in this order: read, open, orders, gate, Jobs, time, effects, status. Owns that
//! order and when the next pass is due.

use std::time::Duration;

use orlop_core::effect::FlowNotice;
use orlop_core::error::Class;
use orlop_core::event::FlowEvent;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::ports::substrate::FlowOwner;
use orlop_core::spec::policy::DEFAULT_TTL_SECONDS;
use orlop_core::spec::status::FlowStatus;
use orlop_core::time::Time;
use orlop_dag::attempt::{patience, shortage};
use orlop_dag::engine::next_deadline;
use serde_json::Value;

use super::effect::EffectsOutcome;
use super::memory::Memory;
use super::open::{OpenError, OpenOutcome};
use super::removal::Removal;
use super::store::WriteOutcome;
use super::{Controller, ControllerEvent, Key, Next, concurrency, control, text};
use crate::api::{Api, ApiError, Kind, Request};
use crate::convert;

/// How long a pass may go on with what follows from what it did.
const PASS: Duration = Duration::from_secs(5);
/// How long a flow waits that the server says is gone, and that watches still show.
const GONE: Duration = Duration::from_secs(600);
/// How long a flow waits whose status cannot be read, at first and at most.
const UNREADABLE: Duration = Duration::from_secs(30);
const LONGEST_UNREADABLE: Duration = Duration::from_secs(600);

impl<A: Api> Controller<A> {
    /// One pass over a flow.
    pub async fn reconcile(&self, key: &Key) -> Next {
        let before = self.known().failures.get(key).copied();
        let mut next = self.reconcile_flow(key).await;
        let released = self.release_keys(key).await;
        next.again_at = earlier(next.again_at, released.again_at);
        next.wake.extend(released.wake);
        next.failed |= released.failed;
        let mut known = self.known();
        if known.failures.get(key).copied() == before {
            known.failures.remove(key);
        } else {
            next.failed = true;
        }
        next
    }

    async fn reconcile_flow(&self, key: &Key) -> Next {
        let object = self.known().cache.flow(key);
        let Some(object) = object.filter(|object| object.pointer("/metadata/deletionTimestamp").is_none()) else {
            return self.forget_flow(key);
        };
        // A status may be large, and most passes are over flows that go on.
        let phase = text(&object, "/status/phase").parse::<FlowPhase>();
        if phase.is_ok_and(FlowPhase::is_terminal)
            && let Ok(Some(status)) = convert::status(&object)
        {
            let again = self.clean_up_finished(&object, &status).await;
            let mut next = self.forget_flow(key);
            next.again_at = earlier(again, self.delete_expired(key, &object, &status).await);
            return next;
        }
        match self.memory(key, &object).await {
            Ok(Some(memory)) => self.advance(key, memory).await,
            Ok(None) => self.retry_or_forget(key, &object),
            Err(next) => next,
        }
    }

    /// The object was old: what the server has now is in the cache, or it has nothing.
    fn retry_or_forget(&self, key: &Key, object: &Value) -> Next {
        let mut known = self.known();
        if known.cache.flow(key).is_some() {
            return Next { again_at: Some(self.clock.now()), ..Next::default() };
        }
        Next { wake: known.leave(key, &concurrency::uid(object)), ..Next::default() }
    }

    /// What is known of a flow, taken out for this pass. None where the object has changed meanwhile.
    async fn memory(&self, key: &Key, object: &Value) -> Result<Option<Memory>, Next> {
        let known = self.known().memories.remove(key).filter(|memory| memory.owner.uid == concurrency::uid(object));
        let fresh = match known {
            None => false,
            Some(mut memory) => {
                let still = memory.stored.is_still(object);
                if still && (memory.has_begun() || !memory.is_changed(object)) {
                    return Ok(Some(memory));
                }
                if !still {
                    tracing::warn!(flow = %key, "the status was changed by another client; reading the flow again");
                }
                // A spec that was edited before the flow began makes it begin again.
                still
            }
        };
        match self.open(key, fresh).await {
            Ok(OpenOutcome::Memory(memory)) => {
                if let (Some(claim), true) = (&memory.claim, memory.has_begun()) {
                    self.known().limiter.hold(claim);
                }
                Ok(Some(*memory))
            }
            Ok(OpenOutcome::Nothing) => Ok(None),
            Ok(OpenOutcome::Status(object, status)) => Err(self.without_plan(key, &object, &status).await),
            Err(OpenError::Api(error)) => {
                let again_at = Some(self.record_failure(key, "reading the flow", &error));
                Err(Next { again_at, failed: true, ..Next::default() })
            }
            Err(OpenError::Stored(message)) => Err(self.unreadable(key, object, &message)),
        }
    }

    /// A flow whose stored status says what this program does not know: it waits for one that does, and people hear of it.
    fn unreadable(&self, key: &Key, object: &Value, message: &str) -> Next {
        let failures = self.known().failed_again(key);
        self.failed(Class::Fatal);
        if failures == 1 {
            tracing::error!(flow = %key, message, "the stored status cannot be read; the flow waits");
            let owner =
                FlowOwner { uid: concurrency::uid(object), name: key.name.clone(), namespace: key.namespace.clone() };
            let (reason, message) =
                ("NotUnderstood".to_owned(), format!("the stored status cannot be read: {message}"));
            self.emit_event(&owner, &FlowNotice { warning: true, reason, message, at: None, attempt: 0 });
        }
        let wait = UNREADABLE.saturating_mul(1 << failures.min(4)).min(LONGEST_UNREADABLE);
        Next { again_at: Some(self.now().plus(wait)), failed: true, ..Next::default() }
    }

    async fn advance(&self, key: &Key, mut memory: Memory) -> Next {
        let now = self.now();
        let mut again = None;
        let found = self.find_holders(&memory).await;
        // Where it is not known who holds the key, the flow waits, and does all else that it is told to.
        let may_begin = found.is_ok();
        let mut wake = found.unwrap_or_else(|error| {
            again = Some(self.record_failure(key, "reading who holds the concurrency key", &error));
            let port = error.port_error("reading who holds the concurrency key");
            let reason = if error.class() == Class::Denied { "Forbidden" } else { shortage(&port) };
            memory.apply_event(&FlowEvent::Blocked { reason: reason.to_owned(), message: port.chain() }, now);
            memory.failed = true;
            Vec::new()
        });
        wake.extend(self.apply_orders(key, &mut memory, may_begin));
        if !memory.is_new {
            again = earlier(again, self.observe_jobs(&mut memory).await);
            self.check_removals(&mut memory).await;
            self.check_pods(&mut memory).await;
            self.retry_after_quota(&mut memory);
            memory.wake_later(self.now());
            memory.apply_event(&FlowEvent::Tick, self.now());
            let until = now.plus(PASS);
            if self.carry_out(&mut memory, until).await == EffectsOutcome::NamespaceTerminating {
                return self.forget_flow_and_wake(key, wake);
            }
        }
        let was_new = memory.is_new;
        let mut stored_at = None;
        match self.write_status(key, &mut memory).await {
            WriteOutcome::Stored => {
                self.forget(&mut memory).await;
                self.publish(&mut memory);
            }
            WriteOutcome::Later(at) => {
                again = earlier(again, Some(at));
                stored_at = Some(at);
            }
            WriteOutcome::Outdated => {
                tracing::warn!(flow = %key, "the status was changed by another client; reading the flow again");
                return Next { again_at: Some(self.now()), wake, failed: true };
            }
            WriteOutcome::Gone => return self.forget_flow_and_wake(key, wake),
        }
        if memory.state.phase().is_terminal() && !memory.dirty {
            return Next { again_at: Some(self.now()), ..self.forget_flow_and_wake(key, wake) };
        }
        let unread = std::mem::take(&mut memory.adopted_an_end) | std::mem::take(&mut memory.read_newer);
        let unread = unread || memory.has_unmade_starts();
        let at_once =
            unread || self.may_retry_quota(&memory) || !memory.is_new && (was_new || !memory.queue.is_empty());
        wake.extend(self.flows_with_slots());
        again = earlier(again, at_once.then(|| self.now()));
        // What waits for the status comes no earlier than that.
        let after_that = |due: Option<Time>| due.map(|due| stored_at.map_or(due, |at| due.max(at)));
        again = earlier(again, after_that(memory.notices.next_due()));
        again = earlier(again, memory.pods.values().min().copied());
        again = earlier(again, memory.removals.values().map(Removal::due).min());
        again = earlier(again, next_deadline(&memory.state));
        again = earlier(again, after_that(memory.forget_at));
        again = memory.later.iter().fold(again, |again, (at, _)| earlier(again, Some(*at)));
        let failed = std::mem::take(&mut memory.failed);
        self.known().memories.insert(key.clone(), memory);
        Next { again_at: again, wake, failed }
    }

    /// Control events come before all others. Gives the flows to be reconciled.
    fn apply_orders(&self, key: &Key, memory: &mut Memory, may_begin: bool) -> Vec<Key> {
        let now = self.now();
        let mut known = self.known();
        // They stay until the flow has left: what came of them may not be stored yet.
        let orders = known.orders.get(&memory.owner.uid).cloned().unwrap_or_default();
        if let Some(object) = known.cache.flow(key) {
            let changed = memory.is_changed(&object) && memory.has_begun();
            memory.apply_all(&control::events(&memory.plan, &object, changed, &self.options, now), now);
            memory.apply_all(&control::confirmations(&memory.plan, &memory.state, &object, now), now);
        }
        memory.apply_all(&orders, now);
        let suspended = memory.state.phase() == FlowPhase::Suspended;
        // One that was deleted meanwhile would hold the key for ever: nobody is left to let go of it.
        let deleted = known.cache.flow(key).is_none_or(|object| concurrency::uid(&object) != memory.owner.uid);
        if !may_begin || memory.has_begun() || suspended || deleted || memory.state.phase().is_terminal() {
            return Vec::new();
        }
        concurrency::ask(&mut known, memory, now)
    }

    /// Flows that wait and may start something now.
    fn flows_with_slots(&self) -> Vec<Key> {
        let known = self.known();
        known.slots.next(self.room(&known))
    }

    /// A request of a pass over a flow had no success. It is counted, and logged the first time and each time that as many
    /// more have failed in a row. Gives when it may be tried again.
    pub(super) fn record_failure(&self, key: &Key, doing: &'static str, error: &ApiError) -> Time {
        let failures = self.known().failed_again(key);
        self.failed(error.class());
        let wait = patience(&error.port_error(doing), failures.saturating_sub(1));
        if failures.is_power_of_two() {
            tracing::warn!(flow = %key, %error, failures, "{doing} failed; retrying in {} s", wait.as_secs());
        }
        self.now().plus(wait)
    }

    /// Tells that something had no success.
    pub(super) fn failed(&self, class: Class) {
        let class = match class {
            Class::NotFound => "not_found",
            Class::Transient => "transient",
            Class::Conflict => "conflict",
            Class::Invalid => "invalid",
            Class::Capacity => "capacity",
            Class::Exists => "exists",
            Class::Denied => "denied",
            Class::Fatal => "fatal",
        };
        self.monitor.record(ControllerEvent::RequestFailed { class });
    }

    /// The server says that the flow or its namespace is gone. A watch says so too, unless it was not true: then the flow is
    /// looked at again.
    fn forget_flow_and_wake(&self, key: &Key, mut wake: Vec<Key>) -> Next {
        let mut next = self.forget_flow(key);
        next.wake.append(&mut wake);
        next.again_at = self.known().cache.flow(key).map(|_| self.now().plus(GONE));
        next
    }

    /// A flow is over or gone: nothing is kept of it but its concurrency key, while something of it runs.
    fn forget_flow(&self, key: &Key) -> Next {
        self.monitor.record(ControllerEvent::Forgotten { flow: key });
        let mut known = self.known();
        known.slots.leave(key);
        known.over_quota.leave(key);
        let uid = match (known.memories.remove(key), known.cache.flow(key)) {
            (Some(memory), _) => memory.owner.uid,
            (None, Some(object)) => concurrency::uid(&object),
            (None, None) => return Next::default(),
        };
        known.cache.forget_changes(&uid);
        Next { wake: known.leave(key, &uid), ..Next::default() }
    }

    /// What is left to do for a flow that is over: delete it when its time has come.
    async fn delete_expired(&self, key: &Key, object: &Value, status: &FlowStatus) -> Option<Time> {
        let policy = object.pointer("/spec/executionPolicy/ttlSecondsAfterFinished").and_then(Value::as_i64);
        let usual = self.options.defaults.ttl_seconds.unwrap_or(DEFAULT_TTL_SECONDS);
        let seconds = u64::try_from(policy.unwrap_or(i64::from(usual))).unwrap_or(0);
        let due = status.completion_time?.plus(Duration::from_secs(seconds));
        let now = self.now();
        if due > now {
            return Some(due);
        }
        let request = Request::delete(Kind::JobFlow, &key.namespace, &key.name, Some(text(object, "/metadata/uid")));
        match self.api.send(&request).await {
            Err(error) if !matches!(error.code, Some(404 | 409)) => {
                Some(self.record_failure(key, "deleting the flow, whose time to live is over,", &error))
            }
            _ => None,
        }
    }
}

fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
