//! A review of `admission.k8s.io/v1`: what is asked, and the form of an answer. Owns their fields; decides nothing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_dag::manifest::{Severity, Violation, Violations};
use serde::Deserialize;
use serde_json::{Value, json};

/// The form of questions and answers.
const VERSION: &str = "admission.k8s.io/v1";
/// Longest warning, in bytes: the API server cuts longer ones in the middle of a sentence.
const WARNING_MAX: usize = 256;
/// Most bytes of warnings the API server passes on.
const WARNINGS_MAX: usize = 4096;

/// The objects that a webhook is asked about.
pub(super) struct Subject {
    pub(super) group: &'static str,
    pub(super) kind: &'static str,
    /// What people call several of them.
    pub(super) plural: &'static str,
}

#[derive(Deserialize)]
struct Review {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    request: Option<AdmissionRequest>,
}

/// The request of an AdmissionReview.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AdmissionRequest {
    uid: String,
    kind: Kind,
    #[serde(default)]
    sub_resource: String,
    pub(super) operation: String,
    #[serde(default)]
    user_info: User,
    #[serde(default)]
    pub(super) object: Value,
    #[serde(default)]
    pub(super) old_object: Value,
}

#[derive(Debug, Deserialize)]
struct Kind {
    #[serde(default)]
    group: String,
    kind: String,
}

#[derive(Debug, Default, Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

impl AdmissionRequest {
    /// Reads an AdmissionReview; the error says what to change in the configuration of the webhook.
    pub(super) fn read(body: &[u8]) -> Result<Self, String> {
        let review: Review = serde_json::from_slice(body)
            .map_err(|error| format!("the body is not an AdmissionReview: {error}; POST one of {VERSION}"))?;
        if review.api_version != VERSION || review.kind != "AdmissionReview" {
            let (version, kind) = (review.api_version, review.kind);
            return Err(format!(
                "{kind} of {version} is not understood; let the webhook ask in AdmissionReview of {VERSION}"
            ));
        }
        review.request.ok_or_else(|| "the AdmissionReview has no request".to_owned())
    }

    /// Some where the request is not for this webhook, with a warning where its configuration is wrong.
    pub(super) fn mismatch(&self, subject: &Subject) -> Option<Option<String>> {
        if self.kind.group != subject.group || self.kind.kind != subject.kind {
            let Kind { group, kind } = &self.kind;
            return Some(Some(format!(
                "{kind} of `{group}` is not checked here; let the webhook ask about {} only",
                subject.plural
            )));
        }
        let known = matches!(self.operation.as_str(), "CREATE" | "UPDATE") && self.sub_resource.is_empty();
        (!known).then_some(None)
    }

    /// Who asks for the change.
    pub(super) fn user(&self) -> &str {
        &self.user_info.username
    }

    /// Whether a stored object is to change.
    pub(super) fn is_update(&self) -> bool {
        self.operation == "UPDATE"
    }
}

/// The response of an AdmissionReview.
#[derive(Debug, Default)]
pub(super) struct AdmissionResponse {
    /// Code, message and fields of a refusal; none when it is allowed.
    pub(super) refused: Option<(u16, String, Vec<Value>)>,
    /// What people are to read.
    pub(super) warnings: Vec<String>,
    /// JSON patch operations.
    pub(super) patch: Vec<Value>,
}

impl AdmissionResponse {
    /// What violations lead to: all errors are listed in the refusal.
    pub(super) fn of(found: &Violations) -> Self {
        let warnings = found.iter().filter(|violation| violation.severity == Severity::Warning);
        let warnings = short(warnings.map(sentence));
        if !found.has_errors() {
            return Self { warnings, ..Self::default() };
        }
        let errors: Vec<&Violation> = found.iter().filter(|violation| violation.severity == Severity::Error).collect();
        let mut lines: Vec<String> = errors.iter().map(|violation| sentence(violation)).collect();
        let more = found.more(Severity::Error);
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        let cause = |violation: &&Violation| json!({"reason": "FieldValueInvalid", "field": violation.path.to_string(), "message": message(violation)});
        let causes = errors.iter().map(cause).collect();
        Self { refused: Some((422, lines.join("\n"), causes)), warnings, ..Self::default() }
    }

    /// The review with this answer.
    pub(super) fn review(self, request: &AdmissionRequest) -> Value {
        let mut response = json!({"uid": request.uid, "allowed": self.refused.is_none()});
        if let Some((code, message, causes)) = self.refused {
            let reason = if code == 422 { "Invalid" } else { "InternalError" };
            response["status"] = json!({"status": "Failure", "code": code, "reason": reason, "message": message});
            if !causes.is_empty() {
                // Clients name the object by these.
                let name = request.object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
                response["status"]["details"] =
                    json!({"name": name, "group": request.kind.group, "kind": request.kind.kind, "causes": causes});
            }
        } else if !self.patch.is_empty() {
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(STANDARD.encode(Value::Array(self.patch).to_string()));
        }
        if !self.warnings.is_empty() {
            response["warnings"] = json!(self.warnings);
        }
        json!({"apiVersion": VERSION, "kind": "AdmissionReview", "response": response})
    }
}

/// A violation with its place.
fn sentence(violation: &Violation) -> String {
    let path = violation.path.to_string();
    let message = message(violation);
    if path.is_empty() { message } else { format!("{path}: {message}") }
}

/// What is wrong, and what to do.
fn message(violation: &Violation) -> String {
    let help = violation.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
    format!("{}{help} [{}]", violation.message, violation.code)
}

/// As much as the API server passes on.
pub(super) fn short(warnings: impl Iterator<Item = String>) -> Vec<String> {
    let mut room = WARNINGS_MAX;
    let mut kept = Vec::new();
    for mut warning in warnings {
        if warning.len() > WARNING_MAX {
            let room = WARNING_MAX - '…'.len_utf8();
            let end = (0..=room).rev().find(|end| warning.is_char_boundary(*end)).unwrap_or_default();
            warning.truncate(end);
            warning.push('…');
        }
        let Some(left) = room.checked_sub(warning.len()) else { break };
        room = left;
        kept.push(warning);
    }
    kept
}
