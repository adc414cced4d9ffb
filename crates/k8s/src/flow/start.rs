//! Starting an attempt: parameters that stand in ConfigMaps, the Job, its creation or adoption. Owns what an answer of the
//! server means for the attempt; a Job is created once, since its name follows from flow, step and attempt.

use orlop_core::attempt::{Address, ArtifactSource, AttemptSpec};
use orlop_core::effect::FlowEffect;
use orlop_core::error::Class;
use orlop_core::event::FlowEvent;
use orlop_core::spec::artifact::ArtifactStore;
use orlop_core::spec::flow::FlowSpec;
use orlop_core::time::Time;
use orlop_dag::attempt::{self, Binding, Refusal, Subject, Unresolved, bind, config_map_template, rewrite_claim};
use orlop_dag::params::{Scope, config_map_value};
use serde_json::Value;

use super::Controller;
use super::memory::Memory;
use super::monitor::ControllerEvent;
use crate::api::{Api, ApiError, Kind, Request};
use crate::observe::{self, Ownership};
use crate::render;

/// Where artifacts of a flow are kept: a claim that is made from a template has the name of its object.
fn store_of(spec: &FlowSpec, flow: &str) -> Option<ArtifactStore> {
    let mut store = spec.artifact_store.clone()?;
    if let Some(claim) = &mut store.persistent_volume_claim {
        rewrite_claim(spec, flow, &mut claim.claim_name);
    }
    Some(store)
}

/// What came of an effect.
pub(super) enum Outcome {
    /// Its Job could not be deleted: it is tried again then. The server's words.
    NotRemoved(Time, String),
    /// The engine is told this.
    Tell(FlowEvent),
    /// The same, of a Job as it was seen.
    Seen(FlowEvent, Value),
    /// Nobody knows yet: the same effect again at this time.
    Again(Time),
    /// The same, and the engine is told why.
    Blocked(Time, FlowEvent),
    /// The Job of an attempt is deleted, or was, since this time.
    Removing(Time),
    /// There is nothing to tell.
    Done,
    /// The same, and a Job was read: whether it has ended.
    Looked(bool),
    /// A suspended Job was let go on: it makes new pods.
    Resumed,
    /// The namespace is going, and the flow with it.
    NamespaceGone,
}

/// An attempt that is to be started.
#[derive(Clone)]
pub(super) struct Start {
    pub(super) at: Address,
    pub(super) attempt: u32,
    pub(super) item: Option<Box<Value>>,
    /// How often it was put off before.
    pub(super) delays: u32,
}

impl Start {
    pub(super) fn effect(&self) -> FlowEffect {
        FlowEffect::StartAttempt { at: self.at, attempt: self.attempt, item: self.item.clone() }
    }

    fn refused(&self, refusal: Refusal) -> Outcome {
        let Refusal { reason, message, retryable } = refusal;
        Outcome::Tell(FlowEvent::AttemptRefused { at: self.at, attempt: self.attempt, reason, message, retryable })
    }

    fn accepted(&self, job: Value) -> Outcome {
        let reference = observe::reference(&job);
        Outcome::Seen(FlowEvent::AttemptAccepted { at: self.at, attempt: self.attempt, reference }, job)
    }

    /// The server did not create its Job. `ended` Jobs of the flow have ended and are still there.
    fn failed(&self, error: &ApiError, ended: usize, now: Time) -> Outcome {
        let mut error = error.creation_error("creating the Job");
        if error.class == Class::Capacity && ended > 0 && error.message.contains("jobs.batch") {
            let fill = format!("; {ended} ended Jobs of this flow count too: `jobRetention: None` deletes such Jobs");
            error.message.push_str(&fill);
        }
        Outcome::Tell(attempt::start_failed(self.at, self.attempt, &error, self.delays, now))
    }
}

impl<A: Api> Controller<A> {
    pub(super) async fn start(&self, memory: &Memory, start: &Start) -> Outcome {
        let scope = match bind(&memory.plan, &memory.state, start.at, start.item.as_deref()) {
            Err(error) => return start.refused(error.into()),
            Ok(binding) => self.complete(memory, binding).await,
        };
        let scope = match scope {
            Err(error) => return self.unread(memory, start, &error),
            Ok(Err(error)) => return start.refused(error.into()),
            Ok(Ok(scope)) => scope,
        };
        let scope = match self.unveil(memory, start, scope).await {
            Err(error) => return self.unread(memory, start, &error),
            Ok(Err(error)) => return start.refused(error.into()),
            Ok(Ok(scope)) => scope,
        };
        let subject = Subject { plan: &memory.plan, meta: memory.state.meta(), at: start.at, attempt: start.attempt };
        let spec = match attempt::start_spec(subject, &memory.state, &scope) {
            Ok(spec) => spec,
            Err(refusal) => return start.refused(refusal),
        };
        let store = store_of(memory.plan.spec(), &memory.owner.name);
        let (helper, shared) = (self.options.helper.as_ref(), Some(memory.shared()));
        let transfer = render::ArtifactTransfer { helper, store: store.as_ref(), shared };
        match render::job(&spec, &memory.owner, transfer) {
            Ok(mut job) => {
                if let Some(claim) = &memory.claim {
                    render::hold(&mut job, &claim.key);
                }
                let outcome = self.create(memory, start, job).await;
                if matches!(outcome, Outcome::Seen(..)) {
                    self.tell_inputs(&spec);
                }
                outcome
            }
            Err(error) => {
                let (reason, message) = (error.reason().to_owned(), error.to_string());
                let retryable = matches!(error, render::RenderError::Unavailable { .. });
                start.refused(Refusal { reason, message, retryable })
            }
        }
    }

    /// Tells of the artifacts that an attempt takes from stores.
    fn tell_inputs(&self, spec: &AttemptSpec) {
        for input in &spec.inputs {
            if let ArtifactSource::Stored { location, .. } = &input.source {
                let (store, bytes) = (location.kind.as_str(), location.size_bytes);
                self.monitor.record(ControllerEvent::Artifact { stored: false, store, bytes });
            }
        }
    }

    async fn create(&self, memory: &Memory, start: &Start, job: Value) -> Outcome {
        let request = Request::create(Kind::Job, job);
        let error = match self.api.send(&request).await {
            Ok(job) => return start.accepted(job),
            Err(error) => error,
        };
        if error.code == Some(404) || error.namespace_is_going() {
            return Outcome::NamespaceGone;
        }
        if error.class() != Class::Exists && !error.outcome_is_unknown() {
            return start.failed(&error, self.ended_jobs(memory), self.now());
        }
        match self.api.send(&Request::get(Kind::Job, &request.namespace, &request.name)).await {
            Ok(job) => match observe::owner(&job, &memory.owner.uid) {
                Ownership::Ours => start.accepted(job),
                Ownership::Foreign(owner) => start.refused(Refusal {
                    reason: "NameConflict".to_owned(),
                    message: format!("a Job named `{}` exists and belongs to {owner}", request.name),
                    retryable: false,
                }),
            },
            // It does not exist: what was sent has not arrived, or it was deleted in between.
            Err(gone) if gone.code == Some(404) => start.failed(&error, self.ended_jobs(memory), self.now()),
            Err(unread) => self.unread(memory, start, &unread),
        }
    }

    /// How many Jobs of a flow have ended and are kept.
    fn ended_jobs(&self, memory: &Memory) -> usize {
        let jobs = self.known().cache.jobs(&memory.owner.uid);
        jobs.iter().filter(|job| observe::conclusion(job).is_some()).count()
    }

    /// The server does not say what is there: nothing is told, so that nothing is decided on it.
    fn unread(&self, memory: &Memory, start: &Start, error: &ApiError) -> Outcome {
        self.again(memory, &start.effect().key(), error)
    }

    /// Looks up what is missing in a binding. The inner error is final for this attempt.
    pub(super) async fn complete(
        &self,
        memory: &Memory,
        binding: Binding,
    ) -> Result<Result<Scope, Unresolved>, ApiError> {
        let Binding { mut scope, config_maps } = binding;
        for (name, key_ref) in config_maps {
            let (spec, owner) = (memory.plan.spec(), &memory.owner);
            let found = match self.config_map(spec, &owner.name, &owner.namespace, &key_ref.name).await {
                Err(error) if !error.class().is_retryable() => {
                    return Ok(Err(Unresolved { name, message: error.to_string(), retryable: true }));
                }
                found => found?,
            };
            match config_map_value(found.as_ref(), &key_ref) {
                Ok(value) => scope.bind(name, value),
                Err(fault) => return Ok(Err(Unresolved { name, message: fault.to_string(), retryable: true })),
            }
        }
        Ok(Ok(scope))
    }

    /// A ConfigMap: that of a template as it is written, else the one on the server; none where there is none.
    pub(super) async fn config_map(
        &self,
        spec: &FlowSpec,
        flow: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, ApiError> {
        if let Some(template) = config_map_template(spec, flow, name) {
            return Ok(Some(template.clone()));
        }
        match self.api.send(&Request::get(Kind::ConfigMap, namespace, name)).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.code == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
