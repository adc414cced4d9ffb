//! The `Status` objects with which an API server refuses: code, reason, message, details. Never decides whether to refuse.

use serde_json::{Value, json};

use super::kind::{Builtin, Kind};

/// What a call of the double comes to.
pub(crate) type Result<T> = std::result::Result<T, Box<Refusal>>;

/// A refusal, as the body of the answer.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    /// HTTP status code.
    pub(crate) code: u16,
    reason: &'static str,
    /// What people read.
    pub(crate) message: String,
    details: Value,
}

/// One field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    reason: &'static str,
    /// What is wrong with it.
    pub(crate) message: String,
    /// Its path.
    pub(crate) field: String,
}

impl Cause {
    fn new(reason: &'static str, field: impl Into<String>, message: String) -> Self {
        Self { reason, message, field: field.into() }
    }

    /// A value that may not be.
    pub(crate) fn invalid(field: impl Into<String>, value: &Value, why: impl AsRef<str>) -> Self {
        Self::new("FieldValueInvalid", field, format!("Invalid value: {}: {}", shown(value), why.as_ref()))
    }

    /// A value that may not be, and is not shown.
    pub(crate) fn invalid_unshown(field: impl Into<String>, why: &str) -> Self {
        Self::new("FieldValueInvalid", field, format!("Invalid value: {why}"))
    }

    /// Whether rules are not asked of an object with this fault.
    pub(crate) fn blocks_rules(&self) -> bool {
        matches!(
            self.reason,
            "FieldValueNotSupported"
                | "FieldValueRequired"
                | "FieldValueTooLong"
                | "FieldValueTooMany"
                | "FieldValueTypeInvalid"
        )
    }

    /// A value that is missing; `why` may be empty.
    pub(crate) fn required(field: impl Into<String>, why: &str) -> Self {
        let message = if why.is_empty() { "Required value".to_owned() } else { format!("Required value: {why}") };
        Self::new("FieldValueRequired", field, message)
    }

    /// A value outside a list of allowed ones.
    pub(crate) fn unsupported(field: impl Into<String>, value: &Value, allowed: &[String]) -> Self {
        let message = format!("Unsupported value: {}: supported values: {}", shown(value), allowed.join(", "));
        Self::new("FieldValueNotSupported", field, message)
    }

    /// Something that may not be set here.
    pub(crate) fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {why}"))
    }

    /// A value that occurs twice.
    pub(crate) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new("FieldValueDuplicate", field, format!("Duplicate value: {}", shown(value)))
    }

    /// A name of something that is not there.
    pub(crate) fn not_found(field: impl Into<String>, message: String) -> Self {
        Self::new("FieldValueNotFound", field, message)
    }

    /// Text over its limit.
    pub(crate) fn too_long(field: impl Into<String>, limit: u64) -> Self {
        Self::new("FieldValueTooLong", field, format!("Too long: may not be more than {limit} bytes"))
    }

    /// A list over its limit.
    pub(crate) fn too_many(field: impl Into<String>, count: usize, limit: u64) -> Self {
        Self::new("FieldValueTooMany", field, format!("Too many: {count}: must have at most {limit} items"))
    }

    /// A value of the wrong type.
    pub(crate) fn wrong_type(field: impl Into<String>, value: &str, why: &str) -> Self {
        Self::new("FieldValueTypeInvalid", field, format!("Invalid value: {}: {why}", shown(&Value::from(value))))
    }

    fn line(&self) -> String {
        format!("{}: {}", self.field, self.message)
    }
}

/// A value as error texts show it.
fn shown(value: &Value) -> String {
    value.to_string()
}

impl Refusal {
    fn boxed(code: u16, reason: &'static str, message: String, details: Value) -> Box<Self> {
        Box::new(Self { code, reason, message, details })
    }

    /// 400.
    pub(crate) fn bad_request(message: impl Into<String>) -> Box<Self> {
        Self::boxed(400, "BadRequest", message.into(), Value::Null)
    }

    /// 404 of an object.
    pub(crate) fn not_found(kind: &Kind, name: &str) -> Box<Self> {
        let message = format!("{} \"{name}\" not found", kind.qualified());
        Self::boxed(404, "NotFound", message, kind.details(name, &kind.plural))
    }

    /// 404 of a path that no kind has.
    pub(crate) fn no_such_path() -> Box<Self> {
        Self::boxed(404, "NotFound", "the server could not find the requested resource".to_owned(), json!({}))
    }

    /// 405.
    pub(crate) fn method_not_allowed() -> Box<Self> {
        let message = "the server does not allow this method on the requested resource";
        Self::boxed(405, "MethodNotAllowed", message.to_owned(), json!({}))
    }

    /// 409 of a create; the message tells where what is there is about to go.
    pub(crate) fn already_exists(kind: &Kind, name: &str, going: bool) -> Box<Self> {
        let prefix = if going { "object is being deleted: " } else { "" };
        let message = format!("{prefix}{} \"{name}\" already exists", kind.qualified());
        Self::boxed(409, "AlreadyExists", message, kind.details(name, &kind.plural))
    }

    /// 409 of a write on a state that is no more.
    pub(crate) fn conflict(kind: &Kind, name: &str, why: &str) -> Box<Self> {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.qualified());
        Self::boxed(409, "Conflict", message, kind.details(name, &kind.plural))
    }

    /// 409 of a write on another version than the stored one.
    pub(crate) fn stale(kind: &Kind, name: &str) -> Box<Self> {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, why)
    }

    /// 409 of server-side apply: `causes` are pairs of who manages and which field.
    pub(crate) fn owned_by_others(message: String, causes: &[(String, String)]) -> Box<Self> {
        let causes: Vec<Value> = causes
            .iter()
            .map(|(who, field)| json!({"reason": "FieldManagerConflict", "message": format!("conflict with {who}"), "field": field}))
            .collect();
        Self::boxed(409, "Conflict", message, json!({ "causes": causes }))
    }

    /// 422 of an object.
    pub(crate) fn invalid(kind: &Kind, name: &str, causes: &[Cause]) -> Box<Self> {
        if kind.habits.builtin == Builtin::Event {
            // Events of both groups are one kind behind the scenes.
            return Self::invalid_as(&kind.kind, json!({"name": name, "kind": kind.kind}), name, causes);
        }
        Self::invalid_as(&kind.qualified_kind(), kind.details(name, &kind.kind), name, causes)
    }

    /// 422 under other names than those of a kind.
    fn invalid_as(of: &str, mut details: Value, name: &str, causes: &[Cause]) -> Box<Self> {
        let lines: Vec<String> = causes.iter().map(Cause::line).collect();
        let list = match lines.as_slice() {
            [one] => one.clone(),
            more => format!("[{}]", more.join(", ")),
        };
        let causes: Vec<Value> = causes
            .iter()
            .map(|cause| json!({"reason": cause.reason, "message": cause.message, "field": cause.field}))
            .collect();
        if let Some(details) = details.as_object_mut() {
            details.insert("causes".to_owned(), Value::Array(causes));
        }
        Self::boxed(422, "Invalid", format!("{of} \"{name}\" is invalid: {list}"), details)
    }

    /// 422 of a PUT without the version that its kind wants.
    pub(crate) fn version_missing(kind: &Kind, name: &str) -> Box<Self> {
        let cause = Cause::invalid("metadata.resourceVersion", &Value::from(0), "must be specified for an update");
        Self::invalid_as(&kind.qualified(), kind.details(name, &kind.plural), name, &[cause])
    }

    /// 422 of options.
    pub(crate) fn invalid_options(of: &str, cause: Cause) -> Box<Self> {
        let details = json!({"group": "meta.k8s.io", "kind": of});
        Self::invalid_as(&format!("{of}.meta.k8s.io"), details, "", &[cause])
    }

    /// 422 of a patch whose outcome is no object of its kind.
    pub(crate) fn invalid_patch(outcome: &Value, why: &str) -> Box<Self> {
        let cause = Cause::invalid("patch", &Value::from(outcome.to_string()), why);
        Self::invalid_as("", json!({}), "", &[cause])
    }

    /// 409 of a DELETE that asks for another object, or another version of it.
    pub(crate) fn precondition(kind: &Kind, name: &str, why: &str) -> Box<Self> {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.qualified_kind());
        Self::boxed(409, "Conflict", message, kind.details(name, &kind.kind))
    }

    /// 500 of the kind that has no reason.
    pub(crate) fn plain(message: &str) -> Box<Self> {
        Self::boxed(500, "", message.to_owned(), Value::Null)
    }

    /// 404 of a path below no group.
    pub(crate) fn page_not_found() -> Box<Self> {
        Self::boxed(404, "page", "404 page not found\n".to_owned(), Value::Null)
    }

    /// 422 of a patch that cannot be applied.
    pub(crate) fn unprocessable(_why: &str) -> Box<Self> {
        let message = "the server rejected our request due to an error in our request";
        Self::boxed(422, "Invalid", message.to_owned(), json!({}))
    }

    /// 403 by admission: what the object may not be, and for which reason.
    pub(crate) fn forbidden(kind: &Kind, name: &str, why: &str) -> Box<Self> {
        let name_part = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
        let message = format!("{}{name_part} is forbidden: {why}", kind.qualified());
        Self::boxed(403, "Forbidden", message, kind.details(name, &kind.plural))
    }

    /// 403 of a create in a namespace that is going away.
    pub(crate) fn namespace_terminating(kind: &Kind, name: &str, namespace: &str) -> Box<Self> {
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut refusal = Self::forbidden(kind, name, &why);
        let cause = json!({"reason": "NamespaceTerminating", "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace"});
        if let Some(details) = refusal.details.as_object_mut() {
            details.insert("causes".to_owned(), Value::Array(vec![cause]));
        }
        refusal
    }

    /// 410 of a version or token that history no longer reaches.
    pub(crate) fn expired(message: impl Into<String>) -> Box<Self> {
        Self::boxed(410, "Expired", message.into(), Value::Null)
    }

    /// 413.
    pub(crate) fn too_large(message: impl Into<String>) -> Box<Self> {
        Self::boxed(413, "RequestEntityTooLarge", message.into(), Value::Null)
    }

    /// 415 of a patch in no known format.
    pub(crate) fn unsupported_media() -> Box<Self> {
        Self::boxed(415, "UnsupportedMediaType", "415: Unsupported Media Type".to_owned(), json!({}))
    }

    /// 415 of a patch in a format that the kind does not take.
    pub(crate) fn unsupported_patch() -> Box<Self> {
        let message = "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
        Self::boxed(415, "UnsupportedMediaType", message.to_owned(), Value::Null)
    }

    /// 504 of a read at a version that is not there yet.
    pub(crate) fn future_version(asked: u64, current: u64) -> Box<Self> {
        let message = format!("Too large resource version: {asked}, current: {current}");
        let cause = json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
        Self::boxed(504, "Timeout", format!("Timeout: {message}"), json!({"causes": [cause], "retryAfterSeconds": 1}))
    }

    /// Any other code, with the reason and message that an API server, or a proxy before it, gives.
    pub(crate) fn with_code(code: u16, message: Option<&str>) -> Box<Self> {
        let (reason, usual) = match code {
            400 => ("BadRequest", "the server rejected our request for an unknown reason"),
            401 => ("Unauthorized", "Unauthorized"),
            403 => ("Forbidden", "forbidden"),
            404 => ("NotFound", "the server could not find the requested resource"),
            408 | 504 => {
                ("Timeout", "Timeout: request did not complete within requested timeout - context deadline exceeded")
            }
            409 => ("Conflict", "the server reported a conflict"),
            410 => ("Expired", "The resourceVersion for the provided watch is too old."),
            413 => ("RequestEntityTooLarge", "etcdserver: request is too large"),
            422 => ("Invalid", "the server rejected our request due to an error in our request"),
            429 => {
                ("TooManyRequests", "The server is currently unable to handle this request, please try again later.")
            }
            503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
            _ => ("InternalError", "Internal error occurred: etcdserver: leader changed"),
        };
        let details = if code == 429 { json!({"retryAfterSeconds": 1}) } else { Value::Null };
        Self::boxed(code, reason, message.unwrap_or(usual).to_owned(), details)
    }

    /// A refusal by a webhook, with its own details.
    pub(crate) fn denied(code: u16, message: &str, details: Value) -> Box<Self> {
        let mut refusal = Self::with_code(code, Some(message));
        refusal.details = details;
        refusal
    }

    /// Seconds after which the caller may come again.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.details.get("retryAfterSeconds").and_then(Value::as_u64)
    }

    /// The body of the answer.
    pub(crate) fn body(&self) -> Value {
        if self.reason == "page" {
            return Value::from(self.message.as_str());
        }
        let mut body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message});
        if let Some(members) = body.as_object_mut() {
            if !self.reason.is_empty() {
                members.insert("reason".to_owned(), self.reason.into());
            }
            if !self.details.is_null() {
                members.insert("details".to_owned(), self.details.clone());
            }
            members.insert("code".to_owned(), Value::from(self.code));
        }
        body
    }
}
