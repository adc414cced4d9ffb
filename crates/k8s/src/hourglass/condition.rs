//! Conditions. Owns that all of a kind are there, and that the time of one moves with its status only.

use orlop_core::time::Time;

use super::plan::Notice;
use super::spec::Condition;

/// The longest message, in characters.
const LONG: usize = 1024;

/// What is said of one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Which side.
    pub kind: &'static str,
    /// True, False or Unknown.
    pub status: &'static str,
    /// Why, in one word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
}

impl Said {
    /// That it is so.
    #[must_use]
    pub fn yes(kind: &'static str, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, status: "True", reason: reason.into(), message: message.into() }
    }

    /// That it is not.
    #[must_use]
    pub fn no(kind: &'static str, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, status: "False", reason: reason.into(), message: message.into() }
    }

    /// That nobody knows.
    #[must_use]
    pub fn unknown(kind: &'static str, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, status: "Unknown", reason: reason.into(), message: message.into() }
    }
}

/// Whether what is wanted serves and nothing is under way or wrong: what tools wait for. Its reason is that of the first of
/// the other conditions that says otherwise.
#[must_use]
pub fn ready(available: &Said, progressing: &Said, degraded: &Said) -> Said {
    let (status, cause) = match (degraded.status, progressing.reason.as_str(), available.status) {
        ("True", ..) => ("False", degraded),
        (_, "UpToDate", "True") => ("True", available),
        (_, "UpToDate", _) => ("False", available),
        _ => ("False", progressing),
    };
    Said { kind: "Ready", status, reason: cause.reason.clone(), message: cause.message.clone() }
}

/// That somebody keeps changing a child, where it is news.
#[must_use]
pub fn contended(before: &[Condition], now: &[Condition], generation: i64) -> Option<Notice> {
    let is = |conditions: &[Condition]| of(conditions, "Contended").is_some_and(|known| known.status == "True");
    let known = of(now, "Contended").filter(|_| is(now) && !is(before))?;
    let since = known.last_transition_time.map(|at| at.to_string()).unwrap_or_default();
    Some(Notice::warning("Contended", known.message.clone(), format!("{generation}/{since}")))
}

/// The conditions that follow from what is said now and what was said before.
#[must_use]
pub fn conditions(before: &[Condition], said: Vec<Said>, generation: i64, now: Time) -> Vec<Condition> {
    let condition = |said: Said| {
        let same = before.iter().find(|known| known.kind == said.kind && known.status == said.status);
        Condition {
            kind: said.kind.to_owned(),
            status: said.status.to_owned(),
            observed_generation: Some(generation),
            last_transition_time: same.and_then(|known| known.last_transition_time).or(Some(now.whole_seconds())),
            reason: said.reason,
            message: said.message.chars().take(LONG).collect(),
        }
    };
    said.into_iter().map(condition).collect()
}

/// The conditions as they were, but for these sides; `missing` is what is said of sides nobody has spoken of yet.
#[must_use]
pub fn amended(
    before: &[Condition],
    missing: Vec<Said>,
    wrong: Vec<Said>,
    (generation, now): (i64, Time),
) -> Vec<Condition> {
    let stays = |known: &&Condition| wrong.iter().all(|said| said.kind != known.kind);
    let mut all: Vec<Condition> = before.iter().filter(stays).cloned().collect();
    let unsaid = missing.into_iter().filter(|said| of(before, said.kind).is_none());
    all.extend(conditions(before, unsaid.chain(wrong).collect(), generation, now));
    // In the order in which they were told.
    all.sort_by_key(|condition| before.iter().position(|known| known.kind == condition.kind).unwrap_or(before.len()));
    all
}

/// The condition of a side.
#[must_use]
pub fn of<'c>(conditions: &'c [Condition], kind: &str) -> Option<&'c Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// Since when a side has had a status; from now on where it had another.
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
        let first = conditions(&[], vec![Said::no("Available", "NoReadyPod", "m")], 1, at(1_500));
        assert_eq!(first[0].last_transition_time, Some(at(1_000)));
        let second = conditions(&first, vec![Said::no("Available", "NotReady", "n")], 2, at(9_000));
        assert_eq!((second[0].last_transition_time, second[0].observed_generation), (Some(at(1_000)), Some(2)));
        let third = conditions(&second, vec![Said::yes("Available", "PodReady", "x".repeat(2000))], 2, at(9_000));
        assert_eq!((third[0].last_transition_time, third[0].message.len()), (Some(at(9_000)), 1024));
        let wide = conditions(&[], vec![Said::unknown("Available", "x", "Ä".repeat(2000))], 2, at(0));
        assert_eq!(wide[0].message, "Ä".repeat(1024), "characters, not bytes");
        assert_eq!(since(&third, "Available", "False", at(10_000)), at(10_000));
    }
}
