//! From an attempt of a step to a job of the fleet: resources, conditions on workers, secrets and labels. A translation may narrow a
//! need, never weaken it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orlop_cloud::runtime::plan::env::EnvSource;
use orlop_cloud::runtime::plan::request::GPU;
use orlop_cloud::runtime::plan::source::Store;
use orlop_cloud::runtime::plan::volume::{Projection, VolumeKind};
use orlop_cloud::runtime::plan::{JobTemplate, TemplatePolicy};
use orlop_core::attempt::{ArtifactSource, AttemptSpec};
use orlop_core::error::Problem;
use orlop_core::hardware::gpu::Vendor;
use orlop_core::id::TenantName;
use orlop_core::spec::flow::ResourceTemplates;
use orlop_core::spec::job::{
    ArtifactIn, ArtifactOut, GpuKind, Gpus, JobSpec, Resources, SecretAs, SecretRef, StepBackend, StepSpec,
};
use serde_json::Value;

use super::label::labels;
use super::place::{invalid, priority, requires};

/// Folder in the job's directory with the artifacts that the step needs, as a store of artifacts has them.
pub const GIVEN: &str = ".given";
/// The same for artifacts that the step leaves.
pub const LEFT: &str = ".left";

/// Added to the grace of a pod: time to clean up and to report the end.
const MARGIN_MS: u64 = 10_000;
/// The least memory of a step: each process of it begins as a copy of its supervisor, under the limit of its job.
const LEAST_MEMORY: u64 = 32 << 20;

/// What jobs of a flow's steps have in common.
#[derive(Clone, Debug)]
pub struct FlowFacts {
    /// Whose flow it is.
    pub tenant: TenantName,
    /// Its claims and ConfigMaps.
    pub templates: Option<Arc<ResourceTemplates>>,
    /// What runs the containers of its steps.
    pub backend: StepBackend,
    /// Follows the flow through logs and events.
    pub correlation_id: Option<String>,
}

impl FlowFacts {
    /// A flow of a tenant without templates, steps with images as containers.
    #[must_use]
    pub fn new(tenant: TenantName) -> Self {
        Self { tenant, templates: None, backend: StepBackend::default(), correlation_id: None }
    }
}

/// The job of an attempt.
///
/// # Errors
/// Invalid with reason TemplateInvalid when the step asks for something that no fleet gives.
pub(super) fn job_spec(attempt: &AttemptSpec, facts: &FlowFacts) -> Result<JobSpec, Problem> {
    let template = JobTemplate::read(&attempt.template, &TemplatePolicy::default())?;
    let has_image = template.pod.containers().any(|container| container.image.is_some());
    let pod = attempt.template.pointer("/spec/template/spec").unwrap_or(&Value::Null);
    let mut requires = requires(pod)?;
    if has_image && facts.backend == StepBackend::Docker {
        requires.features.insert("docker".to_owned());
    }
    let grace = u64::try_from(template.pod.grace.as_millis()).unwrap_or(u64::MAX);
    let step = StepSpec { attempt: attempt.clone(), templates: facts.templates.clone(), backend: facts.backend };
    let spec = JobSpec {
        name: attempt.job_name.clone(),
        labels: labels(attempt),
        tenant: Some(facts.tenant.clone()),
        correlation_id: facts.correlation_id.clone(),
        step: Some(Arc::new(step)),
        secret_refs: secrets(&template)?,
        resources: resources(&template)?,
        requires,
        artifacts_in: inputs(attempt),
        artifacts_out: outputs(attempt),
        priority: priority(pod)?,
        grace_ms: grace.saturating_add(MARGIN_MS),
        // How often a step runs again after a loss is the flow's to count.
        requeue_lost: false,
        ..JobSpec::default()
    };
    spec.check().map_err(|errors| invalid(format!("the step cannot be a job of the fleet: {errors}")))?;
    Ok(spec)
}

/// The stored artifacts that the attempt needs, each where its worker finds it as in a store.
fn inputs(attempt: &AttemptSpec) -> Vec<ArtifactIn> {
    let digests: BTreeSet<&str> = attempt.inputs.iter().filter_map(|input| digest(&input.source)).collect();
    let file = |sha256: &str| {
        let (shard, rest) = sha256.split_at_checked(2).unwrap_or((sha256, "_"));
        let path = format!("{GIVEN}/cas/sha256/{shard}/{rest}");
        ArtifactIn { name: sha256.to_owned(), path, sha256: Some(sha256.to_owned()), ..ArtifactIn::default() }
    };
    digests.into_iter().map(file).collect()
}

fn digest(source: &ArtifactSource) -> Option<&str> {
    let ArtifactSource::Stored { location, .. } = source else { return None };
    let digest = location.sha256.as_str();
    Some(if digest.is_empty() { location.reference.strip_prefix("sha256/")?.get(..64)? } else { digest })
}

/// What is left of the attempt's own: nothing, where it failed.
fn outputs(attempt: &AttemptSpec) -> Vec<ArtifactOut> {
    let (name, path) = (LEFT.trim_start_matches('.').to_owned(), format!("{LEFT}/cas/sha256/*/*"));
    let left = ArtifactOut { name, path, required: false };
    if attempt.output_artifacts.is_empty() { Vec::new() } else { vec![left] }
}

/// The claims that a step mounts.
pub(super) fn claims(attempt: &AttemptSpec) -> Result<Vec<String>, Problem> {
    let template = JobTemplate::read(&attempt.template, &TemplatePolicy::default())?;
    let named = template.pod.volumes.iter().filter_map(|volume| match &volume.kind {
        VolumeKind::Claim { claim, .. } => Some(claim.clone()),
        _ => None,
    });
    let all: BTreeSet<String> = named.collect();
    Ok(all.into_iter().collect())
}

/// What the attempt holds: what its pods hold that run at once.
fn resources(template: &JobTemplate) -> Result<Resources, Problem> {
    let rules = &template.rules;
    let pods = u64::from(rules.parallelism.max(1).min(rules.completions.unwrap_or(u32::MAX).max(1)));
    let (default, asked) = (Resources::default(), template.pod.request());
    let times = |amount: u64| amount.saturating_mul(pods);
    let cpu_m = if asked.cpu_milli == 0 { default.cpu_m } else { times(asked.cpu_milli) };
    let memory_bytes =
        if asked.memory_bytes == 0 { default.memory_bytes } else { times(asked.memory_bytes).max(LEAST_MEMORY) };
    let mut extras: BTreeMap<String, u64> = BTreeMap::new();
    let mut gpus: BTreeMap<Vendor, u64> = BTreeMap::new();
    for container in template.pod.containers() {
        let named = &container.resources;
        let names: BTreeSet<&String> = named.limits.keys().chain(named.requests.keys()).collect();
        for name in names {
            // What a worker has of the disk is not counted.
            if matches!(name.as_str(), "cpu" | "memory" | "storage" | "ephemeral-storage") {
                continue;
            }
            let count = named.request(name).and_then(orlop_core::quantity::Quantity::count);
            let count = count.ok_or_else(|| invalid(format!("`{name}` must be a whole number")))?;
            match vendor(name) {
                _ if count == 0 => {}
                Some(vendor) => {
                    let most = gpus.entry(vendor).or_default();
                    *most = times(count).max(*most);
                }
                None => {
                    let most = extras.entry(name.clone()).or_default();
                    *most = times(count).max(*most);
                }
            }
        }
    }
    if gpus.len() > 1 {
        return Err(invalid(
            "GPUs of two vendors cannot be asked for at once: an attempt gets devices of one kind".into(),
        ));
    }
    let gpus = match gpus.into_iter().next() {
        Some((vendor, count)) => {
            let count = u32::try_from(count).map_err(|_| invalid(format!("{count} GPUs are too many")))?;
            Gpus { count, any_of: vec![GpuKind { vendor, model: None, memory_min: None }] }
        }
        None => Gpus::default(),
    };
    Ok(Resources { cpu_m: cpu_m.max(1), memory_bytes, gpus, extras })
}

/// The vendor whose GPUs a resource stands for.
fn vendor(resource: &str) -> Option<Vendor> {
    match resource {
        GPU => "nvidia".parse().ok(),
        "amd.com/gpu" => "amd".parse().ok(),
        "gpu.intel.com/i915" | "gpu.intel.com/xe" => "intel".parse().ok(),
        _ => None,
    }
}

/// The keys of Secrets that the containers see: on the fleet each key is a secret `<name>.<key>` of the tenant.
fn secrets(template: &JobTemplate) -> Result<Vec<SecretRef>, Problem> {
    let mut found: BTreeSet<(String, String)> = BTreeSet::new();
    let whole =
        |path: &str| invalid(format!("{path}: a Secret as a whole is not supported on the fleet; name its keys"));
    for container in template.pod.containers() {
        if let Some(from) = container.env_from.iter().find(|from| from.store == Store::Secret) {
            return Err(whole(&from.path));
        }
        for variable in &container.env {
            if let EnvSource::Key(Store::Secret, key) = &variable.source
                && key.optional != Some(true)
            {
                found.insert((key.name.clone(), key.key.clone()));
            }
        }
    }
    for volume in &template.pod.volumes {
        let VolumeKind::Projected(sources) = &volume.kind else { continue };
        for source in sources {
            let Projection::Keys { store: Store::Secret, name, items, optional: false, .. } = source else { continue };
            let items = items.as_ref().ok_or_else(|| whole(&volume.path))?;
            found.extend(items.iter().map(|item| (name.clone(), item.key.clone())));
        }
    }
    let reference = |(name, key): (String, String)| SecretRef {
        name: format!("{name}.{key}"),
        given_as: SecretAs::File,
        target: format!("{name}/{key}"),
    };
    Ok(found.into_iter().map(reference).collect())
}

#[cfg(test)]
mod tests {
    use orlop_core::attempt::AttemptKey;
    use serde_json::json;

    use super::*;

    fn attempt(pod: Value, members: Value) -> AttemptSpec {
        let mut spec = json!({ "template": { "spec": pod } });
        for (name, value) in members.as_object().unwrap() {
            spec[name] = value.clone();
        }
        AttemptSpec {
            function: None,
            key: AttemptKey { flow: "u".into(), step: "s".into(), item: Some(4), attempt: 2 },
            flow_name: "f".into(),
            namespace: "physics".into(),
            job_name: "f-s-i4".into(),
            template: Arc::new(json!({ "apiVersion": "batch/v1", "kind": "Job", "spec": spec })),
            inputs: Vec::new(),
            output_files: Vec::new(),
            output_artifacts: Vec::new(),
        }
    }

    fn facts(backend: StepBackend) -> FlowFacts {
        FlowFacts { backend, ..FlowFacts::new("physics".parse().unwrap()) }
    }

    fn main(resources: Value) -> Value {
        json!({ "name": "main", "image": "busybox", "command": ["true"], "resources": resources })
    }

    fn of(pod: Value, members: Value) -> Result<JobSpec, Problem> {
        job_spec(&attempt(pod, members), &facts(StepBackend::Docker))
    }

    #[test]
    fn an_attempt_is_one_job_without_retries_of_its_own() {
        let spec = of(json!({ "containers": [main(json!({}))] }), json!({})).unwrap();
        assert_eq!((spec.retries, spec.timeout_ms, spec.grace_ms), (0, 0, 40_000));
        assert_eq!(super::super::label::key(&spec.labels).unwrap().to_string(), "u/s-i4/2");
        assert!(spec.requires.features.contains("docker"));
        let step = spec.step.unwrap();
        assert_eq!((&step.attempt.job_name, step.backend), (&spec.name, StepBackend::Docker));
        let process =
            job_spec(&attempt(json!({ "containers": [main(json!({}))] }), json!({})), &facts(StepBackend::Process));
        assert!(process.unwrap().requires.features.is_empty());
    }

    #[test]
    fn resources_are_those_of_the_pods_that_run_at_once() {
        let asked = json!({ "requests": { "cpu": "250m", "memory": "1Gi", "example.com/licence": 2 }, "limits": { "nvidia.com/gpu": 1 } });
        let spec =
            of(json!({ "containers": [main(asked.clone())] }), json!({ "completions": 3, "parallelism": 2 })).unwrap();
        assert_eq!((spec.resources.cpu_m, spec.resources.memory_bytes), (500, 2 << 30));
        assert_eq!((spec.resources.gpus.count, spec.resources.gpus.any_of.len()), (2, 1));
        assert_eq!(spec.resources.extras["example.com/licence"], 4);
        // More pods than are needed never run at once.
        let spec = of(json!({ "containers": [main(asked)] }), json!({ "completions": 1, "parallelism": 9 })).unwrap();
        assert_eq!(spec.resources.cpu_m, 250);
    }

    #[test]
    fn keys_of_secrets_are_secrets_of_the_tenant() {
        let env = json!([{ "name": "P", "valueFrom": { "secretKeyRef": { "name": "db", "key": "password" } } },
                         { "name": "Q", "valueFrom": { "secretKeyRef": { "name": "db", "key": "other", "optional": true } } }]);
        let container = json!({ "name": "main", "image": "x", "command": ["true"], "env": env });
        let volumes =
            json!([{ "name": "v", "secret": { "secretName": "tls", "items": [{ "key": "crt", "path": "c" }] } }]);
        let spec = of(json!({ "containers": [container], "volumes": volumes }), json!({})).unwrap();
        let names: Vec<&str> = spec.secret_refs.iter().map(|secret| secret.name.as_str()).collect();
        assert_eq!(names, ["db.password", "tls.crt"]);
        assert_eq!(spec.secret_refs[0].target, "db/password");
        let volumes = json!([{ "name": "v", "secret": { "secretName": "tls" } }]);
        let error = of(json!({ "containers": [main(json!({}))], "volumes": volumes }), json!({})).unwrap_err();
        assert!(error.message.contains("name its keys"), "{}", error.message);
    }

    #[test]
    fn a_step_that_no_worker_can_be_sent_is_refused() {
        let container = json!({ "name": "main", "image": "x", "command": ["echo", "x".repeat(300_000)] });
        let error = of(json!({ "containers": [container] }), json!({})).unwrap_err();
        assert_eq!(error.reason, Some("TemplateInvalid"));
        assert!(error.message.contains("step: has 30") && error.message.contains("into an artifact"), "{error}");
    }

    #[test]
    fn what_no_fleet_gives_is_refused() {
        let two = json!({ "limits": { "nvidia.com/gpu": 1, "amd.com/gpu": 1 } });
        assert_eq!(of(json!({ "containers": [main(two)] }), json!({})).unwrap_err().reason, Some("TemplateInvalid"));
    }
}
