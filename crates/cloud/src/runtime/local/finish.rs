//! The end of an attempt: outputs are collected, the end is written down, what only the pods needed is deleted, and the host is
//! told.

use std::fs;
use std::pin::pin;

use orlop_core::attempt::{AttemptEnd, ContainerEnd, EndResult, PodEnd};
use orlop_core::error::Problem;
use orlop_core::spec::status::cut_message;

use super::attempt::{Attempt, Command};
use super::collect::{Collected, collect};
use super::driver::Driver;
use super::load::removed;
use super::records::PodIntent;
use super::retry::keep;
use crate::runtime::blocking::blocking;
use crate::runtime::job::decide::JobOutcome;
use crate::runtime::job::document::{EndedJob, document, speaker};
use crate::runtime::job::rules::PodRecord;
use crate::runtime::plan::resolve::attempt_uid;
use crate::runtime::pod::{PodResult, PodRuntime};
use crate::runtime::volume::prepare::discard as discard_volumes;

impl<R: PodRuntime + ?Sized> Driver<R> {
    /// Ends the attempt, whose pods have all ended.
    pub(super) async fn finish(mut self, verdict: Option<JobOutcome>) {
        self.accept(None).await;
        let (verdict, collected) = self.gather(verdict).await;
        let end = self.end(verdict, collected);
        let path = self.attempt.dir.end();
        keep("the end of an attempt", path, end.clone()).await;
        let (attempt, numbers) = (self.attempt.clone(), self.pods.keys().copied().collect::<Vec<_>>());
        if let Err(error) = blocking(move || clean(&attempt, &numbers)).await {
            tracing::warn!(attempt = %self.attempt.spec.key, error = error.chain(), "volumes of a pod stay behind");
        }
        self.give_back();
        let inner = &self.attempt.inner;
        inner.live().remove(&self.attempt.spec.key);
        inner.reports.deliver(&self.attempt.spec.key, end);
    }

    /// Takes the outputs, which may be long in coming; orders are answered meanwhile, and a success that is cancelled before
    /// its outputs are taken is none.
    async fn gather(&mut self, verdict: Option<JobOutcome>) -> (Option<JobOutcome>, Collected) {
        let pods: Vec<&PodRecord> = self.pods.values().map(|intent| &intent.record).collect();
        let pod = match (&verdict, speaker(&pods).and_then(|pod| self.pods.get(&pod.number))) {
            (Some(JobOutcome::Complete | JobOutcome::Failed { .. }), Some(pod)) if has_run(pod) => pod.clone(),
            _ => return (verdict, Collected::default()),
        };
        let attempt = self.attempt.clone();
        let mut collecting = pin!(collect(&attempt, pod));
        loop {
            let command = tokio::select! {
                biased;
                collected = &mut collecting => return (verdict, collected),
                Some(command) = self.commands.recv() => command,
            };
            let cancelled = matches!(command, Command::Cancel(..));
            self.obey(command).await;
            if cancelled {
                return (verdict.filter(|verdict| *verdict != JobOutcome::Complete), Collected::default());
            }
        }
    }

    fn end(&self, verdict: Option<JobOutcome>, collected: Collected) -> AttemptEnd {
        let pods: Vec<&PodRecord> = self.pods.values().map(|intent| &intent.record).collect();
        let cancelled_at = self.control.cancel.map(|cancel| cancel.at);
        let last = pods.iter().filter_map(|pod| Some(pod.exit.as_ref()?.ended_at)).max();
        // What runs pods may go by another clock.
        let now = self.attempt.inner.now();
        let ended_at = last.or(cancelled_at).unwrap_or(now).min(now).max(self.attempt.started_at);
        let verdict = match verdict {
            // Being cancelled explains that nothing is left of it.
            Some(JobOutcome::Lost | JobOutcome::Gone) if cancelled_at.is_some() => None,
            verdict => verdict,
        };
        let verdict = match (verdict, collected.trouble) {
            (Some(JobOutcome::Complete), Some(trouble)) => Some(untaken(&trouble)),
            (verdict, _) => verdict,
        };
        let attempt = &self.attempt;
        let uid = attempt_uid(&attempt.spec.key);
        let job = EndedJob {
            template: &attempt.spec.template,
            name: &attempt.spec.job_name,
            namespace: &attempt.spec.namespace,
            uid: &uid,
            rules: &attempt.template.rules,
            pods: &pods,
            main: &attempt.template.pod.main.name,
            started_at: attempt.started_at,
            ended_at,
            verdict: verdict.as_ref(),
        };
        AttemptEnd {
            document: document(&job),
            failed_pods: failed_pods(&pods),
            files: collected.files,
            artifacts: collected.artifacts,
            ended_at,
            result: match verdict {
                Some(JobOutcome::Complete) => EndResult::Succeeded,
                Some(JobOutcome::Failed { reason, message }) => {
                    EndResult::Failed { reason, message: cut_message(&message) }
                }
                Some(JobOutcome::Lost) => EndResult::Lost,
                Some(JobOutcome::Gone) => EndResult::Gone,
                None => EndResult::Cancelled,
            },
        }
    }
}

/// Whether a container of the pod ran at all.
fn has_run(pod: &PodIntent) -> bool {
    pod.record.exit.as_ref().is_some_and(|exit| !exit.containers.is_empty())
}

/// What a success becomes whose outputs cannot be taken.
fn untaken(trouble: &Problem) -> JobOutcome {
    let reason = trouble.reason.unwrap_or("OutputMissing").to_owned();
    JobOutcome::Failed { reason, message: trouble.message.clone() }
}

/// Failed pods in creation order, with the containers that terminated.
fn failed_pods(pods: &[&PodRecord]) -> Vec<PodEnd> {
    let exits = pods.iter().filter_map(|pod| pod.exit.as_ref());
    let failed = exits.filter(|exit| matches!(exit.result, PodResult::Failed { .. }));
    let container = |container: &crate::runtime::pod::ContainerExit| ContainerEnd {
        name: container.name.clone(),
        exit_code: container.exit_code,
    };
    failed.map(|exit| PodEnd { containers: exit.containers.iter().map(container).collect() }).collect()
}

/// Deletes what only the pods needed, secrets first of all.
fn clean<R: PodRuntime + ?Sized>(attempt: &Attempt<R>, numbers: &[u32]) -> Result<(), Problem> {
    for number in numbers {
        let pod = attempt.dir.pod(*number);
        discard_volumes(&attempt.places(&pod))?;
        for path in pod.leftovers() {
            removed(fs::remove_dir_all(path))?;
        }
    }
    attempt.dir.memory().map_or(Ok(()), |memory| removed(fs::remove_dir_all(memory)))?;
    Ok(())
}
