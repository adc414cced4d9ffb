//! Paths in random notation, and the law that parsing what a tree prints gives that tree.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::Number;

use super::super::ast::{
    Comparable, Comparison, Filter, Function, Match, Operator, Query, Segment, Selector, Singular, Step,
};
use super::super::{PATH_MAX, Value, parser};

/// How a tree is written where RFC 9535 leaves a choice.
#[derive(Debug, Clone)]
struct Notation {
    blank: &'static str,
    quote: char,
    /// Names without quotes where they need none.
    short: bool,
}

impl Notation {
    fn text(&self, text: &str) -> String {
        let mut out = String::from(self.quote);
        for ch in text.chars() {
            match ch {
                '\\' => out.push_str("\\\\"),
                ch if ch == self.quote => out.extend(['\\', ch]),
                ch if ch < ' ' || (!self.short && !ch.is_ascii()) => {
                    let units =
                        ch.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
                    out.push_str(&units);
                }
                ch => out.push(ch),
            }
        }
        out.push(self.quote);
        out
    }

    fn is_short(&self, name: &str) -> bool {
        let fits = |ch: char| ch.is_ascii_alphanumeric() || ch == '_' || !ch.is_ascii();
        self.short && name.chars().all(fits) && name.starts_with(|ch: char| !ch.is_ascii_digit())
    }

    fn segments(&self, segments: &[Segment]) -> String {
        segments.iter().map(|segment| self.segment(segment)).collect()
    }

    fn segment(&self, segment: &Segment) -> String {
        let (blank, dots) = (self.blank, if segment.descends { ".." } else { "" });
        let dot = if segment.descends { ".." } else { "." };
        match segment.selectors.as_slice() {
            [Selector::Name(name)] if self.is_short(name) => format!("{blank}{dot}{name}"),
            [Selector::Wildcard] if self.short => format!("{blank}{dot}*"),
            selectors => {
                let inner: Vec<String> = selectors.iter().map(|selector| self.selector(selector)).collect();
                format!("{blank}{dots}[{blank}{}{blank}]", inner.join(&format!("{blank},{blank}")))
            }
        }
    }

    fn selector(&self, selector: &Selector) -> String {
        let blank = self.blank;
        let bound = |bound: &Option<i64>| bound.map(|bound| bound.to_string()).unwrap_or_default();
        match selector {
            Selector::Name(name) => self.text(name),
            Selector::Wildcard => "*".to_owned(),
            Selector::Index(index) => index.to_string(),
            Selector::Slice(start, end, None) if self.short => format!("{}{blank}:{blank}{}", bound(start), bound(end)),
            Selector::Slice(start, end, step) => {
                format!("{}{blank}:{blank}{}{blank}:{blank}{}", bound(start), bound(end), bound(step))
            }
            Selector::Filter(filter) => format!("?{blank}{}", self.filter(filter)),
        }
    }

    fn filter(&self, filter: &Filter) -> String {
        let blank = self.blank;
        let joined = |parts: &[Filter], operator| {
            let parts: Vec<String> = parts.iter().map(|part| self.part(part, operator)).collect();
            parts.join(&format!("{blank}{operator}{blank}"))
        };
        match filter {
            Filter::Or(parts) => joined(parts, "||"),
            Filter::And(parts) => joined(parts, "&&"),
            Filter::Not(inner) => match &**inner {
                Filter::Exists(_) | Filter::Match(_) if self.short => format!("!{blank}{}", self.filter(inner)),
                inner => format!("!{blank}({blank}{}{blank})", self.filter(inner)),
            },
            Filter::Exists(query) => self.query(query),
            Filter::Match(test) => {
                let name = if test.whole { "match" } else { "search" };
                let (text, pattern) = (self.comparable(&test.text), self.comparable(&test.pattern));
                format!("{name}({blank}{text}{blank},{blank}{pattern}{blank})")
            }
            Filter::Comparison(comparison) => {
                let operator = match comparison.operator {
                    Operator::Equal => "==",
                    Operator::NotEqual => "!=",
                    Operator::Less => "<",
                    Operator::LessOrEqual => "<=",
                    Operator::Greater => ">",
                    Operator::GreaterOrEqual => ">=",
                };
                let (left, right) = (self.comparable(&comparison.left), self.comparable(&comparison.right));
                format!("{left}{blank}{operator}{blank}{right}")
            }
        }
    }

    /// A part of what an operator joins, in parentheses unless it binds more tightly.
    fn part(&self, part: &Filter, operator: &str) -> String {
        match part {
            Filter::And(_) if operator == "||" && self.short => self.filter(part),
            Filter::And(_) | Filter::Or(_) => format!("({}{})", self.blank, self.filter(part)),
            part if self.short => self.filter(part),
            part => format!("(({}{}))", self.filter(part), self.blank),
        }
    }

    fn query(&self, query: &Query) -> String {
        format!("{}{}", if query.absolute { "$" } else { "@" }, self.segments(&query.segments))
    }

    fn comparable(&self, comparable: &Comparable) -> String {
        let blank = self.blank;
        match comparable {
            Comparable::Literal(Value::String(text)) => self.text(text),
            Comparable::Literal(literal) => literal.to_string(),
            Comparable::Singular(path) => {
                let steps = path.steps.iter().map(|step| match step {
                    Step::Name(name) if self.is_short(name) => format!("{blank}.{name}"),
                    Step::Name(name) => format!("{blank}[{}]", self.text(name)),
                    Step::Index(index) => format!("{blank}[{index}]"),
                });
                format!("{}{}", if path.absolute { "$" } else { "@" }, steps.collect::<String>())
            }
            Comparable::Function(function) => match &**function {
                Function::Length(argument) => format!("length({blank}{}{blank})", self.comparable(argument)),
                Function::Count(query) => format!("count({blank}{}{blank})", self.query(query)),
                Function::Value(query) => format!("value({blank}{}{blank})", self.query(query)),
            },
        }
    }
}

fn notations() -> impl Strategy<Value = Notation> {
    let blanks = prop_oneof![Just(""), Just(" "), Just("\t"), Just("\r\n")];
    (blanks, prop_oneof![Just('\''), Just('"')], any::<bool>()).prop_map(|(blank, quote, short)| Notation {
        blank,
        quote,
        short,
    })
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z_ü😀][a-zA-Z0-9_ü😀]{0,3}",
        "[ -~]{0,3}",
        any::<String>().prop_map(|text| text.chars().take(3).collect())
    ]
}

fn integers() -> impl Strategy<Value = i64> {
    const MAX: i64 = 9_007_199_254_740_991;
    prop_oneof![-3_i64..4, -MAX..=MAX]
}

fn literals() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("finite", Number::from_f64).prop_map(Value::from),
        names().prop_map(Value::from),
    ]
}

fn selectors() -> impl Strategy<Value = Selector> {
    let bound = || option::of(integers());
    prop_oneof![
        3 => names().prop_map(Selector::Name),
        1 => Just(Selector::Wildcard),
        2 => integers().prop_map(Selector::Index),
        1 => (bound(), bound()).prop_map(|(start, end)| Selector::Slice(start, end, None)),
        1 => (bound(), bound(), bound()).prop_map(|(start, end, step)| Selector::Slice(start, end, step)),
    ]
}

fn segments(selector: BoxedStrategy<Selector>) -> impl Strategy<Value = Vec<Segment>> {
    let segment = (any::<bool>(), vec(selector, 1..3));
    vec(segment.prop_map(|(descends, selectors)| Segment { descends, selectors }), 0..3)
}

fn queries(selector: BoxedStrategy<Selector>) -> impl Strategy<Value = Query> {
    (any::<bool>(), segments(selector)).prop_map(|(absolute, segments)| Query { absolute, segments })
}

fn comparables(selector: BoxedStrategy<Selector>) -> impl Strategy<Value = Comparable> {
    let step = prop_oneof![names().prop_map(Step::Name), integers().prop_map(Step::Index)];
    let path = (any::<bool>(), vec(step, 0..3)).prop_map(|(absolute, steps)| Singular { absolute, steps });
    let plain = prop_oneof![literals().prop_map(Comparable::Literal), path.prop_map(Comparable::Singular)].boxed();
    let function = prop_oneof![
        plain.clone().prop_map(Function::Length),
        queries(selector.clone()).prop_map(Function::Count),
        queries(selector).prop_map(Function::Value),
    ];
    prop_oneof![3 => plain, 1 => function.prop_map(|function| Comparable::Function(Box::new(function)))]
}

fn filters(selector: BoxedStrategy<Selector>) -> impl Strategy<Value = Filter> {
    let side = comparables(selector.clone()).boxed();
    let operator = proptest::sample::select(vec![
        Operator::Equal,
        Operator::NotEqual,
        Operator::Less,
        Operator::LessOrEqual,
        Operator::Greater,
        Operator::GreaterOrEqual,
    ]);
    let leaf =
        prop_oneof![
            queries(selector).prop_map(Filter::Exists),
            (any::<bool>(), side.clone(), side.clone())
                .prop_map(|(whole, text, pattern)| Filter::Match(Box::new(Match { whole, text, pattern }))),
            (side.clone(), operator, side)
                .prop_map(|(left, operator, right)| Filter::Comparison(Box::new(Comparison { left, operator, right }))),
        ];
    leaf.prop_recursive(2, 6, 2, |inner| {
        prop_oneof![
            vec(inner.clone(), 2..3).prop_map(Filter::Or),
            vec(inner.clone(), 2..3).prop_map(Filter::And),
            inner.prop_map(|inner| Filter::Not(Box::new(inner))),
        ]
    })
}

fn trees() -> impl Strategy<Value = Vec<Segment>> {
    let selector = selectors().prop_recursive(2, 8, 2, |inner| filters(inner.boxed()).prop_map(Selector::Filter));
    segments(selector.boxed())
}

proptest! {
    #[test]
    fn a_printed_tree_parses_to_the_same_tree(tree in trees(), notation in notations()) {
        let text = format!("${}", notation.segments(&tree));
        prop_assume!(text.len() <= PATH_MAX);
        prop_assert_eq!(parser::parse(&text), Ok(tree), "{}", text);
    }
}
