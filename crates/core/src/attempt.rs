//! An attempt, which is one execution of a step: its address, its specification and its end. Owns the values that a flow's host
//! and a substrate exchange; never starts anything.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::name;
use crate::spec::artifact::{Archive, HttpSource, S3Object};
use crate::spec::status::{ArtifactLocation, ArtifactRecord};
use crate::time::Time;

/// A step of a plan by its index from 0, in the order of the spec; `finally` steps come after all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepIndex(pub u32);

/// A step, or one instance of a fan-out step, by its position in the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Address {
    /// The step.
    pub step: StepIndex,
    /// Index of the instance, from 0, where it is one of a fan-out step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
}

impl Address {
    /// A step that does not fan out, or a fan-out step as a whole.
    #[must_use]
    pub const fn step(index: u32) -> Self {
        Self { step: StepIndex(index), item: None }
    }

    /// An instance of a fan-out.
    #[must_use]
    pub const fn instance(index: u32, item: u32) -> Self {
        Self { step: StepIndex(index), item: Some(item) }
    }
}

/// The key of an attempt everywhere outside the engine: flow uid, step, instance, attempt number.
///
/// A substrate starts at most one execution under a key (it is the idempotency key of starts), and a result counts only for the
/// attempt of its key (it is the fencing token of results).
///
/// ```
/// use orlop_core::attempt::AttemptKey;
/// let key = AttemptKey { flow: "6d0d7a5e".into(), step: "build".into(), item: Some(3), attempt: 2 };
/// assert_eq!((key.instance(), key.to_string()), ("build-i3".into(), "6d0d7a5e/build-i3/2".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptKey {
    /// Unique id of the flow.
    pub flow: Arc<str>,
    /// Name of the step.
    pub step: Arc<str>,
    /// Index of the instance, from 0, where it is one of a fan-out step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    /// Number of the attempt, from 1.
    pub attempt: u32,
}

impl AttemptKey {
    /// Name of the step, or `<step>-i<k>` of an instance.
    #[must_use]
    pub fn instance(&self) -> String {
        self.item.map_or_else(|| self.step.to_string(), |item| name::instance(&self.step, item))
    }
}

impl fmt::Display for AttemptKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.flow, self.instance(), self.attempt)
    }
}

/// Everything a substrate needs to start an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptSpec {
    /// Which attempt it is.
    pub key: AttemptKey,
    /// Name of the flow.
    pub flow_name: String,
    /// Namespace of the flow.
    pub namespace: String,
    /// Name of the Job or container.
    pub job_name: String,
    /// The `batch/v1` Job: parameters substituted, claims rewritten, names, labels and annotations set. Secrets are in
    /// it as `secretKeyRef` only. Null where the step has no template.
    pub template: Arc<Value>,
    /// The arguments of a step without a template; none for all others. Only substrates that
    /// [run functions](crate::ports::substrate::Substrate::runs_functions) get such steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<FunctionInput>,
    /// Artifacts to deliver before the command starts.
    pub inputs: Vec<ArtifactDelivery>,
    /// Files whose contents are output parameters.
    pub output_files: Vec<OutputFile>,
    /// Artifacts to collect after success.
    pub output_artifacts: Vec<ArtifactCollection>,
}

/// The arguments of an attempt of a step without a template: the values that placeholders of a template would be replaced by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionInput {
    /// Parameters of the flow and of the step, by name; one of the step replaces one of the flow with the same name. Secrets
    /// are left out.
    pub parameters: BTreeMap<String, String>,
    /// The item of the list, where the attempt is of an instance of a fan-out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<Value>,
}

/// An artifact to deliver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactDelivery {
    /// Name of the input.
    pub name: String,
    /// Absolute path, as the container sees it.
    pub path: String,
    /// Whether an archive is delivered as the original file or tree.
    pub unpack: bool,
    /// Where it comes from.
    pub source: ArtifactSource,
}

/// Where a delivered artifact comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ArtifactSource {
    /// The store.
    Stored {
        /// Where it is stored.
        location: ArtifactLocation,
        /// How it was packed by its producer.
        archive: Option<Archive>,
    },
    /// A URL, from which the substrate downloads it.
    Http(HttpSource),
}

/// A file whose content is an output parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputFile {
    /// Name of the output.
    pub name: String,
    /// Absolute path, as the container sees it.
    pub path: String,
}

/// An artifact to collect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactCollection {
    /// Name of the output.
    pub name: String,
    /// Absolute path, as the container sees it.
    pub path: String,
    /// Whether it may be missing.
    pub optional: bool,
    /// How it is packed.
    pub archive: Option<Archive>,
    /// The S3 object it is stored as; none: it goes to the store of the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Object>,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptEnd {
    /// Whether it succeeded, failed or was ended.
    pub result: EndResult,
    /// What paths of other steps read: a `batch/v1` Job as JSON with its `status`, and `termination` beside the status.
    pub document: Value,
    /// Its failed pods, in creation order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_pods: Vec<PodEnd>,
    /// What the output files held; missing ones are absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileValue>,
    /// Collected artifacts; missing ones are absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactRecord>,
    /// When it ended.
    pub ended_at: Time,
}

impl AttemptEnd {
    /// The end of an attempt without outputs: its document is a Job with an empty status.
    ///
    /// ```
    /// use orlop_core::attempt::{AttemptEnd, EndResult};
    /// use orlop_core::time::Time;
    /// let end = AttemptEnd::without_job(EndResult::Lost, Time::from_millis(5));
    /// assert_eq!((end.document["kind"].as_str(), end.files.len()), (Some("Job"), 0));
    /// ```
    #[must_use]
    pub fn without_job(result: EndResult, ended_at: Time) -> Self {
        Self {
            result,
            document: json!({ "apiVersion": "batch/v1", "kind": "Job", "status": {} }),
            failed_pods: Vec::new(),
            files: Vec::new(),
            artifacts: Vec::new(),
            ended_at,
        }
    }

    /// The end of an attempt that succeeded; [`AttemptEnd::file`] adds outputs.
    ///
    /// ```
    /// use orlop_core::attempt::AttemptEnd;
    /// use orlop_core::time::Time;
    /// let end = AttemptEnd::succeeded(Time::from_millis(5)).file("year", "2026");
    /// assert_eq!(end.document["status"]["succeeded"], 1);
    /// assert_eq!(end.files[0].content.as_deref(), Ok("2026"));
    /// ```
    #[must_use]
    pub fn succeeded(ended_at: Time) -> Self {
        let document = json!({ "apiVersion": "batch/v1", "kind": "Job", "status": { "succeeded": 1, "completionTime": ended_at.to_string() } });
        Self { document, ..Self::without_job(EndResult::Succeeded, ended_at) }
    }

    /// The end of an attempt that failed, with the reason as one word and as a sentence.
    ///
    /// ```
    /// use orlop_core::attempt::{AttemptEnd, EndResult};
    /// use orlop_core::time::Time;
    /// let end = AttemptEnd::failed("NonZeroExit", "exit code 1", Time::from_millis(5));
    /// assert!(matches!(end.result, EndResult::Failed { reason, .. } if reason == "NonZeroExit"));
    /// ```
    #[must_use]
    pub fn failed(reason: impl Into<String>, message: impl Into<String>, ended_at: Time) -> Self {
        let document = json!({ "apiVersion": "batch/v1", "kind": "Job", "status": { "failed": 1 } });
        let result = EndResult::Failed { reason: reason.into(), message: message.into() };
        Self { document, ..Self::without_job(result, ended_at) }
    }

    /// The same end with the content of an output file, by the name of the output. Content of more than [`OUTPUT_VALUE_MAX`]
    /// bytes becomes [`FileTrouble::TooLarge`].
    #[must_use]
    pub fn file(mut self, name: impl Into<String>, content: impl Into<String>) -> Self {
        let content = Some(content.into()).filter(|text| text.len() <= OUTPUT_VALUE_MAX).ok_or(FileTrouble::TooLarge);
        self.files.push(FileValue { name: name.into(), content });
        self
    }
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum EndResult {
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed {
        /// One word: the Job's own reason, or NonZeroExit, Signalled, OOMKilled, DeadlineExceeded, OutputTooLarge, ….
        reason: String,
        /// A sentence.
        message: String,
    },
    /// It was cancelled and is gone with all its children.
    Cancelled,
    /// It was deleted from outside, for example by `kubectl delete job`.
    Gone,
    /// The machine or program it ran on was lost.
    Lost,
}

/// A pod, container or process of an attempt that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodEnd {
    /// Its containers that terminated.
    pub containers: Vec<ContainerEnd>,
}

/// How a container ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerEnd {
    /// Name of the container.
    pub name: String,
    /// Its exit code; 128 + n when ended by signal n.
    pub exit_code: i32,
}

/// What an output file held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileValue {
    /// Name of the output.
    pub name: String,
    /// Its content without one trailing newline, or why it cannot be a value.
    pub content: Result<String, FileTrouble>,
}

/// Why the content of a file cannot be an output value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileTrouble {
    /// It is larger than an output may be.
    TooLarge,
    /// It is not UTF-8 text.
    NotText,
    /// It is not a regular file: a directory, a pipe, a socket, a link.
    NotFile,
}

/// The longest output value, in bytes.
pub const OUTPUT_VALUE_MAX: usize = 256 * 1024;
