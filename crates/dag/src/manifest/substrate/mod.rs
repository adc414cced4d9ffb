//! The support for fields of a Job template outside Kubernetes: each is honoured, ignored with a warning, or refused. Owns the check
//! of a template against a [`Target`].

mod special;
mod table;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use table::FieldSupport;

use self::table::{Answer, Row, row};
use super::path::Path;
use super::violation::{Note, Severity, Violations, shown};
use crate::code::Code;

/// How containers run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// As processes of the machine; images are ignored.
    Process,
    /// As containers of a container engine.
    #[serde(rename = "containers")]
    Docker,
    /// As containers where the step names an image, else as processes. Also read as `docker`, the name in earlier versions.
    #[default]
    #[serde(alias = "docker")]
    ByImage,
}

/// A place outside Kubernetes where steps run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Target {
    /// How containers run.
    pub runtime: Runtime,
    /// Whether a scheduler places steps on workers, so that fields which choose a machine count.
    pub fleet: bool,
    /// Whether steps may have privileges on the machine, such as `privileged` or host namespaces.
    pub privileged: bool,
    /// Folders of the machine that steps may mount by `hostPath`, with everything below them.
    pub host_paths: Vec<String>,
    /// Folder that relative host paths begin in, usually that of the manifest; none: they are refused.
    pub folder: Option<String>,
    /// User and group that processes run as; none: root, who can become any user.
    pub user: Option<(u32, u32)>,
    /// Names of volume claims that exist beside those of the flow's templates; none: claims are not checked.
    pub claims: Option<Vec<String>>,
}

impl Target {
    /// Steps on one machine.
    #[must_use]
    pub const fn local(runtime: Runtime) -> Self {
        Self {
            runtime,
            fleet: false,
            privileged: false,
            host_paths: Vec::new(),
            folder: None,
            user: None,
            claims: None,
        }
    }

    /// Steps on workers of a scheduler.
    #[must_use]
    pub fn fleet(runtime: Runtime) -> Self {
        Self { fleet: true, ..Self::local(runtime) }
    }
}

/// What templates are checked against.
#[derive(Clone, Copy)]
pub(super) struct Fields<'c> {
    /// The name of the step.
    pub(super) step: &'c str,
    pub(super) target: &'c Target,
    /// Whether the flow itself creates a claim.
    pub(super) own_claim: &'c dyn Fn(&str) -> bool,
    /// How grave an ignored field is.
    pub(super) ignored: Severity,
    /// Containers may lack an image (else their own check reports it).
    pub(super) image_optional: bool,
}

impl Fields<'_> {
    /// Reports the fields of a Job template that the target ignores or refuses.
    pub(super) fn check(self, template: &Value, path: &Path<'_>, found: &mut Violations) {
        let pod = super::validate::pod(template);
        let image = pod.and_then(|pod| pod.pointer("/containers/0/image")).is_some_and(|image| !image.is_null());
        let docker = match self.target.runtime {
            Runtime::Process => false,
            Runtime::Docker => true,
            Runtime::ByImage => image,
        };
        let Some(job) = template.get("spec") else { return };
        let check = Check { fields: self, target: self.target, docker };
        let path = path.field("spec");
        check.members(job, "", &path, found);
        special::check(&check, job, &path, found);
    }
}

/// The check of one template.
struct Check<'c> {
    fields: Fields<'c>,
    target: &'c Target,
    docker: bool,
}

impl Check<'_> {
    /// Walks the members of an object whose own key in the table is `key`; recursion is as deep as the table.
    fn members(&self, object: &Value, key: &str, path: &Path<'_>, found: &mut Violations) {
        for (name, value) in object.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
            let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
            self.field(value, &key, &path.field(name), found);
        }
    }

    fn field(&self, value: &Value, key: &str, path: &Path<'_>, found: &mut Violations) {
        let name = key.rsplit('.').next().unwrap_or(key);
        match row(key) {
            None => self.report(FieldSupport::Ignored, name, None, path, found),
            Some(Row { answer: Answer::Inside, .. }) => match value {
                Value::Array(items) => {
                    for (index, item) in items.iter().enumerate() {
                        self.members(item, key, &path.index(index), found);
                    }
                }
                _ => self.members(value, key, path, found),
            },
            Some(Row { answer: Answer::Fields { process, docker, when }, why, .. }) => {
                let verdict = if self.docker { *docker } else { *process };
                if when.matches(value) {
                    self.report(verdict, name, *why, path, found);
                }
            }
            Some(Row { answer: Answer::Placement, why, .. }) => {
                let verdict = if self.target.fleet { FieldSupport::Honoured } else { FieldSupport::Ignored };
                self.report(verdict, name, *why, path, found);
            }
            Some(Row { answer: Answer::Privilege(when), why, .. }) => {
                if when.matches(value) && !(self.docker && self.target.privileged) {
                    self.report(FieldSupport::Refused, name, *why, path, found);
                }
            }
        }
    }

    fn report(
        &self,
        verdict: FieldSupport,
        name: &str,
        why: Option<&'static str>,
        path: &Path<'_>,
        found: &mut Violations,
    ) {
        let place = if self.docker { "a container engine" } else { "plain processes" };
        match verdict {
            FieldSupport::Honoured => {}
            FieldSupport::Ignored => found.add((self.fields.ignored, Code::Ignored), path, || {
                let why = why.map_or(String::new(), |why| format!(": {why}"));
                Note::new(format!("{} is ignored by {place}{why}", shown(name)), None).on_key()
            }),
            FieldSupport::Refused => found.error(Code::Unsupported, path, || {
                let why = why.map_or(String::new(), |why| format!(": {why}"));
                Note::new(
                    format!("{} is not possible with {place}{why}", shown(name)),
                    Some("remove it, or run the flow on Kubernetes".to_owned()),
                )
                .on_key()
            }),
        }
    }
}
