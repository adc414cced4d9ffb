//! Who may pass, over REST and over gRPC alike: hosts and origins of browsers, tokens, rates, roles. Nothing is reached by
//! anybody whom this did not let pass.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName};
use orlop_core::error::{Class, Code, Problem};
use orlop_core::time::Time;
use tokio::sync::watch;

use super::auth::{Bearer, Caller, Rates, Role, Scope, SecretHash};
use super::route::{Method, Needs, Route};
use super::session_store::FleetSessions;
use super::state::{Api, store};
use super::token_cache::TokenCache;
use super::until::Holder;
use crate::host::scheduler::Handle;
use crate::telemetry::metrics::Metrics;
use crate::web::{Place, Sessions};
use crate::wire::identity::PeerCertificate;

fn refused(code: Code, detail: &str) -> Problem {
    Problem::coded(code, detail)
}

/// The host of an authority, without its port.
fn host_of(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

/// Whether a host is this machine by a name that nobody else can give.
pub(crate) fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Holds pages of foreign sites off: they can make a browser on this machine send requests, but not with a host and an
/// origin of this machine.
pub(super) fn check_browser(
    loopback: bool,
    listed: &[String],
    place: Option<&Place>,
    headers: &HeaderMap,
    authority: Option<&str>,
) -> Result<(), Problem> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text(HOST).or(authority).unwrap_or_default();
    let public = place.and_then(Place::authority).is_some_and(|public| public.eq_ignore_ascii_case(host));
    if loopback && !public && !is_loopback(host_of(host)) {
        return Err(refused(Code::Forbidden, "the host of this request is not a name of this machine"));
    }
    match text(ORIGIN) {
        Some(origin) if is_listed(listed, origin).is_some() => Ok(()),
        // A proxy need not hand on the host by which the page was found.
        Some(origin) if place.and_then(Place::origin) == Some(origin) => Ok(()),
        Some(origin) if origin.split_once("://").is_none_or(|(_, from)| from != host) => {
            Err(refused(Code::Forbidden, "requests of pages from elsewhere are refused"))
        }
        _ => Ok(()),
    }
}

/// By what a browser says from where a request comes; other clients do not send it.
pub(super) const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses a request of a browser that does not come from the page of this server.
pub(super) fn check_page(headers: &HeaderMap, method: Method) -> Result<(), Problem> {
    let forbidden = |detail: &str| Err(refused(Code::Forbidden, detail));
    let site = headers.get(FETCH_SITE).map(|value| value.to_str().unwrap_or_default());
    if site.is_some_and(|site| site != "same-origin") {
        return forbidden("requests of a session must come from the page of this server");
    }
    // That it names this server is checked for every request that has one.
    if method.writes() && !headers.contains_key(ORIGIN) {
        return forbidden("a request of a session that changes something must say its origin");
    }
    Ok(())
}

/// The origin of a list that this is.
pub(super) fn is_listed<'a>(listed: &'a [String], origin: &str) -> Option<&'a str> {
    listed.iter().map(String::as_str).find(|known| *known == origin)
}

/// The kind of tokens that callers have.
pub(super) const ACCESS: &str = "access";

/// The kind of tokens with which workers join.
pub(crate) const JOIN: &str = "join";

/// A store that says nothing for so long is not there: anyone who asks hears that instead of waiting with it.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn silent() -> Problem {
    Problem::new(Class::Transient, "the store does not answer")
}

/// From where a call comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The caller's address.
    pub address: IpAddr,
    /// It came to a listener that can be reached from outside this machine.
    pub exposed: bool,
}

/// Lets callers pass, or not.
#[derive(Debug)]
pub struct Guard {
    handle: Handle,
    metrics: Arc<Metrics>,
    rates: Rates,
    known: TokenCache,
    /// The token of the people and workers of this machine.
    client: Option<SecretHash>,
    /// Sessions of browsers.
    sessions: Sessions<FleetSessions>,
    /// Grows whenever a token or a session may mean something else.
    changes: watch::Sender<u64>,
}

impl Guard {
    /// The guard of a server. `client`: the token of the people and workers of this machine.
    pub(super) fn new(
        handle: Handle,
        metrics: Arc<Metrics>,
        rates: Rates,
        client: Option<SecretHash>,
        sessions: Sessions<FleetSessions>,
    ) -> Self {
        Self { handle, metrics, rates, known: TokenCache::default(), client, sessions, changes: watch::Sender::new(0) }
    }

    /// Sessions of browsers.
    pub(super) fn sessions(&self) -> &Sessions<FleetSessions> {
        &self.sessions
    }

    /// The time of day.
    pub(super) fn now(&self) -> Time {
        self.handle.clock().wall()
    }

    /// Ends a session, with its streams.
    pub(super) async fn end_session(&self, id: &str) -> Result<(), Problem> {
        let ended = self.sessions.end(id).await;
        // Also where it failed: it may be written all the same.
        self.changes.send_modify(|round| *round += 1);
        ended
    }

    /// Tokens were written: what was known of them is not good any more.
    pub(super) fn tokens_changed(&self) {
        self.known.forget();
        self.sessions.forget();
        self.changes.send_modify(|round| *round += 1);
    }

    /// Hears when tokens are written.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Whether somebody who was let pass still would be.
    pub(super) async fn holds(&self, holder: &Holder, ours: bool) -> Result<bool, Problem> {
        let holds = async {
            match holder {
                Holder::Worker(certificate) => self.known.is_good(&self.handle, certificate, ours).await,
                Holder::Caller(caller) => {
                    let session = match &caller.session {
                        Some(id) => self.sessions.holds(id, self.now()).await?,
                        None => true,
                    };
                    Ok(session && self.is_token_live(caller).await?)
                }
            }
        };
        tokio::time::timeout(PATIENCE, holds).await.unwrap_or_else(|_| Err(store(&silent())))
    }

    /// Whether the token behind a caller still is good.
    pub(super) async fn is_token_live(&self, caller: &Caller) -> Result<bool, Problem> {
        match &caller.token {
            Some(token) => self.known.is_live(&self.handle, token).await,
            None => Ok(true),
        }
    }

    /// Who calls; whether it comes too fast is asked then. A token that is none is given as an empty text.
    pub(crate) async fn identify(&self, token: Option<&str>, origin: Origin) -> Result<Caller, Problem> {
        let caller = tokio::time::timeout(PATIENCE, self.caller(token, origin)).await;
        caller.unwrap_or_else(|_| Err(store(&silent())))
    }

    async fn caller(&self, token: Option<&str>, origin: Origin) -> Result<Caller, Problem> {
        let Some(text) = token else {
            return Err(self.stranger(origin, "give a token: `Authorization: Bearer orlop_…`"));
        };
        let Ok(bearer) = Bearer::parse(text.trim()) else {
            return Err(self.stranger(origin, "malformed token, expected orlop_<id>_<secret>"));
        };
        let known = self.bearer(&bearer).await?;
        known.ok_or_else(|| self.stranger(origin, "this token is unknown, has expired, or was revoked"))
    }

    /// Whose a token is; none where it is not good.
    pub(super) async fn bearer(&self, bearer: &Bearer) -> Result<Option<Caller>, Problem> {
        if self.is_client(bearer) {
            return Ok(Some(Caller::local()));
        }
        self.known.caller(&self.handle, bearer).await
    }

    fn is_client(&self, bearer: &Bearer) -> bool {
        self.client.as_ref().is_some_and(|client| client.matches(&bearer.hash()))
    }

    /// Refuses a worker of this machine, which has no certificate, without the client token.
    pub(crate) fn check_client(&self, token: Option<&str>, origin: Origin) -> Result<(), Problem> {
        let shown = token.and_then(|text| Bearer::parse(text.trim()).ok());
        if shown.is_some_and(|bearer| self.is_client(&bearer)) {
            return Ok(());
        }
        let text = "over plain text a worker needs the client token of this server: run it as the same user, or give the file with --token-file";
        Err(self.stranger(origin, text))
    }

    /// Refuses a worker whose certificate is not good any more. `ours`: this fleet signs them.
    pub(crate) async fn check_certificate(
        &self,
        certificate: &PeerCertificate,
        ours: bool,
        origin: Origin,
    ) -> Result<(), Problem> {
        let good = tokio::time::timeout(PATIENCE, self.known.is_good(&self.handle, certificate, ours)).await;
        if good.unwrap_or_else(|_| Err(store(&silent())))? {
            return Ok(());
        }
        Err(self.stranger(origin, "this worker's certificate was revoked or replaced"))
    }

    /// Refuses who is known and calls too fast.
    pub(crate) fn check_pace(&self, caller: &Caller) -> Result<(), Problem> {
        let Some(token) = &caller.token else { return Ok(()) };
        self.rates.token(token, self.handle.clock().monotonic()).map_err(too_fast)
    }

    /// The refusal of somebody who does not show who it is.
    pub(crate) fn stranger(&self, origin: Origin, detail: &str) -> Problem {
        self.metrics.transport.auth_failures.inc();
        match self.rates.address(origin.address, self.handle.clock().monotonic()) {
            Ok(()) => refused(Code::Unauthenticated, detail),
            Err(wait) => too_fast(wait),
        }
    }
}

/// What the program asks of it.
#[cfg(all(unix, feature = "cli"))]
impl Guard {
    /// From now on calls come as fast as these allow: those of a token, and those of an address without one.
    pub(crate) fn set_rates(&self, token: orlop_core::rate::Rate, address: orlop_core::rate::Rate) {
        self.rates.set(token, address);
    }
}

impl Caller {
    /// Refuses who has not a role.
    pub(crate) fn check(&self, role: Role) -> Result<(), Problem> {
        if self.role.may(role) {
            return Ok(());
        }
        let detail = format!("this needs the role {}; this token has the role {}", role.as_str(), self.role.as_str());
        Err(refused(Code::Forbidden, &detail))
    }
}

impl Api {
    /// Who calls: nobody in particular where anybody may.
    pub(super) async fn identify(
        &self,
        route: &Route,
        headers: &HeaderMap,
        peer: SocketAddr,
    ) -> Result<Caller, Problem> {
        if !matches!(route.needs, Needs::Role(_)) {
            return Ok(Caller { role: Role::Viewer, scope: Scope::Tenants(Default::default()), ..Caller::local() });
        }
        let token = headers.get(AUTHORIZATION).map(|header| {
            let text = header.to_str().unwrap_or_default();
            let bearer = text.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
            bearer.map_or("", |(_, token)| token)
        });
        let origin = Origin { address: peer.ip(), exposed: !self.options.loopback };
        match (token, self.halves(headers)) {
            (None, Some(halves)) => self.pass_session(&halves, headers, route.method, origin).await,
            _ => self.guard.identify(token, origin).await,
        }
    }
}

fn too_fast(wait: u64) -> Problem {
    Problem::coded(Code::RateLimited, "too many requests; try again later")
        .retry_after(Duration::from_millis(wait.max(1)))
}
#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        headers.extend(origin.map(|origin| (ORIGIN, origin.parse().unwrap())));
        headers
    }

    #[test]
    fn a_page_from_elsewhere_cannot_reach_a_server_on_loopback() {
        let passes = |host, origin| check_browser(true, &[], None, &headers(host, origin), None).is_ok();
        assert!(passes("localhost:7070", None) && passes("127.0.0.1:7070", None) && passes("[::1]:7070", None));
        assert!(!passes("evil.example:7070", None), "a name that was made to resolve to this machine");
        assert!(!passes("localhost.evil.example", None) && !passes("", None));
        assert!(passes("localhost:7070", Some("http://localhost:7070")));
        assert!(!passes("localhost:7070", Some("http://localhost:8080")) && !passes("localhost:7070", Some("null")));
        assert!(check_browser(false, &[], None, &headers("fleet.example", None), None).is_ok());
        assert!(check_browser(true, &[], None, &HeaderMap::new(), Some("127.0.0.1:1")).is_ok());
        let listed = ["https://console.example".to_owned()];
        let from = |origin| check_browser(true, &listed, None, &headers("localhost:7070", Some(origin)), None).is_ok();
        assert!(from("https://console.example") && !from("http://console.example") && !from("https://other.example"));
    }
}
