//! Publishing events of the fleet to listeners. Owns the contract of the bus and the form of its subjects; publishes nothing
//! itself.
//!
//! Events are published in order, once what caused them is stored. A bus within the process keeps the newest in a ring and stores
//! nothing; a bus outside gets them from the store's outbox, at least once, in the order of their ids.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::Problem;

/// What every subject begins with.
pub const SUBJECT_ROOT: &str = "orlop.events.";
/// The longest body of an event, in bytes.
pub const MAX_BODY: usize = 64 << 10;
/// Events that an in-process bus keeps for those who listen.
pub const RING: usize = 65_536;

/// An event as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusEvent {
    /// Its number, which grows in the order of publication. A listener that gets a number again drops the event.
    pub id: u64,
    /// Full subject, such as `orlop.events.job.created`.
    pub subject: Cow<'static, str>,
    /// JSON, at most [`MAX_BODY`] bytes; never holds log text or a secret.
    pub body: Box<str>,
}

/// What the body of an event holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EventBody {
    /// Number of the event, as text because some JSON readers round numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Subject without its root, such as `job.created`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Time of the event, in RFC 3339 form.
    pub time: String,
    /// Tenant it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Id of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Index of the element, where the job is an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// Number of the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Epoch of the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// Id of the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Correlation id of the request that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// W3C trace context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Further members, by the kind of the event.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub data: serde_json::Value,
}

/// Which subjects a listener gets: words joined by `.`, where `*` stands for one word and a final `>` for one or more.
///
/// ```
/// use orlop_core::ports::bus::SubjectFilter;
/// let jobs = SubjectFilter::new("orlop.events.job.*")?;
/// assert!(jobs.passes("orlop.events.job.created") && !jobs.passes("orlop.events.worker.lost"));
/// assert!(SubjectFilter::new("orlop.>.created").is_err());
/// # Ok::<(), orlop_core::ports::bus::BadFilter>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectFilter(String);

/// A text that is not a pattern of subjects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a subject filter; use words joined by `.`, `*` for one word, a final `>` for the rest")]
pub struct BadFilter(String);

impl SubjectFilter {
    /// Every event.
    #[must_use]
    pub fn all() -> Self {
        Self(format!("{SUBJECT_ROOT}>"))
    }

    /// The filter of a pattern of full subjects.
    ///
    /// # Errors
    /// The pattern has an empty word, a blank, or a `>` that is not its end.
    pub fn new(pattern: &str) -> Result<Self, BadFilter> {
        let words: Vec<&str> = pattern.split('.').collect();
        let good = words.iter().zip(1..).all(|(word, number)| {
            let whole = matches!(*word, "*" | ">");
            let plain = !word.is_empty() && !word.contains(['*', '>', ' ', '\t', '\r', '\n']);
            (plain || whole) && (*word != ">" || number == words.len())
        });
        if good && pattern.len() <= 256 {
            Ok(Self(pattern.to_owned()))
        } else {
            Err(BadFilter(pattern.chars().take(64).collect()))
        }
    }

    /// The pattern.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a subject passes.
    #[must_use]
    pub fn passes(&self, subject: &str) -> bool {
        let mut words = subject.split('.');
        for pattern in self.0.split('.') {
            match (pattern, words.next()) {
                (_, None) => return false,
                (">", Some(_)) => return true,
                ("*", Some(_)) => {}
                (pattern, Some(word)) if pattern == word => {}
                _ => return false,
            }
        }
        words.next().is_none()
    }
}

impl fmt::Display for SubjectFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a subscription gives its listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// An event.
    Event(Arc<BusEvent>),
    /// The listener was too slow and has missed events; the next one has this number or a greater one. It should read the state
    /// again.
    Lagged {
        /// Number from which it goes on.
        from: u64,
    },
}

/// Events as one listener gets them.
#[async_trait]
pub trait Subscription: Send {
    /// The next event, as soon as there is one; none when the bus has ended. Dropping the future loses nothing.
    async fn next(&mut self) -> Option<Delivery>;
}

/// A bus of events.
#[async_trait]
pub trait EventBus: Send + Sync {
    /// Publishes events in their order, which is that of their ids. A bus with an outbox of its own has them on their way
    /// when this returns, another has delivered them.
    ///
    /// # Errors
    /// Invalid when a body is too long or a subject is not below [`SUBJECT_ROOT`]; Transient when the bus cannot be reached:
    /// publish the same events again.
    async fn publish(&self, events: Vec<BusEvent>) -> Result<(), Problem>;

    /// Listens from now on.
    ///
    /// # Errors
    /// Transient when the bus cannot be reached; Capacity when too many listen.
    async fn subscribe(&self, filter: SubjectFilter) -> Result<Box<dyn Subscription>, Problem>;
}

/// Refuses events that no bus takes.
///
/// # Errors
/// As of [`EventBus::publish`].
pub fn check_events(events: &[BusEvent]) -> Result<(), Problem> {
    use crate::error::Class;
    for event in events {
        let BusEvent { id, subject, body } = event;
        if body.len() > MAX_BODY {
            let message = format!("event {id} ({subject}) has {} bytes, at most {MAX_BODY} are allowed", body.len());
            return Err(Problem::new(Class::Invalid, message));
        }
        let plain =
            !subject.contains(['*', '>', ' ', '\t', '\r', '\n']) && subject.split('.').all(|word| !word.is_empty());
        if !subject.starts_with(SUBJECT_ROOT) || !plain {
            let message = format!("event {id} has the subject `{subject}`, which is not below `{SUBJECT_ROOT}`");
            return Err(Problem::new(Class::Invalid, message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_pass_the_subjects_they_mean() {
        let passes = |pattern: &str, subject: &str| SubjectFilter::new(pattern).unwrap().passes(subject);
        assert!(passes("orlop.events.>", "orlop.events.job.created"));
        assert!(passes("orlop.events.*.created", "orlop.events.job.created"));
        assert!(passes("orlop.events.job.created", "orlop.events.job.created"));
        assert!(!passes("orlop.events.job.*", "orlop.events.job.created.more"));
        assert!(!passes("orlop.events.>", "orlop.events"));
        assert!(!passes("orlop.events.job.*", "orlop.events.job"));
        assert!(SubjectFilter::all().passes("orlop.events.log.chunk"));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for bad in ["", "a..b", "a.>.b", "a b", "a*", ".", "a.", &"a".repeat(300)] {
            assert!(SubjectFilter::new(bad).is_err(), "{bad:?}");
        }
        insta::assert_snapshot!(SubjectFilter::new("a..b").unwrap_err(), @"`a..b` is not a subject filter; use words joined by `.`, `*` for one word, a final `>` for the rest");
    }

    #[test]
    fn an_event_that_no_bus_takes_is_refused() {
        let event =
            |subject: &'static str, size| BusEvent { id: 1, subject: subject.into(), body: "x".repeat(size).into() };
        assert!(check_events(&[event("orlop.events.job.created", MAX_BODY)]).is_ok());
        assert!(check_events(&[event("orlop.events.job.created", MAX_BODY + 1)]).is_err());
        insta::assert_snapshot!(check_events(&[event("job.created", 1)]).unwrap_err(), @"event 1 has the subject `job.created`, which is not below `orlop.events.`");
        assert!(check_events(&[event("orlop.events.job..x", 1)]).is_err());
    }
}
