//! What a driver off Kubernetes says about an attempt: a Job status as the Job controller writes it, and how the first
//! container ended. Owns the two forms; never decides whether an attempt succeeded.

use orlop_core::exact;
use orlop_core::time::Time;
use serde_json::{Map, Value, json};

/// The longest termination message that is read as JSON, in bytes.
pub const MESSAGE_JSON_MAX: usize = 64 * 1024;

/// How a Job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobOutcome {
    /// All completions succeeded.
    Complete,
    /// It failed for a reason of one word, with a sentence.
    Failed {
        /// One word, for example `BackoffLimitExceeded`.
        reason: String,
        /// A sentence.
        message: String,
    },
}

/// The status of a `batch/v1` Job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobStatus {
    /// Pods that run.
    pub active: u32,
    /// Pods that succeeded.
    pub succeeded: u32,
    /// Pods that failed.
    pub failed: u32,
    /// When the Job started.
    pub start_time: Option<Time>,
    /// When it ended.
    pub end_time: Option<Time>,
    /// How it ended.
    pub verdict: Option<JobOutcome>,
}

impl JobStatus {
    /// The status as JSON. As on Kubernetes, counters of zero are left out and `completionTime` is that of success only.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut status = Map::new();
        let conditions = self.conditions();
        if !conditions.is_empty() {
            status.insert("conditions".to_owned(), Value::Array(conditions));
        }
        if let Some(time) = self.start_time {
            status.insert("startTime".to_owned(), seconds(time));
        }
        if let (Some(time), Some(JobOutcome::Complete)) = (self.end_time, &self.verdict) {
            status.insert("completionTime".to_owned(), seconds(time));
        }
        for (name, count) in [("active", self.active), ("succeeded", self.succeeded), ("failed", self.failed)] {
            if count > 0 {
                status.insert(name.to_owned(), Value::from(count));
            }
        }
        Value::Object(status)
    }

    /// The condition that the pods are to stop, and the final one that they have.
    fn conditions(&self) -> Vec<Value> {
        let (kinds, reason, message) = match &self.verdict {
            None => return Vec::new(),
            Some(JobOutcome::Complete) => {
                (["SuccessCriteriaMet", "Complete"], "CompletionsReached", "all completions succeeded")
            }
            Some(JobOutcome::Failed { reason, message }) => {
                (["FailureTarget", "Failed"], reason.as_str(), message.as_str())
            }
        };
        let condition = |kind: &str| {
            let mut condition = Map::new();
            condition.insert("type".to_owned(), Value::from(kind));
            condition.insert("status".to_owned(), Value::from("True"));
            if let Some(time) = self.end_time {
                condition.insert("lastProbeTime".to_owned(), seconds(time));
                condition.insert("lastTransitionTime".to_owned(), seconds(time));
            }
            condition.insert("reason".to_owned(), Value::from(reason));
            condition.insert("message".to_owned(), Value::from(message));
            Value::Object(condition)
        };
        kinds.into_iter().map(condition).collect()
    }

    /// What an attempt leaves: this status, and beside it how the first container ended.
    #[must_use]
    pub fn document(&self, termination: Option<&Termination>) -> Value {
        let mut document = json!({"status": self.to_value()});
        if let (Some(termination), Value::Object(members)) = (termination, &mut document) {
            members.insert("termination".to_owned(), termination.to_value());
        }
        document
    }
}

fn seconds(time: Time) -> Value {
    Value::from(time.whole_seconds().to_string())
}

/// How the first container of an attempt ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Termination {
    /// Its exit code; 128 + n when ended by signal n.
    pub exit_code: i32,
    /// One word, for example `Completed`, `Error`, `OOMKilled`.
    pub reason: Option<String>,
    /// What it wrote as termination message.
    pub message: Option<String>,
}

impl Termination {
    /// `{exitCode, reason, message, json}`: absent members are left out, `json` is the message parsed where it is JSON of
    /// at most 64 KiB and 128 levels.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut members = Map::new();
        members.insert("exitCode".to_owned(), Value::from(self.exit_code));
        if let Some(reason) = &self.reason {
            members.insert("reason".to_owned(), Value::from(reason.as_str()));
        }
        if let Some(message) = &self.message {
            members.insert("message".to_owned(), Value::from(message.as_str()));
            if message.len() <= MESSAGE_JSON_MAX
                && let Ok(parsed) = exact::from_str(message)
            {
                members.insert("json".to_owned(), parsed);
            }
        }
        Value::Object(members)
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::machine::step::StepPhase;

    use super::super::{Document, Path};
    use super::*;

    fn ended(verdict: JobOutcome) -> JobStatus {
        JobStatus {
            start_time: Some("2026-11-21T09:00:00.250Z".parse().unwrap()),
            end_time: Some("2026-11-21T09:01:00.999Z".parse().unwrap()),
            verdict: Some(verdict),
            ..JobStatus::default()
        }
    }

    #[test]
    fn off_kubernetes_a_completed_job_reads_as_there() {
        let status = JobStatus { succeeded: 2, ..ended(JobOutcome::Complete) };
        insta::assert_snapshot!(status.to_value(), @r#"{"completionTime":"2026-11-21T09:01:00Z","conditions":[{"lastProbeTime":"2026-11-21T09:01:00Z","lastTransitionTime":"2026-11-21T09:01:00Z","message":"all completions succeeded","reason":"CompletionsReached","status":"True","type":"SuccessCriteriaMet"},{"lastProbeTime":"2026-11-21T09:01:00Z","lastTransitionTime":"2026-11-21T09:01:00Z","message":"all completions succeeded","reason":"CompletionsReached","status":"True","type":"Complete"}],"startTime":"2026-11-21T09:00:00Z","succeeded":2}"#);
    }

    #[test]
    fn off_kubernetes_a_failed_job_has_no_completion_time() {
        let verdict = JobOutcome::Failed { reason: "NonZeroExit".into(), message: "exit code 3".into() };
        let status = JobStatus { failed: 1, ..ended(verdict) };
        insta::assert_snapshot!(status.to_value(), @r#"{"conditions":[{"lastProbeTime":"2026-11-21T09:01:00Z","lastTransitionTime":"2026-11-21T09:01:00Z","message":"exit code 3","reason":"NonZeroExit","status":"True","type":"FailureTarget"},{"lastProbeTime":"2026-11-21T09:01:00Z","lastTransitionTime":"2026-11-21T09:01:00Z","message":"exit code 3","reason":"NonZeroExit","status":"True","type":"Failed"}],"failed":1,"startTime":"2026-11-21T09:00:00Z"}"#);
    }

    #[test]
    fn a_running_job_has_no_conditions() {
        let status = JobStatus { active: 1, ..JobStatus::default() };
        assert_eq!(status.to_value(), json!({"active": 1}));
        assert_eq!(JobStatus::default().document(None), json!({"status": {}}));
    }

    #[test]
    fn a_built_document_answers_the_usual_paths() {
        let status = JobStatus { succeeded: 1, ..ended(JobOutcome::Complete) };
        let document = Document::of_attempt(StepPhase::Succeeded, status.document(None));
        for (path, want) in [
            ("$.succeeded", "1"),
            ("$.status.startTime", "2026-11-21T09:00:00Z"),
            ("$.completionTime", "2026-11-21T09:01:00Z"),
            ("$.conditions[?@.type=='Complete'].status", "True"),
        ] {
            assert_eq!(document.query(&Path::parse(path).unwrap()).unwrap(), want, "{path}");
        }
    }

    fn termination(message: &str) -> Value {
        Termination { exit_code: 3, reason: Some("Error".into()), message: Some(message.into()) }.to_value()
    }

    #[test]
    fn termination_has_the_message_and_its_json() {
        assert_eq!(
            termination("{\"loss\": 0.7}\n"),
            json!({"exitCode": 3, "reason": "Error", "message": "{\"loss\": 0.7}\n", "json": {"loss": 0.7}})
        );
        assert_eq!(termination("7")["json"], json!(7));
        assert_eq!(termination("null").get("json"), Some(&Value::Null));
        let document = Document::of_attempt(
            StepPhase::Succeeded,
            JobStatus::default()
                .document(Some(&Termination { message: Some("{\"loss\":0.7}".into()), ..Termination::default() })),
        );
        assert_eq!(document.query(&Path::parse("$.termination.json.loss").unwrap()).unwrap(), "0.7");
    }

    #[test]
    fn a_message_that_is_no_json_has_none() {
        for message in
            ["", "done", "{\"a\": 1", "{} {}", &"[".repeat(1000), &format!("\"{}\"", "x".repeat(MESSAGE_JSON_MAX))]
        {
            let value = termination(message);
            assert_eq!(value["message"], message);
            assert_eq!(value.get("json"), None, "{message:.20}");
        }
        assert_eq!(Termination::default().to_value(), json!({"exitCode": 0}));
    }
}
