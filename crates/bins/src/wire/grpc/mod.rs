//! The services of the protocol over gRPC: what a server implements, and the callers of it. Never decides an
//! answer.

mod accept;
mod artifact;
mod call;
mod connect;
mod deadline;
mod health;
mod interceptor;
mod job;
mod listen;
#[cfg(test)]
pub(crate) mod tests;
mod worker;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use orlop_core::id::{SessionId, TenantName};
use tonic::Request;

use self::accept::Peer;
use super::identity::PeerCertificate;
use crate::api::StreamPermit;
use crate::api::auth::{Caller as Admitted, Concern};

pub use artifact::{ArtifactClient, ArtifactHost};
pub use connect::{Connector, Endpoint};
pub use interceptor::CallInterceptor;
pub(crate) use job::SUBMIT_STREAM;
pub use job::{Answers, JobClient, JobHost};
pub use listen::{Listening, Services, TlsIdentity, check_address};
pub use worker::{FramesIn, FramesOut, WorkerClient, WorkerHost};

/// Between two pings of a connection.
const PING: Duration = Duration::from_secs(10);
/// How long a ping may take.
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a call may take that says nothing itself.
const DEADLINE: Duration = Duration::from_secs(30);
/// How long an agent may take for its first frame, and a server to answer it.
const OPENING: Duration = Duration::from_secs(10);
/// Streams of one connection.
const STREAMS: u32 = 1024;
/// Bytes of the headers of a call.
const HEADERS: u32 = 16 << 10;

/// Who calls, as far as the connection tells. `Debug` never shows the token.
#[derive(Clone, Default)]
pub struct Caller {
    /// From where.
    pub address: Option<SocketAddr>,
    /// The bearer token, unchecked.
    pub token: Option<String>,
    /// The session of an agent that has no certificate, unchecked.
    pub session: Option<SessionId>,
    /// The certificate, checked against the authority that the server trusts.
    pub certificate: Option<PeerCertificate>,
    /// The caller's id of the request.
    pub request_id: Option<String>,
    /// The W3C trace context that came with the call.
    pub traceparent: Option<String>,
    /// Who it is and what it may, where the server's interceptor has found that out.
    pub who: Option<Admitted>,
    /// It is known, and calls too fast.
    pub hasty: bool,
    /// Whose objects the call turns out to be about.
    pub concern: Concern,
    /// Its place among the streams of its token, where its answer is one.
    pub(crate) stream: Option<Arc<StreamPermit>>,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("address", &self.address)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .field("session", &self.session.map(|_| "…"))
            .field("certificate", &self.certificate)
            .field("request_id", &self.request_id)
            .field("who", &self.who)
            .finish()
    }
}

impl Caller {
    fn of<T>(request: &Request<T>) -> Self {
        let header = |name: &str| request.metadata().get(name).and_then(|value| value.to_str().ok());
        let short = |text: &str| (text.len() <= 128).then(|| text.to_owned());
        let peer = request.extensions().get::<Peer>();
        Self {
            address: peer.map(Peer::address),
            token: header("authorization").and_then(|value| value.strip_prefix("Bearer ")).map(str::to_owned),
            session: header(call::SESSION).and_then(|text| text.parse().ok()),
            certificate: peer.and_then(|peer| peer.certificate.clone()),
            request_id: header("x-request-id").and_then(short),
            traceparent: header("traceparent").and_then(short),
            who: request.extensions().get::<interceptor::AuthenticatedCaller>().map(|found| found.0.clone()),
            hasty: false,
            concern: request.extensions().get::<Concern>().cloned().unwrap_or_default(),
            stream: None,
        }
    }

    /// Whether the caller may see what it asks for, which is this tenant's; whom the interceptor let pass without a name may.
    pub fn sees(&self, tenant: &TenantName) -> bool {
        self.concern.is(tenant);
        self.who.as_ref().is_none_or(|who| who.sees(tenant))
    }

    /// Whom its connection belongs to: to a token, a certificate, or to a session.
    fn owner(&self) -> String {
        match (&self.who, &self.certificate, self.session) {
            (Some(who), ..) => who.name().to_owned(),
            (None, Some(certificate), _) => format!("{certificate:?}"),
            (None, None, session) => session.map(|session| session.to_string()).unwrap_or_default(),
        }
    }

    /// Whether the call came over this machine's own interface.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.address.is_some_and(|address| address.ip().is_loopback())
    }
}
