//! What all requests share: the server behind them, metrics, rates, tokens. Decides nothing about a single request.

use std::sync::Arc;
use std::time::Duration;

use orlop_core::error::Problem;
use orlop_core::id::{Epoch, TenantName};
use orlop_core::ports::fleet_store::{AuditEntry, Kind, Record, WriteBatch};
use orlop_core::rate::Rate;
use orlop_core::time::Time;
use ring::rand::SystemRandom;
use tokio::sync::Mutex;

use super::auth::{Rates, SecretHash};
use super::body::Bodies;
use super::counts::EndedCounts;
use super::guard::Guard;
use super::leading::epoch_of;
pub(super) use super::leading::store;
use super::live::Live;
use super::refusal_log::RefusalLog;
use super::replay::Replays;
use super::session_store::FleetSessions;
use super::streams::Streams;
use crate::host::scheduler::flows::Flows;
use crate::host::scheduler::{Handle, Stop};
use crate::telemetry::metrics::Metrics;
use crate::web::{Lives, Place, Sessions};
use crate::wire::identity::Authority;

/// How the interface behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// The tenant of jobs whose caller may use any and names none.
    pub default_tenant: TenantName,
    /// It listens where only this machine reaches it: browsers are held off.
    pub loopback: bool,
    /// By what it knows the token of the people and workers of this machine; none = there is no such token.
    pub client_token: Option<SecretHash>,
    /// The authority that signs the certificates of workers, if this fleet has its own.
    pub authority: Option<Arc<Authority>>,
    /// Origins whose pages may use it beside its own.
    pub origins: Vec<String>,
    /// Requests per token.
    pub rate: Rate,
    /// Requests per address without a valid token.
    pub address_rate: Rate,
    /// Where the console is found, and how long its sessions live; none = there is no console.
    pub console: Option<Console>,
}

/// The console of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Console {
    /// Where its page is found.
    pub place: Place,
    /// How long sessions and links live.
    pub lives: Lives,
    /// How long changes are gathered before they are sent.
    pub tick: Duration,
}

impl Options {
    /// The contract's limits, for a listener that only this machine reaches.
    #[must_use]
    pub fn loopback(default_tenant: TenantName) -> Self {
        Self {
            default_tenant,
            loopback: true,
            client_token: None,
            authority: None,
            origins: Vec::new(),
            rate: Rate { per_second: 100, burst: 200 },
            address_rate: Rate { per_second: 20, burst: 20 },
            console: None,
        }
    }
}

/// The interface of one server.
#[derive(Debug)]
pub struct Api {
    pub(super) handle: Handle,
    pub(super) metrics: Arc<Metrics>,
    pub(super) options: Options,
    pub(super) guard: Guard,
    pub(super) random: SystemRandom,
    /// RefusalLog of those whom nobody knows.
    pub(super) refusals: RefusalLog,
    pub(super) replays: Replays,
    /// Held while a tenant is read and changed, so that `If-Match` means what it says.
    pub(super) tenants: Mutex<()>,
    /// Held while secrets are replaced, so that versions do not cross.
    pub(super) secrets: Mutex<()>,
    /// Held while tokens are made, so that one is the first.
    pub(super) tokens: Mutex<()>,
    /// The flows of the server.
    pub(super) flows: Flows,
    pub(super) streams: Streams,
    /// What pages see as it happens.
    pub(super) live: Live,
    pub(super) bodies: Bodies,
    pub(super) counts: EndedCounts,
    /// Ends the streams.
    pub(super) stop: Stop,
}

impl Api {
    /// The interface of a server. Call it inside a runtime.
    pub fn new(handle: Handle, metrics: Arc<Metrics>, options: Options) -> Arc<Self> {
        let rates = Rates::new(options.rate, options.address_rate);
        let lives = options.console.as_ref().map(|console| console.lives).unwrap_or_default();
        let sessions = Sessions::new(FleetSessions(handle.clone()), lives);
        let guard = Guard::new(handle.clone(), Arc::clone(&metrics), rates, options.client_token.clone(), sessions);
        Arc::new(Self {
            guard,
            refusals: RefusalLog::default(),
            flows: Flows::start(handle.clone()),
            handle,
            metrics,
            options,
            random: SystemRandom::new(),
            replays: Replays::default(),
            tenants: Mutex::default(),
            secrets: Mutex::default(),
            tokens: Mutex::default(),
            streams: Streams::default(),
            live: Live::default(),
            bodies: Bodies::default(),
            counts: EndedCounts::default(),
            stop: Stop::default(),
        })
    }

    /// The flows of the server.
    #[must_use]
    pub fn flows(&self) -> &Flows {
        &self.flows
    }

    /// Who lets callers pass.
    pub(crate) fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The server behind it.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The authority that signs the certificates of workers, if this fleet has its own.
    pub(crate) fn authority(&self) -> Option<&Authority> {
        self.options.authority.as_deref()
    }

    /// Held while tokens are made and used.
    pub(crate) fn tokens(&self) -> &Mutex<()> {
        &self.tokens
    }

    /// What is counted.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The tenant of callers who may use any and name none.
    pub(crate) fn default_tenant(&self) -> &TenantName {
        &self.options.default_tenant
    }

    /// The time of day.
    pub(crate) fn now(&self) -> Time {
        self.handle.clock().wall()
    }

    /// Hands an entry to the audit trail. Those of callers whom nobody knows, or who ask too often, are joined.
    pub(crate) async fn note(&self, entry: AuditEntry, knocks: bool) {
        let now = self.handle.clock().monotonic();
        let entries = if knocks {
            self.refusals.take(now, entry)
        } else {
            let mut entries = self.refusals.over(now);
            entries.push(entry);
            entries
        };
        for entry in entries {
            self.handle.note(entry).await;
        }
    }

    /// The epoch in which this server may write.
    pub(super) fn epoch(&self) -> Result<Epoch, Problem> {
        epoch_of(&self.handle)
    }

    /// Writes records that are not the loop's: tokens, answers to repeated requests.
    pub(crate) async fn write(&self, records: Vec<Record>) -> Result<(), Problem> {
        let epoch = self.epoch()?;
        let token = |record: &Record| match record {
            Record::Put(entry) => entry.kind == Kind::Token,
            Record::Delete(kind, _) => *kind == Kind::Token,
            _ => false,
        };
        let tokens = records.iter().any(token);
        let written = self.handle.store().commit(epoch, vec![WriteBatch::new(records)]).await;
        if tokens {
            // Also where it failed: it may be written all the same.
            self.guard.tokens_changed();
        }
        written.map_err(|error| store(&error))
    }
}
