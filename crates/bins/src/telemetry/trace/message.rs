//! Spans as a collector takes them: the messages of OTLP (field numbers of opentelemetry-proto 1.x, package
//! `opentelemetry.proto.collector.trace.v1`) as far as they are used. Owns the form; when they are sent is the exporter's.

use axum::http::uri::PathAndQuery;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::Span;

/// Where collectors take them.
pub(super) const PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// `ExportTraceServiceRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ExportRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) resources: Vec<ResourceSpans>,
}

/// `ExportTraceServiceResponse`: what else it says is not looked at.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ExportResponse {}

/// `ResourceSpans`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scopes: Vec<ScopeSpans>,
}

/// `Resource`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<KeyValue>,
}

/// `ScopeSpans`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) spans: Vec<WireSpan>,
}

/// `InstrumentationScope`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Scope {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
}

/// `Span`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct WireSpan {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(super) name: String,
    #[prost(int32, tag = "6")]
    pub(super) kind: i32,
    #[prost(fixed64, tag = "7")]
    pub(super) from_ns: u64,
    #[prost(fixed64, tag = "8")]
    pub(super) until_ns: u64,
    #[prost(message, repeated, tag = "9")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    pub(super) status: Option<SpanStatus>,
    #[prost(fixed32, tag = "16")]
    pub(super) flags: u32,
}

/// `Status`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SpanStatus {
    #[prost(string, tag = "2")]
    pub(super) message: String,
    #[prost(int32, tag = "3")]
    pub(super) code: i32,
}

/// `KeyValue`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<AnyValue>,
}

/// `AnyValue`, of which only texts are used.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AnyValue {
    #[prost(string, optional, tag = "1")]
    pub(super) text: Option<String>,
}

fn pair(key: &str, value: impl Into<String>) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { text: Some(value.into()) }) }
}

/// `SpanKind`: requests are served, assignments are sent and received, the rest happens inside.
fn kind(name: &str) -> i32 {
    match name {
        "submit" => 2,
        "assign" => 4,
        "run" => 5,
        _ => 1,
    }
}

fn wire(span: Span) -> WireSpan {
    let nanos = |time: orlop_core::time::Time| u64::try_from(time.millis()).unwrap_or(0).saturating_mul(1_000_000);
    let error = span.error.map(|message| SpanStatus { message, code: 2 });
    WireSpan {
        trace_id: span.context.trace.to_vec(),
        span_id: span.context.span.to_vec(),
        parent_span_id: span.parent.map(|parent| parent.span.to_vec()).unwrap_or_default(),
        name: span.name.to_owned(),
        kind: kind(span.name),
        from_ns: nanos(span.from),
        until_ns: nanos(span.until.max(span.from)),
        attributes: span.attributes.into_iter().map(|(key, value)| pair(key, value)).collect(),
        status: error,
        flags: 1,
    }
}

/// Spans of this program as one message.
pub(super) fn request(service: &str, instance: &str, spans: Vec<Span>) -> ExportRequest {
    let version = env!("CARGO_PKG_VERSION");
    let mut attributes = vec![pair("service.name", service), pair("service.version", version)];
    if !instance.is_empty() {
        attributes.push(pair("service.instance.id", instance));
    }
    let scope = Scope { name: "orlop".to_owned(), version: version.to_owned() };
    let scopes = vec![ScopeSpans { scope: Some(scope), spans: spans.into_iter().map(wire).collect() }];
    ExportRequest { resources: vec![ResourceSpans { resource: Some(Resource { attributes }), scopes }] }
}

/// Sends a message.
///
/// # Errors
/// The collector cannot be reached, or refuses.
pub(super) async fn send(channel: &Channel, message: ExportRequest) -> Result<(), Status> {
    let mut client = Grpc::new(channel.clone());
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let codec = ProstCodec::<ExportRequest, ExportResponse>::default();
    client.unary(Request::new(message), PathAndQuery::from_static(PATH), codec).await.map(|_| ())
}
