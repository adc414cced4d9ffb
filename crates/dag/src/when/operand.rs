//! The smallest operands of expressions: literals, placeholders and words. Operators and brackets are in `parser`,
//! references in `mention`.

use super::build::Node;
use super::error::{SourceError, Span};
use super::expression::Expression;
use super::lexer::{Piece, What};
use super::names;
use super::parser::Parser;
use super::reference::Reference;
use super::suggest::did_you_mean;
use super::types::{Function, Type};

/// The words that start an operand besides functions.
const WORDS: [&str; 5] = ["steps", "parameters", "flow", "true", "false"];

impl<'s> Parser<'s> {
    /// An operand without signs, brackets or calls.
    pub(super) fn leaf(&mut self) -> Result<Node, SourceError> {
        let span = self.token.span;
        match self.token.what {
            What::Word(word @ ("true" | "false")) => {
                self.advance()?;
                Ok(Node::leaf(Expression::Bool(word == "true"), Type::Bool, span))
            }
            What::Word("steps") => self.step(span),
            What::Word("parameters") => self.parameter(span),
            What::Word("flow") => self.flow(span),
            What::Word(_) => Err(self.unknown_word(span)),
            What::Double(value) => {
                self.advance()?;
                Ok(Node::leaf(Expression::Double(value), Type::Double, span))
            }
            What::Text(_) | What::Placeholder(_) => self.text(),
            _ => Err(self.unexpected("a value")),
        }
    }

    /// A string literal or a placeholder.
    fn text(&mut self) -> Result<Node, SourceError> {
        let token = self.advance()?;
        match token.what {
            What::Placeholder(reference) => Ok(self.read(reference, token.span)),
            What::Text(mut pieces) => {
                for piece in &pieces {
                    if let Piece::Read(reference, _) = piece {
                        self.references.add(reference);
                    }
                }
                let literal = match pieces.as_mut_slice() {
                    [] => Expression::Text("".into()),
                    [Piece::Text(text)] => Expression::Text(std::mem::take(text).into_boxed_str()),
                    _ => Expression::Join(pieces),
                };
                Ok(Node::leaf(literal, Type::String, token.span))
            }
            _ => Err(self.unexpected("a value")),
        }
    }

    pub(super) fn read(&mut self, reference: Reference, span: Span) -> Node {
        self.references.add(&reference);
        let ty = reference.ty();
        Node::leaf(Expression::Read(reference, span), ty, span)
    }

    /// Reads `.name`, which a call must follow.
    pub(super) fn method_name(&mut self, receiver: &Node) -> Result<(&'s str, Span), SourceError> {
        self.advance()?;
        let span = self.token.span;
        let What::Word(word) = self.token.what else {
            return Err(self.unexpected("a function name"));
        };
        self.advance()?;
        if self.token.what == What::Open {
            return Ok((word, span));
        }
        let message = format!("{} has no field `{}`", receiver.ty.a(), names::shortened(word));
        let methods = ["size", "contains", "startsWith", "endsWith", "matches"];
        let fallback = || "only functions can follow, as in .size()".to_owned();
        Err(SourceError::new(span, message).with_help(did_you_mean(word, methods).unwrap_or_else(fallback)))
    }

    fn unknown_word(&self, span: Span) -> SourceError {
        let run = names::run(self.lexer.source, span.start()).trim_end_matches('.');
        let scope = self.lexer.scope;
        let whole = Span::new(span.start(), span.start() + run.len());
        let word = self.lexer.source.get(span.start()..span.end()).unwrap_or_default();
        let help = if scope.steps.contains(run) {
            format!("write steps.{run}.phase for the step's phase")
        } else if scope.parameter(run).is_some() || matches!(word, "item" | "index") {
            format!("write parameters.{run}")
        } else if matches!(word, "always" | "never") {
            format!("`{word}` must be used alone, without operators")
        } else if word == "null" {
            "write has(…) to ask whether a value exists".to_owned()
        } else {
            did_you_mean(word, WORDS.into_iter().chain(["always", "never"]).chain(Function::NAMES))
                .unwrap_or_else(|| "put text in quotes; values are steps.…, parameters.… and flow.…".to_owned())
        };
        SourceError::new(whole, format!("unknown word `{}`", names::shortened(run))).with_help(help)
    }
}
