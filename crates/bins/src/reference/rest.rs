//! The page of the REST interface.

use orlop_core::schema;
use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::job::JobSpec;
use serde_json::Value;

use super::schemas::{Schemas, referred};
use super::{Named, Page, cell, code};

/// The name of the type of a body.
fn body(content: &Value) -> Option<(&str, Option<&str>)> {
    let (media, body) = content["content"].as_object()?.iter().next()?;
    Some((media, referred(&body["schema"])))
}

fn kind(content: &Value) -> String {
    match body(content) {
        Some((_, Some(name))) => format!("[{name}](#{})", super::anchor(name)),
        Some((media, None)) => code(media),
        None => "nothing".to_owned(),
    }
}

#[test]
fn the_page_of_the_rest_interface_is_that_of_its_table() {
    let document = crate::api::openapi::document();
    let intro = "What a scheduler answers over HTTP. `GET /api/v1/openapi.json` gives the same as an OpenAPI document. A request has a token in\n\
        `Authorization: Bearer TOKEN`, whose role must be at least the one below (viewer, submitter, operator, admin). A `POST` may have an\n\
        `Idempotency-Key`: repeated within a day it takes effect once and gets the same answer. An error is an `application/problem+json`\n\
        with one of the [codes](errors.md#rest-and-grpc).";
    let mut page = Page::new("rest.md", "REST", intro);
    let mut groups: Named<Vec<(String, String, &Value)>> = Named::new();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten().filter(|(_, value)| value.is_object()) {
            let tag = operation["tags"][0].as_str().unwrap_or("server").to_owned();
            groups.entry(tag).or_default().push((method.to_uppercase(), path.clone(), operation));
        }
    }
    let mut first = Vec::new();
    for (tag, operations) in &groups {
        page.heading(2, tag);
        for (method, path, operation) in operations {
            page.heading(3, &format!("`{method} {path}`"));
            let text = |key: &str| cell(operation[key].as_str().unwrap_or_default()).trim_end_matches('.').to_owned();
            page.paragraph(&format!("{}. {}.", text("summary"), text("description")));
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let rows = parameters.filter(|one| one["in"] == "query").map(|one| {
                [code(one["name"].as_str().unwrap_or_default()), cell(one["description"].as_str().unwrap_or_default())]
            });
            page.table(["query", "meaning"], &rows.collect::<Vec<_>>());
            let mut facts = Vec::new();
            if operation["requestBody"].is_object() {
                facts.push(format!("takes {}", kind(&operation["requestBody"])));
                first.extend(body(&operation["requestBody"]).and_then(|(_, name)| name));
            }
            for (status, answer) in operation["responses"].as_object().into_iter().flatten() {
                if status.starts_with('2') {
                    facts.push(format!("answers {status} with {}", kind(answer)));
                    first.extend(body(answer).and_then(|(_, name)| name));
                }
            }
            page.paragraph(&format!("It {}.", facts.join(", ")));
        }
    }
    page.heading(2, "Bodies");
    let mut elsewhere: Named<&'static str> = Named::new();
    for name in schema::components::<JobSpec>().into_iter().map(|(name, _)| name) {
        elsewhere.insert(name, "job.md");
    }
    for name in schema::components::<JobFlow>().into_iter().map(|(name, _)| name) {
        elsewhere.insert(name, "flow.md");
    }
    elsewhere.remove("JobSpec");
    let named = document["components"]["schemas"].as_object().into_iter().flatten();
    let named = named.map(|(name, schema)| (name.clone(), schema.clone())).collect();
    Schemas { named, elsewhere }.describe(&mut page, 3, &first);
    page.compare();
}
