//! Substitution: values arrive byte-exact, are not scanned again, and change neither keys nor the shape of a tree.

use orlop_dag::params::{Lookup, Scope, names_in_text, scan};
use serde_json::Value;

use super::text;

/// Lines `name=value`, a line `---`, then a text that may be JSON.
pub fn parameters(bytes: &[u8]) {
    let Some(input) = text(bytes) else { return };
    let (head, body) = input.split_once("\n---\n").unwrap_or(("", input));
    let none = Scope::new();
    assert_eq!(none.fill(body).as_deref(), Ok(body), "no parameter in scope, text untouched");
    let mut scope = Scope::new();
    for line in head.lines() {
        match line.split_once('=') {
            Some(("item", value)) => {
                scope.set_instance(serde_json::from_str(value).unwrap_or_else(|_| Value::from(value)), value.len());
            }
            Some((name, value)) => scope.bind(name, value),
            None => {}
        }
    }
    let filled = scope.fill(body);
    match (&filled, by_hand(&scope, body)) {
        (Ok(filled), Some(expected)) if !scope.is_empty() => assert_eq!(*filled, expected),
        (Ok(_), Some(_)) | (Err(_), None) => {}
        (filled, expected) => assert!(scope.is_empty(), "{body:?}: {filled:?}, by hand {expected:?}"),
    }
    assert!(names_in_text(body).len() <= scan(body).len());
    let Ok(tree) = serde_json::from_str::<Value>(body) else { return };
    assert_eq!(none.fill_tree(&tree).ok(), Some(tree.clone()).filter(|_| none.fill_tree(&tree).is_ok()));
    if let Ok(filled) = scope.fill_tree(&tree) {
        same_shape(&tree, &filled);
    }
}

/// The text with every placeholder replaced; none when one stands for nothing.
fn by_hand(scope: &Scope, text: &str) -> Option<String> {
    let mut out = String::new();
    let mut from = 0;
    for placeholder in scan(text) {
        out.push_str(text.get(from..placeholder.range.start)?);
        match scope.lookup(placeholder.name) {
            Lookup::Plain(value) => out.push_str(&value),
            _ => return None,
        }
        from = placeholder.range.end;
    }
    out.push_str(text.get(from..)?);
    Some(out)
}

/// Walks both trees at once, without recursion.
fn same_shape(left: &Value, right: &Value) {
    let mut open = vec![(left, right)];
    while let Some(pair) = open.pop() {
        match pair {
            (Value::Object(left), Value::Object(right)) => {
                assert!(left.keys().eq(right.keys()), "{left:?} and {right:?} have different members");
                open.extend(left.values().zip(right.values()));
            }
            (Value::Array(left), Value::Array(right)) => {
                assert_eq!(left.len(), right.len());
                open.extend(left.iter().zip(right));
            }
            (Value::String(_), Value::String(_)) => {}
            (left, right) => assert_eq!(left, right),
        }
    }
}
