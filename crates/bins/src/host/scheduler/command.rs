//! What the loop is asked: every input of a batch, with where its answer goes.

use std::sync::Arc;

use orlop_core::error::Problem;
use orlop_core::id::{JobId, SessionId, TenantName, WorkerId};
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::ports::bus::EventBody;
use orlop_core::ports::fleet_store::{IdempotencyKey, Json, Text};
use orlop_core::task::TaskRef;
use orlop_core::time::Time;
use orlop_scheduler::config::Config as CoreConfig;
use orlop_scheduler::event::{ArraySpec, Capabilities, DrainOrder, Quota, TenantSettings};
use tokio::sync::oneshot;

use super::explain::Explained;
use super::live::ClientFields;
use super::session::{Opened, Opening, Session};
use super::spec::Prepared;
use crate::wire::frame::WorkerFrame;
use crate::wire::identity::PeerCertificate;

/// Where an answer goes, after the commit of the batch that gives it.
pub(super) type Reply<T> = oneshot::Sender<Result<T, Problem>>;

/// One job of a submit.
#[derive(Clone, Debug)]
pub struct Submission {
    /// What it is.
    pub spec: Arc<Prepared>,
    /// Earliest start.
    pub not_before: Option<Time>,
    /// How long it may wait for its first start, in milliseconds.
    pub queue_timeout: Option<u64>,
    /// Its elements, if it is an array.
    pub array: Option<ArraySpec>,
    /// Name, for search.
    pub name: Option<Text>,
    /// Labels as a JSON object of texts, for search.
    pub labels: Option<Json>,
    /// The flow it belongs to, and the step of it.
    pub flow: Option<(Box<str>, Box<str>)>,
    /// The job it repeats.
    pub retry_of: Option<JobId>,
    /// What else its client said.
    pub client: Option<Arc<ClientFields>>,
}

/// What makes a request take effect once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Once {
    /// What names the request.
    pub key: IdempotencyKey,
    /// Hash of its body.
    pub body_hash: [u8; 32],
}

/// Jobs that are taken all or none.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The jobs.
    pub jobs: Vec<Submission>,
    /// What makes the submit take effect once.
    pub once: Option<Once>,
}

/// What a submit made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Submitted {
    /// The jobs, in the order of the batch.
    pub jobs: Vec<JobId>,
    /// It is the answer of an earlier request with the same key.
    pub replay: bool,
    /// What the client should know, such as that no worker there is could ever run a job.
    pub warnings: Vec<String>,
}

/// Who showed a sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alive {
    /// The worker.
    pub worker: WorkerId,
    /// It was silent for so long that what it had may run elsewhere by now: it may start nothing before it has connected and
    /// heard what of it still counts.
    pub given_up: bool,
}

/// What became of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It was taken.
    Taken,
    /// The job had ended before.
    Ended,
}

/// What an operator wants of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerOrder {
    /// To finish what it has and leave, and why; an empty text = nobody said.
    Drain(DrainOrder, String),
    /// Not to leave after all.
    Undrain,
    /// To get no new work.
    Cordon,
    /// To get new work again.
    Uncordon,
    /// To have a label with its id, which jobs can require.
    Name,
    /// To be gone; with `force` although it has attempts.
    Remove {
        /// Whether attempts that are left are given up.
        force: bool,
    },
}

/// An agent that registers.
#[derive(Clone, Debug)]
pub struct Registration {
    /// Its worker id.
    pub worker: WorkerId,
    /// Names its state directory.
    pub state_id: String,
    /// The boot of its host and where the directory is there, by which a copy is known; empty = not said.
    pub place: String,
    /// What it offers, labels and tenants included.
    pub capabilities: Arc<Capabilities>,
    /// Its version.
    pub agent_version: String,
    /// The session it will have: 128 bits of a cryptographic source.
    pub session: SessionId,
}

/// Somebody who waits for the next change of a job.
#[derive(Debug)]
pub(super) struct Watch {
    /// Told once every change before is committed.
    pub(super) ready: oneshot::Sender<()>,
    /// Told with the commit of the next change.
    pub(super) changed: oneshot::Sender<()>,
}

/// An input of the loop.
#[derive(Debug)]
pub(super) enum Command {
    Submit(Box<Batch>, Reply<Submitted>),
    Cancel { job: JobId, elements: Vec<(u32, u32)>, reply: Reply<Cancelled> },
    Explain(JobId, oneshot::Sender<Option<Box<Explained>>>),
    Wait(JobId, oneshot::Sender<()>),
    Watch(JobId, u32, Watch),
    Worker(WorkerId, WorkerOrder, Reply<()>),
    Place { worker: WorkerId, job: JobId, reply: Reply<TaskRef> },
    Config(Box<CoreConfig>, Reply<()>),
    Tenant(Box<(TenantName, Option<TenantSettings>, Option<Quota>)>, Reply<()>),
    Register(Box<Registration>, Reply<Arc<Session>>),
    Open(Box<Opening>, Reply<Opened>),
    Frame(Arc<Session>, Box<WorkerFrame>),
    Closed { session: Arc<Session>, stream: u64 },
    Publish(Box<EventBody>),
    Recalled(Vec<(Arc<Session>, TaskRef, ReportVerdict)>),
    Alive { session: SessionId, healthy: Option<bool>, certificate: Option<PeerCertificate>, reply: Reply<Alive> },
}
