//! Step templates: a `batch/v1` Job whose fields have their types, and the rules on Job and pod.

use orlop_core::quantity::{Quantity, QuantityError};
use serde_json::Value;

use super::containers;
use super::context::{At, Context};
use super::steps::own_keys;
use crate::code::Code;
use crate::manifest::path::Path;
use crate::manifest::schema::{Expected, Walk};
use crate::manifest::substrate::Fields;
use crate::manifest::violation::{Violations, shown};

pub(super) fn check(context: &Context<'_>, at: At<'_>, found: &mut Violations) {
    let Some(template) = at.step.template.as_ref().filter(|_| !at.step.is_manual()) else { return };
    let path = at.path.field("template");
    if !template.is_object() {
        return found.error(Code::Template, &path, || {
            ("the template is not a Job", "write a mapping with apiVersion, kind and spec")
        });
    }
    for (field, wanted) in [("apiVersion", "batch/v1"), ("kind", "Job")] {
        match template.get(field).filter(|value| !value.is_null()) {
            Some(Value::String(given)) if given == wanted => {}
            Some(Value::String(given)) => found.error(Code::Template, &path.field(field), || {
                (format!("`{field}` of the template is {}", shown(given)), format!("write {field}: {wanted}"))
            }),
            // Another type is reported by the walk.
            Some(_) => {}
            None => found.error(Code::Template, &path.field(field), || {
                (format!("the template has no `{field}`"), format!("write {field}: {wanted}"))
            }),
        }
    }
    let form = Expected { code: Code::Template, unknown: context.limits.lenient(), aliases: &[], hints: &[] };
    Walk::new(form, found).check(template, "Job", &path);
    if let Some(target) = &context.limits.target {
        let own_claim = |name: &str| context.is_claim_template(name);
        Fields {
            step: &at.step.name,
            target,
            own_claim: &own_claim,
            ignored: context.limits.lenient(),
            image_optional: context.limits.image_optional,
        }
        .check(template, &path, found);
    }
    let metadata = path.field("metadata");
    reserved(template.get("metadata"), &metadata, found);
    let job_path = path.field("spec");
    match member(template, "spec") {
        Some(job) if job.is_object() => {
            check_job(job, &job_path, found);
            check_pod(context, at, job, &job_path, found);
        }
        Some(_) => {}
        None => found.error(Code::Template, &job_path, || {
            ("the template has no `spec`", "write the Job's spec, with its own pod template")
        }),
    }
}

fn check_job(job: &Value, path: &Path<'_>, found: &mut Violations) {
    if let Some(limit) = job.get("backoffLimit").and_then(Value::as_i64).filter(|limit| *limit < 0) {
        found.error(Code::Job, &path.field("backoffLimit"), || (format!("{limit} retries"), "use 0 or more"));
    }
    if let Some(seconds) = job.get("activeDeadlineSeconds").and_then(Value::as_i64).filter(|seconds| *seconds <= 0) {
        found.error(Code::Job, &path.field("activeDeadlineSeconds"), || {
            (format!("a deadline of {seconds} seconds"), "use 1 or more, or leave it out for none")
        });
    }
    for field in ["selector", "manualSelector"] {
        if member(job, field).is_some() {
            found.error(Code::Job, &path.field(field), || {
                (
                    format!("`{field}` is set: attempts would fight over pods"),
                    "remove it; every Job selects its own pods by itself",
                )
            });
        }
    }
}

/// The rules on a pod: restart policy, names of containers and volumes, and each container.
fn check_pod(context: &Context<'_>, at: At<'_>, job: &Value, path: &Path<'_>, found: &mut Violations) {
    let template_path = path.field("template");
    let Some(template) = member(job, "template").filter(|template| template.is_object()) else { return };
    reserved(template.get("metadata"), &template_path.field("metadata"), found);
    let pod_path = template_path.field("spec");
    let Some(pod) = member(template, "spec") else {
        return found.error(Code::Container, &pod_path, || {
            ("the pod template has no `spec`, so no container", "add spec.containers")
        });
    };
    if let Some(policy) = pod.get("restartPolicy").and_then(Value::as_str)
        && !matches!(policy, "Never" | "OnFailure")
    {
        found.error(Code::Job, &pod_path.field("restartPolicy"), || {
            (
                format!("restartPolicy {} is not possible in a Job", shown(policy)),
                "use Never or OnFailure; absent means Never",
            )
        });
    }
    containers::check(context, at, pod, &pod_path, found);
}

fn reserved(metadata: Option<&Value>, path: &Path<'_>, found: &mut Violations) {
    for field in ["labels", "annotations"] {
        if let Some(map) = metadata.and_then(|metadata| metadata.get(field)).and_then(Value::as_object) {
            own_keys(Code::Reserved, map.keys(), &path.field(field), found);
        }
    }
}

/// A member that is there and not null.
pub(super) fn member<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    value.get(key).filter(|member| !member.is_null())
}

/// The pod spec of a Job template.
pub(in crate::manifest) fn pod(template: &Value) -> Option<&Value> {
    member(member(member(template, "spec")?, "template")?, "spec")
}

/// Names of the containers of a Job template, init containers included; `None` where a name is missing.
pub(super) fn containers(template: &Value) -> impl Iterator<Item = Option<&str>> {
    let lists =
        ["containers", "initContainers"].into_iter().filter_map(|list| member(pod(template)?, list)?.as_array());
    lists.flatten().map(|container| container.get("name").and_then(Value::as_str))
}

/// The amount of a resource: `None` where a placeholder stands or the type is wrong.
pub(super) fn quantity(value: &Value) -> Option<Result<Quantity, QuantityError>> {
    match value {
        Value::String(text) if has_placeholder(text) => None,
        Value::String(text) => Some(text.parse()),
        Value::Number(number) => Some(number.to_string().parse()),
        _ => None,
    }
}

/// Whether a text may change when parameters are put in.
pub(in crate::manifest) fn has_placeholder(text: &str) -> bool {
    text.contains("{{") || text.contains("${")
}
