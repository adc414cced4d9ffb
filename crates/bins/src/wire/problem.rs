//! Errors on the wire: the body of an HTTP response, the details of a gRPC status, and back.

use std::time::Duration;

use orlop_core::error::{Code, FieldError, Problem, QuotaUse};
use orlop_core::spec::job::SpecErrors;
use prost::Message;
use tonic::metadata::{AsciiMetadataValue, MetadataMap};

use super::proto::{RpcAny, RpcStatus, v1};

/// The trailer that names the leader's address beside [`Code::NotLeader`].
pub const LEADER_TRAILER: &str = "orlop-leader";
/// The media type of the body of an error.
pub const PROBLEM_JSON: &str = "application/problem+json";

const DETAIL_TYPE: &str = "type.googleapis.com/orlop.v1.Problem";

/// The leader's address for clients of REST, and for those of gRPC.
fn edges(leader: &str) -> (&str, &str) {
    leader.split_once(' ').unwrap_or((leader, leader))
}

/// The code nearest to the status of a call that has no details, as a proxy or the transport makes them.
fn code_of(status: tonic::Code) -> Code {
    use tonic::Code as Grpc;
    match status {
        Grpc::InvalidArgument => Code::InvalidSpec,
        Grpc::Unauthenticated => Code::Unauthenticated,
        Grpc::PermissionDenied => Code::Forbidden,
        Grpc::NotFound | Grpc::Unimplemented => Code::NotFound,
        Grpc::AlreadyExists | Grpc::Aborted => Code::Conflict,
        Grpc::FailedPrecondition => Code::Precondition,
        Grpc::OutOfRange => Code::TooLarge,
        Grpc::ResourceExhausted => Code::RateLimited,
        Grpc::Unavailable | Grpc::Cancelled => Code::StoreUnavailable,
        Grpc::DeadlineExceeded => Code::Deadline,
        Grpc::DataLoss => Code::Checksum,
        Grpc::Ok | Grpc::Unknown | Grpc::Internal => Code::Internal,
    }
}

/// The faults of a specification; `path` stands before each place, such as `jobs[3]`.
#[must_use]
pub fn of_spec(errors: SpecErrors, path: &str) -> Problem {
    let field = |error: FieldError| {
        let path = match (path, error.path.as_str()) {
            (_, "") => path.to_owned(),
            ("", inner) => inner.to_owned(),
            (outer, inner) => format!("{outer}.{inner}"),
        };
        FieldError { path, message: error.message }
    };
    Problem::invalid(errors.into_iter().map(field).collect())
}

/// When an error is worth another try, in milliseconds.
pub(crate) fn retry_after_ms(problem: &Problem) -> Option<u64> {
    problem.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
}

/// The body of an HTTP response.
#[must_use]
pub fn body(problem: &Problem) -> serde_json::Value {
    let details = problem.details();
    let mut body = serde_json::json!({
        "type": format!("urn:orlop:error:{}", problem.code),
        "title": problem.code.title(),
        "status": problem.code.http(),
        "detail": problem.chain(),
    });
    if let Some(fields) = body.as_object_mut() {
        let mut put = |key: &str, value: Option<serde_json::Value>| {
            if let Some(value) = value {
                fields.insert(key.to_owned(), value);
            }
        };
        put("instance", details.instance.clone().map(Into::into));
        put("errors", (!problem.fields.is_empty()).then(|| serde_json::json!(problem.fields)));
        put("retry_after_ms", retry_after_ms(problem).map(Into::into));
        put("quota", details.quota.as_ref().map(|quota| serde_json::json!(quota)));
        put("leader", details.leader.as_deref().map(|leader| edges(leader).0.into()));
    }
    body
}

/// The message that carries an error.
#[must_use]
pub fn message(problem: &Problem) -> v1::Problem {
    let details = problem.details();
    let field = |error: &FieldError| v1::FieldError { path: error.path.clone(), message: error.message.clone() };
    v1::Problem {
        code: problem.code.as_str().to_owned(),
        detail: problem.chain(),
        errors: problem.fields.iter().map(field).collect(),
        retry_after_ms: retry_after_ms(problem).unwrap_or(0),
        quota: details.quota.as_ref().map(|quota| v1::QuotaUse {
            name: quota.name.clone(),
            limit: quota.limit,
            used: quota.used,
        }),
        instance: details.instance.clone().unwrap_or_default(),
    }
}

/// The error that a message carries; one of a code that this version does not know is [`Code::Internal`].
#[must_use]
pub fn of_message(message: v1::Problem) -> Problem {
    let code = Code::from_name(&message.code).unwrap_or(Code::Internal);
    let field = |error: v1::FieldError| FieldError { path: error.path, message: error.message };
    let mut problem = Problem::coded(code, message.detail);
    problem.fields = message.errors.into_iter().map(field).collect();
    problem.retry_after = (message.retry_after_ms > 0).then(|| Duration::from_millis(message.retry_after_ms));
    if let Some(quota) = message.quota {
        problem = problem.with_quota(QuotaUse { name: quota.name, limit: quota.limit, used: quota.used });
    }
    if !message.instance.is_empty() {
        problem.details_mut().instance = Some(message.instance);
    }
    problem
}

/// The status of a gRPC call that fails so.
#[must_use]
pub fn status(problem: Problem) -> tonic::Status {
    let code = tonic::Code::from_i32(problem.code.grpc());
    let any = RpcAny { type_url: DETAIL_TYPE.to_owned(), value: message(&problem).encode_to_vec() };
    let details = RpcStatus { code: code as i32, message: problem.chain(), details: vec![any] }.encode_to_vec();
    let mut trailers = MetadataMap::new();
    // An address that no trailer can carry is left out: clients then ask the other endpoints they know.
    let leader = problem.details().leader.as_deref().map(|leader| edges(leader).1);
    if let Some(leader) = leader.and_then(|leader| AsciiMetadataValue::try_from(leader).ok()) {
        trailers.insert(LEADER_TRAILER, leader);
    }
    tonic::Status::with_details_and_metadata(code, problem.chain(), details.into(), trailers)
}

/// The error that a gRPC call was answered with.
#[must_use]
pub fn of_status(status: &tonic::Status) -> Problem {
    let details = RpcStatus::decode(status.details()).unwrap_or_default().details;
    let ours = details.into_iter().find(|any| any.type_url == DETAIL_TYPE);
    let read = ours.and_then(|any| v1::Problem::decode(any.value.as_slice()).ok());
    let known = read.filter(|message| Code::from_name(&message.code).is_some());
    let mut problem = known.map_or_else(|| Problem::coded(code_of(status.code()), status.message()), of_message);
    let leader = status.metadata().get(LEADER_TRAILER).and_then(|leader| leader.to_str().ok());
    if let Some(leader) = leader {
        problem.details_mut().leader = Some(leader.to_owned());
    }
    problem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_edge_tells_its_own_address_of_the_leader() {
        let mut problem = Problem::coded(Code::NotLeader, "x");
        problem.details_mut().leader = Some("https://b:7070 https://b:7071".to_owned());
        assert_eq!(body(&problem)["leader"], "https://b:7070");
        assert_eq!(of_status(&status(problem)).details().leader.as_deref(), Some("https://b:7071"));
    }

    fn full() -> Problem {
        let quota = QuotaUse { name: "max_pending_jobs".into(), limit: 10, used: 11 };
        let mut problem = Problem::coded(Code::QuotaExceeded, "the limit of waiting jobs is reached")
            .at_field("resources.cpu_m", "is 0; use 1 or more")
            .retry_after(Duration::from_millis(1500))
            .with_quota(quota);
        problem.details_mut().instance = Some("r-1".into());
        problem.details_mut().leader = Some("https://b:7071".into());
        problem
    }

    #[test]
    fn the_body_has_the_members_of_problem_json() {
        insta::assert_snapshot!(body(&full()).to_string(), @r#"{"detail":"the limit of waiting jobs is reached","errors":[{"message":"is 0; use 1 or more","path":"resources.cpu_m"}],"instance":"r-1","leader":"https://b:7071","quota":{"limit":10,"name":"max_pending_jobs","used":11},"retry_after_ms":1500,"status":429,"title":"Quota exceeded","type":"urn:orlop:error:quota-exceeded"}"#);
        insta::assert_snapshot!(body(&Problem::coded(Code::Internal, "x")).to_string(), @r#"{"detail":"x","status":500,"title":"The server failed","type":"urn:orlop:error:internal"}"#);
        insta::assert_snapshot!(Problem::invalid(full().fields), @"resources.cpu_m: is 0; use 1 or more");
    }

    #[test]
    fn a_status_carries_the_same_problem_and_the_leader() {
        for code in Code::ALL {
            let problem = Problem { code: *code, class: code.class(), ..full() };
            let status = status(problem.clone());
            assert_eq!(status.code() as i32, code.grpc());
            assert_eq!(of_status(&status), problem);
        }
    }

    #[test]
    fn a_status_of_somebody_else_has_the_nearest_code() {
        let problem = of_status(&tonic::Status::unavailable("connection refused"));
        assert_eq!((problem.code, problem.message.as_str()), (Code::StoreUnavailable, "connection refused"));
        for code in (0..=16).map(tonic::Code::from_i32) {
            assert_ne!(code_of(code).grpc(), tonic::Code::Ok as i32, "{code:?}");
        }
    }
}
