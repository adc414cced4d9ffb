//! The end of a scripted attempt as a substrate reports it: document, failed pods, files, artifacts. Owns their shape
//! only; what happened is the script's.

use serde_json::{Value, json};

use super::play::Play;
use crate::attempt::{AttemptEnd, AttemptSpec, ContainerEnd, EndResult, FileValue, PodEnd};
use crate::spec::status::ArtifactRecord;
use crate::time::Time;

/// What is known of an attempt that ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended<'a> {
    pub(super) spec: &'a AttemptSpec,
    pub(super) play: &'a Play,
    /// How it ended, which a cancellation or loss may have decided before the play did.
    pub(super) result: &'a EndResult,
    pub(super) started_at: Time,
    pub(super) ended_at: Time,
}

/// The end of an execution.
pub(super) fn end(ended: Ended<'_>) -> AttemptEnd {
    let Ended { spec, play, result, ended_at, .. } = ended;
    let whole = matches!(result, EndResult::Succeeded | EndResult::Failed { .. });
    AttemptEnd {
        result: result.clone(),
        document: document(ended),
        failed_pods: failed_pods(ended),
        files: if whole { files(spec, play) } else { Vec::new() },
        artifacts: if *result == EndResult::Succeeded { artifacts(spec, play) } else { Vec::new() },
        ended_at,
    }
}

fn document(ended: Ended<'_>) -> Value {
    let Ended { spec, play, result, started_at, ended_at } = ended;
    let mut document = spec.template.as_object().cloned().unwrap_or_default();
    let finished = ended_at.whole_seconds().to_string();
    let condition = |kind: &str, reason: &str, message: &str| json!({ "type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": finished });
    let status = match result {
        EndResult::Succeeded => json!({
            "succeeded": 1, "startTime": started_at.whole_seconds().to_string(), "completionTime": finished,
            "conditions": [condition("Complete", "CompletionsReached", "")],
        }),
        EndResult::Failed { reason, message } => json!({
            "failed": 1, "startTime": started_at.whole_seconds().to_string(),
            "conditions": [condition("Failed", reason, message)],
        }),
        EndResult::Cancelled | EndResult::Gone | EndResult::Lost => {
            json!({ "startTime": started_at.whole_seconds().to_string() })
        }
    };
    document.insert("status".to_owned(), status);
    if let Some(code) = exit_code(result, play) {
        let mut termination = json!({ "exitCode": code, "message": play.termination });
        if let (Some(members), Ok(parsed)) = (termination.as_object_mut(), serde_json::from_str(&play.termination)) {
            members.insert("json".to_owned(), parsed);
        }
        document.insert("termination".to_owned(), termination);
    }
    Value::Object(document)
}

fn exit_code(result: &EndResult, play: &Play) -> Option<i32> {
    if *result == play.end { play.exit_code } else { None }
}

fn failed_pods(ended: Ended<'_>) -> Vec<PodEnd> {
    match (ended.result, exit_code(ended.result, ended.play)) {
        (EndResult::Failed { .. }, Some(exit_code)) => {
            let name = ended.spec.template.pointer("/spec/template/spec/containers/0/name").and_then(Value::as_str);
            let name = name.unwrap_or("main").to_owned();
            vec![PodEnd { containers: vec![ContainerEnd { name, exit_code }] }]
        }
        _ => Vec::new(),
    }
}

fn files(spec: &AttemptSpec, play: &Play) -> Vec<FileValue> {
    let mut files = Vec::new();
    for output in spec.output_files.iter().filter(|output| !play.missing.contains(&output.name)) {
        let name = output.name.clone();
        match play.files.get(&name) {
            Some(content) => files.push(FileValue { name, content: content.clone() }),
            None if play.fill => {
                let content = Ok(format!("{}/{name}", spec.key.step));
                files.push(FileValue { name, content });
            }
            None => {}
        }
    }
    files
}

fn artifacts(spec: &AttemptSpec, play: &Play) -> Vec<ArtifactRecord> {
    let mut records = Vec::new();
    for output in spec.output_artifacts.iter().filter(|output| !play.missing.contains(&output.name)) {
        let location = match play.artifacts.get(&output.name) {
            Some(location) => location.clone(),
            None if play.fill => Play::default_location(&spec.key, &output.name),
            None => continue,
        };
        records.push(ArtifactRecord { name: output.name.clone(), path: output.path.clone(), location: Some(location) });
    }
    records
}
