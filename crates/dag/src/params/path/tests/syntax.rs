//! What is a path and what is not, and what users are told.

use serde_json::json;

use super::super::*;
use super::select;
use crate::params::tree::testing::nested;

fn refusal(path: &str) -> String {
    JsonPathRef::parse(path).unwrap_err().to_string()
}

#[test]
fn the_step_is_what_stands_before_the_first_colon() {
    for (text, step, path) in [
        ("$.a", None, "$.a"),
        ("$['a:$.b']", None, "$['a:$.b']"),
        ("build:$.a", Some("build"), "$.a"),
        (" build \t:\n $.a ", Some("build"), "$.a"),
        ("a.b-c:$['x:y']", Some("a.b-c"), "$['x:y']"),
        ("build:$", Some("build"), "$"),
    ] {
        let reference = JsonPathRef::parse(text).unwrap();
        assert_eq!((reference.step.as_ref().map(StepName::as_str), reference.path.as_str()), (step, path), "{text}");
        let again = JsonPathRef::parse(&reference.to_string()).unwrap();
        assert_eq!(again, reference);
    }
}

#[test]
fn other_texts_are_refused() {
    insta::assert_snapshot!(refusal(""), @"the path is empty; write one like `$.succeeded` or `build:$.outputs.digest`");
    insta::assert_snapshot!(refusal("  "), @"the path is empty; write one like `$.succeeded` or `build:$.outputs.digest`");
    insta::assert_snapshot!(refusal(" $.a"), @"` $.a` does not start with `$`; write `$.member`, or `<step>:$.member` to read another step");
    insta::assert_snapshot!(refusal("build.outputs.x"), @"`build.outputs.x` does not start with `$`; write `$.member`, or `<step>:$.member` to read another step");
    insta::assert_snapshot!(refusal("build:outputs:$.x"), @"`build:outputs:$.x` does not start with `$`; write `$.member`, or `<step>:$.member` to read another step");
    insta::assert_snapshot!(refusal(":$.a"), @"the text before `:` is not the name of a step: step name `` is not valid: it is empty; use lower case letters, digits, `-` and `.`");
    insta::assert_snapshot!(refusal("Build_1:$.a"), @"the text before `:` is not the name of a step: step name `Build_1` is not valid: character 'B' at position 1 is not allowed; use lower case letters, digits, `-` and `.`");
    insta::assert_snapshot!(refusal("build:$.a["), @"`$.a[` is not a JSONPath of RFC 9535: at column 5, found the end, expected a name in quotes, an index, a slice, `*` or `?`");
    insta::assert_snapshot!(refusal("$.a b"), @"`$.a b` is not a JSONPath of RFC 9535: at column 5, found `b`, expected `.`, `..`, `[` or the end of the path");
    insta::assert_snapshot!(refusal("$\n.a\n[x]"), @r#"`$\n.a\n[x]` is not a JSONPath of RFC 9535: at column 7, found `x`, expected a name in quotes, an index, a slice, `*` or `?`"#);
    insta::assert_snapshot!(refusal("$.a "), @"`$.a ` is not a JSONPath of RFC 9535: at column 4, found ` `, expected the end of the path without a blank before it");
    insta::assert_snapshot!(refusal("$.a[9007199254740992]"), @"`$.a[9007199254740992]` is not a JSONPath of RFC 9535: at column 5, found `9`, expected an integer from -9007199254740991 to 9007199254740991 without leading zeros");
    insta::assert_snapshot!(refusal(&format!("$.{}!", "a".repeat(100))), @"`$.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…` is not a JSONPath of RFC 9535: at column 103, found `!`, expected `.`, `..`, `[` or the end of the path");
    insta::assert_snapshot!(refusal(&format!("$.{}", "a".repeat(PATH_MAX))), @"the path is 4098 bytes long; use at most 4096");
}

#[test]
fn only_well_typed_rfc_9535_parses() {
    insta::assert_snapshot!(refusal("$[?in(@.a, $.b)]"), @"`$[?in(@.a, $.b)]` is not a JSONPath of RFC 9535: there is no function `in`; use length, count, value, match or search");
    insta::assert_snapshot!(refusal("$[?length(@.a)]"), @"`$[?length(@.a)]` is not a JSONPath of RFC 9535: the result of `length` must be compared, as in `length(…) > 0`");
    insta::assert_snapshot!(refusal("$[?count(@.*)]"), @"`$[?count(@.*)]` is not a JSONPath of RFC 9535: the result of `count` must be compared, as in `count(…) > 0`");
    insta::assert_snapshot!(refusal("$[?length(@.*) > 1]"), @"`$[?length(@.*) > 1]` is not a JSONPath of RFC 9535: an argument of `length` must be a literal, a path to one value such as `@.name`, or a function's value");
    insta::assert_snapshot!(refusal("$[?length(@[?@.a]) > 1]"), @"`$[?length(@[?@.a]) > 1]` is not a JSONPath of RFC 9535: an argument of `length` must be a literal, a path to one value such as `@.name`, or a function's value");
    insta::assert_snapshot!(refusal("$[?count('a') > 1]"), @"`$[?count('a') > 1]` is not a JSONPath of RFC 9535: the argument of `count` must be a path such as `@.items[*]`");
    insta::assert_snapshot!(refusal("$[?length(match(@.a, 'b')) > 1]"), @"`$[?length(match(@.a, 'b')) > 1]` is not a JSONPath of RFC 9535: `match` gives no value; use it as a test by itself");
    insta::assert_snapshot!(refusal("$[?match(@.*, 'b')]"), @"`$[?match(@.*, 'b')]` is not a JSONPath of RFC 9535: an argument of `match` must be a literal, a path to one value such as `@.name`, or a function's value");
    insta::assert_snapshot!(refusal("$[?@.a > 1e999]"), @"`$[?@.a > 1e999]` is not a JSONPath of RFC 9535: a number in it is too large");
    for text in [
        "$[?match(@.a, 'b') == true]",
        "$[?@.* == 1]",
        "$[?@.a == @[0:1]]",
        "$[01]",
        "$.-a",
        "$.0",
        "$[?'a']",
        "a",
        "$$",
        "$.",
        "$..",
        "$[]",
        "$[1,]",
        "$['a]",
        "$[\"\\x\"]",
        "$[?@.a = 1]",
        "$[?@.a === 1]",
        "$[0:1:2:3]",
        "$[-0]",
        "$['\\ud800']",
        "$.a..",
        "$ .a ",
        "$. a",
        "$.. a",
        "$.a\nb",
        "$[?@.a b]",
        "$[?@. a == 1]",
        "$[?@.a == 1 2]",
        "$[?length (@.a) > 1]",
        "$[?nul l == @.a]",
    ] {
        assert!(Path::parse(text).is_err(), "{text}");
    }
}

#[test]
fn hostile_texts_end_in_an_error() {
    for text in [
        "$[".repeat(1000),
        format!("$[?{}", "(".repeat(1000)),
        format!("$[?{}", "!(".repeat(31)),
        format!("$[?{}", "length(".repeat(500)),
        format!("$[?{}@", "length(value(".repeat(2)),
        format!("$[?{}@.a == 1", "length(".repeat(4)),
        format!("$[?{}", "match(match(match(search(@,"),
        format!("$[?{}@ x", "@[?".repeat(31)),
        format!("$[?{}", "@.a == length(@.b) && ".repeat(150)),
        format!("$[?{}", "@.a||".repeat(700)),
        format!("${}", "..".repeat(2000)),
        format!("$['{}", "\\u0041".repeat(600)),
        "$['\\".to_owned(),
        "$[?(((((((((((((((((((((((((((((@.a".to_owned(),
    ] {
        assert!(Path::parse(&text).is_err(), "{text:.40}");
    }
    insta::assert_snapshot!(refusal(&format!("${}", "[?@".repeat(33))), @"the path nests brackets deeper than 32 or functions deeper than 4; flatten it");
    assert!(Path::parse(&format!("$[?{}@.a{}]", "(".repeat(31), ")".repeat(31))).is_ok());
    assert!(
        Path::parse("$['((((((((((((((((((((((((((((((((((((', \"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"\"]").is_ok()
    );
    assert!(Path::parse("$[?length(value(@.a)) == length(value(@.b))]").is_ok());
    let deepest = format!("${}{}", "[?@".repeat(NESTING_MAX), "]".repeat(NESTING_MAX));
    assert_eq!(select(&deepest, &nested(NESTING_MAX + 1, "x")), json!([nested(NESTING_MAX, "x")]));
    assert_eq!(select(&deepest, &nested(NESTING_MAX, "x")), json!([]));
}
