//! From an object to a memory: the flow is read from the server, planned, and begun or rebuilt from its status and the Jobs
//! that exist. Owns that, and what becomes of flows that have no plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orlop_core::effect::FlowEffect;
use orlop_core::event::FlowEvent;
use orlop_core::ports::substrate::FlowOwner;
use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::meta::ObjectReference;
use orlop_core::spec::status::FlowStatus;
use orlop_core::time::Time;
use orlop_dag::engine::{FlowMeta, HoldReason, ObservedAttempt, State, apply, held, init, reconstruct, refused};
use orlop_dag::manifest::{Code, Severity, Violations};
use orlop_dag::plan::Plan;
use serde_json::Value;

use super::memory::{AttemptKey, Memory, Stored};
use super::notices::Notices;
use super::values::Resolved;
use super::{Controller, ControllerEvent, Key, concurrency, text};
use crate::api::{Api, ApiError, Kind, Request};
use crate::records::{self, FetchError};
use crate::{convert, observe};

/// What an object leads to.
pub(super) enum OpenOutcome {
    /// A flow that goes on.
    Memory(Box<Memory>),
    /// There is no such flow, or none that needs a memory: what the cache has now is true.
    Nothing,
    /// A flow without a plan: this status says why.
    Status(Value, Box<FlowStatus>),
}

/// Why a flow cannot be opened now.
pub(super) enum OpenError {
    /// A request failed.
    Api(ApiError),
    /// What is stored cannot be read; it waits until that is repaired.
    Stored(String),
}

impl From<ApiError> for OpenError {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl From<FetchError> for OpenError {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::Api(error) => Self::Api(error),
            FetchError::Read(error) => Self::Stored(error.to_string()),
        }
    }
}

impl<A: Api> Controller<A> {
    /// Opens a flow. `fresh` begins it again: its spec was edited before it started.
    pub(super) async fn open(&self, key: &Key, fresh: bool) -> Result<OpenOutcome, OpenError> {
        let object = match self.api.send(&Request::get(Kind::JobFlow, &key.namespace, &key.name)).await {
            Ok(object) => object,
            Err(error) if error.code == Some(404) => {
                self.known().cache.forget_flow(key);
                return Ok(OpenOutcome::Nothing);
            }
            Err(error) => return Err(error.into()),
        };
        self.flow_applied(&object);
        let status = convert::status(&object).map_err(OpenError::Stored)?;
        let over = status.as_ref().is_some_and(|status| status.phase.is_terminal());
        if over || object.pointer("/metadata/deletionTimestamp").is_some() {
            return Ok(OpenOutcome::Nothing);
        }
        let now = self.now();
        let begun = status.as_ref().filter(|status| status.start_time.is_some());
        let hash = convert::spec_hash(&object);
        let (flow, plan) = match self.planned_or_shown(&object, begun, &hash, now) {
            Ok(planned) => planned,
            Err(status) => return Ok(OpenOutcome::Status(object, status)),
        };
        let Resolved { values: parameters, fault } = self.parameters(&flow, &hash).await?;
        // A step of a flow that has begun says so itself where it needs a value that is not there.
        if let Some(message) = fault.filter(|_| begun.is_none()) {
            let status = refused(plan.len(), "ValidationFailed", &message, now);
            return Ok(OpenOutcome::Status(object, Box::new(status)));
        }
        let meta = self.meta(&flow, parameters, hash);
        let stored = Stored::of(&object, status.as_ref());
        let (mut notices, mut named) = (Notices::default(), BTreeSet::new());
        let (state, effects) = match status.filter(|_| !fresh) {
            None => {
                self.monitor.record(ControllerEvent::Opened { flow: key, status: &FlowStatus::default() });
                match self.parent_imports(&flow, &plan).await? {
                    Ok(parent_imports) => begin(&plan, &meta, &parent_imports, now),
                    Err(message) => {
                        let status = refused(plan.len(), "ValidationFailed", &message, now);
                        return Ok(OpenOutcome::Status(object, Box::new(status)));
                    }
                }
            }
            Some(status) => {
                let whole = match records::whole(&self.api, &flow, &status).await {
                    Ok(whole) => whole,
                    Err(FetchError::Api(error)) => return Err(error.into()),
                    Err(FetchError::Read(fault)) => {
                        let status = held(status, HoldReason::Unreadable(&fault.to_string()), now);
                        return Ok(OpenOutcome::Status(object, Box::new(status)));
                    }
                };
                self.monitor.record(ControllerEvent::Opened { flow: key, status: &whole });
                notices = Notices::after(&whole.steps);
                named.extend(whole.steps.iter().filter_map(|step| Some(step.job_ref.as_ref()?.uid.clone())));
                self.rebuild_with_imports(&flow, &plan, &meta, &whole).await?
            }
        };
        let mut memory = self.track(plan, meta, state, stored);
        memory.claim = concurrency::claim(&flow, &self.options);
        memory.dirty |= fresh;
        memory.notices = notices;
        memory.unnamed =
            memory.live_attempts().filter(|(_, job)| !named.contains(&job.uid)).map(|(unit, _)| unit).collect();
        // Jobs that an earlier controller made and did not tell of.
        memory.dirty |= !memory.unnamed.is_empty();
        memory.urgent |= !memory.unnamed.is_empty();
        memory.take(effects, now);
        memory.restore_waiting(now);
        self.mark_all_jobs(&memory);
        memory.watch_all_pods(now);
        Ok(OpenOutcome::Memory(Box::new(memory)))
    }

    /// The plan of a flow; else the status that says why it has none.
    fn planned_or_shown(
        &self,
        object: &Value,
        begun: Option<&FlowStatus>,
        hash: &str,
        now: Time,
    ) -> Result<(JobFlow, Plan), Box<FlowStatus>> {
        if let Some(status) = begun.filter(|status| status.spec_hash.as_ref().is_some_and(|known| known != hash)) {
            return Err(Box::new(held(status.clone(), HoldReason::SpecChanged, now)));
        }
        self.planned(object, begun.is_some()).map_err(|found| {
            Box::new(match begun {
                Some(status) => held(status.clone(), HoldReason::NotUnderstood(&first_of(&found)), now),
                None => refusal(object, &found, now),
            })
        })
    }

    /// The plan of a flow. One that has begun is not judged again by rules and flags that came later: steps say what they lack.
    pub(super) fn planned(&self, object: &Value, begun: bool) -> Result<(JobFlow, Plan), Violations> {
        let began = self.monitor.now();
        let read = convert::read(object, &self.options.limits).map(|reading| reading.flow);
        let read = match read {
            Err(found) if begun => convert::read_unjudged(object).ok_or(found),
            read => read,
        };
        let read = read.and_then(|mut flow| {
            self.options.defaults.fill(&mut flow.spec);
            plan(flow)
        });
        let (namespace, took) = (text(object, "/metadata/namespace"), self.monitor.now().saturating_sub(began));
        self.monitor.record(ControllerEvent::Planned { namespace: &namespace, took });
        read
    }

    /// What is known of a flow from now on.
    pub(super) fn track(&self, plan: Plan, meta: FlowMeta, state: State, stored: Stored) -> Memory {
        let hash = meta.spec_hash.unwrap_or_default();
        let owner = FlowOwner { uid: meta.uid, name: meta.name, namespace: meta.namespace };
        Memory::new(owner, Arc::new(plan), hash, state, stored, Arc::clone(&self.monitor))
    }

    pub(super) fn meta(&self, flow: &JobFlow, parameters: BTreeMap<String, String>, hash: String) -> FlowMeta {
        FlowMeta {
            uid: flow.metadata.uid.clone().unwrap_or_default(),
            name: flow.metadata.name.clone(),
            namespace: flow.metadata.namespace.clone().unwrap_or_default(),
            labels: flow.metadata.labels.clone(),
            annotations: flow.metadata.annotations.clone(),
            parameters,
            max_live: Some(self.options.max_live_jobs_per_flow),
            spec_hash: Some(hash),
            generation: flow.metadata.generation,
        }
    }

    /// The state of a flow, from its status and the Jobs that were seen.
    pub(super) fn rebuild(
        &self,
        plan: &Plan,
        meta: &FlowMeta,
        status: &FlowStatus,
        now: Time,
    ) -> (State, Vec<FlowEffect>) {
        let jobs = self.known().cache.jobs(&meta.uid);
        let live: Vec<ObservedAttempt> = jobs.iter().filter_map(|job| observe::attempt(plan, meta, job)).collect();
        let mut effects = Vec::new();
        let state = reconstruct(plan, meta, status, &live, now, &mut effects);
        (state, effects)
    }

    /// After a restart every Job may have ended unseen, and every one that should exist may be gone.
    fn mark_all_jobs(&self, memory: &Memory) {
        let mut known = self.known();
        let uid = &memory.owner.uid;
        for job in known.cache.jobs(uid) {
            known.cache.mark(uid, text(&job, "/metadata/name"));
        }
        for name in memory.live_jobs() {
            known.cache.mark(uid, name);
        }
    }
}

/// A flow at its beginning, with what it takes over of another.
fn begin(plan: &Plan, meta: &FlowMeta, parent_imports: &[FlowEvent], now: Time) -> (State, Vec<FlowEffect>) {
    let mut effects = Vec::new();
    let mut state = init(plan, meta, now, &mut effects);
    for event in parent_imports {
        apply(plan, &mut state, event, now, &mut effects);
    }
    (state, effects)
}

fn plan(flow: JobFlow) -> Result<(JobFlow, Plan), Violations> {
    let plan = Plan::build(Arc::new(flow.spec.clone())).map_err(|errors| {
        let mut found = Violations::new();
        errors.into_iter().for_each(|error| found.push(error.into()));
        found
    })?;
    Ok((flow, plan))
}

/// The first violation, in words.
fn first_of(found: &Violations) -> String {
    let first = found.iter().find(|violation| violation.severity == Severity::Error);
    first.map(|violation| format!("{}: {}", violation.path, violation.message)).unwrap_or_default()
}

/// The status of a flow that can never run.
fn refusal(object: &Value, found: &Violations, now: Time) -> FlowStatus {
    let errors: Vec<_> = found.iter().filter(|violation| violation.severity == Severity::Error).collect();
    let cycle = !errors.is_empty() && errors.iter().all(|violation| violation.code == Code::Cycle);
    let cause = if cycle { "DAGCycle" } else { "ValidationFailed" };
    let messages: Vec<String> =
        errors.iter().map(|violation| format!("{}: {}", violation.path, violation.message)).collect();
    let count = |list: &str| object.pointer(list).and_then(Value::as_array).map_or(0, Vec::len);
    refused(count("/spec/steps") + count("/spec/finally"), cause, &messages.join("; "), now)
}

impl Memory {
    /// Names of the Jobs of attempts that are accepted and not known to have ended.
    pub(super) fn live_jobs(&self) -> Vec<String> {
        self.live_attempts().map(|(_, reference)| reference.name).collect()
    }

    /// Attempts that are accepted and not known to have ended, with their Jobs.
    fn live_attempts(&self) -> impl Iterator<Item = (AttemptKey, ObjectReference)> {
        let job = |(at, _)| orlop_dag::engine::step_status(&self.plan, &self.state, at).job_ref;
        self.state.live().filter_map(move |unit| Some((unit, job(unit)?)))
    }

    /// Whether the flow was admitted.
    pub(super) fn has_begun(&self) -> bool {
        orlop_dag::engine::view(&self.plan, &self.state, 0..0).status.start_time.is_some()
    }

    /// When the last of the steps had settled that a step waits for; of a step without any, when the flow began.
    pub(super) fn ready_at(&self, at: orlop_core::attempt::Address) -> Option<Time> {
        let settled = self.plan.awaited(at.step).into_iter().filter_map(|step| {
            let at = orlop_core::attempt::Address { step, item: None };
            orlop_dag::engine::step_status(&self.plan, &self.state, at).completion_time
        });
        settled.max().or_else(|| orlop_dag::engine::view(&self.plan, &self.state, 0..0).status.start_time)
    }

    /// Tells several things.
    pub(super) fn apply_all(&mut self, events: &[FlowEvent], now: Time) {
        for event in events {
            self.apply_event(event, now);
        }
    }
}
