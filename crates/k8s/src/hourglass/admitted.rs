//! What the server makes of what is applied: admission may change a write. What it has made of one counts as done, so that it is
//! not applied again without end. Owns that memory of one object's children; writes nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use orlop_core::name::sha256_hex;
use orlop_core::time::Time;
use serde_json::Value;

use super::APPLIED_HASH;
use super::drift;
use crate::value::{canonical, text, texts};

/// The least time between two writes of a child that somebody changes each time.
const PAUSE: Duration = Duration::from_secs(60);

/// Children that the server has made something else of, by their uids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admitted(BTreeMap<String, Made>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Made {
    /// The hash of what was applied.
    applied: Option<String>,
    /// What came of it.
    digest: String,
    at: Time,
}

impl Admitted {
    /// Whether a child is to be written: it differs from what is rendered, and not only by what the server made of that. One that
    /// somebody else changes after each write is left alone for a minute.
    #[must_use]
    pub fn differs(&self, live: &Value, wanted: &Value, now: Time) -> bool {
        if !drift::differs(live, wanted) {
            return false;
        }
        let made = self.0.get(&text(live, "/metadata/uid")).filter(|made| made.applied == applied(wanted));
        made.is_none_or(|made| made.digest != digest(live) && now >= made.at.plus(PAUSE))
    }

    /// Takes in the answer to an apply. Gives whether the server has made something else of it than before.
    pub(super) fn take(&mut self, wanted: &Value, answer: &Value, now: Time) -> bool {
        let uid = text(answer, "/metadata/uid");
        if !drift::differs(answer, wanted) {
            self.0.remove(&uid);
            return false;
        }
        let made = Made { applied: applied(wanted), digest: digest(answer), at: now };
        let before = self.0.insert(uid, made.clone());
        before.is_none_or(|before| before.digest != made.digest)
    }
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
