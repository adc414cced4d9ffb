//! What the server has stored for what was applied: admission may change a write. That result counts as applied, so that a child is
//! not written again without end.

use std::collections::BTreeMap;
use std::time::Duration;

use orlop_core::name::sha256_hex;
use orlop_core::time::Time;
use serde_json::Value;

use super::condition::{NewCondition, of};
use super::spec::Condition;
use super::{APPLIED_HASH, MANAGER, drift};
use crate::api::Kind;
use crate::value::{canonical, text, texts, word};

/// The least time between two repairs of a child.
const PAUSE: Duration = Duration::from_secs(60);
/// So many repairs of a child within this time mean that another client keeps changing it.
const MANY: usize = 3;
const WHILE: Duration = Duration::from_secs(600);

/// What was applied to the children of one object, and what the server has stored, by uid of the child.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastApplied(BTreeMap<String, AppliedChild>);

/// What was applied to one child.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct AppliedChild {
    /// The hash of what was applied.
    applied: Option<String>,
    /// What came of it, where the server has made something else of it.
    digest: Option<String>,
    /// When the same was applied again, because another client had changed the child; the last ones.
    repairs: Vec<Time>,
}

impl AppliedChild {
    /// Before when it is not repaired again.
    fn rests_until(&self) -> Option<Time> {
        Some(self.repairs.last()?.plus(PAUSE))
    }
}

/// A child as it is and as it is wanted.
#[derive(Clone, Copy)]
pub struct Child<'v> {
    /// Its kind.
    pub kind: Kind,
    /// As it is.
    pub live: &'v Value,
    /// As it is wanted.
    pub wanted: &'v Value,
}

impl LastApplied {
    /// What is known of a child, where the same was applied to it that is wanted now.
    fn child(&self, live: &Value, wanted: &Value) -> Option<&AppliedChild> {
        self.0.get(&text(live, "/metadata/uid")).filter(|child| child.applied == applied(wanted))
    }

    /// Whether another client has changed a child: it differs from what is rendered by more than admission has changed.
    #[must_use]
    pub fn is_changed(&self, live: &Value, wanted: &Value) -> bool {
        let child = || self.child(live, wanted).and_then(|child| child.digest.as_ref());
        drift::differs(live, wanted) && child().is_none_or(|child| *child != digest(live))
    }

    /// Whether a child is to be written now. One that another client changes is put back at once, and then once a minute at most.
    #[must_use]
    pub fn differs(&self, live: &Value, wanted: &Value, now: Time) -> bool {
        let rests = || self.child(live, wanted).and_then(AppliedChild::rests_until).is_some_and(|until| now < until);
        self.is_changed(live, wanted) && !rests()
    }

    /// When a child that was changed again is to be put back.
    #[must_use]
    pub fn due(&self, live: &Value, wanted: &Value) -> Option<Time> {
        self.child(live, wanted).and_then(AppliedChild::rests_until).filter(|_| self.is_changed(live, wanted))
    }

    /// The condition `Contended`: whether another client keeps changing one of these children, and which field.
    #[must_use]
    pub fn contended(&self, children: &[Child<'_>], before: &[Condition], now: Time) -> NewCondition {
        const KIND: &str = "Contended";
        let known = of(before, KIND).filter(|known| known.status == "True");
        for Child { kind, live, wanted } in children {
            let Some(child) = self.child(live, wanted) else { continue };
            let changed = self.is_changed(live, wanted);
            let recent = child.repairs.iter().filter(|at| at.plus(WHILE) > now).count();
            if recent + usize::from(changed) < MANY {
                continue;
            }
            let child = format!("{} `{}`", kind.name(), word(live, "/metadata/name"));
            let message = match drift::difference(live, wanted).filter(|_| changed) {
                Some(field) => {
                    let by = writer(live).map(|by| format!(", by {by}")).unwrap_or_default();
                    format!("{child} keeps being changed: {field}{by}; it is restored at most once a minute")
                }
                None => known.map_or_else(|| format!("{child} keeps being changed"), |known| known.message.clone()),
            };
            return NewCondition::yes(KIND, "FieldRewritten", message);
        }
        NewCondition::no(KIND, "AsExpected", "no other client changes the applied objects")
    }

    /// Takes in the answer to an apply. Gives whether the server has made something else of it than before.
    pub(super) fn record(&mut self, wanted: &Value, answer: &Value, now: Time) -> bool {
        let child = self.0.entry(text(answer, "/metadata/uid")).or_default();
        let (applied, before) = (applied(wanted), child.digest.take());
        if child.applied == applied {
            child.repairs.push(now);
            let surplus = child.repairs.len().saturating_sub(MANY);
            child.repairs.drain(..surplus);
        }
        child.applied = applied;
        child.digest = drift::differs(answer, wanted).then(|| digest(answer));
        child.digest.is_some() && child.digest != before
    }
}

/// Who has written an object last, but for this operator.
fn writer(live: &Value) -> Option<&str> {
    let managers = live.pointer("/metadata/managedFields")?.as_array()?;
    let others = managers.iter().filter(|entry| ![MANAGER, ""].contains(&word(entry, "/manager")));
    others.max_by_key(|entry| word(entry, "/time")).map(|entry| word(entry, "/manager"))
}

fn applied(wanted: &Value) -> Option<String> {
    texts(wanted, "/metadata/annotations").remove(APPLIED_HASH)
}

/// An object without what changes by itself.
fn digest(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        ["resourceVersion", "managedFields", "generation"].iter().for_each(|name| drop(metadata.remove(*name)));
        // The Deployment controller counts its revisions there.
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("deployment.kubernetes.io/revision");
        }
    }
    sha256_hex(canonical(&object).as_bytes(), 32)
}
