//! What the schema says of each field beyond its Rust type: its description, bounds, keys and defaults. Owns the reading of
//! that table; a test holds it equal to the fields the types have.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

/// A line without indentation names a type; an indented line is a field of it: name, notes between `<` and `>` where there
/// are any, and a description.
const FIELDS: &str = include_str!("fields.txt");

/// What is known of a field beyond its type.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Notes {
    /// For `kubectl explain`.
    pub(crate) description: &'static str,
    /// The member that items of this list-map are known by.
    pub(crate) key: Option<&'static str>,
    /// Fewest and most items.
    pub(crate) items: Bounds,
    /// Least and greatest value.
    pub(crate) value: Bounds,
    /// Fewest and most characters.
    pub(crate) length: Bounds,
    /// The texts it may hold, where its type takes any.
    pub(crate) choices: Option<Vec<&'static str>>,
    /// What an API server fills in.
    pub(crate) default: Option<Value>,
    /// What is open or has a form of its own.
    pub(crate) form: Form,
}

/// A lower and an upper bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The lower one.
    pub(crate) least: Option<i64>,
    /// The upper one.
    pub(crate) most: Option<i64>,
}

/// Forms that a Rust type does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// As the type says.
    #[default]
    Plain,
    /// RFC 3339.
    Time,
    /// Items are objects of any content.
    Objects,
    /// A `batch/v1` Job.
    Job,
}

/// All fields, by type and name.
pub(crate) fn fields() -> &'static BTreeMap<(&'static str, &'static str), Notes> {
    static TABLE: LazyLock<BTreeMap<(&str, &str), Notes>> = LazyLock::new(|| read(FIELDS));
    &TABLE
}

fn read(text: &'static str) -> BTreeMap<(&'static str, &'static str), Notes> {
    let mut owner = "";
    let mut table = BTreeMap::new();
    for line in text.lines() {
        match line.strip_prefix(' ').and_then(|line| line.split_once(' ')) {
            None => owner = line,
            Some((name, rest)) => {
                let noted = rest.strip_prefix('<').and_then(|rest| rest.split_once("> "));
                let (words, description) = noted.unwrap_or(("", rest));
                table.insert(
                    (owner, name),
                    words.split_whitespace().fold(Notes { description, ..Notes::default() }, note),
                );
            }
        }
    }
    table
}

fn note(mut notes: Notes, word: &'static str) -> Notes {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    match name {
        "key" => notes.key = Some(value),
        "items" => notes.items = bounds(value),
        "value" => notes.value = bounds(value),
        "length" => notes.length = bounds(value),
        "enum" => notes.choices = Some(value.split(',').collect()),
        "default" => notes.default = serde_json::from_str(value).ok(),
        "time" => notes.form = Form::Time,
        "objects" => notes.form = Form::Objects,
        "job" => notes.form = Form::Job,
        _ => {}
    }
    notes
}

fn bounds(text: &str) -> Bounds {
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    Bounds { least: least.parse().ok(), most: most.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_note_is_understood() {
        let known = ["key", "items", "value", "length", "enum", "default", "time", "objects", "job"];
        for line in FIELDS.lines().filter(|line| line.starts_with(' ')) {
            let rest = line.trim().split_once(' ').unwrap().1;
            let words = rest.strip_prefix('<').and_then(|rest| rest.split_once("> ")).map_or("", |(words, _)| words);
            for word in words.split_whitespace() {
                assert!(known.contains(&word.split('=').next().unwrap()), "{line}");
            }
            assert!(rest.ends_with('.'), "a description ends with a full stop: {line}");
        }
        let notes = |of, name| fields()[&(of, name)].clone();
        assert_eq!(notes("FlowSpec", "steps").items, Bounds { least: Some(1), most: Some(10_000) });
        assert_eq!(notes("ExecutionPolicy", "backoffLimit").default, Some(Value::from(6)));
        assert_eq!(notes("BackoffSpec", "type").choices.unwrap(), ["Exponential", "Linear", "Fixed", ""]);
    }
}
