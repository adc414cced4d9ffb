//! Carrying effects out: resources, cancellation, suspension, items of fan-outs, deletion of what is left. Owns the order
//! and what is repeated; every effect may be carried out twice.

use futures::future::join_all;
use orlop_core::attempt::Address;
use orlop_core::effect::{FlowEffect, FlowNotice};
use orlop_core::error::Class;
use orlop_core::event::FlowEvent;
use orlop_core::machine::step::StepState;
use orlop_core::time::Time;
use orlop_dag::attempt::{self, bind};
use orlop_dag::engine::step_status;
use serde_json::{Value, json};

use super::memory::{AttemptKey, Memory};
use super::start::Outcome;
use super::wait_reason::since;
use super::{Controller, ControllerEvent, removal, text};
use crate::api::{Api, ApiError, Kind, Request};
use crate::observe::{self, Ownership};
use crate::render;

/// How effects came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EffectsOutcome {
    /// As far as can be now.
    Done,
    /// The namespace is going: nothing more is to be done.
    NamespaceTerminating,
}

impl<A: Api> Controller<A> {
    /// Carries out what is to be done now, and what follows from it, until nothing is left or the time is over.
    pub(super) async fn carry_out(&self, memory: &mut Memory, until: Time) -> EffectsOutcome {
        while self.now() < until {
            let starts = self.next_starts(memory);
            if starts.is_empty() {
                let Some(effect) = memory.queue.pop_front() else { break };
                if memory.waits_for_status(&effect) {
                    memory.unstored.push(effect);
                    continue;
                }
                let outcome = self.carry_out_one(memory, &effect).await;
                if self.settle(memory, effect, outcome) == EffectsOutcome::NamespaceTerminating {
                    return EffectsOutcome::NamespaceTerminating;
                }
                continue;
            }
            let shared: &Memory = memory;
            let outcomes = join_all(starts.iter().map(|start| self.start(shared, start))).await;
            let settled = starts.iter().zip(outcomes).map(|(start, came)| self.settle(memory, start.effect(), came));
            let off = settled.fold(false, |off, carried| off | (carried == EffectsOutcome::NamespaceTerminating));
            self.known().slots.return_slots(starts.len());
            if off {
                return EffectsOutcome::NamespaceTerminating;
            }
        }
        EffectsOutcome::Done
    }

    /// Takes in what came of an effect.
    fn settle(&self, memory: &mut Memory, effect: FlowEffect, outcome: Outcome) -> EffectsOutcome {
        let key = effect.key();
        let now = self.now();
        match outcome {
            Outcome::NamespaceGone => return EffectsOutcome::NamespaceTerminating,
            Outcome::Done => memory.done(&key),
            Outcome::Removing(since) => {
                memory.done(&key);
                if let FlowEffect::CancelAttempt { at, attempt, .. } = effect {
                    memory.remove((at, attempt), since.min(now)).refusal = None;
                }
            }
            Outcome::NotRemoved(again_at, refusal) => {
                memory.put_off(&key);
                // It is checked all the same, so that it is reported when it should be gone.
                if let FlowEffect::CancelAttempt { at, attempt, .. } = effect {
                    memory.remove((at, attempt), now).refusal = Some(refusal);
                }
                memory.later.push((again_at, effect));
            }
            Outcome::Looked(ended) => {
                memory.done(&key);
                // No watch tells again what was read.
                memory.adopted_an_end |= ended;
            }
            Outcome::Resumed => {
                memory.done(&key);
                if let FlowEffect::ResumeAttempt { at, attempt, .. } = effect {
                    memory.watch_first_pod((at, attempt), now, now);
                }
            }
            Outcome::Again(at) => {
                memory.put_off(&key);
                memory.later.push((at, effect));
            }
            Outcome::Tell(event) => {
                if matches!(event, FlowEvent::AttemptDelayed { .. }) {
                    memory.put_off(&key);
                } else {
                    memory.done(&key);
                }
                memory.apply_event(&event, now);
                self.wait_for_quota(memory, &event);
            }
            Outcome::Blocked(at, event) => {
                memory.put_off(&key);
                memory.later.push((at, effect));
                memory.apply_event(&event, now);
                self.wait_for_quota(memory, &event);
            }
            Outcome::Seen(event, job) => {
                memory.done(&key);
                if let FlowEvent::AttemptAccepted { at, attempt: 1, .. } = &event
                    && let Some(ready) = memory.ready_at(*at)
                {
                    let namespace = &memory.owner.namespace;
                    self.monitor.record(ControllerEvent::Started { namespace, waited: now.since(ready) });
                }
                memory.apply_event(&event, now);
                if let FlowEvent::AttemptAccepted { at, attempt, .. } = event {
                    memory.unnamed.insert((at, attempt));
                    memory.watch_first_pod((at, attempt), since(&job).unwrap_or(now), now);
                    memory.clear_over_quota((at, attempt));
                }
                // A Job that was adopted may have ended long ago, and no watch tells again what is known.
                self.job_applied(&job);
                self.known().cache.mark(&memory.owner.uid, text(&job, "/metadata/name"));
                memory.adopted_an_end |= observe::conclusion(&job).is_some();
            }
        }
        EffectsOutcome::Done
    }

    async fn carry_out_one(&self, memory: &Memory, effect: &FlowEffect) -> Outcome {
        let key = effect.key();
        match effect {
            FlowEffect::EnsureResources => self.ensure_resources(memory, &key).await,
            FlowEffect::CancelAttempt { at, attempt, .. } => self.cancel(memory, (*at, *attempt), &key).await,
            FlowEffect::SuspendAttempt { at, attempt, .. } => {
                self.set_suspended(memory, (*at, *attempt), true, &key).await
            }
            FlowEffect::ResumeAttempt { at, attempt, .. } => {
                self.set_suspended(memory, (*at, *attempt), false, &key).await
            }
            FlowEffect::ResolveItems { step } => self.items(memory, Address { step: *step, item: None }, &key).await,
            _ => {
                tracing::error!(flow = %memory.key(), effect = %key, "the engine asked for an effect this controller does not know");
                Outcome::Done
            }
        }
    }

    /// Something had no success and is tried again.
    pub(super) fn again(&self, memory: &Memory, key: &str, error: &ApiError) -> Outcome {
        let delays = memory.delays.get(key).copied().unwrap_or(0);
        self.failed(error.class());
        let wait = attempt::patience(&error.port_error(key), delays);
        // The first time, and each time that it was tried as often again.
        if delays.saturating_add(1).is_power_of_two() {
            tracing::warn!(flow = %memory.key(), %error, "{key} failed; retrying in {} s", wait.as_secs());
        }
        Outcome::Again(self.now().plus(wait))
    }

    async fn ensure_resources(&self, memory: &Memory, key: &str) -> Outcome {
        let Some(templates) = memory.plan.spec().resource_templates.as_ref() else { return Outcome::Done };
        let claims = templates.volume_claim_templates.iter();
        let claims = claims.filter_map(|template| Some((Kind::Claim, render::claim(template, &memory.owner)?)));
        let maps = templates.config_map_templates.iter();
        let maps = maps.filter_map(|template| Some((Kind::ConfigMap, render::config_map(template, &memory.owner)?)));
        let mut refs = Vec::new();
        for (kind, object) in claims.chain(maps) {
            match self.ensure(memory, kind, object).await {
                Ok(Ok(found)) => refs.push(found),
                Ok(Err(message)) => {
                    let reason = "ResourceConflict".to_owned();
                    return Outcome::Tell(FlowEvent::ResourcesFailed { reason, message });
                }
                Err(error) if error.code == Some(404) || error.namespace_is_going() => return Outcome::NamespaceGone,
                Err(error) => {
                    let port = error.creation_error("creating the resources of the flow");
                    return match attempt::resources_failed(&port) {
                        Some(event) => Outcome::Tell(event),
                        None => self.blocked(memory, key, &error),
                    };
                }
            }
        }
        Outcome::Tell(FlowEvent::ResourcesReady { refs })
    }

    /// Resources are not to be had now: the flow says so, and they are tried again.
    fn blocked(&self, memory: &Memory, key: &str, error: &ApiError) -> Outcome {
        let outcome = self.again(memory, key, error);
        let Outcome::Again(at) = outcome else { return outcome };
        let port = error.creation_error("creating the resources of the flow");
        let (reason, message) = (attempt::shortage(&port).to_owned(), port.chain());
        Outcome::Blocked(at, FlowEvent::Blocked { reason, message })
    }

    /// Creates an object, or finds it. The inner error says whose an object of that name is.
    pub(super) async fn ensure(
        &self,
        memory: &Memory,
        kind: Kind,
        object: Value,
    ) -> Result<Result<orlop_core::spec::meta::ObjectReference, String>, ApiError> {
        let request = Request::create(kind, object);
        let error = match self.api.send(&request).await {
            Ok(object) => return Ok(Ok(named(kind, &object))),
            Err(error) => error,
        };
        if error.class() != Class::Exists && !error.outcome_is_unknown() {
            return Err(error);
        }
        // A claim may be got, a ConfigMap too; what is not there was not created.
        let found = match self.api.send(&Request::get(kind, &request.namespace, &request.name)).await {
            Err(gone) if gone.code == Some(404) => return Err(error),
            found => found?,
        };
        Ok(match observe::owner(&found, &memory.owner.uid) {
            Ownership::Ours => Ok(named(kind, &found)),
            Ownership::Foreign(owner) => {
                Err(format!("{} `{}` exists and belongs to {owner}", kind.name(), request.name))
            }
        })
    }

    async fn cancel(&self, memory: &Memory, unit: AttemptKey, key: &str) -> Outcome {
        let (at, attempt) = unit;
        if !memory.is_cancelling(at, attempt) {
            // It has ended meanwhile, and another one may run.
            return Outcome::Done;
        }
        let Some(reference) = step_status(&memory.plan, &memory.state, at).job_ref else { return Outcome::Done };
        let uid = Some(reference.uid.clone()).filter(|uid| !uid.is_empty());
        let request = Request::delete(Kind::Job, &memory.owner.namespace, &reference.name, uid).after_its_children();
        match self.api.send(&request).await {
            Ok(job) if text(&job, "/kind") == "Job" => {
                // What comes back may be the Job as it was last: a success that came first stands.
                if let Some(conclusion) = removal::earlier_end(&job) {
                    return match self.end(memory, unit, &job, conclusion).await {
                        Ok(end) => Outcome::Tell(attempt::event(&memory.plan, at, attempt, end, true)),
                        Err(error) => self.again(memory, key, &error),
                    };
                }
                if job.pointer("/metadata/finalizers").and_then(Value::as_array).is_some_and(|all| !all.is_empty()) {
                    self.job_applied(&job);
                    let since = text(&job, "/metadata/deletionTimestamp").parse().ok();
                    return Outcome::Removing(since.unwrap_or_else(|| self.now()));
                }
            }
            // Gone, or another Job has its name: ours does not exist any more.
            Ok(_) => {}
            Err(error) if matches!(error.code, Some(404 | 409)) => {}
            Err(error) => {
                return match self.again(memory, key, &error) {
                    Outcome::Again(at) if !error.outcome_is_unknown() => Outcome::NotRemoved(at, error.to_string()),
                    outcome => outcome,
                };
            }
        }
        self.known().cache.forget_job(&memory.owner.uid, &reference.name, &reference.uid);
        Outcome::Removing(self.now())
    }

    async fn set_suspended(&self, memory: &Memory, (at, attempt): AttemptKey, on: bool, key: &str) -> Outcome {
        let is_live = memory.state.attempt(at) == Some((StepState::Active, attempt));
        if !is_live || memory.state.is_frozen(at) != on {
            // What has happened or was ordered since counts.
            return Outcome::Done;
        }
        let Some(reference) = step_status(&memory.plan, &memory.state, at).job_ref else { return Outcome::Done };
        match self.as_wanted(memory, &reference.name, on).await {
            Ok(Some(outcome)) => return outcome,
            Err(error) if error.class().is_retryable() => return self.again(memory, key, &error),
            // Who may not read it may be allowed to change it.
            Ok(None) | Err(_) => {}
        }
        let patch = json!({"spec": {"suspend": on}});
        match self.api.send(&Request::patch(Kind::Job, &memory.owner.namespace, &reference.name, patch)).await {
            Ok(job) => {
                self.job_applied(&job);
                done_so(&job, on)
            }
            Err(error) => {
                if !error.class().is_retryable() && !memory.delays.contains_key(key) {
                    let (reason, what) = if on {
                        ("SuspendFailed", "the Job cannot be suspended, it keeps running")
                    } else {
                        ("ResumeFailed", "the Job cannot be resumed, it stays suspended")
                    };
                    let message = format!("{}: {what}: {error}", memory.plan.instance_name(at));
                    let notice =
                        FlowNotice { warning: true, reason: reason.to_owned(), message, at: Some(at), attempt };
                    self.emit_event(&memory.owner, &notice);
                }
                self.again(memory, key, &error)
            }
        }
    }

    /// What comes of it where a Job is suspended, or is not, as it is to be, or has ended. What is known here may be old: the
    /// server is asked before nothing is done.
    async fn as_wanted(&self, memory: &Memory, job: &str, on: bool) -> Result<Option<Outcome>, ApiError> {
        let is = |job: &Value| job.pointer("/spec/suspend").and_then(Value::as_bool).unwrap_or(false) == on;
        let ended = |job: &Value| observe::conclusion(job).is_some();
        match self.known().cache.job(&memory.owner.uid, job) {
            // That does not go back.
            Some(known) if ended(&known) => return Ok(Some(Outcome::Done)),
            Some(known) if !is(&known) => return Ok(None),
            _ => {}
        }
        Ok(match self.live_job(memory, job).await? {
            None => Some(Outcome::Done),
            Some(found) => (is(&found) || ended(&found)).then(|| done_so(&found, on)),
        })
    }

    async fn items(&self, memory: &Memory, at: Address, key: &str) -> Outcome {
        let resolved = |items| Outcome::Tell(FlowEvent::ItemsResolved { at, items });
        let binding = match bind(&memory.plan, &memory.state, at, None) {
            Ok(binding) => binding,
            Err(error) => return resolved(Err(error.to_string())),
        };
        match self.complete(memory, binding).await {
            Err(error) => self.again(memory, key, &error),
            Ok(Err(error)) => resolved(Err(error.to_string())),
            Ok(Ok(scope)) => resolved(attempt::items(&memory.plan, &memory.state, at, &scope)),
        }
    }
}

/// A Job is suspended or resumed as was wanted, maybe by an earlier controller that did not live to see it.
fn done_so(job: &Value, suspended: bool) -> Outcome {
    let ended = observe::conclusion(job).is_some();
    if suspended || ended { Outcome::Looked(ended) } else { Outcome::Resumed }
}

/// A reference to an object whose kind is known.
fn named(kind: Kind, object: &Value) -> orlop_core::spec::meta::ObjectReference {
    orlop_core::spec::meta::ObjectReference {
        api_version: kind.api_version(),
        kind: kind.name().to_owned(),
        ..observe::reference(object)
    }
}
