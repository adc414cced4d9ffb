//! Fields of pods whose answer depends on their value or on the target: number of containers, commands, volumes, users
//! and named resources.

use serde_json::Value;

use super::table::FieldSupport;
use super::{Check, Target};
use crate::code::Code;
use crate::manifest::path::Path;
use crate::manifest::validate::has_placeholder;
use crate::manifest::violation::{Violations, shown};

/// Kinds of volumes that every target can give.
const VOLUMES: [&str; 4] = ["emptyDir", "configMap", "secret", "downwardAPI"];
/// Resources every target understands.
const RESOURCES: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "nvidia.com/gpu"];

pub(super) fn check(check: &Check<'_>, job: &Value, path: &Path<'_>, found: &mut Violations) {
    let template_path = path.field("template");
    let path = template_path.field("spec");
    let Some(pod) = job.pointer("/template/spec") else { return };
    let containers = path.field("containers");
    for (index, _) in list(pod, "containers").enumerate().skip(1) {
        found.error(Code::Unsupported, &containers.index(index), || {
            ("a step outside Kubernetes has one container", "make it a separate step, or run the flow on Kubernetes")
        });
    }
    for field in ["containers", "initContainers"] {
        let list_path = path.field(field);
        for (index, container) in list(pod, field).enumerate() {
            check.container(container, &list_path.index(index), found);
        }
    }
    user(
        check,
        pod.get("securityContext"),
        &["runAsUser", "runAsGroup", "fsGroup"],
        &path.field("securityContext"),
        found,
    );
    let volumes = path.field("volumes");
    for (index, volume) in list(pod, "volumes").enumerate() {
        check.volume(volume, &volumes.index(index), found);
    }
}

fn list<'v>(value: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

impl Check<'_> {
    fn container(&self, container: &Value, path: &Path<'_>, found: &mut Violations) {
        if !self.docker && list(container, "command").next().is_none() {
            found.error(Code::Unsupported, &path.field("command"), || {
                ("a plain process needs a command: there is no image with an entry point", "write `command`")
            });
        }
        let image = container.get("image").and_then(Value::as_str).is_some_and(|image| !image.is_empty());
        if self.docker && !image && self.fields.image_optional {
            found.error(Code::Unsupported, &path.field("image"), || {
                let message = format!("step `{}` names no image to run in a container", self.fields.step);
                (message, "name one, or let steps without an image run as processes with `--target local`")
            });
        }
        user(
            self,
            container.get("securityContext"),
            &["runAsUser", "runAsGroup"],
            &path.field("securityContext"),
            found,
        );
        if self.target.fleet {
            return;
        }
        let resources = path.field("resources");
        for field in ["requests", "limits"] {
            let amounts =
                container.get("resources").and_then(|resources| resources.get(field)).and_then(Value::as_object);
            for name in
                amounts.into_iter().flat_map(|map| map.keys()).filter(|name| !RESOURCES.contains(&name.as_str()))
            {
                let why = Some("only a fleet or cluster counts named resources");
                self.report(FieldSupport::Ignored, name, why, &resources.field(field).field(name), found);
            }
        }
    }

    fn volume(&self, volume: &Value, path: &Path<'_>, found: &mut Violations) {
        for (kind, source) in volume.as_object().into_iter().flatten().filter(|(_, source)| !source.is_null()) {
            let path = path.field(kind);
            match kind.as_str() {
                "name" => {}
                kind if VOLUMES.contains(&kind) => {}
                "persistentVolumeClaim" => self.claim(source, &path, found),
                "projected" => self.projected(source, &path, found),
                "hostPath" => self.host_path(source, &path, found),
                _ => self.report(FieldSupport::Refused, kind, Some("there is no such volume here"), &path, found),
            }
        }
    }

    fn claim(&self, source: &Value, path: &Path<'_>, found: &mut Violations) {
        let Some(name) = source.get("claimName").and_then(Value::as_str) else { return };
        let known = self.target.claims.as_ref().is_none_or(|claims| claims.iter().any(|claim| claim == name));
        // What a parameter makes of a name is seen when it is put in.
        if !known && !has_placeholder(name) && !(self.fields.own_claim)(name) {
            found.error(Code::Unsupported, &path.field("claimName"), || {
                let help =
                    "add it to resourceTemplates.volumeClaimTemplates, or give a folder of that name in --volumes-dir";
                (format!("there is no claim {} here", shown(name)), help)
            });
        }
    }

    fn projected(&self, source: &Value, path: &Path<'_>, found: &mut Violations) {
        let sources = path.field("sources");
        for (index, projection) in list(source, "sources").enumerate() {
            let path = sources.index(index);
            for kind in projection.as_object().into_iter().flat_map(|map| map.keys()) {
                if !matches!(kind.as_str(), "configMap" | "secret" | "downwardAPI") {
                    let why = Some("only a cluster issues tokens and certificates");
                    self.report(FieldSupport::Refused, kind, why, &path.field(kind), found);
                }
            }
        }
    }

    fn host_path(&self, source: &Value, path: &Path<'_>, found: &mut Violations) {
        let Some(folder) = source.get("path").and_then(Value::as_str) else { return };
        let Target { host_paths, folder: base, .. } = self.target;
        // The path that a parameter gives is checked when it is put in; where nothing is allowed, no path is.
        if has_placeholder(folder) && !host_paths.is_empty() {
            return;
        }
        let whole = match base {
            Some(base) if !folder.starts_with('/') => format!("{base}/{folder}"),
            _ => folder.to_owned(),
        };
        if !host_paths.iter().any(|allowed| is_under(&whole, allowed)) {
            let help = if self.target.fleet {
                "steps of a fleet mount no folders of workers: hand files over as artifacts"
            } else {
                "allow it with --allow-host-path"
            };
            found.error(Code::Unsupported, &path.field("path"), || {
                (format!("the folder {} of the machine may not be mounted", shown(folder)), help)
            });
        }
    }
}

/// Whether a folder is `allowed` or inside it, as paths are written: `..` never is.
fn is_under(folder: &str, allowed: &str) -> bool {
    let parts = |path: &str| {
        path.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_owned).collect::<Vec<_>>()
    };
    let (folder, absolute) = (parts(folder), folder.starts_with('/') && allowed.starts_with('/'));
    absolute && !folder.iter().any(|part| part == "..") && folder.starts_with(&parts(allowed))
}

/// Users and groups a process cannot become.
fn user(check: &Check<'_>, context: Option<&Value>, fields: &[&str], path: &Path<'_>, found: &mut Violations) {
    let (Some((uid, gid)), Some(context), false) = (check.target.user, context, check.docker) else { return };
    for field in fields {
        let own = if *field == "runAsUser" { uid } else { gid };
        let Some(wanted) = context.get(field).and_then(Value::as_i64) else { continue };
        if wanted != i64::from(own) {
            found.error(Code::Unsupported, &path.field(field), || {
                let message = format!("{field} {wanted} is not possible: processes run as {own}");
                (message, "remove it, run as root, or use containers")
            });
        }
    }
}
