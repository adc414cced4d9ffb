//! Writing the status: when, at which level, and what is done when somebody else wrote first. Owns that one write and what
//! stands around it: ConfigMaps before it; deletions, events and what is left of Jobs after it.

use std::time::Duration;

use orlop_core::error::Class;
use orlop_core::time::Time;
use orlop_dag::attempt::patience;
use orlop_dag::engine::{step_status, view};
use serde_json::{Map, Value, json};

use super::memory::{Memory, Stored, same};
use super::{Controller, ControllerEvent, Key, text};
use crate::api::{Api, ApiError, Kind, Request};
use crate::render;
use crate::status::{Level, Names, PendingStatus, Stored as Arranged, arrange};

/// Tries of one write against others who write.
const TRIES: u32 = 5;
/// Records of steps and instances past which a status is written more seldom.
const MANY: usize = 1000;

/// What became of the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    /// It is stored, or nothing was to be stored.
    Stored,
    /// It is to be tried again at this time.
    Later(Time),
    /// Another client has written it: what is known of the flow is old.
    Outdated,
    /// The flow is gone.
    Gone,
}

impl<A: Api> Controller<A> {
    /// Writes the status where it has changed and its time has come.
    pub(super) async fn write_status(&self, key: &Key, memory: &mut Memory) -> WriteOutcome {
        let now = self.now();
        if !memory.dirty {
            return WriteOutcome::Stored;
        }
        let stored = &memory.stored;
        let records = view(&memory.plan, &memory.state, 0..0).records;
        let pace = Duration::from_secs(if records > MANY { 5 } else { 1 });
        let due = stored.at.filter(|_| !memory.urgent).map(|at| at.plus(pace));
        if let Some(due) = due.max(stored.not_before).filter(|due| *due > now) {
            return WriteOutcome::Later(due);
        }
        loop {
            let arranged = match self.arranged(key, memory) {
                Ok(arranged) => arranged,
                Err(message) => {
                    tracing::error!(flow = %key, message, "the status cannot be built; this is a bug of Orlop");
                    self.failed(Class::Fatal);
                    return WriteOutcome::Later(self.put_off(memory, &ApiError::not_sent(message)));
                }
            };
            let value = serde_json::to_value(&arranged.status).unwrap_or_default();
            if same(&value, &memory.stored.status) {
                // It may have been stored by a request whose answer was lost.
                memory.record_stored();
                self.after(memory, &arranged.after).await;
                return WriteOutcome::Stored;
            }
            let began = self.monitor.now();
            let outcome = self.store(key, memory, &arranged, value).await;
            let (level, bytes, took) = (arranged.level, arranged.bytes, self.monitor.now().saturating_sub(began));
            self.monitor.record(ControllerEvent::StatusStored {
                level,
                bytes,
                took,
                stored: matches!(outcome, Ok(WriteOutcome::Stored)),
            });
            match outcome {
                Ok(wrote) => return wrote,
                Err(error) if error.is_too_large() && arranged.level.next().is_some() => {
                    memory.stored.least = arranged.level.next().unwrap_or_default();
                }
                Err(error) if error.code == Some(404) => return WriteOutcome::Gone,
                Err(error) => {
                    tracing::warn!(flow = %key, %error, "the status is not stored");
                    self.failed(error.class());
                    return WriteOutcome::Later(self.put_off(memory, &error));
                }
            }
        }
    }

    fn put_off(&self, memory: &mut Memory, error: &ApiError) -> Time {
        let wait = patience(&error.port_error("writing the status"), memory.stored.failures);
        memory.stored.failures = memory.stored.failures.saturating_add(1);
        memory.failed = true;
        let at = self.now().plus(wait);
        memory.stored.not_before = Some(at);
        at
    }

    fn arranged(&self, key: &Key, memory: &Memory) -> Result<Arranged, String> {
        let shown = view(&memory.plan, &memory.state, 0..usize::MAX);
        self.monitor.record(ControllerEvent::StatusChanged { flow: key, status: &shown.status });
        let object = self.known().cache.flow(key);
        let whole = object.as_ref().map_or(0, |object| object.to_string().len());
        let status =
            object.as_ref().and_then(|object| object.get("status")).map_or(0, |status| status.to_string().len());
        let meta = memory.state.meta();
        let names = Names { spec: memory.plan.spec(), flow: &meta.name, namespace: &meta.namespace, uid: &meta.uid };
        let pending = PendingStatus {
            whole: shown.status,
            revision: shown.revision,
            names,
            other_bytes: whole.saturating_sub(status),
            least: memory.stored.least,
            refs: memory.stored.refs.clone(),
        };
        arrange(pending, self.options.sizes).map_err(|error| error.to_string())
    }

    async fn store(
        &self,
        key: &Key,
        memory: &mut Memory,
        arranged: &Arranged,
        value: Value,
    ) -> Result<WriteOutcome, ApiError> {
        for piece in &arranged.before {
            if let Some(object) = render::state(piece, &memory.owner) {
                let made = self.ensure(memory, Kind::ConfigMap, object).await?;
                made.map_err(ApiError::not_sent)?;
            }
        }
        let Some(cached) = self.known().cache.flow(key) else { return Ok(WriteOutcome::Gone) };
        if text(&cached, "/metadata/uid") != memory.owner.uid {
            return Ok(WriteOutcome::Gone);
        }
        // What a watch has shown since this pass began may be another's status: with its version ours would replace it.
        if !memory.stored.is_still(&cached) {
            return Ok(WriteOutcome::Outdated);
        }
        let mut version = memory.stored.version.clone();
        for _ in 0..TRIES {
            let request = status_request(key, &version, &memory.stored.status, &value);
            match self.api.send(&request).await {
                Ok(object) => {
                    self.wrote(memory, &object, arranged);
                    self.after(memory, &arranged.after).await;
                    return Ok(WriteOutcome::Stored);
                }
                Err(error) if error.class() == Class::Conflict => match self.look_again(key, memory).await? {
                    None => return Ok(WriteOutcome::Gone),
                    Some(None) => return Ok(WriteOutcome::Outdated),
                    Some(Some(newer)) => version = newer,
                },
                Err(error) => {
                    if error.outcome_is_unknown() {
                        memory.stored.unanswered = Some(value);
                    }
                    return Err(error);
                }
            }
        }
        Ok(WriteOutcome::Later(self.put_off(memory, &ApiError::not_sent("other clients keep changing the object"))))
    }

    fn wrote(&self, memory: &mut Memory, object: &Value, arranged: &Arranged) {
        self.flow_applied(object);
        let packed = arranged.status.steps_packed.as_ref();
        memory.stored = Stored {
            status: object.get("status").cloned().unwrap_or(Value::Null),
            version: text(object, "/metadata/resourceVersion"),
            least: arranged.level.max(Level::of(&arranged.status)),
            refs: packed.map(|packed| packed.refs.clone()).unwrap_or_default(),
            at: Some(self.now()),
            ..Stored::default()
        };
        memory.record_stored();
    }

    /// After a conflict: the version of the object whose status is the one that is known here. The inner value is absent
    /// when it is another one, the outer when the flow is gone.
    async fn look_again(&self, key: &Key, memory: &mut Memory) -> Result<Option<Option<String>>, ApiError> {
        let object = match self.api.send(&Request::get(Kind::JobFlow, &key.namespace, &key.name)).await {
            Err(error) if error.code == Some(404) => return Ok(None),
            object => object?,
        };
        if text(&object, "/metadata/uid") != memory.owner.uid {
            return Ok(None);
        }
        memory.read_newer |= !self.flow_applied(&object).is_empty();
        if memory.stored.is_still(&object) {
            return Ok(Some(Some(memory.stored.version.clone())));
        }
        Ok(Some(None))
    }

    /// What waits for the status to be stored.
    async fn after(&self, memory: &mut Memory, pieces: &[String]) {
        for name in pieces {
            let request = Request::delete(Kind::ConfigMap, &memory.owner.namespace, name, None);
            if let Err(error) = self.api.send(&request).await
                && error.code != Some(404)
            {
                tracing::warn!(flow = %memory.key(), name, %error, "a ConfigMap with old step records stays until its flow goes");
            }
        }
        self.forget(memory).await;
        self.publish(memory);
    }

    /// Tells people what is due.
    pub(super) fn publish(&self, memory: &mut Memory) {
        let over = memory.state.phase().is_terminal();
        for mut event in memory.notices.take(self.now(), over) {
            // People see events of all steps of a flow in one list.
            if let Some(at) = event.notice.at {
                let step = memory.plan.instance_name(at);
                event.notice.message =
                    if event.notice.message.is_empty() { step } else { format!("{step}: {}", event.notice.message) };
            }
            let job = event.notice.at.and_then(|at| step_status(&memory.plan, &memory.state, at).job_ref);
            self.post(render::event(&memory.owner, &event, job.as_ref(), self.now(), &self.options.instance));
        }
    }
}

pub(super) fn status_request(key: &Key, version: &str, stored: &Value, value: &Value) -> Request {
    let patch = json!({"metadata": {"resourceVersion": version}, "status": difference(stored, value)});
    Request::patch_status(&key.namespace, &key.name, patch)
}

/// The JSON merge patch from one value to another. As deep as a status is.
fn difference(from: &Value, to: &Value) -> Value {
    let (Some(old), Some(new)) = (from.as_object(), to.as_object()) else { return to.clone() };
    let mut patch = Map::new();
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, member) in new {
        match old.get(name) {
            Some(known) if known == member => {}
            Some(known) => {
                patch.insert(name.clone(), difference(known, member));
            }
            None => {
                patch.insert(name.clone(), member.clone());
            }
        }
    }
    Value::Object(patch)
}
