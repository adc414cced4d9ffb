//! Tests: what each pod field means on one machine, and which are refused.

mod honoured;
mod job;
mod refused;

use std::collections::BTreeMap;
use std::fs;

use orlop_core::attempt::AttemptKey;
use orlop_core::error::Problem;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::env::Missing;
use super::request::Machine;
use super::resolve::{PodIdentity, PodPlace, pod_plan};
use super::source::Sources;
use super::{JobTemplate, TemplatePolicy};
use crate::runtime::pod::{ContainerPlan, EnvText, PodKey, PodPlan};
use crate::runtime::volume::VolumeRoot;

/// A machine with ConfigMaps and Secrets.
struct Bench {
    root: TempDir,
    machine: Machine,
    volumes: BTreeMap<String, VolumeRoot>,
    index: Option<u32>,
    missing: Missing,
}

impl Bench {
    fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
            machine: Machine { name: "box".into(), cpu_milli: 4_000, memory_bytes: 8 << 30, gpus: vec![0, 1, 2] },
            volumes: BTreeMap::new(),
            index: None,
            missing: Missing::Refused,
        }
    }

    /// Writes a key below `configs`, `flow` or `secrets`.
    fn key(self, store: &str, name: &str, key: &str, text: &str) -> Self {
        let directory = self.root.path().join(store).join(name);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(key), text).unwrap();
        self
    }

    fn plan(&self, template: &Value) -> Result<PodPlan, Problem> {
        let template = JobTemplate::read(template, &TemplatePolicy::default())?;
        let attempt = AttemptKey { flow: "f".into(), step: "s".into(), item: None, attempt: 1 };
        let key = PodKey { attempt, pod: 2 };
        let identity = PodIdentity::new(key, self.index, ("flow-s-f", "team"), &template);
        let place = PodPlace {
            identity: &identity,
            machine: &self.machine,
            sources: &Sources {
                config_maps: vec![self.root.path().join("flow"), self.root.path().join("configs")],
                secrets: vec![self.root.path().join("secrets")],
            },
            missing: self.missing,
            volumes: &self.volumes,
            gpus: vec![1, 2],
            restart_limit: 4,
            stdout: "out".into(),
            stderr: "err".into(),
            outputs: vec!["/o".into()],
            directory: "runtime".into(),
        };
        pod_plan(&template, &place)
    }

    fn main(&self, container: Value) -> ContainerPlan {
        self.plan(&job(container)).unwrap().main
    }

    fn env(&self, container: Value) -> Vec<(String, String)> {
        self.main(container).env.into_iter().map(|(name, text)| (name, text.value)).collect()
    }
}

/// A Job of one container `main`.
fn job(mut container: Value) -> Value {
    container["name"] = json!("main");
    json!({"spec": {"template": {"spec": {"containers": [container]}}}})
}

/// A Job of one container and these pod fields.
fn pod(fields: Value) -> Value {
    let mut job = job(json!({"image": "i", "command": ["c"]}));
    for (name, value) in fields.as_object().unwrap() {
        job["spec"]["template"]["spec"][name] = value.clone();
    }
    job
}

/// A Job of one container and these Job fields.
fn with(fields: Value) -> Value {
    let mut job = job(json!({"image": "i", "command": ["c"]}));
    for (name, value) in fields.as_object().unwrap() {
        job["spec"][name] = value.clone();
    }
    job
}

fn read(template: &Value) -> Result<JobTemplate, Problem> {
    JobTemplate::read(template, &TemplatePolicy::default())
}

fn env<'a>(plan: &'a ContainerPlan, name: &str) -> Option<&'a EnvText> {
    plan.env.iter().find(|(found, _)| found == name).map(|(_, text)| text)
}
