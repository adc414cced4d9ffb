//! What of an interface breaks those who use it: what is gone, what is changed, and what was added where all cases or fields are
//! written out. Other additions break nobody.

use std::collections::{BTreeMap, BTreeSet};

use super::surface::{AUTO_KIND, Item, MORE, OPEN};

/// What differs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    /// What breaks, each in words.
    pub(crate) breaks: Vec<String>,
    /// How many items are new and break nothing.
    pub(crate) added: usize,
}

/// What tells an item apart: of implementations of traits a type has many.
fn key(item: &Item) -> (&str, &str, &str) {
    (&item.path, &item.kind, if ["impl", AUTO_KIND].contains(&item.kind.as_str()) { &item.signature } else { "" })
}

fn parent(path: &str) -> &str {
    path.rsplit_once("::").map_or("", |(parent, _)| parent)
}

/// A signature without its marks: whether it is open to more variants or fields, and whether it has more than is shown.
fn marks(signature: &str) -> (bool, bool, &str) {
    let (open, rest) = signature.strip_prefix(OPEN).map_or((false, signature), |rest| (true, rest));
    let (more, rest) = rest.strip_suffix(MORE).map_or((false, rest), |rest| (true, rest));
    (open, more, rest)
}

/// Whether whatever used the item as it was may use it as it is.
fn allows(before: &Item, now: &Item) -> bool {
    let ((open, more, text), (open_now, more_now, text_now)) = (marks(&before.signature), marks(&now.signature));
    let defaults = ["fn", "const", "type"].contains(&now.kind.as_str());
    text == text_now && open_now <= open && if defaults { more_now >= more } else { more_now <= more }
}

/// Compares an interface with that of before.
pub(crate) fn compare<'a>(
    before: impl IntoIterator<Item = &'a Item>,
    now: impl IntoIterator<Item = &'a Item>,
) -> Difference {
    let before: BTreeMap<_, _> = before.into_iter().map(|item| (key(item), item)).collect();
    let now: BTreeMap<_, _> = now.into_iter().map(|item| (key(item), item)).collect();
    let there: BTreeSet<&str> = now.keys().map(|(path, ..)| *path).collect();
    let mut found = Difference::default();
    for (key, item) in &before {
        match now.get(key) {
            // What a type lacked it has.
            None if item.kind == AUTO_KIND => {}
            // Of a type that is gone its fields are too.
            None if parent(&item.path).contains("::") && !there.contains(parent(&item.path)) => {}
            None if item.kind == "impl" && !there.contains(item.path.as_str()) => {}
            None => found.breaks.push(format!("gone: {} {}", item.kind, described(item))),
            Some(other) if allows(item, other) => {}
            Some(other) => {
                let (path, kind) = (&item.path, &item.kind);
                found
                    .breaks
                    .push(format!("changed: {kind} {path}\n  was {}\n  is  {}", item.signature, other.signature));
            }
        }
    }
    for item in now.iter().filter(|(key, _)| !before.contains_key(*key)).map(|(_, item)| item) {
        match added(item, &before) {
            Some(reason) => found.breaks.push(format!("added: {} {}: {reason}", item.kind, described(item))),
            None => found.added += 1,
        }
    }
    found
}

fn described(item: &Item) -> String {
    if key(item).2.is_empty() { item.path.clone() } else { format!("{} of {}", item.signature, item.path) }
}

/// Why an item that was added breaks something.
fn added(item: &Item, before: &BTreeMap<(&str, &str, &str), &Item>) -> Option<&'static str> {
    let of = |kind| before.get(&(parent(&item.path), kind, "")).map(|item| item.signature.as_str());
    let closed = |kind| of(kind).is_some_and(|signature| matches!(marks(signature), (false, false, _)));
    match item.kind.as_str() {
        AUTO_KIND if before.keys().any(|(path, ..)| *path == item.path) => {
            Some("its values crossed threads or moved freely")
        }
        "variant" if closed("enum") => Some("who matches the enum writes out every variant"),
        "field" if closed("struct") => Some("who makes the struct writes out every field"),
        "fn" | "const" | "type" if of("trait").is_some() && !item.signature.ends_with(MORE) => {
            Some("who implements the trait lacks it")
        }
        _ => None,
    }
}
