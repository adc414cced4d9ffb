//! What the scheduler gets of a job's specification, and by what agents know that one attempt can inherit the slot of
//! another. Owns that translation; places nothing.

use std::collections::BTreeSet;

use orlop_core::id::TenantName;
use orlop_core::spec::job as user;
use orlop_scheduler::event::ArraySpec;
use orlop_scheduler::job::{self, JobSpec, Prefer, Priority, Requires, Retry};

use super::bound::WireError;

/// The scheduler's part of a checked specification; `tenant` counts where the specification names none.
///
/// # Errors
/// The specification breaks a rule that [`user::JobSpec::check`] would have found.
pub fn demand(spec: &user::JobSpec, tenant: &TenantName) -> Result<JobSpec, WireError> {
    let demand = JobSpec {
        tenant: spec.tenant.as_ref().unwrap_or(tenant).clone(),
        priority: Priority(spec.priority),
        resources: spec.resources.clone(),
        runtime: spec.runtime,
        requires: Requires {
            labels: spec.requires.labels.iter().map(user::LabelNeed::expression).collect(),
            features: spec.requires.features.clone(),
        },
        prefers: spec.prefers.iter().map(prefer).collect(),
        timeout_ms: spec.timeout_ms,
        expected_ms: spec.expected_ms,
        grace_ms: spec.grace_ms,
        retries: spec.retries,
        retry: retry(&spec.retry),
        gang: spec.gang.clone(),
        preemptible: spec.preemptible,
        urgent: spec.urgent,
        overlap: spec.overlap,
    };
    demand
        .check()
        .map_err(|error| WireError::new(error.field, format!("is {}; use {}", error.given, error.allowed)))?;
    Ok(demand)
}

fn prefer(prefer: &user::Prefer) -> Prefer {
    Prefer { label: prefer.label.expression(), weight: prefer.weight }
}

/// A factor or share in thousandths.
fn milli(number: f64) -> u32 {
    // A float beyond the range stays at its end; what is no number is 0.
    (number * 1000.0).round() as u32
}

fn retry(retry: &user::Retry) -> Retry {
    let on: &BTreeSet<user::RetryOn> = &retry.on;
    Retry {
        on_failed: on.contains(&user::RetryOn::Failed),
        on_timed_out: on.contains(&user::RetryOn::TimedOut),
        exit_codes: retry.exit_codes.clone(),
        backoff_ms: retry.backoff,
        factor_milli: milli(retry.factor),
        max_ms: retry.max,
        jitter_milli: milli(retry.jitter),
    }
}

/// The elements of an array in the words of the scheduler; none if it has faults.
#[must_use]
pub fn elements(array: &user::Array) -> Option<ArraySpec> {
    let indices = array.elements()?.ranges().to_vec();
    Some(ArraySpec { indices, max_parallel: array.max_parallel, max_failures: array.max_failures })
}

/// By what an agent knows whose slot an attempt may inherit: tenant and class. Equal
/// keys have equal request vectors and quota charges.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotKey {
    tenant: TenantName,
    resources: job::Resources,
    requires: job::Requires,
    runtime: job::Runtime,
    gang: Option<job::Gang>,
}

impl SlotKey {
    /// The key of a demand.
    #[must_use]
    pub fn of(demand: &JobSpec) -> Self {
        let JobSpec { tenant, resources, requires, runtime, gang, .. } = demand.clone();
        Self { tenant, resources, requires, runtime, gang }
    }
}

/// The specification's own faults as the error of a call; `path` stands before each place, such as `jobs[3]`.
#[must_use]
pub fn problem(errors: user::SpecErrors, path: &str) -> super::problem::Problem {
    let field = |error: user::SpecError| {
        let path = match (path, error.path.as_str()) {
            (_, "") => path.to_owned(),
            ("", inner) => inner.to_owned(),
            (outer, inner) => format!("{outer}.{inner}"),
        };
        super::problem::FieldError { path, message: error.message }
    };
    super::problem::Problem::invalid(errors.into_iter().map(field).collect())
}
