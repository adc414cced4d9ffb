//! Events of a controller for metrics, and the messages about failures in conditions and events.

use std::time::Duration;

use orlop_core::error::Class;
use orlop_core::spec::status::cut_message;
use orlop_core::time::Time;
use serde_json::Value;

use super::plan::{ADMISSION, Effect, FORBIDDEN, QUOTA, Step};
use crate::api::{ApiError, Kind};
use crate::shell::{Key, LoopEvent};

/// Something that has happened in a controller, for metrics and logs.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ControllerEvent<'a> {
    /// Something has happened in the loop.
    Loop(LoopEvent<'a>),
    /// A request of a pass failed.
    RequestFailed {
        /// Of which kind.
        class: Class,
    },
    /// An object was read.
    Observed {
        /// Which object.
        key: &'a Key,
        /// When it was created.
        created_at: Option<Time>,
        /// Its status, as it is stored.
        status: &'a Value,
    },
    /// An object made a transition of its lifecycle.
    Transitioned {
        /// Which object.
        key: &'a Key,
        /// Which step.
        step: &'a Step,
    },
    /// Nothing is kept of an object any more.
    Forgotten {
        /// Which object.
        key: &'a Key,
    },
}

/// Receives the events of a controller.
pub trait Monitor: Send + Sync {
    /// Time since any fixed moment, by a steady clock. One that stands still measures no durations.
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    /// Something has happened.
    fn record(&self, event: ControllerEvent<'_>);
}

/// Ignores all events.
impl Monitor for () {
    fn record(&self, _event: ControllerEvent<'_>) {}
}

/// What an effect does to a child, as rights have it.
fn verb(effect: &Effect) -> &'static str {
    match effect {
        Effect::Create(..) | Effect::RecordEvent(_) => "create",
        Effect::Delete { .. } => "delete",
        _ => "patch",
    }
}

/// A sentence that is the same every time the same thing happens. The server's own words are part of it where they say why
/// it refuses something, but for a Secret: they may quote it.
pub(super) fn sentence(reason: &str, effect: &Effect, error: &ApiError) -> String {
    let at = effect.child();
    let child = at.as_ref().map_or_else(|| "the object".to_owned(), |at| format!("{} `{}`", at.kind.name(), at.name));
    let code = error.code.map_or_else(String::new, |code| format!(" ({code})"));
    match reason {
        QUOTA => format!("{child} does not fit the quota of the namespace; raise it or free some of it"),
        FORBIDDEN => {
            let resource = at.map_or("objects of this kind", |at| at.kind.plural());
            format!("the operator may not {} {resource}: {child}; check its role", verb(effect))
        }
        ADMISSION if error.message.is_empty() || at.is_none_or(|at| at.kind == Kind::Secret) => {
            format!("the API server refuses {child}{code}; tried again")
        }
        ADMISSION => cut_message(&format!("the API server refuses {child}{code}: {}", error.message)),
        _ => format!("{child} cannot be written{code}; tried again"),
    }
}
