//! Terms of node affinities and tolerations, read and written. Owns their form in pods.

use orlop_core::hardware::merge::Term;
use orlop_core::hardware::placement::{LabelExpr, Operator, TaintEffect, Toleration};
use serde_json::{Map, Value, json};

/// A pod specification that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct PodError {
    /// Where.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

impl PodError {
    pub(super) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

/// A member that is a list; nothing where it is absent.
pub(super) fn list<'v>(object: &'v Value, name: &str, path: &str) -> Result<&'v [Value], PodError> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(entries)) => Ok(entries),
        Some(_) => Err(PodError::new(format!("{path}.{name}"), "must be a list")),
    }
}

/// A member that is a text.
pub(super) fn text<'v>(object: &'v Value, name: &str, path: &str) -> Result<Option<&'v str>, PodError> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(PodError::new(format!("{path}.{name}"), "must be a text")),
    }
}

fn expression(value: &Value, path: &str) -> Result<LabelExpr, PodError> {
    let need =
        |name: &str| text(value, name, path)?.ok_or_else(|| PodError::new(format!("{path}.{name}"), "is missing"));
    let operator = need("operator")?;
    let op =
        operator.parse::<Operator>().map_err(|error| PodError::new(format!("{path}.operator"), error.to_string()))?;
    let mut values = Vec::new();
    for entry in list(value, "values", path)? {
        values.push(entry.as_str().ok_or_else(|| PodError::new(format!("{path}.values"), "must be texts"))?);
    }
    Ok(LabelExpr::new(need("key")?, op, values))
}

fn expressions(term: &Value, name: &str, path: &str) -> Result<Vec<LabelExpr>, PodError> {
    let entries = list(term, name, path)?.iter().enumerate();
    entries.map(|(at, entry)| expression(entry, &format!("{path}.{name}[{at}]"))).collect()
}

/// Reads a term.
pub(super) fn term(value: &Value, path: &str) -> Result<Term, PodError> {
    Ok(Term {
        expressions: expressions(value, "matchExpressions", path)?,
        fields: expressions(value, "matchFields", path)?,
    })
}

/// Writes a term.
pub(super) fn term_value(term: &Term) -> Value {
    let mut value = Map::new();
    for (name, all) in [("matchExpressions", &term.expressions), ("matchFields", &term.fields)] {
        if !all.is_empty() {
            value.insert(name.to_owned(), all.iter().map(expression_value).collect());
        }
    }
    Value::Object(value)
}

fn expression_value(expression: &LabelExpr) -> Value {
    let mut value = json!({"key": expression.key, "operator": expression.op});
    if !expression.values.is_empty() {
        value["values"] = json!(expression.values);
    }
    value
}

/// Reads a toleration. One without a key and one that says `Exists` tolerate any value.
pub(super) fn toleration(value: &Value, path: &str) -> Result<Toleration, PodError> {
    let key = text(value, "key", path)?.filter(|key| !key.is_empty());
    let exists = match text(value, "operator", path)? {
        Some("Exists") => true,
        None | Some("" | "Equal") => false,
        Some(other) => {
            let message = format!("unknown operator `{other}`, allowed are Exists, Equal");
            return Err(PodError::new(format!("{path}.operator"), message));
        }
    };
    let effect = text(value, "effect", path)?.filter(|effect| !effect.is_empty());
    let effect = effect.map(str::parse::<TaintEffect>).transpose();
    Ok(Toleration {
        key: key.map(str::to_owned),
        value: if exists { None } else { Some(text(value, "value", path)?.unwrap_or_default().to_owned()) },
        effect: effect.map_err(|error| PodError::new(format!("{path}.effect"), error.to_string()))?,
    })
}

/// Writes a toleration.
pub(super) fn toleration_value(toleration: &Toleration) -> Value {
    let mut value = Map::new();
    if let Some(key) = &toleration.key {
        value.insert("key".to_owned(), json!(key));
    }
    match &toleration.value {
        None => value.insert("operator".to_owned(), json!("Exists")),
        Some(text) => {
            value.insert("operator".to_owned(), json!("Equal"));
            value.insert("value".to_owned(), json!(text))
        }
    };
    if let Some(effect) = toleration.effect {
        value.insert("effect".to_owned(), json!(effect));
    }
    Value::Object(value)
}
