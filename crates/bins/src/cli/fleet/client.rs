//! The client of the REST interface: requests, answers, problems, and going on to the next server where one does not lead.

use std::future::Future;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, ETAG};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, Uri};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use orlop_cloud::http::{Client as Http, ClientOptions, ProxyChoice, Trust};
use orlop_core::error::{CallDetails, Code, Problem, QuotaUse, innermost};
use serde_json::Value;

use super::super::failure::{Exit, Failure};
use super::again::as_allowed;
use crate::api::{BASE, ProblemView, is_loopback};
use crate::host::client_token;

/// Where `orlop up` listens.
pub(super) const SERVER: &str = "http://127.0.0.1:7070";

/// What is wrong where somebody listens on this machine who is not known.
const NOBODY: &str = "no server of this user listens there; give the token file with --token-file FILE or ORLOP_TOKEN_FILE, or the token in ORLOP_TOKEN";
/// How long connecting may take, the handshake included.
const CONNECTING: Duration = Duration::from_secs(5);
/// The longest answer that is read.
const ANSWER: usize = 256 << 20;
/// How long a server may take for a whole answer, beside the time it was asked to wait. One that is stopped accepts
/// connections all the same: its system does.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same where the request is long.
const SENDING: Duration = Duration::from_secs(300);

/// What a server answered.
#[derive(Clone, Debug, Default)]
pub(super) struct Answered {
    /// HTTP status.
    pub(super) status: u16,
    /// The body, null if there is none.
    pub(super) body: Value,
    /// Revision of what it shows, as it stands.
    pub(super) etag: Option<String>,
}

/// A client of one fleet.
#[derive(Debug)]
pub(super) struct Client {
    servers: Vec<Server>,
    /// The token that was given.
    token: Option<HeaderValue>,
    http: Http,
    /// It was reported that requests wait.
    waits: AtomicBool,
}

/// Where a server is.
#[derive(Debug)]
struct Server {
    /// As it was named.
    url: String,
    scheme: &'static str,
    /// Host and port of a server of this machine.
    here: Option<(String, u16)>,
    /// Its client token was found once: it is a server of this user.
    ours: AtomicBool,
}

/// A request.
#[derive(Clone, Debug)]
pub(super) struct ApiRequest<'a> {
    method: Method,
    path: String,
    body: Option<&'a Value>,
    bytes: Option<Bytes>,
    headers: Vec<(&'static str, String)>,
    patience: Duration,
}

impl<'a> ApiRequest<'a> {
    pub(super) fn get(path: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            path: path.into(),
            body: None,
            bytes: None,
            headers: Vec::new(),
            patience: PATIENCE,
        }
    }

    pub(super) fn post(path: impl Into<String>, body: Option<&'a Value>) -> Self {
        Self { method: Method::POST, body, ..Self::get(path) }
    }

    pub(super) fn delete(path: impl Into<String>) -> Self {
        Self { method: Method::DELETE, ..Self::get(path) }
    }

    pub(super) fn put(path: impl Into<String>, body: &'a Value) -> Self {
        Self { method: Method::PUT, body: Some(body), ..Self::get(path) }
    }

    pub(super) fn patch(path: impl Into<String>, body: &'a Value) -> Self {
        Self { method: Method::PATCH, body: Some(body), ..Self::get(path) }
    }

    /// Bytes on their way to a part of something.
    pub(super) fn bytes(path: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { method: Method::PATCH, bytes: Some(bytes.into()), patience: SENDING, ..Self::get(path) }
    }

    /// The server is asked to wait for something before it answers.
    pub(super) fn waiting(mut self, time: Duration) -> Self {
        self.patience = self.patience.saturating_add(time);
        self
    }

    pub(super) fn with(mut self, header: &'static str, value: Option<String>) -> Self {
        self.headers.extend(value.map(|value| (header, value)));
        self
    }
}

/// A text as a part of a path or query.
pub(super) fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// A query of these members.
pub(super) fn query(members: &[(&str, String)]) -> String {
    let pairs: Vec<_> = members.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

/// A token as a header, which is not shown in logs.
fn header(token: &str) -> Result<HeaderValue, Failure> {
    let header = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut header = header.map_err(|_| Failure::usage("token contains invalid characters"))?;
    header.set_sensitive(true);
    Ok(header)
}

impl Client {
    /// A client of the servers at these addresses. `insecure`: plain text may leave this machine.
    ///
    /// # Errors
    /// One is no address, or is one beyond this machine over plain text; the token cannot stand in a header, or the file of the authority cannot be used.
    pub(super) fn new(
        servers: &str,
        token: Option<String>,
        authority: Option<&Path>,
        insecure: bool,
    ) -> Result<Self, Failure> {
        let (mut read, mut secure) = (Vec::new(), false);
        for server in servers.split(',').map(|server| server.trim().trim_end_matches('/')).filter(|s| !s.is_empty()) {
            let uri: Result<Uri, _> = server.parse();
            let good = uri.as_ref().is_ok_and(|uri| {
                matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
            });
            let tls = uri.as_ref().is_ok_and(|uri| uri.scheme_str() == Some("https"));
            let port = |uri: &Uri| uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
            let host = |uri: &Uri| Some((uri.host().filter(|host| is_loopback(host))?.to_owned(), port(uri)));
            let here = uri.as_ref().ok().and_then(host);
            secure |= tls;
            if good && !tls && here.is_none() && !insecure {
                let text = format!(
                    "`{server}`: plain text is allowed for this machine only, since tokens and secrets would be sent \
                     unencrypted; use https://, or --insecure on a trusted network"
                );
                return Err(Failure::usage(text));
            }
            if !good {
                let text = format!("`{server}` is not a server address; use one such as {SERVER}");
                return Err(Failure::usage(text));
            }
            let scheme = if tls { "https" } else { "http" };
            read.push(Server { url: server.to_owned(), scheme, here, ours: AtomicBool::new(false) });
        }
        let token = token.as_deref().map(header).transpose()?;
        let http = if secure { secured(authority)? } else { over(Trust::Nobody)? };
        Ok(Self { servers: read, token, http, waits: AtomicBool::new(false) })
    }

    /// A key for a request that must take effect once though it may be sent to one server after the other.
    pub(super) fn key(&self, given: Option<&String>) -> Option<String> {
        let made = || (self.servers.len() > 1).then(|| uuid::Uuid::new_v4().simple().to_string());
        given.cloned().or_else(made)
    }

    /// Asks, and gives the answer if it is a good one. Waits for a while where requests come too fast.
    ///
    /// # Errors
    /// No server can be reached, or the one that leads refuses.
    pub(super) async fn ask(&self, asked: ApiRequest<'_>) -> Result<Answered, Failure> {
        as_allowed(&self.waits, async || self.ask_any(&asked).await).await
    }

    async fn ask_any(&self, asked: &ApiRequest<'_>) -> Result<Answered, Failure> {
        let mut last = Failure::usage("no server is named; use --server");
        for server in &self.servers {
            match in_time(&server.url, asked.patience, self.ask_one(server, asked)).await {
                Err(failure) if failure.is_passing() => last = failure,
                other => return other,
            }
        }
        Err(last)
    }

    /// Asks for a body that comes bit by bit.
    ///
    /// # Errors
    /// As of [`Client::ask`].
    pub(super) async fn open(&self, asked: ApiRequest<'_>) -> Result<Body, Failure> {
        as_allowed(&self.waits, async || self.open_any(&asked).await).await
    }

    async fn open_any(&self, asked: &ApiRequest<'_>) -> Result<Body, Failure> {
        let mut last = Failure::usage("no server is named; use --server");
        for server in &self.servers {
            match in_time(&server.url, asked.patience, self.open_one(server, asked)).await {
                Err(failure) if failure.is_passing() => last = failure,
                other => return other,
            }
        }
        Err(last)
    }

    async fn open_one(&self, server: &Server, asked: &ApiRequest<'_>) -> Result<Body, Failure> {
        let (head, body) = self.send(server, asked).await?.into_parts();
        if head.status.is_success() {
            return Ok(body);
        }
        let server = server.url.as_str();
        let body = read(server, body).await?;
        Err(Failure::from(&problem(server, head.status.as_u16(), &body)))
    }

    async fn ask_one(&self, server: &Server, asked: &ApiRequest<'_>) -> Result<Answered, Failure> {
        let (head, body) = self.send(server, asked).await?.into_parts();
        let server = server.url.as_str();
        let etag = head.headers.get(ETAG).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body = read(server, body).await?;
        let status = head.status.as_u16();
        if head.status.is_success() {
            let body = if body.is_empty() { Ok(Value::Null) } else { serde_json::from_slice(&body) };
            let body = body.map_err(|_| Failure::unreachable(format!("{server} is not an Orlop server")))?;
            return Ok(Answered { status, body, etag });
        }
        Err(Failure::from(&problem(server, status, &body)))
    }

    /// Where a request goes, and with which token: the one that was given, else that of a server of this user on this machine.
    async fn way(&self, server: &Server, path: &str) -> Result<(String, Option<HeaderValue>), Failure> {
        let (None, Some((host, port))) = (&self.token, &server.here) else {
            return Ok((server.url.clone(), self.token.clone()));
        };
        match client_token::find(host, *port) {
            Some(found) => {
                server.ours.store(true, Ordering::Relaxed);
                // A certificate is for the name that was given; plain text goes to the address whose token it is.
                let url = match server.scheme {
                    "http" => format!("http://{}", found.address),
                    _ => server.url.clone(),
                };
                Ok((url, Some(header(&found.token)?)))
            }
            // Somebody else answers at its address now.
            None if server.ours.load(Ordering::Relaxed) => Err(lost(&server.url, &"the server has stopped")),
            // What is asked and sent is not for strangers either; over TLS its certificate says who it is.
            None if server.scheme == "http" && !path.starts_with("/health") => {
                let address = (host.trim_start_matches('[').trim_end_matches(']'), *port);
                match tokio::net::TcpStream::connect(address).await {
                    Err(error) => Err(lost(&server.url, &error)),
                    Ok(_) => Err(Failure::new(Exit::Denied, format!("{}: {NOBODY}", server.url))),
                }
            }
            None => Ok((server.url.clone(), None)),
        }
    }

    /// Sends a request.
    async fn send(&self, server: &Server, asked: &ApiRequest<'_>) -> Result<Response<Body>, Failure> {
        let (url, token) = self.way(server, &asked.path).await?;
        let part = |part: &str| matches!(part, "." | "..");
        if asked.path.split('?').next().is_some_and(|path| path.split('/').any(part)) {
            return Err(Failure::usage("`.` and `..` are not names; use the name or id of an object"));
        }
        let mut headers = HeaderMap::new();
        headers.extend(token.map(|token| (AUTHORIZATION, token)));
        for (name, value) in &asked.headers {
            let value = HeaderValue::from_str(value).map_err(|error| unmade(&error))?;
            headers.insert(HeaderName::from_static(name), value);
        }
        if asked.bytes.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        } else if asked.body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let body = asked.body.map(|body| Bytes::from(body.to_string()));
        let request = self.http.request(asked.method.clone(), format!("{url}{BASE}{}", asked.path)).headers(headers);
        let answer = request.body(asked.bytes.clone().or(body).unwrap_or_default()).send().await;
        let answer = answer.map_err(|error| {
            let error = error.without_url();
            if error.is_builder() {
                unmade(innermost(&error))
            } else if error.is_connect() && error.is_timeout() {
                lost(&server.url, &format!("no connection within {} s", CONNECTING.as_secs()))
            } else {
                lost(&server.url, innermost(&error))
            }
        })?;
        Ok(Response::from(answer).map(Body::new))
    }
}

/// What asks servers. None is asked through a proxy: who asks a fleet is in its network, and its token is for nobody else.
fn over(trust: Trust<'_>) -> Result<Http, Failure> {
    let options = ClientOptions {
        trust,
        proxy: ProxyChoice::None,
        connect_timeout: CONNECTING,
        http2: false,
        ..ClientOptions::default()
    };
    options.build().map_err(|error| Failure::usage(error.chain()))
}

/// What asks servers with TLS, too: with certificates of the authorities in a file (PEM), else of the system's.
fn secured(authority: Option<&Path>) -> Result<Http, Failure> {
    let Some(path) = authority else { return over(Trust::System) };
    let unusable = |error: &dyn std::fmt::Display| {
        Failure::usage(format!("the authority in {} cannot be used: {error}", path.display()))
    };
    let pem = std::fs::read(path).map_err(|error| unusable(&error))?;
    over(Trust::Only(&pem)).map_err(|error| unusable(&error))
}

/// A request that cannot be sent as it is.
fn unmade(error: &dyn std::fmt::Display) -> Failure {
    Failure::usage(format!("the request cannot be built: {error}"))
}

/// Waits for an answer, but not for ever.
async fn in_time<T>(
    server: &str,
    patience: Duration,
    answer: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(patience, answer).await {
        Ok(answered) => answered,
        Err(_) => {
            let seconds = patience.as_secs();
            Err(Failure::unreachable(format!(
                "{server} accepted the request and did not answer within {seconds} s; check whether it is stopped or \
                 overloaded. The request may still take effect: check before you retry, or use an idempotency key"
            )))
        }
    }
}

/// Reads an answer.
async fn read(server: &str, body: Body) -> Result<Bytes, Failure> {
    Ok(Limited::new(body, ANSWER).collect().await.map_err(|error| lost(server, innermost(&*error)))?.to_bytes())
}

/// A server that cannot be reached.
fn lost(server: &str, error: &dyn std::fmt::Display) -> Failure {
    let error = error.to_string();
    let hint = super::hint::of_connection(server, &error);
    Failure::unreachable(format!("{server} cannot be reached: {error}; {hint}"))
}

/// What a server said went wrong.
fn problem(server: &str, status: u16, body: &[u8]) -> Problem {
    let Ok(view) = serde_json::from_slice::<ProblemView>(body) else {
        return Problem::coded(Code::Internal, format!("{server} answered with status {status} and no error message"));
    };
    let code = view.kind.strip_prefix("urn:orlop:error:").and_then(Code::from_name).unwrap_or(Code::Internal);
    let mut problem = Problem::coded(code, view.detail);
    for error in view.errors.unwrap_or_default() {
        problem = problem.at_field(error.path, error.message);
    }
    problem.retry_after = view.retry_after_ms.map(Duration::from_millis);
    let quota = view.quota.map(|quota| QuotaUse { name: quota.name, limit: quota.limit, used: quota.used });
    *problem.details_mut() = CallDetails { quota, instance: view.instance, leader: view.leader };
    problem
}

#[cfg(test)]
mod tests {
    use super::super::super::failure::Exit;
    use super::*;

    #[test]
    fn queries_are_escaped() {
        assert_eq!(query(&[]), "");
        assert_eq!(query(&[("label", "a=b&c".into()), ("state", "Failed".into())]), "?label=a%3Db%26c&state=Failed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_takes_requests_and_never_answers_is_given_up() {
        // As a stopped process: connections are taken, and nobody reads.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", silent.local_addr().unwrap());
        let client = Client::new(&server, Some("any".to_owned()), None, false).unwrap();
        let failure = client.ask(ApiRequest::get("/jobs").waiting(Duration::from_secs(5))).await.unwrap_err();
        assert_eq!(failure.exit, Exit::Unreachable);
        assert!(failure.to_string().contains("did not answer within 35 s"), "{failure}");
        assert!(client.open(ApiRequest::get("/events")).await.is_err());
    }

    #[tokio::test]
    async fn dots_in_place_of_a_name_lead_to_nothing_else() {
        let client = Client::new("http://127.0.0.1:1", Some("any".to_owned()), None, false).unwrap();
        let exit = async |path: &str| client.ask(ApiRequest::post(path, None)).await.unwrap_err().exit;
        for path in ["/jobs/..", "/workers/../drain", "/jobs/./logs?follow=true"] {
            assert_eq!(exit(path).await, Exit::Usage, "{path}");
        }
        for path in ["/jobs/...", "/jobs/a..b", "/jobs?label=/../"] {
            assert_eq!(exit(path).await, Exit::Unreachable, "{path}");
        }
    }

    #[test]
    fn plain_text_leaves_this_machine_only_where_somebody_says_so() {
        for there in ["http://10.99.0.1:7070", "http://fleet.example", "http://127.0.0.1:1, http://127.0.0.1.nip.io"] {
            let refused = Client::new(there, None, None, false).unwrap_err();
            assert!(refused.exit == Exit::Usage && refused.to_string().contains("--insecure"), "{refused}");
            assert!(Client::new(there, None, None, true).is_ok());
        }
    }

    #[test]
    fn addresses_are_checked_before_anything_is_sent() {
        assert!(Client::new("https://a:1, http://localhost:2/, http://[::1]:3", None, None, false).is_ok());
        for bad in ["a:1", "ftp://a", "http://"] {
            assert_eq!(Client::new(bad, None, None, false).unwrap_err().exit, Exit::Usage, "{bad}");
        }
        let nothing = Client::new("https://a", None, Some(Path::new("/nowhere/ca.pem")), false).unwrap_err();
        assert!(nothing.to_string().contains("/nowhere/ca.pem"), "{nothing}");
        assert!(
            !format!("{:?}", Client::new("https://a", Some("secret".into()), None, false).unwrap()).contains("secret")
        );
    }
}
