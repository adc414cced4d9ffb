//! Attempts whose Job was deleted: one is gone when neither its Job nor a pod of it is left, and nothing that comes after it
//! starts before. Owns what is read for that, how often, and which signs count for a pod on a node that does not answer.

use std::time::Duration;

use orlop_core::event::FlowEvent;
use orlop_core::spec::meta::ObjectReference;
use orlop_core::spec::status::WaitsOn;
use orlop_core::time::Time;
use orlop_dag::attempt::patience;
use orlop_dag::engine::step_status;
use serde_json::Value;

use super::jobs::gone;
use super::memory::{AttemptKey, Memory};
use super::{Controller, text};
use crate::api::{self, Api, ApiError, Kind, Request};
use crate::observe::{self, Conclusion};

/// How long a pod may take beyond its grace period.
const MARGIN: Duration = Duration::from_secs(60);
/// Grace period of pods that name none, in seconds.
const GRACE: u64 = 30;
/// Between two looks at pods, at most.
const INTERVAL: Duration = Duration::from_secs(30);
/// Taint of a node that an administrator has declared dead.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// Label of pods with the uid of their Job.
const JOB_UID: &str = "batch.kubernetes.io/controller-uid";

/// An attempt whose Job was deleted, by this controller or another client.
pub(super) struct Removal {
    /// Since when it is being removed.
    since: Time,
    /// When to look again, and how often that was done.
    look_at: Time,
    looks: u32,
    /// Why the server does not delete its Job, in its words.
    pub(super) refusal: Option<String>,
}

impl Removal {
    /// One that is checked at once.
    pub(super) fn new(since: Time) -> Self {
        Self { since, look_at: since, looks: 0, refusal: None }
    }

    /// When it is checked next.
    pub(super) fn due(&self) -> Time {
        self.look_at
    }
}

/// What is left of an attempt.
enum Remainder {
    Nothing,
    /// Its Job, which may be there until this time.
    Job(Time),
    /// Pods, which may be there still.
    Pods,
    /// What should be gone by now.
    Overdue(String),
}

/// Between two looks, the first ones close to each other.
pub(super) fn interval(looks: u32) -> Duration {
    INTERVAL.min(Duration::from_secs(1 << looks.min(5)))
}

impl Memory {
    /// The Job of an attempt is deleted or gone: the attempt is checked until nothing is left of it.
    pub(super) fn remove(&mut self, unit: AttemptKey, now: Time) -> &mut Removal {
        let removal = self.removals.entry(unit).or_insert_with(|| Removal::new(now));
        removal.look_at = removal.look_at.min(now);
        removal
    }
}

impl Memory {
    /// Something is left of an attempt that should be gone.
    fn apply_remainder(&mut self, (at, attempt): AttemptKey, left: String, now: Time) {
        let event = if self.is_cancelling(at, attempt) {
            FlowEvent::CancelBlocked { at, attempt, left }
        } else if self.given_up((at, attempt), now).is_some() {
            // Why it ends is told, and is not to be forgotten.
            return;
        } else {
            let (on, reason) = (Some(WaitsOn::FirstPod), "JobDeleted".to_owned());
            let message = format!("its Job was deleted and {left} is not gone");
            FlowEvent::AttemptWaiting { at, attempt, on, reason, message, since: now }
        };
        self.apply_event(&event, now);
    }
}

impl<A: Api> Controller<A> {
    /// Looks at the attempts that are being removed, where it is time.
    pub(super) async fn check_removals(&self, memory: &mut Memory) {
        let now = self.now();
        let live: Vec<AttemptKey> = memory.state.live().collect();
        memory.removals.retain(|unit, _| live.contains(unit));
        let due: Vec<AttemptKey> =
            memory.removals.iter().filter(|(_, removal)| removal.look_at <= now).map(|(unit, _)| *unit).collect();
        for unit in due {
            let Some(mut removal) = memory.removals.remove(&unit) else { continue };
            let Some(reference) = step_status(&memory.plan, &memory.state, unit.0).job_ref else { continue };
            removal.looks = removal.looks.saturating_add(1);
            removal.look_at = match self.remainder_of(&memory.owner.uid, &reference, removal.since).await {
                Ok(Remainder::Nothing) => {
                    let end = memory.given_up(unit, now).unwrap_or_else(|| gone(now));
                    memory.apply_end(unit, end, now);
                    continue;
                }
                Ok(Remainder::Job(due)) => due,
                Ok(Remainder::Pods) => now.plus(interval(removal.looks)),
                Ok(Remainder::Overdue(left)) => {
                    let refusal = removal.refusal.as_ref().map(|why| format!("; its Job cannot be deleted: {why}"));
                    memory.apply_remainder(unit, left + refusal.as_deref().unwrap_or_default(), now);
                    now.plus(INTERVAL)
                }
                Err(error) => {
                    tracing::warn!(flow = %memory.key(), job = reference.name, %error, "what is left of an attempt cannot be read now");
                    self.failed(error.class());
                    now.plus(patience(&error.port_error("listing the pods of a deleted Job"), removal.looks))
                }
            };
            memory.removals.insert(unit, removal);
        }
    }

    /// What is left of an attempt. While its Job is there, and as long as it may be, nothing is read: the watch shows when it goes.
    async fn remainder_of(&self, flow: &str, reference: &ObjectReference, since: Time) -> Result<Remainder, ApiError> {
        let now = self.now();
        let job = self.known().cache.job(flow, &reference.name);
        let job = job.filter(|job| text(job, "/metadata/uid") == reference.uid);
        if let Some(job) = &job {
            let grace = job.pointer("/spec/template/spec/terminationGracePeriodSeconds").and_then(Value::as_u64);
            let due = since.plus(Duration::from_secs(grace.unwrap_or(GRACE))).plus(MARGIN);
            if now < due {
                return Ok(Remainder::Job(due));
            }
        }
        let labels = format!("{JOB_UID}={}", reference.uid);
        let pods = api::list(&self.api, Kind::Pod, &reference.namespace, &labels).await?;
        let mut left = Remainder::Nothing;
        for pod in &pods {
            // One that was asked to go long ago says nothing of the others.
            let asked = asked_to_go(pod).map_or(since, |asked| asked.min(since));
            if now < asked.plus(grace(pod)).plus(MARGIN) {
                left = Remainder::Pods;
            } else if !self.is_lost(pod).await? {
                return Ok(Remainder::Overdue(described(pod)));
            }
        }
        // Pods that count as gone keep their Job from going.
        Ok(match job {
            Some(job) if pods.is_empty() => Remainder::Overdue(format!("Job {}{}", reference.name, held_by(&job))),
            _ => left,
        })
    }

    /// Whether a pod that does not go is on a node that is gone, or that an administrator has declared dead.
    async fn is_lost(&self, pod: &Value) -> Result<bool, ApiError> {
        let node = text(pod, "/spec/nodeName");
        if node.is_empty() {
            return Ok(false);
        }
        match self.api.send(&Request::get(Kind::Node, "", &node)).await {
            Ok(node) => {
                let taints = node.pointer("/spec/taints").and_then(Value::as_array);
                let key = |taint: &Value| taint.get("key").and_then(Value::as_str) == Some(OUT_OF_SERVICE);
                Ok(taints.is_some_and(|taints| taints.iter().any(key)))
            }
            Err(error) if error.code == Some(404) => Ok(true),
            // Without rights on nodes only the pod or a person decides.
            Err(error) if error.code == Some(403) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether a pod of any flow still runs, or may.
    pub(super) async fn runs(&self, pod: &Value) -> Result<bool, ApiError> {
        if matches!(text(pod, "/status/phase").as_str(), "Succeeded" | "Failed") {
            return Ok(false);
        }
        let overdue = asked_to_go(pod).is_some_and(|asked| asked.plus(grace(pod)).plus(MARGIN) <= self.now());
        Ok(!overdue || !self.is_lost(pod).await?)
    }
}

/// The grace period of a pod.
fn grace(pod: &Value) -> Duration {
    let seconds = pod.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_u64);
    Duration::from_secs(seconds.unwrap_or(GRACE))
}

/// When a pod was asked to go: its deletion time lies its grace period after that.
fn asked_to_go(pod: &Value) -> Option<Time> {
    let at: Time = text(pod, "/metadata/deletionTimestamp").parse().ok()?;
    let grace = pod.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_u64).unwrap_or(0);
    Some(Time::from_millis(at.millis().saturating_sub(orlop_core::time::millis_ceil(Duration::from_secs(grace)))))
}

/// How a Job came out before its deletion was asked for: what comes after that is an effect of it.
pub(super) fn earlier_end(job: &Value) -> Option<Conclusion> {
    let deleted: Option<Time> = text(job, "/metadata/deletionTimestamp").parse().ok();
    observe::conclusion(job).filter(|end| deleted.is_none_or(|deleted| end.at.is_some_and(|at| at <= deleted)))
}

fn described(pod: &Value) -> String {
    let (name, node) = (text(pod, "/metadata/name"), text(pod, "/spec/nodeName"));
    let held = held_by(pod);
    if node.is_empty() { format!("pod {name}{held}") } else { format!("pod {name} on node {node}{held}") }
}

/// The finalizers that keep a deleted object, without those of the server's own garbage collection.
fn held_by(object: &Value) -> String {
    let all = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    let foreign = |name: &&str| !matches!(*name, "foregroundDeletion" | "orphan" | "batch.kubernetes.io/job-tracking");
    let names: Vec<&str> = all.into_iter().flatten().filter_map(Value::as_str).filter(foreign).collect();
    match names.as_slice() {
        [] => String::new(),
        [name] => format!(", held by finalizer {name}"),
        names => format!(", held by finalizers {}", names.join(", ")),
    }
}
