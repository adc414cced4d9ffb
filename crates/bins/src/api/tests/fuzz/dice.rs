//! Chance for requests: seeded, so that what was found is found again.

use serde_json::{Map, Value, json};

use super::operation::{Document, kinds};

/// Dice (SplitMix64).
#[derive(Clone, Debug)]
pub(super) struct Dice(pub(super) u64);

/// What is sent where a text is expected.
const TEXTS: &[&str] = &[
    "",
    " ",
    "x",
    "default",
    "*",
    "null",
    "0",
    "-1",
    "1e999",
    "2026-11-21T00:00:00Z",
    "10m",
    "{{index}}",
    "{{nobody}}",
    "../../etc/passwd",
    "a/b",
    "%00",
    "\u{0}",
    "\u{202e}",
    "💥",
    "a\nb",
    "0-99",
    "99-0",
    "0-4294967295",
    "Failed,Nothing",
    "k=v",
    "=",
    "' OR 1=1 --",
];

impl Dice {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below.
    pub(super) fn below(&mut self, below: usize) -> usize {
        usize::try_from(self.next() % below.max(1) as u64).unwrap()
    }

    /// True once in so many times.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(super) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    /// A text that is more or less what is expected.
    pub(super) fn text(&mut self) -> String {
        match self.below(8) {
            0 => "y".repeat(self.below(4000)),
            1 => format!("t{}", self.below(1000)),
            _ => self.pick(TEXTS).to_owned(),
        }
    }

    /// Anything.
    pub(super) fn anything(&mut self, depth: u32) -> Value {
        match self.below(if depth == 0 { 6 } else { 9 }) {
            0 => Value::Null,
            1 => json!(self.once_in(2)),
            2 => json!(self.next()),
            3 => json!(i64::from_ne_bytes(self.next().to_ne_bytes())),
            4 => json!(f64::from_bits(self.next() >> 2)),
            5 | 6 => json!(self.text()),
            7 => (0..self.below(4)).map(|_| self.anything(depth - 1)).collect(),
            _ => {
                let fields = (0..self.below(4)).map(|_| (self.text(), self.anything(depth - 1)));
                Value::Object(fields.collect::<Vec<_>>().into_iter().collect())
            }
        }
    }

    /// A value of a shape that the server should like, as far as the shape and the name tell.
    pub(super) fn good(&mut self, document: &Document, schema: &Value, name: &str) -> Value {
        let schema = document.resolve(schema);
        if let Some(hints) = hint(name) {
            return hints[self.below(hints.len())].clone();
        }
        if let Some(choices) = schema["oneOf"].as_array() {
            let choice = &choices[self.below(choices.len())];
            return self.good(document, choice, name);
        }
        let kinds = kinds(schema);
        if kinds.is_empty() {
            return self.anything(1);
        }
        match self.pick(&kinds) {
            "null" => Value::Null,
            "boolean" => json!(self.once_in(2)),
            "integer" => json!(self.below(100)),
            "number" => json!(0.5),
            "string" => json!(format!("t{}", self.below(20))),
            "array" => (0..=self.below(2)).map(|_| self.good(document, &schema["items"], name)).collect(),
            _ => self.object(document, schema),
        }
    }

    fn object(&mut self, document: &Document, schema: &Value) -> Value {
        let Some(known) = schema["properties"].as_object() else { return json!({}) };
        let required = schema["required"].as_array();
        // A job says what it runs: that cannot be read from the shape.
        let job = known.contains_key("runtime");
        let rare = if job { 12 } else { 2 };
        let mut fields = Map::new();
        for (name, inner) in known {
            let wanted = required.is_some_and(|required| required.iter().any(|field| field == name));
            if wanted || self.once_in(rare) {
                fields.insert(name.clone(), self.good(document, inner, name));
            }
        }
        if job {
            fields.insert("runtime".to_owned(), json!("noop"));
            ["image", "pull", "shell", "script", "gang"].iter().for_each(|field| drop(fields.remove(*field)));
        }
        Value::Object(fields)
    }

    /// Spoils a value in one place.
    pub(super) fn spoil(&mut self, value: &mut Value) {
        match value {
            Value::Object(fields) if !fields.is_empty() && !self.once_in(4) => {
                let name = fields.keys().nth(self.below(fields.len())).cloned().unwrap();
                match self.below(4) {
                    0 => drop(fields.remove(&name)),
                    1 => self.spoil(fields.get_mut(&name).unwrap()),
                    2 => drop(fields.insert(name, self.anything(2))),
                    _ => drop(fields.insert(self.text(), self.anything(1))),
                }
            }
            Value::Array(items) if !items.is_empty() && !self.once_in(4) => {
                let at = self.below(items.len());
                self.spoil(&mut items[at]);
            }
            _ => *value = self.anything(3),
        }
    }
}

fn flow() -> Value {
    json!({
        "apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": { "name": "nightly" },
        "spec": { "steps": [{ "name": "gate", "type": "Manual", "message": "may it go on?" }] },
    })
}

/// Values for fields whose meaning their shape does not tell.
fn hint(name: &str) -> Option<Vec<Value>> {
    let texts = |texts: &[&str]| Some(texts.iter().map(|text| json!(text)).collect());
    match name {
        "tenant" => texts(&["default"]),
        "tenants" => Some(vec![json!(["default"]), json!(["*"])]),
        "role" => texts(&["viewer", "submitter", "operator", "admin"]),
        "state" => texts(&["active", "paused"]),
        "deadline" | "expires_in" | "ttl" => texts(&["10m", "1h"]),
        "since" | "not_before" => texts(&["2026-11-21T00:00:00Z"]),
        "elements" => texts(&["0-1", "0"]),
        "overlap" => texts(&["allow", "forbid"]),
        "survive_agent" => texts(&["auto"]),
        "on_exceed" => texts(&["wait"]),
        "backend" => texts(&["process", "docker"]),
        "working_dir" => texts(&["w"]),
        "priority" | "priority_best" => Some(vec![json!(0), json!(5), json!(9)]),
        "weight" | "uses" | "retries" => Some(vec![json!(1), json!(7)]),
        "bytes" => Some(vec![json!(4)]),
        "success_codes" => Some(vec![json!([0])]),
        "command" => Some(vec![json!(["true"])]),
        "steps" => Some(vec![json!([])]),
        "env" => Some(vec![json!({ "A": "b" })]),
        "label" | "parameters" | "retry" | "quota" | "max_gpus_by_kind" => Some(vec![json!({})]),
        "artifacts_in" | "secret_refs" | "prefers" => Some(vec![json!([])]),
        "artifacts_out" => Some(vec![json!([{ "name": "o", "path": "o", "required": false }])]),
        "resources" => Some(vec![json!({ "cpu_m": 10, "memory_bytes": "1Mi" })]),
        "requires" => Some(vec![json!({ "labels": [{ "key": "z", "op": "exists" }] })]),
        "array" => Some(vec![json!({ "count": 3 }), json!({ "indices": "0-1,5" })]),
        "log" => Some(vec![json!({ "limit": 1000 })]),
        "definition" => Some(vec![flow()]),
        _ => None,
    }
}
