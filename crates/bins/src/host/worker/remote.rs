//! The way to a server over gRPC, to several of which one leads, with the worker's identity. Never interprets a frame.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::StreamExt;
use orlop_core::error::{Code, Problem};
use orlop_core::id::SessionId;
use orlop_core::time::Time;
use serde::{Deserialize, Serialize};

use super::clock::now;
use super::link::{Link, LinkError, Stream};
use crate::host::client_token;
use crate::wire::frame::WorkerFrame;
use crate::wire::grpc::{ArtifactClient, Connector, Endpoint, WorkerClient};
use crate::wire::identity::{Csr, JoinToken, expiry, renewal};
use crate::wire::status::{Heartbeat, HeartbeatResponse};
use crate::wire::worker::{Registered, Registration};

/// Between two times a certificate is asked for that was not given.
const RENEW_AGAIN: Duration = Duration::from_secs(600);
/// How long a server that names no time is left alone.
const LATER: Duration = Duration::from_millis(100);

/// The worker's certificate, as the state directory keeps it.
#[derive(Clone, Serialize, Deserialize)]
struct Badge {
    /// DER.
    certificate: Vec<u8>,
    /// PKCS #8 in PEM.
    key: String,
    /// The fleet's authority, DER.
    authority: Vec<u8>,
    issued: Time,
}

/// See the module. `Debug` shows no secret.
pub struct RemoteLink {
    endpoints: Vec<Endpoint>,
    current: AtomicUsize,
    token: Option<JoinToken>,
    /// The file of the token, which goes once a certificate is there in its place.
    used_up: Option<PathBuf>,
    /// Whether it was deleted: the token has spoken once, and does not any more.
    spent: AtomicBool,
    badge: Mutex<Option<Badge>>,
    place: PathBuf,
    client: Mutex<Option<WorkerClient>>,
    /// When a renewal was asked for.
    asked: Mutex<Option<Instant>>,
    /// The file of the server's client token, for plain text; none = it is looked up by the server's address.
    client_token: Option<PathBuf>,
    /// It speaks for the worker where no certificate does.
    session: Mutex<Option<SessionId>>,
    /// On its own connection, so that files never hold frames up.
    artifacts: Mutex<Option<ArtifactClient>>,
}

impl std::fmt::Debug for RemoteLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteLink").field("endpoints", &self.endpoints).finish_non_exhaustive()
    }
}

impl RemoteLink {
    /// To these servers, tried in turn. `state` is the agent's state directory, where the certificate is kept.
    ///
    /// # Errors
    /// There is no server, or the certificate that is kept cannot be read.
    pub fn new(endpoints: Vec<Endpoint>, token: Option<JoinToken>, state: &Path) -> io::Result<Self> {
        if endpoints.is_empty() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "no server is given; use `--server URL`"));
        }
        let place = state.join("badge");
        let badge = match fs::read(&place) {
            Ok(bytes) => Some(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let (current, badge) = (AtomicUsize::new(0), Mutex::new(badge));
        let (client, asked, session) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (used_up, spent, artifacts) = (None, AtomicBool::new(false), Mutex::default());
        let client_token = None;
        Ok(Self {
            endpoints,
            current,
            token,
            used_up,
            spent,
            badge,
            place,
            client,
            asked,
            client_token,
            session,
            artifacts,
        })
    }

    /// Shows the client token of this file to servers that speak plain text.
    #[must_use]
    pub fn with_client_token(mut self, file: &Path) -> Self {
        self.client_token = Some(file.to_owned());
        self
    }

    /// Deletes this file, which held the token, once a certificate speaks for the worker.
    #[must_use]
    pub fn using_up(mut self, file: &Path) -> Self {
        self.used_up = Some(file.to_owned());
        self
    }

    /// Deletes the file of the token if nobody needs it any more.
    fn delete_used(&self) {
        let Some(file) = self.used_up.as_ref().filter(|_| self.badge().is_some()) else { return };
        self.spent.store(true, Ordering::Relaxed);
        match fs::remove_file(file) {
            Ok(()) => tracing::info!(file = %file.display(), "the join token was used; its file is deleted"),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(file = %file.display(), %error, "the used join token cannot be deleted"),
        }
    }

    fn badge(&self) -> Option<Badge> {
        self.badge.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The token to join with, unless it was used up and its file deleted.
    fn unused(&self) -> Option<&JoinToken> {
        self.token.as_ref().filter(|_| !self.spent.load(Ordering::Relaxed))
    }

    /// The certificate that speaks for the worker; one that has expired only where there is no token to join anew.
    fn speaker(&self) -> Option<Badge> {
        self.badge().filter(|badge| self.unused().is_none() || now() < expiry(badge.issued))
    }

    /// What to do about a certificate that has expired, where there is no token to join anew with.
    fn expired(&self) -> Option<String> {
        let over = self.badge().filter(|badge| self.unused().is_none() && expiry(badge.issued) <= now())?;
        Some(format!(
            "the certificate of this worker expired at {}; make a join token with `orlop workers token create` and start \
             the worker once with `--join-token-file FILE`: its state directory, id and results stay",
            expiry(over.issued)
        ))
    }

    /// An error of a connection, with what to do about it where the certificate is why.
    fn explained(&self, error: LinkError) -> LinkError {
        match (self.expired(), error) {
            (Some(advice), LinkError::Unreachable(text) | LinkError::Refused(text)) => {
                LinkError::Refused(format!("{text}; {advice}"))
            }
            (_, other) => other,
        }
    }

    /// The server whose turn it is.
    fn endpoint(&self) -> Option<&Endpoint> {
        self.endpoints.get(self.current.load(Ordering::Relaxed) % self.endpoints.len().max(1))
    }

    /// How the next server is reached, and the token that is shown to it: with the certificate, else by the join token, else over plain
    /// text with the client token. Who listens at an address of this machine without being this user's server is not spoken to: it
    /// would have jobs run here.
    fn connector(&self) -> Result<(Connector, Option<String>), LinkError> {
        let endpoint = self.endpoint().cloned();
        let endpoint = endpoint.ok_or_else(|| LinkError::Refused("no server is named".to_owned()))?;
        let made = match (self.speaker(), self.unused(), &self.client_token) {
            (Some(badge), ..) => Connector::fleet(endpoint, &badge.authority, Some((&badge.certificate, &badge.key)))
                .map(|to| (to, None)),
            (None, Some(token), _) => Connector::joining(endpoint, token).map(|to| (to, None)),
            (None, None, _) if endpoint.is_secure() => Connector::plain(endpoint).map(|to| (to, None)),
            (None, None, Some(file)) => {
                let read = fs::read_to_string(file).map(|text| text.trim().to_owned());
                let failed =
                    |error: io::Error| LinkError::Unreachable(format!("client token {}: {error}", file.display()));
                let token = read.map_err(failed)?;
                Connector::plain(endpoint).map(|to| (to, Some(token)))
            }
            (None, None, None) => {
                let (host, port) = (endpoint.host().to_owned(), endpoint.port());
                let found = client_token::find(&host, port).ok_or_else(|| {
                    LinkError::Unreachable(format!(
                        "no server of this user listens at {host}:{port}; start it, or give its client token with \
                         --token-file, or a join token with --join-token-file"
                    ))
                })?;
                let address = found.address;
                let still = move || client_token::find(&host, port).is_some_and(|found| found.address == address);
                let to = endpoint.at(address).and_then(Connector::plain);
                to.map(|to| (to.only_if(still), Some(found.token)))
            }
        };
        made.map_err(|refusal| why(&refusal))
    }

    async fn client(&self) -> Result<WorkerClient, LinkError> {
        let known = self.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(client) = known {
            return Ok(client);
        }
        let (connector, token) = self.connector()?;
        let channel = connector.connect().await.map_err(|refusal| why(&refusal))?;
        let client = WorkerClient::new(channel, token.as_deref());
        let client = client.map_err(|refusal| why(&refusal))?;
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client.clone());
        Ok(client)
    }

    fn forget(&self) {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.artifacts.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether a certificate is to be asked for: there is a fleet that signs them, and none, or an old one, here.
    fn wants_certificate(&self) -> bool {
        self.badge().map_or(self.token.is_some(), |badge| renewal(badge.issued) <= now())
    }

    fn keep(&self, badge: Badge) -> io::Result<()> {
        let half = self.place.with_extension("half");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&half)?;
        file.write_all(&serde_json::to_vec(&badge)?)?;
        file.sync_all()?;
        fs::rename(&half, &self.place)?;
        *self.badge.lock().unwrap_or_else(PoisonError::into_inner) = Some(badge);
        Ok(())
    }
}

/// What a refusal means for an agent.
fn why(refusal: &Problem) -> LinkError {
    let text = refusal.to_string();
    let wait = refusal.retry_after.unwrap_or(LATER);
    match refusal.code {
        Code::StoreUnavailable if refusal.retry_after.is_none() => LinkError::Unreachable(text),
        Code::RateLimited | Code::QuotaExceeded | Code::NotLeader | Code::StoreUnavailable => {
            LinkError::Later(text, wait)
        }
        // What is in the way may go by itself.
        Code::Conflict if refusal.retry_after.is_some() => LinkError::Later(text, wait),
        Code::NotFound => LinkError::SessionOver(text),
        Code::Unauthenticated | Code::Forbidden | Code::Precondition | Code::Conflict | Code::InvalidSpec => {
            LinkError::Refused(text)
        }
        _ => LinkError::Unreachable(text),
    }
}

#[async_trait]
impl Link for RemoteLink {
    async fn register(&self, registration: Registration) -> Result<Registered, LinkError> {
        let csr = if self.wants_certificate() {
            Some(Csr::new().map_err(|error| LinkError::Refused(error.to_string()))?)
        } else {
            None
        };
        let request = csr.as_ref().map(|csr| csr.request.clone()).unwrap_or_default();
        let join_token = match (self.unused(), self.speaker()) {
            (Some(token), None) => token.reveal(),
            _ => String::new(),
        };
        let client = self.client().await.map_err(|error| self.explained(error))?;
        let answer = client.register(Registration { csr: request, join_token, ..registration }).await;
        let registered = answer.map_err(|refusal| {
            let error = self.explained(why(&refusal));
            let known = self.badge().is_some();
            let refused = matches!(error, LinkError::Refused(_));
            if refused && known && self.unused().is_some() {
                // The certificate has expired or was revoked; the token may still be good.
                *self.badge.lock().unwrap_or_else(PoisonError::into_inner) = None;
            }
            self.forget();
            match error {
                LinkError::Refused(text) if known && refusal.code == Code::Unauthenticated => LinkError::ShutOut(text),
                error => error,
            }
        })?;
        if let Some(csr) = csr.filter(|_| !registered.certificate.is_empty()) {
            let known = self.badge().map(|badge| badge.authority).unwrap_or_default();
            let authority = if registered.ca.is_empty() { known } else { registered.ca.clone() };
            let badge = Badge { certificate: registered.certificate.clone(), key: csr.key, authority, issued: now() };
            let kept = self.keep(badge);
            kept.map_err(|error| LinkError::Unreachable(format!("the certificate cannot be stored: {error}")))?;
            // From now on the certificate speaks for the worker.
            self.forget();
        }
        self.delete_used();
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(registered.session);
        *self.artifacts.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(registered)
    }

    async fn open(&self, hello: WorkerFrame) -> Result<Stream, LinkError> {
        let opened = self.client().await?.stream(hello).await;
        let (out, frames) = opened.map_err(|refusal| {
            self.forget();
            // A server that does not know the caller of a stream does not know the session.
            match refusal.code {
                Code::Unauthenticated => LinkError::SessionOver(refusal.to_string()),
                _ => why(&refusal),
            }
        })?;
        Ok(Stream { out, back: frames.map(|frame| frame.map_err(|refusal| why(&refusal))).boxed() })
    }

    async fn heartbeat(&self, beat: Heartbeat) -> Result<HeartbeatResponse, LinkError> {
        self.client().await?.heartbeat(beat).await.map_err(|refusal| why(&refusal))
    }

    fn wants_renewal(&self) -> bool {
        if self.badge().is_none() || !self.wants_certificate() {
            return false;
        }
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        // A server that signs none is not asked with every heartbeat.
        let due = asked.is_none_or(|at| at.elapsed() >= RENEW_AGAIN);
        if due {
            *asked = Some(Instant::now());
        }
        due
    }

    async fn artifacts(&self) -> Result<ArtifactClient, LinkError> {
        let known = self.artifacts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(client) = known {
            return Ok(client);
        }
        let (connector, token) = self.connector()?;
        let channel = connector.connect().await.map_err(|refusal| why(&refusal))?;
        let client = ArtifactClient::new(channel, token.as_deref());
        let client = client.map_err(|refusal| why(&refusal))?;
        let session = *self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let client = match session.filter(|_| self.speaker().is_none()) {
            Some(session) => client.of_session(session),
            None => client,
        };
        *self.artifacts.lock().unwrap_or_else(PoisonError::into_inner) = Some(client.clone());
        Ok(client)
    }

    fn rotate(&self) {
        self.current.fetch_add(1, Ordering::Relaxed);
        self.forget();
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::error::Problem;

    use super::*;

    #[test]
    fn what_a_refusal_means_for_an_agent() {
        let of = |code, after: Option<u64>| {
            let mut problem = Problem::coded(code, "x");
            problem.retry_after = after.map(Duration::from_millis);
            why(&problem)
        };
        assert!(matches!(of(Code::StoreUnavailable, None), LinkError::Unreachable(_)));
        assert!(matches!(of(Code::NotLeader, Some(1000)), LinkError::Later(_, wait) if wait.as_millis() == 1000));
        assert!(matches!(of(Code::RateLimited, None), LinkError::Later(..)));
        assert!(matches!(of(Code::Precondition, None), LinkError::Refused(_)));
        assert!(matches!(of(Code::Conflict, None), LinkError::Refused(_)));
        assert!(matches!(of(Code::Conflict, Some(10_000)), LinkError::Later(_, wait) if wait.as_secs() == 10));
        assert!(matches!(of(Code::Internal, None), LinkError::Unreachable(_)));
    }

    #[test]
    fn a_certificate_is_renewed_at_two_thirds_of_its_time_and_asked_for_now_and_then() {
        let dir = tempfile::tempdir().unwrap();
        let link = || RemoteLink::new(vec!["http://127.0.0.1:1".parse().unwrap()], None, dir.path()).unwrap();
        assert!(!link().wants_renewal(), "there is none");
        let day = 86_400_000;
        for (age, due) in [(day / 2, false), (day * 2 / 3 + 1000, true)] {
            let issued = Time::from_millis(now().millis() - age);
            let (certificate, key, authority) = (Vec::new(), String::new(), Vec::new());
            link().keep(Badge { certificate, key, authority, issued }).unwrap();
            let link = link();
            assert_eq!((link.wants_renewal(), link.wants_renewal()), (due, false));
            assert!(link.speaker().is_some(), "without a token even an old one is better than none");
        }
    }

    #[tokio::test]
    async fn a_worker_whose_certificate_expired_while_it_was_down_is_told_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let link = || RemoteLink::new(vec!["http://127.0.0.1:1".parse().unwrap()], None, dir.path()).unwrap();
        let day = 86_400_000;
        let keep = |age: i64| {
            let issued = Time::from_millis(now().millis() - age);
            let (certificate, key, authority) = (Vec::new(), String::new(), Vec::new());
            link().keep(Badge { certificate, key, authority, issued }).unwrap();
        };
        keep(day / 2);
        assert_eq!(link().expired(), None);
        keep(day + 1000);
        let error = link().explained(LinkError::Unreachable("the handshake failed".to_owned()));
        let LinkError::Refused(text) = error else { panic!("{error}") };
        assert!(text.starts_with("the handshake failed; the certificate of this worker expired at 20"), "{text}");
        assert!(text.contains("orlop workers token create") && text.contains("--join-token-file FILE"), "{text}");
    }

    #[test]
    fn a_worker_without_a_server_is_told_so() {
        let dir = tempfile::tempdir().unwrap();
        let error = RemoteLink::new(Vec::new(), None, dir.path()).unwrap_err();
        insta::assert_snapshot!(error, @"no server is given; use `--server URL`");
    }
}
