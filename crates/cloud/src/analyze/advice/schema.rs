//! The forms that answers must have, strict: every key required, no others. Lengths stand in descriptions, since servers refuse
//! schemas with keywords that they do not know.

use serde_json::{Value, json};

use super::Point;

/// Items of a list of an answer that are read.
pub(super) const MAX_ITEMS: usize = 10;
/// Images that may come into question.
pub(super) const MAX_CANDIDATES: usize = 5;
/// Characters of a special requirement.
pub(super) const SPECIAL_CHARS: usize = 80;
/// Characters of a quote.
pub(super) const QUOTE_CHARS: usize = 200;
/// Characters of an explanation.
pub(super) const REASONING_CHARS: usize = 600;

/// The schema of a question.
pub(super) fn of(point: Point) -> Value {
    let whole = || json!({"type": ["integer", "null"]});
    let words = || json!({"type": ["string", "null"]});
    let reasoning = json!({"type": "string", "description": format!("at most {REASONING_CHARS} characters")});
    match point {
        Point::Requirements => object(&[
            ("cpu_cores", whole()),
            ("ram_gb", whole()),
            ("disk_gb", whole()),
            ("gpu_required", json!({"type": "boolean"})),
            ("gpu_count", whole()),
            ("gpu_memory_gb", whole()),
            ("cuda_required", json!({"type": "boolean"})),
            ("os_type", json!({"type": ["string", "null"], "enum": ["ubuntu", "centos", null]})),
            ("os_version", words()),
            ("python_version", words()),
            (
                "special_requirements",
                list(json!({"type": "string", "description": format!("at most {SPECIAL_CHARS} characters")})),
            ),
            (
                "evidence",
                list(object(&[
                    ("file", json!({"type": "string"})),
                    ("line", json!({"type": "integer"})),
                    (
                        "quote",
                        json!({"type": "string", "description": format!("the whole line, at most {QUOTE_CHARS} characters")}),
                    ),
                ])),
            ),
            ("reasoning", reasoning),
        ]),
        Point::ImageCandidates => object(&[
            (
                "candidates",
                json!({
                    "type": "array", "items": {"type": "integer"}, "description": format!("1 to {MAX_CANDIDATES} indexes, the best first"),
                }),
            ),
            ("reasoning", reasoning),
        ]),
        Point::FinalImage => object(&[("selected", json!({"type": "integer"})), ("reasoning", reasoning)]),
        Point::Duration => object(&[("duration_hours", json!({"type": "integer"})), ("reasoning", reasoning)]),
    }
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items, "description": format!("at most {MAX_ITEMS}")})
}

fn object(members: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
    let properties: serde_json::Map<String, Value> =
        members.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    json!({"type": "object", "additionalProperties": false, "required": names, "properties": properties})
}

/// The keys that an answer must have, and no others, in their fixed order.
pub(super) fn keys(point: Point) -> Vec<String> {
    let schema = of(point);
    let names = schema.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
