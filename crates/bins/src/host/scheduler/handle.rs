//! What everything outside calls: gRPC and REST services, `orlop up`, tests.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use orlop_cloud::bus::local::LocalSubscription;
use orlop_core::error::{Code, Problem};
use orlop_core::id::{JobId, SessionId, TenantName, WorkerId};
use orlop_core::ports::bus::{EventBody, SubjectFilter};
use orlop_core::ports::fleet_store::FleetStore;
use orlop_core::spec::job::JobSpec;
use orlop_core::task::TaskRef;
use orlop_scheduler::config::Config as CoreConfig;
use orlop_scheduler::event::{Quota, TenantSettings};
use tokio::sync::{oneshot, watch};

use super::changes::Changes;
use super::clock::Clock;
use super::command::{Alive, Batch, Cancelled, Command, Registration, Submitted, Watch, WorkerOrder};
use super::error;
use super::explain::Explained;
use super::ingress::Lane;
use super::logs;
use super::session::{Opened, Opening, Session};
use super::shared::{Options, Shared, Status};
use super::snapshot::Snapshot;
use crate::wire::frame::{Hello, WorkerFrame};
use crate::wire::identity::PeerCertificate;
use crate::wire::session::SessionError;

/// A store that does not answer for so long counts as away.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a stream of an agent cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// A frame is not what it must be.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The logs in a frame cannot be kept now.
    #[error("logs cannot be kept: {0}")]
    Logs(Problem),
}

/// The server, to anyone who may call it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) shared: Arc<Shared>,
}

impl Handle {
    /// Takes all jobs of a batch or none. Answers once they are committed.
    ///
    /// # Errors
    /// The refusal of the first job that is refused; RateLimited when the server is full; NotLeader and StoreUnavailable
    /// when nothing can be written here. A request whose answer is lost may be repeated under its key.
    pub async fn submit(&self, batch: Batch) -> Result<Submitted, Problem> {
        if let Some(once) = &batch.once
            && let Some(known) = self.stored_answer(once).await?
        {
            return Ok(known);
        }
        self.shared.disk_guard.check()?;
        let priority = batch.jobs.iter().map(|job| job.spec.demand.priority).min().unwrap_or_default();
        let lane = Lane::Band(priority.band());
        self.ask(lane, |reply| Command::Submit(Box::new(batch), reply)).await
    }

    /// The answer of an earlier request with the same key, if the store has it.
    async fn stored_answer(&self, once: &super::command::Once) -> Result<Option<Submitted>, Problem> {
        if matches!(&*self.shared.status.borrow(), Status::Restoring | Status::Stopped) {
            return Err(self.away());
        }
        let now = self.shared.clock.wall();
        let known = tokio::time::timeout(PATIENCE, self.shared.store.idempotency(&once.key, now)).await;
        let known = known.map_err(|_| error::store_unavailable())??;
        let Some(known) = known else { return Ok(None) };
        if known.body_hash != once.body_hash {
            let text = format!("idempotency key `{}` was used for another request; use a new one", once.key.key);
            return Err(Problem::coded(Code::IdempotencyMismatch, text));
        }
        /// As it is stored: jobs alone, where nothing was said beside.
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Answer {
            Jobs(Vec<JobId>),
            Warned { jobs: Vec<JobId>, warnings: Vec<String> },
        }
        let answer: Answer = serde_json::from_str(&known.response).map_err(|problem| {
            Problem::coded(
                Code::Internal,
                format!("the stored response of key `{}` cannot be read: {problem}", once.key.key),
            )
        })?;
        let (jobs, warnings) = match answer {
            Answer::Jobs(jobs) => (jobs, Vec::new()),
            Answer::Warned { jobs, warnings } => (jobs, warnings),
        };
        Ok(Some(Submitted { jobs, replay: true, warnings }))
    }

    /// Cancels a job, or ranges of elements of an array; none = all of it. A job that has ended stays as it is.
    ///
    /// # Errors
    /// NotFound; and as of [`Handle::submit`].
    pub async fn cancel(&self, job: JobId, elements: Vec<(u32, u32)>) -> Result<Cancelled, Problem> {
        match self.ask(Lane::Control, |reply| Command::Cancel { job, elements, reply }).await {
            // The core forgets jobs that ended long ago; the store does not.
            Err(unknown) if unknown.code == Code::NotFound => {
                let row = self.shared.store.job(job).await?;
                row.map(|_| Cancelled::Ended).ok_or_else(|| error::not_found(format_args!("job {job}")))
            }
            other => other,
        }
    }

    /// Why a job is where it is.
    ///
    /// # Errors
    /// NotFound when it is not live, nor ended lately; and as of [`Handle::submit`].
    pub async fn explain(&self, job: JobId) -> Result<Box<Explained>, Problem> {
        let (reply, answer) = oneshot::channel();
        self.push(Lane::Control, Command::Explain(job, reply))?;
        let answer = answer.await.map_err(|_| self.away())?;
        answer.ok_or_else(|| error::not_found(format_args!("job {job}")))
    }

    /// Listens to events from now on.
    ///
    /// # Errors
    /// RateLimited when too many listen.
    pub fn subscribe(&self, filter: SubjectFilter) -> Result<LocalSubscription, Problem> {
        self.shared.bus.listen(filter).map_err(|error| Problem::coded(Code::RateLimited, error.message))
    }

    /// Publishes an event of another part of the server, in order with those of the loop. Where nothing can be published
    /// now it is lost: events tell of what is stored anyway.
    pub fn publish(&self, body: EventBody) {
        let kind = body.kind.clone();
        if let Err(problem) = self.push(Lane::Control, Command::Publish(Box::new(body))) {
            tracing::debug!(target: "orlop::scheduler", kind, problem = problem.message, "an event was not published");
        }
    }

    /// Waits for a job to end and its end to be committed. One that is not live counts as ended.
    ///
    /// # Errors
    /// As of [`Handle::submit`].
    pub async fn ended(&self, job: JobId) -> Result<(), Problem> {
        let (waiter, ended) = oneshot::channel();
        self.push(Lane::Control, Command::Wait(job, waiter))?;
        ended.await.map_err(|_| self.away())
    }

    /// Watches a job, or an element of it. Once this has answered, the store shows every change before; what is given
    /// completes with the commit of the next one, or when the server stops acting.
    ///
    /// # Errors
    /// As of [`Handle::submit`].
    pub(super) async fn watch(&self, job: JobId, index: u32) -> Result<oneshot::Receiver<()>, Problem> {
        let (ready, begun) = oneshot::channel();
        let (changed, change) = oneshot::channel();
        self.push(Lane::Control, Command::Watch(job, index, Watch { ready, changed }))?;
        begun.await.map_err(|_| self.away())?;
        Ok(change)
    }

    /// Has an operator's order for a worker carried out.
    ///
    /// # Errors
    /// NotFound; Conflict when its state does not take the order; and as of [`Handle::submit`].
    pub async fn order(&self, worker: WorkerId, order: WorkerOrder) -> Result<(), Problem> {
        self.ask(Lane::Control, |reply| Command::Worker(worker, order, reply)).await
    }

    /// Places a queued job on a worker now: filters and quotas apply, policy and order do not. Answers once the worker has
    /// accepted it.
    ///
    /// # Errors
    /// NotFound; Precondition with the reason when it does not fit there now, or the worker does not accept it; and as of
    /// [`Handle::submit`].
    pub async fn place(&self, worker: WorkerId, job: JobId) -> Result<TaskRef, Problem> {
        self.ask(Lane::Control, |reply| Command::Place { worker, job, reply }).await
    }

    /// Has the core go on under another configuration.
    ///
    /// # Errors
    /// InvalidSpec when it makes no sense; and as of [`Handle::submit`].
    pub async fn configure(&self, config: CoreConfig) -> Result<(), Problem> {
        self.ask(Lane::Control, |reply| Command::Config(Box::new(config), reply)).await
    }

    /// Puts what the server's configuration says in the place of what a specification leaves open.
    pub fn complete(&self, tenant: &TenantName, spec: &mut JobSpec) {
        if spec.timeout_ms == 0 {
            spec.timeout_ms = self.shared.options.timeout_ms;
        }
        self.limit_log(tenant, spec);
    }

    /// Lets the log of a specification be no longer than its tenant may have it.
    pub fn limit_log(&self, tenant: &TenantName, spec: &mut JobSpec) {
        let snapshot = self.snapshot();
        let limit = snapshot.tenants.get(tenant).and_then(|known| known.quota.max_log_bytes_per_job);
        spec.log.limit = spec.log.limit.min(limit.unwrap_or(u64::MAX));
    }

    /// Creates a tenant, or changes its settings, its limits, or both.
    ///
    /// # Errors
    /// InvalidSpec when a value is out of its bounds; and as of [`Handle::submit`].
    pub async fn set_tenant(
        &self,
        name: TenantName,
        settings: Option<TenantSettings>,
        quota: Option<Quota>,
    ) -> Result<(), Problem> {
        let change = Box::new((name, settings, quota));
        self.ask(Lane::Control, |reply| Command::Tenant(change, reply)).await
    }

    /// Gives a worker a session. The caller has checked its token or certificate.
    ///
    /// # Errors
    /// Conflict when the id is connected from another state directory; and as of [`Handle::submit`].
    pub async fn register(&self, registration: Registration) -> Result<Arc<Session>, Problem> {
        self.ask(Lane::Control, |reply| Command::Register(Box::new(registration), reply)).await
    }

    /// Opens the stream of a session. What goes out on it the session gives ([`Session::poll`]).
    ///
    /// # Errors
    /// Unauthenticated when the session is over: the agent is to register again; Forbidden when it is that of another worker
    /// than the certificate's; NotLeader when the agent has seen a newer server; Precondition when it claims frames that
    /// were never sent; and as of [`Handle::submit`].
    pub async fn open_stream(&self, hello: Hello, certificate: Option<PeerCertificate>) -> Result<Opened, Problem> {
        let stream = self.shared.streams.fetch_add(1, Ordering::SeqCst);
        let opening = Box::new(Opening { stream, hello, certificate });
        self.ask(Lane::Control, |reply| Command::Open(opening, reply)).await
    }

    /// Hands a frame of an agent over; waits while the server is full, so that the agent is slowed down. When it fails, or
    /// is given up, the frame counts as not received.
    ///
    /// # Errors
    /// The stream cannot go on.
    pub async fn frame(&self, session: &Arc<Session>, stream: u64, frame: WorkerFrame) -> Result<(), StreamError> {
        let Some((mut frame, hand)) = session.receive(stream, frame).await? else { return Ok(()) };
        let chunks = std::mem::take(&mut frame.logs);
        if !chunks.is_empty() {
            logs::keep(&self.shared, session, chunks).await.map_err(StreamError::Logs)?;
        }
        logs::expect_ends(&self.shared, &frame.results).await;
        let command = Command::Frame(Arc::clone(session), Box::new(frame));
        self.shared.ingress.push_when_room(Lane::Control, command).await;
        hand.over();
        Ok(())
    }

    /// A stream of a session has ended.
    pub async fn stream_closed(&self, session: &Arc<Session>, stream: u64) {
        session.hang_up(stream);
        let command = Command::Closed { session: Arc::clone(session), stream };
        self.shared.ingress.push_when_room(Lane::Control, command).await;
    }

    /// A sign of life of an agent beside its stream. Gives whose it is.
    ///
    /// # Errors
    /// Unauthenticated when the session is over; Forbidden when it is that of another worker than the certificate's; and as
    /// of [`Handle::submit`].
    pub async fn alive(
        &self,
        session: SessionId,
        healthy: Option<bool>,
        certificate: Option<PeerCertificate>,
    ) -> Result<Alive, Problem> {
        self.ask(Lane::Control, |reply| Command::Alive { session, healthy, certificate, reply }).await
    }

    /// What the server does.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.status.borrow().clone()
    }

    /// What the server does, whenever that changes.
    #[must_use]
    pub fn status_changes(&self) -> watch::Receiver<Status> {
        self.shared.status.subscribe()
    }

    /// The latest snapshot of the fleet, of the server that leads: another one has none, or an old one.
    ///
    /// # Errors
    /// NotLeader and StoreUnavailable when this server does not lead now.
    pub fn leader_snapshot(&self) -> Result<Arc<Snapshot>, Problem> {
        match &*self.shared.status.borrow() {
            Status::Leading { .. } => Ok(self.snapshot()),
            _ => Err(self.away()),
        }
    }

    /// The latest snapshot of the fleet as this server has it, whether it leads or not.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.snapshot.load_full()
    }

    /// What changes, once it is committed.
    #[must_use]
    pub fn changes(&self) -> &Arc<Changes> {
        &self.shared.changes
    }

    /// The store, for reads.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn FleetStore> {
        &self.shared.store
    }

    /// How many listen to events.
    #[must_use]
    pub fn listeners(&self) -> usize {
        self.shared.bus.listeners()
    }

    /// What the server was started with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// The server's clock.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    async fn ask<T>(
        &self,
        lane: Lane,
        command: impl FnOnce(oneshot::Sender<Result<T, Problem>>) -> Command,
    ) -> Result<T, Problem> {
        let (reply, answer) = oneshot::channel();
        self.push(lane, command(reply))?;
        // No answer: the batch was not committed, or the server stopped acting.
        answer.await.map_err(|_| self.away())?
    }

    fn push(&self, lane: Lane, command: Command) -> Result<(), Problem> {
        if !matches!(&*self.shared.status.borrow(), Status::Leading { .. }) {
            return Err(self.away());
        }
        self.shared.ingress.push(lane, command).map_err(|_| error::full())
    }

    /// Why this server does not act.
    fn away(&self) -> Problem {
        match &*self.shared.status.borrow() {
            Status::Standby { leader } => error::not_leader(leader.clone()),
            // A full disk is why it cannot be written, if it is.
            _ => self.shared.disk_guard.check().err().unwrap_or_else(error::store_unavailable),
        }
    }
}
