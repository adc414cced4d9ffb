//! Tests of paths: `syntax`, `grammar` and `filter` what parses, `print` that what parses is kept, `selection` what RFC 9535
//! selects, `bounds` what it may cost; laws here.

mod bounds;
mod filter;
mod grammar;
mod print;
mod selection;
mod syntax;

use proptest::prelude::*;

use super::*;
use crate::params::tree::testing::trees;

/// All values a path selects, as an array.
fn select(path: &str, value: &Value) -> Value {
    let path = Path::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    path.select(value).unwrap().into_iter().cloned().collect()
}

fn taken(paths: &[&str]) {
    for path in paths {
        assert!(Path::parse(path).is_ok(), "{path}: {}", Path::parse(path).unwrap_err());
    }
}

fn refused(paths: &[&str]) {
    for path in paths {
        assert!(Path::parse(path).is_err(), "{path}");
    }
}

fn refusal(path: &str) -> String {
    Path::parse(path).unwrap_err().to_string()
}

fn path_texts() -> impl Strategy<Value = String> {
    let token = prop_oneof![
        Just("$"),
        Just(".."),
        Just("."),
        Just("["),
        Just("]"),
        Just("*"),
        Just("?"),
        Just("@"),
        Just("'a'"),
        Just("a"),
        Just("("),
        Just(")"),
        Just("=="),
        Just("<"),
        Just("&&"),
        Just("!"),
        Just(","),
        Just(":"),
        Just("-1"),
        Just("0"),
        Just("1.5"),
        Just("null"),
        Just("length("),
        Just("count("),
        Just("value("),
        Just("match("),
        Just("search("),
        Just(" "),
        Just("\\"),
        Just("\""),
        Just("'"),
        Just("ü"),
        Just("in("),
        Just("1e9"),
        Just("\u{0}"),
    ];
    proptest::collection::vec(token, 0..14).prop_map(|tokens| format!("${}", tokens.concat()))
}

/// Paths that mostly parse.
fn good_paths() -> impl Strategy<Value = String> {
    let segment = prop_oneof![
        Just("..*"),
        Just(".a"),
        Just("[0]"),
        Just("[*]"),
        Just("..['a',0,-1]"),
        Just("[::-2]"),
        Just("[?@.a]"),
        Just("[?@ == $.a]"),
        Just("[?count(@..*) > 1]"),
        Just("[?!(@ < 1 || @ == 'a')]"),
        Just("[?length(@) >= 1]"),
        Just("[?search(@, 'a')]"),
        Just("[?@[?@ > 0]]"),
        Just("[1:]"),
    ];
    proptest::collection::vec(segment, 0..5).prop_map(|segments| format!("${}", segments.concat()))
}

proptest! {
    #[test]
    fn parsing_takes_any_text(text in any::<String>()) {
        drop(JsonPathRef::parse(&text));
    }

    #[test]
    fn parsing_and_querying_take_any_tokens(text in path_texts(), value in trees("[a0]{0,2}".boxed())) {
        if let Ok(path) = Path::parse(&text) {
            drop(path.query(&value));
        }
    }

    #[test]
    fn selected_values_lie_in_the_document(text in good_paths(), value in trees("[ab]{0,1}".boxed())) {
        let path = Path::parse(&text).unwrap();
        let all: Vec<*const Value> = std::iter::once(&value)
            .chain(Path::parse("$..*").unwrap().select(&value).unwrap())
            .map(std::ptr::from_ref)
            .collect();
        for node in path.select(&value).unwrap() {
            prop_assert!(all.contains(&std::ptr::from_ref(node)));
        }
    }

    #[test]
    fn a_test_and_its_negation_split_the_children(value in trees("[ab]{0,1}".boxed()), condition in "(@\\.a|@ == 1|@ < 'b'|@\\[0\\]|count\\(@\\.\\*\\) == 0)") {
        let kept = select(&format!("$[?{condition}]"), &value).as_array().unwrap().len();
        let left = select(&format!("$[?!({condition})]"), &value).as_array().unwrap().len();
        prop_assert_eq!(kept + left, select("$[*]", &value).as_array().unwrap().len());
    }
}
