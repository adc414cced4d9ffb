//! Tests of joins: the grammar, what each suffix asks, named failures, refusals and limits.

use super::{Depends, MAX_LEVELS, MAX_SOURCE, SettledView, compile};
use crate::when::{SourceError, Steps};
use proptest::prelude::*;
use std::collections::BTreeMap;

const STEPS: [&str; 7] = ["a", "b", "build-image", "scan.v2", "scan", "s.Failed", "x-1.y"];

fn steps() -> Steps<'static> {
    STEPS.iter().map(|name| (*name, [])).collect()
}

fn compiled(source: &str) -> Result<Depends, SourceError> {
    compile(source, &steps())
}

fn join(source: &str) -> Depends {
    compiled(source).unwrap_or_else(|error| panic!("{}", error.point_out(source)))
}

fn refusals(sources: &[&str]) -> String {
    sources.iter().map(|source| format!("{source:?}: {}\n", compiled(source).expect_err(source))).collect()
}

/// Whether the join holds when these steps are satisfied and the others are not.
fn holds(source: &str, satisfied: &[&str]) -> bool {
    let view = |step: &str| SettledView { satisfied: satisfied.contains(&step), ..SettledView::default() };
    join(source).eval(&view)
}

#[test]
fn operators_bind_not_before_and_before_or() {
    assert!(holds("a && b", &["a", "b"]));
    assert!(!holds("a && b", &["a"]));
    assert!(holds("a || b", &["b"]));
    assert!(holds("a || b && scan", &["a"]));
    assert!(!holds("(a || b) && scan", &["a"]));
    assert!(holds("!a && b", &["b"]));
    assert!(!holds("!(a || b)", &["b"]));
    assert!(holds("!!a", &["a"]));
    assert!(holds(" ! ( a && b )\n|| scan ", &[]));
    assert!(holds("a&&b||scan", &["scan"]));
}

#[test]
fn names_may_hold_dashes_and_dots_and_the_longest_is_read() {
    for (source, named) in [
        ("build-image", "build-image"),
        ("scan.v2", "scan.v2"),
        ("scan.v2.Failed", "scan.v2"),
        ("scan.Failed", "scan"),
        ("s.Failed", "s.Failed"),
        ("s.Failed.Skipped", "s.Failed"),
        ("x-1.y.Completed", "x-1.y"),
    ] {
        assert_eq!(join(source).references().collect::<Vec<_>>(), [named], "{source}");
    }
    assert_eq!(join("s.Failed").named_failures().count(), 0);
}

#[test]
fn each_suffix_asks_its_own_question() {
    let none = SettledView::default();
    let cases = [
        ("a", SettledView { satisfied: true, ..none }),
        ("a.Succeeded", SettledView { succeeded: true, ..none }),
        ("a.Failed", SettledView { failed: true, ..none }),
        ("a.Skipped", SettledView { skipped: true, ..none }),
        ("a.Omitted", SettledView { omitted: true, ..none }),
        ("a.Completed", SettledView { completed: true, ..none }),
        ("a.AnySucceeded", SettledView { any_succeeded: true, ..none }),
        ("a.AllFailed", SettledView { all_failed: true, ..none }),
    ];
    for (asked, (source, _)) in cases.iter().enumerate() {
        for (given, (_, view)) in cases.iter().enumerate() {
            assert_eq!(join(source).eval(&|_| *view), asked == given, "{source} with {view:?}");
        }
    }
}

#[test]
fn failed_completed_and_all_failed_name_the_failure() {
    let all = join("a.Failed || !scan.Completed && build-image.AllFailed || b.Succeeded || s.Failed || b.AnySucceeded");
    assert_eq!(all.named_failures().collect::<Vec<_>>(), ["a", "build-image", "scan"]);
    assert_eq!(all.references().collect::<Vec<_>>(), ["a", "scan", "build-image", "b", "s.Failed"]);
    assert_eq!(join("a && b.Skipped && scan.Omitted").named_failures().count(), 0);
}

const WRONG: &[&str] = &[
    "",
    "  ",
    "buidl-image",
    "a && buidl-image.Failed",
    "a.Failde",
    "a.phase",
    "a b",
    "a and b",
    "a & b",
    "a, b",
    "a &&",
    "&& a",
    "!",
    "(a && b",
    "a && b)",
    "()",
    "(a b)",
    "a == b",
    "'a'",
    "a.",
    ".a",
    "a..Failed",
];

#[test]
fn other_text_is_refused_with_the_place() {
    insta::assert_snapshot!(refusals(WRONG), @r#"
    "": the join ends where a step is needed at byte 0
    "  ": the join ends where a step is needed at byte 2
    "buidl-image": unknown step `buidl-image` at byte 0; did you mean `build-image`?
    "a && buidl-image.Failed": unknown step `buidl-image` at byte 5; did you mean `build-image`?
    "a.Failde": step `a` cannot be asked for `Failde` at byte 2; did you mean `Failed`?
    "a.phase": step `a` cannot be asked for `phase` at byte 2; steps are asked for Succeeded, Failed, Skipped, Omitted, Completed, AnySucceeded, AllFailed
    "a b": expected && or || between steps, found `b` at byte 2
    "a and b": expected && or || between steps, found `and` at byte 2; write && for "and"
    "a & b": unknown sign `&` at byte 2; a join has step names, &&, ||, ! and parentheses
    "a, b": unknown sign `,` at byte 1; a join has step names, &&, ||, ! and parentheses
    "a &&": the join ends where a step is needed at byte 4
    "&& a": expected a step, found `&&` at byte 0
    "!": the join ends where a step is needed at byte 1
    "(a && b": `(` is never closed at byte 0; close it with `)`
    "a && b)": `)` without `(` at byte 6
    "()": expected a step, found `)` at byte 1
    "(a b)": expected &&, || or `)`, found `b` at byte 3
    "a == b": unknown sign `=` at byte 2; a join has step names, &&, ||, ! and parentheses
    "'a'": unknown sign `'` at byte 0; a join has step names, &&, ||, ! and parentheses
    "a.": an outcome is missing after the dot at byte 2; steps are asked for Succeeded, Failed, Skipped, Omitted, Completed, AnySucceeded, AllFailed
    ".a": unknown step `.a` at byte 0; did you mean `a`?
    "a..Failed": step `a` cannot be asked for `.Failed` at byte 2; did you mean `Failed`?
    "#);
}

#[test]
fn a_refusal_points_at_the_step() {
    let source = "a && !buidl-image.Failed";
    insta::assert_snapshot!(compiled(source).expect_err(source).point_out(source), @"
    unknown step `buidl-image`
      a && !buidl-image.Failed
            ^^^^^^^^^^^
      did you mean `build-image`?
    ");
}

#[test]
fn depth_and_length_have_limits_and_no_input_overflows() {
    let nested = |depth: usize| format!("{}a{}", "!(".repeat(depth), ")".repeat(depth));
    assert!(compiled(&nested(MAX_LEVELS)).is_ok());
    insta::assert_snapshot!(compiled(&nested(MAX_LEVELS + 1)).expect_err("too deep"), @"nested more than 64 levels deep at byte 129");
    let wide = format!("a{}", " && b".repeat(50_000));
    assert_eq!(join(&wide).references().count(), 2);
    insta::assert_snapshot!(compiled(&" ".repeat(MAX_SOURCE + 1)).expect_err("too long"), @"a join of 262145 bytes, 262144 are allowed at byte 262144; list steps that must all be satisfied under dependencies");
    let deep = move || {
        for depth in [1, 64, 65, 200, 10_000] {
            let result = compiled(&nested(depth));
            assert_eq!(result.is_ok(), depth <= MAX_LEVELS);
            if let Ok(join) = result {
                assert_eq!(join.eval(&|_| SettledView { satisfied: true, ..SettledView::default() }), depth % 2 == 0);
            }
        }
        let dots = "a.".repeat(100_000);
        assert!(compiled(&dots).is_err());
    };
    let thread = std::thread::Builder::new().stack_size(512 * 1024).spawn(deep).expect("a thread");
    assert!(thread.join().is_ok());
}

/// A join by grammar, with the function it should compute.
#[derive(Debug, Clone)]
enum Model {
    Satisfied(usize),
    Failed(usize),
    Not(Box<Model>),
    And(Box<Model>, Box<Model>),
    Or(Box<Model>, Box<Model>),
}

impl Model {
    fn text(&self) -> String {
        match self {
            Self::Satisfied(step) => STEPS[*step].to_owned(),
            Self::Failed(step) => format!("{}.Failed", STEPS[*step]),
            Self::Not(inner) => format!("!({})", inner.text()),
            Self::And(a, b) => format!("({}) && ({})", a.text(), b.text()),
            Self::Or(a, b) => format!("{} || {}", a.text(), b.text()),
        }
    }

    fn holds(&self, satisfied: &[bool]) -> bool {
        match self {
            Self::Satisfied(step) => satisfied[*step],
            Self::Failed(step) => !satisfied[*step],
            Self::Not(inner) => !inner.holds(satisfied),
            Self::And(a, b) => a.holds(satisfied) && b.holds(satisfied),
            Self::Or(a, b) => a.holds(satisfied) || b.holds(satisfied),
        }
    }
}

fn model() -> impl Strategy<Value = Model> {
    let leaf = (0..STEPS.len(), any::<bool>())
        .prop_map(|(step, failed)| if failed { Model::Failed(step) } else { Model::Satisfied(step) });
    leaf.prop_recursive(5, 40, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|a| Model::Not(Box::new(a))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Model::And(Box::new(a), Box::new(b))),
            (inner.clone(), inner).prop_map(|(a, b)| Model::Or(Box::new(a), Box::new(b))),
        ]
    })
}

proptest! {
    #[test]
    fn joins_compute_their_boolean_function(model in model(), satisfied in prop::collection::vec(any::<bool>(), 7)) {
        let by_name: BTreeMap<&str, bool> = STEPS.into_iter().zip(satisfied.iter().copied()).collect();
        let view = |step: &str| {
            let satisfied = by_name[step];
            SettledView { satisfied, failed: !satisfied, ..SettledView::default() }
        };
        prop_assert_eq!(join(&model.text()).eval(&view), model.holds(&satisfied));
    }

    #[test]
    fn any_text_is_read_or_refused(source in "\\PC{0,100}|[ab.&|!() SFailed-]{0,40}") {
        if let Err(error) = compiled(&source) {
            prop_assert!(source.get(error.range()).is_some());
            prop_assert!(error.point_out(&source).len() < 4096);
        }
    }
}
