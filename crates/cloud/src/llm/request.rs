//! Requests and answers of chat completions as values (provisioner contract, 4.1). Owns the forms, what to leave out when a
//! server does not know a parameter, and the meaning of each status; sends nothing.

use std::time::Duration;

use orlop_core::error::{Class, PortError};
use orlop_core::ports::advisor::{MAX_REPLY, Question};
use serde_json::{Value, json};

use super::settings::Settings;
use crate::scrub::scrubbed;

/// The longest wait that a server may ask for.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// How the form of the answer is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Schema,
    Object,
    Nothing,
}

/// Which parameters a server knows; it begins with all of them and steps down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) format: Format,
    pub(super) completion_tokens: bool,
    pub(super) sampling: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self { format: Format::Schema, completion_tokens: false, sampling: true }
    }
}

impl Shape {
    /// The shape without the parameter that a refusal names; nothing if it names none that can go.
    fn without(mut self, refusal: &str) -> Option<Self> {
        let small = refusal.to_lowercase();
        let names = |words: &[&str]| words.iter().any(|word| small.contains(word));
        if !self.completion_tokens && names(&["max_tokens"]) {
            self.completion_tokens = true;
        } else if self.format != Format::Nothing && names(&["response_format", "json_schema", "json_object", "schema"])
        {
            self.format = if self.format == Format::Schema { Format::Object } else { Format::Nothing };
        } else if self.sampling && names(&["temperature", "seed"]) {
            self.sampling = false;
        } else {
            return None;
        }
        Some(self)
    }
}

/// The body of a question.
pub(super) fn body(settings: &Settings, shape: Shape, question: &Question) -> Value {
    let mut messages: Vec<Value> = question
        .messages
        .iter()
        .map(|message| json!({"role": message.speaker.name(), "content": message.text}))
        .collect();
    if shape.format != Format::Schema {
        // The server does not tell the model, so the question does.
        messages.push(json!({"role": "user", "content": format!("The schema of the answer: {}", question.schema)}));
    }
    let mut body = json!({"model": settings.model, "messages": messages});
    let mut set = |key: &str, value: Value| {
        if let Some(members) = body.as_object_mut() {
            members.insert(key.to_owned(), value);
        }
    };
    if shape.sampling {
        set("temperature", json!(0));
        set("seed", json!(1));
    }
    set(if shape.completion_tokens { "max_completion_tokens" } else { "max_tokens" }, json!(settings.max_tokens));
    match shape.format {
        Format::Schema => {
            let schema = json!({"name": question.name, "strict": true, "schema": question.schema});
            set("response_format", json!({"type": "json_schema", "json_schema": schema}));
        }
        Format::Object => set("response_format", json!({"type": "json_object"})),
        Format::Nothing => {}
    }
    body
}

/// What an answer of the server means.
#[derive(Debug)]
pub(super) enum Meaning {
    /// The model's words and what they cost.
    Said { text: String, tokens: u64 },
    /// Ask again in another shape.
    StepDown(Shape),
    /// Ask again later.
    Later { why: String, wait: Option<Duration> },
    /// Nothing more to do.
    Failed(PortError),
}

/// Reads an answer of the server.
pub(super) fn meaning(status: u16, retry_after: Option<&str>, body: &[u8], shape: Shape) -> Meaning {
    let failed = |class: Class, message: String| Meaning::Failed(PortError::new(class, message));
    match status {
        200 => said(body),
        400 | 422 => match shape.without(&String::from_utf8_lossy(body)) {
            Some(shape) => Meaning::StepDown(shape),
            None => failed(Class::Invalid, format!("the endpoint answered {status}: {}", complaint(body))),
        },
        401 | 403 => failed(Class::Denied, format!("the endpoint answered {status}")),
        408 | 429 | 500..=599 => {
            let seconds = retry_after.and_then(|text| text.trim().parse::<u64>().ok());
            let wait = seconds.map(|seconds| Duration::from_secs(seconds).min(MAX_WAIT));
            Meaning::Later { why: format!("the endpoint answered {status}"), wait }
        }
        300..=399 => failed(Class::Invalid, format!("the endpoint answered {status}; redirects are not followed")),
        _ => failed(Class::Invalid, format!("the endpoint answered {status}: {}", complaint(body))),
    }
}

/// A few words of an error, without secrets.
fn complaint(body: &[u8]) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = value.pointer("/error/message").or_else(|| value.get("message")).and_then(Value::as_str);
    let text: String = message.unwrap_or("no reason given").chars().filter(|ch| !ch.is_control()).take(600).collect();
    scrubbed(&text).chars().take(200).collect()
}

/// The content of the first choice.
fn said(body: &[u8]) -> Meaning {
    let invalid = |message: &str| Meaning::Failed(PortError::new(Class::Invalid, message));
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        return invalid("the answer of the endpoint is not JSON");
    };
    let Some(choice) = value.pointer("/choices/0") else { return invalid("the endpoint gave no answer") };
    let refusal = choice.pointer("/message/refusal").and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if refusal {
        return invalid("the model refuses to answer");
    }
    match choice.get("finish_reason").and_then(Value::as_str) {
        Some("length") => return invalid("the answer was cut off; raise OPENAI_MAX_TOKENS"),
        Some("content_filter") => return invalid("a filter took the answer out"),
        _ => {}
    }
    let Some(text) = choice.pointer("/message/content").and_then(Value::as_str) else {
        return invalid("the endpoint gave no answer");
    };
    let end = (0..=MAX_REPLY.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let tokens = value.pointer("/usage/total_tokens").and_then(Value::as_u64).unwrap_or(0);
    Meaning::Said { text: text.get(..end).unwrap_or_default().to_owned(), tokens }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orlop_core::ports::advisor::{Message, Speaker};

    fn question() -> Question {
        let messages = vec![Message::new(Speaker::System, "s"), Message::new(Speaker::User, "u")];
        Question { name: "duration", messages, schema: json!({"type": "object"}) }
    }

    fn settings() -> Settings {
        Settings::read(|name| (name == "OPENAI_API_KEY").then(|| "hush".to_owned())).unwrap()
    }

    #[test]
    fn s4_1_the_request_as_the_contract_has_it() {
        insta::assert_snapshot!(body(&settings(), Shape::default(), &question()), @r#"{"model":"gpt-4o","messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}],"temperature":0,"seed":1,"max_tokens":1500,"response_format":{"type":"json_schema","json_schema":{"name":"duration","strict":true,"schema":{"type":"object"}}}}"#);
    }

    #[test]
    fn s4_1_a_400_that_names_a_parameter_steps_down_and_ends() {
        let mut shape = Shape::default();
        let steps = ["max_tokens", "response_format", "Invalid schema for response_format", "'seed'"];
        for refusal in steps {
            let body = json!({"error": {"message": format!("unknown parameter {refusal}")}}).to_string();
            let Meaning::StepDown(next) = meaning(400, None, body.as_bytes(), shape) else { panic!("{refusal}") };
            assert_ne!(next, shape);
            shape = next;
        }
        insta::assert_snapshot!(body(&settings(), shape, &question()), @r#"{"model":"gpt-4o","messages":[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"user","content":"The schema of the answer: {\"type\":\"object\"}"}],"max_completion_tokens":1500}"#);
        for refusal in steps {
            assert!(matches!(meaning(400, None, refusal.as_bytes(), shape), Meaning::Failed(_)), "{refusal}");
        }
    }

    #[test]
    fn s4_1_every_status_has_its_meaning() {
        let class = |status, body: &str| match meaning(status, Some("99"), body.as_bytes(), Shape::default()) {
            Meaning::Said { text, tokens } => format!("{text}/{tokens}"),
            Meaning::StepDown(_) => "step".to_owned(),
            Meaning::Later { wait, .. } => format!("later {:?}", wait.unwrap()),
            Meaning::Failed(error) => format!("{}: {error}", error.class),
        };
        let answer = |choice: Value| json!({"choices": [choice], "usage": {"total_tokens": 7}}).to_string();
        let said = answer(json!({"message": {"content": "{}"}, "finish_reason": "stop"}));
        let cut = answer(json!({"message": {"content": "{"}, "finish_reason": "length"}));
        let filtered = answer(json!({"message": {"content": "{}"}, "finish_reason": "content_filter"}));
        let refused = answer(json!({"message": {"refusal": "no", "content": null}}));
        let leak = json!({"error": {"message": format!("bad key sk-{} of ann@mail.example", "a1b2c3d4e5f6g7h8i9")}})
            .to_string();
        let told = [
            class(200, &said),
            class(200, &cut),
            class(200, &filtered),
            class(200, &refused),
            class(200, "{}"),
            class(200, "<html>"),
            class(302, ""),
            class(400, &leak),
            class(401, &leak),
            class(403, ""),
            class(404, ""),
            class(429, ""),
            class(500, ""),
            class(503, "<html>"),
        ];
        insta::assert_snapshot!(told.join("\n"), @r"
        {}/7
        invalid: the answer was cut off; raise OPENAI_MAX_TOKENS
        invalid: a filter took the answer out
        invalid: the model refuses to answer
        invalid: the endpoint gave no answer
        invalid: the answer of the endpoint is not JSON
        invalid: the endpoint answered 302; redirects are not followed
        invalid: the endpoint answered 400: bad key [scrubbed:token] of [scrubbed:e-mail]
        denied: the endpoint answered 401
        denied: the endpoint answered 403
        invalid: the endpoint answered 404: no reason given
        later 20s
        later 20s
        later 20s
        ");
    }
}
