//! Failures of a pass: whether it is retried at once, after a backoff, or not before something changes, and how it is reported.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use orlop_core::backoff::{Backoff, fraction};
use orlop_core::error::Class;
use orlop_core::time::Time;

use super::{Controller, Reconciler, Round, SpecVersion};
use crate::api::{Api, ApiError, Request};
use crate::hourglass::children::Meta;
use crate::hourglass::effect::EffectError;
use crate::hourglass::later;
use crate::hourglass::monitor::{ControllerEvent, sentence};
use crate::hourglass::plan::{ADMISSION, BROKEN, CONFLICT, Effect, FORBIDDEN, Failure, QUOTA, RETRIES};
use crate::shell::{Key, Next};

/// Failures one after another until it is said that they are too many.
const TRIES: u32 = 8;
/// Conflicts one after another that are tried again at once.
const CONFLICTS: u32 = 5;

/// Consecutive failures of an object.
#[derive(Clone, Debug, Default)]
pub(super) struct Streak {
    pub(super) failures: u32,
    pub(super) conflicts: u32,
    pub(super) last_failure: Option<(SpecVersion, Failure)>,
    /// The spec for which nothing is done until there is another: an invariant is broken, or the server refuses it for good.
    pub(super) stopped: Option<SpecVersion>,
    /// Until when nothing is asked: it is not allowed, or the server has asked for patience.
    pub(super) closed: Option<Time>,
}

impl<A: Api, R: Reconciler> Controller<A, R> {
    /// What was planned had no success.
    pub(super) async fn failed(&self, key: &Key, meta: &Meta, effect: &Effect, failure: EffectError) -> Round {
        let now = self.now();
        let at = effect.child();
        let error = match failure {
            EffectError::Foreign(at) => {
                self.record_error(Class::Exists);
                let message = format!(
                    "{} `{}` exists and belongs to another owner; delete it or rename this object",
                    at.kind.name(),
                    at.name
                );
                let until = Some(now.plus(CONFLICT));
                return self.record_failure(key, meta, Failure { reason: "Conflict", message, at: Some(at), until });
            }
            EffectError::Outdated => ApiError { code: Some(409), ..ApiError::default() },
            EffectError::Api(error) => error,
        };
        self.record_error(class(&error));
        if is_conflict(&error) && self.retries_at_once(key) {
            return Round::Again;
        }
        if at.is_none() && matches!(effect, Effect::WriteStatus(_)) {
            return Round::Over(self.status_not_written(key, &error));
        }
        let failure = match self.classify(key, &error, |reason| sentence(reason, effect, &error)) {
            Ok(failure) => failure,
            Err(next) => return Round::Over(next),
        };
        if at.is_none() {
            return self.report(key, &failure).await;
        }
        self.record_failure(key, meta, Failure { at, ..failure })
    }

    /// Who may not write what has happened cannot say so: what is denied, or refused for good, waits for the resync.
    fn status_not_written(&self, key: &Key, error: &ApiError) -> Next {
        if !matches!(class(error), Class::Denied | Class::Invalid) {
            return self.back_off(key, error);
        }
        let why = error.unquoted();
        tracing::warn!(object = %key, controller = R::NAME, why, "what has happened cannot be written into its status");
        let until = later(self.now(), self.resync);
        self.state().streaks.entry(key.clone()).or_default().closed = Some(until);
        Next { again_at: Some(until), failed: true, ..Next::default() }
    }

    /// What a plan is made of could not be read.
    pub(super) async fn observe_failed(&self, key: &Key, error: &ApiError) -> Round {
        self.record_error(class(error));
        let code = error.code.map_or_else(String::new, |code| format!(" ({code})"));
        let said = |reason| match reason {
            FORBIDDEN => "the operator may not read what belongs to the object; check its role".to_owned(),
            _ => format!("what belongs to the object cannot be read{code}; tried again"),
        };
        match self.classify(key, error, said) {
            Ok(failure) => self.report(key, &failure).await,
            Err(next) => {
                let why = error.unquoted();
                tracing::warn!(object = %key, controller = R::NAME, why, "the object cannot be read now");
                Round::Over(next)
            }
        }
    }

    /// What an error leads to: a failure to be reported, or another try before that.
    fn classify(&self, key: &Key, error: &ApiError, said: impl Fn(&'static str) -> String) -> Result<Failure, Next> {
        let now = self.now();
        let failure = |reason, until| Ok(Failure { reason, message: said(reason), at: None, until });
        let next = self.back_off(key, error);
        match refusal(error) {
            Some(reason) => failure(reason, next.again_at.map(|at| later(now, at.since(now)))),
            None if self.state().streaks.get(key).is_some_and(|streak| streak.failures > TRIES) => {
                failure(RETRIES, Some(later(now, self.resync)))
            }
            None => Err(next),
        }
    }

    /// Records a failure: the next round reports it, and then waits.
    fn record_failure(&self, key: &Key, meta: &Meta, failure: Failure) -> Round {
        let spec_version = (meta.uid.clone(), meta.generation);
        self.state().streaks.entry(key.clone()).or_default().last_failure = Some((spec_version, failure));
        Round::Failed
    }

    /// Leaves an object alone: until a time where only that removes what is wrong, or until its spec is another where nothing
    /// else does.
    fn leave(&self, key: &Key, failure: &Failure) {
        let mut state = self.state();
        let spec_version = state.objects.get(key).and_then(super::spec_version);
        let streak = state.streaks.entry(key.clone()).or_default();
        if failure.reason == FORBIDDEN {
            streak.closed = failure.until;
        }
        if failure.until.is_none() {
            streak.stopped = spec_version;
        }
    }

    /// Says in the status what is wrong, where no plan can.
    async fn report(&self, key: &Key, failure: &Failure) -> Round {
        self.leave(key, failure);
        let over = Round::Over(Next { again_at: failure.until, failed: true, ..Next::default() });
        // One that cannot be read itself says nothing.
        let Ok(object) = self.api.send(&Request::get(R::KIND, &key.namespace, &key.name)).await else { return over };
        let meta = Meta::of(&object);
        let plan = R::failure_plan(&object, failure, self.now());
        let effect_writer = self.effect_writer(&meta);
        for effect in &plan.effects {
            match effect_writer.write(effect).await {
                Ok(answer) => {
                    self.record_answer(key, effect, answer.as_ref());
                    self.record_done(key, &plan, effect);
                }
                Err(failure) => tracing::debug!(object = %key, ?failure, "the problem cannot be reported"),
            }
        }
        over
    }

    /// An invariant does not hold: this object is left alone until its spec is another, and says so.
    pub(super) async fn stop(&self, key: &Key) -> Next {
        tracing::error!(object = %key, controller = R::NAME, "an invariant is broken; the object is left alone");
        self.record_error(Class::Fatal);
        let message = "the operator found an unexpected state and does not touch the object; see its log, then change the spec or restart the operator";
        let failure = Failure { reason: BROKEN, message: message.to_owned(), at: None, until: None };
        // Saying so may be what is broken.
        if AssertUnwindSafe(self.report(key, &failure)).catch_unwind().await.is_err() {
            tracing::error!(object = %key, controller = R::NAME, "the broken invariant cannot be reported either");
        }
        Next { failed: true, ..Next::default() }
    }

    /// Whether an object was stopped and its spec is the same still.
    pub(super) fn is_stopped(&self, key: &Key) -> bool {
        let state = self.state();
        let stopped = state.streaks.get(key).and_then(|streak| streak.stopped.as_ref());
        stopped.is_some_and(|stopped| state.objects.get(key).and_then(super::spec_version).as_ref() == Some(stopped))
    }

    /// Something has happened around these objects: what was tried too often is tried again.
    pub(super) fn allow_retry(&self, keys: Vec<Key>) -> Vec<Key> {
        let mut state = self.state();
        for key in &keys {
            let Some(streak) = state.streaks.get_mut(key) else { continue };
            streak.last_failure.take_if(|(_, failure)| failure.reason == RETRIES);
        }
        drop(state);
        keys
    }

    /// Whether a conflict is tried again at once.
    fn retries_at_once(&self, key: &Key) -> bool {
        let mut state = self.state();
        let streak = state.streaks.entry(key.clone()).or_default();
        streak.conflicts = streak.conflicts.saturating_add(1);
        streak.conflicts <= CONFLICTS
    }

    /// Backs off: 1 s · 2ᵏ, a fifth more or less, five minutes at most, and no less than the server asks for. What is refused or
    /// denied is tried each minute: rights and policies change without a sign.
    fn back_off(&self, key: &Key, error: &ApiError) -> Next {
        let mut state = self.state();
        let streak = state.streaks.entry(key.clone()).or_default();
        let refused = matches!(class(error), Class::Denied | Class::Invalid);
        let most = Duration::from_secs(if refused { 60 } else { 300 });
        let backoff = Backoff {
            base: Duration::from_millis(800),
            ceiling: Some(most * 4 / 5),
            jitter: 0.5,
            ..Backoff::default()
        };
        let drawn = fraction(&[&key.to_string(), &streak.failures.to_string()]);
        let delay = backoff.delay(streak.failures, drawn).min(most);
        streak.failures = streak.failures.saturating_add(1);
        let now = self.now();
        if let Some(wait) = error.retry_after {
            // Not for anything that happens meanwhile either.
            streak.closed = Some(now.plus(wait));
        }
        Next {
            again_at: Some(now.plus(delay.max(error.retry_after.unwrap_or_default()))),
            failed: true,
            ..Next::default()
        }
    }

    fn record_error(&self, class: Class) {
        self.monitor.record(ControllerEvent::RequestFailed { class });
    }
}

/// Why the server has refused something, as conditions have it; none where it has only failed.
fn refusal(error: &ApiError) -> Option<&'static str> {
    match class(error) {
        Class::Capacity => Some(QUOTA),
        Class::Denied if error.lacks_right() => Some(FORBIDDEN),
        Class::Denied | Class::Invalid => Some(ADMISSION),
        _ => None,
    }
}

/// What an error is to these controllers: whom the server does not know is refused like one who has no right.
fn class(error: &ApiError) -> Class {
    if error.code == Some(401) { Class::Denied } else { error.class() }
}

/// Whether another client has changed what was planned on. A namespace that goes takes nothing new, however often it is asked.
fn is_conflict(error: &ApiError) -> bool {
    matches!(error.class(), Class::Conflict | Class::NotFound | Class::Exists) && !error.namespace_is_going()
}
