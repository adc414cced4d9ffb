//! What the helper in a pod left: its report as termination message, and why inputs could not be had.
//! Owns what of it counts: a success whose outputs cannot be taken is none, and where an artifact is follows from the Job.

use orlop_core::attempt::{EndResult, FileValue};
use orlop_core::helper::{Content, REPORT, Report, ReportError, ReportedFailure};
use orlop_core::spec::status::{ArtifactRecord, cut_message};
use orlop_core::spec::step::Step;
use orlop_dag::params::Termination;
use serde_json::Value;

use super::AttemptPods;
use crate::render::helper::{FETCHER, HelperAnnotation};
use crate::value::{item, items, text};

/// Exit codes above this one are those of signals.
const KILLED: i64 = 128;

/// What an attempt gave through the helper.
#[derive(Debug, Default)]
pub(super) struct HelperOutcome {
    pub(super) files: Vec<FileValue>,
    pub(super) artifacts: Vec<ArtifactRecord>,
    /// What became of the attempt instead of what its Job says.
    pub(super) instead: Option<EndResult>,
}

/// Where the report of an attempt is that did not fit: the ConfigMap, and what it must be.
pub(super) fn elsewhere(annotation: &HelperAnnotation, termination: Option<&Termination>) -> Option<(String, Content)> {
    let reported = termination.filter(|_| annotation.reports)?.message.as_deref()?;
    let content = Report::read(reported).ok()?.elsewhere?;
    Some((annotation.config_map(REPORT)?.to_owned(), content))
}

/// The report of an attempt: the one that was handed in where the message says so.
fn report(reported: &str, whole: Option<&str>) -> Result<Report, ReportError> {
    let report = Report::read(reported)?;
    match report.elsewhere {
        None => Ok(report),
        Some(_) => match whole {
            Some(whole) => Report::read_whole(whole),
            None => Ok(Report::of_trouble(
                "OutputMissing",
                "the report of the helper was too long for a termination message, and the uploaded report is missing \
                 or has changed",
            )),
        },
    }
}

/// Reads what the helper left of an attempt, and puts the command's own termination message in the place of the report.
pub(super) fn helper_outcome(
    step: Option<&Step>,
    annotation: &HelperAnnotation,
    result: &EndResult,
    termination: &mut Option<Termination>,
    left: &AttemptPods,
) -> HelperOutcome {
    if *result != EndResult::Succeeded
        && let Some(trouble) = fetching(&left.pods)
    {
        return HelperOutcome { instead: Some(failed(trouble)), ..HelperOutcome::default() };
    }
    let Some(ended) = termination.as_mut().filter(|_| annotation.reports) else { return HelperOutcome::default() };
    let reported = ended.message.take().unwrap_or_default();
    let report = match report(&reported, left.report.as_deref()) {
        Ok(report) => report,
        // A command that was killed with its helper has left nothing, or what it wrote itself.
        Err(error) => {
            ended.message = Some(reported).filter(|reported| !reported.is_empty());
            return HelperOutcome { instead: unread(result, &error), ..HelperOutcome::default() };
        }
    };
    ended.message = Some(report.message).filter(|message| !message.is_empty());
    let values = report.parameters.into_iter().map(|(name, value)| FileValue { name, content: Ok(value) });
    let unfit = report.unfit.into_iter().map(|(name, trouble)| FileValue { name, content: Err(trouble) });
    let declared = step.map(Step::output_artifacts).unwrap_or_default();
    let artifacts = declared.iter().filter_map(|output| {
        let kept = report.artifacts.iter().find(|kept| kept.name == output.name)?;
        let location = if kept.stored { annotation.location(&kept.name, kept.content.clone()) } else { None };
        Some(ArtifactRecord { name: output.name.clone(), path: output.path.clone(), location })
    });
    let instead = report.trouble.filter(|_| *result == EndResult::Succeeded).map(failed);
    HelperOutcome { files: values.chain(unfit).collect(), artifacts: artifacts.collect(), instead }
}

fn failed(trouble: ReportedFailure) -> EndResult {
    let message = cut_message(&trouble.message);
    // A word of whoever writes into a termination message is no reason that decides anything.
    let known =
        ["ArtifactUnavailable", "OutputInvalid", "OutputMissing", "OutputTooLarge", "ResourceConflict", "Forbidden"];
    let reason = known.into_iter().find(|known| *known == trouble.reason).unwrap_or("OutputMissing");
    EndResult::Failed { reason: reason.to_owned(), message }
}

/// What becomes of a success whose report cannot be read; a failure stays what it is.
fn unread(result: &EndResult, error: &ReportError) -> Option<EndResult> {
    let reason = if *error == ReportError::Full { "OutputTooLarge" } else { "OutputMissing" };
    (*result == EndResult::Succeeded)
        .then(|| EndResult::Failed { reason: reason.to_owned(), message: error.to_string() })
}

/// Why the last pod whose inputs could not be fetched did not start.
fn fetching(pods: &[Value]) -> Option<ReportedFailure> {
    let mut failed: Vec<&Value> = pods.iter().filter(|pod| text(pod, "/status/phase") == "Failed").collect();
    failed.sort_by_key(|pod| (text(pod, "/metadata/creationTimestamp"), text(pod, "/metadata/name")));
    let last = failed.last()?;
    let started = items(last, "/status/containerStatuses").iter().any(|status| {
        let ended = status.pointer("/state/terminated");
        ended.is_some_and(|ended| ended.get("startedAt").is_some_and(|at| !at.is_null()))
    });
    let status = item(last, "/status/initContainerStatuses", "name", FETCHER)?;
    let code = status.pointer("/state/terminated/exitCode")?.as_i64()?;
    if code == 0 || started {
        return None;
    }
    let reported = Report::read(&text(status, "/state/terminated/message")).ok().and_then(|report| report.trouble);
    // A helper that was killed, by a deadline, an eviction or for its memory, says nothing of its inputs: the Job does.
    reported.or_else(|| {
        let message = format!("the helper that fetches inputs ended with exit code {code}; see its log");
        (code <= KILLED).then(|| ReportedFailure { reason: "ArtifactUnavailable".to_owned(), message })
    })
}
