//! The OpenAPI document: made of the table of routes and the shapes of their bodies.

use orlop_core::schema;
use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::job::JobSpec;
use serde_json::Value;
use utoipa::openapi::content::Content;
use utoipa::openapi::path::{OperationBuilder, ParameterBuilder, ParameterIn, PathItem, PathsBuilder};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{ComponentsBuilder, KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{InfoBuilder, OpenApiBuilder, RefOr, Required};

use super::BASE;
use super::route::{Method, Needs, Repeat, Route, shape};
use super::table::ROUTES;
use super::view::problem::ProblemView;
use crate::wire::problem::PROBLEM_JSON;

/// The whole document. Jobs and flows are described at their types.
#[must_use]
pub fn document() -> Value {
    let (mut components, problem) = shape::<ProblemView>(ComponentsBuilder::new());
    let mut paths = PathsBuilder::new();
    for route in ROUTES {
        let (operation, with) = operation(route, components, problem.clone());
        components = with;
        paths = paths.path(format!("{BASE}{}", route.path), PathItem::new(route.method.documented(), operation));
    }
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    let info = InfoBuilder::new()
        .title("Orlop")
        .version("1")
        .description(Some("Jobs on a fleet of workers: submit, watch, cancel; workers, tenants, quotas, tokens."));
    let routes = OpenApiBuilder::new()
        .info(info.build())
        .paths(paths.build())
        .components(Some(components.security_scheme("token", bearer).build()));
    let mut document = serde_json::to_value(routes.build()).unwrap_or_default();
    if let Some(schemas) = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut) {
        for (name, schema) in schema::components::<JobSpec>().into_iter().chain(schema::components::<JobFlow>()) {
            schemas.entry(name).or_insert(schema);
        }
    }
    document
}

fn text() -> Schema {
    ObjectBuilder::new().schema_type(Type::String).build().into()
}

fn operation(
    route: &Route,
    mut components: ComponentsBuilder,
    problem: RefOr<Schema>,
) -> (OperationBuilder, ComponentsBuilder) {
    let mut operation =
        OperationBuilder::new().operation_id(Some(route.name)).summary(Some(route.summary)).tag(tag(route));
    operation = match route.needs {
        Needs::Nothing => operation.description(Some("Anybody may call it.")),
        Needs::Role(role) => operation
            .description(Some(format!("Needs the role `{}`.", role.as_str())))
            .security(SecurityRequirement::new::<_, [&str; 0], &str>("token", [])),
    };
    let parts = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    for name in parts {
        operation = operation.parameter(parameter(name, ParameterIn::Path, "").required(Required::True));
    }
    for param in route.query {
        operation = operation.parameter(parameter(param.name, ParameterIn::Query, param.help));
    }
    if route.method == Method::Post && route.repeat != Repeat::Reads {
        let help = "The request takes effect once; repeated within a day it gets the same answer.";
        operation = operation.parameter(parameter("Idempotency-Key", ParameterIn::Header, help));
    }
    if let Some(shape) = route.request {
        let (with, schema) = shape(components);
        components = with;
        let required = if route.optional { Required::False } else { Required::True };
        let body = RequestBodyBuilder::new().content("application/json", Content::new(Some(schema)));
        let body = body.required(Some(required));
        operation = operation.request_body(Some(body.build()));
    }
    if route.raw {
        let bytes = Content::new(Some(RefOr::T(text())));
        let body = RequestBodyBuilder::new().content("application/octet-stream", bytes);
        operation = operation.request_body(Some(body.build()));
    }
    let (status, shape) = route.success;
    let content = match shape {
        Some(shape) => {
            let (with, schema) = shape(components);
            components = with;
            Some(schema)
        }
        None if status == 200 => Some(RefOr::T(text())),
        None => None,
    };
    for status in [status].iter().chain(route.also) {
        let mut success = ResponseBuilder::new().description("Done");
        if let Some(schema) = &content {
            success = success.content(route.media, Content::new(Some(schema.clone())));
        }
        operation = operation.response(status.to_string(), success.build());
    }
    let refused = ResponseBuilder::new().description("Refused").content(PROBLEM_JSON, Content::new(Some(problem)));
    operation = operation.response("default", refused.build());
    (operation, components)
}

fn tag(route: &Route) -> &'static str {
    route.name.split('.').next().unwrap_or_default()
}

/// What a parameter may be, by its name, which means the same on every route.
fn values(name: &str, place: &ParameterIn) -> Schema {
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let number = |least: u32, most: Option<u32>| {
        ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(least)).maximum(most)
    };
    let found = match (name, place) {
        ("limit", _) => number(1, Some(1000)),
        ("attempt" | "item", ParameterIn::Query) => number(0, Some(u32::MAX)),
        ("since_seq" | "offset", _) => number(0, None),
        ("follow" | "failed" | "object" | "force" | "timestamps", _) => ObjectBuilder::new().schema_type(Type::Boolean),
        ("stream", _) => text().enum_values(Some(["stdout", "stderr", "system"])),
        ("order", _) => text().enum_values(Some(["newest", "oldest"])),
        ("since", _) => text().format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime))),
        ("tenant", _) => text().pattern(Some("^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$")),
        ("label", _) => text().pattern(Some("^[^=]+=")),
        ("Idempotency-Key", _) => text().min_length(Some(1)).max_length(Some(128)).pattern(Some("^[!-~]+$")),
        _ => text(),
    };
    found.build().into()
}

fn parameter(name: &str, place: ParameterIn, help: &str) -> ParameterBuilder {
    let schema = values(name, &place);
    let parameter = ParameterBuilder::new().name(name).parameter_in(place).schema(Some(schema));
    if help.is_empty() { parameter } else { parameter.description(Some(help)) }
}

/// The document as text, with a line feed at its end.
pub(super) fn text_of(document: &Value) -> String {
    let mut text = serde_json::to_string_pretty(document).unwrap_or_default();
    text.push('\n');
    text
}
