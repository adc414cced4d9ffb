//! A client for flows of a cluster: create, read, approve, suspend, stop, repeat and delete them. Owns which requests each method makes;
//! watches and logs are in `watch` and `logs` (feature `client`).

mod create;
#[cfg(feature = "client")]
pub mod logs;
mod order;
#[cfg(test)]
mod tests;
#[cfg(feature = "client")]
pub mod watch;

use orlop_core::error::{Class, FLOW, Problem};
use orlop_core::spec::flow::{FlowSpec, JobFlow};
use orlop_dag::manifest::{Limits, Violations};
use serde_json::Value;

pub use create::{KEY, NewFlow, RetryOptions};
pub use order::ApprovalDecision;

use crate::api::{self, Api, ApiError, Kind, Request};
use crate::convert;
use crate::records::{self, FetchError};

/// How often something is tried again that conflicts with the change of another client.
const TRIES: u32 = 8;

/// A client for the flows of one namespace. With `kube::Client::try_default()` in place of the client of the test server, it works on
/// your cluster.
///
/// A flow is one object, also with 10,000 steps; where the records of its status are stored in ConfigMaps, [`FlowClient::get`] makes
/// one more request for each of these.
///
/// ```
/// # #[cfg(feature = "testing")] {
/// use orlop_core::spec::flow::{FlowSpec, JobFlow, StopMode};
/// use orlop_core::spec::step::Step;
/// use orlop_k8s::client::{FlowClient, NewFlow};
/// use orlop_k8s::{api::Client, crd, testing::ApiServer};
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let server = ApiServer::new(); // in memory, for tests
/// server.install(&crd::job_flow()).unwrap();
/// let flows = FlowClient::new(Client::new(server.client()), "default");
///
/// let flow = JobFlow::new("release", FlowSpec::new([Step::manual("approve", "Release it?")]));
/// let new = NewFlow { flow, parameters: Default::default(), key: "build-17".into() };
/// flows.create(new).await?;
/// assert_eq!(flows.list(&[]).await?[0].metadata.name, "release");
/// flows.stop("release", StopMode::Graceful).await?;
/// let flow = flows.get("release").await?;
/// assert_eq!(flow.spec.stop, Some(StopMode::Graceful));
/// flows.delete(&flow).await?;
/// # Ok::<(), orlop_core::error::Problem>(())
/// # }).unwrap();
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FlowClient<A> {
    api: A,
    namespace: String,
    limits: Limits,
}

impl<A: Api> FlowClient<A> {
    /// The flows of a namespace. With an empty namespace [`FlowClient::list`] gives those of all namespaces.
    #[must_use]
    pub fn new(api: A, namespace: &str) -> Self {
        // Whether secrets may be text is the operator's to say, and its webhook's.
        let mut limits = Limits::kubernetes();
        limits.secrets_as_text = true;
        Self { api, namespace: namespace.to_owned(), limits }
    }

    /// A flow with all records of its status, wherever they are stored.
    ///
    /// # Errors
    /// When it is not there, cannot be read, or the server refuses.
    pub async fn get(&self, name: &str) -> Result<JobFlow, Problem> {
        for _ in 1..TRIES {
            match self.read(&self.object(name).await?).await {
                Err(error) if is_moving(&error) => {}
                read => return read,
            }
        }
        self.read(&self.object(name).await?).await
    }

    /// A flow as its object alone shows it, without records that are stored elsewhere; also a flow with an invalid spec.
    ///
    /// # Errors
    /// When it is not there, or the server refuses.
    pub async fn find(&self, name: &str) -> Result<JobFlow, Problem> {
        Ok(shown(&self.object(name).await?))
    }

    /// All flows with these labels, oldest first, as their objects alone show them.
    ///
    /// # Errors
    /// When the server refuses. A flow that cannot be read has neither spec nor status.
    pub async fn list(&self, labels: &[(String, String)]) -> Result<Vec<JobFlow>, Problem> {
        let selector: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let listed = api::list(&self.api, Kind::JobFlow, &self.namespace, &selector.join(",")).await;
        let items = listed.map_err(|source| source.problem("listing flows"))?;
        let mut flows: Vec<JobFlow> = items.iter().map(shown).collect();
        flows.sort_by(|a, b| order(a).cmp(&order(b)));
        Ok(flows)
    }

    /// The flow of a stored object, with all records of its status.
    ///
    /// # Errors
    /// When it cannot be read, or a part of its status is missing: [`is_moving`] then tells whether there is a newer status.
    pub async fn read(&self, object: &Value) -> Result<JobFlow, Problem> {
        let named = || text(object, "/metadata/name").to_owned();
        let unreadable = |why: String| Problem::new(Class::Fatal, format!("flow `{}` cannot be read: {why}", named()));
        let reading = convert::read(object, &self.limits).map_err(|found| unreadable(first(found)))?;
        let mut flow = reading.flow;
        if let Some(status) = convert::status(object).map_err(unreadable)? {
            let whole = records::whole(&self.api, &flow, &status).await;
            flow.status = Some(whole.map_err(|error| match error {
                error if error.is_missing() => moving(&named()),
                FetchError::Api(source) => source.problem(&format!("reading the steps of flow `{}`", named())),
                FetchError::Read(error) => unreadable(error.to_string()),
            })?);
        }
        Ok(flow)
    }

    /// The object of a flow as it is stored.
    async fn object(&self, name: &str) -> Result<Value, Problem> {
        let request = Request::get(Kind::JobFlow, &self.namespace, name);
        match self.send(&request, || format!("reading flow `{name}`")).await {
            Err(error) if is_missing(&error) => Err(self.missing(name)),
            answer => answer,
        }
    }

    fn missing(&self, name: &str) -> Problem {
        missing(name, &self.namespace)
    }

    async fn send(&self, request: &Request, doing: impl FnOnce() -> String) -> Result<Value, Problem> {
        self.api.send(request).await.map_err(|source| source.problem(&doing()))
    }
}

/// The error for a flow that does not exist.
#[must_use]
pub fn missing(name: &str, namespace: &str) -> Problem {
    let message = format!("there is no flow `{name}` in namespace `{namespace}`");
    Problem::new(Class::NotFound, message.clone()).at_field(FLOW, message)
}

fn is_missing(error: &Problem) -> bool {
    ApiError::of(error).is_some_and(|error| error.code == Some(404))
}

/// The reason of [`is_moving`].
const MOVING: &str = "StatusMoving";

/// Whether an error says that records of steps were missing where the status has them: the status has changed meanwhile, or somebody
/// has deleted them. Read the object again.
#[must_use]
pub fn is_moving(error: &Problem) -> bool {
    error.reason == Some(MOVING)
}

fn moving(flow: &str) -> Problem {
    let message = format!("the steps of flow `{flow}` are not where its status says they are; try again");
    Problem::new(Class::Transient, message).with_reason(MOVING)
}

fn ended(flow: &str, phase: &str) -> Problem {
    Problem::new(Class::Conflict, format!("flow `{flow}` has ended: it is {phase}; nothing can change it"))
}

/// A flow as its object alone shows it: where records are stored elsewhere, only the steps that need attention. Of a flow with an
/// invalid spec, only the metadata.
#[must_use]
pub fn shown(object: &Value) -> JobFlow {
    serde_json::from_value(object.clone()).unwrap_or_else(|_| {
        let metadata = object.get("metadata").cloned().unwrap_or_default();
        let metadata = serde_json::from_value(metadata).unwrap_or_default();
        JobFlow { metadata, ..JobFlow::new("", FlowSpec::default()) }
    })
}

/// The first thing wrong with a flow.
fn first(found: Violations) -> String {
    let violation = found.into_vec().into_iter().next();
    violation.map(|violation| format!("{}: {}", violation.path, violation.message)).unwrap_or_default()
}

fn order(flow: &JobFlow) -> (Option<orlop_core::time::Time>, Option<&str>, &str) {
    let metadata = &flow.metadata;
    (metadata.creation_timestamp, metadata.namespace.as_deref(), &metadata.name)
}

fn text<'v>(value: &'v Value, path: &str) -> &'v str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}
