//! What the tests of this module share: a small valid flow, changes to it, and violations as short lines.

use serde_json::{Map, Value, json};

use super::validate::Limits;
use super::violation::{Severity, Violation, Violations};

/// A flow of one step that breaks no rule.
pub(super) fn flow() -> Value {
    json!({
        "apiVersion": "workflow.kube-zen.io/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": "flow"},
        "spec": {"steps": [step("a")]},
    })
}

/// A step that breaks no rule.
pub(super) fn step(name: &str) -> Value {
    json!({"name": name, "template": {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "busybox", "command": ["true"]}]}}},
    }})
}

/// A step with more members.
pub(super) fn step_with(name: &str, members: Value) -> Value {
    let mut step = step(name);
    if let (Value::Object(step), Value::Object(members)) = (&mut step, members) {
        step.extend(members);
    }
    step
}

/// Sets the value at a dotted path, making what is missing; `spec.steps.0.name`, `-` appends to a list.
pub(super) fn set(root: &mut Value, path: &str, value: Value) {
    let mut at = root;
    for part in path.split('.') {
        if at.is_null() {
            *at = Value::Object(Map::new());
        }
        at = match at {
            Value::Array(list) => {
                let index = if part == "-" { list.len() } else { part.parse().unwrap() };
                list.resize(list.len().max(index + 1), Value::Null);
                &mut list[index]
            }
            other => other.as_object_mut().unwrap().entry(part).or_insert(Value::Null),
        };
    }
    *at = value;
}

/// Everything wrong with the small flow after changes.
pub(super) fn says<const N: usize>(changes: [(&str, Value); N]) -> String {
    says_under(&Limits::kubernetes(), changes)
}

/// Everything wrong with the small flow after changes, under limits.
pub(super) fn says_under<const N: usize>(limits: &Limits, changes: [(&str, Value); N]) -> String {
    let mut object = flow();
    for (path, value) in changes {
        set(&mut object, path, value);
    }
    let found = match super::jobflow::read_object(&object, limits) {
        Ok((_, warnings)) => warnings,
        Err(violations) => violations,
    };
    lines(&found)
}

/// Violations as lines: severity, code, field, message and help.
pub(super) fn lines(found: &Violations) -> String {
    found.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn line(violation: &Violation) -> String {
    let Violation { severity, code, path, message, help, .. } = violation;
    let severity = if *severity == Severity::Error { "error" } else { "warning" };
    let help = help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
    format!("{severity}[{code}] {path}: {message}{help}")
}
