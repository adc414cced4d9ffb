//! Specifications: checked and prepared at the edge, as the core takes them and as they are stored, so that the loop never parses or
//! hashes anything; and those that live jobs share, equal ones once, by the hash of their body. What goes to workers is made of
//! them once, by the writer.

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock, Weak};

use orlop_core::error::Problem;
use orlop_core::exact;
use orlop_core::id::TenantName;
use orlop_core::ports::fleet_store::{NewSpec, SpecHash};
use orlop_core::spec::job::{Array, ArtifactIn, JobSpec, SecretRef};
use orlop_core::task::{Demand, DemandError};
use orlop_scheduler::event::ArraySpec;

use super::command::Submission;
use super::handle::Handle;
use super::live::{ByNumber, ClientFields};
use crate::api::auth::{Caller, Concern, owner};
use crate::wire::frame::Spec;

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
    let written: JobSpec = exact::from_str(body)?;
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

/// Correlation ids of one request that are kept in the audit trail.
const AUDITED: usize = 16;

/// Who submits, and what its request says of all its jobs.
#[derive(Clone, Copy, Debug)]
pub struct Submitter<'a> {
    /// Who calls.
    pub caller: &'a Caller,
    /// Hears whose objects the request turns out to be about.
    pub concern: &'a Concern,
    /// Whose a job is that names no tenant, of a caller who may use any.
    pub default_tenant: &'a TenantName,
    /// The correlation id of jobs without one of their own.
    pub request_id: &'a str,
    /// The W3C trace context of the request.
    pub traceparent: Option<&'a str>,
}

/// The jobs of a request, ready to be taken.
#[derive(Debug, Default)]
pub struct Submissions {
    /// The jobs.
    pub jobs: Vec<Submission>,
    /// Whose the first one is.
    pub tenant: Option<TenantName>,
    /// Correlation ids that jobs have of their own, the first few.
    pub correlation_ids: BTreeSet<String>,
}

impl Handle {
    /// Makes the jobs of a request ready: finds out whose each is and whether its submitter may do that, puts what the
    /// configuration says in the place of what is left open, and keeps the artifacts that are named. Each job comes with its place
    /// in the request, empty where it is alone.
    ///
    /// # Errors
    /// Forbidden, NotFound of a tenant or an artifact, InvalidSpec, each with its place; and as of the store.
    pub async fn prepare_jobs(
        &self,
        by: &Submitter<'_>,
        jobs: impl ExactSizeIterator<Item = (String, JobSpec)> + Send,
    ) -> Result<Submissions, Problem> {
        let shared = Arc::new(ClientFields {
            correlation_id: Some(by.request_id.into()),
            traceparent: by.traceparent.map(Into::into),
        });
        let mut ready = Submissions { jobs: Vec::with_capacity(jobs.len()), ..Submissions::default() };
        let mut tenants = BTreeSet::new();
        for (place, mut spec) in jobs {
            spec.tenant.iter().for_each(|asked| by.concern.is(asked));
            let tenant = owner(by.caller, by.default_tenant, &place, &spec)?;
            by.concern.is(&tenant);
            if tenants.insert(tenant.clone()) {
                self.require_tenant(&tenant, &place, |name| by.caller.sees(name)).await?;
            }
            if let Some(own) = spec.correlation_id.as_ref().filter(|_| ready.correlation_ids.len() < AUDITED) {
                ready.correlation_ids.insert(own.clone());
            }
            check_step_tenant(&tenant, &spec, &place)?;
            self.complete(&tenant, &mut spec);
            self.pin_inputs(&tenant, &mut spec, &place).await?;
            let mut job = Submission::of(&spec, &tenant, by.traceparent).map_err(|error| {
                let path = if place.is_empty() { error.field.to_owned() } else { format!("{place}.{}", error.field) };
                Problem::field(path, format!("is {}; use {}", error.given, error.allowed))
            })?;
            if spec.correlation_id.is_none() {
                job.client = Some(Arc::clone(&shared));
            }
            ready.jobs.push(job);
            ready.tenant.get_or_insert(tenant);
        }
        Ok(ready)
    }
}

/// Refuses a step of another tenant's flow: its namespace names the claims on its worker.
fn check_step_tenant(tenant: &TenantName, spec: &JobSpec, place: &str) -> Result<(), Problem> {
    let namespace = spec.step.as_ref().map(|step| step.attempt.namespace.as_str());
    let Some(other) = namespace.filter(|namespace| *namespace != tenant.as_str()) else { return Ok(()) };
    let path = if place.is_empty() { String::new() } else { format!("{place}.") };
    let message = format!("is `{other}`; use `{tenant}`, the tenant of the job");
    Err(Problem::field(format!("{path}step.attempt.namespace"), message))
}

/// A specification as live jobs share it. There may be a million of them that wait: until one travels to a worker it is kept
/// as it is stored, which is a fraction of what it says in memory.
#[derive(Debug)]
pub(super) struct Interned {
    /// Number under which it travels to workers, unique while the server lives.
    pub(super) number: u64,
    hash: SpecHash,
    body: Box<str>,
    demand: Arc<Demand>,
    outgoing: OnceLock<OutgoingSpec>,
}

/// A specification as it travels to workers.
#[derive(Debug)]
pub(super) struct OutgoingSpec {
    /// The message.
    pub(super) message: Arc<Spec>,
    /// The secrets that go with each attempt.
    pub(super) secrets: Box<[SecretRef]>,
}

impl Interned {
    /// What it asks of the fleet.
    #[must_use]
    pub(super) fn demand(&self) -> &Arc<Demand> {
        &self.demand
    }

    /// What a worker gets, read and written once.
    #[must_use]
    pub(super) fn outgoing(&self) -> &OutgoingSpec {
        self.outgoing.get_or_init(|| {
            let spec = read(&self.body).map(|(spec, _)| spec).unwrap_or_else(|error| {
                // Its worker refuses one without a command, so that its job ends and says so.
                tracing::error!(target: "orlop::scheduler", spec = %self.hash, %error, "a specification cannot be read");
                Default::default()
            });
            OutgoingSpec { message: Arc::new(Spec::new(self.number, &spec)), secrets: spec.secret_refs.into() }
        })
    }

    fn record(&self) -> NewSpec {
        NewSpec { hash: self.hash, body: self.body.clone() }
    }
}

/// A spec in the table, where it is found by its hash.
#[derive(Debug)]
struct SpecByHash(Arc<Interned>);

impl Borrow<SpecHash> for SpecByHash {
    fn borrow(&self) -> &SpecHash {
        &self.0.hash
    }
}

impl Hash for SpecByHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash.hash(state);
    }
}

impl PartialEq for SpecByHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.hash == other.0.hash
    }
}

impl Eq for SpecByHash {}

/// How many specs are kept before those that nobody uses are looked for.
const SWEEP: usize = 4096;

/// The specs of live jobs.
#[derive(Debug)]
pub(super) struct Specs {
    known: HashSet<SpecByHash>,
    /// What they ask, equal ones once: specs that differ in their command mostly ask the same.
    demands: HashSet<Arc<Demand>>,
    numbers: HashMap<u64, Weak<Interned>, ByNumber>,
    next: u64,
    sweep_at: usize,
}

impl Default for Specs {
    fn default() -> Self {
        Self { known: HashSet::new(), demands: HashSet::new(), numbers: HashMap::default(), next: 1, sweep_at: SWEEP }
    }
}

impl Specs {
    /// The spec that travels under a number, while a live job uses it.
    pub(super) fn by_number(&self, number: u64) -> Option<Arc<Interned>> {
        self.numbers.get(&number)?.upgrade()
    }

    /// The shared form of a spec, and its record if the store may not have it: no live job uses it.
    pub(super) fn intern(&mut self, spec: &Arc<Prepared>) -> (Arc<Interned>, Option<NewSpec>) {
        if let Some(SpecByHash(known)) = self.known.get(&spec.hash) {
            // Who else holds it is a live job, whose spec is stored. Retention may have deleted others.
            let stored = Arc::strong_count(known) > 1;
            return (Arc::clone(known), (!stored).then(|| known.record()));
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(|SpecByHash(known)| Arc::strong_count(known) > 1);
            self.numbers.retain(|_, known| known.strong_count() > 0);
            self.demands.retain(|demand| Arc::strong_count(demand) > 1);
            self.sweep_at = (self.known.len() * 2).max(SWEEP);
        }
        let demand = self.demands.get(&spec.demand).cloned().unwrap_or_else(|| {
            self.demands.insert(Arc::clone(&spec.demand));
            Arc::clone(&spec.demand)
        });
        let interned =
            Interned { number: self.next, hash: spec.hash, body: spec.body.clone(), demand, outgoing: OnceLock::new() };
        let interned = Arc::new(interned);
        self.next += 1;
        self.numbers.insert(interned.number, Arc::downgrade(&interned));
        self.known.insert(SpecByHash(Arc::clone(&interned)));
        let record = interned.record();
        (interned, Some(record))
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::spec::job::JobSpec;

    use super::*;

    fn prepared(word: &str) -> Arc<Prepared> {
        let spec = JobSpec { command: vec![word.to_owned()], ..JobSpec::default() };
        Arc::new(Prepared::new(&spec, &"physics".parse().unwrap()).unwrap())
    }

    #[test]
    fn what_waits_is_kept_as_it_is_stored_and_what_asks_the_same_shares_that() {
        let mut specs = Specs::default();
        let (one, record) = specs.intern(&prepared("one"));
        let (two, _) = specs.intern(&prepared("two"));
        assert_eq!(record.unwrap().hash, prepared("one").hash);
        assert!(Arc::ptr_eq(one.demand(), two.demand()) && one.number != two.number);
        assert!(one.outgoing.get().is_none() && two.outgoing.get().is_none());
        let spec = one.outgoing().message.read().unwrap();
        assert_eq!((one.outgoing().message.spec_id, spec.command), (one.number, vec!["one".to_owned()]));
        assert_eq!(spec.tenant, Some("physics".parse().unwrap()));
        let (again, record) = specs.intern(&prepared("one"));
        assert!(Arc::ptr_eq(&again, &one) && record.is_none(), "its job lives");
    }

    #[test]
    fn a_spec_that_no_live_job_uses_is_written_again_and_in_the_end_forgotten() {
        let mut specs = Specs::default();
        drop(specs.intern(&prepared("kept")));
        assert!(specs.intern(&prepared("kept")).1.is_some());
        let all: Vec<_> = (0..=SWEEP).map(|number| specs.intern(&prepared(&number.to_string())).0).collect();
        assert_eq!((specs.known.len(), specs.numbers.len(), specs.demands.len()), (SWEEP + 1, SWEEP + 1, 1));
        assert!(specs.by_number(all[7].number).is_some() && specs.by_number(1).is_none());
    }
}
