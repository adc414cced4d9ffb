//! Reading declared names out of running text. Step, output and parameter names may hold `-` and `.`, so what follows
//! `steps.` is read as the longest declared name. Turns names into references and refuses unknown or secret ones.

use super::error::{SourceError, Span};
use super::reference::{FlowField, Reference, StepField};
use super::scope::{Scope, Secrecy, Steps};
use super::suggest::did_you_mean;

/// Longest name the API admits, in bytes.
const NAME_LIMIT: usize = 253;

/// The letters, digits, `-`, `_` and `.` from `at` on.
pub(crate) fn run(source: &str, at: usize) -> &str {
    let rest = source.get(at..).unwrap_or_default();
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))).unwrap_or(rest.len());
    rest.get(..end).unwrap_or_default()
}

/// The whole run, then what stands before each of its dots, the longest first.
pub(crate) fn readings(run: &str) -> impl Iterator<Item = &str> {
    let before_dots = run.rmatch_indices('.').filter_map(|(dot, _)| run.get(..dot));
    std::iter::once(run).chain(before_dots).filter(|name| !name.is_empty() && name.len() <= NAME_LIMIT)
}

/// The name after `steps.` at `at`, the longest declared one that a field can follow.
pub(crate) fn step_in_text<'s>(source: &'s str, at: usize, steps: &Steps<'_>) -> Result<&'s str, SourceError> {
    let run = run(source, at);
    let goes_on = follows(source, at + run.len(), '.');
    let has_field = |name: &&str| goes_on || name.len() < run.len();
    let mut declared = readings(run).filter(|name| steps.contains(name)).peekable();
    let longest = declared.peek().copied();
    if let Some(name) = declared.find(has_field).or(longest) {
        return Ok(name);
    }
    let guess = before_field(run);
    Err(unknown_step(guess, Span::new(at, at + guess.len()), steps))
}

/// The part of a run before what looks like the field of a step.
fn before_field(run: &str) -> &str {
    let fields = [".phase", ".reason", ".retryCount", ".outputs", ".Phase", ".Message", ".RetryCount"];
    let end = fields.iter().filter_map(|field| run.find(field)).min().unwrap_or(run.len());
    run.get(..end).unwrap_or(run).trim_end_matches('.')
}

pub(crate) fn unknown_step(name: &str, span: Span, steps: &Steps<'_>) -> SourceError {
    if name.is_empty() {
        return SourceError::new(span, "a step name is missing")
            .with_help("write steps.NAME.phase or steps[\"NAME\"].phase");
    }
    let help = steps.suggestion(name).unwrap_or_else(|| "conditions name steps of the same flow".to_owned());
    SourceError::new(span, format!("unknown step `{}`", shortened(name))).with_help(help)
}

/// A parameter in running text, with the offset after its name.
pub(crate) fn parameter_in_text(source: &str, at: usize, scope: &Scope<'_>) -> Result<(Reference, usize), SourceError> {
    let run = run(source, at);
    let is_call = follows(source, at + run.len(), '(');
    let without_method = match run.rfind('.') {
        Some(dot) if is_call => run.get(..dot).unwrap_or(run),
        _ => run,
    };
    let name = if is_instance_name(without_method) {
        without_method
    } else {
        readings(run).find(|name| scope.parameter(name).is_some()).unwrap_or(without_method)
    };
    let end = at + name.len();
    parameter(name, Span::new(at, end), scope).map(|reference| (reference, end))
}

/// A parameter by its exact name.
pub(crate) fn parameter(name: &str, span: Span, scope: &Scope<'_>) -> Result<Reference, SourceError> {
    if is_instance_name(name) {
        if scope.fan_out {
            return Ok(Reference::Instance(name.into()));
        }
        let message = format!("`{}` exists only in a fan-out step", shortened(name));
        return Err(SourceError::new(span, message).with_help("the step has neither withItems nor withParam"));
    }
    match scope.parameter(name) {
        Some(Secrecy::Plain) => Ok(Reference::Parameter(name.into())),
        Some(Secrecy::Secret) => {
            let message = format!("parameter `{}` is a secret, which no condition may read", shortened(name));
            Err(SourceError::new(span, message).with_help("decide on a parameter that is not from a Secret"))
        }
        Some(Secrecy::Late) => {
            let message = format!(
                "parameter `{}` is read from a ConfigMap when the step starts, which is after its conditions",
                shortened(name)
            );
            Err(SourceError::new(span, message)
                .with_help("take it as a parameter of the flow, which is read at submission"))
        }
        None if name.is_empty() => {
            Err(SourceError::new(span, "a parameter name is missing").with_help("write parameters.NAME"))
        }
        None => {
            let fallback = || "declare it in spec.parameters or in inputs.parameters of the step".to_owned();
            let help = scope.parameter_suggestion(name).unwrap_or_else(fallback);
            Err(SourceError::new(span, format!("unknown parameter `{}`", shortened(name))).with_help(help))
        }
    }
}

/// An output of a step in running text, with the offset after its name.
pub(crate) fn output_in_text<'s>(
    source: &'s str,
    at: usize,
    step: &str,
    steps: &Steps<'_>,
) -> Result<(&'s str, usize), SourceError> {
    let run = run(source, at);
    if let Some(name) = readings(run).find(|name| steps.has_output(step, name)) {
        return Ok((name, at + name.len()));
    }
    let guess = match run.rfind('.') {
        Some(dot) if follows(source, at + run.len(), '(') => run.get(..dot).unwrap_or(run),
        _ => run,
    };
    Err(unknown_output(guess, Span::new(at, at + guess.len()), step, steps))
}

pub(crate) fn unknown_output(name: &str, span: Span, step: &str, steps: &Steps<'_>) -> SourceError {
    let declared = steps.outputs(step);
    let help = did_you_mean(name, declared.iter().copied()).unwrap_or_else(|| match declared {
        [] => format!("step `{}` declares no outputs", shortened(step)),
        some => format!("its outputs are {}", some.iter().take(5).copied().collect::<Vec<_>>().join(", ")),
    });
    let message = format!("step `{}` has no output `{}`", shortened(step), shortened(name));
    SourceError::new(span, message).with_help(help)
}

/// A path in the manner of templates, `.JobFlow.Name` or `.StepStatus.<step>.Phase`; `at` is the offset of its dot.
pub(crate) fn path(path: &str, at: usize, scope: &Scope<'_>) -> Result<Reference, SourceError> {
    let span = Span::new(at, at + path.len());
    if let Some(rest) = path.strip_prefix(".StepStatus.") {
        let start = span.end() - rest.len();
        let step = step_in_text(path, path.len() - rest.len(), scope.steps).map_err(|error| error.shifted(at))?;
        let field = rest.get(step.len()..).unwrap_or_default();
        return status_field(step, field, Span::new(start + step.len(), span.end()));
    }
    if let Some(field) = path.strip_prefix(".JobFlow.") {
        return flow_field(field, Span::new(span.end() - field.len(), span.end()));
    }
    let root = path.split('.').nth(1).unwrap_or_default();
    let help = match root {
        "parameters" | "Parameters" => {
            Some("write \"${parameters.NAME}\" in quotes, or {{.parameters.NAME}} alone".to_owned())
        }
        _ => did_you_mean(root, ["JobFlow", "StepStatus"]),
    };
    let fallback = || "templates read .JobFlow and .StepStatus".to_owned();
    Err(SourceError::new(span, format!("unknown word `{}`", shortened(path))).with_help(help.unwrap_or_else(fallback)))
}

/// `.Phase`, `.Message` or `.RetryCount` after a step.
pub(crate) fn status_field(step: &str, field: &str, span: Span) -> Result<Reference, SourceError> {
    let field = match field {
        ".Phase" => StepField::Phase,
        ".Message" => StepField::Message,
        ".RetryCount" => StepField::RetryCount,
        other => {
            let name = other.trim_start_matches('.');
            let message = match name {
                "" => format!("step `{}` is not a value", shortened(step)),
                name => format!("unknown step field `{}`", shortened(name)),
            };
            let help = did_you_mean(name, ["Phase", "Message", "RetryCount"])
                .unwrap_or_else(|| "its fields are .Phase, .Message and .RetryCount".to_owned());
            let at = Span::new(span.end() - name.len(), span.end());
            return Err(SourceError::new(at, message).with_help(help));
        }
    };
    Ok(Reference::Step { step: step.into(), field })
}

fn flow_field(field: &str, span: Span) -> Result<Reference, SourceError> {
    let known = match field {
        "Name" => Some(FlowField::Name),
        "Namespace" => Some(FlowField::Namespace),
        "UID" => Some(FlowField::Uid),
        "Status.Phase" => Some(FlowField::Phase),
        _ => None,
    };
    if let Some(known) = known {
        return Ok(Reference::Flow(known));
    }
    for map in ["Labels", "Annotations"] {
        let Some(key) = field.strip_prefix(map).and_then(|rest| rest.strip_prefix('.')) else { continue };
        if key.is_empty() || key.contains('.') {
            let message = format!("`{}` is not a key that a path can name", shortened(key));
            return Err(SourceError::new(span, message).with_help(format!("write index .JobFlow.{map} \"KEY\"")));
        }
        let make = if map == "Labels" { Reference::Label } else { Reference::Annotation };
        return Ok(make(key.into()));
    }
    let help = match field {
        "Labels" | "Annotations" => Some(format!("name a key: index .JobFlow.{field} \"KEY\"")),
        other => did_you_mean(other, ["Name", "Namespace", "UID", "Labels", "Annotations", "Status.Phase"]),
    };
    let fallback = || "its fields are Name, Namespace, UID, Labels, Annotations and Status.Phase".to_owned();
    let message = format!("`{}` is not a value of the flow", shortened(field));
    Err(SourceError::new(span, message).with_help(help.unwrap_or_else(fallback)))
}

fn is_instance_name(name: &str) -> bool {
    matches!(name, "item" | "index") || name.strip_prefix("item.").is_some_and(|field| !field.is_empty())
}

/// Whether the first character after blanks at `at` is `wanted`.
fn follows(source: &str, at: usize, wanted: char) -> bool {
    source.get(at..).unwrap_or_default().trim_start().starts_with(wanted)
}

/// A name as messages show it: names over 60 characters are cut.
pub(crate) fn shortened(name: &str) -> String {
    let shown: String = name.chars().take(60).collect();
    if shown.len() == name.len() { shown } else { format!("{shown}…") }
}
