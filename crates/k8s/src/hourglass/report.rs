//! The status of an object whose plan cannot be made or carried out: what was there before, and the failure; the same for every
//! kind.

use orlop_core::machine::{Machine, Named, NoGuard};
use orlop_core::time::Time;
use serde_json::{Value, json};

use super::children::{Meta, lifecycle_path};
use super::condition::{NewCondition, of, updated};
use super::plan::{Effect, Failure, Notice, Plan};
use super::spec::{Condition, Retry};
use crate::value::word;

/// What a kind adds to a report.
pub(crate) struct Report<'m, S: Named, E: Named> {
    /// Its lifecycle.
    pub(crate) machine: &'m Machine<S, E, NoGuard>,
    /// The state that tells of a failure, and the phase it shows as.
    pub(crate) failed: (S, &'static str),
    /// Whether it goes on with what it does, whatever is wrong.
    pub(crate) goes_on: bool,
    /// What is said of sides of which nothing was said before, but `Degraded`.
    pub(crate) missing: Vec<NewCondition>,
}

impl<S: Named, E: Named> Report<'_, S, E> {
    /// The status that says it; nothing where it says so already.
    pub(crate) fn plan(self, object: &Value, failure: &Failure, now: Time) -> Plan {
        let meta = Meta::of(object);
        let mut status = object.get("status").filter(|status| status.is_object()).cloned().unwrap_or_else(|| json!({}));
        let list = status.get("conditions").cloned().unwrap_or_else(|| json!([]));
        // What cannot be read is not written over.
        let Ok(before) = serde_json::from_value::<Vec<Condition>>(list) else { return Plan::default() };
        let stored = status.clone();
        let (failed, phase) = self.failed;
        let state = S::from_name(word(&status, "/state"));
        let path = lifecycle_path(self.machine, state, Some(failed)).filter(|_| !self.goes_on).unwrap_or_default();
        if !self.goes_on {
            status["state"] = json!(failed.as_str());
            status["phase"] = json!(phase);
        }
        let retry = status.get("retry").and_then(|retry| serde_json::from_value::<Retry>(retry.clone()).ok());
        if let Some(retry) = failure.retry(retry.as_ref()) {
            status["retry"] = json!(retry);
        }
        let wrong = vec![
            NewCondition::no("Ready", failure.reason, &failure.message),
            NewCondition::yes("Degraded", failure.reason, &failure.message),
        ];
        status["conditions"] = json!(updated(&before, self.missing, wrong, meta.generation, now));
        if status == stored {
            return Plan::default();
        }
        let mut effects = Vec::new();
        if of(&before, "Degraded").is_none_or(|known| known.reason != failure.reason) {
            effects.push(Effect::RecordEvent(Notice::warning(failure.reason, &failure.message, meta.generation)));
        }
        effects.push(Effect::WriteStatus(status));
        Plan { effects, path, ..Plan::default() }
    }
}
