//! Job specifications on the wire and in the words of the scheduler. Owns the two conversions; what a specification may
//! hold is checked by the specification itself.

use std::collections::BTreeSet;

use orlop_core::id::TenantName;
use orlop_core::spec::job::{
    Array, ArtifactIn, ArtifactOut, Comparison, DEFAULT_GRACE_MS, DEFAULT_PRIORITY, Gang, GpuKind, Gpus, JobSpec,
    LabelNeed, LogPolicy, OnFull, Overlap, Prefer, Pull, Requires, Resources, Retry, RetryOn, Runtime, SecretAs,
    SecretRef, SurviveAgent,
};

use super::bound::{OnWire, WireError, millis, same_values, time};
use super::proto::v1;

same_values! { Runtime = v1::Runtime, "runtime" { Process, Docker, Noop } }
same_values! { Pull = v1::job_spec::Pull, "pull" { IfMissing, Always, Never } }
same_values! { Overlap = v1::job_spec::Overlap, "overlap" { Allow, Forbid } }
same_values! { SecretAs = v1::SecretAs, "secret_refs.as" { File, Env } }
same_values! { RetryOn = v1::retry::On, "retry.on" { Failed, TimedOut } }
same_values! { OnFull = v1::log_policy::OnFull, "log.on_full" { Drop, Block, Fail } }
same_values! {
    Comparison = v1::label_expression::Operator, "label.op" { In, NotIn, Exists, Absent, Greater, Less }
}

fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// The value of a number; 0 = the default.
fn or_default<T: OnWire>(number: i32, default: T) -> Result<T, WireError> {
    if number == 0 { Ok(default) } else { T::read(number) }
}

impl From<&LabelNeed> for v1::LabelExpression {
    fn from(need: &LabelNeed) -> Self {
        Self { key: need.key.clone(), op: need.op.number(), values: need.values.iter().cloned().collect() }
    }
}

impl TryFrom<v1::LabelExpression> for LabelNeed {
    type Error = WireError;

    fn try_from(wire: v1::LabelExpression) -> Result<Self, WireError> {
        let op = or_default(wire.op, Comparison::In)?;
        Ok(Self { key: wire.key, op, values: wire.values.into_iter().collect() })
    }
}

impl From<&Resources> for v1::Resources {
    fn from(resources: &Resources) -> Self {
        let kind = |kind: &GpuKind| v1::GpuKind {
            vendor: kind.vendor.to_string(),
            model: kind.model.clone().unwrap_or_default(),
            memory_min: kind.memory_min,
        };
        let gpus = &resources.gpus;
        Self {
            cpu_m: Some(resources.cpu_m),
            memory_bytes: Some(resources.memory_bytes),
            gpus: Some(v1::Gpus { count: gpus.count, any_of: gpus.any_of.iter().map(kind).collect() }),
            extras: resources.extras.clone(),
        }
    }
}

impl TryFrom<v1::Resources> for Resources {
    type Error = WireError;

    fn try_from(wire: v1::Resources) -> Result<Self, WireError> {
        let default = Self::default();
        let kind = |kind: v1::GpuKind| {
            let vendor = kind.vendor.parse().map_err(|error| WireError::of("resources.gpus.any_of.vendor")(&error))?;
            Ok(GpuKind { vendor, model: some(kind.model), memory_min: kind.memory_min })
        };
        let gpus = wire.gpus.unwrap_or_default();
        let any_of = gpus.any_of.into_iter().map(kind).collect::<Result<_, WireError>>()?;
        Ok(Self {
            cpu_m: wire.cpu_m.unwrap_or(default.cpu_m),
            memory_bytes: wire.memory_bytes.unwrap_or(default.memory_bytes),
            gpus: Gpus { count: gpus.count, any_of },
            extras: wire.extras,
        })
    }
}

impl From<&Retry> for v1::Retry {
    fn from(retry: &Retry) -> Self {
        Self {
            on: retry.on.iter().map(|on| on.number()).collect(),
            exit_codes: retry.exit_codes.iter().flatten().copied().collect(),
            backoff: Some(retry.backoff),
            factor: Some(retry.factor),
            max: Some(retry.max),
            jitter: Some(retry.jitter),
        }
    }
}

impl TryFrom<v1::Retry> for Retry {
    type Error = WireError;

    fn try_from(wire: v1::Retry) -> Result<Self, WireError> {
        let default = Self::default();
        let on: BTreeSet<RetryOn> = wire.on.into_iter().map(RetryOn::read).collect::<Result<_, _>>()?;
        Ok(Self {
            on: if on.is_empty() { default.on } else { on },
            exit_codes: (!wire.exit_codes.is_empty()).then(|| wire.exit_codes.into_iter().collect()),
            backoff: wire.backoff.unwrap_or(default.backoff),
            factor: wire.factor.unwrap_or(default.factor),
            max: wire.max.unwrap_or(default.max),
            jitter: wire.jitter.unwrap_or(default.jitter),
        })
    }
}

impl From<&JobSpec> for v1::JobSpec {
    /// Defaults are left out where that is shorter.
    fn from(spec: &JobSpec) -> Self {
        let secret = |secret: &SecretRef| v1::SecretRef {
            name: secret.name.clone(),
            r#as: secret.given_as.number(),
            target: secret.target.clone(),
        };
        let prefer = |prefer: &Prefer| v1::Prefer { label: Some((&prefer.label).into()), weight: prefer.weight.into() };
        let requires = |requires: &Requires| v1::Requires {
            labels: requires.labels.iter().map(Into::into).collect(),
            features: requires.features.iter().cloned().collect(),
        };
        let file = |file: &ArtifactIn| v1::ArtifactIn {
            name: file.name.clone(),
            path: file.path.clone(),
            sha256: file.sha256.clone().unwrap_or_default(),
            executable: file.executable,
            unpack: file.unpack,
        };
        let left = |ArtifactOut { name, path, required }: &ArtifactOut| v1::ArtifactOut {
            name: name.clone(),
            path: path.clone(),
            required: *required,
        };
        Self {
            name: spec.name.clone(),
            labels: spec.labels.clone(),
            tenant: spec.tenant.as_ref().map(ToString::to_string).unwrap_or_default(),
            correlation_id: spec.correlation_id.clone().unwrap_or_default(),
            runtime: spec.runtime.number(),
            image: spec.image.clone().unwrap_or_default(),
            pull: unless_default(&spec.pull).map_or(0, |pull| pull.number()),
            command: spec.command.clone(),
            script: spec.script.clone().unwrap_or_default(),
            shell: spec.shell.clone().unwrap_or_default(),
            env: spec.env.clone(),
            working_dir: spec.working_dir.clone().unwrap_or_default(),
            placeholders: (!spec.placeholders).then_some(false),
            secret_refs: spec.secret_refs.iter().map(secret).collect(),
            resources: unless_default(&spec.resources).map(Into::into),
            requires: unless_default(&spec.requires).map(requires),
            prefers: spec.prefers.iter().map(prefer).collect(),
            priority: (spec.priority != DEFAULT_PRIORITY).then(|| spec.priority.into()),
            timeout_ms: spec.timeout_ms,
            expected_ms: spec.expected_ms,
            grace_ms: (spec.grace_ms != DEFAULT_GRACE_MS).then_some(spec.grace_ms),
            retries: spec.retries,
            retry: unless_default(&spec.retry).map(Into::into),
            success_codes: spec.success_codes.iter().copied().collect(),
            not_before: millis(spec.not_before),
            queue_timeout_ms: spec.queue_timeout_ms,
            array: spec.array.as_ref().map(Into::into),
            gang: spec.gang.as_ref().map(Into::into),
            preemptible: spec.preemptible,
            urgent: spec.urgent,
            overlap: unless_default(&spec.overlap).map_or(0, |overlap| overlap.number()),
            survive_agent: match spec.survive_agent {
                SurviveAgent::Auto => None,
                SurviveAgent::Yes => Some(true),
                SurviveAgent::No => Some(false),
            },
            artifacts_in: spec.artifacts_in.iter().map(file).collect(),
            artifacts_out: spec.artifacts_out.iter().map(left).collect(),
            log: unless_default(&spec.log)
                .map(|log| v1::LogPolicy { limit: Some(log.limit), on_full: log.on_full.number() }),
        }
    }
}

fn unless_default<T: Default + PartialEq>(value: &T) -> Option<&T> {
    (*value != T::default()).then_some(value)
}

impl From<&Array> for v1::Array {
    fn from(array: &Array) -> Self {
        Self {
            count: array.count.unwrap_or(0),
            indices: array.indices.clone().unwrap_or_default(),
            max_parallel: array.max_parallel,
            max_failures: array.max_failures,
        }
    }
}

impl From<v1::Array> for Array {
    fn from(wire: v1::Array) -> Self {
        let (count, indices) = ((wire.count > 0).then_some(wire.count), some(wire.indices));
        Self { count, indices, max_parallel: wire.max_parallel, max_failures: wire.max_failures }
    }
}

impl From<&Gang> for v1::Gang {
    fn from(gang: &Gang) -> Self {
        let same_label = gang.same_label.clone().unwrap_or_default();
        Self { size: gang.size, max_per_worker: gang.max_per_worker, same_label }
    }
}

impl From<v1::Gang> for Gang {
    fn from(wire: v1::Gang) -> Self {
        Self { size: wire.size, max_per_worker: wire.max_per_worker, same_label: some(wire.same_label) }
    }
}

fn log(wire: v1::LogPolicy) -> Result<LogPolicy, WireError> {
    let default = LogPolicy::default();
    Ok(LogPolicy { limit: wire.limit.unwrap_or(default.limit), on_full: or_default(wire.on_full, default.on_full)? })
}

fn secret(wire: v1::SecretRef) -> Result<SecretRef, WireError> {
    let target = if wire.target.is_empty() { wire.name.clone() } else { wire.target };
    Ok(SecretRef { name: wire.name, given_as: or_default(wire.r#as, SecretAs::File)?, target })
}

fn prefer(wire: v1::Prefer) -> Result<Prefer, WireError> {
    let label = wire.label.ok_or_else(|| WireError::missing("prefers.label"))?.try_into()?;
    let weight = u8::try_from(wire.weight).unwrap_or(u8::MAX);
    Ok(Prefer { label, weight })
}

fn requires(wire: v1::Requires) -> Result<Requires, WireError> {
    let labels = super::bound::each(wire.labels)?;
    Ok(Requires { labels, features: wire.features.into_iter().collect() })
}

impl TryFrom<v1::JobSpec> for JobSpec {
    type Error = WireError;

    /// Reads the values; [`JobSpec::check`] holds them to their bounds.
    fn try_from(wire: v1::JobSpec) -> Result<Self, WireError> {
        let default = Self::default();
        let image = some(wire.image);
        let runtime = if image.is_some() { Runtime::Docker } else { Runtime::Process };
        let tenant = some(wire.tenant).map(TenantName::new).transpose();
        let codes: BTreeSet<i32> = wire.success_codes.into_iter().collect();
        let input = |v1::ArtifactIn { name, path, sha256, executable, unpack }: v1::ArtifactIn| ArtifactIn {
            name,
            path,
            sha256: some(sha256),
            executable,
            unpack,
        };
        let output = |v1::ArtifactOut { name, path, required }| ArtifactOut { name, path, required };
        Ok(Self {
            name: wire.name,
            labels: wire.labels,
            tenant: tenant.map_err(|error| WireError::of("tenant")(&error))?,
            correlation_id: some(wire.correlation_id),
            runtime: or_default(wire.runtime, runtime)?,
            image,
            pull: or_default(wire.pull, Pull::default())?,
            command: wire.command,
            script: some(wire.script),
            shell: some(wire.shell),
            env: wire.env,
            working_dir: some(wire.working_dir),
            placeholders: wire.placeholders.unwrap_or(true),
            secret_refs: wire.secret_refs.into_iter().map(secret).collect::<Result<_, _>>()?,
            resources: wire.resources.map_or(Ok(default.resources), TryInto::try_into)?,
            requires: wire.requires.map_or(Ok(default.requires), requires)?,
            prefers: wire.prefers.into_iter().map(prefer).collect::<Result<_, _>>()?,
            priority: wire.priority.map_or(default.priority, |number| u8::try_from(number).unwrap_or(u8::MAX)),
            timeout_ms: wire.timeout_ms,
            expected_ms: wire.expected_ms,
            grace_ms: wire.grace_ms.unwrap_or(default.grace_ms),
            retries: wire.retries,
            retry: wire.retry.map_or(Ok(default.retry), TryInto::try_into)?,
            success_codes: if codes.is_empty() { default.success_codes } else { codes },
            not_before: time(wire.not_before),
            queue_timeout_ms: wire.queue_timeout_ms,
            array: wire.array.map(Into::into),
            gang: wire.gang.map(Into::into),
            preemptible: wire.preemptible,
            urgent: wire.urgent,
            overlap: or_default(wire.overlap, Overlap::default())?,
            survive_agent: match wire.survive_agent {
                None => SurviveAgent::Auto,
                Some(true) => SurviveAgent::Yes,
                Some(false) => SurviveAgent::No,
            },
            artifacts_in: wire.artifacts_in.into_iter().map(input).collect(),
            artifacts_out: wire.artifacts_out.into_iter().map(output).collect(),
            log: wire.log.map_or(Ok(default.log), log)?,
        })
    }
}
