//! Placeholders: names that are declared, and secrets only where they may stand.

use std::collections::BTreeMap;

use orlop_core::spec::step::InputParameter;
use serde_json::Value;

use super::context::{At, Context};
use crate::code::Code;
use crate::manifest::path::{FieldPath, Path};
use crate::manifest::schema::nearest;
use crate::manifest::violation::{Note, Severity, Violations, shown};
use crate::params::{INDEX, ITEM, is_reserved, member_of, misplaced_secrets, names_in_text, uses_in};

/// What a placeholder of a step may name.
struct Names<'n> {
    /// Inputs of the step, and whether each is secret. They win over the flow's.
    inputs: BTreeMap<&'n str, bool>,
    flow: &'n BTreeMap<&'n str, bool>,
    fan_out: bool,
}

pub(super) fn check(context: &Context<'_>, at: At<'_>, found: &mut Violations) {
    let step = at.step;
    let inputs =
        step.input_parameters().iter().map(|parameter| (parameter.name.as_str(), is_secret(parameter))).collect();
    let names = Names { inputs, flow: &context.secrecy, fan_out: step.is_fan_out() };
    super::foreign::check(context, at, found);
    if names.inputs.is_empty() && names.flow.is_empty() && !names.fan_out {
        return;
    }
    let mut check = Check { names: &names, at, text_secrets: context.limits.secrets_as_text, fields: BTreeMap::new() };
    if let Some(template) = step.template.as_ref().filter(|_| !step.is_manual()) {
        check.template(template, found);
    }
    for (text, path) in step.message.iter().map(|text| (text, at.path.field("message"))) {
        check.text(text, &path, true, found);
    }
    if let Some(text) = &step.with_param {
        check.text(text, &at.path.field("withParam"), true, found);
    }
    check.artifacts(found);
}

fn is_secret(parameter: &InputParameter) -> bool {
    parameter.value_from.as_ref().is_some_and(|from| from.secret_key_ref.is_some())
}

impl Names<'_> {
    fn secrecy(&self, name: &str) -> Option<bool> {
        self.inputs.get(name).or_else(|| self.flow.get(name)).copied()
    }

    fn is_secret(&self, name: &str) -> bool {
        self.secrecy(name).unwrap_or(false)
    }

    /// What to say about a name that is not declared.
    fn unknown(&self, name: &str) -> Note {
        let instance: &[&str] = if self.fan_out { &[ITEM, INDEX] } else { &[] };
        let guess = nearest(name, self.inputs.keys().chain(self.flow.keys()).copied().chain(instance.iter().copied()));
        let help = guess.map_or_else(
            || "declare it under the flow's parameters or the step's inputs.parameters".to_owned(),
            |guess| format!("did you mean `{guess}`?"),
        );
        Note::new(format!("there is no parameter {}", shown(name)), Some(help))
    }
}

/// What is wrong with the name of a placeholder.
#[derive(Clone, Copy)]
enum Fault {
    /// It is not declared.
    Unknown,
    /// It is a field this item does not have.
    Missing(usize),
}

/// The check of one step.
struct Check<'c> {
    names: &'c Names<'c>,
    at: At<'c>,
    /// The driver writes secrets as text, so that they may stand where they are not forbidden.
    text_secrets: bool,
    /// Fields of items that were looked for, and the first item without each.
    fields: BTreeMap<String, Option<usize>>,
}

impl Check<'_> {
    /// What is wrong with a name, if anything.
    fn fault(&mut self, name: &str) -> Option<Fault> {
        if self.names.secrecy(name).is_some() {
            return None;
        }
        if !self.names.fan_out || !is_reserved(name) {
            return Some(Fault::Unknown);
        }
        let field = name.strip_prefix(ITEM).and_then(|rest| rest.strip_prefix('.'))?;
        self.first_without(field).map(Fault::Missing)
    }

    /// What to say about it.
    fn note(&self, name: &str, fault: Fault) -> Note {
        let Fault::Missing(item) = fault else { return self.names.unknown(name) };
        let message =
            format!("the item {item} of `withItems` has no field {}", shown(name.trim_start_matches("item.")));
        Note::new(message, Some("give every item the field, or use `item`".to_owned()))
    }

    /// The first item without a field; none where items are not known yet.
    fn first_without(&mut self, field: &str) -> Option<usize> {
        if let Some(known) = self.fields.get(field) {
            return *known;
        }
        let items = self.at.step.with_items.as_deref()?;
        let missing = items.iter().position(|item| member_of(item, field).is_none());
        self.fields.insert(field.to_owned(), missing);
        missing
    }

    fn template(&mut self, template: &Value, found: &mut Violations) {
        let path = self.at.path.field("template");
        for used in uses_in(template) {
            if let Some(fault) = self.fault(used.name) {
                found.add_at(
                    (Severity::Error, Code::Placeholder),
                    || inside(&path, &used.field),
                    || self.note(used.name, fault),
                );
            } else if self.names.is_secret(used.name) && on_command_line(&used.field) {
                found.add_at(
                    (Severity::Warning, Code::Placeholder),
                    || inside(&path, &used.field),
                    || seen_by_all(used.name),
                );
            }
        }
        for used in misplaced_secrets(template, &|name| self.names.is_secret(name)) {
            if !self.text_secrets || never_secret(&used.field) {
                found.add_at((Severity::Error, Code::Placeholder), || inside(&path, &used.field), || secret(used.name));
            }
        }
    }

    /// One text; `forbidden` says whether secrets are refused there.
    fn text(&mut self, text: &str, path: &Path<'_>, forbidden: bool, found: &mut Violations) {
        for name in names_in_text(text) {
            if let Some(fault) = self.fault(name) {
                found.error(Code::Placeholder, path, || self.note(name, fault));
            } else if self.names.is_secret(name) && (forbidden || !self.text_secrets) {
                found.error(Code::Placeholder, path, || secret(name));
            }
        }
    }

    /// Texts of artifacts in which placeholders count.
    fn artifacts(&mut self, found: &mut Violations) {
        let inputs = self.at.path.field("inputs");
        let list = inputs.field("artifacts");
        for (index, artifact) in self.at.step.input_artifacts().iter().enumerate() {
            let Some(http) = &artifact.http else { continue };
            let item = list.index(index);
            let path = item.field("http");
            self.text(&http.url, &path.field("url"), false, found);
            let headers = path.field("headers");
            for (name, value) in &http.headers {
                self.text(value, &headers.field(name), false, found);
            }
        }
        let outputs = self.at.path.field("outputs");
        let list = outputs.field("artifacts");
        for (index, artifact) in self.at.step.output_artifacts().iter().enumerate() {
            let Some(object) = &artifact.s3 else { continue };
            let item = list.index(index);
            let path = item.field("s3");
            self.text(&object.bucket, &path.field("bucket"), false, found);
            self.text(&object.key, &path.field("key"), false, found);
        }
    }
}

fn secret(name: &str) -> Note {
    let help = "use it in env values of a container";
    Note::new(format!("the parameter {} is a secret and is not allowed here", shown(name)), Some(help.to_owned()))
}

fn seen_by_all(name: &str) -> Note {
    let message = format!(
        "the secret parameter {} is used in a command line, which other users of its machine can read",
        shown(name)
    );
    Note::new(message, Some("use it in env values, and name the variable in the command".to_owned()))
}

/// Whether a field of a template is part of a command line.
fn on_command_line(field: &str) -> bool {
    [".command[", ".args["].iter().any(|part| field.contains(part))
}

/// Whether a field of a template never holds a secret, whatever the driver does: images and metadata.
fn never_secret(field: &str) -> bool {
    field.ends_with(".image") || field.starts_with("metadata") || field.contains(".metadata.")
}

/// A field of a template as a field of the flow.
pub(super) fn inside(path: &Path<'_>, field: &str) -> FieldPath {
    let mut segments = path.to_owned().segments().to_vec();
    if let Ok(field) = field.parse::<FieldPath>() {
        segments.extend(field.segments().iter().cloned());
    }
    FieldPath::new(segments)
}
