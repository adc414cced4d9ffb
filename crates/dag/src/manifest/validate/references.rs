//! What steps read of other steps: `when`, `depends`, `withParam` and input paths name steps and outputs that exist,
//! in their own languages.

use crate::code::Code;
use crate::depends;
use crate::manifest::path::Path;
use crate::manifest::schema::nearest;
use crate::manifest::violation::{Note, Violations, shown};
use crate::params::{ItemsError, ItemsSource, JsonPathRef, NO_STEP_WARNING};
use crate::plan::input_secrecy;
use crate::when::{self, Condition, Parameters, Scope, Secrecy, SourceError};

use super::context::{At, Context};

pub(super) fn check(context: &Context<'_>, at: At<'_>, found: &mut Violations) {
    if let Some(text) = &at.step.when {
        let inputs: Parameters<'_> = at.step.input_parameters().iter().map(input).collect();
        let mut scope = Scope::new(context.visible(at.finally)).flow_parameters(&context.parameters).inputs(&inputs);
        if at.step.is_fan_out() {
            scope = scope.in_fan_out();
        }
        if at.finally {
            scope = scope.in_finally();
        }
        if let Err(error) = when::compile(text, &scope).and_then(Condition::decidable) {
            found.error(Code::Condition, &at.path.field("when"), || source_note(&error));
        }
    }
    if let Some(text) = &at.step.depends
        && let Err(error) = depends::compile(text, context.siblings(at.finally))
    {
        found.error(Code::Depends, &at.path.field("depends"), || source_note(&error));
    }
    if let Some(text) = &at.step.with_param {
        items(context, at, text, found);
    }
}

/// Name and secrecy of an input parameter.
fn input(parameter: &orlop_core::spec::step::InputParameter) -> (&str, Secrecy) {
    (parameter.name.as_str(), input_secrecy(parameter))
}

fn source_note(error: &SourceError) -> Note {
    Note::new(error.message(), error.help().map(str::to_owned)).within(error.range())
}

fn items(context: &Context<'_>, at: At<'_>, text: &str, found: &mut Violations) {
    let path = at.path.field("withParam");
    match ItemsSource::parse(text) {
        Ok(ItemsSource::Path(reference)) => document(context, at, (&reference, &path), found),
        // Whether the parameter exists and may stand here is a question of placeholders.
        Ok(ItemsSource::Parameter(_)) => {}
        Err(error @ ItemsError::NoStep(_)) => found.error(Code::Reference, &path, || Note::of(&error)),
        Err(error) => found.error(Code::Path, &path, || Note::of(&error)),
    }
}

/// A path into the document of another step.
pub(super) fn document(
    context: &Context<'_>,
    at: At<'_>,
    (reference, path): (&JsonPathRef, &Path<'_>),
    found: &mut Violations,
) {
    let Some(step) = &reference.step else {
        return found.warning(Code::Path, path, || Note::of(&NO_STEP_WARNING));
    };
    let name = step.as_str();
    let steps = context.visible(at.finally);
    if !steps.contains(name) {
        return found.error(Code::Reference, path, || {
            if context.step(name).is_some() {
                let message = format!("the step {} is in `finally`, which runs after this one", shown(name));
                return Note::new(message, Some("read a step of `steps`".to_owned()));
            }
            context.no_step(name)
        });
    }
    let Some((output, rest)) = output_name(reference.path.as_str()) else { return };
    if !context.gives_parameter(name, output) {
        found.error(Code::Reference, path, || {
            let guess = nearest(output, steps.outputs(name).iter().copied());
            let help = match guess {
                Some(guess) if guess.contains(['-', '.']) => format!("did you mean `{name}:$.outputs['{guess}']`?"),
                Some(guess) => format!("did you mean `{name}:$.outputs.{guess}`?"),
                None => format!("declare it under outputs.parameters of {}", shown(name)),
            };
            Note::new(format!("the step {} has no output parameter {}", shown(name), shown(output)), Some(help))
        });
    } else if !rest.trim().is_empty() && context.step(name).is_some_and(|(step, _)| !step.is_fan_out()) {
        found.error(Code::Path, path, || {
            let message =
                format!("the output {} of the step {} is text, which has no members", shown(output), shown(name));
            let help = format!(
                "read it whole, or give the part its own output in {}, such as `jsonPath: $.termination.json.NAME`",
                shown(name)
            );
            Note::new(message, Some(help))
        });
    }
}

/// The output a path names: `$.outputs.<name>` or `$.outputs['<name>']`, and the segments behind it. A path that selects outputs
/// in another way names none.
fn output_name(path: &str) -> Option<(&str, &str)> {
    let (first, rest) = member(path.strip_prefix('$')?)?;
    if first != "outputs" {
        return None;
    }
    member(rest)
}

/// The member that a path segment names, and the segments after it.
fn member(path: &str) -> Option<(&str, &str)> {
    let path = path.trim_start();
    if let Some(name) = path.strip_prefix('.') {
        let end = name.find(|c: char| c.is_ascii() && !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(name.len());
        let (name, rest) = name.split_at(end);
        return (!name.is_empty()).then_some((name, rest));
    }
    let inside = path.strip_prefix('[')?.trim_start();
    let quote = inside.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let (name, rest) = inside.get(1..)?.split_once(quote)?;
    let rest = rest.trim_start().strip_prefix(']')?;
    (!name.contains('\\')).then_some((name, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_found_in_either_notation() {
        for (path, name) in [
            ("$.outputs.digest", Some("digest")),
            ("$.outputs['a-b']", Some("a-b")),
            ("$[\"outputs\"][ 'a.b' ].c", Some("a.b")),
            ("$.outputs.a.b[0]", Some("a")),
            ("$.outputs", None),
            ("$.outputs.*", None),
            ("$.outputs['a','b']", None),
            ("$.outputs[0]", None),
            ("$.outputs['a\\'b']", None),
            ("$..outputs.a", None),
            ("$.status.outputs.a", None),
            ("$.phase", None),
            ("$", None),
        ] {
            assert_eq!(output_name(path).map(|(name, _)| name), name, "{path}");
        }
    }
}
