//! What a Job does next, as a function of the records of its pods. Owns completions, parallelism, the backoff limit,
//! delays, the deadline and the failure policy; carries nothing out.

use std::collections::BTreeSet;

use orlop_core::time::Time;

use crate::runtime::pod::{PodExit, PodResult};

use super::backoff::restart_delay;
use super::clock::PauseClock;
use super::policy;
use super::rules::{FailureAction, JobRules, PodRecord};

/// A Job as far as it is written down.
#[derive(Clone, Copy, Debug)]
pub struct JobState<'a> {
    /// What its spec says.
    pub rules: &'a JobRules,
    /// When it started.
    pub started_at: Time,
    /// When it stood still.
    pub clock: &'a PauseClock,
    /// Its pods by number.
    pub pods: &'a [&'a PodRecord],
}

/// A pod to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodStart {
    /// Its number in the attempt.
    pub number: u32,
    /// Its completion index, of an indexed Job.
    pub index: Option<u32>,
}

/// What a Job has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobOutcome {
    /// It did its work.
    Complete,
    /// It failed.
    Failed {
        /// One word.
        reason: String,
        /// A sentence.
        message: String,
    },
    /// A pod was lost with its machine or keeper.
    Lost,
    /// Somebody else deleted a pod.
    Gone,
}

/// What a Job does next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Decision {
    /// What it has come to; pods that still live are to be ended then.
    pub verdict: Option<JobOutcome>,
    /// Pods to start now.
    pub start: Vec<PodStart>,
    /// When to ask again if nothing ends before.
    pub wake: Option<Time>,
    /// Failures left, restarts in place among them.
    pub restarts_left: u32,
}

/// What the ends so far add up to.
#[derive(Default)]
struct Tally {
    succeeded: u32,
    indexes: BTreeSet<u32>,
    failures: u32,
    since_success: u32,
    last_failure: Option<Time>,
    verdict: Option<JobOutcome>,
}

/// What a Job does next at `now`.
pub fn decide(job: &JobState<'_>, now: Time) -> Decision {
    let deadline = job.rules.active_deadline.map(|limit| (limit, job.clock.after(job.started_at, limit)));
    let mut tally = Tally::default();
    let mut ends: Vec<(&PodRecord, &PodExit)> =
        job.pods.iter().filter_map(|pod| Some((*pod, pod.exit.as_ref()?))).collect();
    ends.sort_by_key(|(pod, exit)| (exit.ended_at, pod.number));
    let live = job.pods.len() - ends.len();
    for (pod, exit) in ends {
        // A pod that was ended on request tells nothing, least of all by the time it took.
        if exit.result == PodResult::Cancelled {
            continue;
        }
        if tally.verdict.is_none() && past(deadline.and_then(|(_, due)| due), exit.ended_at) {
            tally.verdict = deadline.map(|(limit, _)| deadline_exceeded(limit));
        }
        if tally.verdict.is_some() {
            break;
        }
        tally.count(job.rules, pod, exit);
    }
    // A pod that was ended on request had not done its work by then: the Job was not complete.
    let cancelled =
        job.pods.iter().filter_map(|pod| pod.exit.as_ref()).filter(|exit| exit.result == PodResult::Cancelled);
    let unfinished = live + cancelled.count();
    if tally.verdict.is_none() && completed(job.rules, &tally, unfinished) {
        tally.verdict = Some(JobOutcome::Complete);
    }
    if let (None, Some((limit, Some(due)))) = (&tally.verdict, deadline)
        && due <= now
    {
        tally.verdict = Some(deadline_exceeded(limit));
    }
    let restarts_left = job.rules.backoff_limit.saturating_sub(tally.failures);
    if tally.verdict.is_some() {
        return Decision { verdict: tally.verdict, restarts_left, ..Decision::default() };
    }
    let (start, backoff) = starts(job, &tally, live, now);
    let wake = [backoff, deadline.and_then(|(_, due)| due)].into_iter().flatten().min();
    Decision { verdict: None, start, wake, restarts_left }
}

fn past(due: Option<Time>, at: Time) -> bool {
    due.is_some_and(|due| due <= at)
}

fn deadline_exceeded(limit: std::time::Duration) -> JobOutcome {
    JobOutcome::Failed {
        reason: "DeadlineExceeded".into(),
        message: format!("the Job ran longer than its activeDeadlineSeconds, {} s", limit.as_secs()),
    }
}

fn completed(rules: &JobRules, tally: &Tally, live: usize) -> bool {
    match rules.completions {
        Some(completions) => tally.succeeded >= completions,
        None => tally.succeeded > 0 && live == 0,
    }
}

impl Tally {
    fn count(&mut self, rules: &JobRules, pod: &PodRecord, exit: &PodExit) {
        self.failures = self.failures.saturating_add(pod.restarts());
        match &exit.result {
            PodResult::Succeeded => {
                // An index counts once; a Job without indexes counts every success.
                if pod.index.is_none_or(|index| self.indexes.insert(index)) {
                    self.succeeded += 1;
                }
                self.since_success = 0;
                self.last_failure = None;
                if rules.completions.is_some_and(|completions| self.succeeded >= completions) {
                    self.verdict = Some(JobOutcome::Complete);
                    return;
                }
            }
            PodResult::Failed { reason, message } => {
                self.since_success += 1;
                self.last_failure = Some(exit.ended_at);
                match policy::matching(&rules.failure_rules, exit) {
                    Some((FailureAction::FailJob, container)) => {
                        let message = format!(
                            "container {} of pod {} ended with exit code {}, which a FailJob rule of podFailurePolicy names",
                            container.name, pod.number, container.exit_code
                        );
                        self.verdict = Some(JobOutcome::Failed { reason: "PodFailurePolicy".into(), message });
                        return;
                    }
                    Some((FailureAction::Ignore, _)) => {}
                    Some((FailureAction::Count, _)) | None => self.failures = self.failures.saturating_add(1),
                }
                if self.failures > rules.backoff_limit && rules.is_single() {
                    self.verdict = Some(JobOutcome::Failed { reason: reason.clone(), message: message.clone() });
                    return;
                }
            }
            PodResult::Cancelled => {}
            PodResult::Gone => self.verdict = Some(JobOutcome::Gone),
            PodResult::Lost => self.verdict = Some(JobOutcome::Lost),
        }
        if self.verdict.is_none() && self.failures > rules.backoff_limit {
            self.verdict = Some(backoff_exceeded(rules, self.failures, exit));
        }
    }
}

fn backoff_exceeded(rules: &JobRules, failures: u32, exit: &PodExit) -> JobOutcome {
    let last = match &exit.result {
        PodResult::Failed { reason, message } => format!("; the last one: {reason}, {message}"),
        _ => String::new(),
    };
    JobOutcome::Failed {
        reason: "BackoffLimitExceeded".into(),
        message: format!("{failures} failures, backoffLimit allows {}{last}", rules.backoff_limit),
    }
}

/// Pods to start now, and when to ask again if a delay holds them back.
fn starts(job: &JobState<'_>, tally: &Tally, live: usize, now: Time) -> (Vec<PodStart>, Option<Time>) {
    let parallelism = job.rules.parallelism as usize;
    let wanted = match job.rules.completions {
        Some(completions) => parallelism.min(completions.saturating_sub(tally.succeeded) as usize),
        // A success of a Job without completions says that the work is done: the others end by themselves.
        None if tally.succeeded > 0 => 0,
        None => parallelism,
    };
    let missing = wanted.saturating_sub(live);
    if missing == 0 || job.clock.is_paused() {
        return (Vec::new(), None);
    }
    if let Some(failed) = tally.last_failure {
        let due = job.clock.after(failed, restart_delay(tally.since_success));
        if due.is_none_or(|due| due > now) {
            return (Vec::new(), due);
        }
    }
    let next = job.pods.iter().map(|pod| pod.number.saturating_add(1)).max().unwrap_or(0);
    let numbers = next..next.saturating_add(u32::try_from(missing).unwrap_or(u32::MAX));
    if !job.rules.indexed {
        return (numbers.map(|number| PodStart { number, index: None }).collect(), None);
    }
    let taken: BTreeSet<u32> = job
        .pods
        .iter()
        .filter(|pod| pod.exit.is_none())
        .filter_map(|pod| pod.index)
        .chain(tally.indexes.iter().copied())
        .collect();
    let free = (0..job.rules.completions.unwrap_or(0)).filter(|index| !taken.contains(index));
    (numbers.zip(free).map(|(number, index)| PodStart { number, index: Some(index) }).collect(), None)
}
