//! Events of objects. The same notice about the same object is one event, by its name.

use orlop_core::time::Time;
use serde_json::Value;

use super::children::Meta;
use super::plan::Notice;
use super::{API_VERSION, Config};
use crate::api::Kind;
use crate::render::{Subject, about};

/// Who reports.
const REPORTER: &str = "hourglass.eigenlayer.io/orlop-operator";

/// The event of a notice about an object.
#[must_use]
pub fn event(kind: Kind, meta: &Meta, notice: &Notice, config: &Config, now: Time) -> Value {
    let subject = Subject {
        of: (API_VERSION, kind.name()),
        namespace: &meta.namespace,
        name: &meta.name,
        uid: &meta.uid,
        reporter: REPORTER,
        warning: notice.warning,
        reason: notice.reason,
        message: &notice.message,
    };
    let key = format!("{}/{}", notice.reason, notice.about);
    about(subject, &key, now, &config.instance)
}
