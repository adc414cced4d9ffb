//! The parser of expressions: operators by precedence over a list of open frames. It keeps what is open on the heap
//! and does not recurse, so that no input exhausts the stack. What a node is made of is checked in `build`.

use super::MAX_LEVELS;
use super::build::{self, Bracket, BracketKind, Chain, Choice, Level, Node, Sign};
use super::call;
use super::error::{SourceError, Span};
use super::expression::Expression;
use super::lexer::{Lexer, Token, What};
use super::reference::References;
use super::scope::Scope;
use super::types::{Arithmetic, Type};

/// What is open around the operand that is read next.
#[derive(Debug)]
enum Frame<'s> {
    /// `!` or `-`, and whether their number is odd; an even number changes nothing.
    Signs {
        sign: Sign,
        is_odd: bool,
        start: Span,
    },
    Chain(Chain),
    Choice(Choice),
    Bracket(Bracket<'s>),
}

/// What an operand led to.
enum After {
    /// Another operand must come.
    Open,
    /// A larger operand, after which more can come.
    Operand(Node),
    /// The whole expression.
    End(Node),
}

/// Parser state: one token ahead.
#[derive(Debug)]
pub(super) struct Parser<'s> {
    pub(super) lexer: Lexer<'s>,
    pub(super) token: Token<'s>,
    pub(super) references: References,
    frames: Vec<Frame<'s>>,
    brackets: usize,
}

/// Parses and checks a whole expression.
pub(super) fn parse(source: &str, scope: &Scope<'_>) -> Result<(Expression, References), SourceError> {
    let mut lexer = Lexer::new(source, scope);
    let token = lexer.next()?;
    let mut parser = Parser { lexer, token, references: References::default(), frames: Vec::new(), brackets: 0 };
    let node = parser.whole()?;
    if node.ty != Type::Bool {
        let message = format!("a condition is true or false, this is {}", node.ty.a());
        return Err(SourceError::new(node.span, message).with_help_if(build::comparison(source, &node)));
    }
    Ok((node.expression, parser.references))
}

impl<'s> Parser<'s> {
    /// Goes to the next token and returns the one left behind.
    pub(super) fn advance(&mut self) -> Result<Token<'s>, SourceError> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    fn whole(&mut self) -> Result<Node, SourceError> {
        loop {
            let Some(mut node) = self.start()? else { continue };
            loop {
                node = match self.after(node)? {
                    After::Open => break,
                    After::Operand(larger) => larger,
                    After::End(whole) => return Ok(whole),
                };
            }
        }
    }

    /// Reads a sign or an opening bracket, or a whole operand.
    fn start(&mut self) -> Result<Option<Node>, SourceError> {
        let span = self.token.span;
        match self.token.what {
            What::Not => self.sign(Sign::Not),
            What::Arithmetic(Arithmetic::Subtract) => self.sign(Sign::Minus),
            What::Open => self.open(BracketKind::Parentheses, span, Vec::new()),
            What::OpenList => self.open(BracketKind::List, span, Vec::new()),
            What::Int(magnitude) => self.int(magnitude).map(Some),
            What::Word(word) if !build::is_value_word(word) && self.lexer.skip_blanks() == Some('(') => {
                call::check_name(word, span)?;
                self.advance()?;
                self.open(BracketKind::Call { word, name: span }, span, Vec::new())
            }
            _ => self.leaf().map(Some),
        }
    }

    fn sign(&mut self, sign: Sign) -> Result<Option<Node>, SourceError> {
        match self.frames.last_mut() {
            Some(Frame::Signs { sign: before, is_odd, .. }) if *before == sign => *is_odd = !*is_odd,
            Some(Frame::Signs { .. }) => {
                let message = "! and - cannot be combined";
                return Err(
                    SourceError::new(self.token.span, message).with_help("! is for true and false, - for numbers")
                );
            }
            _ => self.frames.push(Frame::Signs { sign, is_odd: true, start: self.token.span }),
        }
        self.advance()?;
        Ok(None)
    }

    /// An int literal, which takes its sign with it so that the smallest int can be written.
    fn int(&mut self, magnitude: u64) -> Result<Node, SourceError> {
        let mut span = self.token.span;
        let mut value = i64::try_from(magnitude).ok();
        if let Some(Frame::Signs { sign: Sign::Minus, is_odd, start }) = self.frames.last() {
            if *is_odd {
                value = 0_i64.checked_sub_unsigned(magnitude);
            }
            span = start.to(span);
            self.frames.pop();
        }
        let Some(value) = value else {
            return Err(SourceError::new(span, "not an int of 64 bits").with_help("ints end at 9223372036854775807"));
        };
        self.advance()?;
        Ok(Node::leaf(Expression::Int(value), Type::Int, span))
    }

    /// Opens a bracket, whose sign is the current token, with what it holds already; closes one that stays empty.
    fn open(&mut self, kind: BracketKind<'s>, start: Span, items: Vec<Node>) -> Result<Option<Node>, SourceError> {
        let open = self.advance()?.span;
        if self.brackets + 1 >= MAX_LEVELS {
            return Err(build::too_deep(open));
        }
        let bracket = Bracket { kind, start, open, items };
        if bracket.may_be_empty() && self.token.what == bracket.closing() {
            return self.close(bracket).map(Some);
        }
        self.brackets += 1;
        self.frames.push(Frame::Bracket(bracket));
        Ok(None)
    }

    /// Goes over the closing sign and makes the node.
    fn close(&mut self, bracket: Bracket<'s>) -> Result<Node, SourceError> {
        let close = self.advance()?.span;
        build::bracket(bracket, close)
    }

    /// What follows an operand.
    fn after(&mut self, node: Node) -> Result<After, SourceError> {
        match self.token.what {
            What::Dot => {
                let (word, name) = self.method_name(&node)?;
                call::check_name(word, name)?;
                let start = node.span;
                let call = self.open(BracketKind::Method { word, name }, start, vec![node])?;
                return Ok(call.map_or(After::Open, After::Operand));
            }
            What::OpenList => {
                let start = node.span;
                return Ok(self.open(BracketKind::Index, start, vec![node])?.map_or(After::Open, After::Operand));
            }
            _ => {}
        }
        let node = self.signed(node)?;
        if let Some(level) = Level::of(&self.token.what) {
            return self.operator(node, level).map(|()| After::Open);
        }
        let node = self.reduced(node, None)?;
        match self.token.what {
            What::Question => self.question(node).map(|()| After::Open),
            What::Colon => self.colon(node).map(|()| After::Open),
            _ => self.item(node),
        }
    }

    /// Applies the signs before an operand.
    fn signed(&mut self, node: Node) -> Result<Node, SourceError> {
        match self.frames.pop_if(|frame| matches!(frame, Frame::Signs { .. })) {
            Some(Frame::Signs { sign, is_odd, start }) => build::signed(self.lexer.source, sign, is_odd, start, node),
            _ => Ok(node),
        }
    }

    /// Ends the chains around an operand: those that bind tighter than `level`, or all.
    fn reduced(&mut self, mut node: Node, level: Option<Level>) -> Result<Node, SourceError> {
        let is_tighter = |frame: &mut Frame<'s>| matches!(frame, Frame::Chain(chain) if level.is_none_or(|level| chain.level > level));
        while let Some(Frame::Chain(mut chain)) = self.frames.pop_if(is_tighter) {
            chain.operands.push(node);
            node = build::chain(self.lexer.source, chain)?;
        }
        Ok(node)
    }

    /// Adds an operand and the operator after it to the open chain of its precedence, or opens one.
    fn operator(&mut self, node: Node, level: Level) -> Result<(), SourceError> {
        let node = self.reduced(node, Some(level))?;
        match self.frames.last_mut() {
            Some(Frame::Chain(chain)) if chain.level == level => {
                if level == Level::Compare {
                    let help = "comparisons do not chain: write a < b && b < c";
                    return Err(self.unexpected("`&&` between comparisons").with_help(help));
                }
                chain.operands.push(node);
                chain.operators.push(self.token.what.operator());
            }
            _ => {
                let operators = vec![self.token.what.operator()];
                self.frames.push(Frame::Chain(Chain { level, operands: vec![node], operators }));
            }
        }
        self.advance().map(drop)
    }

    fn question(&mut self, node: Node) -> Result<(), SourceError> {
        build::demand_bool(self.lexer.source, &node, "?")?;
        match self.frames.last_mut() {
            Some(Frame::Choice(choice)) if choice.condition.is_some() => {
                return Err(self.unexpected("`:`").with_help("put the inner alternative in parentheses"));
            }
            Some(Frame::Choice(choice)) => choice.condition = Some(node),
            _ => self.frames.push(Frame::Choice(Choice { arms: Vec::new(), condition: Some(node) })),
        }
        self.advance().map(drop)
    }

    fn colon(&mut self, node: Node) -> Result<(), SourceError> {
        match self.frames.last_mut() {
            Some(Frame::Choice(choice)) => match choice.condition.take() {
                Some(condition) => choice.arms.push((condition, node)),
                None => return Err(self.unexpected("an operator or the end").with_help("a second : needs a second ?")),
            },
            _ => {
                return Err(self
                    .unexpected("an operator or the end")
                    .with_help("alternatives are CONDITION ? VALUE : VALUE"));
            }
        }
        self.advance().map(drop)
    }

    /// Ends an item of a bracket, or the whole.
    fn item(&mut self, node: Node) -> Result<After, SourceError> {
        let node = match self.frames.pop_if(|frame| matches!(frame, Frame::Choice(_))) {
            Some(Frame::Choice(Choice { condition: Some(_), .. })) => return Err(self.unexpected("`:`")),
            Some(Frame::Choice(choice)) => build::choice(choice, node)?,
            _ => node,
        };
        let Some(Frame::Bracket(mut bracket)) = self.frames.pop() else {
            return match self.token.what {
                What::End => Ok(After::End(node)),
                _ => Err(self.unexpected("an operator or the end")),
            };
        };
        bracket.items.push(node);
        if self.token.what == bracket.closing() {
            self.brackets -= 1;
            return self.close(bracket).map(After::Operand);
        }
        if self.token.what == What::Comma && bracket.takes_more() {
            self.advance()?;
            self.frames.push(Frame::Bracket(bracket));
            return Ok(After::Open);
        }
        let closing = bracket.closing_name();
        Err(match self.token.what {
            What::End => {
                let open = if closing == "`)`" { "`(`" } else { "`[`" };
                SourceError::new(bracket.open, format!("{open} is never closed"))
                    .with_help(format!("close it with {closing}"))
            }
            _ => self.unexpected(&format!("an operator or {closing}")),
        })
    }

    /// The error of a token that cannot stand here.
    pub(super) fn unexpected(&self, wanted: &str) -> SourceError {
        let span = self.token.span;
        let found = self.lexer.source.get(span.start()..span.end()).unwrap_or_default();
        match &self.token.what {
            What::End => SourceError::new(span, format!("the condition ends where {wanted} is needed")),
            What::Text(_) => SourceError::new(span, format!("expected {wanted}, found a string")),
            What::Word(word) => {
                let help = match *word {
                    "and" | "AND" => Some("write && for \"and\""),
                    "or" | "OR" => Some("write || for \"or\""),
                    "eq" => Some("write == to compare"),
                    _ => None,
                };
                let message = format!("expected {wanted}, found `{}`", super::shortened(word));
                SourceError::new(span, message).with_help_if(help.map(ToOwned::to_owned))
            }
            _ => SourceError::new(span, format!("expected {wanted}, found `{}`", super::shortened(found))),
        }
    }
}
