//! The webhook that the API server asks about objects, over HTTPS.

mod answer;
mod certificate;
#[cfg(test)]
#[cfg(feature = "fleet")]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use orlop_core::time::Time;
use orlop_k8s::admission::Settings;
use orlop_k8s::shell::Clock;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep};

use self::answer::Desk;
pub use self::certificate::Files;
use self::certificate::{CertificateFiles, Look, Pair};
use super::{Operator, OperatorHealth};
use crate::listen::{Secured, Served, accept};
use crate::telemetry::metrics::WebhookMetrics;

/// Connections at once. An API server keeps a few and sends many requests over each.
const CONNECTIONS: usize = 512;
/// How often the files of the certificate are looked at.
const LOOK: Duration = Duration::from_secs(2);

/// How the webhook answers.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WebhookPlan {
    /// What objects are measured by and filled in with.
    pub settings: Settings,
    /// Its certificate; without one it speaks plain HTTP.
    pub files: Option<Files>,
}

/// A webhook that is served. Dropped, it goes on until the process ends.
#[derive(Debug)]
#[must_use]
pub struct Admitting {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Admitting {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Goes on for that long, in which the cluster learns that this process is about to end; then lets what is under way be
    /// answered, and ends.
    pub async fn end(self, linger: Duration) {
        sleep(linger).await;
        self.stop.send_replace(true);
        if self.task.await.is_err() {
            tracing::error!("the webhook panicked");
        }
    }
}

impl Operator {
    /// Answers the API server on this listener, where the plan has a webhook. A certificate that is not there yet is waited
    /// for; until then nobody is let in, and the process is not ready.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn admit(&self, socket: TcpListener) -> std::io::Result<Option<Admitting>> {
        let Some(plan) = self.plan.webhook.clone() else { return Ok(None) };
        let address = socket.local_addr()?;
        let metrics = Arc::clone(&self.metrics.webhook);
        let desk = Arc::new(Desk::new(plan.settings, Arc::new(self.clock.clone()), Arc::clone(&metrics)));
        let tls = plan.files.map(|files| {
            let secured = Secured::new(ArcSwapOption::empty());
            let watch = Watch {
                files,
                known: CertificateFiles::default(),
                used: None,
                secured: Arc::clone(&secured),
                clock: Arc::new(self.clock.clone()),
                metrics,
                health: self.health.clone(),
            };
            (secured, watch)
        });
        let (stop, stopped) = watch::channel(false);
        let (secured, watch) = tls.unzip();
        let served = Served { router: desk.router(), tls: secured, connections: CONNECTIONS };
        let task = tokio::spawn(async move {
            let Some(watch) = watch else { return accept(socket, served, stopped).await };
            tokio::select! {
                () = accept(socket, served, stopped) => {}
                () = watch.keep_looking() => {}
            }
        });
        Ok(Some(Admitting { address, stop, task }))
    }
}

/// The certificate in use, and who hears of it.
struct Watch {
    files: Files,
    known: CertificateFiles,
    used: Option<Pair>,
    secured: Secured,
    clock: Arc<dyn Clock>,
    metrics: Arc<WebhookMetrics>,
    health: OperatorHealth,
}

impl Watch {
    /// Looks at the files again and again. Never ends.
    async fn keep_looking(mut self) {
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let files = self.files.clone();
            let read = tokio::task::spawn_blocking(move || files.read()).await;
            let read = read.unwrap_or_else(|error| Err(error.to_string()));
            let now = self.clock.now();
            let look = self.known.look(read, now);
            self.seen(look, now);
        }
    }

    fn seen(&mut self, look: Look, now: Time) {
        match look {
            Look::Same => {}
            Look::Taken(pair) => {
                self.metrics.loads.of(["taken"]).inc();
                self.metrics.expiry.set(pair.expires.millis() / 1000);
                tracing::info!(expires = %pair.expires, "the webhook has a certificate");
                self.secured.store(Some(Arc::clone(&pair.config)));
                self.used = Some(pair);
            }
            Look::Failed(why) => {
                let Files { certificate, key } = &self.files;
                let why = format!("{why} ({}, {})", certificate.display(), key.display());
                self.metrics.loads.of(["failed"]).inc();
                let kept = if self.used.is_some() {
                    "the current one stays in use"
                } else {
                    "requests are rejected until there is one"
                };
                tracing::warn!("the webhook's certificate cannot be used: {why}; {kept}");
                if self.used.is_none() {
                    return self.health.webhook(Err(format!("its certificate cannot be used: {why}")));
                }
            }
        }
        match &self.used {
            Some(pair) if pair.expires <= now => {
                self.health.webhook(Err(format!("its certificate was good until {}; renew it", pair.expires)));
            }
            Some(_) => self.health.webhook(Ok(())),
            None => {}
        }
    }
}
