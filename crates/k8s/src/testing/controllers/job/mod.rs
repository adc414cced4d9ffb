//! The Job controller: counts pods that ended, decides whether a Job is done, and makes or deletes pods. Follows what
//! Kubernetes 1.31 and newer do; the order of its writes is theirs: first that a Job will end, then that it has ended.

mod count;
mod failure;
mod pods;
mod report;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::super::object::{Object, at, deleting, integer, list, meta, text};
use super::super::state::State;
use super::super::store::Stored;
use super::super::verb::{DeleteOptions, delete_object};
use super::{Controllers, Tables, Timer};
use count::Tally;
pub(super) use pods::release_one;
use report::Report;

/// The finalizer by which a pod stays until it was counted.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The annotation and label of pods of Indexed Jobs.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Delay before the first pod after a failure, in milliseconds; doubles with each failure in a row.
const BACKOFF: i64 = 10_000;
/// The longest such delay.
const BACKOFF_LIMIT: i64 = 600_000;

/// Failures in a row and the newest of them, by the uid of the Job.
pub(super) type Backoffs = BTreeMap<String, (u32, i64)>;

/// The key of the Job that controls a pod.
pub(super) fn key_of_owner(pod: &Object) -> Option<String> {
    let owner = list(pod, &["metadata", "ownerReferences"]).iter().find(|owner| {
        owner.get("controller") == Some(&Value::Bool(true)) && owner.get("kind").and_then(Value::as_str) == Some("Job")
    })?;
    let name = owner.get("name").and_then(Value::as_str)?;
    Some(super::super::store::key(meta(pod, "namespace"), name))
}

/// How a Job ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    failed: bool,
    reason: String,
    message: String,
}

impl End {
    fn failed(reason: &str, message: &str) -> Self {
        Self { failed: true, reason: reason.to_owned(), message: message.to_owned() }
    }

    fn complete(reason: &str, message: &str) -> Self {
        Self { failed: false, reason: reason.to_owned(), message: message.to_owned() }
    }
}

impl Controllers {
    pub(super) fn sync_job(&mut self, state: &mut State, tables: Tables, key: &str) {
        let Some(stored) = state.get(tables.jobs, key).cloned() else { return };
        let job = &stored.object;
        let manager = text(job, &["spec", "managedBy"]);
        if !manager.is_empty() && manager != "kubernetes.io/job-controller" {
            return;
        }
        let pods = self.pods_of(state, tables, job);
        if report::has(job, "Complete") || report::has(job, "Failed") {
            pods::release_ended(state, tables, &pods);
            self.expire(state, tables, key, &stored);
            return;
        }
        let mut report = Report::of(job);
        self.start(state, key, job, &mut report);
        let tally = Tally::take(job, &pods, &mut report);
        self.note_failures(job, &tally);
        let end = report.target().or_else(|| tally.end(state.now(), job, &report));
        if let Some(end) = end {
            self.finish(state, tables, job, &tally, report, &end);
        } else {
            let suspended = at(job, &["spec", "suspend"]) == Some(&Value::Bool(true));
            let changes = if suspended {
                pods::withdraw(state, tables, &tally.active)
            } else if deleting(job) {
                0
            } else {
                self.manage(state, tables, key, job, &tally, &report)
            };
            report.counts(&tally, changes);
            report.write(state, tables.jobs, job);
        }
        pods::release(state, tables, &tally.counted);
    }

    /// The pods of a Job.
    fn pods_of(&self, state: &State, tables: Tables, job: &Object) -> Vec<Arc<Stored>> {
        let places = self.index.dependents(meta(job, "uid"));
        places
            .iter()
            .filter(|(table, _)| *table == tables.pods)
            .filter_map(|(table, key)| state.get(*table, key).cloned())
            .collect()
    }

    /// Writes when the Job began, or that it is held, and comes back at its deadline.
    fn start(&mut self, state: &State, key: &str, job: &Object, report: &mut Report) {
        let suspended = at(job, &["spec", "suspend"]) == Some(&Value::Bool(true));
        report.suspend(suspended, &state.timestamp());
        let deadline = integer(job, &["spec", "activeDeadlineSeconds"]);
        if let (Some(start), Some(deadline)) = (report.start(), deadline.filter(|_| !suspended)) {
            let due = start.saturating_add(deadline.saturating_mul(1000));
            if due > state.now() {
                self.after(due, Timer::Job(key.to_owned()));
            }
        }
    }

    /// Remembers how long to wait before the next pod.
    fn note_failures(&mut self, job: &Object, tally: &Tally) {
        let uid = meta(job, "uid");
        if tally.new_succeeded > 0 {
            self.backoffs.remove(uid);
        }
        if let Some(newest) = tally.newest_failure {
            let entry = self.backoffs.entry(uid.to_owned()).or_insert((0, newest));
            entry.0 = entry.0.saturating_add(u32::try_from(tally.new_failed).unwrap_or(u32::MAX));
            entry.1 = entry.1.max(newest);
        }
    }

    /// When the next pod may be made.
    fn earliest(&self, job: &Object) -> i64 {
        let Some((failures, newest)) = self.backoffs.get(meta(job, "uid")) else { return 0 };
        let factor = 1_i64.checked_shl(failures.saturating_sub(1).min(20)).unwrap_or(i64::MAX);
        newest.saturating_add(BACKOFF.saturating_mul(factor).min(BACKOFF_LIMIT))
    }

    /// Makes the pods that are missing and deletes those that are too many. Returns by how much the active ones changed.
    fn manage(
        &mut self,
        state: &mut State,
        tables: Tables,
        key: &str,
        job: &Object,
        tally: &Tally,
        report: &Report,
    ) -> i64 {
        let active = i64::try_from(tally.active.len()).unwrap_or(i64::MAX);
        let parallelism = integer(job, &["spec", "parallelism"]).unwrap_or(1);
        let wanted = match integer(job, &["spec", "completions"]) {
            Some(completions) => parallelism.min((completions - report.succeeded - report.failed_indexes()).max(0)),
            None if report.succeeded > 0 => active.min(parallelism),
            None => parallelism,
        };
        if active > wanted {
            let surplus = usize::try_from(active - wanted).unwrap_or_default();
            let last = tally.active.iter().rev().take(surplus).cloned().collect::<Vec<_>>();
            return pods::withdraw(state, tables, &last);
        }
        let waiting = if text(job, &["spec", "podReplacementPolicy"]) == "Failed" { tally.terminating } else { 0 };
        let missing = wanted - active - waiting;
        if missing <= 0 {
            return 0;
        }
        let earliest = self.earliest(job);
        if earliest > state.now() {
            self.after(earliest, Timer::Job(key.to_owned()));
            return 0;
        }
        let made = pods::make(state, tables, job, tally, report, missing);
        if made < missing {
            // Refused, as by a quota: tried again a little later.
            let again = state.now().saturating_add(1000);
            self.after(again, Timer::Job(key.to_owned()));
        }
        made
    }

    /// Ends a Job: first the target and the deletion of what still runs, then, when nothing runs any more, the end.
    fn finish(
        &mut self,
        state: &mut State,
        tables: Tables,
        job: &Object,
        tally: &Tally,
        mut report: Report,
        end: &End,
    ) {
        let ready = report.target().is_some() && tally.active.is_empty() && tally.terminating == 0;
        if ready {
            report.counts(tally, 0);
            report.end(end, &state.timestamp());
            self.backoffs.remove(meta(job, "uid"));
        } else {
            let gone = pods::delete(state, tables, &tally.active);
            report.aim(end, &state.timestamp());
            report.counts(tally, gone);
        }
        report.write(state, tables.jobs, job);
    }

    /// Deletes a finished Job when its time is over.
    fn expire(&mut self, state: &mut State, tables: Tables, key: &str, stored: &Arc<Stored>) {
        let job = &stored.object;
        let Some(seconds) = integer(job, &["spec", "ttlSecondsAfterFinished"]) else { return };
        if deleting(job) {
            return;
        }
        let due = report::finished_at(job).saturating_add(seconds.saturating_mul(1000));
        if due > state.now() {
            self.after(due, Timer::Job(key.to_owned()));
            return;
        }
        let options = DeleteOptions {
            uid: meta(job, "uid").to_owned(),
            version: meta(job, "resourceVersion").to_owned(),
            propagation: "Foreground".to_owned(),
            ..DeleteOptions::default()
        };
        if let Ok(kind) = state.kind(tables.jobs) {
            // The object was read in this very turn: nothing can have changed it.
            let _ = delete_object(state, tables.jobs, &kind, stored, &options);
        }
    }
}
