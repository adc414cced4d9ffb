//! Where spans go: to a collector over OTLP (gRPC), in batches, beside everything else.

use std::path::PathBuf;
#[cfg(feature = "otel")]
use std::time::Duration;

use orlop_core::error::{Class, Problem};

use super::Tracer;

/// What is exported, and where to.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportPlan {
    /// Address of the collector's gRPC port, such as `http://127.0.0.1:4317`.
    pub endpoint: String,
    /// The certificate of the authority that the collector's is of, in PEM; for https.
    pub authority: Option<PathBuf>,
    /// The share of traces that begin here and are kept, 0 to 1.
    pub ratio: f64,
    /// What this program is to the collector, such as `orlop-scheduler`.
    pub service: &'static str,
    /// Which of them it is.
    pub instance: String,
}

/// An export under way. Dropping it lets it go on; [`Exporting::end`] sends what is left.
#[derive(Debug)]
pub struct Exporting {
    #[cfg(feature = "otel")]
    stop: std::sync::Arc<tokio::sync::Notify>,
    #[cfg(feature = "otel")]
    task: tokio::task::JoinHandle<()>,
}

/// Spans of one message.
#[cfg(feature = "otel")]
const BATCH: usize = 512;
/// How long spans wait for others.
#[cfg(feature = "otel")]
const GATHER: Duration = Duration::from_secs(1);
/// How often a batch is sent, and the first wait between two tries.
#[cfg(feature = "otel")]
const TRIES: (u32, Duration) = (3, Duration::from_secs(1));
/// How long the rest may take at the end.
#[cfg(feature = "otel")]
const FAREWELL: Duration = Duration::from_secs(5);

/// Begins to export.
///
/// # Errors
/// The address is none, or this program was built without OpenTelemetry.
#[cfg(not(feature = "otel"))]
pub fn export(plan: &ExportPlan) -> Result<(Tracer, Exporting), Problem> {
    Err(Problem::new(
        Class::Invalid,
        format!("{}: {}", plan.endpoint, crate::features::lacking("sending traces", "otel")),
    ))
}

#[cfg(not(feature = "otel"))]
impl Exporting {
    /// Sends what is left, for a while.
    pub async fn end(self) {}
}

/// Begins to export.
///
/// # Errors
/// The address is none, or this program was built without OpenTelemetry.
#[cfg(feature = "otel")]
pub fn export(plan: &ExportPlan) -> Result<(Tracer, Exporting), Problem> {
    if !(0.0..=1.0).contains(&plan.ratio) {
        return Err(Problem::new(Class::Invalid, format!("the share of traces is {}; use 0 to 1", plan.ratio)));
    }
    let channel = channel(plan)?;
    let (tracer, spans) = Tracer::channel(plan.ratio);
    let sender = Sender { channel, service: plan.service, instance: plan.instance.clone(), lost: 0 };
    let stop = std::sync::Arc::new(tokio::sync::Notify::new());
    let task = tokio::spawn(sender.run(spans, std::sync::Arc::clone(&stop)));
    Ok((tracer, Exporting { stop, task }))
}

#[cfg(feature = "otel")]
fn channel(plan: &ExportPlan) -> Result<tonic::transport::Channel, Problem> {
    use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};
    let wrong = |error: &dyn std::fmt::Display| {
        Problem::new(Class::Invalid, format!("the collector at {}: {error}", plan.endpoint))
    };
    let endpoint = Endpoint::from_shared(plan.endpoint.clone()).map_err(|error| wrong(&error))?;
    let scheme = endpoint.uri().scheme_str().map(str::to_owned);
    let mut endpoint = endpoint.connect_timeout(Duration::from_secs(5)).timeout(Duration::from_secs(10));
    match (scheme.as_deref(), &plan.authority) {
        (Some("http"), None) => {}
        (Some("http"), Some(_)) => return Err(wrong(&"an authority is named, so use https://")),
        (Some("https"), Some(path)) => {
            let pem = std::fs::read(path).map_err(|error| wrong(&format!("{}: {error}", path.display())))?;
            let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem));
            endpoint = endpoint.tls_config(tls).map_err(|error| wrong(&error))?;
        }
        (Some("https"), None) => return Err(wrong(&"name the file of its authority's certificate (ca_file)")),
        _ => return Err(wrong(&"use an address such as http://127.0.0.1:4317")),
    }
    Ok(endpoint.connect_lazy())
}

#[cfg(feature = "otel")]
struct Sender {
    channel: tonic::transport::Channel,
    service: &'static str,
    instance: String,
    /// Spans given up since that was last reported.
    lost: usize,
}

#[cfg(feature = "otel")]
impl Sender {
    async fn run(
        mut self,
        mut spans: tokio::sync::mpsc::Receiver<super::Span>,
        stop: std::sync::Arc<tokio::sync::Notify>,
    ) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let room = BATCH - batch.len();
            let more = async {
                match tokio::time::timeout(GATHER, spans.recv_many(&mut batch, room)).await {
                    Ok(0) => More::End,
                    Ok(_) => More::Some,
                    Err(_) => More::Late,
                }
            };
            let more = tokio::select! {
                more = more => more,
                () = stop.notified() => {
                    spans.close();
                    More::Some
                }
            };
            let full = batch.len() >= BATCH || matches!(more, More::Late | More::End);
            if full && !batch.is_empty() {
                self.send(std::mem::take(&mut batch)).await;
            }
            if matches!(more, More::End) {
                return;
            }
        }
    }

    /// Sends a batch, and again a few times where that fails.
    async fn send(&mut self, spans: Vec<super::Span>) {
        let count = spans.len();
        let message = super::message::request(self.service, &self.instance, spans);
        let (tries, mut wait) = TRIES;
        for number in 1..=tries {
            match super::message::send(&self.channel, message.clone()).await {
                Ok(()) => {
                    self.lost = 0;
                    return;
                }
                Err(error) if number == tries => {
                    // Told once until it works again.
                    if self.lost == 0 {
                        let reason = error.message();
                        tracing::warn!(target: "orlop::trace", reason, "the collector accepts no spans; they are dropped");
                    }
                    self.lost += count;
                }
                Err(_) => {
                    tokio::time::sleep(wait).await;
                    wait *= 2;
                }
            }
        }
    }
}

/// What came of waiting for spans.
#[cfg(feature = "otel")]
enum More {
    Some,
    Late,
    End,
}

#[cfg(feature = "otel")]
impl Exporting {
    /// Sends what is left, for a while.
    pub async fn end(self) {
        self.stop.notify_one();
        if tokio::time::timeout(FAREWELL, self.task).await.is_err() {
            tracing::warn!(target: "orlop::trace", "the last spans could not be sent in time");
        }
    }
}

#[cfg(all(test, feature = "otel"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn where_traces_go_is_checked_at_the_start() {
        let plan = |endpoint: &str, ratio: f64| ExportPlan {
            endpoint: endpoint.to_owned(),
            authority: None,
            ratio,
            service: "orlop",
            instance: String::new(),
        };
        let wrong = |endpoint: &str, ratio: f64| export(&plan(endpoint, ratio)).unwrap_err().to_string();
        assert!(export(&plan("http://127.0.0.1:4317", 0.01)).is_ok());
        assert!(wrong("https://collector:4317", 0.01).contains("ca_file"));
        assert!(wrong("collector:4317", 0.01).contains("use an address such as"));
        assert!(wrong("http://127.0.0.1:4317", 7.0).contains("use 0 to 1"));
    }
}
