//! Sentences of a status that a program reads back. The API has no field for some of what a rebuilt flow must know (the
//! last reason of a step whose retry is scheduled, why an attempt is being cancelled, since when a clock stands still);
//! it stands in messages, in the forms that this file writes and reads, and nobody else does.

use std::time::Duration;

use orlop_core::machine::step::StepPhase;
use orlop_core::spec::status::{MESSAGE_MAX, StepStatus};
use orlop_core::time::{GoDuration, Time};

/// A sentence with the word it is about in front: `NonZeroExit: exit code 1`.
pub(super) fn with_word(word: &str, message: &str) -> String {
    match (word, message) {
        ("", message) => message.to_owned(),
        (word, "") => word.to_owned(),
        (word, message) => format!("{word}: {message}"),
    }
}

/// Splits what [`with_word`] put together; text without a word in front is only a sentence.
pub(super) fn split_word(text: &str) -> (&str, &str) {
    let (word, message) = text.split_once(": ").unwrap_or((text, ""));
    let is_word = word.starts_with(|c: char| c.is_ascii_uppercase()) && word.chars().all(|c| c.is_ascii_alphanumeric());
    if is_word { (word, message) } else { ("", text) }
}

/// Why the last attempt of a step failed, in one word, from the message of a step whose retry is scheduled (its reason is only
/// `RetryScheduled`). Empty where the message has no such word.
#[must_use]
pub fn last_word(message: &str) -> &str {
    split_word(message).0
}

/// Since when something stands still.
const SINCE: &str = "suspended since ";
/// Since when a changed spec holds a flow.
const HELD: &str = "the spec was changed after the start and holds the flow since ";
/// Since when a flow is held whose spec this program cannot plan.
const NOT_UNDERSTOOD: &str = "this version cannot plan the spec and holds the flow since ";
/// Since when a flow is held whose records are not to be had.
const UNREADABLE: &str = "the records of its steps cannot be read and hold the flow since ";
/// How long the clock of an attempt stood still in all.
const STOOD: &str = "its clock stood still for ";
/// Between two such facts.
const AND: &str = "; ";

/// What is to be done about a suspended flow.
const RESUME: &str = "resume it to go on";

/// What a suspended flow waits for.
pub(super) fn suspended(since: Time) -> String {
    format!("{SINCE}{since}{AND}{RESUME}")
}

/// What has happened to a suspended flow, and what it waits for, where a message has room for both.
pub(super) fn and_suspended(text: &str, since: Time) -> String {
    let both = format!("{text}{AND}{}", suspended(since));
    if both.chars().count() <= MESSAGE_MAX { both } else { text.to_owned() }
}

/// What has happened to a flow, from the sentence of [`and_suspended`].
pub(super) fn before_suspended(text: &str) -> &str {
    let split = text.strip_suffix(RESUME).and_then(|rest| rest.strip_suffix(AND)?.rsplit_once(SINCE));
    let split = split.filter(|(_, since)| since.parse::<Time>().is_ok());
    split.and_then(|(before, _)| before.strip_suffix(AND)).unwrap_or(text)
}

/// What a held flow waits for.
pub(super) fn held(since: Time) -> String {
    format!("{HELD}{since}{AND}restore it to go on")
}

/// What a flow waits for whose spec this program cannot plan.
pub(super) fn not_understood(since: Time, violation: &str) -> String {
    format!("{NOT_UNDERSTOOD}{since}{AND}{violation}{AND}it goes on under a version that can")
}

/// What a flow waits for whose records are not to be had.
pub(super) fn unreadable(since: Time, fault: &str) -> String {
    format!("{UNREADABLE}{since}{AND}{fault}{AND}it goes on when they are, and can be terminated")
}

/// Since when a flow is paused, from the sentence of [`suspended`], [`held`], [`not_understood`] or [`unreadable`].
pub(super) fn paused_since(text: &str) -> Option<Time> {
    let rest = [SINCE, HELD, NOT_UNDERSTOOD, UNREADABLE].into_iter().find_map(|prefix| text.strip_prefix(prefix))?;
    rest.split_once(AND)?.0.parse().ok()
}

/// When a delayed start is asked for again, before what the substrate says.
const AGAIN: &str = "asked for again at ";

/// What is to be said about a delayed start.
pub(super) fn again(at: Time, message: &str) -> String {
    format!("{AGAIN}{at}: {message}")
}

/// Splits what [`again`] put together; any other text tells no time.
pub(super) fn read_again(text: &str) -> (Option<Time>, &str) {
    let split = text.strip_prefix(AGAIN).and_then(|rest| rest.split_once(": "));
    let read = split.and_then(|(at, message)| Some((Some(at.parse().ok()?), message)));
    read.unwrap_or((None, text))
}

/// What is said of a step whose live attempt a halt has ended. A Job may fail by itself for a reason that is also the word
/// of a halt (`BackoffLimitExceeded`), so the reason alone does not tell.
pub(super) const CANCELLED: &str = "its attempt was cancelled";

/// The message of an attempt that is being cancelled.
const ENDS: &str = "the attempt is being cancelled";
/// The same where it should be gone by now, before what is left of it.
const LEFT: &str = "the attempt was cancelled but is not gone: ";

/// The message of an attempt that is being cancelled, with what is left of it once it should be gone.
pub(super) fn ends(left: Option<&str>) -> String {
    left.map_or_else(|| ENDS.to_owned(), |left| format!("{LEFT}{left}"))
}

/// What is left of it, from the sentence of [`ends`].
pub(super) fn read_left(text: &str) -> Option<&str> {
    text.strip_prefix(LEFT)
}

/// What still runs of a cancelled attempt that should have ended; none where no cancellation of the step is blocked.
#[must_use]
pub fn left_of(step: &StepStatus) -> Option<&str> {
    let cancelling = step.phase == StepPhase::Running && step.reason == super::reason::CANCELLING;
    read_left(split_word(&step.message).1).filter(|_| cancelling)
}

/// A retry that was scheduled and is not made any more, before what had failed.
const UNMADE: &str = "the retry was not made: ";

/// What is to be said about a failure whose scheduled retry a halt has ended.
pub(super) fn unmade(message: &str) -> String {
    format!("{UNMADE}{message}")
}

/// Whether a failure is told by [`unmade`].
pub(super) fn is_unmade(text: &str) -> bool {
    text.starts_with(UNMADE)
}

/// A retry for which the flow has no budget left, before what had failed.
const OVER_BUDGET: &str = "the flow has no retry left: ";

/// What is to be said about a failure that would be tried again if the flow had a retry left.
pub(super) fn over_budget(message: &str) -> String {
    format!("{OVER_BUDGET}{message}")
}

/// Whether a failure is told by [`over_budget`].
pub(super) fn is_over_budget(text: &str) -> bool {
    text.starts_with(OVER_BUDGET)
}

/// The clock of an attempt: since when it stands still, and how long it stood still before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock {
    pub(super) since: Option<Time>,
    pub(super) stood: u64,
}

/// What is to be said about the clock of an attempt; nothing where it has always run.
pub(super) fn clock(clock: Clock) -> String {
    let since = clock.since.map(|since| format!("{SINCE}{since}"));
    let stood = Duration::from_millis(clock.stood);
    let stood = (clock.stood > 0).then(|| format!("{STOOD}{}", GoDuration::new(stood)));
    [since, stood].into_iter().flatten().collect::<Vec<_>>().join(AND)
}

/// Two sentences, of which either may be absent.
pub(super) fn both(first: String, second: String) -> String {
    [first, second].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(AND)
}

/// Reads the sentence of [`clock`]; any other text means a clock that has always run.
pub(super) fn read_clock(text: &str) -> Clock {
    let mut clock = Clock::default();
    // What the attempt waits for may follow.
    for part in text.split(AND).take(2) {
        if let Some(since) = part.strip_prefix(SINCE) {
            clock.since = since.parse().ok();
        } else if let Some(stood) = part.strip_prefix(STOOD).and_then(|stood| stood.parse::<GoDuration>().ok()) {
            clock.stood = u64::try_from(stood.get().as_millis()).unwrap_or(u64::MAX);
        }
    }
    clock
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sentences_read_well() {
        insta::assert_snapshot!(with_word("NonZeroExit", "exit code 1"), @"NonZeroExit: exit code 1");
        insta::assert_snapshot!(suspended(Time::EPOCH), @"suspended since 1970-01-01T00:00:00Z; resume it to go on");
        insta::assert_snapshot!(held(Time::EPOCH), @"the spec was changed after the start and holds the flow since 1970-01-01T00:00:00Z; restore it to go on");
        insta::assert_snapshot!(again(Time::EPOCH, "slow down"), @"asked for again at 1970-01-01T00:00:00Z: slow down");
        let both = Clock { since: Some(Time::EPOCH), stood: 90_000 };
        insta::assert_snapshot!(clock(both), @"suspended since 1970-01-01T00:00:00Z; its clock stood still for 1m30s");
    }

    #[test]
    fn other_sentences_say_nothing() {
        for text in ["", "waits: long", "exit: Code 1", "suspended since noon", "Two Words: no"] {
            assert_eq!(split_word(text), ("", text));
            assert_eq!((paused_since(text), read_clock(text)), (None, Clock::default()));
            assert_eq!(read_again(text), (None, text));
        }
        assert_eq!(split_word("Timeout"), ("Timeout", ""));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(word in "[A-Z][A-Za-z0-9]{0,20}", text in ".*", millis in 0_i64..4_000_000_000_000, stood in 0_u64..9_000_000_000) {
            let both = with_word(&word, &text);
            prop_assert_eq!(split_word(&both), (word.as_str(), text.as_str()));
            let since = Time::from_millis(millis);
            prop_assert_eq!(paused_since(&suspended(since)), Some(since));
            let both = and_suspended(&text, since);
            prop_assert_eq!(before_suspended(&both), text.as_str());
            let alone = suspended(since);
            prop_assert_eq!(before_suspended(&alone), alone.as_str());
            prop_assert_eq!(paused_since(&held(since)), Some(since));
            prop_assert_eq!(paused_since(&not_understood(since, &text)), Some(since));
            let delayed = again(since, &text);
            prop_assert_eq!(read_again(&delayed), (Some(since), text.as_str()));
            prop_assert!(is_unmade(&unmade(&text)) && !is_unmade(&delayed));
            let (blocked, plain) = (ends(Some(&text)), ends(None));
            prop_assert_eq!((read_left(&blocked), read_left(&plain)), (Some(text.as_str()), None));
            prop_assert!(is_over_budget(&over_budget(&text)) && !is_over_budget(&delayed));
            for since in [None, Some(since)] {
                prop_assert_eq!(read_clock(&clock(Clock { since, stood })), Clock { since, stood });
            }
        }
    }
}
