//! The specification of a job of the fleet: its fields with their defaults, reading it from JSON with every error at its place,
//! and the canonical form by which equal specifications are recognized. Never starts or places anything.

mod check;
mod error;
mod index;
mod part;
mod place;
pub mod placeholder;
mod read;
mod step;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

pub use check::{ARGS_MAX, ELEMENTS_MAX, SPEC_MAX};
pub use error::SpecErrors;
pub use index::{IndexError, Indices};
pub use part::{
    Array, ArtifactIn, ArtifactOut, Gang, LogPolicy, OnFull, Overlap, Pull, Retry, RetryOn, Runtime, SecretAs,
    SecretRef, SurviveAgent,
};
pub use place::{GpuKind, Gpus, KINDS_MAX, Prefer, Requires, Resources, extra_variable};
use read::{Object, Read, deserialize_as_read};
pub use step::{StepBackend, StepSpec};

use crate::id::TenantName;
use crate::task::{Demand, Priority, Run};
use crate::time::Time;

/// The shell of a script where none is named.
pub(crate) const DEFAULT_SHELL: &str = "/bin/sh";
/// The priority of a job that names none.
pub const DEFAULT_PRIORITY: u8 = 5;
/// From the request to end to the kill where nothing is said, in milliseconds.
pub(crate) const DEFAULT_GRACE_MS: u64 = 10_000;

/// A job of the fleet: one unit of work, an array of elements or a gang.
///
/// ```
/// use orlop_core::spec::job::JobSpec;
/// let json = serde_json::json!({"command": ["make"], "resources": {"cpu_m": "500m", "memory_bytes": "1Gi"}});
/// let spec = JobSpec::from_json(&json).map_err(|errors| errors.to_string())?;
/// assert_eq!((spec.resources.cpu_m, spec.priority), (500, 5));
/// let wrong = JobSpec::from_json(&serde_json::json!({"comand": ["make"], "priority": 12}));
/// let errors = wrong.err().map(|errors| errors.to_string()).unwrap_or_default();
/// assert!(errors.contains("comand: unknown field; did you mean `command`?"), "{errors}");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(default, deny_unknown_fields))]
pub struct JobSpec {
    /// For people; at most 128 bytes. Empty = none.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub name: String,
    /// For searching, at most 64; they never affect placement.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, place::Scalar>", extend("maxProperties" = 64)))]
    pub labels: BTreeMap<String, String>,
    /// Whose job it is; absent = the caller's only tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub tenant: Option<TenantName>,
    /// Follows the job through logs and events; absent = made at submit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub correlation_id: Option<String>,
    /// How it is run; where nothing is said `docker` if there is an image, else `process`.
    #[serde(skip_serializing_if = "is_default")]
    pub runtime: Runtime,
    /// The image of its container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// When the image is fetched.
    #[serde(skip_serializing_if = "is_default")]
    pub pull: Pull,
    /// The program and its arguments, never passed through a shell; empty = a script, or the image's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// A script in place of a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// What runs the script; absent = `/bin/sh`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// An attempt of a flow's step in place of a command, set by the server for flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub step: Option<Arc<StepSpec>>,
    /// Variables of its environment, at most 512; `ORLOP_*` is reserved.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, place::Scalar>", extend("maxProperties" = 512)))]
    pub env: BTreeMap<String, String>,
    /// Where it starts, below the directory of the attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// Whether `{{index}}`, `{{job}}` and `{{attempt}}` are replaced in its command, environment and paths; else every text is
    /// taken as it is.
    #[serde(skip_serializing_if = "is_true")]
    pub placeholders: bool,
    /// Secrets it needs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secret_refs: Vec<SecretRef>,
    /// What each attempt holds.
    #[serde(skip_serializing_if = "is_default")]
    pub resources: Resources,
    /// Where it may run.
    #[serde(skip_serializing_if = "is_default")]
    pub requires: Requires,
    /// Where it would better run, at most 8.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 8)))]
    pub prefers: Vec<Prefer>,
    /// 0 (most urgent) to 9.
    #[cfg_attr(feature = "schema", schemars(range(max = 9)))]
    pub priority: u8,
    /// Wall limit of one attempt from the start of its process, in milliseconds; 0 = none.
    #[serde(skip_serializing_if = "is_default")]
    pub timeout_ms: u64,
    /// How long an attempt probably takes, in milliseconds; a hint, never a promise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_ms: Option<u64>,
    /// From the request to end to the kill, in milliseconds.
    pub grace_ms: u64,
    /// Repeats after its own failures, at most 100.
    #[serde(skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "schema", schemars(range(max = 100)))]
    pub retries: u32,
    /// Which failures, and when.
    #[serde(skip_serializing_if = "is_default")]
    pub retry: Retry,
    /// Exit codes that mean success; never empty.
    #[serde(skip_serializing_if = "only_zero")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub success_codes: BTreeSet<i32>,
    /// Earliest start.
    #[serde(serialize_with = "rfc3339", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::time::Rfc3339>"))]
    pub not_before: Option<Time>,
    /// It fails if it has not started by then, in milliseconds from the submit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_timeout_ms: Option<u64>,
    /// Its elements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<Array>,
    /// Its members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gang: Option<Gang>,
    /// Whether an attempt that is lost with its worker is followed by another one; else the job has failed.
    #[serde(skip_serializing_if = "is_true")]
    pub requeue_lost: bool,
    /// It may be ended for more urgent work.
    #[serde(skip_serializing_if = "is_default")]
    pub preemptible: bool,
    /// It may enter a draining worker; needs the role `operator`.
    #[serde(skip_serializing_if = "is_default")]
    pub urgent: bool,
    /// Whether two attempts may run at once.
    #[serde(skip_serializing_if = "is_default")]
    pub overlap: Overlap,
    /// Whether its attempts go on when their agent dies.
    #[serde(skip_serializing_if = "is_default")]
    pub survive_agent: SurviveAgent,
    /// Files it gets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts_in: Vec<ArtifactIn>,
    /// Files it leaves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts_out: Vec<ArtifactOut>,
    /// How much of its log is kept.
    #[serde(skip_serializing_if = "is_default")]
    pub log: LogPolicy,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_true(value: &bool) -> bool {
    *value
}

fn only_zero(codes: &BTreeSet<i32>) -> bool {
    codes.len() == 1 && codes.contains(&0)
}

fn rfc3339<S: serde::Serializer>(time: &Option<Time>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.collect_str(time),
        None => serializer.serialize_none(),
    }
}

impl Default for JobSpec {
    /// All defaults, and no command.
    fn default() -> Self {
        Self {
            name: String::new(),
            labels: BTreeMap::new(),
            tenant: None,
            correlation_id: None,
            runtime: Runtime::default(),
            image: None,
            pull: Pull::default(),
            command: Vec::new(),
            script: None,
            shell: None,
            step: None,
            env: BTreeMap::new(),
            working_dir: None,
            placeholders: true,
            secret_refs: Vec::new(),
            resources: Resources::default(),
            requires: Requires::default(),
            prefers: Vec::new(),
            priority: DEFAULT_PRIORITY,
            timeout_ms: 0,
            expected_ms: None,
            grace_ms: DEFAULT_GRACE_MS,
            retries: 0,
            retry: Retry::default(),
            success_codes: BTreeSet::from([0]),
            not_before: None,
            queue_timeout_ms: None,
            array: None,
            gang: None,
            requeue_lost: true,
            preemptible: false,
            urgent: false,
            overlap: Overlap::default(),
            survive_agent: SurviveAgent::default(),
            artifacts_in: Vec::new(),
            artifacts_out: Vec::new(),
            log: LogPolicy::default(),
        }
    }
}

impl Read for TenantName {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        let text = String::read(value, path, errors)?;
        Self::new(text).map_err(|error| errors.add(path, error.to_string())).ok()
    }
}

impl Read for JobSpec {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        let default = Self::default();
        let mut object = Object::new(value, path, errors)?;
        let image: Option<String> = object.or("image", None, errors);
        let runtime = if image.is_some() { Runtime::Docker } else { Runtime::Process };
        let spec = Self {
            name: object.or("name", default.name, errors),
            labels: object.by("labels", default.labels, errors, place::texts),
            tenant: object.or("tenant", default.tenant, errors),
            correlation_id: object.or("correlation_id", default.correlation_id, errors),
            runtime: object.or("runtime", runtime, errors),
            image,
            pull: object.or("pull", default.pull, errors),
            command: object.or("command", default.command, errors),
            script: object.or("script", default.script, errors),
            shell: object.or("shell", default.shell, errors),
            step: object.or("step", default.step, errors),
            env: object.by("env", default.env, errors, place::texts),
            working_dir: object.or("working_dir", default.working_dir, errors),
            placeholders: object.or("placeholders", default.placeholders, errors),
            secret_refs: object.or("secret_refs", default.secret_refs, errors),
            resources: object.or("resources", default.resources, errors),
            requires: object.or("requires", default.requires, errors),
            prefers: object.or("prefers", default.prefers, errors),
            priority: object.or("priority", default.priority, errors),
            timeout_ms: object.or("timeout_ms", default.timeout_ms, errors),
            expected_ms: object.or("expected_ms", default.expected_ms, errors),
            grace_ms: object.or("grace_ms", default.grace_ms, errors),
            retries: object.or("retries", default.retries, errors),
            retry: object.or("retry", default.retry, errors),
            success_codes: object.or("success_codes", default.success_codes, errors),
            not_before: object.or("not_before", default.not_before, errors),
            queue_timeout_ms: object.or("queue_timeout_ms", default.queue_timeout_ms, errors),
            array: object.or("array", default.array, errors),
            gang: object.or("gang", default.gang, errors),
            requeue_lost: object.or("requeue_lost", default.requeue_lost, errors),
            preemptible: object.or("preemptible", default.preemptible, errors),
            urgent: object.or("urgent", default.urgent, errors),
            overlap: object.or("overlap", default.overlap, errors),
            survive_agent: object.or("survive_agent", default.survive_agent, errors),
            artifacts_in: object.or("artifacts_in", default.artifacts_in, errors),
            artifacts_out: object.or("artifacts_out", default.artifacts_out, errors),
            log: object.or("log", default.log, errors),
        };
        object.end(errors);
        Some(spec)
    }
}

/// Hash of the content of a specification: SHA-256 of its canonical form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(pub [u8; 32]);

impl ContentHash {
    /// The hash of a canonical form.
    #[must_use]
    pub fn of(canonical: &[u8]) -> Self {
        Self(Sha256::digest(canonical).into())
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentHash({self})")
    }
}

impl JobSpec {
    /// Reads and checks a specification.
    ///
    /// # Errors
    /// Everything that is wrong with it, sorted by place.
    pub fn from_json(value: &Value) -> Result<Self, SpecErrors> {
        let mut errors = SpecErrors::default();
        let spec = Self::read(value, "", &mut errors);
        if let Some(Err(more)) = spec.as_ref().map(Self::check) {
            errors.join(more);
        }
        // Without a specification there is at least one fault.
        errors.or(spec).map(Option::unwrap_or_default)
    }

    /// The canonical form: JSON without blanks, fields in the order of their declaration, defaults left out, amounts as
    /// numbers. Equal specifications have equal bytes, whatever they were written as, except for objects in a step where the program
    /// turns on `preserve_order` of `serde_json`: they keep the order of their members then.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        // Writing to memory fails for maps whose keys are no texts; here all keys are.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// SHA-256 of the canonical form.
    #[must_use]
    pub fn content_hash(&self) -> ContentHash {
        ContentHash::of(&self.encode())
    }

    /// The part that many jobs share and agents get: the specification without what is kept with each job (name, labels,
    /// correlation id, earliest start, queue timeout, array).
    #[must_use]
    pub fn shared(&self) -> Self {
        Self {
            name: String::new(),
            labels: BTreeMap::new(),
            correlation_id: None,
            not_before: None,
            queue_timeout_ms: None,
            array: None,
            ..self.clone()
        }
    }

    /// What it asks of the fleet; `tenant` counts where it names none.
    #[must_use]
    pub fn demand(&self, tenant: &TenantName) -> Demand {
        Demand {
            tenant: self.tenant.as_ref().unwrap_or(tenant).clone(),
            priority: Priority(self.priority),
            resources: self.resources.clone(),
            runtime: self.runtime,
            requires: self.requires.clone(),
            prefers: self.prefers.clone(),
            timeout_ms: self.timeout_ms,
            expected_ms: self.expected_ms,
            grace_ms: self.grace_ms,
            retries: self.retries,
            retry: self.retry.clone(),
            gang: self.gang.clone(),
            requeue_lost: self.requeue_lost,
            preemptible: self.preemptible,
            urgent: self.urgent,
            overlap: self.overlap,
        }
    }

    /// What an agent runs for it.
    #[must_use]
    pub fn run(&self) -> Run {
        Run {
            argv: self.program(),
            step: self.step.clone(),
            env: self.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            working_dir: self.working_dir.clone(),
            cpu_m: self.resources.cpu_m,
            memory_bytes: self.resources.memory_bytes,
            success_codes: self.success_codes.iter().copied().collect(),
            log: self.log,
            literal: !self.placeholders,
            image: self.image.clone(),
            pull: self.pull,
            survive: self.survives_agent(),
            forbid_overlap: self.overlap == Overlap::Forbid,
            keep: !self.artifacts_out.is_empty(),
        }
    }

    /// Whether its attempts go on when their agent dies.
    #[must_use]
    pub fn survives_agent(&self) -> bool {
        match self.survive_agent {
            SurviveAgent::Yes => true,
            SurviveAgent::No => false,
            SurviveAgent::Auto => self.timeout_ms == 0 || self.timeout_ms > 60_000,
        }
    }

    /// What is run: the command, or the script with its shell; empty = nothing, or the image's own.
    #[must_use]
    pub fn program(&self) -> Vec<String> {
        match &self.script {
            Some(script) => {
                let shell = self.shell.clone().unwrap_or_else(|| DEFAULT_SHELL.to_owned());
                vec![shell, "-c".to_owned(), script.clone()]
            }
            None => self.command.clone(),
        }
    }
}

// Bounds are left to [`JobSpec::check`], so that what was stored can always be read.
deserialize_as_read!(JobSpec);
