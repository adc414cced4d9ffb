//! Label and field selectors: parsed once a request, matched against each object.

use serde_json::Value;

use super::kind::{Builtin, Kind};
use super::object::{Object, at, label};
use super::refusal::{Refusal, Result};

/// Both selectors of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<(Vec<String>, bool, String)>,
}

/// One requirement on labels.
#[derive(Clone, Debug)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Missing(String),
}

impl Selector {
    /// Parses both; an unknown field is refused as an API server refuses it.
    pub(crate) fn parse(labels: &str, fields: &str, kind: &Kind) -> Result<Self> {
        Ok(Self { labels: parse_labels(labels)?, fields: parse_fields(fields, kind)? })
    }

    /// Of labels alone.
    pub(crate) fn of_labels(labels: &str) -> Result<Self> {
        Ok(Self { labels: parse_labels(labels)?, fields: Vec::new() })
    }

    /// Whether it selects everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether it is of one name: then one object is read, and not a list.
    pub(crate) fn names_one(&self) -> bool {
        self.fields.iter().any(|(path, equal, _)| *equal && path.iter().eq(["metadata", "name"]))
    }

    /// Whether it selects this object.
    pub(crate) fn matches(&self, object: &Object) -> bool {
        self.labels.iter().all(|requirement| requirement.holds(object))
            && self.fields.iter().all(|(path, equal, value)| (field(object, path) == *value) == *equal)
    }
}

impl Requirement {
    fn holds(&self, object: &Object) -> bool {
        match self {
            Self::In(key, values) => label(object, key).is_some_and(|value| values.iter().any(|other| other == value)),
            Self::NotIn(key, values) => {
                label(object, key).is_none_or(|value| values.iter().all(|other| other != value))
            }
            Self::Exists(key) => label(object, key).is_some(),
            Self::Missing(key) => label(object, key).is_none(),
        }
    }
}

fn field(object: &Object, path: &[String]) -> String {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    match at(object, &path) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

fn parse_labels(text: &str) -> Result<Vec<Requirement>> {
    let mut list = Vec::new();
    let mut depth = 0_usize;
    let pieces = text.split(|letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    });
    for piece in pieces.map(str::trim).filter(|piece| !piece.is_empty()) {
        list.push(requirement(piece).ok_or_else(|| {
            let found = piece.split_whitespace().nth(1).unwrap_or(piece);
            Refusal::bad_request(format!(
                "unable to parse requirement: found '{found}', expected: in, notin, =, ==, !=, gt, lt"
            ))
        })?);
    }
    Ok(list)
}

fn requirement(piece: &str) -> Option<Requirement> {
    let values = |text: &str| -> Option<Vec<String>> {
        let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some(inner.split(',').map(|value| value.trim().to_owned()).collect())
    };
    if let Some((key, rest)) = piece.split_once(" notin ") {
        return Some(Requirement::NotIn(key.trim().to_owned(), values(rest)?));
    }
    if let Some((key, rest)) = piece.split_once(" in ") {
        return Some(Requirement::In(key.trim().to_owned(), values(rest)?));
    }
    let one = |key: &str, value: &str| (key.trim().to_owned(), vec![value.trim().to_owned()]);
    if let Some((key, value)) = piece.split_once("!=") {
        let (key, values) = one(key, value);
        return Some(Requirement::NotIn(key, values));
    }
    if let Some((key, value)) = piece.split_once("==").or_else(|| piece.split_once('=')) {
        let (key, values) = one(key, value);
        return (!key.is_empty()).then_some(Requirement::In(key, values));
    }
    if let Some(key) = piece.strip_prefix('!') {
        return Some(Requirement::Missing(key.trim().to_owned()));
    }
    (!piece.contains([' ', '(', ')'])).then(|| Requirement::Exists(piece.to_owned()))
}

fn parse_fields(text: &str, kind: &Kind) -> Result<Vec<(Vec<String>, bool, String)>> {
    let mut list = Vec::new();
    for piece in text.split(',').filter(|piece| !piece.is_empty()) {
        let (key, equal, value) = if let Some((key, value)) = piece.split_once("!=") {
            (key, false, value)
        } else if let Some((key, value)) = piece.split_once("==").or_else(|| piece.split_once('=')) {
            (key, true, value)
        } else {
            return Err(Refusal::bad_request(format!("invalid selector: '{piece}'; can't understand '{piece}'")));
        };
        if !known(kind, key) {
            return Err(unknown(kind, key));
        }
        list.push((key.split('.').map(str::to_owned).collect(), equal, value.to_owned()));
    }
    Ok(list)
}

/// The fields that a kind can be selected by.
fn known(kind: &Kind, key: &str) -> bool {
    let more: &[&str] = match kind.habits.builtin {
        Builtin::Pod => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
        ],
        Builtin::Job => &["status.successful"],
        Builtin::Namespace => &["status.phase"],
        Builtin::Node => &["spec.unschedulable"],
        Builtin::Event => &[
            "regarding.kind",
            "regarding.name",
            "regarding.namespace",
            "regarding.uid",
            "reason",
            "type",
            "reportingController",
        ],
        Builtin::Data if kind.kind == "Secret" => &["type"],
        _ => &[],
    };
    key == "metadata.name" || key == "metadata.namespace" || more.contains(&key)
}

fn unknown(kind: &Kind, key: &str) -> Box<Refusal> {
    let message = match kind.habits.builtin {
        Builtin::Pod | Builtin::Job | Builtin::Namespace | Builtin::Node | Builtin::Event => {
            format!("field label not supported: {key}")
        }
        _ => format!("\"{key}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
    };
    let message = if kind.is_custom() { format!("field label not supported: {key}") } else { message };
    Refusal::bad_request(message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn picks(selector: &str, labels: Value) -> bool {
        let object = json!({"metadata": {"labels": labels}}).as_object().cloned().expect("an object");
        Selector { labels: parse_labels(selector).expect("a selector"), fields: Vec::new() }.matches(&object)
    }

    #[test]
    fn every_operator_of_label_selectors_is_known() {
        assert!(picks("a=b,c in (d, e),!f", json!({"a": "b", "c": "e"})));
        assert!(!picks("a=b", json!({})));
        assert!(picks("a!=b,a notin (c)", json!({})));
        assert!(!picks("a notin (c)", json!({"a": "c"})));
        assert!(picks("a", json!({"a": ""})));
        assert!(!picks("!a", json!({"a": ""})));
        assert!(parse_labels("a in b").is_err());
    }
}
