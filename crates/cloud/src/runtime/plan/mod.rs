//! From the `batch/v1` Job of an attempt to the plan of a pod. Owns what every field means on one machine
//! and the refusal of those that can mean nothing here; starts nothing.
//!
//! Two stages. [`JobTemplate::read`] turns the JSON tree into typed values, once per attempt and without looking at the
//! machine. [`resolve`] turns them into the plan of one pod, with the values of ConfigMaps and Secrets and the places of
//! volumes.

pub mod container;
pub mod downward;
pub mod env;
pub mod expand;
pub mod field;
mod job;
pub mod pod;
pub mod request;
pub mod resolve;
pub mod security;
pub mod source;
#[cfg(test)]
mod tests;
pub mod volume;

use std::collections::BTreeMap;
use std::path::PathBuf;

use orlop_core::error::Problem;
use serde_json::Value;

use self::field::Field;
use self::pod::PodTemplate;
use crate::runtime::job::rules::JobRules;

/// What this machine's operator allows and chose, as far as templates are read with it.
#[derive(Clone, Debug, Default)]
pub struct TemplatePolicy {
    /// `backoffLimit` of Jobs that give none.
    pub backoff_default: u32,
    /// Whether pods may be privileged, add capabilities or share namespaces of the host.
    pub allow_privileged: bool,
    /// Directories of the host below which `hostPath` volumes may lie.
    pub allow_host_path: Vec<PathBuf>,
    /// Directory that relative paths of `hostPath` volumes begin in; without one they are refused.
    pub folder: Option<PathBuf>,
}

/// The Job of an attempt, read.
#[derive(Clone, Debug, PartialEq)]
pub struct JobTemplate {
    /// How many pods it has and what their ends mean.
    pub rules: JobRules,
    /// What each pod is.
    pub pod: PodTemplate,
}

impl JobTemplate {
    /// Reads a Job.
    ///
    /// # Errors
    /// Invalid with reason TemplateInvalid and the field's path: for a value of the wrong type, and for fields that can
    /// mean nothing off Kubernetes.
    pub fn read(template: &Value, policy: &TemplatePolicy) -> Result<Self, Problem> {
        let root = Field::root(template);
        let spec = root.get("spec");
        let pod = PodTemplate::read(&spec.get("template"), policy)?;
        let rules = job::rules(&spec, &pod, policy)?;
        Ok(Self { rules, pod })
    }
}

/// Texts by name, as labels and annotations are.
fn texts(field: &Field<'_>) -> Result<BTreeMap<String, String>, Problem> {
    let mut map = BTreeMap::new();
    for (name, value) in field.members()? {
        map.insert(name.to_owned(), value.text()?.unwrap_or_default().to_owned());
    }
    Ok(map)
}
