//! What a person sees while a flow runs: a line per event, or a tree that moves.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_core::spec::status::FlowStatus;
use orlop_dag::engine::StatusView;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

use super::failure::Failure;
use super::target::Reports;
use super::{output, tree};
use crate::host::flow::{HostHandle, Notice};
use crate::view::items::Items;
use crate::view::name::RunName;

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Progress {
    /// A tree on a terminal that can draw one, else lines
    #[default]
    Auto,
    /// The same, said aloud
    Tree,
    /// A line per event
    Plain,
    /// Nothing
    None,
}

impl Progress {
    /// What is reported of a flow that somebody else drives.
    ///
    /// # Errors
    /// When that cannot be drawn.
    pub(super) fn reports(self) -> Result<Reports, Failure> {
        match self {
            Self::None => Ok(Reports::Nothing),
            Self::Auto | Self::Plain => Ok(Reports::Steps),
            Self::Tree => Err(Failure::usage(
                "`--progress tree` is drawn for runs on this machine alone; use `--progress plain`, or run with --target local",
            )),
        }
    }
}

/// Shows the progress of a flow until its host has gone.
pub(super) async fn show(progress: Progress, handle: HostHandle, name: RunName, items: Items) {
    let (status, notices) = (handle.status(), handle.notices());
    drop(handle);
    match progress {
        Progress::None => {}
        Progress::Tree | Progress::Auto if output::can_draw() => tree::show(status, &name, &items).await,
        Progress::Tree | Progress::Plain | Progress::Auto => lines(status, notices, &name).await,
    }
}

async fn lines(mut status: watch::Receiver<Arc<StatusView>>, mut notices: broadcast::Receiver<Notice>, name: &RunName) {
    let mut retries = Retries::default();
    loop {
        let notice = tokio::select! {
            biased;
            notice = notices.recv() => notice,
            // The other end goes when the host does, and so do the notices.
            Ok(()) = status.changed() => {
                let view = Arc::clone(&status.borrow_and_update());
                retries.news(&view.status).iter().for_each(|line| output::tell(line));
                continue;
            }
        };
        match notice {
            Ok(notice) => {
                if let Some(line) = line(&notice, name) {
                    output::tell(&line);
                }
            }
            Err(RecvError::Lagged(missed)) => output::tell(&format!("({missed} events are not shown)")),
            Err(RecvError::Closed) => break,
        }
    }
    // Anyone who waits for this task wants the last status seen.
    status.mark_unchanged();
}

/// Failures after which a step is tried again, each reported once: no notice tells them.
#[derive(Debug, Default)]
pub(super) struct Retries(BTreeMap<String, u32>);

impl Retries {
    /// Those that a status shows and that were not reported.
    pub(super) fn news(&mut self, status: &FlowStatus) -> Vec<String> {
        let mut lines = Vec::new();
        for step in &status.steps {
            let Some(due) = step.next_retry_time.filter(|_| self.0.get(&step.name) != Some(&step.attempt)) else {
                continue;
            };
            self.0.insert(step.name.clone(), step.attempt);
            let at = step.completion_time.map(|at| format!("{at} ")).unwrap_or_default();
            let message = crate::view::text::one_line(&step.message, 400);
            lines.push(format!("{at}{} failed (attempt {}): {message}; tried again at {due}", step.name, step.attempt));
        }
        lines
    }
}

/// A notice as a line; none for those that say nothing to a person.
#[must_use]
pub(super) fn line(notice: &Notice, name: &RunName) -> Option<String> {
    let what = match notice.notice.reason.as_str() {
        "StepCreated" => "started",
        "StepSucceeded" => "succeeded",
        "StepFailed" => "failed",
        "StepSkipped" => "skipped",
        "StepRetry" => "tried again",
        "StepTimeout" => "timed out",
        "StepPendingApproval" => "waits for a decision",
        "StepApproved" => "approved",
        "StepRejected" => "rejected",
        "JobFlowCreated" | "JobFlowStarted" | "FlowPaused" => return None,
        "JobFlowCompleted" => "Succeeded",
        "JobFlowFailed" => "Failed",
        other => other,
    };
    let subject = if notice.step.is_empty() { &name.name } else { &notice.step };
    let attempt =
        if notice.notice.attempt > 1 { format!(" (attempt {})", notice.notice.attempt) } else { String::new() };
    let message = crate::view::text::one_line(&notice.notice.message, 400);
    let hint = match notice.notice.reason.as_str() {
        "StepPendingApproval" => format!("; continue with: orlop flow approve {} {subject}", name.call()),
        _ => String::new(),
    };
    let message = if message.is_empty() { String::new() } else { format!(": {message}") };
    Some(format!("{} {subject} {what}{attempt}{message}{hint}", notice.at))
}

/// The command that lets a paused flow go on.
#[must_use]
pub(super) fn approval_hint(name: &RunName, status: &FlowStatus) -> Option<String> {
    let waiting = |step: &&orlop_core::spec::status::StepStatus| {
        step.phase == orlop_core::machine::step::StepPhase::PendingApproval
    };
    let step = status.steps.iter().find(waiting)?;
    Some(format!("{} \u{2014} orlop flow approve {} {}", step.message, name.call(), step.name))
}
