//! Events for people (section 5.2). Owns their form; the same notice gives the same name, so that it is created once.

use orlop_core::effect::FlowNotice;
use orlop_core::name::{Parts, bounded, sha256_hex};
use orlop_core::ports::substrate::FlowOwner;
use orlop_core::spec::flow::{API_VERSION, KIND};
use orlop_core::spec::meta::ObjectReference;
use orlop_core::time::Time;
use serde_json::{Value, json};

/// Who reports.
const REPORTER: &str = "workflow.kube-zen.io/orlop-operator";
/// The longest note of an event, in characters.
const NOTE_MAX: usize = 1024;
/// The longest object name, in characters.
const NAME_MAX: usize = 253;

/// The event of a notice: regarding the flow, related to the Job. `key` is the notice's idempotency key, `count` how
/// often it happened and `instance` the reporting process.
#[must_use]
pub fn event(
    owner: &FlowOwner,
    (notice, key, count): (&FlowNotice, &str, u32),
    related: Option<&ObjectReference>,
    (now, instance): (Time, &str),
) -> Value {
    let suffix = format!(".{}", sha256_hex(format!("{}/{key}", owner.uid).as_bytes(), 16));
    let name = bounded(Parts { flow: &owner.name, part: "event", suffix: &suffix }, NAME_MAX);
    let regarding = json!({
        "apiVersion": API_VERSION, "kind": KIND, "name": owner.name, "namespace": owner.namespace, "uid": owner.uid,
    });
    let mut event = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": owner.namespace},
        "eventTime": micros(now),
        "reportingController": REPORTER,
        "reportingInstance": instance,
        "action": notice.reason,
        "reason": notice.reason,
        "type": if notice.warning { "Warning" } else { "Normal" },
        "note": notice.message.chars().take(NOTE_MAX).collect::<String>(),
        "regarding": regarding,
    });
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
