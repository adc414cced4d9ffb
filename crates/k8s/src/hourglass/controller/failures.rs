//! What a failure of a pass leads to: again at once, later, or not before something has changed, and what people
//! are told of it. Owns these choices and the waits between tries.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use orlop_core::backoff::{Backoff, fraction};
use orlop_core::error::Class;

use super::{Controller, Reconciler, Round};
use crate::api::{Api, ApiError, Request};
use crate::hourglass::children::Meta;
use crate::hourglass::effect::Failure;
use crate::hourglass::later;
use crate::hourglass::monitor::{Told, sentence, written};
use crate::hourglass::plan::{ADMISSION, BROKEN, CONFLICT, Effect, FORBIDDEN, QUOTA, RETRIES, Trouble};
use crate::shell::{Key, Next};

/// Failures one after another until it is said that they are too many.
const TRIES: u32 = 8;
/// Conflicts one after another that are tried again at once.
const CONFLICTS: u32 = 5;

impl<A: Api, R: Reconciler> Controller<A, R> {
    /// What was planned had no success.
    pub(super) async fn failed(&self, key: &Key, (meta, effect): (&Meta, &Effect), failure: Failure) -> Round {
        let now = self.now();
        let at = written(effect);
        let error = match failure {
            Failure::Foreign(at) => {
                self.note(Class::Exists);
                let message = format!(
                    "{} `{}` exists and belongs to another; delete it or rename this object",
                    at.kind.name(),
                    at.name
                );
                let until = Some(now.plus(CONFLICT));
                return self.trouble(key, meta, Trouble { reason: "Conflict", message, at: Some(at), until });
            }
            Failure::Outdated => ApiError { code: Some(409), ..ApiError::default() },
            Failure::Api(error) => error,
        };
        self.note(class(&error));
        if is_conflict(&error) && self.tries_at_once(key) {
            return Round::Again;
        }
        if at.is_none() && matches!(effect, Effect::WriteStatus(_)) {
            return Round::Over(self.unsaid(key, &error));
        }
        let trouble = match self.judge(key, &error, |reason| sentence(reason, effect, &error)) {
            Ok(trouble) => trouble,
            Err(next) => return Round::Over(next),
        };
        if at.is_none() {
            return self.report(key, &trouble).await;
        }
        self.trouble(key, meta, Trouble { at, ..trouble })
    }

    /// Who may not write what has happened cannot say so: what is denied, or refused for good, waits for the resync.
    fn unsaid(&self, key: &Key, error: &ApiError) -> Next {
        if !matches!(class(error), Class::Denied | Class::Invalid) {
            return self.put_off(key, error);
        }
        let why = error.unquoted();
        tracing::warn!(object = %key, controller = R::NAME, why, "what has happened cannot be written into its status");
        let until = later(self.now(), self.resync);
        self.known().streaks.entry(key.clone()).or_default().closed = Some(until);
        Next { again_at: Some(until), failed: true, ..Next::default() }
    }

    /// What a plan is made of could not be read.
    pub(super) async fn unread(&self, key: &Key, error: &ApiError) -> Round {
        self.note(class(error));
        let code = error.code.map_or_else(String::new, |code| format!(" ({code})"));
        let said = |reason| match reason {
            FORBIDDEN => "the operator may not read what belongs to the object; check its role".to_owned(),
            _ => format!("what belongs to the object cannot be read{code}; tried again"),
        };
        match self.judge(key, error, said) {
            Ok(trouble) => self.report(key, &trouble).await,
            Err(next) => {
                let why = error.unquoted();
                tracing::warn!(object = %key, controller = R::NAME, why, "the object cannot be read now");
                Round::Over(next)
            }
        }
    }

    /// What an error leads to: something people are told, or another try before that.
    fn judge(&self, key: &Key, error: &ApiError, said: impl Fn(&'static str) -> String) -> Result<Trouble, Next> {
        let now = self.now();
        let trouble = |reason, until| Ok(Trouble { reason, message: said(reason), at: None, until });
        let next = self.put_off(key, error);
        match refusal(error) {
            Some(reason) => trouble(reason, next.again_at.map(|at| later(now, at.since(now)))),
            None if self.known().streaks.get(key).is_some_and(|streak| streak.failures > TRIES) => {
                trouble(RETRIES, Some(later(now, self.resync)))
            }
            None => Err(next),
        }
    }

    /// Notes what is wrong, so that the next round says so; once it is said, it is waited for.
    fn trouble(&self, key: &Key, meta: &Meta, trouble: Trouble) -> Round {
        let asked = (meta.uid.clone(), meta.generation);
        self.known().streaks.entry(key.clone()).or_default().trouble = Some((asked, trouble));
        Round::Failed
    }

    /// Leaves an object alone: until a time where only that removes what is wrong, or until its spec is another where nothing
    /// else does.
    fn leave(&self, key: &Key, trouble: &Trouble) {
        let mut known = self.known();
        let asked = known.objects.get(key).and_then(super::asked);
        let streak = known.streaks.entry(key.clone()).or_default();
        if trouble.reason == FORBIDDEN {
            streak.closed = trouble.until;
        }
        if trouble.until.is_none() {
            streak.stopped = asked;
        }
    }

    /// Says in the status what is wrong, where no plan can.
    async fn report(&self, key: &Key, trouble: &Trouble) -> Round {
        self.leave(key, trouble);
        let over = Round::Over(Next { again_at: trouble.until, failed: true, ..Next::default() });
        // One that cannot be read itself says nothing.
        let Ok(object) = self.api.send(&Request::get(R::KIND, &key.namespace, &key.name)).await else { return over };
        let meta = Meta::of(&object);
        let plan = R::report(&object, trouble, self.now());
        let hand = self.hand(&meta);
        for effect in &plan.effects {
            match hand.carry(effect).await {
                Ok(answer) => {
                    self.took(key, effect, answer.as_ref());
                    self.done(key, &plan, effect);
                }
                Err(failure) => tracing::debug!(object = %key, ?failure, "what is wrong is not said"),
            }
        }
        over
    }

    /// An invariant does not hold: this object is left alone until its spec is another, and says so.
    pub(super) async fn stop(&self, key: &Key) -> Next {
        tracing::error!(object = %key, controller = R::NAME, "an invariant is broken; the object is left alone");
        self.note(Class::Fatal);
        let message = "the operator met a state it holds for impossible and leaves the object alone; see its log, then \
                       change the spec or restart the operator";
        let trouble = Trouble { reason: BROKEN, message: message.to_owned(), at: None, until: None };
        // Saying so may be what is broken.
        if AssertUnwindSafe(self.report(key, &trouble)).catch_unwind().await.is_err() {
            tracing::error!(object = %key, controller = R::NAME, "that an invariant is broken cannot be said either");
        }
        Next { failed: true, ..Next::default() }
    }

    /// Whether an object was stopped and its spec is the same still.
    pub(super) fn is_stopped(&self, key: &Key) -> bool {
        let known = self.known();
        let stopped = known.streaks.get(key).and_then(|streak| streak.stopped.as_ref());
        stopped.is_some_and(|stopped| known.objects.get(key).and_then(super::asked).as_ref() == Some(stopped))
    }

    /// Something has happened around these objects: what was tried too often is tried again.
    pub(super) fn freed(&self, keys: Vec<Key>) -> Vec<Key> {
        let mut known = self.known();
        for key in &keys {
            let Some(streak) = known.streaks.get_mut(key) else { continue };
            streak.trouble.take_if(|(_, trouble)| trouble.reason == RETRIES);
        }
        drop(known);
        keys
    }

    /// Whether a conflict is tried again at once.
    fn tries_at_once(&self, key: &Key) -> bool {
        let mut known = self.known();
        let streak = known.streaks.entry(key.clone()).or_default();
        streak.conflicts = streak.conflicts.saturating_add(1);
        streak.conflicts <= CONFLICTS
    }

    /// Backs off: 1 s · 2ᵏ, a fifth more or less, five minutes at most, and no less than the server asks for. What is refused or denied
    /// is tried each minute: rights and policies change without a sign.
    fn put_off(&self, key: &Key, error: &ApiError) -> Next {
        let mut known = self.known();
        let streak = known.streaks.entry(key.clone()).or_default();
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

    fn note(&self, class: Class) {
        self.monitor.told(Told::Failed { class });
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

/// Whether somebody else has changed what was planned on. A namespace that goes takes nothing new, however often it is asked.
fn is_conflict(error: &ApiError) -> bool {
    matches!(error.class(), Class::Conflict | Class::NotFound | Class::Exists) && !error.namespace_is_going()
}
