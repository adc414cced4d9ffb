//! A specification made ready at the edge: checked, as the core takes it, and as it is stored. So
//! the loop never parses or hashes anything.

use std::sync::Arc;

use orlop_core::id::TenantName;
use orlop_core::ports::fleet_store::{NewSpec, SpecHash};
use orlop_core::spec::job::{Array, ArtifactIn, JobSpec};
use orlop_core::task::{Demand, DemandError};
use orlop_scheduler::event::ArraySpec;

use super::command::Submission;
use super::live::ClientFields;

/// A specification that was checked.
#[derive(Debug)]
pub struct Prepared {
    /// Its identity.
    pub hash: SpecHash,
    /// What is stored.
    pub body: Box<str>,
    /// What it asks of the fleet.
    pub demand: Arc<Demand>,
    /// Artifacts that it takes: name and SHA-256.
    pub inputs: Box<[(String, String)]>,
    /// Of an array: `max_parallel` and `max_failures`.
    limits: Limits,
}

/// Of an array: the most elements at once, and how many may be unsuccessful.
type Limits = (Option<u32>, Option<u32>);

/// What a worker gets of a stored body, and the limits of an array.
pub(super) fn read(body: &str) -> Result<(JobSpec, Limits), serde_json::Error> {
    let written: JobSpec = serde_json::from_str(body)?;
    let limits = written.array.as_ref().map_or((None, None), |array| (array.max_parallel, array.max_failures));
    Ok((JobSpec { array: None, ..written }, limits))
}

fn inputs(spec: &JobSpec) -> Box<[(String, String)]> {
    let digest = |input: &ArtifactIn| input.sha256.clone().unwrap_or_default();
    spec.artifacts_in.iter().map(|input| (input.name.clone(), digest(input))).collect()
}

fn demand(spec: &JobSpec, tenant: &TenantName) -> Result<Arc<Demand>, DemandError> {
    let demand = spec.demand(tenant);
    demand.check()?;
    Ok(Arc::new(demand))
}

/// The elements of an array as the engine takes them; none if it has faults.
fn elements(array: &Array) -> Option<ArraySpec> {
    let indices = array.elements()?.ranges().to_vec();
    Some(ArraySpec { indices, max_parallel: array.max_parallel, max_failures: array.max_failures })
}

/// A stored specification that cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoredError {
    /// It is not what is written as a specification.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// It does not say whose it is.
    #[error("it names no tenant")]
    Tenant,
    /// It breaks a bound.
    #[error(transparent)]
    Bound(#[from] DemandError),
}

impl Prepared {
    /// Makes the part of a specification ready that jobs share.
    ///
    /// # Errors
    /// The specification breaks a rule that [`JobSpec::check`] would have found.
    pub fn new(spec: &JobSpec, tenant: &TenantName) -> Result<Self, DemandError> {
        let mut shared = spec.shared();
        shared.tenant = Some(tenant.clone());
        let limits = spec.array.as_ref().map_or((None, None), |array| (array.max_parallel, array.max_failures));
        let demand = demand(&shared, tenant)?;
        // The limits of an array go with its spec; its indices with the job.
        let mut written = shared.clone();
        if limits != (None, None) {
            let (max_parallel, max_failures) = limits;
            written.array = Some(Array { max_parallel, max_failures, ..Array::default() });
        }
        let body: Box<str> = String::from_utf8_lossy(&written.encode()).into();
        Ok(Self { hash: SpecHash::of(&body), body, demand, inputs: inputs(&shared), limits })
    }

    /// The specification that was stored.
    ///
    /// # Errors
    /// The body is not one that [`Prepared::new`] wrote.
    pub(super) fn stored(stored: &NewSpec) -> Result<Self, StoredError> {
        let (shared, limits) = read(&stored.body)?;
        let tenant = shared.tenant.clone().ok_or(StoredError::Tenant)?;
        let demand = demand(&shared, &tenant)?;
        Ok(Self { hash: stored.hash, body: stored.body.clone(), demand, inputs: inputs(&shared), limits })
    }

    /// Of an array: the most elements at once, and how many may be unsuccessful.
    pub(super) fn array_limits(&self) -> Limits {
        self.limits
    }
}

impl Submission {
    /// The submit of a specification that was checked, for a tenant.
    ///
    /// # Errors
    /// As of [`Prepared::new`].
    pub fn of(spec: &JobSpec, tenant: &TenantName, traceparent: Option<&str>) -> Result<Self, DemandError> {
        let prepared = Arc::new(Prepared::new(spec, tenant)?);
        let correlation_id = spec.correlation_id.as_deref().map(Into::into);
        let client = ClientFields { correlation_id, traceparent: traceparent.map(Into::into) };
        let array = spec.array.as_ref().and_then(elements);
        // Writing to memory fails for maps whose keys are no texts; here all keys are.
        let labels = (!spec.labels.is_empty()).then(|| serde_json::to_string(&spec.labels).unwrap_or_default().into());
        Ok(Self {
            spec: prepared,
            not_before: spec.not_before,
            queue_timeout: spec.queue_timeout_ms,
            array,
            name: (!spec.name.is_empty()).then(|| spec.name.clone().into()),
            labels,
            flow: None,
            retry_of: None,
            client: (client != ClientFields::default()).then(|| Arc::new(client)),
        })
    }
}
