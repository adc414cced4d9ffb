//! A collector for tests: takes spans over OTLP on loopback and keeps them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as Polling, Poll};

use axum::http;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::Service;

use super::context::digits;
use super::message::{ExportRequest, ExportResponse, KeyValue};

/// A span that came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// `service.name` of who sent it.
    pub service: String,
    /// Its name.
    pub name: String,
    /// Number of its trace.
    pub trace: String,
    /// Its number.
    pub span: String,
    /// Number of the span above it; empty = it has none.
    pub parent: String,
    /// When it began, in Unix nanoseconds.
    pub from_ns: u64,
    /// When it ended, in Unix nanoseconds.
    pub until_ns: u64,
    /// What is known of it.
    pub attributes: BTreeMap<String, String>,
    /// What went wrong; empty = nothing.
    pub error: String,
}

type Kept = Arc<Mutex<Vec<Received>>>;

/// A collector. It ends with this value.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    kept: Kept,
    task: JoinHandle<()>,
}

impl Receiver {
    /// Starts one on a port that is free.
    ///
    /// # Errors
    /// There is no port.
    pub async fn start() -> io::Result<Self> {
        let socket = TcpListener::bind("127.0.0.1:0").await?;
        let address = socket.local_addr()?;
        let kept = Kept::default();
        let service = Collecting(Arc::clone(&kept));
        let task = tokio::spawn(async move {
            // It ends with its task.
            drop(Server::builder().add_service(service).serve_with_incoming(TcpIncoming::from(socket)).await);
        });
        Ok(Self { address, kept, task })
    }

    /// Where it is, as exporters take it.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What came so far.
    #[must_use]
    pub fn spans(&self) -> Vec<Received> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct Collecting(Kept);

impl NamedService for Collecting {
    const NAME: &'static str = "opentelemetry.proto.collector.trace.v1.TraceService";
}

type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Service<http::Request<Body>> for Collecting {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Later<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Polling<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let method = self.clone();
        Box::pin(async move {
            let codec = ProstCodec::<ExportResponse, ExportRequest>::default();
            Ok(Grpc::new(codec).unary(method, request).await)
        })
    }
}

impl UnaryService<ExportRequest> for Collecting {
    type Response = ExportResponse;
    type Future = Later<Result<Response<ExportResponse>, Status>>;

    fn call(&mut self, request: Request<ExportRequest>) -> Self::Future {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for resource in request.into_inner().resources {
            let known = texts(resource.resource.map(|resource| resource.attributes).unwrap_or_default());
            let service = known.get("service.name").cloned().unwrap_or_default();
            kept.extend(resource.scopes.into_iter().flat_map(|scope| scope.spans).map(|span| Received {
                service: service.clone(),
                name: span.name,
                trace: digits(&span.trace_id),
                span: digits(&span.span_id),
                parent: digits(&span.parent_span_id),
                from_ns: span.from_ns,
                until_ns: span.until_ns,
                attributes: texts(span.attributes),
                error: span.status.map(|status| status.message).unwrap_or_default(),
            }));
        }
        Box::pin(async { Ok(Response::new(ExportResponse {})) })
    }
}

fn texts(pairs: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |pair: KeyValue| (pair.key, pair.value.and_then(|value| value.text).unwrap_or_default());
    pairs.into_iter().map(text).collect()
}
