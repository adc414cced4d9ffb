//! What a substrate's error means for the engine: wait, or never. Owns the mapping by class, never by text.

use std::time::Duration;

use orlop_core::attempt::Address;
use orlop_core::backoff::{Backoff, Growth, fraction};
use orlop_core::error::{Class, Problem};
use orlop_core::event::FlowEvent;
use orlop_core::time::Time;

/// The event for the engine when a start failed: the attempt is delayed or refused, by the class of the error. `delays` is the number
/// of earlier delays of this attempt; the next one is longer.
#[must_use]
pub fn start_failed(at: Address, attempt: u32, error: &Problem, delays: u32, now: Time) -> FlowEvent {
    let message = error.chain();
    if error.class.is_retryable() {
        let (word, wait) = delay(error, delays, &format!("{}/{:?}/{attempt}", at.step.0, at.item));
        let reason = error.reason.unwrap_or(word).to_owned();
        return FlowEvent::AttemptDelayed { at, attempt, reason, message, retry_at: now.plus(wait) };
    }
    let (word, retryable) = refusal(error);
    FlowEvent::AttemptRefused { at, attempt, reason: word.to_owned(), message, retryable }
}

/// The longest pause that a server may ask for.
const LONGEST: Duration = Duration::from_secs(300);

/// How long to wait, and the reason to show: after a request to slow down as long as asked, at most 5 min, without room 5 s to
/// 5 min, else 1 to 60 s, doubling each time, with a tenth of jitter.
fn delay(error: &Problem, delays: u32, key: &str) -> (&'static str, Duration) {
    let (word, base, most) = match error.class {
        Class::Capacity => ("QuotaExceeded", 5, 300),
        _ if error.retry_after.is_some() => ("Throttled", 1, 60),
        _ => ("ApiUnavailable", 1, 60),
    };
    let backoff = Backoff {
        growth: Growth::Exponential,
        base: Duration::from_secs(base),
        ceiling: Some(Duration::from_secs(most)),
        jitter: 0.1,
        ..Backoff::default()
    };
    let wait = backoff.delay(delays, fraction(&[key, &delays.to_string()]));
    (word, error.retry_after.map_or(wait, |asked| asked.min(LONGEST)))
}

/// The reason of a start that can never succeed as it is, and whether the step's retry policy applies to it.
fn refusal(error: &Problem) -> (&'static str, bool) {
    let word = error.reason.unwrap_or(match error.class {
        Class::Denied => "Forbidden",
        Class::Exists => "NameConflict",
        Class::NotFound => "NotFound",
        Class::Fatal => "InternalError",
        _ => "TemplateInvalid",
    });
    // What is missing in a ConfigMap, a Secret, a store or on a disk may be there next time.
    let retryable = match word {
        "ArtifactUnavailable" | "NotFound" => true,
        "ParameterUnresolved" => error.class == Class::NotFound,
        _ => false,
    };
    (word, retryable)
}

/// The event for the engine when the objects of resource templates could not be created; none where it should be tried again.
#[must_use]
pub fn resources_failed(error: &Problem) -> Option<FlowEvent> {
    if error.class.is_retryable() {
        return None;
    }
    let word = error.reason.unwrap_or(match error.class {
        Class::Denied => "Forbidden",
        Class::Invalid => "TemplateInvalid",
        _ => "ResourceConflict",
    });
    Some(FlowEvent::ResourcesFailed { reason: word.to_owned(), message: error.chain() })
}

/// How long to wait before a call that must succeed is made again: 1 s · 2ᵏ, at most 60 s, where k is `tries`.
#[must_use]
pub fn patience(error: &Problem, tries: u32) -> Duration {
    delay(error, tries, "call").1
}

/// The reason, in one word, of an attempt that cannot be created now.
#[must_use]
pub fn shortage(error: &Problem) -> &'static str {
    error.reason.unwrap_or_else(|| delay(error, 0, "call").0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_millis(1000);

    fn answer(error: &Problem, delays: u32) -> FlowEvent {
        start_failed(Address::step(3), 2, error, delays, NOW)
    }

    fn delayed(error: &Problem, delays: u32) -> (String, u64) {
        match answer(error, delays) {
            FlowEvent::AttemptDelayed { reason, retry_at, .. } => (reason, retry_at.since(NOW).as_secs()),
            other => panic!("{other:?}"),
        }
    }

    fn refused(class: Class, reason: Option<&'static str>) -> (String, bool) {
        let error = Problem { reason, ..Problem::new(class, "no") };
        match answer(&error, 0) {
            FlowEvent::AttemptRefused { reason, retryable, .. } => (reason, retryable),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn transient_trouble_waits_one_to_sixty_seconds() {
        let error = Problem::new(Class::Transient, "no answer");
        assert_eq!(delayed(&error, 0), ("ApiUnavailable".into(), 1));
        assert!((8..=9).contains(&delayed(&error, 3).1));
        assert!((60..=66).contains(&delayed(&error, 40).1));
    }

    #[test]
    fn requests_to_wait_are_honoured() {
        let error = Problem::new(Class::Transient, "slow down").retry_after(Duration::from_secs(17));
        assert_eq!(delayed(&error, 5), ("Throttled".into(), 17));
    }

    #[test]
    fn no_room_waits_longer_and_names_its_reason() {
        let error = Problem::new(Class::Capacity, "no CPU left");
        assert_eq!(delayed(&error, 0), ("QuotaExceeded".into(), 5));
        assert!((300..=330).contains(&delayed(&error, 30).1));
        let error = error.with_reason("Queued");
        assert_eq!(delayed(&error, 0).0, "Queued");
    }

    #[test]
    fn the_rest_is_refused_by_class_and_reason() {
        assert_eq!(refused(Class::Invalid, None), ("TemplateInvalid".into(), false));
        assert_eq!(refused(Class::Invalid, Some("Unschedulable")), ("Unschedulable".into(), false));
        assert_eq!(refused(Class::Denied, None), ("Forbidden".into(), false));
        assert_eq!(refused(Class::Exists, None), ("NameConflict".into(), false));
        assert_eq!(refused(Class::NotFound, None), ("NotFound".into(), true));
        assert_eq!(refused(Class::Fatal, None), ("InternalError".into(), false));
        assert_eq!(refused(Class::NotFound, Some("ParameterUnresolved")), ("ParameterUnresolved".into(), true));
        assert_eq!(refused(Class::Invalid, Some("ParameterUnresolved")), ("ParameterUnresolved".into(), false));
        assert_eq!(refused(Class::NotFound, Some("ArtifactUnavailable")), ("ArtifactUnavailable".into(), true));
    }

    #[test]
    fn resources_of_others_end_the_flow_and_lost_calls_do_not() {
        assert_eq!(resources_failed(&Problem::new(Class::Transient, "")), None);
        let error = Problem::new(Class::Exists, "belongs to somebody else");
        let Some(FlowEvent::ResourcesFailed { reason, .. }) = resources_failed(&error) else { panic!() };
        assert_eq!(reason, "ResourceConflict");
    }
}
