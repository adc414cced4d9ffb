//! Requests that take effect once: the answer of a POST under an idempotency key is kept for a day and given again to who
//! repeats it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use orlop_core::error::{Code, Problem};
use orlop_core::ports::fleet_store::{IdempotencyKey, IdempotencyRecord, Record, SpecHash};
use serde_json::{Value, json};

use super::auth::Concern;
use super::call::Call;
use super::reply::{Answer, Reply};
use super::route::{Repeat, Route};
use super::state::{Api, store};

/// How long an answer is kept.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// Requests under way, by their keys.
#[derive(Debug, Default)]
pub(super) struct Replays {
    busy: Mutex<HashSet<IdempotencyKey>>,
}

/// Says that a request is under way, until it is dropped.
struct Busy<'a>(&'a Replays, IdempotencyKey);

impl Replays {
    fn begin(&self, key: &IdempotencyKey) -> Option<Busy<'_>> {
        let new = self.busy.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
        new.then(|| Busy(self, key.clone()))
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
    }
}

/// What makes two requests the same: the method with the path, and the body.
pub(super) fn body_hash_of(method: &str, call: &Call) -> [u8; 32] {
    SpecHash::of(&format!("{method} {} {}", call.path, String::from_utf8_lossy(&call.body.bytes))).0
}

impl Api {
    /// Answers a request under a key, or again what was answered.
    pub(super) async fn once(self: &Arc<Self>, route: &'static Route, key: String, call: Call) -> Answer {
        // Whose key it is: two callers may use the same one.
        let name = SpecHash::of(&format!("{} {key}", call.caller.name())).to_string();
        let tenant = call.caller.tenant(None, &self.options.default_tenant);
        let tenant = tenant.unwrap_or_else(|| self.options.default_tenant.clone());
        let key = IdempotencyKey { tenant, key: name };
        let Some(_busy) = self.replays.begin(&key) else {
            return Err(conflict("a request with this idempotency key is still in progress"));
        };
        let hash = body_hash_of(route.method.as_str(), &call);
        let now = self.handle.clock().wall();
        let known = self.handle.store().idempotency(&key, now).await.map_err(|error| store(&error))?;
        if let Some(known) = known {
            return again(&known, hash, &call.concern);
        }
        let concern = call.concern.clone();
        let reply = (route.handler)(Arc::clone(self), call).await?;
        let (status, location, body) = reply.kept();
        let body = if route.repeat == Repeat::Secret { None } else { body };
        let (secret, about) = (route.repeat == Repeat::Secret, concern.tenant());
        let response = json!({ "location": location, "body": body, "secret": secret, "tenant": about });
        let response = response.to_string().into();
        let record = IdempotencyRecord { key, body_hash: hash, status, response, expires_at: now.plus(KEPT) };
        self.write(vec![Record::Idempotency(Box::new(record))]).await?;
        Ok(reply)
    }
}

fn conflict(text: &str) -> Problem {
    Problem::coded(Code::Conflict, text)
}

fn again(known: &IdempotencyRecord, hash: [u8; 32], concern: &Concern) -> Answer {
    // The key is the caller's own: what was decided for it then holds.
    concern.decide();
    if known.body_hash != hash {
        let text = "this idempotency key was used for another request; use a new one";
        return Err(Problem::coded(Code::IdempotencyMismatch, text));
    }
    let kept: Value = serde_json::from_str(&known.response).unwrap_or_default();
    if let Some(Ok(tenant)) = kept["tenant"].as_str().map(str::parse) {
        concern.is(&tenant);
    }
    if kept["secret"] == Value::Bool(true) {
        return Err(conflict("an earlier request with this key has already done this; its secret is shown only once"));
    }
    let reply = match &kept["body"] {
        Value::Null => Reply::empty(known.status),
        body => Reply::json(known.status, body)?,
    };
    let reply = match kept["location"].as_str() {
        Some(at) => reply.at(at),
        None => reply,
    };
    Ok(reply.replayed())
}
