//! Containers of step templates: names and images, resources, the command that artifacts need, and values in
//! programs of shells.

use orlop_core::quantity::Quantity;
use serde_json::Value;

use super::context::{At, Context};
use super::template::{member, quantity};
use crate::code::Code;
use crate::manifest::path::Path;
use crate::manifest::violation::{Note, Violations, shown};
use crate::params::{INDEX, names_in_text};

pub(super) fn check(context: &Context<'_>, at: At<'_>, pod: &Value, path: &Path<'_>, found: &mut Violations) {
    let list = path.field("containers");
    let containers = member(pod, "containers").and_then(Value::as_array);
    if containers.is_some_and(Vec::is_empty) {
        found.error(Code::Container, &list, || ("the pod has no container", "list at least one, with name and image"));
    }
    for field in ["containers", "initContainers"] {
        let list = path.field(field);
        for (index, container) in member(pod, field).and_then(Value::as_array).into_iter().flatten().enumerate() {
            check_container(context, container, &list.index(index), found);
        }
    }
    check_resources(pod, &path.field("resources"), found);
    command(at, containers.and_then(|list| list.first()), &list.index(0), found);
}

/// Image and name of one container, and its command.
fn check_container(context: &Context<'_>, container: &Value, path: &Path<'_>, found: &mut Violations) {
    // A missing name is reported by the walk over the field table.
    if container.get("name").and_then(Value::as_str) == Some("") {
        found.error(Code::Container, &path.field("name"), || {
            ("the container's name is empty", "name it, such as `main`")
        });
    }
    let image = member(container, "image");
    let empty = image.is_some_and(|image| image.as_str() == Some(""));
    if container.is_object() && (empty || (image.is_none() && !context.limits.image_optional)) {
        found.error(Code::Container, &path.field("image"), || {
            ("the container has no image", "name one, such as busybox:1.36")
        });
    }
    check_resources(container, &path.field("resources"), found);
    check_variables(container, &path.field("env"), found);
    check_shell(container, path, found);
}

/// Names that no environment can hold.
fn check_variables(container: &Value, list: &Path<'_>, found: &mut Violations) {
    for (index, variable) in member(container, "env").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let Some(name) = variable.get("name").and_then(Value::as_str) else { continue };
        if name.is_empty() || name.contains(['=', '\0']) {
            found.error(Code::Container, &list.index(index).field("name"), || {
                (format!("{} is not a valid variable name", shown(name)), "use a name without `=`, such as LEVEL")
            });
        }
    }
}

/// Programs that run the text behind an option with `c` in it.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "ksh", "zsh"];

/// Whether a program says `$$` for the process id of its shell: two dollars and no reference to a variable behind them.
fn has_process_id(program: &str) -> bool {
    let mut rest = program;
    while let Some(at) = rest.find('$') {
        let run = rest.get(at..).unwrap_or_default();
        let after = run.trim_start_matches('$');
        if run.len() - after.len() == 2 && !after.starts_with('(') {
            return true;
        }
        rest = after;
    }
    false
}

/// Warns of values that become part of a shell's program: who gives the value decides what is run. A value in the environment
/// is no more than a text.
fn check_shell(container: &Value, path: &Path<'_>, found: &mut Violations) {
    let mut words = ["command", "args"].into_iter().flat_map(|field| {
        let list = member(container, field).and_then(Value::as_array).into_iter().flatten();
        list.enumerate().map(move |(index, word)| (field, index, word.as_str().unwrap_or_default()))
    });
    let shell = words.next().map(|(_, _, word)| word.rsplit('/').next().unwrap_or(word)).unwrap_or_default();
    if !SHELLS.contains(&shell) {
        return;
    }
    let option = words.find(|(_, _, word)| word.starts_with('-') && !word.starts_with("--") && word.contains('c'));
    let (Some(_), Some((field, index, program))) = (option, words.next()) else { return };
    if has_process_id(program) {
        found.warning(Code::Shell, &path.field(field).index(index), || {
            (
                format!("`$$` is one `$` before `{shell}` sees it, on every target: Kubernetes reads it so"),
                "write `$$$$` for the process id of the shell",
            )
        });
    }
    // The number of an instance is made here, and never a text.
    if let Some(name) = names_in_text(program).into_iter().find(|name| *name != INDEX) {
        found.warning(Code::Shell, &path.field(field).index(index), || {
            (
                format!("the value of parameter {} becomes part of the program that `{shell}` runs", shown(name)),
                format!(
                    "pass it by `env`, as {{name: VALUE, value: \"${{parameters.{name}}}\"}}, and write \"$VALUE\""
                ),
            )
        });
    }
}

/// Amounts above 0, limits not below requests. Texts that are no amounts are reported by the walk.
fn check_resources(owner: &Value, path: &Path<'_>, found: &mut Violations) {
    let Some(resources) = member(owner, "resources") else { return };
    let of = |field: &str| member(resources, field).and_then(Value::as_object);
    for field in ["requests", "limits"] {
        let list = path.field(field);
        for (name, value) in of(field).into_iter().flatten() {
            if let Some(Ok(amount)) =
                quantity(value).filter(|amount| amount.as_ref().is_ok_and(|amount| *amount <= Quantity::ZERO))
            {
                found.error(Code::Amount, &list.field(name), || {
                    (format!("an amount of {amount} is not above 0"), "remove it, or ask for something")
                });
            }
        }
    }
    let list = path.field("limits");
    for (name, limit) in of("limits").into_iter().flatten() {
        let request = of("requests").and_then(|requests| requests.get(name));
        if let (Some(Ok(limit)), Some(Some(Ok(request)))) = (quantity(limit), request.map(quantity))
            && limit < request
        {
            found.error(Code::Amount, &list.field(name), || {
                (
                    format!("the limit {limit} of {} is below its request {request}", shown(name)),
                    "raise the limit or lower the request",
                )
            });
        }
    }
}

fn command(at: At<'_>, container: Option<&Value>, path: &Path<'_>, found: &mut Violations) {
    let step = at.step;
    let artifacts = !step.input_artifacts().is_empty() || !step.output_artifacts().is_empty();
    let files = step.output_parameters().iter().filter(|parameter| parameter.value_from.path.is_some()).count();
    if !artifacts && files < 2 {
        return;
    }
    let Some(container) = container else { return };
    let command = member(container, "command").and_then(Value::as_array);
    if command.is_none_or(Vec::is_empty) {
        found.error(Code::Command, &path.field("command"), || {
            let why = if artifacts { "artifacts" } else { "several output files" };
            let message = format!("a step with {why} must say its command: the helper that moves them runs it");
            (message, "write `command`; the image's entry point is not known before it is pulled")
        });
    }
}

/// Commands of a Job template whose placeholders are filled in: what [`validate`](super::validate) had to leave open.
/// Paths begin at the template.
pub fn validate_resources(template: &Value) -> Violations {
    let mut found = Violations::new();
    let Some(pod) = super::template::pod(template) else { return found };
    let spec = Path::ROOT.field("spec");
    let template_path = spec.field("template");
    let path = template_path.field("spec");
    amounts(pod, &path.field("resources"), &mut found);
    for field in ["containers", "initContainers"] {
        let list = path.field(field);
        for (index, container) in member(pod, field).and_then(Value::as_array).into_iter().flatten().enumerate() {
            amounts(container, &list.index(index).field("resources"), &mut found);
        }
    }
    found
}

fn amounts(owner: &Value, path: &Path<'_>, found: &mut Violations) {
    for field in ["requests", "limits"] {
        let list = path.field(field);
        let given =
            member(owner, "resources").and_then(|resources| member(resources, field)).and_then(Value::as_object);
        for (name, value) in given.into_iter().flatten() {
            if let Some(Err(error)) = value.as_str().map(str::parse::<Quantity>) {
                found.error(Code::Amount, &list.field(name), || Note::of(&error));
            }
        }
    }
    check_resources(owner, path, found);
}
