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

/// What an event is about.
#[derive(Clone, Copy, Debug)]
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
}

/// What people are told: whether it is a warning, why in one word, and a sentence.
pub(crate) type Told<'a> = (bool, &'a str, &'a str);

/// An event about an object. The same subject and key give the same name, so that it is created once.
pub(crate) fn about(
    subject: Subject<'_>,
    (warning, reason, message): Told<'_>,
    key: &str,
    now: Time,
    instance: &str,
) -> Value {
    let Subject { of: (version, kind), namespace, name, uid, reporter } = subject;
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

/// The event of a notice: regarding the flow, related to the Job. `key` is the notice's idempotency key, `count` how
/// often it happened and `instance` the reporting process.
#[must_use]
pub fn event(
    owner: &FlowOwner,
    (notice, key, count): (&FlowNotice, &str, u32),
    related: Option<&ObjectReference>,
    (now, instance): (Time, &str),
) -> Value {
    let subject = Subject {
        of: (API_VERSION, KIND),
        namespace: &owner.namespace,
        name: &owner.name,
        uid: &owner.uid,
        reporter: REPORTER,
    };
    let told = (notice.warning, notice.reason.as_str(), notice.message.as_str());
    let mut event = about(subject, told, key, now, instance);
    let Some(members) = event.as_object_mut() else { return event };
    if let Some(related) = related {
        members.insert("related".to_owned(), json!(related));
    }
    // A series of one is none.
    if count > 1 {
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
        let made = |key: &str| event(&owner, (&notice, key, 1), None, (Time::from_millis(1_795_300_000_250), "pod-1"));
        insta::assert_snapshot!(made("0/1/StepFailed"), @r#"{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"etl-event.93e0b0b701fcd967","namespace":"default"},"eventTime":"2026-11-21T22:26:40.250000Z","reportingController":"workflow.kube-zen.io/orlop-operator","reportingInstance":"pod-1","action":"StepFailed","reason":"StepFailed","type":"Warning","note":"m","regarding":{"apiVersion":"workflow.kube-zen.io/v1alpha1","kind":"JobFlow","name":"etl","namespace":"default","uid":"u1"}}"#);
        let often = event(&owner, (&notice, "k", 7), None, (Time::from_millis(1_795_300_000_250), "pod-1"));
        insta::assert_snapshot!(often["series"], @r#"{"count":7,"lastObservedTime":"2026-11-21T22:26:40.250000Z"}"#);
        assert_eq!(made("a")["metadata"]["name"], made("a")["metadata"]["name"]);
        assert_ne!(made("a")["metadata"]["name"], made("b")["metadata"]["name"]);
    }
}
