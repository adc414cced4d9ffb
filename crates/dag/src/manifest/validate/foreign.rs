//! Placeholders of other products, which stay as they are here: a warning where a text holds one, because who brings
//! a workflow along means it to be filled. Owns what they look like; changes no text.

use super::context::{At, Context};
use super::placeholders::inside;
use crate::code::Code;
use crate::manifest::violation::{Note, Violations, shown};
use crate::params::{scan, texts_with};

/// What stands before the first dot of placeholders of other products.
const ROOTS: &[&str] = &[
    "context",
    "flow",
    "inputs",
    "item",
    "matrix",
    "outputs",
    "parameters",
    "params",
    "pod",
    "resources",
    "results",
    "steps",
    "tasks",
    "workflow",
    "workspaces",
];
/// The same where a dot comes first. Other names are those of templates that the program itself fills.
const DOTTED_ROOTS: &[&str] = &["JobFlow", "StepStatus", "parameters"];
/// Characters of a placeholder that are looked at.
const LONGEST: usize = 200;

/// A placeholder of another product.
struct Foreign<'t> {
    text: &'t str,
    root: &'t str,
}

pub(super) fn check(context: &Context<'_>, at: At<'_>, found: &mut Violations) {
    let kind = (context.limits.lenient(), Code::Placeholder);
    if let Some(template) = at.step.template.as_ref().filter(|_| !at.step.is_manual()) {
        let path = at.path.field("template");
        for (field, text) in texts_with(template, &['{', '$']) {
            for foreign in foreign(text) {
                found.add_at(kind, || inside(&path, &field), || foreign.note());
            }
        }
    }
    for foreign in at.step.message.iter().flat_map(|text| foreign(text)) {
        found.add(kind, &at.path.field("message"), || foreign.note());
    }
}

impl Foreign<'_> {
    fn note(&self) -> Note {
        let help = match self.root {
            "item" => "an item is `{{parameters.item}}`, a field of it `{{parameters.item.NAME}}`",
            "parameters" => "write it without blanks: `{{parameters.NAME}}`",
            "flow" | "JobFlow" => "give it to the step as an input with `valueFrom.flow`",
            "inputs" | "params" | "workflow" | "matrix" => {
                "a parameter is `{{parameters.NAME}}`, declared by the flow or as an input of the step"
            }
            _ => "what another step gave is an input with `valueFrom.jsonPath: STEP:$.outputs.NAME`",
        };
        Note::new(
            format!("{} is not a placeholder here; the text is kept as it is", shown(self.text)),
            Some(help.to_owned()),
        )
    }
}

/// Placeholders of other products in a text, from left to right.
fn foreign(text: &str) -> Vec<Foreign<'_>> {
    let mut own = scan(text).into_iter().map(|own| own.range).peekable();
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text.get(from..).and_then(|rest| Some(from + rest.find(['{', '$'])?)) {
        from = start + 1;
        if let Some(own) = own.next_if(|own| own.start == start) {
            from = own.end;
        } else if let Some(foreign) = text.get(start..).and_then(at_start) {
            from = start + foreign.text.len();
            found.push(foreign);
        }
    }
    found
}

/// The placeholder that a text begins with.
fn at_start(text: &str) -> Option<Foreign<'_>> {
    let forms = [("${{", "}}"), ("{{", "}}"), ("$(", ")"), ("${", "}")];
    let (open, close) = forms.into_iter().find(|(open, _)| text.starts_with(open))?;
    let inner = text.get(open.len()..)?;
    let limit = inner.char_indices().nth(LONGEST).map_or(inner.len(), |(at, _)| at);
    let end = inner.get(..limit)?.find(close)?;
    let name = inner.get(..end)?.trim_start_matches(['=', '-', ' ']);
    let (roots, name) = match name.strip_prefix('.').filter(|_| open == "{{") {
        Some(name) => (DOTTED_ROOTS, name),
        None => (ROOTS, name),
    };
    let root = name.get(..name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len()))?;
    let after = name.get(root.len()..)?.trim_end();
    let is_one = match open {
        "${{" => !root.is_empty(),
        "{{" => roots.contains(&root) && (after.starts_with('.') || (after.is_empty() && root == "item")),
        // `$(item.sh)` runs a program.
        _ => roots.contains(&root) && !matches!(root, "item" | "flow" | "pod") && after.starts_with(['.', '[']),
    };
    let text = text.get(..open.len() + end + close.len())?;
    is_one.then_some(Foreign { text, root })
}

#[cfg(test)]
mod tests {
    use super::foreign;

    #[test]
    fn placeholders_of_other_products_are_found_and_nothing_else() {
        for text in [
            "{{inputs.parameters.x}}",
            "{{workflow.name}}",
            "{{ workflow.parameters.x }}",
            "{{item}}",
            "{{ item.name }}",
            "{{=inputs.parameters.x + 1}}",
            "{{.JobFlow.Name}}",
            "{{flow.outcome}}",
            "{{ parameters.x }}",
            "$(params.x)",
            "$(params['x'])",
            "$(tasks.a.results.b)",
            "${{ matrix.x }}",
            "${{ github.sha }}",
            "${params.x}",
        ] {
            let found: Vec<_> = foreign(text).iter().map(|foreign| foreign.text.to_owned()).collect();
            assert_eq!(found, [text]);
            assert_eq!(foreign(&format!("a {text} ${{parameters.y}} {text}")).len(), 2, "{text}");
        }
        for text in [
            "{{parameters.x}} ${parameters.item} {{.parameters.x}}",
            "docker ps --format '{{.Names}} {{range .Mounts}}{{.Source}}{{end}}'",
            "$(date) $(basename $x .gz) ${HOME} ${x%.gz} ${array[0]} $((1 + 2)) $(item.sh)x {{ x }} {{ items }}",
            "awk '{print $1}' {{ { $ ${ $( {{item",
        ] {
            let found: Vec<_> = foreign(text).iter().map(|foreign| foreign.text.to_owned()).collect();
            assert_eq!(found, [""; 0], "{text}");
        }
    }
}
