//! The errors of calls: one code with its HTTP status, its gRPC status and its words. Never decides that a call fails.

use std::fmt;

use orlop_core::error::Class;
use orlop_core::spec::job::{SpecError, SpecErrors};
use prost::Message;
use serde::{Deserialize, Serialize};
use tonic::metadata::{AsciiMetadataValue, MetadataMap};

use super::proto::{RpcAny, RpcStatus, v1};

/// The trailer that names the leader's address beside [`Code::NotLeader`].
pub const LEADER_TRAILER: &str = "orlop-leader";
/// The media type of the body of an error.
pub const PROBLEM_JSON: &str = "application/problem+json";

const DETAIL_TYPE: &str = "type.googleapis.com/orlop.v1.Problem";

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $http:literal, $grpc:ident, $title:literal;)+) => {
        /// What went wrong with a call, in one word for programs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])* $name,)+
        }

        impl Code {
            /// All codes, in the order of the contract.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The code as it is written.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $code,)+ }
            }

            /// The status of an HTTP response.
            #[must_use]
            pub const fn http(self) -> u16 {
                match self { $(Self::$name => $http,)+ }
            }

            /// The status of a gRPC call.
            #[must_use]
            pub const fn grpc(self) -> tonic::Code {
                match self { $(Self::$name => tonic::Code::$grpc,)+ }
            }

            /// The title for people, the same for every error of this code.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)+ }
            }
        }
    };
}

codes! {
    /// The specification or the request is wrong as written.
    InvalidSpec = "invalid-spec", 400, InvalidArgument, "The request is not valid";
    /// Nobody, or nobody known, calls.
    Unauthenticated = "unauthenticated", 401, Unauthenticated, "Authentication is needed";
    /// The caller may not.
    Forbidden = "forbidden", 403, PermissionDenied, "This is not allowed";
    /// It is not there, or the caller may not see it.
    NotFound = "not-found", 404, NotFound, "There is no such thing";
    /// The route is there, and has no such method.
    MethodNotAllowed = "method-not-allowed", 405, Unimplemented, "There is no such method";
    /// The state of the object forbids it.
    Conflict = "conflict", 409, AlreadyExists, "This conflicts with what is";
    /// A condition that the caller named, or that the call needs, does not hold.
    Precondition = "precondition", 412, FailedPrecondition, "A condition does not hold";
    /// More bytes or items than a request may have.
    TooLarge = "too-large", 413, OutOfRange, "The request is too large";
    /// A body of the wrong type.
    MediaType = "media-type", 415, InvalidArgument, "The body has the wrong type";
    /// It can never be placed, however long it waits.
    NeverFits = "never-fits", 422, FailedPrecondition, "The request can never be met";
    /// The key was used with another body.
    IdempotencyMismatch = "idempotency-mismatch", 422, InvalidArgument, "The idempotency key belongs to another request";
    /// What was received is not what was announced.
    Checksum = "checksum", 422, DataLoss, "The checksum does not match";
    /// A limit of the tenant is reached.
    QuotaExceeded = "quota-exceeded", 429, ResourceExhausted, "A quota is used up";
    /// Too many requests, or a full server.
    RateLimited = "rate-limited", 429, ResourceExhausted, "Requests come too fast";
    /// A fault of the server.
    Internal = "internal", 500, Internal, "The server failed";
    /// Another server leads.
    NotLeader = "not-leader", 503, Unavailable, "Another server leads";
    /// What was asked cannot be stored now.
    StoreUnavailable = "store-unavailable", 503, Unavailable, "The store cannot be reached";
    /// It took too long.
    Deadline = "deadline", 504, DeadlineExceeded, "The time is up";
}

impl Code {
    /// The code that is written so.
    #[must_use]
    pub fn from_name(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text)
    }

    /// Whether the same request may succeed later without anybody changing anything.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::QuotaExceeded | Self::RateLimited | Self::NotLeader | Self::StoreUnavailable | Self::Deadline
        )
    }

    /// What kind of trouble it is.
    #[must_use]
    pub const fn class(self) -> Class {
        match self {
            Self::InvalidSpec | Self::TooLarge | Self::MediaType | Self::NeverFits | Self::Checksum => Class::Invalid,
            Self::Unauthenticated | Self::Forbidden => Class::Denied,
            Self::NotFound | Self::MethodNotAllowed => Class::NotFound,
            Self::Conflict | Self::Precondition | Self::IdempotencyMismatch => Class::Conflict,
            Self::QuotaExceeded | Self::RateLimited => Class::Capacity,
            Self::NotLeader | Self::StoreUnavailable | Self::Deadline => Class::Transient,
            Self::Internal => Class::Fatal,
        }
    }

    /// The code nearest to the status of a call that has no details, as a proxy or the transport makes them.
    #[must_use]
    pub const fn of_grpc(status: tonic::Code) -> Self {
        use tonic::Code as Grpc;
        match status {
            Grpc::InvalidArgument => Self::InvalidSpec,
            Grpc::Unauthenticated => Self::Unauthenticated,
            Grpc::PermissionDenied => Self::Forbidden,
            Grpc::NotFound | Grpc::Unimplemented => Self::NotFound,
            Grpc::AlreadyExists | Grpc::Aborted => Self::Conflict,
            Grpc::FailedPrecondition => Self::Precondition,
            Grpc::OutOfRange => Self::TooLarge,
            Grpc::ResourceExhausted => Self::RateLimited,
            Grpc::Unavailable | Grpc::Cancelled => Self::StoreUnavailable,
            Grpc::DeadlineExceeded => Self::Deadline,
            Grpc::DataLoss => Self::Checksum,
            Grpc::Ok | Grpc::Unknown | Grpc::Internal => Self::Internal,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FieldError {
    /// Where, such as `jobs[3].resources.cpu_m`.
    pub path: String,
    /// What is wrong and what to do.
    pub message: String,
}

/// A limit that stopped a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaUse {
    /// Its name, such as `max_pending_jobs`.
    pub name: String,
    /// The limit.
    pub limit: u64,
    /// What there would be.
    pub used: u64,
}

/// The error of a call, over HTTP and over gRPC alike.
///
/// ```
/// use orlop::wire::problem::{Code, Problem};
/// let problem = Problem::new(Code::NotFound, "there is no job j0000000000001");
/// assert_eq!(problem.code.http(), 404);
/// assert_eq!(problem.body()["type"], "urn:orlop:error:not-found");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail} ({code})")]
pub struct Problem {
    /// What, for programs.
    pub code: Code,
    /// What, for people.
    pub detail: String,
    /// Which fields are wrong.
    pub errors: Vec<FieldError>,
    /// When it is worth another try, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// Which limit it met.
    pub quota: Option<QuotaUse>,
    /// The request's id.
    pub instance: Option<String>,
    /// Where the leader is, beside [`Code::NotLeader`]: the address of its REST interface and, after a blank, that of its
    /// gRPC services, where they differ. Each edge tells its own.
    pub leader: Option<String>,
}

/// The leader's address for clients of REST, and for those of gRPC.
fn edges(leader: &str) -> (&str, &str) {
    leader.split_once(' ').unwrap_or((leader, leader))
}

/// The path of an error that says that there is no such flow.
pub const FLOW: &str = "flow";
/// The path of errors about values that are given for the parameters of a flow.
pub const PARAMETERS: &str = "parameters";

impl Problem {
    /// The faults of a specification; `path` stands before each place, such as `jobs[3]`.
    #[must_use]
    pub fn of_spec(errors: SpecErrors, path: &str) -> Self {
        let field = |error: SpecError| {
            let path = match (path, error.path.as_str()) {
                (_, "") => path.to_owned(),
                ("", inner) => inner.to_owned(),
                (outer, inner) => format!("{outer}.{inner}"),
            };
            FieldError { path, message: error.message }
        };
        Self::invalid(errors.into_iter().map(field).collect())
    }

    /// A problem without particulars.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { code, detail, errors: Vec::new(), retry_after_ms: None, quota: None, instance: None, leader: None }
    }

    /// The problem of a request with wrong fields.
    #[must_use]
    pub fn invalid(errors: Vec<FieldError>) -> Self {
        let count = errors.len();
        let detail = match errors.first() {
            Some(only) if count == 1 && only.path.is_empty() => only.message.clone(),
            Some(only) if count == 1 => format!("{}: {}", only.path, only.message),
            _ => format!("{count} fields are not valid"),
        };
        Self { errors, ..Self::new(Code::InvalidSpec, detail) }
    }

    /// The same problem, worth another try after so many milliseconds.
    #[must_use]
    pub fn after(mut self, retry_after_ms: u64) -> Self {
        self.retry_after_ms = Some(retry_after_ms);
        self
    }

    /// The body of an HTTP response.
    #[must_use]
    pub fn body(&self) -> serde_json::Value {
        let mut body = serde_json::json!({
            "type": format!("urn:orlop:error:{}", self.code),
            "title": self.code.title(),
            "status": self.code.http(),
            "detail": self.detail,
        });
        if let Some(fields) = body.as_object_mut() {
            let mut put = |key: &str, value: Option<serde_json::Value>| {
                if let Some(value) = value {
                    fields.insert(key.to_owned(), value);
                }
            };
            put("instance", self.instance.clone().map(Into::into));
            put("errors", (!self.errors.is_empty()).then(|| serde_json::json!(self.errors)));
            put("retry_after_ms", self.retry_after_ms.map(Into::into));
            put("quota", self.quota.as_ref().map(|quota| serde_json::json!(quota)));
            put("leader", self.leader.as_deref().map(|leader| edges(leader).0.into()));
        }
        body
    }

    fn message(&self) -> v1::Problem {
        let field = |error: &FieldError| v1::FieldError { path: error.path.clone(), message: error.message.clone() };
        v1::Problem {
            code: self.code.as_str().to_owned(),
            detail: self.detail.clone(),
            errors: self.errors.iter().map(field).collect(),
            retry_after_ms: self.retry_after_ms.unwrap_or(0),
            quota: self.quota.as_ref().map(|quota| v1::QuotaUse {
                name: quota.name.clone(),
                limit: quota.limit,
                used: quota.used,
            }),
            instance: self.instance.clone().unwrap_or_default(),
        }
    }

    fn of_message(message: v1::Problem) -> Option<Self> {
        let field = |error: v1::FieldError| FieldError { path: error.path, message: error.message };
        Some(Self {
            errors: message.errors.into_iter().map(field).collect(),
            retry_after_ms: (message.retry_after_ms > 0).then_some(message.retry_after_ms),
            quota: message.quota.map(|quota| QuotaUse { name: quota.name, limit: quota.limit, used: quota.used }),
            instance: (!message.instance.is_empty()).then_some(message.instance),
            ..Self::new(Code::from_name(&message.code)?, message.detail)
        })
    }
}

impl From<Problem> for v1::Problem {
    fn from(problem: Problem) -> Self {
        problem.message()
    }
}

impl From<v1::Problem> for Problem {
    fn from(message: v1::Problem) -> Self {
        let detail = message.detail.clone();
        Self::of_message(message).unwrap_or_else(|| Self::new(Code::Internal, detail))
    }
}

impl From<Problem> for tonic::Status {
    fn from(problem: Problem) -> Self {
        let code = problem.code.grpc();
        let any = RpcAny { type_url: DETAIL_TYPE.to_owned(), value: problem.message().encode_to_vec() };
        let status = RpcStatus { code: code as i32, message: problem.detail.clone(), details: vec![any] };
        let mut trailers = MetadataMap::new();
        // An address that no trailer can carry is left out: clients then ask the other endpoints they know.
        let leader = problem.leader.as_deref().map(|leader| edges(leader).1);
        if let Some(leader) = leader.and_then(|leader| AsciiMetadataValue::try_from(leader).ok()) {
            trailers.insert(LEADER_TRAILER, leader);
        }
        Self::with_details_and_metadata(code, problem.detail, status.encode_to_vec().into(), trailers)
    }
}

impl From<Box<Problem>> for tonic::Status {
    fn from(problem: Box<Problem>) -> Self {
        Self::from(*problem)
    }
}

impl From<tonic::Status> for Problem {
    fn from(status: tonic::Status) -> Self {
        let details = RpcStatus::decode(status.details()).unwrap_or_default().details;
        let ours = details.into_iter().find(|any| any.type_url == DETAIL_TYPE);
        let read = ours.and_then(|any| v1::Problem::decode(any.value.as_slice()).ok()).and_then(Self::of_message);
        let mut problem = read.unwrap_or_else(|| Self::new(Code::of_grpc(status.code()), status.message()));
        let leader = status.metadata().get(LEADER_TRAILER);
        problem.leader = leader.and_then(|leader| leader.to_str().ok()).map(str::to_owned);
        problem
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_codes() {
        let row =
            |code: &Code| format!("{code} {} {:?} {} {}", code.http(), code.grpc(), code.is_retryable(), code.title());
        let table: Vec<String> = Code::ALL.iter().map(row).collect();
        insta::assert_snapshot!(table.join("\n"));
        assert!(Code::ALL.iter().all(|code| Code::from_name(code.as_str()) == Some(*code)));
    }

    #[test]
    fn each_edge_tells_its_own_address_of_the_leader() {
        let leader = Some("https://b:7070 https://b:7071".to_owned());
        let problem = Problem { leader, ..Problem::new(Code::NotLeader, "x") };
        assert_eq!(problem.body()["leader"], "https://b:7070");
        assert_eq!(Problem::from(tonic::Status::from(problem)).leader.as_deref(), Some("https://b:7071"));
    }

    fn full() -> Problem {
        Problem {
            errors: vec![FieldError { path: "resources.cpu_m".into(), message: "is 0; use 1 or more".into() }],
            retry_after_ms: Some(1500),
            quota: Some(QuotaUse { name: "max_pending_jobs".into(), limit: 10, used: 11 }),
            instance: Some("r-1".into()),
            leader: Some("https://b:7071".into()),
            ..Problem::new(Code::QuotaExceeded, "the limit of waiting jobs is reached")
        }
    }

    #[test]
    fn the_body_has_the_members_of_problem_json() {
        insta::assert_snapshot!(full().body().to_string(), @r#"{"type":"urn:orlop:error:quota-exceeded","title":"A quota is used up","status":429,"detail":"the limit of waiting jobs is reached","instance":"r-1","errors":[{"path":"resources.cpu_m","message":"is 0; use 1 or more"}],"retry_after_ms":1500,"quota":{"name":"max_pending_jobs","limit":10,"used":11},"leader":"https://b:7071"}"#);
        insta::assert_snapshot!(Problem::new(Code::Internal, "x").body().to_string(), @r#"{"type":"urn:orlop:error:internal","title":"The server failed","status":500,"detail":"x"}"#);
        insta::assert_snapshot!(Problem::invalid(full().errors), @"resources.cpu_m: is 0; use 1 or more (invalid-spec)");
    }

    #[test]
    fn a_status_carries_the_same_problem_and_the_leader() {
        for code in Code::ALL {
            let problem = Problem { code: *code, ..full() };
            let status = tonic::Status::from(problem.clone());
            assert_eq!(status.code(), code.grpc());
            assert_eq!(Problem::from(status), problem);
        }
    }

    #[test]
    fn a_status_of_somebody_else_has_the_nearest_code() {
        let problem = Problem::from(tonic::Status::unavailable("connection refused"));
        assert_eq!((problem.code, problem.detail.as_str()), (Code::StoreUnavailable, "connection refused"));
        for code in (0..=16).map(tonic::Code::from_i32) {
            let nearest = Code::of_grpc(code);
            assert!(nearest.grpc() == code || code == tonic::Code::Ok || nearest.grpc() != tonic::Code::Ok, "{code:?}");
        }
    }
}
