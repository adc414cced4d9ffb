//! The nodes of calls: which function, whether it takes these operands, and the pattern of `matches` where it is
//! constant. Reads no tokens.

use super::build::{Node, tallest};
use super::error::{SourceError, Span};
use super::expression::Expression;
use super::suggest::did_you_mean;
use super::types::{Function, Style, Type};
use super::{names, pattern};

/// Refuses unknown functions before their operands are read.
pub(super) fn check_name(word: &str, name: Span) -> Result<(), SourceError> {
    if Function::NAMES.contains(&word) { Ok(()) } else { Err(unknown_function(word, name)) }
}

/// The node of a call; for a method, the value before the dot comes first.
pub(super) fn call(word: &str, name: Span, style: Style, operands: Vec<Node>, span: Span) -> Result<Node, SourceError> {
    if word == "has" && style == Style::Global {
        return has(operands, span);
    }
    let Some(function) = Function::named(word) else {
        return Err(unknown_function(word, name));
    };
    let types: Vec<&Type> = operands.iter().map(|node| &node.ty).collect();
    let Some(ty) = function.result(style, &types) else {
        let given = types.iter().map(ToString::to_string).collect::<Vec<_>>();
        let called = match (style, given.split_first()) {
            (Style::Method, Some((first, rest))) => format!("{first}.{word}({})", rest.join(", ")),
            _ => format!("{word}({})", given.join(", ")),
        };
        let message = format!("no function {called}");
        return Err(SourceError::new(span, message).with_help(format!("write {}", function.usage())));
    };
    let below = tallest(&operands);
    let pattern = operands.get(1).map_or(span, |node| node.span);
    let operands = operands.into_iter().map(|node| node.expression).collect();
    Node::over(call_expression(function, operands, span, pattern)?, ty, span, below)
}

fn has(operands: Vec<Node>, span: Span) -> Result<Node, SourceError> {
    let below = tallest(&operands);
    let argument = operands.first().map_or(span, |node| node.span);
    let mut operands = operands.into_iter().map(|node| node.expression);
    match (operands.next(), operands.next()) {
        (Some(Expression::Read(reference, _)), None) => Node::over(Expression::Has(reference), Type::Bool, span, below),
        _ => Err(SourceError::new(argument, "has takes a reference")
            .with_help("write has(steps.NAME.outputs.NAME) or has(parameters.NAME)")),
    }
}

fn call_expression(
    function: Function,
    mut operands: Vec<Expression>,
    span: Span,
    pattern_span: Span,
) -> Result<Expression, SourceError> {
    if function != Function::Matches {
        return Ok(Expression::Call(function, operands, span));
    }
    let constant = match operands.as_slice() {
        [_, Expression::Text(text)] => Some(text.clone()),
        _ => None,
    };
    let Some(constant) = constant else { return Ok(Expression::Call(function, operands, span)) };
    let regex = pattern::compile(&constant).map_err(|message| SourceError::new(pattern_span, message))?;
    operands.truncate(1);
    match operands.pop() {
        Some(text) => Ok(Expression::MatchesConstant(Box::new(text), regex, span)),
        None => Ok(Expression::Call(function, operands, span)),
    }
}

fn unknown_function(word: &str, span: Span) -> SourceError {
    let help = match word {
        "all" | "exists" | "exists_one" | "filter" | "map" => "macros are not part of conditions".to_owned(),
        "lowerAscii" | "upperAscii" | "toLower" | "lower" => "compare with matches and (?i) to ignore case".to_owned(),
        other => did_you_mean(other, Function::NAMES)
            .unwrap_or_else(|| format!("the functions are {}", Function::NAMES.join(", "))),
    };
    SourceError::new(span, format!("unknown function `{}`", names::shortened(word))).with_help(help)
}
