//! What queries may cost.

use serde_json::json;

use super::super::*;
use crate::params::tree::testing::nested;

/// A document of about 256 KiB, as wide and as deep as a parser allows.
fn large() -> Value {
    let wide: Vec<Value> = (0..20_000).map(|n| json!({"n": n})).collect();
    let deep = (0..120).fold(json!({"x": vec![1; 200]}), |inner, _| json!({"x": inner, "y": [1, 2, 3]}));
    json!({"wide": wide, "deep": deep, "text": "a".repeat(64 * 1024)})
}

#[test]
fn hostile_paths_are_bounded_on_large_documents() {
    let value = large();
    for path in [
        "$..*..*..*..*",
        "$..[*,*,*,*]..[*,*,*,*]..[*,*,*,*]",
        "$..[?count($..*) > 0]",
        "$..[?@..[?@..[?@..x]]]",
        "$.wide[?$.wide == $.wide]",
        "$.wide[?search($.text, '(a|aa)*b')]",
        "$.wide[?search(@.n, 'x') || $.text == $.text && length($.text) == 1]",
        "$.wide[*]['n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n','n']",
        "$[?search(@, '(.{1,100}){1,100}')]",
    ] {
        assert_eq!(Path::parse(path).unwrap().query(&value), Err(QueryError::TooCostly), "{path}");
    }
    insta::assert_snapshot!(QueryError::TooCostly, @"the path takes more than 1000000 steps in this document; name the members it passes in place of `..`, `*` and filters");
}

#[test]
fn usual_paths_are_cheap_on_large_documents() {
    let value = large();
    for (path, want) in [("$.wide[?@.n == 19999].n", "19999"), ("$..wide[-1].n", "19999"), ("$.deep..y[0]", "")] {
        let got = Path::parse(path).unwrap().query(&value).unwrap();
        assert!(want.is_empty() || got == want, "{path}");
    }
}

#[test]
fn deep_values_are_walked_without_recursion() {
    let mut value = Value::Object([("a".to_owned(), nested(100_000, "x"))].into_iter().collect());
    assert_eq!(Path::parse("$..[?@ == 'x']").unwrap().query(&value).unwrap(), "x");
    assert_eq!(Path::parse("$[?@ == $.a][0]").unwrap().query(&value), Err(TextTooLarge.into()));
    let mut inner = value["a"].take();
    while let Some(next) = inner.as_array_mut().and_then(Vec::pop) {
        inner = next;
    }
}
