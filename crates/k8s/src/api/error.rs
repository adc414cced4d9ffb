//! What a refused or lost request means: a class by status code and kind. Owns that table; repeats nothing.

use std::time::Duration;

#[cfg(feature = "client")]
use orlop_core::error::chain;
use orlop_core::error::{Class, Code, Problem};
use orlop_core::spec::status::cut_message;
use serde_json::Value;

/// Why a request failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub struct ApiError {
    /// HTTP status; none when no answer came.
    pub code: Option<u16>,
    /// The reason, in one word of the server.
    pub reason: String,
    /// The message of the server.
    pub message: String,
    /// The causes, as the server has them.
    pub causes: Vec<String>,
    /// How long the server asks to wait.
    pub retry_after: Option<Duration>,
}

/// The reason of an error of this process alone.
const NOT_SENT: &str = "NotSent";
/// The cause a server gives when a namespace takes no new objects.
const TERMINATING: &str = "NamespaceTerminating";
/// How the quota of a namespace says no: an API server gives no other sign of it.
const QUOTA: &str = "exceeded quota: ";
/// How etcd says that an object is too large, and its client when it does not even send it. The API server passes both on
/// as 500 without a reason.
const TOO_LARGE: [&str; 2] = ["etcdserver: request is too large", "trying to send message larger than max"];
/// Bytes of a word of the server at most; `RequestEntityTooLarge` is one of its long ones.
const WORD: usize = 32;

impl ApiError {
    /// No answer came: refused, reset, unreachable, timed out.
    #[must_use]
    pub fn no_answer(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// This process has not sent the request, or not again, for this reason.
    #[must_use]
    pub fn not_sent(message: impl Into<String>) -> Self {
        Self { reason: NOT_SENT.to_owned(), message: message.into(), ..Self::default() }
    }

    /// From an error of a client.
    #[cfg(feature = "client")]
    #[must_use]
    pub(crate) fn from_client(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                Self::from_status(status.code, &serde_json::to_value(status).unwrap_or_default())
            }
            // Its own words quote what was found in the answer.
            kube::Error::SerdeError(error) => Self::no_answer(format!(
                "what it sent is not what was asked for ({:?} error at line {} column {})",
                error.classify(),
                error.line(),
                error.column()
            )),
            error => Self::no_answer(chain(error)),
        }
    }

    /// From a `Status` object.
    #[must_use]
    pub fn from_status(code: u16, status: &Value) -> Self {
        let text = |path: &str| status.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let causes = status.pointer("/details/causes").and_then(Value::as_array).into_iter().flatten();
        let seconds = status.pointer("/details/retryAfterSeconds").and_then(Value::as_u64).filter(|s| *s > 0);
        Self {
            code: Some(code),
            reason: text("/reason"),
            message: text("/message"),
            causes: causes.filter_map(|cause| cause.get("reason")?.as_str().map(str::to_owned)).collect(),
            retry_after: seconds.map(Duration::from_secs),
        }
    }

    /// The status and the reason, without messages of the server, which may quote the request and have any length.
    #[must_use]
    pub fn unquoted(&self) -> String {
        let Some(code) = self.code else { return cut_message(&self.to_string()) };
        let is_word = self.reason.len() <= WORD && self.reason.bytes().all(|byte| byte.is_ascii_alphabetic());
        let word = if is_word { self.reason.as_str() } else { "" };
        format!("the API server answers {code} {word}").trim_end().to_owned()
    }

    /// The class of the error, by which a caller decides what to do next.
    #[must_use]
    pub fn class(&self) -> Class {
        match self.code {
            _ if self.is_too_large() => Class::Invalid,
            // New credentials may help.
            None | Some(401 | 408 | 429 | 500..=599) => Class::Transient,
            Some(404 | 410) => Class::NotFound,
            Some(409) if self.reason == "AlreadyExists" => Class::Exists,
            Some(409) => Class::Conflict,
            Some(403) if self.namespace_is_going() => Class::NotFound,
            Some(403) if self.message.contains(QUOTA) => Class::Capacity,
            Some(403) => Class::Denied,
            Some(_) => Class::Invalid,
        }
    }

    /// Whether the client lacks a right (RBAC), in contrast to a refusal by a policy or a limit.
    #[must_use]
    pub fn lacks_right(&self) -> bool {
        let by_authorizer = self.message.contains("User \"") && self.message.contains("\" cannot ");
        self.code == Some(401) || self.code == Some(403) && (by_authorizer || self.message.is_empty())
    }

    /// Whether the namespace takes no new objects because it is being deleted.
    #[must_use]
    pub fn namespace_is_going(&self) -> bool {
        self.causes.iter().any(|cause| cause == TERMINATING)
    }

    /// Whether the object is too large for its store. What the store itself refuses comes as a failure of the server that has
    /// no reason, so its words are all there is to tell it by.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        let reported = || TOO_LARGE.iter().any(|reported| self.message.contains(reported));
        self.code == Some(413) || self.code == Some(500) && self.reason.is_empty() && reported()
    }

    /// Whether the request may have been carried out although no response says so.
    #[must_use]
    pub fn outcome_is_unknown(&self) -> bool {
        matches!(self.code, None | Some(408 | 500..=599)) && !self.is_too_large() && self.reason != NOT_SENT
    }

    /// The error for a controller, which retries by its class; `doing` says what the request was for, such as `listing flows`.
    #[must_use]
    pub fn port_error(&self, doing: &str) -> Problem {
        let error = Problem::new(self.class(), format!("{doing}: {self}"));
        let error = if self.code == Some(429) { error.with_reason("Throttled") } else { error };
        match self.retry_after {
            Some(wait) => error.retry_after(wait),
            None => error,
        }
    }

    /// The error of the server that caused a [`Problem`], if one did.
    #[must_use]
    pub fn of(problem: &Problem) -> Option<&Self> {
        problem.source.as_deref()?.downcast_ref()
    }

    /// The error for a user who waits for the answer: missing credentials are reported at once, while a controller waits for new ones.
    #[must_use]
    pub fn problem(self, doing: &str) -> Problem {
        let problem = match self.code {
            Some(401) => Problem::coded(Code::Unauthenticated, format!("{doing}: {self}")),
            _ => self.port_error(doing),
        };
        problem.because(self)
    }

    /// The same of a creation that is to wait where a right is missing: roles are replaced while an operator is upgraded, and
    /// given when somebody sees that they are missing.
    #[must_use]
    pub fn creation_error(&self, doing: &str) -> Problem {
        let mut error = self.port_error(doing);
        if self.code == Some(403) && !self.message.is_empty() && self.lacks_right() {
            (error.class, error.reason) = (Class::Capacity, Some("Forbidden"));
        }
        error
    }

    fn text(&self) -> String {
        match self.code {
            None if self.reason == NOT_SENT => self.message.clone(),
            None => format!("the API server does not answer: {}", self.message),
            Some(code) if self.message.is_empty() => format!("the API server answered {code} {}", self.reason),
            Some(code) => format!("{} ({code})", self.message),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error(code: u16, reason: &str, message: &str) -> ApiError {
        ApiError::from_status(code, &json!({"reason": reason, "message": message}))
    }

    /// Rows of the table.
    #[test]
    fn the_table_of_errors() {
        for (code, reason, message, want) in [
            (409, "Conflict", "", Class::Conflict),
            (409, "AlreadyExists", "", Class::Exists),
            (429, "TooManyRequests", "", Class::Transient),
            (
                403,
                "Forbidden",
                "jobs \"a\" is forbidden: exceeded quota: q, requested: count/jobs.batch=1",
                Class::Capacity,
            ),
            (403, "Forbidden", "user cannot create jobs", Class::Denied),
            (403, "Forbidden", "admission webhook denied the request", Class::Denied),
            (400, "BadRequest", "", Class::Invalid),
            (422, "Invalid", "", Class::Invalid),
            (413, "RequestEntityTooLarge", "", Class::Invalid),
            (500, "", "etcdserver: request is too large", Class::Invalid),
            (
                500,
                "",
                "rpc error: code = ResourceExhausted desc = trying to send message larger than max (3 vs. 2)",
                Class::Invalid,
            ),
            (500, "InternalError", "etcdserver: request is too large", Class::Transient),
            (500, "InternalError", "", Class::Transient),
            (502, "", "", Class::Transient),
            (503, "ServiceUnavailable", "", Class::Transient),
            (504, "Timeout", "", Class::Transient),
            (404, "NotFound", "", Class::NotFound),
            (401, "Unauthorized", "", Class::Transient),
            (410, "Expired", "", Class::NotFound),
        ] {
            assert_eq!(error(code, reason, message).class(), want, "{code} {reason}");
        }
        assert_eq!(ApiError::no_answer("reset").class(), Class::Transient);
        let going = json!({"reason": "Forbidden", "details": {"causes": [{"reason": "NamespaceTerminating"}]}});
        assert_eq!(ApiError::from_status(403, &going).class(), Class::NotFound);
    }

    #[test]
    fn a_missing_right_is_distinguished_from_what_admission_refuses() {
        let user = "User \"system:serviceaccount:orlop-system:orlop-operator\"";
        let right = format!(
            "pods is forbidden: {user} cannot create resource \"pods\" in API group \"\" in the namespace \"ns\""
        );
        for (code, message, lacks) in [
            (403, right.as_str(), true),
            (401, "Unauthorized", true),
            (403, "", true),
            (403, "pods \"p\" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi", false),
            (403, "pods \"p\" is forbidden: no PriorityClass with name fast was found", false),
            (
                403,
                "pods \"p\" is forbidden: error looking up service account ns/a: serviceaccount \"a\" not found",
                false,
            ),
            (403, "pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true", false),
            (403, "admission webhook \"x.example\" denied the request: no", false),
            (422, "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'x' with binding 'y' denied request: no", false),
        ] {
            assert_eq!(error(code, "Forbidden", message).lacks_right(), lacks, "{code} {message}");
        }
    }

    /// An object that a real API server refuses comes back as 413, or as what its store said.
    #[test]
    fn objects_that_are_too_large_are_reported_by_the_store_too() {
        let store = "etcdserver: request is too large";
        let grpc =
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2112345 vs. 2097152)";
        for (code, reason, message, large) in [
            (413, "RequestEntityTooLarge", "", true),
            (500, "", store, true),
            (500, "", grpc, true),
            (500, "InternalError", store, false),
            (500, "", "etcdserver: no leader", false),
            (422, "", store, false),
        ] {
            assert_eq!(error(code, reason, message).is_too_large(), large, "{code} {message}");
        }
    }

    #[test]
    fn a_server_is_not_quoted() {
        let quoting = error(500, "InternalError", &"planted".repeat(1000));
        insta::assert_snapshot!(quoting.unquoted(), @"the API server answers 500 InternalError");
        for reason in ["planted-key", "a planted key", &"planted".repeat(5)] {
            let reported = error(403, reason, "planted").unquoted();
            assert_eq!(reported, "the API server answers 403", "{reason}");
        }
        insta::assert_snapshot!(ApiError::no_answer("timed out").unquoted(), @"the API server does not answer: timed out");
        assert!(ApiError::no_answer("x".repeat(5000)).unquoted().chars().count() <= 1024);
    }

    #[test]
    fn only_lost_answers_leave_the_outcome_open() {
        assert!(ApiError::no_answer("").outcome_is_unknown() && error(504, "", "").outcome_is_unknown());
        for code in [400, 401, 403, 404, 409, 413, 422, 429] {
            assert!(!error(code, "", "").outcome_is_unknown(), "{code}");
        }
    }

    #[test]
    fn requests_to_wait_are_read() {
        let status = json!({"reason": "TooManyRequests", "message": "slow down", "details": {"retryAfterSeconds": 7}});
        let port = ApiError::from_status(429, &status).port_error("creating the Job");
        assert_eq!((port.retry_after, port.reason), (Some(Duration::from_secs(7)), Some("Throttled")));
        insta::assert_snapshot!(port, @"creating the Job: slow down (429)");
        insta::assert_snapshot!(ApiError::no_answer("timed out"), @"the API server does not answer: timed out");
        insta::assert_snapshot!(error(503, "ServiceUnavailable", ""), @"the API server answered 503 ServiceUnavailable");
    }
}
