//! Parameters of flows and steps: names, values and sources, and the cells of their rows.

use std::collections::BTreeMap;

use orlop_core::spec::flow::FlowParameter;
use orlop_core::spec::step::{InputParameter, OutputParameter};

use super::context::{At, Context};
use super::references;
use crate::code::Code;
use crate::manifest::path::Path;
use crate::manifest::schema::nearest;
use crate::manifest::violation::{Note, Violations, shown};
use crate::params::{InputSource, NameFault, SourceFault, check_name, flow_source, input_source, output_source};

pub(super) fn check_flow(context: &Context<'_>, spec: &Path<'_>, found: &mut Violations) {
    let list = spec.field("parameters");
    names(context.flow.spec.parameters.iter().map(|parameter| parameter.name.as_str()), &list, found);
    for (index, parameter) in context.flow.spec.parameters.iter().enumerate() {
        flow_parameter(parameter, &list.index(index), found);
    }
}

pub(super) fn check_step(context: &Context<'_>, at: At<'_>, found: &mut Violations) {
    let inputs = at.path.field("inputs");
    let list = inputs.field("parameters");
    let given = at.step.input_parameters();
    names(given.iter().map(|parameter| parameter.name.as_str()), &list, found);
    for (index, parameter) in given.iter().enumerate() {
        input(context, at, parameter, &list.index(index), found);
    }
    let outputs = at.path.field("outputs");
    let list = outputs.field("parameters");
    let given = at.step.output_parameters();
    names(given.iter().map(|parameter| parameter.name.as_str()), &list, found);
    for (index, parameter) in given.iter().enumerate() {
        output(parameter, &list.index(index), found);
    }
}

fn names<'n>(names: impl Iterator<Item = &'n str>, list: &Path<'_>, found: &mut Violations) {
    let mut seen = BTreeMap::new();
    for (index, name) in names.enumerate() {
        let item = list.index(index);
        let path = item.field("name");
        if let Err(fault) = check_name(name) {
            found.error(Code::Parameter, &path, || proposal(name, &fault).unwrap_or_else(|| Note::of(&fault)));
        }
        unique(&mut seen, name, index, &path, found);
    }
}

/// The fault with a name that would do.
fn proposal(name: &str, fault: &NameFault) -> Option<Note> {
    if !matches!(fault, NameFault::Character { .. } | NameFault::Edge { .. }) {
        return None;
    }
    let kept: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    let kept = kept.trim_matches(['-', '.']);
    check_name(kept).ok()?;
    let text = fault.to_string();
    let (message, help) = text.rsplit_once("; ")?;
    Some(Note::new(message, Some(format!("{help}, such as {}", shown(kept)))))
}

pub(super) fn unique<'n>(
    seen: &mut BTreeMap<&'n str, usize>,
    name: &'n str,
    index: usize,
    path: &Path<'_>,
    found: &mut Violations,
) {
    if let Some(first) = seen.get(name) {
        found.error(Code::Duplicate, path, || {
            (format!("the name {} is that of item {first} of the list already", shown(name)), "rename one of them")
        });
    } else {
        seen.insert(name, index);
    }
}

fn flow_parameter(parameter: &FlowParameter, path: &Path<'_>, found: &mut Violations) {
    if let Err(fault) = flow_source(parameter) {
        source_fault(&fault, path, found);
    }
    let Some(choices) = &parameter.choices else { return };
    if choices.is_empty() {
        found.error(Code::Value, &path.field("enum"), || {
            ("`enum` allows no value", "list the values it may have, or remove it")
        });
    } else if let Some(value) = parameter.value.as_ref().filter(|value| !choices.contains(value)) {
        found.error(Code::Value, &path.field("value"), || {
            let help = nearest(value, choices.iter().map(String::as_str)).map_or_else(
                || {
                    format!(
                        "use one of {}",
                        choices.iter().take(10).map(|choice| shown(choice)).collect::<Vec<_>>().join(", ")
                    )
                },
                |guess| format!("did you mean {}?", shown(guess)),
            );
            (format!("the value {} is not among those of `enum`", shown(value)), help)
        });
    }
}

fn input(context: &Context<'_>, at: At<'_>, parameter: &InputParameter, path: &Path<'_>, found: &mut Violations) {
    match input_source(parameter) {
        Ok(InputSource::Path(reference)) => {
            let path = path.field("valueFrom");
            references::document(context, at, (&reference, &path.field("jsonPath")), found);
        }
        Ok(InputSource::Flow(fact)) if fact.is_final() && !at.finally => {
            let path = path.field("valueFrom");
            found.error(Code::Source, &path.field("flow"), || {
                (
                    "it is known only when all steps are settled",
                    "read it in a step of `finally`; elsewhere there are name and url",
                )
            });
        }
        Ok(_) => {}
        Err(fault) => source_fault(&fault, path, found),
    }
}

fn output(parameter: &OutputParameter, path: &Path<'_>, found: &mut Violations) {
    if let Err(fault) = output_source(parameter) {
        source_fault(&fault, path, found);
    }
}

/// Sources of parameters and references, told apart by where the fault is.
fn source_fault(fault: &SourceFault, path: &Path<'_>, found: &mut Violations) {
    let from = path.field("valueFrom");
    match fault {
        SourceFault::EmptyRef { member } => found.error(Code::Value, &from.field(member), || Note::of(fault)),
        SourceFault::Path(error) => found.error(Code::Path, &from.field("jsonPath"), || Note::of(error)),
        SourceFault::ForeignStep(_) => found.error(Code::Path, &from.field("jsonPath"), || Note::of(fault)),
        SourceFault::Sources { .. } => found.error(Code::Source, &from, || Note::of(fault)),
        SourceFault::None | SourceFault::Both => found.error(Code::Source, path, || Note::of(fault)),
    }
}
