//! Settings of `orlop-scheduler` for its bus, and how long it keeps things.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::task::JoinHandle;

use super::super::retention::{self, Limits};
use super::super::{Handle, Stop, machine};
use super::engine::milliseconds;

/// Where events go beside this process.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Args)]
pub(super) struct BusConfig {
    /// NATS servers with JetStream, such as `nats://localhost:4222`, joined by commas; empty = none, events stay here.
    #[arg(id = "bus.url")]
    pub(super) url: String,
    /// A token, if the servers want one.
    #[arg(id = "bus.token")]
    pub(super) token: String,
    /// Distinguishes the fleets that share one stream.
    #[arg(id = "bus.cluster")]
    pub(super) cluster: String,
    /// Events of heartbeats, `worker.heartbeat`, too.
    #[arg(id = "bus.heartbeats")]
    pub(super) heartbeats: bool,
    /// Events of stored chunks of logs, `log.chunk`, too: their place, never their text.
    #[arg(id = "bus.chunks")]
    pub(super) chunks: bool,
}

impl std::fmt::Debug for BusConfig {
    /// Without what can hold a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BusConfig").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

/// How long things are kept; 0 is not for ever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Args)]
pub(super) struct RetainConfig {
    /// Jobs that have ended, with everything of them.
    #[arg(id = "retain.jobs", value_parser = milliseconds::<u64>)]
    pub(super) jobs: u64,
    /// Logs.
    #[arg(id = "retain.logs", value_parser = milliseconds::<u64>)]
    pub(super) logs: u64,
    /// At most so many bytes of logs.
    #[arg(id = "retain.logs_bytes")]
    pub(super) logs_bytes: u64,
    /// The audit trail.
    #[arg(id = "retain.audit", value_parser = milliseconds::<u64>)]
    pub(super) audit: u64,
    /// Artifacts that no job refers to. Less than some minutes may take one from a job that is being submitted.
    #[arg(id = "retain.artifacts", value_parser = milliseconds::<u64>)]
    pub(super) artifacts: u64,
    /// How often all artifacts are looked at.
    #[arg(id = "retain.artifacts_every", value_parser = milliseconds::<u64>)]
    pub(super) artifacts_every: u64,
    /// At most so many jobs in one transaction.
    #[arg(id = "retain.batch")]
    pub(super) batch: u32,
    /// How often it is looked.
    #[arg(id = "retain.every", value_parser = milliseconds::<u64>)]
    pub(super) every: u64,
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Default for RetainConfig {
    fn default() -> Self {
        let Limits { jobs, logs, logs_bytes, audit, artifacts, artifacts_every, batch, every } = Limits::default();
        Self {
            jobs: millis(jobs),
            logs: millis(logs),
            logs_bytes,
            audit: millis(audit),
            artifacts: millis(artifacts),
            artifacts_every: millis(artifacts_every),
            batch,
            every: millis(every),
        }
    }
}

impl RetainConfig {
    /// The limits.
    ///
    /// # Errors
    /// A time or the batch is 0.
    pub(super) fn limits(&self) -> Result<Limits, String> {
        let times = [
            ("jobs", self.jobs),
            ("logs", self.logs),
            ("audit", self.audit),
            ("artifacts", self.artifacts),
            ("artifacts_every", self.artifacts_every),
            ("every", self.every),
        ];
        for (key, value) in times.into_iter().chain([("batch", u64::from(self.batch))]) {
            if value == 0 {
                return Err(format!("retain.{key} is 0; use 1 or more"));
            }
        }
        let time = Duration::from_millis;
        Ok(Limits {
            jobs: time(self.jobs),
            logs: time(self.logs),
            logs_bytes: self.logs_bytes,
            audit: time(self.audit),
            artifacts: time(self.artifacts),
            artifacts_every: time(self.artifacts_every),
            batch: self.batch,
            every: time(self.every),
        })
    }
}

/// A bus outside.
#[derive(Clone, Debug)]
pub(crate) enum BusPlace {
    /// NATS with JetStream.
    #[cfg(feature = "nats")]
    Nats(orlop_cloud::bus::nats::NatsOptions),
}

impl BusConfig {
    /// Where it is, if there is one.
    ///
    /// # Errors
    /// One is named, and this program was built without it.
    pub(super) fn place(&self) -> Result<Option<BusPlace>, String> {
        if self.url.is_empty() {
            return Ok(None);
        }
        self.outside().map(Some)
    }

    #[cfg(feature = "nats")]
    fn outside(&self) -> Result<BusPlace, String> {
        use orlop_cloud::bus::nats::NatsOptions;
        let cluster = if self.cluster.is_empty() { "orlop" } else { &self.cluster };
        let mut options = NatsOptions::new(&self.url, cluster);
        options.token = (!self.token.is_empty()).then(|| self.token.clone());
        Ok(BusPlace::Nats(options))
    }

    #[cfg(not(feature = "nats"))]
    fn outside(&self) -> Result<BusPlace, String> {
        Err(crate::features::lacking("`bus.url`: NATS", "nats"))
    }
}

/// What runs beside a server.
#[derive(Debug)]
pub(super) struct BackgroundTasks {
    stop: Stop,
    tasks: Vec<JoinHandle<()>>,
}

impl BackgroundTasks {
    /// Starts it.
    pub(super) fn start(handle: &Handle, limits: Limits, bus: Option<BusPlace>) -> Self {
        let stop = Stop::default();
        let publisher = match bus {
            None => None,
            #[cfg(feature = "nats")]
            Some(BusPlace::Nats(options)) => {
                use orlop_cloud::bus::nats::NatsBus;
                let open = move || NatsBus::open(options.clone());
                Some(tokio::spawn(super::super::event_publisher::publish_events(handle.clone(), open, stop.clone())))
            }
        };
        let tasks = [
            tokio::spawn(retention::enforce(handle.clone(), limits, stop.clone())),
            tokio::spawn(machine::look_after(handle.clone(), stop.clone())),
        ];
        let tasks = tasks.into_iter().chain(publisher).collect();
        Self { stop, tasks }
    }

    /// Ends it; what is under way is done first.
    pub(super) async fn stop(self) {
        self.stop.stop();
        for task in self.tasks {
            if task.await.is_err() {
                tracing::error!(target: "orlop::scheduler", "a background task of the server panicked");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contracts_times_are_the_defaults() {
        let kept = RetainConfig::default();
        let hours = |millis: u64| millis / 3_600_000;
        assert_eq!((hours(kept.jobs), hours(kept.logs), hours(kept.audit)), (7 * 24, 3 * 24, 90 * 24));
        assert_eq!((hours(kept.artifacts), hours(kept.artifacts_every)), (24, 1));
        assert_eq!(kept.logs_bytes, 20 << 30);
        assert_eq!(kept.limits(), Ok(Limits::default()));
        let none = RetainConfig { jobs: 0, ..kept };
        insta::assert_snapshot!(none.limits().unwrap_err(), @"retain.jobs is 0; use 1 or more");
    }
}
