//! The grammar of RFC 9535 by recursive descent, in one pass without going back over what it read. Brackets and function
//! calls in one another are bounded, and with them its recursion and that of evaluation.

use serde_json::Value;

use super::ast::{Comparable, Comparison, Filter, Function, Match, Operator, Query, Segment, Selector};
use super::cursor::Cursor;
use super::{PathError, TypeFault, shown};

/// The longest path, in bytes.
pub const PATH_MAX: usize = 4096;

/// The deepest nesting of brackets and parentheses.
pub const NESTING_MAX: usize = 32;

/// The deepest nesting of function calls.
pub const FUNCTIONS_MAX: usize = 4;

type Parsed<T> = Result<T, PathError>;

const OPERATORS: &str = "`==`, `!=`, `<`, `<=`, `>` or `>=`";

/// Reads a path from its `$` to the end of the text.
pub(super) fn parse(text: &str) -> Parsed<Vec<Segment>> {
    if text.len() > PATH_MAX {
        return Err(PathError::TooLong { len: text.len() });
    }
    let cursor = Cursor::new(text);
    let mut parser = Parser { cursor, depth: 0, functions: 0, padding: cursor };
    parser.need("$", "`$`")?;
    let segments = parser.segments()?;
    let end = parser.cursor;
    parser.cursor.blanks();
    match (end.peek(), parser.cursor.peek()) {
        (None, _) => Ok(segments),
        (Some(_), None) => Err(end.error("the end of the path without a blank before it")),
        (Some(_), Some(_)) => Err(parser.cursor.error("`.`, `..`, `[` or the end of the path")),
    }
}

/// What a filter is made of, before it is known whether it is compared.
enum Term {
    Literal(Value),
    Query(Query),
    /// With its name, as the next.
    Function(&'static str, Function),
    Match(&'static str, Match),
}

struct Parser<'t> {
    cursor: Cursor<'t>,
    /// Open brackets and parentheses.
    depth: usize,
    /// Open calls of functions.
    functions: usize,
    /// The last blank right inside brackets, which paths in comparisons must not have.
    padding: Cursor<'t>,
}

impl Parser<'_> {
    fn need(&mut self, token: &str, expected: &'static str) -> Parsed<()> {
        if self.cursor.eat(token) { Ok(()) } else { Err(self.cursor.error(expected)) }
    }

    /// Reads what stands between a bracket or parenthesis and its counterpart.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err(PathError::TooDeep);
        }
        let inner = read(self)?;
        self.depth -= 1;
        Ok(inner)
    }

    fn segments(&mut self) -> Parsed<Vec<Segment>> {
        let mut segments = Vec::new();
        loop {
            let before = self.cursor;
            self.cursor.blanks();
            let descends = self.cursor.eat("..");
            let dot = !descends && self.cursor.eat(".");
            let selectors = if !dot && self.cursor.eat("[") {
                self.nested(Self::selectors)?
            } else if dot || descends {
                vec![self.shorthand(descends)?]
            } else {
                self.cursor = before;
                return Ok(segments);
            };
            segments.push(Segment { descends, selectors });
        }
    }

    fn shorthand(&mut self, descends: bool) -> Parsed<Selector> {
        if self.cursor.eat("*") {
            return Ok(Selector::Wildcard);
        }
        match self.cursor.member() {
            "" if descends => Err(self.cursor.error("a name, `*` or `[` right behind `..`")),
            "" => Err(self.cursor.error("a name or `*` right behind `.`")),
            name => Ok(Selector::Name(name.to_owned())),
        }
    }

    fn selectors(&mut self) -> Parsed<Vec<Selector>> {
        let mut selectors = Vec::new();
        loop {
            self.padding();
            let selector = self.selector()?;
            let expected =
                if matches!(selector, Selector::Filter(_)) { "`&&`, `||`, `,` or `]`" } else { "`,` or `]`" };
            selectors.push(selector);
            self.padding();
            if self.cursor.eat("]") {
                return Ok(selectors);
            }
            self.need(",", expected)?;
        }
    }

    fn padding(&mut self) {
        let before = self.cursor;
        if self.cursor.blanks() {
            self.padding = before;
        }
    }

    fn selector(&mut self) -> Parsed<Selector> {
        if let Some(name) = self.cursor.string()? {
            return Ok(Selector::Name(name));
        }
        if self.cursor.eat("*") {
            return Ok(Selector::Wildcard);
        }
        if self.cursor.eat("?") {
            self.cursor.blanks();
            return Ok(Selector::Filter(self.any()?));
        }
        let start = self.cursor.integer()?;
        let behind = self.cursor;
        self.cursor.blanks();
        if !self.cursor.eat(":") {
            self.cursor = behind;
            let expected = "a name in quotes, an index, a slice, `*` or `?`";
            return start.map(Selector::Index).ok_or_else(|| behind.error(expected));
        }
        self.cursor.blanks();
        let end = self.cursor.integer()?;
        self.cursor.blanks();
        if !self.cursor.eat(":") {
            return Ok(Selector::Slice(start, end, None));
        }
        self.cursor.blanks();
        Ok(Selector::Slice(start, end, self.cursor.integer()?))
    }

    fn any(&mut self) -> Parsed<Filter> {
        self.joined("||", Self::all, Filter::Or)
    }

    fn all(&mut self) -> Parsed<Filter> {
        self.joined("&&", Self::condition, Filter::And)
    }

    fn joined(
        &mut self,
        operator: &str,
        part: fn(&mut Self) -> Parsed<Filter>,
        join: fn(Vec<Filter>) -> Filter,
    ) -> Parsed<Filter> {
        let mut parts = vec![part(self)?];
        while self.cursor.eat(operator) {
            self.cursor.blanks();
            parts.push(part(self)?);
        }
        Ok(<[Filter; 1]>::try_from(parts).map_or_else(join, |[one]| one))
    }

    /// A test or comparison, and the blanks behind it.
    fn condition(&mut self) -> Parsed<Filter> {
        let negated = self.cursor.eat("!");
        if negated {
            self.cursor.blanks();
        }
        let condition = if self.cursor.eat("(") {
            self.nested(|parser| {
                parser.cursor.blanks();
                let inner = parser.any()?;
                parser.need(")", "`&&`, `||` or `)`")?;
                Ok(inner)
            })?
        } else {
            self.test_or_comparison(negated)?
        };
        self.cursor.blanks();
        Ok(if negated { Filter::Not(Box::new(condition)) } else { condition })
    }

    fn test_or_comparison(&mut self, negated: bool) -> Parsed<Filter> {
        let start = self.cursor;
        let term = self.term("`@`, `$`, a literal, a function, `!` or `(`")?;
        self.cursor.blanks();
        if let Some(operator) = self.operator()? {
            if negated {
                return Err(start.error("parentheses around the comparison behind `!`"));
            }
            let left = self.side(term, &start)?;
            self.cursor.blanks();
            let start = self.cursor;
            let term = self.term("`@`, `$`, a literal or a function to compare with")?;
            let right = self.side(term, &start)?;
            return Ok(Filter::Comparison(Box::new(Comparison { left, operator, right })));
        }
        match term {
            Term::Query(query) => Ok(Filter::Exists(query)),
            Term::Match(_, test) => Ok(Filter::Match(Box::new(test))),
            Term::Function(name, _) => Err(start.fault(TypeFault::Uncompared(name))),
            Term::Literal(_) => Err(self.cursor.error(OPERATORS)),
        }
    }

    fn operator(&mut self) -> Parsed<Option<Operator>> {
        let operators = [
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            ("<", Operator::Less),
            (">=", Operator::GreaterOrEqual),
            (">", Operator::Greater),
        ];
        match operators.into_iter().find(|(token, _)| self.cursor.eat(token)) {
            Some((_, operator)) => Ok(Some(operator)),
            None if matches!(self.cursor.peek(), Some('=' | '!')) => Err(self.cursor.error(OPERATORS)),
            None => Ok(None),
        }
    }

    /// One side of a comparison, which began at a place.
    fn side(&self, term: Term, start: &Cursor<'_>) -> Parsed<Comparable> {
        let many = "a path to one value, such as `@.name` or `@[0]`, as a side of a comparison";
        let side = self.comparable(term, || start.error(many))?;
        if matches!(side, Comparable::Singular(_)) && self.padding.is_behind(start) {
            return Err(self.padding.error("no blank inside the brackets of a path that is compared"));
        }
        Ok(side)
    }

    fn comparable(&self, term: Term, many: impl FnOnce() -> PathError) -> Parsed<Comparable> {
        match term {
            Term::Literal(value) => Ok(Comparable::Literal(value)),
            Term::Query(query) => query.singular().map(Comparable::Singular).ok_or_else(many),
            Term::Function(_, function) => Ok(Comparable::Function(Box::new(function))),
            Term::Match(name, _) => Err(self.cursor.fault(TypeFault::NoValue(name))),
        }
    }

    fn term(&mut self, expected: &'static str) -> Parsed<Term> {
        if let Some(text) = self.cursor.string()? {
            return Ok(Term::Literal(text.into()));
        }
        match self.cursor.peek() {
            Some('$' | '@') => Ok(Term::Query(self.query()?)),
            Some('-' | '0'..='9') => Ok(Term::Literal(self.cursor.number()?.into())),
            Some('a'..='z') => self.word(expected),
            _ => Err(self.cursor.error(expected)),
        }
    }

    /// A path. The caller has seen `$` or `@` here.
    fn query(&mut self) -> Parsed<Query> {
        let absolute = !self.cursor.eat("@") && self.cursor.eat("$");
        Ok(Query { absolute, segments: self.segments()? })
    }

    fn word(&mut self, expected: &'static str) -> Parsed<Term> {
        let start = self.cursor;
        let word = self.cursor.word();
        if self.cursor.eat("(") {
            self.functions += 1;
            if self.functions > FUNCTIONS_MAX {
                return Err(PathError::TooDeep);
            }
            let call = self.nested(|parser| parser.call(word))?;
            self.functions -= 1;
            return Ok(call);
        }
        match word {
            "true" => Ok(Term::Literal(Value::Bool(true))),
            "false" => Ok(Term::Literal(Value::Bool(false))),
            "null" => Ok(Term::Literal(Value::Null)),
            _ => Err(start.error(expected)),
        }
    }

    fn call(&mut self, name: &str) -> Parsed<Term> {
        self.cursor.blanks();
        let call = match name {
            "length" => Term::Function("length", Function::Length(self.value("length")?)),
            "count" => Term::Function("count", Function::Count(self.nodes("count")?)),
            "value" => Term::Function("value", Function::Value(self.nodes("value")?)),
            "match" => Term::Match("match", self.pattern(true, "match")?),
            "search" => Term::Match("search", self.pattern(false, "search")?),
            unknown => return Err(self.cursor.fault(TypeFault::Function(shown(unknown)))),
        };
        self.cursor.blanks();
        self.need(")", "`)`")?;
        Ok(call)
    }

    fn pattern(&mut self, whole: bool, name: &'static str) -> Parsed<Match> {
        let text = self.value(name)?;
        self.cursor.blanks();
        self.need(",", "`,` and a pattern")?;
        self.cursor.blanks();
        Ok(Match { whole, text, pattern: self.value(name)? })
    }

    /// An argument of a function that takes one value.
    fn value(&mut self, of: &'static str) -> Parsed<Comparable> {
        let start = self.cursor;
        let fault = || start.fault(TypeFault::ValueArgument(of));
        if matches!(start.peek(), Some('(' | ')' | '!')) {
            return Err(fault());
        }
        let term = self.term("`@`, `$`, a literal or a function")?;
        self.comparable(term, fault)
    }

    /// An argument of a function that takes all nodes of a path.
    fn nodes(&mut self, of: &'static str) -> Parsed<Query> {
        match self.cursor.peek() {
            Some('$' | '@') => self.query(),
            _ => Err(self.cursor.fault(TypeFault::NodesArgument(of))),
        }
    }
}
