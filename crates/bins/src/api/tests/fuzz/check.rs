//! What every answer keeps to: no fault of the server, problems in their form, good answers as the document has them.

use orlop_core::error::Code;
use serde_json::{Value, json};

use super::super::fixture::Answer;
use super::operation::{Document, Operation};
use crate::wire::problem::PROBLEM_JSON;

/// What is wrong with an answer; nothing if it is as it must be.
pub(super) fn faults(document: &Document, operation: &Operation, answer: &Answer) -> Vec<String> {
    let mut faults = Vec::new();
    let mut must = |holds: bool, what: &str| {
        if !holds {
            faults.push(format!("{what}: {} {}", answer.status, answer.text));
        }
    };
    must(answer.status < 500, "a fault of the server");
    must(!answer.header("x-request-id").is_empty(), "no id of the request");
    must(!answer.text.contains("panicked") && !answer.text.contains(".rs:"), "a place in the program");
    match answer.status {
        200..300 => good(document, operation, answer, &mut faults),
        // What is asked of a part of an artifact that there is none of has no words of ours.
        416 => {}
        _ => problem(document, answer, &mut faults),
    }
    faults
}

fn good(document: &Document, operation: &Operation, answer: &Answer, faults: &mut Vec<String>) {
    let documented = operation.good.iter().find(|(status, _)| *status == answer.status);
    let Some((_, schema)) = documented else {
        faults.push(format!("{} is not in the document: {}", answer.status, answer.text));
        return;
    };
    let Some(schema) = schema else { return };
    if answer.header("content-type") != "application/json" {
        faults.push(format!("content type {}: {}", answer.header("content-type"), answer.text));
    }
    document.faults(schema, &answer.body(), "", faults);
}

fn problem(document: &Document, answer: &Answer, faults: &mut Vec<String>) {
    let body = answer.body();
    document.faults(document.problem(), &body, "", faults);
    let kind = body["type"].as_str().and_then(|kind| kind.strip_prefix("urn:orlop:error:"));
    let code = kind.and_then(Code::from_name);
    let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
    let placed = |error: &Value| error["message"].as_str().is_some_and(|message| !message.is_empty());
    let rules = [
        (answer.header("content-type") == PROBLEM_JSON, "its content type"),
        (code.is_some_and(|code| code.http() == answer.status), "its code and its status"),
        (body["status"] == json!(answer.status), "its status in words"),
        (text("instance") == answer.header("x-request-id"), "its request"),
        (!text("detail").is_empty() && !text("title").is_empty(), "its words"),
        (body["errors"].as_array().is_none_or(|errors| errors.iter().all(placed)), "its errors"),
    ];
    let broken = rules.iter().filter(|(holds, _)| !holds);
    faults.extend(broken.map(|(_, what)| format!("{what}: {} {}", answer.status, answer.text)));
}
