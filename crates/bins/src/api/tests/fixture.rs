//! A server with its interface for a test, and requests to it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Request, Response};
use http_body_util::BodyExt as _;
use orlop_cloud::artifact::UploadStore;
use orlop_cloud::logs::{LogOptions, LogStore};
use orlop_core::ports::fleet_store::{AuditEntry, AuditFilter, FleetStore, Page};
use orlop_core::rate::Rate;
use orlop_core::testing::fleet_store::MemoryFleet;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::api::auth::Bearer;
use crate::api::{Api, Console, Options, router};
use crate::host::scheduler::clock::MachineClock;
use crate::host::scheduler::{Options as ServerOptions, SecretPlace, Server, Status};
use crate::telemetry::metrics::Metrics;
use crate::web::{Lives, Place};

/// How long a test waits for what must come.
const SOON: Duration = Duration::from_secs(60);

/// The client token of the servers of tests.
pub(super) const CLIENT: &str = "orlop_aaaaaaaaaaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

pub(super) struct Fixture {
    router: Router,
    api: Arc<Api>,
    server: Server,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
}

impl Answer {
    pub(super) fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// A request.
#[derive(Clone, Debug, Default)]
pub(super) struct Ask {
    method: String,
    path: String,
    body: Option<Vec<u8>>,
    headers: Vec<(String, String)>,
    /// Without a token.
    bare: bool,
}

impl Ask {
    pub(super) fn new(method: &str, path: &str) -> Self {
        Self { method: method.into(), path: format!("/api/v1{path}"), ..Self::default() }
    }

    pub(super) fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    /// Its path, without its query.
    pub(super) fn path(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    pub(super) fn post(path: &str, body: &Value) -> Self {
        Self::new("POST", path).json(body)
    }

    pub(super) fn json(self, body: &Value) -> Self {
        self.raw(body.to_string().into_bytes()).with("content-type", "application/json")
    }

    pub(super) fn raw(mut self, body: Vec<u8>) -> Self {
        self.body = Some(body);
        self
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// With a token in place of the client token; an empty one is none.
    pub(super) fn token(self, token: &str) -> Self {
        if token.is_empty() {
            return Self { bare: true, ..self };
        }
        self.with("authorization", &format!("Bearer {token}"))
    }

    /// At a path that does not begin with the base.
    pub(super) fn at_root(mut self) -> Self {
        self.path = self.path.trim_start_matches("/api/v1").to_owned();
        self
    }

    fn request(self) -> Option<Request<Body>> {
        let mut request = Request::builder().method(self.method.as_str()).uri(self.path);
        if !self.headers.iter().any(|(name, _)| name == "host") {
            request = request.header("host", "localhost:7070");
        }
        if !self.bare && !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
            request = request.header("authorization", format!("Bearer {CLIENT}"));
        }
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        let peer: SocketAddr = "127.0.0.1:9".parse().unwrap();
        request.extension(ConnectInfo(peer)).body(self.body.map_or_else(Body::empty, Body::from)).ok()
    }
}

impl Fixture {
    pub(super) async fn new() -> Self {
        let fast = Rate { per_second: 1_000_000, burst: 1_000_000 };
        Self::with(|options| Options { rate: fast, address_rate: fast, ..options }).await
    }

    /// A server on a store that the test has in its hands.
    pub(super) async fn on(store: MemoryFleet) -> Self {
        Self::start(Arc::new(store), ServerOptions::default(), |options| options).await
    }

    /// The same, and every tenant that work names is one.
    pub(super) async fn open_on(store: MemoryFleet) -> Self {
        let options = ServerOptions { create_tenants: true, ..ServerOptions::default() };
        Self::start(Arc::new(store), options, |options| options).await
    }

    /// Ends the server.
    pub(super) async fn end(self) {
        let Self { router, api, server } = self;
        drop((router, api));
        server.stop().await;
    }

    pub(super) async fn with(change: impl FnOnce(Options) -> Options) -> Self {
        let store: Arc<dyn FleetStore> = Arc::new(MemoryFleet::new());
        Self::start(store, ServerOptions::default(), change).await
    }

    /// Makes tenants.
    pub(super) async fn tenants(&self, by: Option<&str>, names: &[&str]) {
        for name in names {
            let ask = Ask::post("/tenants", &json!({ "name": name }));
            let made = self.ask(by.map_or(ask.clone(), |token| ask.token(token))).await;
            assert_eq!(made.status, 201, "{}", made.text);
        }
    }

    /// A server that has everything: logs, artifacts and secrets, in a folder.
    pub(super) async fn full(folder: &Path) -> Self {
        Self::full_with(folder, |options| options).await
    }

    /// The same with other options.
    pub(super) async fn full_with(folder: &Path, change: impl FnOnce(Options) -> Options) -> Self {
        let store: Arc<dyn FleetStore> = Arc::new(MemoryFleet::new());
        let options = ServerOptions {
            logs: Some(LogStore::open(folder.join("logs"), LogOptions::default()).unwrap()),
            artifacts: Some(Arc::new(UploadStore::open(&folder.join("artifacts")).unwrap())),
            secrets: SecretPlace::KeyFile(folder.join("key")).open(store.clone()).unwrap(),
            ..ServerOptions::default()
        };
        let fast = Rate { per_second: 1_000_000, burst: 1_000_000 };
        Self::start(store, options, |options| change(Options { rate: fast, address_rate: fast, ..options })).await
    }

    async fn start(
        store: Arc<dyn FleetStore>,
        options: ServerOptions,
        change: impl FnOnce(Options) -> Options,
    ) -> Self {
        let runtime = tokio::runtime::Handle::current();
        let clock = Arc::new(MachineClock::default());
        let server = Server::start(store, clock, options, runtime).unwrap();
        let began = std::time::Instant::now();
        while !matches!(server.handle().status(), Status::Leading { .. }) {
            assert!(began.elapsed() < SOON, "the server does not lead");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let client_token = Some(Bearer::parse(CLIENT).unwrap().hash());
        let place = Place::of_listener("http://localhost:7070", b"id");
        let console = Some(Console { place, lives: Lives::default(), tick: Duration::from_millis(100) });
        let options = change(Options { client_token, console, ..Options::loopback("default".parse().unwrap()) });
        let api = Api::new(server.handle().clone(), Arc::new(Metrics::new()), options);
        Self { router: router(&api), api, server }
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    /// Asks; none where no such request can be made.
    pub(super) async fn try_ask(&self, ask: Ask) -> Option<Answer> {
        let response: Response<Body> = self.router.clone().oneshot(ask.request()?).await.unwrap();
        let (head, body) = response.into_parts();
        let text = text_of(body).await;
        Some(Answer { status: head.status.as_u16(), headers: head.headers, text })
    }

    /// Asks with a body that comes bit by bit.
    pub(super) async fn ask_with(&self, ask: Ask, body: Body) -> Answer {
        let request = ask.request().expect("a request").map(|_| body);
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let text = text_of(body).await;
        Answer { status: head.status.as_u16(), headers: head.headers, text }
    }

    /// Asks for a body that comes bit by bit.
    pub(super) async fn stream(&self, ask: Ask) -> Body {
        let response = self.router.clone().oneshot(ask.request().unwrap()).await.unwrap();
        assert_eq!(response.status(), 200);
        response.into_body()
    }

    /// Asks, and does not read the body of a good answer.
    pub(super) async fn head(&self, ask: Ask) -> Answer {
        self.try_head(ask).await.expect("a request")
    }

    /// The same; none where no such request can be made.
    pub(super) async fn try_head(&self, ask: Ask) -> Option<Answer> {
        let response = self.router.clone().oneshot(ask.request()?).await.unwrap();
        let (head, body) = response.into_parts();
        let status = head.status.as_u16();
        let text = if status < 400 { String::new() } else { text_of(body).await };
        Some(Answer { status, headers: head.headers, text })
    }

    /// Ends streams, as the end of the listener does.
    pub(super) fn end_streams(&self) {
        self.api.stop.stop();
    }

    /// The first `count` entries of the audit trail, once they are written: who, what, about what, and how it ended.
    pub(super) async fn audit(&self, count: usize) -> Vec<String> {
        let began = std::time::Instant::now();
        loop {
            let found = self.server.handle().store().audit(&AuditFilter::default(), &Page::first(100)).await.unwrap();
            if found.items.len() >= count {
                let row =
                    |entry: &AuditEntry| format!("{} {} {} {}", entry.actor, entry.action, entry.target, entry.outcome);
                return found.items.iter().map(row).collect();
            }
            assert!(began.elapsed() < SOON, "the trail is written");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub(super) async fn ask(&self, ask: Ask) -> Answer {
        self.try_ask(ask).await.expect("a request")
    }

    pub(super) async fn get(&self, path: &str) -> Value {
        let answer = self.ask(Ask::get(path)).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        answer.body()
    }

    /// Submits a job that starts nothing, with fields on top, and gives its id.
    pub(super) async fn submit(&self, fields: &Value) -> String {
        let answer = self.ask(Ask::post("/jobs", &noop(fields))).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        answer.body()["id"].as_str().unwrap().to_owned()
    }

    /// Makes a token; the first one made must be one of an administrator.
    pub(super) async fn token(&self, by: Option<&str>, role: &str, tenants: &[&str]) -> String {
        let mut ask = Ask::post("/tokens", &json!({ "role": role, "tenants": tenants }));
        if let Some(by) = by {
            ask = ask.token(by);
        }
        let answer = self.ask(ask).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        answer.body()["token"].as_str().unwrap().to_owned()
    }
}

async fn text_of(body: Body) -> String {
    String::from_utf8_lossy(&body.collect().await.unwrap().to_bytes()).into_owned()
}

/// A job that starts nothing, with fields on top.
pub(super) fn noop(fields: &Value) -> Value {
    let mut job = json!({ "runtime": "noop" });
    for (key, value) in fields.as_object().unwrap() {
        job[key] = value.clone();
    }
    job
}
