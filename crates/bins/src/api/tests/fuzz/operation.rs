//! What the document says of every operation, as far as requests are made of it and answers are checked against it.

use serde_json::Value;

use crate::api::document;

/// An operation of the document.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    /// Such as `jobs.submit`.
    pub(super) name: String,
    pub(super) method: String,
    /// Below the base, with its parts in braces.
    pub(super) path: String,
    pub(super) query: Vec<String>,
    /// The shape of its body in JSON.
    pub(super) body: Option<Value>,
    /// It takes bytes.
    pub(super) bytes: bool,
    /// Its good answers: status, and the shape of a body in JSON.
    pub(super) good: Vec<(u16, Option<Value>)>,
    /// A good answer is a stream without an end.
    pub(super) stream: bool,
    /// The caller needs a token.
    pub(super) secured: bool,
}

/// The document with its operations.
#[derive(Debug)]
pub(super) struct Document {
    json: Value,
    pub(super) operations: Vec<Operation>,
}

impl Document {
    pub(super) fn new() -> Self {
        let json = document();
        let mut operations = Vec::new();
        for (path, item) in json["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                operations.push(read(path, method, operation));
            }
        }
        Self { json, operations }
    }

    /// The shape that a reference names; a shape that is none is itself.
    pub(super) fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let mut schema = schema;
        while let Some(name) = schema["$ref"].as_str() {
            schema = &self.json["components"]["schemas"][name.rsplit('/').next().unwrap()];
        }
        schema
    }

    /// The shape of errors.
    pub(super) fn problem(&self) -> &Value {
        &self.json["components"]["schemas"]["Problem"]
    }

    /// What is wrong with a value of a shape, with its place.
    pub(super) fn faults(&self, schema: &Value, value: &Value, place: &str, faults: &mut Vec<String>) {
        let schema = self.resolve(schema);
        if let Some(choices) = schema["oneOf"].as_array() {
            let fits = |choice: &Value| {
                let mut inner = Vec::new();
                self.faults(choice, value, place, &mut inner);
                inner.is_empty()
            };
            if !choices.iter().any(fits) {
                faults.push(format!("{place}: {value} is none of its shapes"));
            }
            return;
        }
        let kinds = kinds(schema);
        if !kinds.is_empty() && !kinds.iter().any(|kind| is(kind, value)) {
            faults.push(format!("{place}: {value} is no {}", kinds.join(" or ")));
            return;
        }
        if let Some(fields) = value.as_object() {
            let known = schema["properties"].as_object();
            for name in schema["required"].as_array().into_iter().flatten() {
                if !fields.contains_key(name.as_str().unwrap()) {
                    faults.push(format!("{place}.{name} is missing"));
                }
            }
            for (name, inner) in fields {
                let inside = format!("{place}.{name}");
                match known.and_then(|known| known.get(name)) {
                    Some(schema) => self.faults(schema, inner, &inside, faults),
                    None if known.is_some() => faults.push(format!("{inside} is not in the document")),
                    None if schema["additionalProperties"].is_object() => {
                        self.faults(&schema["additionalProperties"], inner, &inside, faults);
                    }
                    None => {}
                }
            }
        }
        if let Some(items) = value.as_array().filter(|_| schema["items"].is_object()) {
            for (at, item) in items.iter().enumerate() {
                self.faults(&schema["items"], item, &format!("{place}[{at}]"), faults);
            }
        }
    }
}

/// The kinds that a shape allows; none = all.
pub(super) fn kinds(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(kind) => vec![kind.as_str()],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

fn read(path: &str, method: &str, operation: &Value) -> Operation {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let query = parameters.filter(|parameter| parameter["in"] == "query");
    let content = &operation["requestBody"]["content"];
    let json = &content["application/json"]["schema"];
    let answers = operation["responses"].as_object().unwrap();
    let good = answers.iter().filter_map(|(status, answer)| {
        let schema = &answer["content"]["application/json"]["schema"];
        let text = schema["type"] == "string";
        Some((status.parse().ok()?, (schema.is_object() && !text).then(|| schema.clone())))
    });
    Operation {
        name: operation["operationId"].as_str().unwrap().to_owned(),
        method: method.to_uppercase(),
        path: path.trim_start_matches("/api/v1").to_owned(),
        query: query.map(|parameter| parameter["name"].as_str().unwrap().to_owned()).collect(),
        body: json.is_object().then(|| json.clone()),
        bytes: content["application/octet-stream"].is_object(),
        good: good.collect(),
        stream: answers.values().any(|answer| answer["content"]["text/event-stream"].is_object()),
        secured: operation["security"].is_array(),
    }
}
