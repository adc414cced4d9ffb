//! Why the server did not do what it was asked: refusals of the core, errors of events and of the store as problems with the
//! codes.

use std::fmt;
use std::time::Duration;

use orlop_core::error::{Class, Code, Problem, QuotaUse};
use orlop_scheduler::effect::Refusal;
use orlop_scheduler::error::EventError;

/// The queues of the server are full.
pub(super) fn full() -> Problem {
    let text = "the request queue of the server is full; try again shortly";
    Problem::coded(Code::RateLimited, text).retry_after(Duration::from_millis(100))
}

/// The store does not take what is to be written.
pub(super) fn store_unavailable() -> Problem {
    let text = "the store is not available; try again shortly";
    Problem::coded(Code::StoreUnavailable, text).retry_after(Duration::from_millis(1000))
}

/// Another server leads, or none yet.
pub(super) fn not_leader(leader: Option<String>) -> Problem {
    let detail = match &leader {
        // The address of REST comes first: people read it.
        Some(url) => {
            format!("this server is not the leader; send the request to {}", url.split(' ').next().unwrap_or_default())
        }
        None => "no server leads yet; try again shortly".to_owned(),
    };
    let mut problem = Problem::coded(Code::NotLeader, detail).retry_after(Duration::from_secs(1));
    problem.details_mut().leader = leader;
    problem
}

/// A thing that is not there, or that the caller may not see.
pub(super) fn not_found(what: impl fmt::Display) -> Problem {
    Problem::coded(Code::NotFound, format!("{what} is not known"))
}

/// A submit that the core refused.
pub(super) fn refused(refusal: Refusal) -> Problem {
    let message = refusal.to_string();
    let quota = |name: &dyn fmt::Display, limit: u64, used: u64| QuotaUse { name: name.to_string(), limit, used };
    let exceeded = |quota: QuotaUse| {
        Problem::coded(Code::QuotaExceeded, message.clone()).with_quota(quota).retry_after(Duration::from_secs(1))
    };
    match refusal {
        Refusal::PendingJobs { used, limit } => exceeded(quota(&"max_pending_jobs", limit, used)),
        Refusal::ActiveJobs { used, limit } => exceeded(quota(&"max_active_jobs", limit, used)),
        Refusal::Demand { what, used, limit } => exceeded(quota(&what, limit, used)),
        Refusal::RateLimited { retry_after_ms } => {
            Problem::coded(Code::RateLimited, message).retry_after(Duration::from_millis(retry_after_ms))
        }
        Refusal::NeverFits { what, asked, limit } => {
            Problem::coded(Code::NeverFits, message).with_quota(quota(&what, limit, asked))
        }
        Refusal::Priority { .. } => Problem::coded(Code::Forbidden, message),
        Refusal::Closing => Problem::coded(Code::Conflict, message),
        _ => Problem::coded(Code::Internal, message),
    }
}

/// An event that the core did not take.
pub(super) fn event(error: &EventError) -> Problem {
    match error.class() {
        Class::Capacity => Problem::coded(Code::Precondition, error.to_string()),
        class => Problem::new(class, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use orlop_scheduler::effect::Limit;

    use super::*;

    #[test]
    fn refusals_become_codes_that_clients_can_act_on() {
        let quota = refused(Refusal::PendingJobs { used: 11, limit: 10 });
        assert_eq!((quota.code, quota.code.http()), (Code::QuotaExceeded, 429));
        assert_eq!(quota.details().quota, Some(QuotaUse { name: "max_pending_jobs".into(), limit: 10, used: 11 }));
        let rate = refused(Refusal::RateLimited { retry_after_ms: 250 });
        assert_eq!((rate.code, rate.retry_after), (Code::RateLimited, Some(Duration::from_millis(250))));
        let never = refused(Refusal::NeverFits { what: Limit::Cpu, asked: 9, limit: 8 });
        assert_eq!((never.code, never.code.http()), (Code::NeverFits, 422));
        assert_eq!(refused(Refusal::Priority { given: 0, best: 3 }).code.http(), 403);
    }

    #[test]
    fn a_server_that_does_not_lead_says_who_does() {
        let error = not_leader(Some("https://two:7070".into()));
        insta::assert_snapshot!(error.message, @"this server is not the leader; send the request to https://two:7070");
        assert_eq!(error.details().leader.as_deref(), Some("https://two:7070"));
        assert_eq!(not_leader(None).code.http(), 503);
    }
}
