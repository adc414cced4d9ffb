//! Answers without what differs by nature: uids, versions, times, generated names, the name of the namespace.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

/// Turns answers of one server into comparable ones.
pub(crate) struct Normal {
    namespace: String,
    uids: Vec<String>,
}

/// Members that the double leaves out or fills in with less detail; listed in the documentation of the double.
const LEFT_OUT: &[&str] = &["managedFields", "selfLink"];

/// Texts that show whole objects in the words of another language, versions, paths in one of two forms, or the line of a
/// server's own source.
static MASKS: LazyLock<[(Regex, &str); 6]> = LazyLock::new(|| {
    let mask = |pattern, by| (Regex::new(pattern).expect("a pattern"), by);
    [
        mask(r#"(?s)Invalid value: "\{.*\}": "#, "Invalid value: {}: "),
        mask(r"(?s)Invalid value: \{.*\}: ", "Invalid value: {}: "),
        mask(r"(?s)was previously negative\)\n.*", "was previously negative)"),
        mask(r"(record|object meta:|precondition) \(?\d+\)?", "$1 *"),
        mask(r#"in scheme "[^"]+""#, "in scheme *"),
        mask(r"(?:[\w.\[\]]+\.)?(\w+(?:\[\d+\])?) in body", "$1 in body"),
    ]
});

impl Normal {
    pub(crate) fn new(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), uids: Vec::new() }
    }

    pub(crate) fn of(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(members) => Value::Object(self.members(members)),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.of(item)).collect()),
            Value::String(text) => Value::String(self.text(text)),
            other => other.clone(),
        }
    }

    fn members(&mut self, members: &Map<String, Value>) -> Map<String, Value> {
        let mut out = Map::new();
        // First, for members that come before it may hold it.
        if let Some(uid) = members.get("uid").and_then(Value::as_str) {
            self.uid(uid);
        }
        for (name, value) in members {
            let masked = match name.as_str() {
                _ if LEFT_OUT.contains(&name.as_str()) => continue,
                // Some versions write it into templates, others do not.
                "creationTimestamp" if value.is_null() => continue,
                "resourceVersion" | "continue" if value.is_string() => Value::from("*"),
                // A patch that is refused says so once for each time it was tried, and managers that have a field come in
                // any order.
                "causes" => {
                    let Value::Array(mut causes) = self.of(value) else { continue };
                    let mut seen = Vec::new();
                    causes.retain(|cause| {
                        !seen.contains(cause) && {
                            seen.push(cause.clone());
                            true
                        }
                    });
                    causes.sort_by_key(Value::to_string);
                    Value::Array(causes)
                }
                "uid" if value.is_string() => Value::from(self.uid(value.as_str().unwrap_or_default())),
                _ => self.of(value),
            };
            out.insert(self.text(name), masked);
        }
        // Names that were generated are known by their prefix.
        if let Some(prefix) = out.get("generateName").and_then(Value::as_str).map(str::to_owned)
            && out.get("name").and_then(Value::as_str).is_some_and(|name| name.starts_with(&prefix))
        {
            out.insert("name".to_owned(), format!("{prefix}*").into());
        }
        out
    }

    fn uid(&mut self, uid: &str) -> String {
        let index = self.uids.iter().position(|known| known == uid).unwrap_or_else(|| {
            self.uids.push(uid.to_owned());
            self.uids.len() - 1
        });
        format!("uid-{index}")
    }

    fn text(&mut self, text: &str) -> String {
        let mut text = text.replace(&self.namespace, "NS");
        for (index, uid) in self.uids.iter().enumerate() {
            text = text.replace(uid, &format!("uid-{index}"));
        }
        for (mask, by) in MASKS.iter() {
            text = mask.replace_all(&text, *by).into_owned();
        }
        if let Some((start, _)) = text.split_once("continue key is not valid: ") {
            text = format!("{start}continue key is not valid");
        }
        if text.parse::<jiff::Timestamp>().is_ok() { "time".to_owned() } else { text }
    }
}
