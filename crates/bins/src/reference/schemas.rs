//! Fields of JSON schemas as tables: types, limits, defaults. For manifests and for bodies of requests.

use std::collections::{BTreeSet, VecDeque};

use serde_json::Value;

use super::{Named, Page, anchor, cell, code};

/// Schemas by name, and where those are described that this page does not describe.
pub(super) struct Schemas {
    pub(super) named: Named<Value>,
    pub(super) elsewhere: Named<&'static str>,
}

/// The name that a reference ends with.
pub(super) fn referred(schema: &Value) -> Option<&str> {
    let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
    let reference = reference.or_else(|| {
        let options = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array())?;
        let mut named = options.iter().filter_map(|option| option["$ref"].as_str());
        named.next().filter(|_| options.len() == 2 && options.iter().any(|option| option["type"] == "null"))
    });
    reference?.rsplit('/').next()
}

fn words(schema: &Value) -> Vec<String> {
    let values = schema["enum"].as_array().into_iter().flatten();
    let constants = schema["oneOf"].as_array().into_iter().flatten().map(|one| &one["const"]);
    let inside =
        schema["oneOf"].as_array().into_iter().flatten().flat_map(|one| one["enum"].as_array().into_iter().flatten());
    values.chain(constants).chain(inside).filter_map(Value::as_str).filter(|word| !word.is_empty()).map(code).collect()
}

impl Schemas {
    /// Whether a schema has fields of its own.
    fn is_object(&self, name: &str) -> bool {
        self.named.get(name).is_some_and(|schema| schema["properties"].is_object())
    }

    /// A type in words.
    fn kind(&self, schema: &Value, named: &mut Vec<String>) -> String {
        if let Some(name) = referred(schema) {
            if let Some(file) = self.elsewhere.get(name) {
                return format!("[{name}]({file}#{})", anchor(name));
            }
            if self.is_object(name) {
                named.push(name.to_owned());
                return format!("[{name}](#{})", anchor(name));
            }
            return self.named.get(name).map_or_else(|| name.to_owned(), |schema| self.kind(schema, named));
        }
        let words = words(schema);
        if !words.is_empty() {
            return words.join(", ");
        }
        let mut kinds: Vec<&str> = schema["type"].as_str().into_iter().collect();
        kinds.extend(schema["type"].as_array().into_iter().flatten().filter_map(Value::as_str));
        let one = |kind: &str, named: &mut Vec<String>| match kind {
            "array" => format!("list of {}", self.kind(&schema["items"], named)),
            "object" => match &schema["additionalProperties"] {
                value @ Value::Object(_) => format!("map of {}", self.kind(value, named)),
                _ => "object".to_owned(),
            },
            "string" => match schema["format"].as_str() {
                Some("date-time") => "time, RFC 3339".to_owned(),
                _ => "text".to_owned(),
            },
            other => other.to_owned(),
        };
        let mut text =
            kinds.iter().filter(|kind| **kind != "null").map(|kind| one(kind, named)).collect::<Vec<_>>().join(" or ");
        if text.is_empty() {
            text = "any value".to_owned();
        }
        for (key, word) in [
            ("minimum", "at least"),
            ("maximum", "at most"),
            ("minItems", "at least"),
            ("maxItems", "at most"),
            ("maxLength", "at most"),
        ] {
            if let Some(number) = schema[key].as_f64().filter(|number| number.abs() < 1e15) {
                let unit = if key.ends_with("Items") {
                    " items"
                } else if key == "maxLength" {
                    " characters"
                } else {
                    ""
                };
                text.push_str(&format!(", {word} {number}{unit}"));
            }
        }
        text
    }

    /// The fields of an object as a table.
    fn fields(&self, page: &mut Page, schema: &Value, named: &mut Vec<String>) {
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let rows = schema["properties"].as_object().into_iter().flatten().map(|(name, field)| {
            let kind = self.kind(field, named);
            let must = if required.contains(&name.as_str()) { "**required**. " } else { "" };
            let default = match &field["default"] {
                Value::Null => String::new(),
                Value::String(text) if text.is_empty() => String::new(),
                Value::Array(list) if list.is_empty() => String::new(),
                Value::Object(map) if map.is_empty() => String::new(),
                value => format!(" Default: {}.", code(&value.to_string())),
            };
            let about = cell(field["description"].as_str().unwrap_or_default());
            [code(name), kind, format!("{must}{about}{default}").trim().to_owned()]
        });
        let rows: Vec<_> = rows.collect();
        page.table(["field", "type", "meaning"], &rows);
    }

    /// Sections of these types and of all that they name, in the order in which they are named.
    pub(super) fn describe(&self, page: &mut Page, level: usize, first: &[&str]) {
        let mut queue: VecDeque<String> = first.iter().map(|name| (*name).to_owned()).collect();
        let mut done = BTreeSet::new();
        while let Some(name) = queue.pop_front() {
            let Some(schema) = self.named.get(&name).filter(|_| done.insert(name.clone())) else { continue };
            page.heading(level, &name);
            page.paragraph(&cell(schema["description"].as_str().unwrap_or_default()));
            let mut named = Vec::new();
            self.fields(page, schema, &mut named);
            if schema["properties"].is_null() {
                page.paragraph(&format!("Is {}.", self.kind(schema, &mut named)));
            }
            queue.extend(named);
        }
    }

    /// The schemas of a document with definitions, its root under its own name.
    pub(super) fn of(root: &str, document: &Value) -> Self {
        let mut named: Named<Value> = document["$defs"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, schema)| (name.clone(), schema.clone()))
            .collect();
        named.insert(root.to_owned(), document.clone());
        Self { named, elsewhere: Named::new() }
    }
}
