//! Artifacts of steps: names, sources, paths and stores.

use std::collections::BTreeMap;

use orlop_core::id::dns1123_subdomain;
use orlop_core::spec::artifact::{ArtifactInput, ArtifactOutput, HttpSource};

use super::context::{At, Context};
use super::parameters::unique;
use super::stores::check_object;
use crate::code::Code;
use crate::manifest::path::Path;
use crate::manifest::schema::nearest;
use crate::manifest::violation::{Note, Violations, shown};

pub(super) fn check(context: &Context<'_>, at: At<'_>, found: &mut Violations) {
    movable(context, at, found);
    let inputs = at.path.field("inputs");
    let list = inputs.field("artifacts");
    names(at.step.input_artifacts().iter().map(|artifact| artifact.name.as_str()), &list, found);
    for (index, artifact) in at.step.input_artifacts().iter().enumerate() {
        input(context, at, artifact, &list.index(index), found);
    }
    let outputs = at.path.field("outputs");
    let list = outputs.field("artifacts");
    names(at.step.output_artifacts().iter().map(|artifact| artifact.name.as_str()), &list, found);
    for (index, artifact) in at.step.output_artifacts().iter().enumerate() {
        output(artifact, &list.index(index), found);
    }
    let list = outputs.field("parameters");
    for (index, parameter) in at.step.output_parameters().iter().enumerate() {
        if let Some(path) = &parameter.value_from.path {
            let item = list.index(index);
            absolute(path, &item.field("valueFrom").field("path"), found);
        }
    }
}

/// Files of a step that nothing there can move.
fn movable(context: &Context<'_>, at: At<'_>, found: &mut Violations) {
    if context.limits.artifacts {
        return;
    }
    let template = at.step.template.as_ref();
    let main = template.and_then(|job| job.pointer("/spec/template/spec/containers/0"));
    let own = main.is_some_and(|main| main.get("terminationMessagePath").is_some());
    let files = at.step.output_parameters().iter().filter(|output| output.value_from.path.is_some()).count();
    let (what, place) = match files {
        _ if !at.step.input_artifacts().is_empty() => ("artifacts", at.path.field("inputs")),
        _ if !at.step.output_artifacts().is_empty() => ("artifacts", at.path.field("outputs")),
        1 if own => ("an output file together with its own `terminationMessagePath`", at.path.field("outputs")),
        0 | 1 => return,
        _ => ("several output files", at.path.field("outputs")),
    };
    found.error(Code::Unsupported, &place, || {
        let message = format!(
            "the step {} has {what}, and this operator was started without --helper-image and --artifact-url, so nothing moves them",
            shown(&at.step.name)
        );
        let help = "set both: the image of the helper, and the URL under which pods reach the operator; in the chart set artifacts.helperImage";
        (message, help)
    });
}

fn names<'n>(names: impl Iterator<Item = &'n str>, list: &Path<'_>, found: &mut Violations) {
    let mut seen = BTreeMap::new();
    for (index, name) in names.enumerate() {
        let item = list.index(index);
        let path = item.field("name");
        if let Err(error) = dns1123_subdomain(name) {
            found.error(Code::Artifact, &path, || Note::of(&error.about("artifact name")));
        }
        unique(&mut seen, name, index, &path, found);
    }
}

fn input(context: &Context<'_>, at: At<'_>, artifact: &ArtifactInput, path: &Path<'_>, found: &mut Violations) {
    match (&artifact.from, &artifact.http) {
        (None, None) => {
            found.error(Code::Artifact, path, || ("the artifact has no source", "give it `from` or `http`"));
        }
        (Some(_), Some(_)) => {
            found.error(Code::Artifact, path, || ("the artifact has `from` and `http`", "keep one of them"));
        }
        _ => {}
    }
    if let Some((step, name)) = artifact.source() {
        source(context, at, (step, name, &path.field("from")), found);
    }
    if let Some(http) = &artifact.http {
        let path = path.field("http");
        url(http, &path.field("url"), found);
    }
    if let Some(target) = &artifact.path {
        absolute(target, &path.field("path"), found);
    }
}

/// `from`: `step/artifact`, or a step that has exactly one.
fn source(
    context: &Context<'_>,
    at: At<'_>,
    (step, name, path): (&str, Option<&str>, &Path<'_>),
    found: &mut Violations,
) {
    if step.is_empty() || name == Some("") {
        return found
            .error(Code::Artifact, path, || ("`from` names no step or no artifact", "write it as step/artifact"));
    }
    let Some((producer, finally)) = context.step(step) else {
        return found.error(Code::Reference, path, || context.no_step(step));
    };
    if finally && !at.finally {
        return found.error(Code::Reference, path, || {
            let message = format!("the step {} is in `finally`, which runs after this one", shown(step));
            (message, "take the artifact from a step of `steps`")
        });
    }
    let given = producer.output_artifacts();
    match name {
        Some(name) if context.gives_artifact(step, name) => {}
        Some(name) => found.error(Code::Reference, path, || {
            let help = nearest(name, given.iter().map(|artifact| artifact.name.as_str()))
                .map(|guess| format!("did you mean `{}/{guess}`?", producer.name))
                .unwrap_or_else(|| format!("declare it under outputs.artifacts of {}", shown(step)));
            Note::new(format!("the step {} has no output artifact {}", shown(step), shown(name)), Some(help))
        }),
        None if given.len() == 1 => {}
        None => found.error(Code::Artifact, path, || {
            let message = format!(
                "the step {} has {} output artifacts, so its name alone is not enough",
                shown(step),
                given.len()
            );
            let help = match given.first() {
                Some(first) => format!("write {}/<artifact>, such as {}/{}", producer.name, producer.name, first.name),
                None => format!("declare the artifact under outputs.artifacts of {}", shown(step)),
            };
            Note::new(message, Some(help))
        }),
    }
}

fn url(http: &HttpSource, path: &Path<'_>, found: &mut Violations) {
    let url = http.url.as_str();
    if url.starts_with("{{") || url.starts_with("${") {
        // The scheme comes from a parameter and is seen when it is resolved.
        return;
    }
    let lower = url.get(..8).unwrap_or(url).to_ascii_lowercase();
    let rest = lower.strip_prefix("http://").or_else(|| lower.strip_prefix("https://"));
    let host = rest
        .and_then(|_| url.split_once("://"))
        .map(|(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
    match host {
        None => {
            found.error(Code::Artifact, path, || {
                (format!("{} is not an http or https URL", shown(url)), "begin it with https://")
            });
        }
        Some("") => found.error(Code::Artifact, path, || format!("the URL {} names no host", shown(url))),
        Some(_) if url.contains(|c: char| c.is_whitespace() && !url.contains("{{") || c.is_control()) => {
            found.error(Code::Artifact, path, || {
                (format!("the URL {} holds blanks or control characters", shown(url)), "write them as %20 and so on")
            });
        }
        Some(_) => {}
    }
}

fn output(artifact: &ArtifactOutput, path: &Path<'_>, found: &mut Violations) {
    if artifact.path.is_empty() {
        found.error(Code::Value, &path.field("path"), || ("the artifact has no path", "say where the step writes it"));
    } else {
        absolute(&artifact.path, &path.field("path"), found);
    }
    if let Some(object) = &artifact.s3 {
        check_object(object, &path.field("s3"), found);
    }
}

fn absolute(value: &str, path: &Path<'_>, found: &mut Violations) {
    let fault = if !value.starts_with('/') {
        "is not absolute"
    } else if value.split('/').any(|part| part == "..") {
        "has a `..` component"
    } else if value.contains('\0') {
        "holds a NUL byte"
    } else {
        return;
    };
    found.error(Code::UnsafePath, path, || {
        (format!("the path {} {fault}", shown(value)), "write the absolute path inside the container")
    });
}
