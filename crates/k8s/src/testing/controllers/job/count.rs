//! Counting the pods of a Job: what runs, what ended since the last count, and what that means for the Job.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::super::super::object::{Object, at, deleting, finalizers, integer, list, text};
use super::super::super::store::Stored;
use super::failure::{self, PodFailureAction};
use super::report::Report;
use super::{End, INDEX, TRACKING};

/// What was counted.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Pods that run or wait to.
    pub(super) active: Vec<Arc<Stored>>,
    /// Pods that were told to go and have not ended.
    pub(super) terminating: i64,
    pub(super) ready: i64,
    /// Pods that are counted now, and need not be kept any longer.
    pub(super) counted: Vec<Arc<Stored>>,
    pub(super) new_succeeded: i64,
    pub(super) new_failed: i64,
    /// When the newest failure was, in milliseconds.
    pub(super) newest_failure: Option<i64>,
    /// Restarts in place of the pods that run.
    restarts: i64,
    verdict: Option<End>,
    /// The indexes that run, in Indexed Jobs.
    pub(super) running: BTreeSet<i64>,
    /// How often each index has failed.
    failures: BTreeMap<i64, i64>,
}

/// The index of a pod of an Indexed Job.
pub(super) fn index_of(pod: &Object) -> Option<i64> {
    at(pod, &["metadata", "annotations", INDEX]).and_then(Value::as_str).and_then(|text| text.parse().ok())
}

/// How often the index of a pod had failed when the pod was made.
fn failures_before(pod: &Object) -> i64 {
    at(pod, &["metadata", "annotations", super::pods::INDEX_FAILURES])
        .and_then(Value::as_str)
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

impl Tally {
    /// How often an index has failed.
    pub(super) fn failures_of(&self, index: i64) -> i64 {
        self.failures.get(&index).copied().unwrap_or_default()
    }

    /// Counts; what ended is added to the report.
    pub(super) fn take(job: &Object, pods: &[Arc<Stored>], report: &mut Report) -> Self {
        let mut tally = Self::default();
        let only_failed = text(job, &["spec", "podReplacementPolicy"]) == "Failed";
        for stored in pods {
            let pod = &stored.object;
            let phase = text(pod, &["status", "phase"]);
            let tracked = finalizers(pod).contains(&TRACKING);
            let failed = phase == "Failed" || deleting(pod) && phase != "Succeeded" && !only_failed;
            if deleting(pod) && phase != "Failed" && phase != "Succeeded" {
                tally.terminating += 1;
            }
            if let Some(index) = index_of(pod).filter(|_| failed && phase != "Succeeded") {
                let count = tally.failures.entry(index).or_default();
                *count = (*count).max(failures_before(pod) + 1);
            }
            if phase == "Succeeded" || failed {
                if tracked {
                    tally.ended(job, stored, phase == "Succeeded", report);
                }
                continue;
            }
            if !deleting(pod) {
                tally.runs(stored);
            }
        }
        tally
    }

    fn runs(&mut self, stored: &Arc<Stored>) {
        let pod = &stored.object;
        let ready = list(pod, &["status", "conditions"]).iter().any(|condition| {
            condition.get("type").and_then(Value::as_str) == Some("Ready")
                && condition.get("status").and_then(Value::as_str) == Some("True")
        });
        self.ready += i64::from(ready);
        let restarts = list(pod, &["status", "containerStatuses"]).iter();
        self.restarts += restarts.filter_map(|status| status.get("restartCount").and_then(Value::as_i64)).sum::<i64>();
        self.running.extend(index_of(pod));
        self.active.push(Arc::clone(stored));
    }

    fn ended(&mut self, job: &Object, stored: &Arc<Stored>, well: bool, report: &mut Report) {
        self.counted.push(Arc::clone(stored));
        let index = index_of(&stored.object);
        if well {
            let fresh = index.is_none_or(|index| {
                let completions = integer(job, &["spec", "completions"]).unwrap_or_default();
                index < completions && report.complete_index(index)
            });
            self.new_succeeded += i64::from(fresh);
            report.succeeded += i64::from(fresh);
            return;
        }
        self.newest_failure = self.newest_failure.max(Some(failure::ended_at(&stored.object)));
        match failure::judge(job, &stored.object) {
            PodFailureAction::Ignore => return,
            PodFailureAction::FailJob(message) => self.verdict = Some(End::failed("PodFailurePolicy", &message)),
            PodFailureAction::FailIndex => index.into_iter().for_each(|index| report.fail_index(index)),
            PodFailureAction::Count => Self::count_index(job, index, stored, report),
        }
        self.new_failed += 1;
        report.failed += 1;
    }

    /// An index fails when it failed too often.
    fn count_index(job: &Object, index: Option<i64>, stored: &Stored, report: &mut Report) {
        let (Some(limit), Some(index)) = (integer(job, &["spec", "backoffLimitPerIndex"]), index) else { return };
        let before = failures_before(&stored.object);
        if before >= limit {
            report.fail_index(index);
        }
    }

    /// Whether the Job ends by what was counted.
    pub(super) fn end(&self, now: i64, job: &Object, report: &Report) -> Option<End> {
        if let Some(end) = &self.verdict {
            return Some(end.clone());
        }
        let limit = integer(job, &["spec", "backoffLimit"]).unwrap_or(6);
        let in_place = text(job, &["spec", "template", "spec", "restartPolicy"]) == "OnFailure";
        let restarts = in_place && self.restarts > 0 && self.restarts >= limit;
        if report.failed > limit || restarts {
            return Some(End::failed("BackoffLimitExceeded", "Job has reached the specified backoff limit"));
        }
        let deadline = integer(job, &["spec", "activeDeadlineSeconds"]);
        if let (Some(start), Some(deadline)) = (report.start(), deadline)
            && now >= start.saturating_add(deadline.saturating_mul(1000))
        {
            return Some(End::failed("DeadlineExceeded", "Job was active longer than specified deadline"));
        }
        Self::end_by_indexes(job, report).or_else(|| self.end_well(job, report))
    }

    fn end_by_indexes(job: &Object, report: &Report) -> Option<End> {
        let failed = report.failed_indexes();
        if integer(job, &["spec", "maxFailedIndexes"]).is_some_and(|limit| failed > limit) {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            return Some(End::failed("MaxFailedIndexesExceeded", message));
        }
        let completions = integer(job, &["spec", "completions"])?;
        (failed > 0 && report.succeeded + failed >= completions)
            .then(|| End::failed("FailedIndexes", "Job has failed indexes"))
    }

    fn end_well(&self, job: &Object, report: &Report) -> Option<End> {
        for (number, rule) in list(job, &["spec", "successPolicy", "rules"]).iter().enumerate() {
            if report.satisfies(rule) {
                return Some(End::complete("SuccessPolicy", &format!("Matched rules at index {number}")));
            }
        }
        let done = match integer(job, &["spec", "completions"]) {
            Some(completions) => report.succeeded >= completions,
            None => report.succeeded > 0 && self.active.is_empty() && self.terminating == 0,
        };
        done.then(|| End::complete("CompletionsReached", "Reached expected number of succeeded pods"))
    }
}
