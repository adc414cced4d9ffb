//! Who may call which method of the services: one table with the role each needs, asked before a message is read.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use async_trait::async_trait;
use axum::body::Body;
use orlop_core::error::{Code, Problem};
use orlop_core::ports::fleet_store::AuditEntry;

use crate::api::auth::Role;
use crate::api::{Api, Ending, Holder, Origin, until, whose};
use crate::wire::grpc::{CallInterceptor, Caller, SUBMIT_STREAM};

/// Who may call a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Needs {
    /// Anybody.
    Nothing,
    /// Anybody, who then shows a join token or a certificate; over plain text anyone who has the client token.
    Joining,
    /// A worker: with its certificate; over plain text with the client token.
    Worker,
    /// Anyone who has a token of this role.
    Role(Role),
    /// A worker with its certificate, or over plain text with the client token and its session; or anyone who has a token of
    /// this role.
    WorkerOr(Role),
}

/// A method.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Method {
    /// Its path.
    pub(in super::super) path: &'static str,
    /// Its name in the audit trail, as REST has it.
    name: &'static str,
    pub(in super::super) needs: Needs,
    /// It changes something.
    writes: bool,
}

const fn reads(path: &'static str, name: &'static str, needs: Needs) -> Method {
    Method { path, name, needs, writes: false }
}

const fn writes(path: &'static str, name: &'static str, needs: Needs) -> Method {
    Method { path, name, needs, writes: true }
}

const VIEWER: Needs = Needs::Role(Role::Viewer);
const SUBMITTER: Needs = Needs::Role(Role::Submitter);
const OPERATOR: Needs = Needs::Role(Role::Operator);

/// Every method.
pub(in super::super) const METHODS: &[Method] = &[
    writes("/orlop.v1.WorkerService/RegisterWorker", "workers.register", Needs::Joining),
    reads("/orlop.v1.WorkerService/JobStream", "workers.stream", Needs::Worker),
    reads("/orlop.v1.WorkerService/Heartbeat", "workers.heartbeat", Needs::Worker),
    reads("/orlop.v1.WorkerService/GetWorkerStatus", "workers.get", VIEWER),
    writes("/orlop.v1.WorkerService/AssignJob", "jobs.assign", OPERATOR),
    writes("/orlop.v1.JobService/Submit", "jobs.submit", SUBMITTER),
    // Its batches are written down, each when it was taken.
    reads(SUBMIT_STREAM, "jobs.submit_stream", SUBMITTER),
    reads("/orlop.v1.JobService/Get", "jobs.get", VIEWER),
    reads("/orlop.v1.JobService/List", "jobs.list", VIEWER),
    writes("/orlop.v1.JobService/Cancel", "jobs.cancel", SUBMITTER),
    writes("/orlop.v1.JobService/Retry", "jobs.retry", SUBMITTER),
    reads("/orlop.v1.JobService/Explain", "jobs.explain", VIEWER),
    reads("/orlop.v1.JobService/Watch", "jobs.watch", VIEWER),
    reads("/orlop.v1.JobService/Logs", "jobs.logs", VIEWER),
    writes("/orlop.v1.ArtifactService/Begin", "uploads.begin", Needs::WorkerOr(Role::Submitter)),
    writes("/orlop.v1.ArtifactService/Upload", "uploads.upload", Needs::WorkerOr(Role::Submitter)),
    writes("/orlop.v1.ArtifactService/Finalize", "uploads.finalize", Needs::WorkerOr(Role::Submitter)),
    reads("/orlop.v1.ArtifactService/Download", "artifacts.get", Needs::WorkerOr(Role::Viewer)),
    reads("/grpc.health.v1.Health/Check", "server.live", Needs::Nothing),
    reads("/grpc.health.v1.Health/List", "server.live", Needs::Nothing),
    reads("/grpc.health.v1.Health/Watch", "server.live", Needs::Nothing),
];

/// Methods whose answers may last longer than the right to them. A worker's own stream ends with its session.
const STREAMS: &[&str] = &[
    SUBMIT_STREAM,
    "/orlop.v1.JobService/Watch",
    "/orlop.v1.JobService/Logs",
    "/orlop.v1.ArtifactService/Upload",
    "/orlop.v1.ArtifactService/Download",
];

/// The interceptor of one listener.
pub(super) struct ApiInterceptor {
    api: Arc<Api>,
    /// It can be reached from outside this machine.
    exposed: bool,
    /// It speaks TLS: workers show certificates.
    tls: bool,
}

impl ApiInterceptor {
    pub(super) fn new(api: Arc<Api>, exposed: bool, tls: bool) -> Self {
        Self { api, exposed, tls }
    }

    fn origin(&self, caller: &Caller) -> Origin {
        let address = caller.address.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.ip());
        Origin { address, exposed: self.exposed }
    }
}

fn method(path: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.path == path)
}

#[async_trait]
impl CallInterceptor for ApiInterceptor {
    async fn admit(&self, path: &str, caller: &mut Caller) -> Result<(), Problem> {
        let known = method(path);
        let known = known.ok_or_else(|| Problem::coded(Code::NotFound, "method not found"))?;
        let (guard, origin) = (self.api.guard(), self.origin(caller));
        // Whose session it is, the method asks.
        if let (Needs::WorkerOr(_), false, Some(session)) = (known.needs, self.tls, caller.session) {
            guard.check_client(caller.token.as_deref(), origin)?;
            return self.api.handle().alive(session, None, None).await.map(|_| ());
        }
        if let (Needs::Worker | Needs::WorkerOr(_), Some(certificate)) = (known.needs, &caller.certificate) {
            return guard.check_certificate(certificate, self.api.authority().is_some(), origin).await;
        }
        match known.needs {
            Needs::Joining | Needs::Worker if !self.tls => guard.check_client(caller.token.as_deref(), origin),
            Needs::Nothing | Needs::Joining => Ok(()),
            Needs::Worker => Err(guard.stranger(origin, "a worker shows its certificate; register to get one")),
            Needs::Role(role) | Needs::WorkerOr(role) => {
                let who = caller.who.insert(guard.identify(caller.token.as_deref(), origin).await?);
                guard.check_pace(who).inspect_err(|_| caller.hasty = true)?;
                who.check(role)?;
                if STREAMS.contains(&path) {
                    caller.stream = Some(Arc::new(self.api.stream(who)?));
                }
                Ok(())
            }
        }
    }

    fn is_open(&self, path: &str) -> bool {
        method(path).is_none_or(|method| method.needs == Needs::Nothing)
    }

    fn is_small(&self, path: &str) -> bool {
        method(path).is_some_and(|method| method.needs == Needs::Joining || method.name == "workers.heartbeat")
    }

    fn lasting(&self, path: &str, caller: &Caller, body: Body) -> Body {
        let holder = match (&caller.who, &caller.certificate) {
            _ if !STREAMS.contains(&path) => return body,
            (Some(who), _) => Holder::Caller(who.clone()),
            (None, Some(certificate)) => Holder::Worker(certificate.clone()),
            // A worker of this machine, whose session ends its streams.
            (None, None) => return body,
        };
        until(&self.api, holder, Ending::Status, caller.stream.clone(), body)
    }

    async fn answered(&self, path: &str, caller: &Caller, code: tonic::Code) {
        let known = method(path);
        let label =
            known.map_or("unknown", |method| method.path.rsplit_once('.').map_or(method.path, |(_, name)| name));
        let said = format!("{code:?}");
        self.api.metrics().transport.grpc_requests.of([label, said.as_str()]).inc();
        let knocks = matches!(code, tonic::Code::Unauthenticated | tonic::Code::ResourceExhausted);
        let refused = knocks || code == tonic::Code::PermissionDenied;
        if let Some(known) = known.filter(|method| method.writes || refused) {
            // Over a quota is who is known, too.
            self.note(known, caller, code, knocks && (caller.who.is_none() || caller.hasty)).await;
        }
    }

    async fn taken(&self, path: &str, caller: &Caller, code: tonic::Code) {
        if let Some(known) = method(path) {
            self.note(known, caller, code, false).await;
        }
    }
}

impl ApiInterceptor {
    /// Writes down how a call ended. Of those who knock only some are.
    async fn note(&self, known: &Method, caller: &Caller, code: tonic::Code, knocks: bool) {
        let address = || self.origin(caller).address.to_string();
        let entry = AuditEntry {
            number: 0,
            time: self.api.now(),
            actor: caller.who.as_ref().map_or_else(address, |who| who.name().to_owned()),
            tenant: whose(caller.who.as_ref(), &caller.concern),
            action: known.name.into(),
            target: known.path.to_owned(),
            outcome: if code == tonic::Code::Ok { "ok".into() } else { format!("{code:?}").into() },
            request_id: caller.request_id.clone(),
        };
        self.api.note(entry, knocks).await;
    }
}
