//! What stands between braces: the three notations of a parameter placeholder and the plain references of
//! templates. Recognises them by form only; names are resolved by `names`. Anything else in `{{ }}` is a template.

use super::error::{SourceError, Span};
use super::names;
use super::reference::Reference;
use super::scope::Scope;

/// One recognised placeholder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placeholder<'s> {
    what: What<'s>,
    name_at: usize,
    pub(crate) span: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What<'s> {
    Parameter(&'s str),
    Path(&'s str),
}

impl Placeholder<'_> {
    /// The value it stands for.
    pub(crate) fn resolve(&self, scope: &Scope<'_>) -> Result<Reference, SourceError> {
        match self.what {
            What::Parameter(name) => names::parameter(name, Span::new(self.name_at, self.name_at + name.len()), scope),
            What::Path(path) => names::path(path, self.name_at, scope),
        }
    }

    /// Whether it is one of the three parameter notations.
    pub(crate) fn is_parameter(&self) -> bool {
        matches!(self.what, What::Parameter(_))
    }
}

/// The placeholder that starts at `at`: `{{.parameters.x}}`, `{{parameters.x}}`, `${parameters.x}`, exactly so, or
/// `{{.JobFlow.Name}}`, `{{.StepStatus.a.Phase}}`, which may have blanks inside the braces.
pub(crate) fn at(source: &str, at: usize) -> Option<Placeholder<'_>> {
    let rest = source.get(at..)?;
    for (open, close) in [("{{.parameters.", "}}"), ("{{parameters.", "}}"), ("${parameters.", "}")] {
        let Some(tail) = rest.strip_prefix(open) else { continue };
        let name_at = at + open.len();
        let name = names::run(source, name_at);
        if !name.is_empty() && tail.get(name.len()..).is_some_and(|after| after.starts_with(close)) {
            let span = Span::new(at, name_at + name.len() + close.len());
            return Some(Placeholder { what: What::Parameter(name), name_at, span });
        }
    }
    let inside = rest.strip_prefix("{{")?;
    let name_at = at + 2 + (inside.len() - inside.trim_start().len());
    let path = names::run(source, name_at);
    if !path.starts_with(".JobFlow.") && !path.starts_with(".StepStatus.") {
        return None;
    }
    let after = source.get(name_at + path.len()..)?;
    let closing = after.trim_start();
    let end = source.len() - closing.len() + 2;
    closing.starts_with("}}").then_some(Placeholder { what: What::Path(path), name_at, span: Span::new(at, end) })
}

/// Whether the text is a template: some action in it is more than a placeholder or a plain reference.
pub(crate) fn is_template(source: &str) -> Result<bool, SourceError> {
    let mut from = 0;
    while let Some(open) = source.get(from..).unwrap_or_default().find("{{").map(|found| from + found) {
        match at(source, open) {
            Some(placeholder) => from = placeholder.span.end(),
            None if source.get(open..).unwrap_or_default().contains("}}") => return Ok(true),
            None => {
                return Err(
                    SourceError::new(Span::new(open, open + 2), "`{{` is never closed").with_help("close it with `}}`")
                );
            }
        }
    }
    Ok(false)
}
