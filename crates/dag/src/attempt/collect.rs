//! From the end of an attempt to what the engine is told of it: outputs, projections, artifacts.
//! Owns which value an output has; decides nothing about success.

use orlop_core::attempt::{Address, AttemptEnd, EndResult, FileTrouble, OUTPUT_VALUE_MAX};
use orlop_core::event::{AttemptResult, FlowEvent};
use orlop_core::machine::step::StepPhase;
use orlop_core::spec::step::Step;
use serde_json::Value;

use crate::params::{Document, OutputSource, Path, QueryError, output_source};
use crate::plan::Plan;

/// The reason of outputs that are too long.
const TOO_LARGE: &str = "OutputTooLarge";
/// The reason of outputs that are no text.
const INVALID: &str = "OutputInvalid";
/// The reason of an output that would give a secret away.
const FORBIDDEN: &str = "Forbidden";

/// The event for the engine when an attempt has ended. `cancelling`: whether the engine asked for its cancellation; without that, an
/// attempt that was cancelled counts as deleted from outside.
#[must_use]
pub fn event(plan: &Plan, at: Address, attempt: u32, end: AttemptEnd, cancelling: bool) -> FlowEvent {
    let ended_at = end.ended_at;
    match &end.result {
        EndResult::Succeeded => {
            let result = Box::new(result(plan, at, &end, StepPhase::Succeeded));
            FlowEvent::AttemptSucceeded { at, attempt, result, ended_at }
        }
        EndResult::Failed { reason, message } => {
            let result = Box::new(result(plan, at, &end, StepPhase::Failed));
            let (reason, message, pods) = (reason.clone(), with_hint(message), end.failed_pods);
            FlowEvent::AttemptFailed { at, attempt, reason, message, pods, result, ended_at }
        }
        EndResult::Cancelled if cancelling => FlowEvent::CancelConfirmed { at, attempt, ended_at },
        EndResult::Cancelled | EndResult::Gone => FlowEvent::AttemptGone { at, attempt, ended_at },
        EndResult::Lost => {
            let message = "the machine or program that ran the attempt is gone".to_owned();
            FlowEvent::AttemptLost { at, attempt, message, ended_at }
        }
    }
}

/// The message of a failure, with what to do where the kernel refused the program its arguments or environment.
fn with_hint(message: &str) -> String {
    if message.to_ascii_lowercase().contains("argument list too long") {
        return format!(
            "{message}; one argument or variable may have 131071 bytes: give what is larger to the step as an artifact"
        );
    }
    message.to_owned()
}

/// What an attempt gave.
fn result(plan: &Plan, at: Address, end: &AttemptEnd, phase: StepPhase) -> AttemptResult {
    let mut result = AttemptResult { artifacts: end.artifacts.clone(), ..AttemptResult::default() };
    let Some(step) = plan.step(at.step) else { return result };
    let document = Document::of_attempt(phase, end.document.clone());
    let masked = without_masked(phase, end);
    outputs(step, end, &document, masked.as_ref(), &mut result);
    let document = document.with_outputs(result.outputs.clone());
    let masked = masked.map(|masked| masked.with_outputs(result.outputs.clone()));
    // A path that selects nothing here is the reader's trouble, not this attempt's.
    for text in plan.projections(at.step) {
        if let Ok(path) = Path::parse(text)
            && !reads_more(&path, &document, masked.as_ref())
            && let Ok(value) = document.query(&path)
        {
            result.projections.insert(text.clone(), value);
        }
    }
    result
}

fn outputs(step: &Step, end: &AttemptEnd, document: &Document, masked: Option<&Document>, result: &mut AttemptResult) {
    for output in step.output_parameters() {
        let name = &output.name;
        let value = match output_source(output) {
            Ok(OutputSource::Path(path)) => match document.query(&path) {
                Ok(_) if reads_more(&path, document, masked) => Err((FORBIDDEN, holds_secret(name))),
                Ok(text) if text.len() > OUTPUT_VALUE_MAX => Err((TOO_LARGE, too_large(name))),
                Ok(text) => Ok(Some(text)),
                Err(QueryError::Missing) => Ok(None),
                Err(error) => Err((INVALID, format!("output `{name}` cannot be recorded: {error}"))),
            },
            Ok(OutputSource::File(_)) => match end.files.iter().find(|file| file.name == *name) {
                None => Ok(None),
                Some(file) => match &file.content {
                    Ok(text) => Ok(Some(text.clone())),
                    Err(FileTrouble::TooLarge) => Err((TOO_LARGE, too_large(name))),
                    Err(FileTrouble::NotText) => {
                        let message = format!("the file of output `{name}` is not UTF-8 text; give it as an artifact");
                        Err((INVALID, message))
                    }
                    Err(FileTrouble::NotFile) => {
                        let message = format!(
                            "the file of output `{name}` is not a regular file but, for example, a directory or a pipe"
                        );
                        Err((INVALID, message))
                    }
                },
            },
            // Validation refuses such an output; without a source it has no value.
            Err(_) => Ok(None),
        };
        match value {
            Ok(Some(text)) => {
                result.outputs.insert(name.clone(), text);
            }
            Ok(None) => {}
            Err((reason, message)) => {
                result.trouble.get_or_insert((reason.to_owned(), message));
            }
        }
    }
}

/// The document without the termination message where a secret was masked in that: what is left of it is no value.
fn without_masked(phase: StepPhase, end: &AttemptEnd) -> Option<Document> {
    let masked = end.document.pointer("/termination/masked").and_then(Value::as_bool);
    masked.filter(|masked| *masked)?;
    let mut document = end.document.clone();
    if let Some(termination) = document.pointer_mut("/termination").and_then(Value::as_object_mut) {
        termination.retain(|member, _| !matches!(member.as_str(), "message" | "json"));
    }
    Some(Document::of_attempt(phase, document))
}

/// Whether a path reads what a document lacks.
fn reads_more(path: &Path, document: &Document, lacking: Option<&Document>) -> bool {
    lacking.is_some_and(|lacking| document.query(path).ok() != lacking.query(path).ok())
}

fn holds_secret(name: &str) -> String {
    format!(
        "output `{name}` is read from the termination message, which holds the value of a Secret, and outputs are recorded in the \
         open; hand secrets on by a volume or an artifact"
    )
}

fn too_large(name: &str) -> String {
    format!("output `{name}` is longer than the {OUTPUT_VALUE_MAX} bytes a value may have; give it as an artifact")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use orlop_core::attempt::FileValue;
    use orlop_core::spec::flow::FlowSpec;
    use orlop_core::time::Time;
    use serde_json::json;

    use super::*;

    fn plan() -> Plan {
        let template = json!({"spec": {}});
        let spec: FlowSpec = serde_json::from_value(json!({"steps": [
            {"name": "a", "template": template, "outputs": {"parameters": [
                {"name": "count", "valueFrom": {"jsonPath": "$.succeeded"}},
                {"name": "code", "valueFrom": {"jsonPath": "$.termination.exitCode"}},
                {"name": "file", "valueFrom": {"path": "/out"}},
            ]}},
            {"name": "b", "template": template, "inputs": {"parameters": [
                {"name": "x", "valueFrom": {"jsonPath": "a:$.outputs.file"}},
                {"name": "y", "valueFrom": {"jsonPath": "a:$.status.startTime"}},
                {"name": "z", "valueFrom": {"jsonPath": "a:$.nothing"}},
            ]}},
        ]}))
        .unwrap();
        Plan::build(Arc::new(spec)).unwrap()
    }

    fn end(result: EndResult, files: Vec<FileValue>) -> AttemptEnd {
        let status: Value = json!({"succeeded": 1, "startTime": "2026-01-01T00:00:00Z"});
        let document = json!({"status": status, "termination": {"exitCode": 0}});
        AttemptEnd { result, document, failed_pods: vec![], files, artifacts: vec![], ended_at: Time::from_millis(5) }
    }

    #[test]
    fn no_path_reads_a_termination_message_in_which_a_secret_was_masked() {
        let status: Value = json!({"succeeded": 1});
        let termination = json!({"exitCode": 0, "reason": "Completed", "message": "{\"reason\":\"***\"}", "json": {"reason": "***"}, "masked": true});
        for (path, taken) in [
            ("$.termination.exitCode", true),
            ("$.termination['reason']", true),
            ("$.status.succeeded", true),
            ("$.termination.message", false),
            ("$.termination.json.reason", false),
            ("$..message", false),
        ] {
            let spec: FlowSpec = serde_json::from_value(json!({"steps": [{"name": "a", "template": {"spec": {}},
                "outputs": {"parameters": [{"name": "o", "valueFrom": {"jsonPath": path}}]}}]}))
            .unwrap();
            let plan = Plan::build(Arc::new(spec)).unwrap();
            let end = AttemptEnd {
                document: json!({"status": status, "termination": termination}),
                ..end(EndResult::Succeeded, Vec::new())
            };
            let FlowEvent::AttemptSucceeded { result, .. } = event(&plan, Address::step(0), 1, end, false) else {
                unreachable!()
            };
            let reason = result.trouble.as_ref().map(|(reason, _)| reason.as_str());
            assert_eq!((result.outputs.contains_key("o"), reason.is_none()), (taken, taken), "{path}: {reason:?}");
            assert!(taken || reason == Some("Forbidden"), "{path}: {reason:?}");
        }
    }

    fn file(content: Result<String, FileTrouble>) -> Vec<FileValue> {
        vec![FileValue { name: "file".into(), content }]
    }

    fn given(end: AttemptEnd) -> AttemptResult {
        match event(&plan(), Address::step(0), 1, end, false) {
            FlowEvent::AttemptSucceeded { result, .. } | FlowEvent::AttemptFailed { result, .. } => *result,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn outputs_and_projections_are_extracted_once() {
        let result = given(end(EndResult::Succeeded, file(Ok("text".into()))));
        let pairs = |map: &std::collections::BTreeMap<String, String>| format!("{map:?}");
        assert_eq!(pairs(&result.outputs), r#"{"code": "0", "count": "1", "file": "text"}"#);
        assert_eq!(
            pairs(&result.projections),
            r#"{"$.status.startTime": "2026-01-01T00:00:00Z"}"#,
            "what is recorded by name is not recorded twice"
        );
        assert_eq!(result.trouble, None);
    }

    #[test]
    fn a_missing_file_is_absent_and_a_bad_one_is_trouble() {
        let result = given(end(EndResult::Succeeded, vec![]));
        assert!(!result.outputs.contains_key("file") && result.trouble.is_none());
        for (trouble, expected) in [
            (FileTrouble::TooLarge, "OutputTooLarge"),
            (FileTrouble::NotText, "OutputInvalid"),
            (FileTrouble::NotFile, "OutputInvalid"),
        ] {
            let (reason, message) = given(end(EndResult::Succeeded, file(Err(trouble)))).trouble.unwrap();
            assert_eq!(reason, expected);
            assert!(message.contains("`file`"), "{message}");
        }
    }

    #[test]
    fn failures_give_what_is_there() {
        let failed = EndResult::Failed { reason: "NonZeroExit".into(), message: "exit code 1".into() };
        assert_eq!(given(end(failed, file(Ok("half".into())))).outputs.get("file").unwrap(), "half");
    }

    #[test]
    fn arguments_that_the_kernel_refuses_come_with_what_to_do() {
        let message = "container `main` cannot be started: Argument list too long (os error 7)".to_owned();
        let failed = EndResult::Failed { reason: "NonZeroExit".into(), message };
        match event(&plan(), Address::step(0), 1, end(failed, vec![]), false) {
            FlowEvent::AttemptFailed { message, .. } => {
                assert!(message.ends_with("give what is larger to the step as an artifact"), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_cancelled_attempt_that_nobody_cancelled_was_deleted_by_somebody_else() {
        let reported = |cancelling| event(&plan(), Address::step(0), 1, end(EndResult::Cancelled, vec![]), cancelling);
        assert!(matches!(reported(true), FlowEvent::CancelConfirmed { .. }));
        assert!(matches!(reported(false), FlowEvent::AttemptGone { .. }));
    }
}
