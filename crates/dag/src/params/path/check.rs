//! Well-typedness of paths (RFC 9535, 2.4.3), and the extensions of the grammar that the RFC does not know. Owns what is
//! refused after parsing; never evaluates. Recursion follows the nesting of the path, which `guard` bounds.

use jsonpath_rust::parser::model::{
    Comparable, Comparison, Filter, FilterAtom, FnArg, JpQuery, Literal, Segment, Selector, Test, TestFunction,
};

/// What a path says that RFC 9535 gives no meaning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TypeFault {
    /// A function outside `length`, `count`, `value`, `match` and `search`.
    #[error("there is no function `{0}`; use length, count, value, match or search")]
    Function(String),
    /// A function that gives a value stands as a test.
    #[error("the result of `{0}` must be compared, as in `{0}(…) > 0`")]
    Uncompared(&'static str),
    /// A function that gives true or false stands where a value is needed.
    #[error("`{0}` gives no value; use it as a test of its own")]
    NoValue(&'static str),
    /// An argument that may be several values where one is needed.
    #[error("an argument of `{0}` must be a literal, a path to one value such as `@.name`, or a function's value")]
    ValueArgument(&'static str),
    /// An argument that is no path where one is needed.
    #[error("the argument of `{0}` must be a path such as `@.items[*]`")]
    NodesArgument(&'static str),
    /// A number that is too large for a double.
    #[error("a number in it is too large")]
    Number,
}

pub(super) fn query(query: &JpQuery) -> Result<(), TypeFault> {
    segments(&query.segments)
}

fn segments(segments: &[Segment]) -> Result<(), TypeFault> {
    segments.iter().flat_map(selectors).try_for_each(|selector| match selector {
        Selector::Filter(condition) => filter(condition),
        Selector::Name(_) | Selector::Wildcard | Selector::Index(_) | Selector::Slice(..) => Ok(()),
    })
}

/// The selectors of a segment, whether it goes to children or descendants.
pub(super) fn selectors(segment: &Segment) -> &[Selector] {
    match segment {
        Segment::Selector(selector) => std::slice::from_ref(selector),
        Segment::Selectors(selectors) => selectors,
        Segment::Descendant(inner) => match &**inner {
            Segment::Selector(selector) => std::slice::from_ref(selector),
            Segment::Selectors(selectors) => selectors,
            // The grammar has no descendant segment in a descendant segment.
            Segment::Descendant(_) => &[],
        },
    }
}

fn filter(condition: &Filter) -> Result<(), TypeFault> {
    match condition {
        Filter::Or(parts) | Filter::And(parts) => parts.iter().try_for_each(filter),
        Filter::Atom(FilterAtom::Filter { expr, .. }) => filter(expr),
        Filter::Atom(FilterAtom::Test { expr, .. }) => test(expr),
        Filter::Atom(FilterAtom::Comparison(comparison)) => {
            let (left, right) = sides(comparison);
            comparable(left)?;
            comparable(right)
        }
    }
}

/// Both sides of a comparison.
pub(super) fn sides(comparison: &Comparison) -> (&Comparable, &Comparable) {
    comparison.vals()
}

fn test(test: &Test) -> Result<(), TypeFault> {
    match test {
        Test::RelQuery(relative) => segments(relative),
        Test::AbsQuery(absolute) => query(absolute),
        Test::Function(call) => {
            function(call)?;
            if gives_value(call) { Err(TypeFault::Uncompared(name(call))) } else { Ok(()) }
        }
    }
}

fn comparable(side: &Comparable) -> Result<(), TypeFault> {
    match side {
        Comparable::Literal(constant) => literal(constant),
        Comparable::SingularQuery(_) => Ok(()),
        Comparable::Function(call) => {
            function(call)?;
            if gives_value(call) { Ok(()) } else { Err(TypeFault::NoValue(name(call))) }
        }
    }
}

fn literal(constant: &Literal) -> Result<(), TypeFault> {
    match constant {
        Literal::Float(number) if !number.is_finite() => Err(TypeFault::Number),
        _ => Ok(()),
    }
}

fn function(call: &TestFunction) -> Result<(), TypeFault> {
    match call {
        TestFunction::Length(argument) => value_argument(argument, name(call)),
        TestFunction::Count(argument) | TestFunction::Value(argument) => nodes_argument(argument, name(call)),
        TestFunction::Match(text, pattern) | TestFunction::Search(text, pattern) => {
            value_argument(text, name(call))?;
            value_argument(pattern, name(call))
        }
        TestFunction::Custom(unknown, _) => Err(TypeFault::Function(unknown.clone())),
    }
}

fn value_argument(argument: &FnArg, of: &'static str) -> Result<(), TypeFault> {
    let fault = TypeFault::ValueArgument(of);
    match argument {
        FnArg::Literal(constant) => literal(constant),
        FnArg::Filter(_) => Err(fault),
        FnArg::Test(inner) => match &**inner {
            Test::RelQuery(path) | Test::AbsQuery(JpQuery { segments: path }) => {
                if path.iter().all(is_singular) {
                    Ok(())
                } else {
                    Err(fault)
                }
            }
            Test::Function(call) => {
                function(call)?;
                if gives_value(call) { Ok(()) } else { Err(TypeFault::NoValue(name(call))) }
            }
        },
    }
}

fn nodes_argument(argument: &FnArg, of: &'static str) -> Result<(), TypeFault> {
    match argument {
        FnArg::Test(inner) => match &**inner {
            Test::RelQuery(path) | Test::AbsQuery(JpQuery { segments: path }) => segments(path),
            Test::Function(_) => Err(TypeFault::NodesArgument(of)),
        },
        FnArg::Literal(_) | FnArg::Filter(_) => Err(TypeFault::NodesArgument(of)),
    }
}

fn is_singular(segment: &Segment) -> bool {
    matches!(segment, Segment::Selector(Selector::Name(_) | Selector::Index(_)))
}

fn gives_value(call: &TestFunction) -> bool {
    matches!(call, TestFunction::Length(_) | TestFunction::Count(_) | TestFunction::Value(_))
}

fn name(call: &TestFunction) -> &'static str {
    match call {
        TestFunction::Length(_) => "length",
        TestFunction::Count(_) => "count",
        TestFunction::Value(_) => "value",
        TestFunction::Match(..) => "match",
        TestFunction::Search(..) => "search",
        TestFunction::Custom(..) => "function",
    }
}
