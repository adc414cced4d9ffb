//! The `cel` crate as oracle: well-typed expressions, made by grammar, mean the same here and there.

#![allow(clippy::disallowed_types, reason = "the oracle takes its maps as hash maps; nothing here walks over one")]

use super::compiled;
use crate::when::Facts;
use crate::when::tests::Run;
use cel::objects::{Key, Value};
use cel::{Context, Program};
use proptest::prelude::*;
use std::collections::HashMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ty {
    Bool,
    Int,
    Double,
    Text,
}

const ALL: [Ty; 4] = [Ty::Bool, Ty::Int, Ty::Double, Ty::Text];

fn leaf(ty: Ty) -> BoxedStrategy<String> {
    let words: &[&str] = match ty {
        Ty::Bool => &["true", "false", "has(steps.build.outputs.absent)", "has(steps.build.outputs.digest)"],
        Ty::Int => &["0", "1", "-1", "2", "7", "9223372036854775807", "-9223372036854775808", "steps.build.retryCount"],
        Ty::Double => &["0.0", "0.5", "-1.5", "1e30", "2.0", "9007199254740993.0"],
        Ty::Text => &[
            "''",
            "'a'",
            "\"b\\n\"",
            "'12'",
            "'-3'",
            "'0.5'",
            "'true'",
            "'é😀'",
            "'\\x41\\u00e9\\101'",
            "steps.build.phase",
            "steps[\"build-image\"].reason",
            "steps.build.outputs.count",
            "steps.build.outputs.absent",
            "parameters.env",
            "parameters[\"my-flag\"]",
            "flow.name",
        ],
    };
    prop::sample::select(words).prop_map(str::to_owned).boxed()
}

fn joined(ty: Ty, depth: u32, operators: &'static [&'static str]) -> BoxedStrategy<String> {
    let pair = (expression(ty, depth), prop::sample::select(operators), expression(ty, depth));
    pair.prop_map(|(a, operator, b)| format!("({a} {operator} {b})")).boxed()
}

fn called(ty: Ty, depth: u32, before: &'static str, after: &'static str) -> BoxedStrategy<String> {
    expression(ty, depth).prop_map(move |inner| format!("{before}{inner}{after}")).boxed()
}

fn method(depth: u32, name: &'static str) -> BoxedStrategy<String> {
    (expression(Ty::Text, depth), expression(Ty::Text, depth))
        .prop_map(move |(a, b)| format!("{a}.{name}({b})"))
        .boxed()
}

/// An expression of the type, of at most that many levels of its own.
fn expression(ty: Ty, depth: u32) -> BoxedStrategy<String> {
    if depth == 0 {
        return leaf(ty);
    }
    let below = depth - 1;
    let choice = (expression(Ty::Bool, below), expression(ty, below), expression(ty, below))
        .prop_map(|(condition, a, b)| format!("({condition} ? {a} : {b})"));
    let element = (prop::collection::vec(expression(ty, below), 1..4), -1_i64..4)
        .prop_map(|(elements, index)| format!("[{}][{index}]", elements.join(", ")));
    let mut rules: Vec<BoxedStrategy<String>> = vec![leaf(ty), choice.boxed(), element.boxed()];
    match ty {
        Ty::Bool => {
            let member = prop::sample::select(&ALL[..]).prop_flat_map(move |ty| {
                (expression(ty, below), prop::collection::vec(expression(ty, below), 0..4))
                    .prop_map(|(value, list)| format!("({value} in [{}])", list.join(", ")))
            });
            let flat =
                (prop::collection::vec(expression(Ty::Bool, below), 2..4), prop::sample::select(vec![" && ", " || "]))
                    .prop_map(|(operands, operator)| format!("({})", operands.join(operator)));
            let mixed =
                (expression(Ty::Int, below), prop::sample::select(vec!["<", ">=", "=="]), expression(Ty::Int, below))
                    .prop_map(|(a, operator, b)| format!("({a} {operator} {b})"));
            rules.extend([member.boxed(), flat.boxed(), mixed.boxed(), called(Ty::Bool, below, "!", "")]);
            rules.extend([called(Ty::Text, below, "bool(", ")"), method(below, "contains")]);
            rules.extend([method(below, "startsWith"), method(below, "endsWith")]);
            for ty in ALL {
                rules.push(joined(ty, below, &["==", "!=", "<", "<=", ">", ">="]));
            }
        }
        Ty::Int => {
            rules.push(joined(Ty::Int, below, &["+", "-", "*", "/", "%"]));
            rules.extend([called(Ty::Text, below, "int(", ")"), called(Ty::Double, below, "int(", ")")]);
            rules.extend([called(Ty::Text, below, "size(", ")"), called(Ty::Int, below, "-(", ")")]);
        }
        Ty::Double => {
            // No division by zero: the oracle does not order NaN.
            rules.extend([joined(Ty::Double, below, &["+", "-", "*"]), called(Ty::Double, below, "(", " / 8.0)")]);
            rules.extend([called(Ty::Int, below, "double(", ")"), called(Ty::Text, below, "double(", ")")]);
            rules.extend([called(Ty::Double, below, "-(", ")"), called(Ty::Double, below, "double(string(", "))")]);
        }
        Ty::Text => {
            rules.push(joined(Ty::Text, below, &["+"]));
            rules.extend([called(Ty::Int, below, "string(", ")"), called(Ty::Bool, below, "string(", ")")]);
        }
    }
    proptest::strategy::Union::new(rules).boxed()
}

fn map(entries: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let entries: HashMap<Key, Value> = entries.into_iter().map(|(key, value)| (key.to_owned().into(), value)).collect();
    entries.into()
}

fn text(value: Option<&str>) -> Value {
    value.unwrap_or_default().to_owned().into()
}

/// The test run as variables of the oracle.
fn context() -> Context<'static, 'static> {
    let run = Run::new();
    let step = |name: &str, outputs: Value| {
        let retries = i64::from(run.step_retry_count(name).unwrap_or_default());
        map([
            ("phase", text(run.step_phase(name))),
            ("reason", text(run.step_reason(name))),
            ("retryCount", retries.into()),
            ("outputs", outputs),
        ])
    };
    let outputs = ["digest", "count"].map(|name| (name, text(run.output("build", name).as_deref())));
    let parameters = ["env", "my-flag"].map(|name| (name, text(run.parameter(name).as_deref())));
    let mut context = Context::default();
    context.add_variable_from_value(
        "steps",
        map([("build", step("build", map(outputs))), ("build-image", step("build-image", map([])))]),
    );
    context.add_variable_from_value("parameters", map(parameters));
    context.add_variable_from_value("flow", map([("name", text(Some(run.flow_name())))]));
    context
}

/// The oracle's parser needs far more stack than a test thread has.
const ORACLE_STACK: usize = 256 * 1024 * 1024;

#[test]
fn expressions_mean_what_the_oracle_says() {
    let compare = || {
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
            cases: 1500,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        let outcome = runner.run(&expression(Ty::Bool, 3), |source| {
            let condition = match compiled(&source) {
                Ok(condition) => condition,
                Err(error) if error.message().contains("bytes") => return Ok(()),
                Err(error) => return Err(TestCaseError::fail(error.point_out(&source))),
            };
            let ours = condition.eval(&Run::new());
            let program =
                Program::compile(&source).map_err(|error| TestCaseError::fail(format!("{source}: {error}")))?;
            let theirs = program.execute(&context());
            match (&ours, &theirs) {
                (Ok(ours), Ok(Value::Bool(theirs))) if ours == theirs => Ok(()),
                (Err(_), Err(_)) => Ok(()),
                _ => Err(TestCaseError::fail(format!("{source}: here {ours:?}, there {theirs:?}"))),
            }
        });
        outcome.map_err(|error| error.to_string())
    };
    let thread = std::thread::Builder::new().stack_size(ORACLE_STACK).spawn(compare).expect("a thread");
    assert_eq!(thread.join().expect("no panic"), Ok(()));
}
