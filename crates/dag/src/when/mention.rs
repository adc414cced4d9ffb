//! The mention of a value: `steps.…`, `parameters.…` and `flow.…`. Read from the source itself, not from tokens,
//! because names may hold `-` and `.`; whether a name is declared is decided in `names`.

use super::build::Node;
use super::error::{SourceError, Span};
use super::lexer::Piece;
use super::names;
use super::parser::Parser;
use super::reference::{FlowField, Reference, StepField};
use super::suggest::did_you_mean;

impl<'s> Parser<'s> {
    /// Ends a reference that was read past the current token.
    fn reference(&mut self, reference: Reference, start: Span) -> Result<Node, SourceError> {
        let span = Span::new(start.start(), self.lexer.at);
        self.advance()?;
        Ok(self.read(reference, span))
    }

    pub(super) fn step(&mut self, start: Span) -> Result<Node, SourceError> {
        let scope = self.lexer.scope;
        let step: Box<str> = match self.lexer.skip_blanks() {
            Some('.') => {
                self.skip_sign();
                let name = names::step_in_text(self.lexer.source, self.lexer.at, scope.steps)?;
                self.lexer.at += name.len();
                name.into()
            }
            Some('[') => {
                let (name, span) = self.bracketed()?;
                if !scope.steps.contains(&name) {
                    return Err(names::unknown_step(&name, span, scope.steps));
                }
                name.into()
            }
            _ => return Err(self.incomplete(start, "`steps` is not a value", "write steps.NAME.phase")),
        };
        if self.lexer.skip_blanks() != Some('.') {
            let message = format!("step `{}` is not a value", names::shortened(&step));
            return Err(self.incomplete(
                start,
                &message,
                "name a field: .phase, .reason, .retryCount or .outputs.NAME",
            ));
        }
        self.skip_sign();
        let (field, at) = self.field();
        let field = match field {
            "phase" => StepField::Phase,
            "reason" => StepField::Reason,
            "retryCount" => StepField::RetryCount,
            "outputs" => StepField::Output(self.output(&step, start)?),
            other => {
                let help = did_you_mean(other, ["phase", "reason", "retryCount", "outputs"])
                    .unwrap_or_else(|| "the fields are phase, reason, retryCount and outputs.NAME".to_owned());
                return Err(
                    SourceError::new(at, format!("unknown step field `{}`", names::shortened(other))).with_help(help)
                );
            }
        };
        self.reference(Reference::Step { step, field }, start)
    }

    fn output(&mut self, step: &str, start: Span) -> Result<Box<str>, SourceError> {
        let steps = self.lexer.scope.steps;
        match self.lexer.skip_blanks() {
            Some('.') => {
                self.skip_sign();
                let (name, end) = names::output_in_text(self.lexer.source, self.lexer.at, step, steps)?;
                self.lexer.at = end;
                Ok(name.into())
            }
            Some('[') => {
                let (name, span) = self.bracketed()?;
                if !steps.has_output(step, &name) {
                    return Err(names::unknown_output(&name, span, step, steps));
                }
                Ok(name.into())
            }
            _ => Err(self.incomplete(start, "`outputs` is not a value", "write .outputs.NAME or .outputs[\"NAME\"]")),
        }
    }

    pub(super) fn parameter(&mut self, start: Span) -> Result<Node, SourceError> {
        let scope = self.lexer.scope;
        let reference = match self.lexer.skip_blanks() {
            Some('.') => {
                self.skip_sign();
                let (reference, end) = names::parameter_in_text(self.lexer.source, self.lexer.at, scope)?;
                self.lexer.at = end;
                reference
            }
            Some('[') => {
                let (name, span) = self.bracketed()?;
                names::parameter(&name, span, scope)?
            }
            _ => return Err(self.incomplete(start, "`parameters` is not a value", "write parameters.NAME")),
        };
        self.reference(reference, start)
    }

    pub(super) fn flow(&mut self, start: Span) -> Result<Node, SourceError> {
        let fields = "write flow.name, flow.namespace, flow.uid or, in finally, flow.outcome";
        if self.lexer.skip_blanks() != Some('.') {
            return Err(self.incomplete(start, "`flow` is not a value", fields));
        }
        self.skip_sign();
        let (word, at) = self.field();
        let field = match word {
            "name" => FlowField::Name,
            "namespace" => FlowField::Namespace,
            "uid" => FlowField::Uid,
            "outcome" if self.lexer.scope.finally => FlowField::Outcome,
            "outcome" => {
                return Err(SourceError::new(at, "`flow.outcome` exists only in finally")
                    .with_help("move the step to spec.finally, or ask for the phases of its dependencies"));
            }
            other => {
                let help =
                    did_you_mean(other, ["name", "namespace", "uid", "outcome"]).unwrap_or_else(|| fields.to_owned());
                return Err(
                    SourceError::new(at, format!("unknown flow field `{}`", names::shortened(other))).with_help(help)
                );
            }
        };
        self.reference(Reference::Flow(field), start)
    }

    /// Goes over a dot or bracket and the blanks after it.
    fn skip_sign(&mut self) {
        self.lexer.at += 1;
        self.lexer.skip_blanks();
    }

    /// The word at the lexer's place, which it goes over.
    fn field(&mut self) -> (&'s str, Span) {
        let at = self.lexer.at;
        let run = names::run(self.lexer.source, at);
        let end = run.find(['.', '-']).unwrap_or(run.len());
        self.lexer.at += end;
        (run.get(..end).unwrap_or_default(), Span::new(at, at + end))
    }

    /// `["name"]` at the lexer's place, which it goes over.
    fn bracketed(&mut self) -> Result<(String, Span), SourceError> {
        self.skip_sign();
        let at = self.lexer.at;
        let pieces = match self.lexer.skip_blanks() {
            Some(quote @ ('"' | '\'')) => self.lexer.text(quote)?,
            _ => Vec::new(),
        };
        let span = Span::new(at, self.lexer.at.max(at + 1).min(self.lexer.source.len()));
        match pieces.as_slice() {
            [Piece::Text(name)] if self.lexer.skip_blanks() == Some(']') => {
                self.lexer.at += 1;
                Ok((name.clone(), span))
            }
            _ => Err(SourceError::new(span, "a name in brackets is one quoted text").with_help("write [\"NAME\"]")),
        }
    }

    fn incomplete(&self, start: Span, message: &str, help: &str) -> SourceError {
        let read = self.lexer.source.get(start.start()..self.lexer.at).unwrap_or_default().trim_end();
        SourceError::new(Span::new(start.start(), start.start() + read.len()), message).with_help(help)
    }
}
