//! Inputs that mean harm: any text at all, deep nesting on a small stack, values that grow. Nothing may panic.

use super::{MAX_LEVELS, Run, compiled, run_error};
use crate::when::{EvalError, Facts, SourceError};
use proptest::prelude::*;

/// The stack that an embedding program may give a thread.
const SMALL_STACK: usize = 512 * 1024;

/// Compiles, evaluates and drops; gives what was wrong, checked to be printable.
fn exercised(source: &str) -> Result<(), SourceError> {
    match compiled(source) {
        Ok(condition) => {
            let first = condition.eval(&Run::new());
            assert_eq!(first, condition.eval(&Run::new()));
            if let Err(error) = first {
                assert!(error.range().end <= source.len() && error.to_string().len() < 1024, "{error}");
            }
            Ok(())
        }
        Err(error) => {
            let range = error.range();
            assert!(source.get(range).is_some(), "{error:?} is outside {source:?}");
            assert!(error.point_out(source).len() < 4096 && error.to_string().len() < 1024, "{error}");
            Err(error)
        }
    }
}

fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(SMALL_STACK).spawn(work).expect("a thread");
    assert!(thread.join().is_ok());
}

/// Nests a text: opening part, core, closing part, and the levels that one repetition takes.
const NESTS: [(&str, &str, &str, usize); 10] = [
    ("(", "true", ")", 1),
    ("!(", "true", ")", 2),
    ("false||(true&&(1==1+1*-size(string(", "true", "))))", 10),
    ("bool(", "'true'", ")", 1),
    ("bool(string(", "true", "))", 2),
    ("[", "true", "][0]", 2),
    ("true ? (", "true", ") : true", 2),
    ("(true ? ", "true", " : false)", 2),
    ("(true in [", "true", "])", 3),
    ("true == (", "true", ")", 2),
];

#[test]
fn nesting_of_any_depth_is_accepted_or_refused_without_overflow() {
    for (open, core, close, levels) in NESTS {
        for depth in [1, 5, 20, 31, 62, 63, 64, 65, 200, 400] {
            let source = format!("{}{core}{}", open.repeat(depth), close.repeat(depth));
            on_a_small_stack(move || match exercised(&source) {
                Ok(()) => assert!(depth * levels < MAX_LEVELS, "{depth} times {open}"),
                Err(error) => {
                    assert!(depth * levels >= MAX_LEVELS, "{depth} times {open}: {error}");
                    assert!(error.message().contains("64 levels") || error.message().contains("bytes"), "{error}");
                }
            });
        }
    }
}

#[test]
fn sixty_four_levels_are_accepted_and_sixty_five_are_not() {
    let nested = |levels: usize| format!("{}true{}", "(".repeat(levels - 1), ")".repeat(levels - 1));
    assert!(compiled(&nested(64)).is_ok());
    insta::assert_snapshot!(compiled(&nested(65)).expect_err("65 levels"), @"nested more than 64 levels deep at byte 63; split the condition over several steps, or write chains instead of parentheses");
    let operators = |levels: usize| {
        let around = "(true && ".repeat((levels - 1) / 2);
        format!("{around}true{}", ")".repeat((levels - 1) / 2))
    };
    assert!(compiled(&operators(63)).is_ok());
    assert!(compiled(&operators(65)).is_err());
}

#[test]
fn long_chains_are_not_deep() {
    for source in [
        format!("true{}", " && true".repeat(500)),
        format!("false{}", " || false".repeat(450)),
        format!("1{} > 0", "+1".repeat(2000)),
        format!("1{} > 0", "*1".repeat(2000)),
        format!("{}true", "false ? false : ".repeat(250)),
        format!("{}true", "!".repeat(4000)),
        format!("{}1 < 0", "-".repeat(3999)),
        format!("1 in [0{}]", ",1".repeat(2000)),
        format!("'{}' != ''", "${parameters.env}".repeat(230)),
    ] {
        on_a_small_stack(move || exercised(&source).expect("a chain"));
    }
}

#[test]
fn templates_nest_without_overflow() {
    for depth in [1, 10, 62, 63, 65, 200] {
        for source in [
            format!("{{{{if {}true{}}}}}true{{{{end}}}}", "(".repeat(depth), ")".repeat(depth)),
            format!("{{{{if {}true{}}}}}true{{{{end}}}}", "not (".repeat(depth), ")".repeat(depth)),
            format!("{}true{}", "{{if 1}}".repeat(depth), "{{end}}".repeat(depth)),
            format!("{{{{if 0}}}}1{}{{{{end}}}}", "{{else if 0}}1".repeat(depth)),
        ] {
            let deep = depth > MAX_LEVELS && !source.contains("else");
            on_a_small_stack(move || assert_eq!(exercised(&source).is_err(), deep, "{source}"));
        }
    }
}

/// A run whose every parameter is one long text.
struct Long(usize);

impl Long {
    fn error(&self, source: &str) -> Result<bool, EvalError> {
        compiled(source).expect("a condition").eval(self)
    }
}

impl Facts for Long {
    fn step_phase(&self, _: &str) -> Option<&str> {
        None
    }
    fn step_reason(&self, _: &str) -> Option<&str> {
        None
    }
    fn step_message(&self, _: &str) -> Option<&str> {
        None
    }
    fn step_retry_count(&self, _: &str) -> Option<u32> {
        None
    }
    fn output(&self, _: &str, _: &str) -> Option<std::borrow::Cow<'_, str>> {
        None
    }
    fn parameter(&self, _: &str) -> Option<std::borrow::Cow<'_, str>> {
        Some("x".repeat(self.0).into())
    }
    fn flow_name(&self) -> &'static str {
        ""
    }
    fn flow_namespace(&self) -> &'static str {
        ""
    }
    fn flow_uid(&self) -> &'static str {
        ""
    }
    fn flow_phase(&self) -> &'static str {
        ""
    }
    fn flow_outcome(&self) -> Option<&str> {
        None
    }
    fn flow_label(&self, _: &str) -> Option<&str> {
        None
    }
    fn flow_annotation(&self, _: &str) -> Option<&str> {
        None
    }
}

#[test]
fn texts_have_a_limit() {
    let long = Long(300 * 1024);
    assert_eq!(long.error("size(parameters.env + parameters.env) == 614400"), Ok(true));
    for source in [
        "size(parameters.env + parameters.env + parameters.env + parameters.env) > 0",
        "size('${parameters.env}${parameters.env}${parameters.env}${parameters.env}') > 0",
        "{{if 1}}${parameters.env}${parameters.env}${parameters.env}${parameters.env}{{end}}",
    ] {
        let error = long.error(source).expect_err("a long text");
        assert_eq!(error.message(), "a text grows over 1048576 bytes", "{source}");
    }
    let error = long.error("{{if 1}}${parameters.env}{{end}}").expect_err("no truth value");
    assert!(error.to_string().len() < 200);
}

#[test]
fn matches_searches_a_limited_amount_of_text() {
    assert_eq!(Long(100 * 1024).error("parameters.env.matches('^x*$')"), Ok(true));
    let many = ["parameters.env.matches('^x*$')"; 3].join(" && ");
    insta::assert_snapshot!(Long(100 * 1024).error(&many).expect_err("too much"), @"matches searches more than 262144 bytes of text at byte 68 of the condition");
    insta::assert_snapshot!(Long(5000).error("'x'.matches(parameters.env)").expect_err("a long pattern"), @"a pattern for matches is longer than 4096 bytes at byte 0 of the condition");
    assert_eq!(Long(4000).error("'x'.matches(parameters.env)"), Ok(false));
    insta::assert_snapshot!(run_error("'x'.matches('${parameters.env}{9999}{999}')"), @r"a pattern for matches is too large; shorten its repetitions, and write [0-9A-Za-z_] for \w at byte 0 of the condition");
}

#[test]
fn patterns_nest_without_overflow() {
    for depth in [10, 49, 200, 1500] {
        let source = format!("'a'.matches('{}a{}')", "(".repeat(depth), ")".repeat(depth));
        on_a_small_stack(move || assert_eq!(exercised(&source).is_ok(), depth < 50));
    }
}

/// Pieces of the language and of what looks like it.
fn soup() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "true",
        "false",
        "always",
        "steps.",
        "steps",
        ".phase",
        "build",
        "build-image",
        ".outputs.",
        "digest",
        "['build']",
        "parameters.",
        "env",
        "item",
        "flow.name",
        "(",
        ")",
        "[",
        "]",
        "&&",
        "||",
        "!",
        "-",
        "+",
        "*",
        "/",
        "%",
        "==",
        "!=",
        "<",
        ">=",
        "in",
        "?",
        ":",
        ",",
        ".",
        "1",
        "0",
        "2.5",
        "9223372036854775807",
        "'a'",
        "\"b\"",
        "'",
        "\"",
        "\\",
        "{{",
        "}}",
        "{{.parameters.env}}",
        "${parameters.env}",
        "{{.JobFlow.Name}}",
        "{{if",
        "{{else}}",
        "{{end}}",
        "{{- ",
        " -}}",
        "eq ",
        "index .StepStatus",
        ".StepStatus.build.Phase",
        "size(",
        ".matches(",
        "int(",
        "has(",
        "é",
        "\u{0}",
        "\n",
    ]);
    prop::collection::vec((words, prop::sample::select(vec!["", " "])), 0..24)
        .prop_map(|parts| parts.into_iter().flat_map(|(word, blank)| [word, blank]).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_is_decided_or_refused(source in "\\PC{0,200}") {
        let _ = exercised(&source);
    }

    #[test]
    fn any_soup_of_words_is_decided_or_refused(source in soup()) {
        let _ = exercised(&source);
    }

    #[test]
    fn any_bytes_in_a_template_are_decided_or_refused(source in soup(), around in soup()) {
        let _ = exercised(&format!("{{{{if {source}}}}}true{{{{end}}}}"));
        let _ = exercised(&format!("{around}{{{{eq 1 1}}}}{source}"));
    }
}
