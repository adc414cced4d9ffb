//! The parts of a job specification: how it is run, repeated, divided, fed and logged. Owns their fields, defaults and
//! reading; what they may hold is checked beside them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::SpecErrors;
use super::index::Indices;
use super::place::bytes;
use super::read::{Object, Read, deserialize_as_read, read_named, wrong};
use crate::named::named_enum;

named_enum! {
    /// How an attempt is run.
    #[derive(Default)]
    pub enum Runtime("runtime") {
        /// As a process of the worker's host.
        #[default]
        Process = "process",
        /// As a container.
        Docker = "docker",
        /// Not at all: it ends at once with exit code 0.
        Noop = "noop",
    }
}

named_enum! {
    /// When an image is fetched.
    #[derive(Default)]
    pub enum Pull("pull policy") {
        /// When the worker does not have it.
        #[default]
        IfMissing = "if-missing",
        /// Before every attempt.
        Always = "always",
        /// Never.
        Never = "never",
    }
}

named_enum! {
    /// How a job gets a secret.
    pub enum SecretAs("way to pass a secret") {
        /// As a file.
        File = "file",
        /// As a variable of its environment.
        Env = "env",
    }
}

named_enum! {
    /// Which ends are worth another attempt.
    pub enum RetryOn("end that is retried") {
        /// A failure.
        Failed = "failed",
        /// A timeout.
        TimedOut = "timed_out",
    }
}

named_enum! {
    /// Whether two attempts of a job may run at once after one was lost from sight.
    #[derive(Default)]
    pub enum Overlap("overlap") {
        /// They may; only one result counts.
        #[default]
        Allow = "allow",
        /// Never.
        Forbid = "forbid",
    }
}

named_enum! {
    /// What happens when a log reaches its limit.
    #[derive(Default)]
    pub enum OnFull("reaction to a full log") {
        /// The rest is dropped and counted.
        #[default]
        Drop = "drop",
        /// The job waits.
        Block = "block",
        /// The job fails.
        Fail = "fail",
    }
}

read_named!(Runtime, Pull, SecretAs, RetryOn, Overlap, OnFull);

/// A secret the job needs; its value is never part of a specification.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct SecretRef {
    /// Its name in the tenant.
    pub name: String,
    /// How the job gets it.
    #[serde(rename = "as")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<SecretAs>", extend("default" = "file")))]
    pub given_as: SecretAs,
    /// File below the secrets directory, or variable.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub target: String,
}

impl Read for SecretRef {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        let mut object = Object::new(value, path, errors)?;
        let name: String = object.need("name", errors);
        let given_as = object.or("as", SecretAs::File, errors);
        let target = object.or("target", name.clone(), errors);
        object.end(errors);
        Some(Self { name, given_as, target })
    }
}

/// Which ends are worth another attempt, and how long it waits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(default, deny_unknown_fields))]
pub struct Retry {
    /// Which ends.
    pub on: BTreeSet<RetryOn>,
    /// Of failures only those with one of these exit codes; absent = all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_codes: Option<BTreeSet<i32>>,
    /// Delay of the first retry in milliseconds.
    #[serde(rename = "backoff")]
    pub backoff_ms: u64,
    /// Growth of the delay per retry, a number of at least 1.
    #[serde(rename = "factor", serialize_with = "write_thousandths")]
    #[cfg_attr(feature = "schema", schemars(with = "f64", range(min = 1)))]
    pub factor_milli: u32,
    /// Greatest delay in milliseconds, before jitter.
    #[serde(rename = "max")]
    pub max_ms: u64,
    /// Share of the delay that jitter may add, 0 to 1.
    #[serde(rename = "jitter", serialize_with = "write_thousandths")]
    #[cfg_attr(feature = "schema", schemars(with = "f64", range(min = 0, max = 1)))]
    pub jitter_milli: u32,
}

impl Default for Retry {
    fn default() -> Self {
        let on = BTreeSet::from([RetryOn::Failed, RetryOn::TimedOut]);
        Self { on, exit_codes: None, backoff_ms: 1000, factor_milli: 2000, max_ms: 300_000, jitter_milli: 200 }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn write_thousandths<S: serde::Serializer>(thousandths: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(f64::from(*thousandths) / 1000.0)
}

/// A number in thousandths; what is too large stays at the end of the range.
fn thousandths(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<u32> {
    let number = f64::read(value, path, errors)?;
    if number < 0.0 {
        return wrong(value, path, "0 or more", errors);
    }
    Some((number * 1000.0).round() as u32)
}

impl Read for Retry {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        let default = Self::default();
        let mut object = Object::new(value, path, errors)?;
        let retry = Self {
            on: object.or("on", default.on, errors),
            exit_codes: object.or("exit_codes", default.exit_codes, errors),
            backoff_ms: object.or("backoff", default.backoff_ms, errors),
            factor_milli: object.by("factor", default.factor_milli, errors, thousandths),
            max_ms: object.or("max", default.max_ms, errors),
            jitter_milli: object.by("jitter", default.jitter_milli, errors, thousandths),
        };
        object.end(errors);
        Some(retry)
    }
}

deserialize_as_read!(Retry);

/// Which elements an array has: a count or indices.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Array {
    /// Elements 0 to count − 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Indices as text, such as `0-99,200`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub indices: Option<String>,
    /// The most elements that hold capacity at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// Past this many unsuccessful elements the rest is cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_failures: Option<u32>,
}

impl Array {
    /// The indices of its elements; none where [`super::JobSpec::check`] finds fault with them.
    #[must_use]
    pub fn elements(&self) -> Option<Indices> {
        match (self.count, self.indices.as_deref()) {
            (Some(count), None) => u32::try_from(count).ok().map(Indices::first),
            (None, Some(text)) => text.parse().ok(),
            _ => None,
        }
    }
}

impl Read for Array {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        let mut object = Object::new(value, path, errors)?;
        let array = Self {
            count: object.or("count", None, errors),
            indices: object.or("indices", None, errors),
            max_parallel: object.or("max_parallel", None, errors),
            max_failures: object.or("max_failures", None, errors),
        };
        object.end(errors);
        Some(array)
    }
}

/// Members that start together or not at all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Gang {
    /// How many, 2 to 4096.
    #[cfg_attr(feature = "schema", schemars(range(min = 2, max = 4096)))]
    pub size: u32,
    /// The most members on one worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_per_worker: Option<u32>,
    /// All members run on workers with one and the same value of this label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_label: Option<String>,
}

impl Read for Gang {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        let mut object = Object::new(value, path, errors)?;
        let size = object.need("size", errors);
        let max_per_worker = object.or("max_per_worker", None, errors);
        let same_label = object.or("same_label", None, errors);
        object.end(errors);
        Some(Self { size, max_per_worker, same_label })
    }
}

/// A file or folder the job gets before it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct ArtifactIn {
    /// Its name in the tenant.
    pub name: String,
    /// Where it is put, below the work directory.
    pub path: String,
    /// SHA-256 of its content; absent = the latest of that name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Whether the file can be run; also where it was stored as one that can.
    #[serde(skip_serializing_if = "super::is_default")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub executable: bool,
    /// Whether it is a tar archive of a folder, whose content is put at the path; `.` is the work directory itself.
    #[serde(skip_serializing_if = "super::is_default")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub unpack: bool,
}

impl Read for ArtifactIn {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        let mut object = Object::new(value, path, errors)?;
        let (name, file) = (object.need("name", errors), object.need("path", errors));
        let sha256 = object.or("sha256", None, errors);
        let (executable, unpack) = (object.or("executable", false, errors), object.or("unpack", false, errors));
        object.end(errors);
        Some(Self { name, path: file, sha256, executable, unpack })
    }
}

/// Files the job leaves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct ArtifactOut {
    /// Their name.
    pub name: String,
    /// Where they are, below the work directory; may hold `*`, `?` and `**`.
    pub path: String,
    /// Whether the job fails without them.
    #[cfg_attr(feature = "schema", schemars(default))]
    pub required: bool,
}

impl Read for ArtifactOut {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        let mut object = Object::new(value, path, errors)?;
        let (name, file) = (object.need("name", errors), object.need("path", errors));
        let required = object.or("required", false, errors);
        object.end(errors);
        Some(Self { name, path: file, required })
    }
}

/// How much of a log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(default, deny_unknown_fields))]
pub struct LogPolicy {
    /// Bytes; as text such as `1Gi`.
    #[cfg_attr(feature = "schema", schemars(with = "super::place::Count"))]
    pub limit: u64,
    /// What happens there.
    pub on_full: OnFull,
}

impl Default for LogPolicy {
    fn default() -> Self {
        Self { limit: 64 << 20, on_full: OnFull::Drop }
    }
}

impl Read for LogPolicy {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        let default = Self::default();
        let mut object = Object::new(value, path, errors)?;
        let limit = object.by("limit", default.limit, errors, bytes);
        let on_full = object.or("on_full", default.on_full, errors);
        object.end(errors);
        Some(Self { limit, on_full })
    }
}

/// Whether attempts go on when their agent dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SurviveAgent {
    /// Those without a time limit, or with one of more than a minute.
    #[default]
    Auto,
    /// Always.
    Yes,
    /// Never.
    No,
}

#[cfg(feature = "schema")]
crate::schema::written_out!(SurviveAgent, {"enum": ["auto", true, false]});

impl Serialize for SurviveAgent {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Yes => serializer.serialize_bool(true),
            Self::No => serializer.serialize_bool(false),
        }
    }
}

impl Read for SurviveAgent {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        match (value.as_bool(), value.as_str()) {
            (Some(true), _) => Some(Self::Yes),
            (Some(false), _) => Some(Self::No),
            (None, Some("auto")) => Some(Self::Auto),
            _ => wrong(value, path, "`auto`, true or false", errors),
        }
    }
}
