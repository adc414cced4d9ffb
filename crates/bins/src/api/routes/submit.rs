//! Submits: one job, or up to 10 000 that are taken all or none.

use std::sync::Arc;

use orlop_core::error::{Code, FieldError, Problem};
use orlop_core::ports::fleet_store::IdempotencyKey;
use orlop_core::spec::job::JobSpec;
use serde_json::Value;

use super::super::BASE;
use super::super::call::Call;
use super::super::replay::body_hash_of;
use super::super::reply::{Answer, Reply};
use super::super::state::Api;
use super::super::view::job::Submitted;
use crate::host::scheduler::{Batch, Once, Submitter};

/// The most jobs of one request.
const JOBS: usize = 10_000;

/// The specifications of a body, each with its place in it.
fn specs(body: &Value) -> Result<Vec<(String, JobSpec)>, Problem> {
    let Some(jobs) = body.get("jobs") else {
        return one(body, "").map(|spec| vec![(String::new(), spec)]).map_err(invalid);
    };
    if body.as_object().is_some_and(|fields| fields.len() > 1) {
        return Err(Problem::field("", "is not allowed next to `jobs`; set it in each job"));
    }
    let Some(jobs) = jobs.as_array() else { return Err(Problem::field("jobs", "use a list of jobs")) };
    if jobs.is_empty() {
        return Err(Problem::field("jobs", "is empty; give at least one job"));
    }
    if jobs.len() > JOBS {
        let text = format!("{} jobs are too many for one request; send at most {JOBS}", jobs.len());
        return Err(Problem::coded(Code::TooLarge, text));
    }
    let (mut read, mut errors) = (Vec::with_capacity(jobs.len()), Vec::new());
    for (number, job) in jobs.iter().enumerate() {
        let place = format!("jobs[{number}]");
        match one(job, &place) {
            Ok(spec) => read.push((place, spec)),
            Err(wrong) => errors.extend(wrong),
        }
        if errors.len() >= 100 {
            break;
        }
    }
    if errors.is_empty() { Ok(read) } else { Err(invalid(errors)) }
}

fn one(value: &Value, place: &str) -> Result<JobSpec, Vec<FieldError>> {
    let below = |path: &str| match (place, path) {
        ("", path) => path.to_owned(),
        (place, "") => place.to_owned(),
        (place, path) => format!("{place}.{path}"),
    };
    JobSpec::from_json(value).map_err(|errors| {
        errors.into_iter().map(|error| FieldError { path: below(&error.path), message: error.message }).collect()
    })
}

fn invalid(errors: Vec<FieldError>) -> Problem {
    Problem::invalid(errors)
}

/// POST /jobs
pub(in super::super) async fn submit(api: Arc<Api>, call: Call) -> Answer {
    let body = call.value()?;
    let single = body.get("jobs").is_none();
    let specs = specs(&body)?;
    let traceparent = call.headers.get("traceparent").and_then(|value| value.to_str().ok());
    let request = api.handle.traced(traceparent.filter(|text| text.len() <= 256));
    let by = Submitter {
        caller: &call.caller,
        concern: &call.concern,
        default_tenant: &api.options.default_tenant,
        request_id: &call.request_id,
        traceparent: request.traceparent(),
    };
    let ready = api.handle.prepare_jobs(&by, specs.into_iter()).await?;
    let once = match (call.key()?, ready.tenant) {
        (Some(key), Some(tenant)) => {
            let key = IdempotencyKey { tenant, key: key.to_owned() };
            Some(Once { key, body_hash: body_hash_of("POST", &call) })
        }
        _ => None,
    };
    let taken = api.handle.submit(Batch { jobs: ready.jobs, once }).await?;
    api.handle.submitted(request, &taken, &call.request_id);
    let ids: Vec<String> = taken.jobs.iter().map(ToString::to_string).collect();
    let id = ids.first().filter(|_| single).cloned();
    let place = id.as_ref().map(|id| format!("{BASE}/jobs/{id}"));
    let reply = Reply::json(202, &Submitted { id, ids, warnings: taken.warnings })?;
    let reply = reply.about(ready.correlation_ids.into_iter().collect());
    let reply = match place {
        Some(place) => reply.at(&place),
        None => reply,
    };
    Ok(if taken.replay { reply.replayed() } else { reply })
}
