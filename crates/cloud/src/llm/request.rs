//! Requests and answers of chat completions as values. Owns the forms, what to leave out when a
//! server does not know a parameter, and the meaning of each status; sends nothing.

use std::borrow::Cow;
use std::time::Duration;

use orlop_core::error::{Class, Problem};
use orlop_core::ports::advisor::{MAX_REPLY, Question};
use serde_json::{Value, json};

use super::settings::Settings;
use crate::scrub::scrubbed;

/// The longest wait that a server may ask for.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// Tags between which models think aloud.
const THOUGHTS: [&str; 4] = ["think", "thinking", "thought", "reasoning"];

/// How often a model thinks aloud before its answer.
const MAX_THOUGHTS: usize = 8;

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
    Failed(Problem),
}

/// Reads an answer of the server.
pub(super) fn meaning(status: u16, retry_after: Option<&str>, body: &[u8], shape: Shape) -> Meaning {
    let failed = |class: Class, message: String| Meaning::Failed(Problem::new(class, message));
    match status {
        200 => said(body),
        400 | 422 => match shape.without(&String::from_utf8_lossy(body)) {
            Some(shape) => Meaning::StepDown(shape),
            None => failed(Class::Invalid, format!("the endpoint answered {status}: {}", complaint(body))),
        },
        401 | 403 => failed(Class::Denied, format!("the endpoint answered {status}")),
        402 => failed(Class::Denied, used_up(status)),
        429 if is_used_up(body) => failed(Class::Denied, used_up(status)),
        408 | 429 | 500..=599 => {
            let seconds = retry_after.and_then(|text| text.trim().parse::<u64>().ok());
            let wait = seconds.map(|seconds| Duration::from_secs(seconds).min(MAX_WAIT));
            Meaning::Later { why: format!("the endpoint answered {status}"), wait }
        }
        300..=399 => failed(Class::Invalid, format!("the endpoint answered {status}; redirects are not followed")),
        _ => failed(Class::Invalid, format!("the endpoint answered {status}: {}", complaint(body))),
    }
}

fn used_up(status: u16) -> String {
    format!("the endpoint answered {status}: the quota of the key is used up")
}

/// Whether an error says that nothing is left of a quota, which no waiting brings back.
fn is_used_up(body: &[u8]) -> bool {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let of = |key: &str| value.pointer(&format!("/error/{key}")).and_then(Value::as_str).unwrap_or_default();
    let is_code = |code: &str| ["insufficient_quota", "billing_hard_limit_reached"].contains(&code);
    is_code(of("code")) || is_code(of("type")) || of("message").to_lowercase().contains("exceeded your current quota")
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
    let invalid = |message: &str| Meaning::Failed(Problem::new(Class::Invalid, message));
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        return invalid("the answer of the endpoint is not JSON");
    };
    let Some(choice) = value.pointer("/choices/0") else { return invalid("the endpoint gave no answer") };
    let refuses = |message: &Value| message.get("refusal").and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    let message = choice.get("message").unwrap_or(&Value::Null);
    let content = message.get("content").unwrap_or(&Value::Null);
    if refuses(message) || content.as_array().is_some_and(|parts| parts.iter().any(refuses)) {
        return invalid("the model refuses to answer");
    }
    match choice.get("finish_reason").and_then(Value::as_str) {
        Some("length") => return invalid("the answer was cut off; raise OPENAI_MAX_TOKENS"),
        Some("content_filter") => return invalid("a filter took the answer out"),
        _ => {}
    }
    let Some(text) = text_of(content) else { return invalid("the endpoint gave no answer") };
    let text = answered(&text);
    let end = (0..=MAX_REPLY.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let tokens = value.pointer("/usage/total_tokens").and_then(Value::as_u64).unwrap_or(0);
    Meaning::Said { text: text.get(..end).unwrap_or_default().to_owned(), tokens }
}

/// The text of a content, which may come in parts.
fn text_of(content: &Value) -> Option<Cow<'_, str>> {
    match content {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Array(parts) => {
            let is_text =
                |part: &&Value| part.get("type").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("text"));
            let texts: Vec<&str> =
                parts.iter().filter(is_text).filter_map(|part| part.get("text").and_then(Value::as_str)).collect();
            (!texts.is_empty()).then(|| Cow::Owned(texts.concat()))
        }
        _ => None,
    }
}

/// What a model answers, without what it thinks aloud before: between tags, the first of which some servers leave out.
fn answered(text: &str) -> &str {
    let small = text.to_ascii_lowercase();
    let mut from = 0;
    for _ in 0..MAX_THOUGHTS {
        let rest = small.get(from..).unwrap_or_default();
        if rest.trim_start().starts_with('{') {
            break;
        }
        let end = THOUGHTS.iter().filter_map(|name| {
            let tag = format!("</{name}>");
            Some(rest.find(&tag)? + tag.len())
        });
        match end.min() {
            Some(end) => from += end,
            None if THOUGHTS.iter().any(|name| rest.trim_start().starts_with(&format!("<{name}>"))) => return "",
            None => break,
        }
    }
    text.get(from..).unwrap_or_default()
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
    fn the_request_as_the_contract_has_it() {
        insta::assert_snapshot!(body(&settings(), Shape::default(), &question()), @r#"{"max_tokens":1500,"messages":[{"content":"s","role":"system"},{"content":"u","role":"user"}],"model":"gpt-4o","response_format":{"json_schema":{"name":"duration","schema":{"type":"object"},"strict":true},"type":"json_schema"},"seed":1,"temperature":0}"#);
    }

    #[test]
    fn a_400_that_names_a_parameter_steps_down_and_ends() {
        let mut shape = Shape::default();
        let steps = ["max_tokens", "response_format", "Invalid schema for response_format", "'seed'"];
        for refusal in steps {
            let body = json!({"error": {"message": format!("unknown parameter {refusal}")}}).to_string();
            let Meaning::StepDown(next) = meaning(400, None, body.as_bytes(), shape) else { panic!("{refusal}") };
            assert_ne!(next, shape);
            shape = next;
        }
        insta::assert_snapshot!(body(&settings(), shape, &question()), @r#"{"max_completion_tokens":1500,"messages":[{"content":"s","role":"system"},{"content":"u","role":"user"},{"content":"The schema of the answer: {\"type\":\"object\"}","role":"user"}],"model":"gpt-4o"}"#);
        for refusal in steps {
            assert!(matches!(meaning(400, None, refusal.as_bytes(), shape), Meaning::Failed(_)), "{refusal}");
        }
    }

    #[test]
    fn what_a_model_thinks_before_it_answers_is_no_answer() {
        let given = |content: &Value| {
            let body = json!({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}).to_string();
            match meaning(200, None, body.as_bytes(), Shape::default()) {
                Meaning::Said { text, .. } => text,
                other => format!("{other:?}"),
            }
        };
        let good = r#"{"cpu_cores": 8}"#;
        for before in [
            r#"<think>maybe {"cpu_cores": 1}</think>"#,
            "\n<think>\n\n</think>\n\n",
            r#"maybe {"cpu_cores": 1}, or two</think>"#,
            "<thinking>{</thinking><think>}</think>",
            "<Reasoning>x</Reasoning>",
        ] {
            assert_eq!(given(&json!(format!("{before}{good}"))).trim(), good, "{before}");
        }
        let whole = r#"{"reasoning": "</think> is a word"}"#;
        assert_eq!(given(&json!(whole)), whole, "words within an answer are its own");
        assert_eq!(given(&json!(format!("<think>x</think>{whole}"))), whole);
        assert_eq!(given(&json!("<think>maybe {\"cpu_cores\": 1}")), "", "it never came to an answer");
        assert_eq!(given(&json!("")), "");
    }

    #[test]
    fn content_in_parts_is_read_as_one_text() {
        let given = |content: Value| {
            let body = json!({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}).to_string();
            format!("{:?}", meaning(200, None, body.as_bytes(), Shape::default()))
        };
        let parts = json!([{"type": "thinking", "thinking": [{"type": "text", "text": "{}"}]}, {"type": "text", "text": "{\"a\":"}, {"type": "text", "text": " 1}"}]);
        assert!(given(parts).contains(r#"text: "{\"a\": 1}""#));
        assert!(given(json!([{"type": "refusal", "refusal": "no"}])).contains("the model refuses to answer"));
        for nothing in [json!([]), json!([{"type": "image"}]), json!([1, null]), json!({"type": "text"}), json!(null)] {
            assert!(given(nothing.clone()).contains("the endpoint gave no answer"), "{nothing}");
        }
    }

    #[test]
    fn a_quota_that_is_used_up_does_not_come_back_by_asking_again() {
        let class = |status, error: Value| match meaning(status, None, error.to_string().as_bytes(), Shape::default()) {
            Meaning::Failed(error) => format!("{}: {error}", error.class),
            other => format!("{other:?}"),
        };
        for error in [
            json!({"error": {"code": "insufficient_quota", "message": "x"}}),
            json!({"error": {"type": "insufficient_quota", "message": "x"}}),
            json!({"error": {"code": "billing_hard_limit_reached"}}),
            json!({"error": {"message": "You exceeded your current quota, please check your plan and billing details."}}),
        ] {
            assert_eq!(
                class(429, error.clone()),
                "denied: the endpoint answered 429: the quota of the key is used up",
                "{error}"
            );
        }
        assert_eq!(class(402, json!({})), "denied: the endpoint answered 402: the quota of the key is used up");
        assert!(
            class(429, json!({"error": {"code": "rate_limit_exceeded", "message": "slow down"}})).starts_with("Later")
        );
        assert!(class(429, json!({"error": {"code": 429, "message": null}})).starts_with("Later"));
    }

    #[test]
    fn every_status_has_its_meaning() {
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
        let reported = [
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
        insta::assert_snapshot!(reported.join("\n"), @r"
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
