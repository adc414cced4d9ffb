//! The status of a Job as its controller writes it: counts, indexes, conditions.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::super::super::object::{Object, integer, list, milliseconds, text};
use super::super::super::state::State;
use super::super::super::verb::write_back;
use super::End;
use super::count::Tally;

/// A status in the making.
#[derive(Clone, Debug)]
pub(super) struct Report {
    status: Map<String, Value>,
    pub(super) succeeded: i64,
    pub(super) failed: i64,
    completed: BTreeSet<i64>,
    failed_indexes: BTreeSet<i64>,
    indexed: bool,
    per_index: bool,
}

/// Whether a Job has a condition.
pub(super) fn has(job: &Object, kind: &str) -> bool {
    list(job, &["status", "conditions"]).iter().any(|condition| is(condition, kind))
}

fn is(condition: &Value, kind: &str) -> bool {
    let text = |name: &str| condition.get(name).and_then(Value::as_str);
    text("type") == Some(kind) && text("status") == Some("True")
}

/// When a finished Job ended, in milliseconds.
pub(super) fn finished_at(job: &Object) -> i64 {
    list(job, &["status", "conditions"])
        .iter()
        .find(|condition| is(condition, "Complete") || is(condition, "Failed"))
        .and_then(|condition| condition.get("lastTransitionTime").and_then(Value::as_str))
        .and_then(milliseconds)
        .unwrap_or_default()
}

/// Indexes as in `0-2,5`.
fn parse(text: &str) -> BTreeSet<i64> {
    let mut set = BTreeSet::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<i64>(), last.parse::<i64>()) {
            set.extend(first..=last);
        }
    }
    set
}

fn show(set: &BTreeSet<i64>) -> String {
    let mut parts: Vec<(i64, i64)> = Vec::new();
    for index in set {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => parts.push((*index, *index)),
        }
    }
    let part = |(first, last): &(i64, i64)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    };
    parts.iter().map(part).collect::<Vec<String>>().join(",")
}

impl Report {
    /// What was written last.
    pub(super) fn of(job: &Object) -> Self {
        let status = job.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
        Self {
            succeeded: integer(job, &["status", "succeeded"]).unwrap_or_default(),
            failed: integer(job, &["status", "failed"]).unwrap_or_default(),
            completed: parse(text(job, &["status", "completedIndexes"])),
            failed_indexes: parse(text(job, &["status", "failedIndexes"])),
            indexed: text(job, &["spec", "completionMode"]) == "Indexed",
            per_index: integer(job, &["spec", "backoffLimitPerIndex"]).is_some(),
            status,
        }
    }

    /// When the Job began, in milliseconds.
    pub(super) fn start(&self) -> Option<i64> {
        self.status.get("startTime").and_then(Value::as_str).and_then(milliseconds)
    }

    /// Marks an index as done; false where it was.
    pub(super) fn complete_index(&mut self, index: i64) -> bool {
        self.completed.insert(index)
    }

    pub(super) fn fail_index(&mut self, index: i64) {
        self.failed_indexes.insert(index);
    }

    pub(super) fn failed_indexes(&self) -> i64 {
        i64::try_from(self.failed_indexes.len()).unwrap_or(i64::MAX)
    }

    /// Whether an index is neither done nor failed.
    pub(super) fn is_open(&self, index: i64) -> bool {
        !self.completed.contains(&index) && !self.failed_indexes.contains(&index)
    }

    /// Whether a rule of the success policy holds.
    pub(super) fn satisfies(&self, rule: &Value) -> bool {
        let wanted = rule.get("succeededIndexes").and_then(Value::as_str).map(parse);
        let count = rule.get("succeededCount").and_then(Value::as_u64);
        let done = match &wanted {
            Some(wanted) => wanted.iter().filter(|index| self.completed.contains(index)).count(),
            None => self.completed.len(),
        };
        match (count, &wanted) {
            (Some(count), _) => u64::try_from(done).is_ok_and(|done| done >= count),
            (None, Some(wanted)) => done == wanted.len(),
            (None, None) => false,
        }
    }

    /// Writes that the Job is held or goes on, and when it began.
    pub(super) fn suspend(&mut self, suspended: bool, now: &str) {
        let held = self.conditions().iter().any(|condition| is(condition, "Suspended"));
        if suspended {
            if !held {
                self.condition("Suspended", true, "JobSuspended", "Job suspended", now);
            }
            self.status.remove("startTime");
        } else if held {
            self.condition("Suspended", false, "JobResumed", "Job resumed", now);
            self.status.insert("startTime".to_owned(), now.into());
        } else {
            self.status.entry("startTime").or_insert_with(|| now.into());
        }
    }

    /// How the Job will end, where that was written already.
    pub(super) fn target(&self) -> Option<End> {
        let find = |kind: &str| self.conditions().iter().find(|condition| is(condition, kind)).cloned();
        let of = |condition: &Value, failed: bool| {
            let text = |name: &str| condition.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            End { failed, reason: text("reason"), message: text("message") }
        };
        let failure = find("FailureTarget").map(|condition| of(&condition, true));
        failure.or_else(|| find("SuccessCriteriaMet").map(|condition| of(&condition, false)))
    }

    /// Writes how the Job will end.
    pub(super) fn aim(&mut self, end: &End, now: &str) {
        if self.target().is_none() {
            let kind = if end.failed { "FailureTarget" } else { "SuccessCriteriaMet" };
            self.condition(kind, true, &end.reason, &end.message, now);
        }
    }

    /// Writes that the Job has ended.
    pub(super) fn end(&mut self, end: &End, now: &str) {
        let kind = if end.failed { "Failed" } else { "Complete" };
        self.condition(kind, true, &end.reason, &end.message, now);
        if !end.failed {
            self.status.insert("completionTime".to_owned(), now.into());
        }
    }

    /// Writes the counts; `change` pods were made, or deleted, since they were taken.
    pub(super) fn counts(&mut self, tally: &Tally, change: i64) {
        let active = i64::try_from(tally.active.len()).unwrap_or(i64::MAX) + change;
        for (name, value) in [("active", active), ("succeeded", self.succeeded), ("failed", self.failed)] {
            if value == 0 {
                self.status.remove(name);
            } else {
                self.status.insert(name.to_owned(), value.into());
            }
        }
        let deleted = if change < 0 { -change } else { 0 };
        self.status.insert("ready".to_owned(), if change < 0 { 0 } else { tally.ready }.into());
        self.status.insert("terminating".to_owned(), (tally.terminating + deleted).into());
        self.status.insert("uncountedTerminatedPods".to_owned(), json!({}));
        if self.indexed {
            self.indexes("completedIndexes", show(&self.completed));
        }
        if self.per_index {
            self.status.insert("failedIndexes".to_owned(), show(&self.failed_indexes).into());
        }
    }

    fn indexes(&mut self, name: &str, text: String) {
        if text.is_empty() {
            self.status.remove(name);
        } else {
            self.status.insert(name.to_owned(), text.into());
        }
    }

    fn conditions(&self) -> &[Value] {
        self.status.get("conditions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    fn condition(&mut self, kind: &str, holds: bool, reason: &str, message: &str, now: &str) {
        let value = json!({"type": kind, "status": if holds { "True" } else { "False" }, "lastProbeTime": now,
            "lastTransitionTime": now, "reason": reason, "message": message});
        let list = self.status.entry("conditions").or_insert_with(|| json!([]));
        let Some(list) = list.as_array_mut() else { return };
        match list.iter_mut().find(|condition| condition.get("type").and_then(Value::as_str) == Some(kind)) {
            Some(condition) => *condition = value,
            None => list.push(value),
        }
    }

    /// Stores it.
    pub(super) fn write(self, state: &mut State, table: usize, job: &Object) {
        let key = super::super::super::store::key_of(job);
        let Some(stored) = state.get(table, &key) else { return };
        let mut object = stored.object.clone();
        object.insert("status".to_owned(), Value::Object(self.status));
        write_back(state, table, object);
    }
}
