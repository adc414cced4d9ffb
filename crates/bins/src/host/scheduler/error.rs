//! Why the server did not do what it was asked: refusals of the core, errors of events and of the store as problems with the
//! codes.

use std::fmt;

use orlop_core::error::{Class, PortError};
use orlop_scheduler::effect::Refusal;
use orlop_scheduler::error::EventError;

use crate::wire::problem::{Code, Problem, QuotaUse};

/// A problem, boxed: problems are rare and results are many.
pub type Error = Box<Problem>;

/// A problem of a code with a text.
pub(super) fn problem(code: Code, detail: impl Into<String>) -> Error {
    Box::new(Problem::new(code, detail))
}

/// The queues of the server are full.
pub(super) fn full() -> Error {
    let text = "the server has as many requests waiting as it takes; try again shortly";
    Box::new(Problem::new(Code::RateLimited, text).after(100))
}

/// The store does not take what is to be written.
pub(super) fn store_unavailable() -> Error {
    let text = "nothing can be written down now: the store is not available; try again shortly";
    Box::new(Problem::new(Code::StoreUnavailable, text).after(1000))
}

/// Another server leads, or none yet.
pub(super) fn not_leader(leader: Option<String>) -> Error {
    let detail = match &leader {
        // The address of REST comes first: people read it.
        Some(url) => format!("this server does not lead; ask {}", url.split(' ').next().unwrap_or_default()),
        None => "this server does not lead, and nobody does yet; try again shortly".to_owned(),
    };
    Box::new(Problem { leader, ..Problem::new(Code::NotLeader, detail).after(1000) })
}

/// A thing that is not there, or that the caller may not see.
pub(super) fn not_found(what: impl fmt::Display) -> Error {
    problem(Code::NotFound, format!("{what} is not known"))
}

/// A submit that the core refused.
pub(super) fn refused(refusal: Refusal) -> Error {
    let detail = refusal.to_string();
    let quota = |name: &dyn fmt::Display, limit: u64, used: u64| Some(QuotaUse { name: name.to_string(), limit, used });
    let (code, quota, wait) = match refusal {
        Refusal::PendingJobs { used, limit } => {
            (Code::QuotaExceeded, quota(&"max_pending_jobs", limit, used), Some(1000))
        }
        Refusal::ActiveJobs { used, limit } => {
            (Code::QuotaExceeded, quota(&"max_active_jobs", limit, used), Some(1000))
        }
        Refusal::Demand { what, used, limit } => (Code::QuotaExceeded, quota(&what, limit, used), Some(1000)),
        Refusal::RateLimited { retry_after_ms } => (Code::RateLimited, None, Some(retry_after_ms)),
        Refusal::NeverFits { what, asked, limit } => (Code::NeverFits, quota(&what, limit, asked), None),
        Refusal::Priority { .. } => (Code::Forbidden, None, None),
        Refusal::Closing => (Code::Conflict, None, None),
        _ => (Code::Internal, None, None),
    };
    Box::new(Problem { quota, retry_after_ms: wait, ..Problem::new(code, detail) })
}

/// An event that the core did not take.
pub(super) fn event(error: &EventError) -> Error {
    let code = match error.class() {
        Class::NotFound => Code::NotFound,
        Class::Exists | Class::Conflict => Code::Conflict,
        Class::Invalid => Code::InvalidSpec,
        Class::Capacity => Code::Precondition,
        Class::Transient => Code::StoreUnavailable,
        Class::Denied => Code::Forbidden,
        Class::Fatal => Code::Internal,
    };
    problem(code, error.to_string())
}

/// A read of the store that failed.
pub(super) fn port(error: &PortError) -> Error {
    let code = match error.class {
        Class::Transient | Class::Capacity => Code::StoreUnavailable,
        Class::Conflict | Class::Exists => Code::Conflict,
        Class::Invalid => Code::InvalidSpec,
        Class::NotFound => Code::NotFound,
        Class::Denied => Code::Forbidden,
        Class::Fatal => Code::Internal,
    };
    let wait = error.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
    Box::new(Problem { retry_after_ms: wait, ..Problem::new(code, error.chain()) })
}

#[cfg(test)]
mod tests {
    use orlop_scheduler::effect::Limit;

    use super::*;

    #[test]
    fn refusals_become_codes_that_clients_can_act_on() {
        let quota = refused(Refusal::PendingJobs { used: 11, limit: 10 });
        assert_eq!((quota.code, quota.code.http()), (Code::QuotaExceeded, 429));
        assert_eq!(quota.quota, Some(QuotaUse { name: "max_pending_jobs".into(), limit: 10, used: 11 }));
        let rate = refused(Refusal::RateLimited { retry_after_ms: 250 });
        assert_eq!((rate.code, rate.retry_after_ms), (Code::RateLimited, Some(250)));
        let never = refused(Refusal::NeverFits { what: Limit::Cpu, asked: 9, limit: 8 });
        assert_eq!((never.code, never.code.http()), (Code::NeverFits, 422));
        assert_eq!(refused(Refusal::Priority { given: 0, best: 3 }).code.http(), 403);
    }

    #[test]
    fn a_server_that_does_not_lead_says_who_does() {
        let error = not_leader(Some("https://two:7070".into()));
        insta::assert_snapshot!(error.detail, @"this server does not lead; ask https://two:7070");
        assert_eq!(error.leader.as_deref(), Some("https://two:7070"));
        assert_eq!(not_leader(None).code.http(), 503);
    }
}
