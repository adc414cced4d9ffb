//! Events for people. Owns their form; the same notice gives the same name, so that it is created once.

use orlop_core::effect::FlowNotice;
use orlop_core::name::{Parts, bounded, sha256_hex};
use orlop_core::ports::substrate::FlowOwner;
use orlop_core::spec::flow::{API_VERSION, KIND};
use orlop_core::spec::meta::ObjectReference;
use orlop_core::time::Time;
use serde_json::{Value, json};

/// Who reports.
const REPORTER: &str = "workflow.kube-zen.io/orlop-operator";
/// The longest note of an event, in bytes: what the API server counts.
const NOTE_MAX: usize = 1024;
/// The longest object name, in characters.
const NAME_MAX: usize = 253;

/// What an event is about, and what it says.
pub(crate) struct Subject<'a> {
    /// Group and version, and kind.
    pub(crate) of: (&'a str, &'a str),
    /// Its namespace.
    pub(crate) namespace: &'a str,
    /// Its name.
    pub(crate) name: &'a str,
    /// Its uid.
    pub(crate) uid: &'a str,
    /// Which controller reports.
    pub(crate) reporter: &'a str,
    /// Whether it is a warning.
    pub(crate) warning: bool,
    /// Why, in one word.
    pub(crate) reason: &'a str,
    /// Why, in a sentence.
    pub(crate) message: &'a str,
}

/// An event of a flow that is to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingEvent {
    /// What it says.
    pub notice: FlowNotice,
    /// What the event is named after: the same one is published once.
    pub key: String,
    /// How often it happened.
    pub count: u32,
}

/// An event about an object. The same subject and key give the same name, so that it is created once.
pub(crate) fn about(subject: Subject<'_>, key: &str, now: Time, instance: &str) -> Value {
    let Subject { of: (version, kind), namespace, name, uid, reporter, warning, reason, message } = subject;
    let suffix = format!(".{}", sha256_hex(format!("{uid}/{key}").as_bytes(), 16));
    let event_name = bounded(Parts { flow: name, part: "event", suffix: &suffix }, NAME_MAX);
    json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": event_name, "namespace": namespace},
        "eventTime": micros(now),
        "reportingController": reporter,
        "reportingInstance": instance,
        "action": reason,
        "reason": reason,
        "type": if warning { "Warning" } else { "Normal" },
        "note": cut(message),
        "regarding": {"apiVersion": version, "kind": kind, "name": name, "namespace": namespace, "uid": uid},
    })
}

/// As much of a text as a note may hold, in whole characters.
fn cut(text: &str) -> &str {
    let end = (0..=NOTE_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or_default()).unwrap_or_default()
}

/// A pending event as an object: regarding the flow, related to the Job. `instance` is the reporting process.
#[must_use]
pub fn event(
    owner: &FlowOwner,
    event: &PendingEvent,
    related: Option<&ObjectReference>,
    now: Time,
    instance: &str,
) -> Value {
    let PendingEvent { notice, key, count } = event;
    let subject = Subject {
        of: (API_VERSION, KIND),
        namespace: &owner.namespace,
        name: &owner.name,
        uid: &owner.uid,
        reporter: REPORTER,
        warning: notice.warning,
        reason: &notice.reason,
        message: &notice.message,
    };
    let mut event = about(subject, key, now, instance);
    let Some(members) = event.as_object_mut() else { return event };
    if let Some(related) = related {
        members.insert("related".to_owned(), json!(related));
    }
    // A series of one is none.
    if *count > 1 {
        members.insert("series".to_owned(), json!({"count": count, "lastObservedTime": micros(now)}));
    }
    event
}

/// RFC 3339 with microseconds, as the API wants it.
pub(crate) fn micros(time: Time) -> String {
    let millis = time.millis().rem_euclid(1000);
    let text = time.whole_seconds().to_string();
    format!("{}.{millis:03}000Z", text.trim_end_matches('Z'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_cut_to_what_the_server_takes_in_bytes() {
        for (character, kept) in [("a", 1024), ("ä", 512), ("€", 341), ("𝄞", 256)] {
            let note = cut(&character.repeat(1_024)).to_owned();
            assert_eq!((note.chars().count(), note.len() <= 1_024), (kept, true), "{character}");
        }
        assert_eq!(cut("short"), "short");
    }

    #[test]
    fn events_are_named_by_their_key() {
        let owner = FlowOwner { uid: "u1".into(), name: "etl".into(), namespace: "default".into() };
        let notice =
            FlowNotice { warning: true, reason: "StepFailed".into(), message: "m".into(), at: None, attempt: 1 };
        let make = |key: &str, count| {
            let event = PendingEvent { notice: notice.clone(), key: key.to_owned(), count };
            super::event(&owner, &event, None, Time::from_millis(1_795_300_000_250), "pod-1")
        };
        let made = |key: &str| make(key, 1);
        insta::assert_snapshot!(made("0/1/StepFailed"), @r#"{"action":"StepFailed","apiVersion":"events.k8s.io/v1","eventTime":"2026-11-21T22:26:40.250000Z","kind":"Event","metadata":{"name":"etl-event.93e0b0b701fcd967","namespace":"default"},"note":"m","reason":"StepFailed","regarding":{"apiVersion":"workflow.kube-zen.io/v1alpha1","kind":"JobFlow","name":"etl","namespace":"default","uid":"u1"},"reportingController":"workflow.kube-zen.io/orlop-operator","reportingInstance":"pod-1","type":"Warning"}"#);
        let often = make("k", 7);
        insta::assert_snapshot!(often["series"], @r#"{"count":7,"lastObservedTime":"2026-11-21T22:26:40.250000Z"}"#);
        assert_eq!(made("a")["metadata"]["name"], made("a")["metadata"]["name"]);
        assert_ne!(made("a")["metadata"]["name"], made("b")["metadata"]["name"]);
    }
}
