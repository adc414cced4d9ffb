//! What `orlop-scheduler` can be configured with. Owns the sections, their defaults and their checks.

use std::path::PathBuf;

use orlop_cloud::store::sqlite::fleet::Durability;
use orlop_core::ports::fleet_store::Holder;
use orlop_scheduler::config::Config as CoreConfig;
use serde::{Deserialize, Serialize};

use super::super::Options;

/// Everything that can be configured. Durations are in milliseconds, or written as `15s`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Config {
    pub(super) server: ServerConfig,
    pub(super) store: StoreConfig,
    pub(super) scheduler: CoreConfig,
    pub(super) log: LogConfig,
}

/// How the server is reached, and how it is called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ServerConfig {
    /// Address of the gRPC services; port 0 = any that is free.
    pub(super) listen: String,
    /// A file that the address is written to once it is known; empty = none.
    pub(super) address_file: String,
    /// Name of this server, unique among those that share a store; empty = its host's.
    pub(super) name: String,
    /// Where clients find it; empty = its address.
    pub(super) url: String,
    /// How many inputs each of its queues holds.
    pub(super) queue: usize,
    /// Orders workers of equal rank.
    pub(super) seed: u64,
    /// Time between the heartbeats of an agent.
    pub(super) heartbeat: u32,
    /// The lease of attempts.
    pub(super) lease: u32,
}

impl Default for ServerConfig {
    fn default() -> Self {
        let options = Options::default();
        Self {
            listen: "127.0.0.1:7071".to_owned(),
            address_file: String::new(),
            name: String::new(),
            url: String::new(),
            queue: options.queue,
            seed: options.seed,
            heartbeat: options.heartbeat_ms,
            lease: options.lease_ms,
        }
    }
}

/// Where the fleet is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct StoreConfig {
    /// The SQLite file.
    pub(super) path: PathBuf,
    /// When a commit counts as written.
    pub(super) synchronous: Synchronous,
    /// The folder of the logs of jobs.
    pub(super) logs: PathBuf,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            path: PathBuf::from("orlop-fleet.db"),
            synchronous: Synchronous::default(),
            logs: PathBuf::from("orlop-logs"),
        }
    }
}

/// When a commit counts as written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Synchronous {
    /// When it is on disk.
    #[default]
    Full,
    /// When the system has it.
    Normal,
}

impl From<Synchronous> for Durability {
    fn from(synchronous: Synchronous) -> Self {
        match synchronous {
            Synchronous::Full => Self::Full,
            Synchronous::Normal => Self::Normal,
        }
    }
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LogConfig {
    /// Filter by target and level, such as `info,orlop=debug`.
    pub(super) level: String,
    /// JSON lines, text, or text on a terminal only.
    pub(super) format: LogFormat,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::default() }
    }
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum LogFormat {
    /// Text on a terminal, else JSON.
    #[default]
    Auto,
    /// JSON lines.
    Json,
    /// Text.
    Text,
}

impl Config {
    /// What keys say together: the first contradiction.
    pub(super) fn check(&self) -> Result<(), String> {
        self.scheduler.check().map_err(|error| error.to_string())?;
        let least = (u64::from(self.server.lease) + 5000) * 11 / 10;
        if self.scheduler.reassign_after < least {
            let given = self.scheduler.reassign_after;
            return Err(format!(
                "scheduler.reassign_after is {given} ms; use at least {least}, which is 1.1 × (server.lease + 5 s)"
            ));
        }
        if self.server.queue == 0 {
            return Err("server.queue is 0; use 1 or more".to_owned());
        }
        Ok(())
    }

    /// What the server is started with, at an address.
    pub(super) fn options(&self, address: &str) -> Options {
        let or = |given: &str, other: String| if given.is_empty() { other } else { given.to_owned() };
        let host = || nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
        let holder = Holder {
            name: or(&self.server.name, format!("{}/{}", host(), std::process::id())),
            url: or(&self.server.url, format!("http://{address}")),
        };
        Options {
            core: self.scheduler.clone(),
            seed: self.server.seed,
            holder,
            queue: self.server.queue,
            lease_ms: self.server.lease,
            heartbeat_ms: self.server.heartbeat,
            ..Options::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s7_2_attempts_are_not_given_up_before_their_lease_is_over() {
        assert_eq!(Config::default().check(), Ok(()));
        let server = ServerConfig { lease: 30_000, ..ServerConfig::default() };
        insta::assert_snapshot!(Config { server, ..Config::default() }.check().unwrap_err(), @"scheduler.reassign_after is 30000 ms; use at least 38500, which is 1.1 × (server.lease + 5 s)");
    }

    #[test]
    fn s10_what_is_printed_reads_back() {
        let printed = serde_saphyr::to_string(&Config::default()).unwrap();
        assert_eq!(serde_saphyr::from_str::<Config>(&printed).unwrap(), Config::default());
    }
}
