//! From effects to work: what the engine asks for becomes calls of the substrate.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use orlop_core::attempt::{Address, AttemptKey};
use orlop_core::effect::FlowEffect;
use orlop_core::error::Problem;
use orlop_core::event::FlowEvent;
use orlop_core::ports::substrate::{FlowOwner, Substrate};
use orlop_dag::attempt::{self, Binding, Refusal, Subject, Unresolved, bind};
use orlop_dag::params::Scope;

use super::configs::look_up;
use super::work::{Done, Purpose, Start, StepAttempt};
use super::{FlowHost, Keep};

impl FlowHost {
    /// Begins to carry effects out. Those that need no work are done on return.
    pub(super) fn carry_out(&mut self, effects: Vec<FlowEffect>) {
        for effect in effects {
            self.carry_out_one(effect);
        }
    }

    fn carry_out_one(&mut self, effect: FlowEffect) {
        match effect {
            FlowEffect::EnsureResources => self.ensure_resources(0),
            FlowEffect::StartAttempt { at, attempt, item } => {
                self.work.queue_start(Start { unit: (at, attempt), item });
            }
            FlowEffect::CancelAttempt { at, attempt, grace, .. } => {
                self.expect_end((at, attempt), grace);
                if let Some(effect) = self.work.after_adoption((at, attempt), effect) {
                    self.change_attempt(effect);
                }
            }
            FlowEffect::SuspendAttempt { at, attempt, .. } | FlowEffect::ResumeAttempt { at, attempt, .. } => {
                if let Some(effect) = self.work.after_adoption((at, attempt), effect) {
                    self.change_attempt(effect);
                }
            }
            FlowEffect::ResolveItems { step } => self.resolve_items(Address { step, item: None }),
            FlowEffect::ForgetAttempt { at, attempt, after } if self.parts.keep == Keep::AsAsked => {
                self.forget((at, attempt), after);
            }
            FlowEffect::ForgetAttempt { .. } => {}
            FlowEffect::RecordEvent(notice) => self.desk.notice(&self.plan, self.parts.clock.now(), notice),
            FlowEffect::StatusChanged { urgent, .. } => self.pace.changed(urgent),
            // The record of a run stays until somebody deletes it.
            FlowEffect::DeleteFlow => {}
            other => tracing::error!(effect = %other.key(), "the engine asked for an effect this host does not know"),
        }
    }

    pub(super) fn change_attempt(&mut self, effect: FlowEffect) {
        match effect {
            FlowEffect::CancelAttempt { at, attempt, grace, .. } => self.cancel((at, attempt), grace),
            FlowEffect::SuspendAttempt { at, attempt, .. } => self.freeze((at, attempt), true),
            FlowEffect::ResumeAttempt { at, attempt, .. } => self.freeze((at, attempt), false),
            _ => {}
        }
    }

    fn key(&self, (at, attempt): StepAttempt) -> AttemptKey {
        attempt::key(&self.plan, self.state.meta(), at, attempt)
    }

    /// Makes the resources of the flow, after so many tries that had no success.
    pub(super) fn ensure_resources(&mut self, tries: u32) {
        let Some(templates) = self.plan.spec().resource_templates.clone() else { return };
        let meta = self.state.meta();
        let (uid, name, namespace) = (meta.uid.clone(), meta.name.clone(), meta.namespace.clone());
        let owner = FlowOwner { uid, name, namespace };
        let substrate = Arc::clone(&self.parts.substrate);
        self.work.push(async move {
            match substrate.ensure_resources(&owner, &templates).await {
                Ok(refs) => Done::Event(FlowEvent::ResourcesReady { refs }),
                Err(error) => match attempt::resources_failed(&error) {
                    Some(event) => Done::Event(event),
                    None => Done::ResourcesLater(error, tries),
                },
            }
        });
    }

    /// The resources of the flow are not to be had now: the flow says so, and they are tried again.
    pub(super) fn wait_for_resources(&mut self, error: Problem, tries: u32) {
        let (reason, message) = (attempt::shortage(&error).to_owned(), error.chain());
        self.pending.push(FlowEvent::Blocked { reason, message });
        self.work.push(async move {
            Done::ResourcesAgain(patiently("creating the resources of the flow", &error, tries).await)
        });
    }

    /// Looks, a minute after its grace, whether a cancelled attempt has ended.
    fn expect_end(&self, unit: StepAttempt, grace: Option<Duration>) {
        let grace = grace.unwrap_or_else(|| attempt::grace(&self.plan, unit.0.step));
        self.work.push(async move {
            tokio::time::sleep(grace.saturating_add(OVERDUE)).await;
            Done::Overdue(unit)
        });
    }

    /// It is written down that an attempt was started.
    pub(super) fn accepted(&self, unit: StepAttempt) {
        let substrate = &self.parts.substrate;
        if substrate.runs_functions() {
            substrate.accepted(&self.key(unit));
        }
    }

    /// Somebody has confirmed that nothing of an attempt runs any more.
    pub(super) fn release(&self, unit: StepAttempt) {
        let (key, substrate) = (self.key(unit), Arc::clone(&self.parts.substrate));
        self.work.push(async move {
            if let Err(error) = substrate.release(&key).await {
                tracing::warn!(attempt = %key, error = %error.chain(), "the state of the attempt cannot be removed");
            }
            Done::Tidied
        });
    }

    fn cancel(&mut self, unit: StepAttempt, grace: Option<Duration>) {
        let (key, substrate) = (self.key(unit), Arc::clone(&self.parts.substrate));
        self.work.push(async move {
            end(substrate.as_ref(), &key, grace).await;
            Done::Tidied
        });
    }

    /// Gives up an attempt of an earlier host that cannot be watched: it is ended, so that nothing of it runs beside the
    /// next one, and then it is lost.
    pub(super) fn abandon(&mut self, unit: StepAttempt, why: String) {
        let (key, substrate) = (self.key(unit), Arc::clone(&self.parts.substrate));
        tracing::error!(attempt = %key, why, "a running attempt cannot be watched; it is terminated and counts as lost");
        self.work.abandon(unit);
        self.work.push(async move {
            end(substrate.as_ref(), &key, None).await;
            Done::Abandoned(unit, why)
        });
    }

    fn freeze(&mut self, unit: StepAttempt, on: bool) {
        if self.work.want_frozen(unit, on) {
            self.set_clock(unit, on);
        }
    }

    pub(super) fn set_clock(&mut self, unit: StepAttempt, on: bool) {
        let (key, substrate) = (self.key(unit), Arc::clone(&self.parts.substrate));
        self.work.push(async move {
            let mut tries = 0;
            loop {
                let result = if on { substrate.suspend(&key).await } else { substrate.resume(&key).await };
                match result {
                    Err(error) if error.class.is_retryable() && tries < SUSPEND_TRIES => {
                        tries = patiently("suspending an attempt", &error, tries).await;
                    }
                    Err(error) => {
                        tracing::warn!(attempt = %key, error = %error.chain(), "the attempt runs on: it cannot be suspended");
                        return Done::Clock(unit, on);
                    }
                    Ok(()) => return Done::Clock(unit, on),
                }
            }
        });
    }

    /// Deletes what is left of an attempt when its time has come, at the latest before this host goes: no other would.
    fn forget(&mut self, unit: StepAttempt, after: Duration) {
        let (key, substrate) = (self.key(unit), Arc::clone(&self.parts.substrate));
        self.work.tidying += 1;
        let mut leaving = self.work.leaving.subscribe();
        self.work.push(async move {
            tokio::select! {
                () = tokio::time::sleep(after) => {}
                // An error means that the host is gone already.
                _ = leaving.wait_for(|leaving| *leaving) => {}
            }
            if let Err(error) = substrate.forget(&key).await {
                tracing::warn!(attempt = %key, error = %error.chain(), "the remains of the attempt cannot be deleted");
            }
            Done::Forgotten
        });
    }

    /// Deletes what is left of attempts whose end is written down by now.
    pub(super) fn forget_ended(&mut self) {
        for unit in std::mem::take(&mut self.work.ended) {
            if self.parts.keep == Keep::Nothing {
                self.forget(unit, Duration::ZERO);
            }
        }
    }

    /// Deletes what an earlier host did not come to delete. Nothing may have been started yet.
    pub(super) async fn forget_left(&mut self) {
        if self.parts.keep != Keep::Nothing {
            return;
        }
        let keys = match self.parts.substrate.list(&self.state.meta().uid).await {
            Ok(keys) => keys,
            Err(error) => {
                return tracing::warn!(error = %error.chain(), "the remains of ended attempts cannot be listed");
            }
        };
        let live: BTreeSet<StepAttempt> = self.state.live().collect();
        let unit = |key: &AttemptKey| Some((attempt::address(&self.plan, self.state.meta(), key)?, key.attempt));
        self.work.ended = keys.iter().filter_map(unit).filter(|unit| !live.contains(unit)).collect();
        self.forget_ended();
    }

    /// Lets starts begin as far as the bound allows.
    pub(super) fn begin_starts(&mut self) {
        while let Some(Start { unit, item }) = self.work.next_start() {
            match bind(&self.plan, &self.state, unit.0, item.as_deref()) {
                Err(error) => self.refuse(unit, error.into()),
                Ok(binding) => self.complete(Purpose::Start(unit), binding),
            }
        }
    }

    /// Watches what an earlier host has started.
    pub(super) fn adopt(&mut self, unit: StepAttempt) {
        self.work.adopt(unit);
        let item = self.state.item(&self.plan, unit.0).cloned();
        match bind(&self.plan, &self.state, unit.0, item.as_ref()) {
            Err(_) => self.adopt_with(unit, None),
            Ok(binding) => self.complete(Purpose::Adopt(unit), binding),
        }
    }

    fn resolve_items(&mut self, at: Address) {
        match bind(&self.plan, &self.state, at, None) {
            Err(error) => self.pending.push(FlowEvent::ItemsResolved { at, items: Err(error.to_string()) }),
            Ok(binding) => self.complete(Purpose::Items(at), binding),
        }
    }

    /// Looks up what is missing in a binding, then goes on.
    fn complete(&mut self, purpose: Purpose, binding: Binding) {
        let Binding { mut scope, config_maps } = binding;
        if config_maps.is_empty() {
            return self.bound(purpose, Ok(scope));
        }
        let (spec, flow) = (Arc::clone(self.plan.spec()), self.state.meta().name.clone());
        let configs = Arc::clone(&self.parts.configs);
        self.work.push(async move {
            for (name, key_ref) in config_maps {
                match look_up(&spec, &flow, configs.as_ref(), &name, &key_ref).await {
                    Ok(value) => scope.bind(name, value),
                    Err(error) => return Done::Bound(purpose, Err(error)),
                }
            }
            Done::Bound(purpose, Ok(scope))
        });
    }

    /// Parameters are known, or cannot be.
    pub(super) fn bound(&mut self, purpose: Purpose, scope: Result<Scope, Unresolved>) {
        match (purpose, scope) {
            (Purpose::Start(unit), Ok(scope)) => self.start(unit, &scope),
            (Purpose::Start(unit), Err(error)) => self.refuse(unit, error.into()),
            (Purpose::Adopt(unit), scope) => self.adopt_with(unit, scope.ok().as_ref()),
            (Purpose::Items(at), scope) => {
                let items = scope.map_err(|error| error.to_string());
                let items = items.and_then(|scope| attempt::items(&self.plan, &self.state, at, &scope));
                self.pending.push(FlowEvent::ItemsResolved { at, items });
            }
        }
    }

    fn subject(&self, (at, attempt): StepAttempt) -> Subject<'_> {
        Subject { plan: &self.plan, meta: self.state.meta(), at, attempt }
    }

    fn start(&mut self, unit: StepAttempt, scope: &Scope) {
        let spec = match attempt::start_spec(self.subject(unit), &self.state, scope) {
            Ok(spec) => spec,
            Err(refusal) => return self.refuse(unit, refusal),
        };
        // Without functions such a step is refused at submission; a flow may go on under another program, though.
        if spec.function.is_some() && !self.parts.substrate.runs_functions() {
            let message = "the step has no `template`, and steps are not functions here; add a batch/v1 Job".to_owned();
            return self.refuse(unit, Refusal { reason: "TemplateInvalid".to_owned(), message, retryable: false });
        }
        let substrate = Arc::clone(&self.parts.substrate);
        self.work.push(async move { Done::Started(unit, substrate.start(spec).await) });
    }

    fn adopt_with(&mut self, unit: StepAttempt, scope: Option<&Scope>) {
        let spec = match attempt::adoption_spec(self.subject(unit), scope) {
            Ok(spec) => spec,
            Err(refusal) => return self.abandon(unit, refusal.message),
        };
        let substrate = Arc::clone(&self.parts.substrate);
        self.work.push(async move {
            let mut tries = 0;
            while let Err(error) = substrate.adopt(spec.clone()).await {
                if !error.class.is_retryable() {
                    return Done::Unwatchable(unit, error.chain());
                }
                tries = patiently("looking for a running attempt", &error, tries).await;
            }
            Done::Adopted(unit)
        });
    }

    /// A start that can never succeed as it is.
    fn refuse(&mut self, unit: StepAttempt, refusal: Refusal) {
        self.work.start_answered(unit, false);
        let ((at, attempt), Refusal { reason, message, retryable }) = (unit, refusal);
        self.pending.push(FlowEvent::AttemptRefused { at, attempt, reason, message, retryable });
    }
}

/// Ends an attempt; tries until the substrate has heard it, or never will.
async fn end(substrate: &dyn Substrate, key: &AttemptKey, grace: Option<Duration>) {
    let mut tries = 0;
    while let Err(error) = substrate.cancel(key, grace).await {
        if !error.class.is_retryable() {
            // Its end is still reported when it comes to it.
            tracing::error!(attempt = %key, error = %error.chain(), "the attempt cannot be ended");
            break;
        }
        tries = patiently("ending an attempt", &error, tries).await;
    }
}

/// How much longer than its grace a cancelled attempt may take to end before that is reported.
const OVERDUE: Duration = Duration::from_secs(60);
/// Tries of a suspension before the attempt is left running.
const SUSPEND_TRIES: u32 = 5;

/// Waits before a call is made again; gives the number of tries.
pub(super) async fn patiently(what: &str, error: &Problem, tries: u32) -> u32 {
    tracing::warn!(error = %error.chain(), tries, "{what} failed, trying again");
    tokio::time::sleep(attempt::patience(error, tries)).await;
    tries.saturating_add(1)
}
