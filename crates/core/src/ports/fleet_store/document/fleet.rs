//! Documents of the fleet: workers and tenants. Owns their fields.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Document, Kind};
use crate::id::{Incarnation, SessionId, TenantName, WorkerId};
use crate::machine::tenant::TenantState;
use crate::machine::worker::WorkerState;
use crate::time::Time;

/// One incarnation of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worker {
    /// Its id.
    pub id: WorkerId,
    /// How often that id came back.
    pub incarnation: Incarnation,
    /// Its state.
    pub state: WorkerState,
    /// Since when.
    pub since: Time,
    /// Why.
    #[serde(default)]
    pub reason: String,
    /// What it offers, as the server wrote it.
    #[serde(default)]
    pub capabilities: serde_json::Value,
    /// Its labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Tenants whose jobs it takes; empty: those of all.
    #[serde(default)]
    pub tenants: Vec<TenantName>,
    /// It gets no new work.
    #[serde(default)]
    pub cordoned: bool,
    /// An operator cordoned or drained it and has not undone that: it gets no new work when it comes back.
    #[serde(default)]
    pub barred: bool,
    /// Its drain, as the server wrote it.
    #[serde(default)]
    pub drain: Option<serde_json::Value>,
    /// Its session.
    #[serde(default)]
    pub session: Option<SessionId>,
    /// Names the state directory of its agent.
    #[serde(default)]
    pub state_id: String,
    /// Version of its agent.
    #[serde(default)]
    pub agent_version: String,
    /// When it registered.
    #[serde(default)]
    pub registered_at: Option<Time>,
    /// When it was last heard of.
    #[serde(default)]
    pub last_seen_at: Option<Time>,
    /// Further data of the server, to go on with it after a restart.
    #[serde(default)]
    pub more: serde_json::Value,
}

impl Worker {
    /// An incarnation in a state, of which nothing else is known.
    #[must_use]
    pub fn new(id: WorkerId, incarnation: Incarnation, state: WorkerState, since: Time) -> Self {
        Self {
            id,
            incarnation,
            state,
            since,
            reason: String::new(),
            capabilities: serde_json::Value::Null,
            labels: BTreeMap::new(),
            tenants: Vec::new(),
            cordoned: false,
            barred: false,
            drain: None,
            session: None,
            state_id: String::new(),
            agent_version: String::new(),
            registered_at: None,
            last_seen_at: None,
            more: serde_json::Value::Null,
        }
    }

    /// The key of an incarnation; those of one worker are in order.
    #[must_use]
    pub fn key_of(id: &WorkerId, incarnation: Incarnation) -> String {
        format!("{id}/{:010}", incarnation.get())
    }
}

impl Document for Worker {
    const KIND: Kind = Kind::Worker;

    fn key(&self) -> String {
        Self::key_of(&self.id, self.incarnation)
    }

    fn ended_at(&self) -> Option<Time> {
        // What an operator wants of it lasts until that is undone.
        (self.state.is_terminal() && !self.barred).then_some(self.since)
    }
}

/// A tenant. Its key is its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tenant {
    /// Its name.
    pub name: TenantName,
    /// Its weight in fair division, 1 to 1000.
    pub weight: u32,
    /// Whether its jobs run.
    pub state: TenantState,
    /// The lowest priority number it may use.
    #[serde(default)]
    pub priority_best: u8,
    /// Its limits, as the server wrote them.
    #[serde(default)]
    pub quota: serde_json::Value,
    /// Number of its last change.
    #[serde(default)]
    pub revision: u64,
}

impl Tenant {
    /// An active tenant of weight 100 with nothing else said.
    #[must_use]
    pub fn new(name: TenantName) -> Self {
        let (state, quota) = (TenantState::Active, serde_json::Value::Null);
        Self { name, weight: 100, state, priority_best: 0, quota, revision: 0 }
    }
}

impl Document for Tenant {
    const KIND: Kind = Kind::Tenant;

    fn key(&self) -> String {
        self.name.to_string()
    }

    fn tenant(&self) -> Option<&TenantName> {
        Some(&self.name)
    }
}
