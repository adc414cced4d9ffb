//! Conditions. Owns that all of a kind are there, and that the time of one moves with its status only.

use orlop_core::time::Time;

use super::plan::Notice;
use super::spec::Condition;

/// The longest message, in characters.
const LONG: usize = 1024;

/// A condition as a plan sets it; its time follows from what was there before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCondition {
    /// Its type.
    pub kind: &'static str,
    /// True, False or Unknown.
    pub status: &'static str,
    /// Why, in one word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
}

impl NewCondition {
    /// A condition that is True.
    #[must_use]
    pub fn yes(kind: &'static str, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, status: "True", reason: reason.into(), message: message.into() }
    }

    /// A condition that is False.
    #[must_use]
    pub fn no(kind: &'static str, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, status: "False", reason: reason.into(), message: message.into() }
    }

    /// A condition that is Unknown.
    #[must_use]
    pub fn unknown(kind: &'static str, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, status: "Unknown", reason: reason.into(), message: message.into() }
    }
}

/// Whether what is wanted serves and nothing is under way or wrong: what tools wait for. Its reason is that of the first of
/// the other conditions that says otherwise.
#[must_use]
pub fn ready(available: &NewCondition, progressing: &NewCondition, degraded: &NewCondition) -> NewCondition {
    let (status, cause) = match (degraded.status, progressing.reason.as_str(), available.status) {
        ("True", ..) => ("False", degraded),
        (_, "UpToDate", "True") => ("True", available),
        (_, "UpToDate", _) => ("False", available),
        _ => ("False", progressing),
    };
    NewCondition { kind: "Ready", status, reason: cause.reason.clone(), message: cause.message.clone() }
}

/// The condition `Degraded`, from a reason and a message where something is wrong.
#[must_use]
pub fn degraded<R: AsRef<str>>(problem: Option<&(R, String)>) -> NewCondition {
    match problem {
        Some((reason, message)) => NewCondition::yes("Degraded", reason.as_ref(), message),
        None => NewCondition::no("Degraded", "AsExpected", "no problem found"),
    }
}

/// An event about a problem, where it is new and its reason is one of these.
pub(crate) fn new_problem(
    before: &[Condition],
    now: &[Condition],
    reasons: &[&'static str],
    about: String,
) -> Option<Notice> {
    let known = of(now, "Degraded").filter(|known| known.status == "True")?;
    let same = of(before, "Degraded").is_some_and(|old| (&old.status, &old.reason) == (&known.status, &known.reason));
    let reason = reasons.iter().find(|reason| **reason == known.reason).filter(|_| !same)?;
    Some(Notice::warning(reason, known.message.clone(), about))
}

/// An event that another client keeps changing a child, where it is new.
#[must_use]
pub fn contended(before: &[Condition], now: &[Condition], generation: i64) -> Option<Notice> {
    let is = |conditions: &[Condition]| of(conditions, "Contended").is_some_and(|known| known.status == "True");
    let known = of(now, "Contended").filter(|_| is(now) && !is(before))?;
    let since = known.last_transition_time.map(|at| at.to_string()).unwrap_or_default();
    Some(Notice::warning("Contended", known.message.clone(), format!("{generation}/{since}")))
}

/// All conditions of an object: those that are set now, with the time of the last transition from those that were there before.
#[must_use]
pub fn conditions(before: &[Condition], updates: Vec<NewCondition>, generation: i64, now: Time) -> Vec<Condition> {
    let condition = |update: NewCondition| {
        let same = before.iter().find(|known| known.kind == update.kind && known.status == update.status);
        Condition {
            kind: update.kind.to_owned(),
            status: update.status.to_owned(),
            observed_generation: Some(generation),
            last_transition_time: same.and_then(|known| known.last_transition_time).or(Some(now.whole_seconds())),
            reason: update.reason,
            message: update.message.chars().take(LONG).collect(),
        }
    };
    updates.into_iter().map(condition).collect()
}

/// The conditions as they were, with those of `wrong` in their place; `missing` is set where a condition was not there before.
#[must_use]
pub fn updated(
    before: &[Condition],
    missing: Vec<NewCondition>,
    wrong: Vec<NewCondition>,
    generation: i64,
    now: Time,
) -> Vec<Condition> {
    let stays = |known: &&Condition| wrong.iter().all(|update| update.kind != known.kind);
    let mut all: Vec<Condition> = before.iter().filter(stays).cloned().collect();
    let unset = missing.into_iter().filter(|update| of(before, update.kind).is_none());
    all.extend(conditions(before, unset.chain(wrong).collect(), generation, now));
    // In the order in which they were stored.
    all.sort_by_key(|condition| before.iter().position(|known| known.kind == condition.kind).unwrap_or(before.len()));
    all
}

/// The condition of a type.
#[must_use]
pub fn of<'c>(conditions: &'c [Condition], kind: &str) -> Option<&'c Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// Since when a condition has had a status; from now on where it had another.
#[must_use]
pub fn since(conditions: &[Condition], kind: &str, status: &str, now: Time) -> Time {
    of(conditions, kind)
        .filter(|known| known.status == status)
        .and_then(|known| known.last_transition_time)
        .unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_moves_with_the_status_only() {
        let at = Time::from_millis;
        let first = conditions(&[], vec![NewCondition::no("Available", "NoReadyPod", "m")], 1, at(1_500));
        assert_eq!(first[0].last_transition_time, Some(at(1_000)));
        let second = conditions(&first, vec![NewCondition::no("Available", "NotReady", "n")], 2, at(9_000));
        assert_eq!((second[0].last_transition_time, second[0].observed_generation), (Some(at(1_000)), Some(2)));
        let third =
            conditions(&second, vec![NewCondition::yes("Available", "PodReady", "x".repeat(2000))], 2, at(9_000));
        assert_eq!((third[0].last_transition_time, third[0].message.len()), (Some(at(9_000)), 1024));
        let wide = conditions(&[], vec![NewCondition::unknown("Available", "x", "Ä".repeat(2000))], 2, at(0));
        assert_eq!(wide[0].message, "Ä".repeat(1024), "characters, not bytes");
        assert_eq!(since(&third, "Available", "False", at(10_000)), at(10_000));
    }
}
