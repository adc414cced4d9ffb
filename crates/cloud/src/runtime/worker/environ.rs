//! The environment of an attempt. Owns which variables there are: a minimum, the spec's, those every attempt
//! has, and secrets; nothing of the agent's own environment passes.

use std::ffi::CString;
use std::path::Path;

use crate::runtime::worker::plan::{AttemptPlan, GpuDevice};
use orlop_core::spec::job::SecretAs;

/// Variable by which the processes of an attempt are recognised.
pub(super) const MARK: &str = "ORLOP_REF";

/// Where things of an attempt are, as the attempt itself sees them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places<'a> {
    /// What stands where the spec says nothing.
    pub(super) defaults: &'a [(&'static str, String)],
    /// By what tools of GPU vendors see its devices and no others.
    pub(super) devices: &'a [(&'static str, String)],
    /// Its file of outputs.
    pub(super) output: &'a Path,
    /// Its directory of secrets.
    pub(super) secrets: Option<&'a Path>,
    /// Its directory of input artifacts.
    pub(super) artifacts: Option<&'a Path>,
    /// The worker's name.
    pub(super) worker: &'a str,
    /// The variable by which processes are recognised, `NAME=value`, where they are.
    pub(super) mark: Option<&'a str>,
}

/// The environment, `NAME=value` each, later ones in place of earlier ones.
pub(super) fn environment(plan: &AttemptPlan, places: Places<'_>) -> Vec<(String, String)> {
    let (id, spec) = (&plan.id, &plan.run);
    let mut env: Vec<(String, String)> = Vec::with_capacity(spec.env.len() + 20);
    let mut add = |name: &str, value: String| env.push((name.to_owned(), value));
    let spec_has = |name: &str| spec.env.iter().any(|(known, _)| known == name);
    for (name, value) in places.defaults.iter().filter(|(name, _)| !spec_has(name)) {
        add(name, value.clone());
    }
    for (name, value) in &spec.env {
        if !name.starts_with("ORLOP_") {
            add(name, plan.text(value).into_owned());
        }
    }
    for (name, value) in places.devices {
        add(name, value.clone());
    }
    for secret in plan.secrets.iter().filter(|secret| secret.given_as == SecretAs::Env) {
        add(&secret.target, secret.value.clone());
    }
    add("ORLOP_JOB_ID", id.job.to_string());
    add("ORLOP_INDEX", id.index.to_string());
    add("ORLOP_MEMBER", id.member.to_string());
    add("ORLOP_ATTEMPT", id.attempt.to_string());
    add("ORLOP_EPOCH", id.epoch.0.to_string());
    add("ORLOP_WORKER", places.worker.to_owned());
    add("ORLOP_CPUS", spec.cpu_m.div_ceil(1000).max(1).to_string());
    add("ORLOP_MEMORY_BYTES", spec.memory_bytes.to_string());
    for extra in &plan.extras {
        let name = extra.variable();
        if !extra.units.is_empty() {
            let units: Vec<String> = extra.units.iter().map(u32::to_string).collect();
            add(&format!("{name}_UNITS"), units.join(","));
        }
        add(&name, extra.count.to_string());
    }
    add("ORLOP_OUTPUT", places.output.display().to_string());
    if let Some(dir) = places.secrets {
        add("ORLOP_SECRETS_DIR", dir.display().to_string());
    }
    if let Some(dir) = places.artifacts {
        add("ORLOP_ARTIFACTS_DIR", dir.display().to_string());
    }
    if !plan.correlation_id.is_empty() {
        add("ORLOP_CORRELATION_ID", plan.correlation_id.clone());
    }
    if let Some((name, value)) = places.mark.and_then(|mark| mark.split_once('=')) {
        add(name, value.to_owned());
    }
    env
}

/// The variables by which tools of GPU vendors see the devices of an attempt and no others.
pub(super) fn visible(gpus: &[GpuDevice], vendors: &[String]) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    for (vendor, names) in [
        ("nvidia", &["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"][..]),
        ("amd", &["ROCR_VISIBLE_DEVICES"][..]),
        ("intel", &["ZE_AFFINITY_MASK"][..]),
    ] {
        let own: Vec<String> = gpus.iter().filter(|gpu| gpu.vendor == vendor).map(GpuDevice::id).collect();
        if own.is_empty() && !vendors.iter().any(|known| known == vendor) {
            continue;
        }
        if vendor == "nvidia" {
            all.push(("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned()));
        }
        all.extend(names.iter().map(|name| (*name, own.join(","))));
    }
    all
}

/// The environment as the kernel takes it; the name of a variable that cannot be passed on.
pub(super) fn encode(env: &[(String, String)]) -> Result<Vec<CString>, String> {
    let one = |(name, value): &(String, String)| {
        let bad = name.is_empty() || name.contains('=');
        if bad { None } else { CString::new(format!("{name}={value}")).ok() }.ok_or_else(|| name.clone())
    };
    env.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use orlop_core::id::{Epoch, JobId};
    use orlop_core::task::{Run, TaskRef};

    use super::*;
    use crate::runtime::worker::plan::{ExtraUnits, Secret};

    #[test]
    fn a_slice_is_made_visible_by_its_uuid_and_a_whole_device_by_its_number() {
        let variables = |gpus: &[GpuDevice]| {
            let all = visible(gpus, &["nvidia".to_owned()]);
            all.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        };
        let uuid = "MIG-d0dd2f3e-3f5f-5d5e-9d0b-6d3c2f1d1f01";
        let slice = GpuDevice { uuid: Some(uuid.to_owned()), ..GpuDevice::numbered("nvidia", 1) };
        let order = "CUDA_DEVICE_ORDER=PCI_BUS_ID";
        assert_eq!(variables(&[slice]), format!("{order} CUDA_VISIBLE_DEVICES={uuid} NVIDIA_VISIBLE_DEVICES={uuid}"));
        let whole = [GpuDevice::numbered("nvidia", 1), GpuDevice::numbered("nvidia", 3)];
        assert_eq!(variables(&whole), format!("{order} CUDA_VISIBLE_DEVICES=1,3 NVIDIA_VISIBLE_DEVICES=1,3"));
    }

    #[test]
    fn every_promised_variable_is_there_and_none_of_the_agents() {
        let id = TaskRef { job: JobId::from_u64(7), index: 4, member: 1, attempt: 2, epoch: Epoch(9) };
        let env = vec![("A".to_owned(), "{{index}}".to_owned()), ("ORLOP_JOB_ID".to_owned(), "x".to_owned())];
        let spec = Run { env, cpu_m: 1500, memory_bytes: 1 << 30, ..Run::default() };
        let mut plan = AttemptPlan::new(id, Arc::new(spec));
        plan.correlation_id = "c-1".to_owned();
        plan.gpus = vec![GpuDevice::numbered("nvidia", 3)];
        plan.extras = [("fpga", 2, vec![0, 3]), ("example.com/disk", 1 << 40, Vec::new())]
            .map(|(name, count, units)| ExtraUnits { name: name.to_owned(), count, units })
            .into();
        plan.artifacts = Some("/in".into());
        let given_as = SecretAs::Env;
        plan.secrets =
            vec![Secret { name: "s".to_owned(), value: "v".to_owned(), given_as, target: "TOKEN".to_owned() }];
        let vendors = ["nvidia".to_owned(), "amd".to_owned()];
        let defaults = [("A", "not this".to_owned()), ("LANG", "C.UTF-8".to_owned())];
        let places = Places {
            defaults: &defaults,
            devices: &visible(&plan.gpus, &vendors),
            output: Path::new("/w/.orlop-output"),
            secrets: Some(Path::new("/s")),
            artifacts: plan.artifacts.as_deref(),
            worker: "w1",
            mark: Some("ORLOP_REF=m"),
        };
        let lines: Vec<String> =
            environment(&plan, places).iter().map(|(name, value)| format!("{name}={value}")).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        LANG=C.UTF-8
        A=4
        CUDA_DEVICE_ORDER=PCI_BUS_ID
        CUDA_VISIBLE_DEVICES=3
        NVIDIA_VISIBLE_DEVICES=3
        ROCR_VISIBLE_DEVICES=
        TOKEN=v
        ORLOP_JOB_ID=j0000000000007
        ORLOP_INDEX=4
        ORLOP_MEMBER=1
        ORLOP_ATTEMPT=2
        ORLOP_EPOCH=9
        ORLOP_WORKER=w1
        ORLOP_CPUS=2
        ORLOP_MEMORY_BYTES=1073741824
        ORLOP_EXTRA_FPGA_UNITS=0,3
        ORLOP_EXTRA_FPGA=2
        ORLOP_EXTRA_EXAMPLE_COM_DISK=1099511627776
        ORLOP_OUTPUT=/w/.orlop-output
        ORLOP_SECRETS_DIR=/s
        ORLOP_ARTIFACTS_DIR=/in
        ORLOP_CORRELATION_ID=c-1
        ORLOP_REF=m
        ");
        assert_eq!(encode(&[("a=b".to_owned(), String::new())]), Err("a=b".to_owned()));
        assert_eq!(encode(&[("a".to_owned(), "\0".to_owned())]), Err("a".to_owned()));
    }
}
