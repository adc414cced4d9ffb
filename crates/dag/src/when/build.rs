//! The nodes of expressions: what their parts may be and which type they have. Every node is refused here if its
//! types do not fit or if it lies over too many levels. Reads no tokens.

use super::MAX_LEVELS;
use super::call;
use super::error::{SourceError, Span};
use super::expression::Expression;
use super::lexer::What;
use super::types::{Arithmetic, Comparison, Style, Type};

/// A checked node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) expression: Expression,
    pub(super) ty: Type,
    pub(super) span: Span,
    /// Height of the tree under this node.
    levels: usize,
}

impl Node {
    /// A node without others under it.
    pub(super) fn leaf(expression: Expression, ty: Type, span: Span) -> Self {
        Self { expression, ty, span, levels: 1 }
    }

    /// A node over others of at most `below` levels, refused where that is too deep.
    pub(super) fn over(expression: Expression, ty: Type, span: Span, below: usize) -> Result<Self, SourceError> {
        if below >= MAX_LEVELS {
            return Err(too_deep(span));
        }
        Ok(Self { expression, ty, span, levels: below + 1 })
    }
}

/// The height of the tallest node.
pub(super) fn tallest(nodes: &[Node]) -> usize {
    nodes.iter().map(|node| node.levels).max().unwrap_or(0)
}

pub(super) fn too_deep(span: Span) -> SourceError {
    SourceError::new(span, format!("nested more than {MAX_LEVELS} levels deep"))
        .with_help("split the condition over several steps, or write chains instead of parentheses")
}

/// Precedence, loosest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Or,
    And,
    Compare,
    Add,
    Multiply,
}

impl Level {
    /// The precedence of an operator, `None` for other tokens.
    pub(super) fn of(what: &What<'_>) -> Option<Self> {
        Some(match what {
            What::Or => Self::Or,
            What::And => Self::And,
            What::Comparison(_) => Self::Compare,
            What::Arithmetic(Arithmetic::Add | Arithmetic::Subtract) => Self::Add,
            What::Arithmetic(_) => Self::Multiply,
            _ => return None,
        })
    }
}

/// An operator between two operands of a chain.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operator {
    Logic,
    Comparison(Comparison),
    Arithmetic(Arithmetic),
}

impl What<'_> {
    pub(super) fn operator(&self) -> Operator {
        match self {
            Self::Comparison(comparison) => Operator::Comparison(*comparison),
            Self::Arithmetic(arithmetic) => Operator::Arithmetic(*arithmetic),
            _ => Operator::Logic,
        }
    }
}

/// Operands with operators of one precedence between them.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) level: Level,
    pub(super) operands: Vec<Node>,
    pub(super) operators: Vec<Operator>,
}

/// `condition ? value : …`, with the condition whose value is being read.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) arms: Vec<(Node, Node)>,
    pub(super) condition: Option<Node>,
}

/// The sign before an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Not,
    Minus,
}

/// An open bracket with the items so far; a method call and an index hold the value before them as first item.
#[derive(Debug)]
pub(super) struct Bracket<'s> {
    pub(super) kind: BracketKind<'s>,
    /// Where the node begins.
    pub(super) start: Span,
    pub(super) open: Span,
    pub(super) items: Vec<Node>,
}

/// What a bracket is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum BracketKind<'s> {
    Parentheses,
    List,
    Index,
    Call { word: &'s str, name: Span },
    Method { word: &'s str, name: Span },
}

impl Bracket<'_> {
    pub(super) fn closing(&self) -> What<'static> {
        match self.kind {
            BracketKind::List | BracketKind::Index => What::CloseList,
            _ => What::Close,
        }
    }

    pub(super) fn closing_name(&self) -> &'static str {
        if self.closing() == What::Close { "`)`" } else { "`]`" }
    }

    pub(super) fn may_be_empty(&self) -> bool {
        matches!(self.kind, BracketKind::List | BracketKind::Call { .. } | BracketKind::Method { .. })
    }

    /// Whether a comma and another item can follow.
    pub(super) fn takes_more(&self) -> bool {
        self.may_be_empty()
    }
}

/// Whether a word is a value or begins one, so that no call can start with it.
pub(super) fn is_value_word(word: &str) -> bool {
    matches!(word, "steps" | "parameters" | "flow" | "true" | "false")
}

/// The node of a closed bracket.
pub(super) fn bracket(bracket: Bracket<'_>, close: Span) -> Result<Node, SourceError> {
    let span = bracket.start.to(close);
    match bracket.kind {
        BracketKind::List => list(bracket.items, span),
        BracketKind::Index => index(bracket.items, span),
        BracketKind::Call { word, name } => call::call(word, name, Style::Global, bracket.items, span),
        BracketKind::Method { word, name } => call::call(word, name, Style::Method, bracket.items, span),
        BracketKind::Parentheses => {
            let below = tallest(&bracket.items);
            match bracket.items.into_iter().next() {
                Some(inner) => Node::over(inner.expression, inner.ty, span, below),
                None => Err(SourceError::new(span, "a value is missing in parentheses")),
            }
        }
    }
}

fn list(items: Vec<Node>, span: Span) -> Result<Node, SourceError> {
    let below = tallest(&items);
    let mut ty = Type::Any;
    for item in &items {
        ty = ty.unify(&item.ty).ok_or_else(|| {
            let message = format!("list elements differ: {} and {}", ty.a(), item.ty.a());
            SourceError::new(item.span, message).with_help("all elements of a list need one type")
        })?;
    }
    let elements = items.into_iter().map(|item| item.expression).collect();
    Node::over(Expression::List(elements), Type::List(Box::new(ty)), span, below)
}

fn index(items: Vec<Node>, span: Span) -> Result<Node, SourceError> {
    let below = tallest(&items);
    let mut items = items.into_iter();
    let (Some(list), Some(index)) = (items.next(), items.next()) else {
        return Err(SourceError::new(span, "an index is missing"));
    };
    let Type::List(element) = list.ty else {
        return Err(SourceError::new(list.span, format!("[ ] needs a list, this is {}", list.ty.a())));
    };
    if index.ty != Type::Int {
        return Err(SourceError::new(index.span, format!("an index is an int, this is {}", index.ty.a())));
    }
    if *element == Type::Any {
        return Err(SourceError::new(span, "an empty list has no elements"));
    }
    Node::over(Expression::Index(Box::new([list.expression, index.expression]), span), *element, span, below)
}

/// The node of an operand with signs before it.
pub(super) fn signed(source: &str, sign: Sign, is_odd: bool, start: Span, node: Node) -> Result<Node, SourceError> {
    if sign == Sign::Not {
        demand_bool(source, &node, "!")?;
    } else if !matches!(node.ty, Type::Int | Type::Double) {
        let message = format!("- takes a number, this is {}", node.ty.a());
        let help = conversion(source, &node.ty, node.span, &Type::Int);
        return Err(SourceError::new(node.span, message).with_help_if(help));
    }
    let span = start.to(node.span);
    if !is_odd {
        return Ok(Node { span, ..node });
    }
    let inner = Box::new(node.expression);
    let expression = if sign == Sign::Not { Expression::Not(inner) } else { Expression::Negate(inner, span) };
    Node::over(expression, node.ty, span, node.levels)
}

/// The node of a whole chain.
pub(super) fn chain(source: &str, chain: Chain) -> Result<Node, SourceError> {
    let below = tallest(&chain.operands);
    match chain.level {
        Level::Or => logic(source, chain.operands, "||", below),
        Level::And => logic(source, chain.operands, "&&", below),
        Level::Compare | Level::Add | Level::Multiply => {
            let mut operands = chain.operands.into_iter();
            let Some(first) = operands.next() else {
                return Err(SourceError::new(Span::new(0, 0), "a value is missing"));
            };
            pairs(source, first, operands.zip(chain.operators), below)
        }
    }
}

fn logic(source: &str, operands: Vec<Node>, sign: &str, below: usize) -> Result<Node, SourceError> {
    for operand in &operands {
        demand_bool(source, operand, sign)?;
    }
    let ends = operands.first().zip(operands.last());
    let span = ends.map_or(Span::new(0, 0), |(first, last)| first.span.to(last.span));
    let operands = operands.into_iter().map(|operand| operand.expression).collect();
    let expression = if sign == "||" { Expression::Any(operands) } else { Expression::All(operands) };
    Node::over(expression, Type::Bool, span, below)
}

fn pairs(
    source: &str,
    first: Node,
    rest: impl Iterator<Item = (Node, Operator)>,
    below: usize,
) -> Result<Node, SourceError> {
    let Node { expression: first, mut ty, mut span, .. } = first;
    let mut terms = Vec::new();
    for (right, operator) in rest {
        match operator {
            Operator::Comparison(operator) => {
                if !operator.takes(&ty, &right.ty) {
                    return Err(mismatch(source, operator.symbol(), &ty, span, &right));
                }
                let operands = Box::new([first, right.expression]);
                return Node::over(Expression::Compare(operator, operands), Type::Bool, span.to(right.span), below);
            }
            Operator::Arithmetic(operator) => {
                let Some(result) = operator.result(&ty, &right.ty) else {
                    return Err(mismatch(source, operator.symbol(), &ty, span, &right));
                };
                (ty, span) = (result, span.to(right.span));
                terms.push((operator, right.expression, span));
            }
            Operator::Logic => {}
        }
    }
    Node::over(Expression::Arithmetic(Box::new(first), terms), ty, span, below)
}

/// The node of alternatives and the last value.
pub(super) fn choice(choice: Choice, last: Node) -> Result<Node, SourceError> {
    let mut ty = Type::Any;
    let mut below = last.levels;
    for (condition, value) in &choice.arms {
        ty = alternative(&ty, value)?;
        below = below.max(condition.levels).max(value.levels);
    }
    let ty = alternative(&ty, &last)?;
    let span = choice.arms.first().map_or(last.span, |(condition, _)| condition.span.to(last.span));
    let arms = choice.arms.into_iter().map(|(condition, value)| (condition.expression, value.expression)).collect();
    Node::over(Expression::Choose(arms, Box::new(last.expression)), ty, span, below)
}

/// The common type of the alternatives so far and one more.
fn alternative(so_far: &Type, node: &Node) -> Result<Type, SourceError> {
    so_far.unify(&node.ty).ok_or_else(|| {
        let message = format!("alternatives differ: {} and {}", so_far.a(), node.ty.a());
        SourceError::new(node.span, message).with_help("both sides of : need one type")
    })
}

pub(super) fn demand_bool(source: &str, node: &Node, sign: &str) -> Result<(), SourceError> {
    if node.ty == Type::Bool {
        return Ok(());
    }
    let message = format!("{sign} takes true or false, this is {}", node.ty.a());
    Err(SourceError::new(node.span, message).with_help_if(comparison(source, node)))
}

/// How to make a bool out of a node.
pub(super) fn comparison(source: &str, node: &Node) -> Option<String> {
    if matches!(node.expression, Expression::Text(_) | Expression::Int(_) | Expression::Double(_)) {
        return None;
    }
    let shown = shown(source, node.span, "VALUE");
    match node.ty {
        Type::String => Some(format!("compare it, as in {shown} == 'true'")),
        Type::Int => Some(format!("compare it, as in {shown} > 0")),
        Type::Double => Some(format!("compare it, as in {shown} > 0.0")),
        _ => None,
    }
}

/// The error of an operator whose operands do not fit.
fn mismatch(source: &str, sign: &str, left: &Type, left_span: Span, right: &Node) -> SourceError {
    let message = format!("{sign} does not take {} and {}", left.a(), right.ty.a());
    let help = match (left, &right.ty) {
        (_, Type::List(element)) if sign == "in" => conversion(source, left, left_span, element),
        (_, Type::String) if sign == "in" => {
            Some(format!("write {}.contains({})", shown(source, right.span, "TEXT"), shown(source, left_span, "PART")))
        }
        _ if sign == "in" => Some("write VALUE in [VALUE, VALUE]".to_owned()),
        _ => conversion(source, left, left_span, &right.ty).or_else(|| conversion(source, &right.ty, right.span, left)),
    };
    SourceError::new(left_span.to(right.span), message).with_help_if(help)
}

/// How to make a value of type `wanted` out of one of type `ty`, if a function does.
fn conversion(source: &str, ty: &Type, span: Span, wanted: &Type) -> Option<String> {
    let function = match (ty, wanted) {
        (Type::String, Type::Int) => "int",
        (Type::String | Type::Int, Type::Double) => "double",
        (Type::String, Type::Bool) => "bool",
        _ => return None,
    };
    Some(format!("convert it: {function}({})", shown(source, span, "VALUE")))
}

/// A part of the source for a help text, or `fallback` where it is long.
fn shown(source: &str, span: Span, fallback: &str) -> String {
    let text = source.get(span.start()..span.end()).unwrap_or_default();
    if text.len() <= 50 && !text.contains('\n') { text.to_owned() } else { fallback.to_owned() }
}
