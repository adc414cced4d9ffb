//! Documents of flows: pipelines, flows, steps, approvals. Owns their fields; the engine's state is opaque.

use serde::{Deserialize, Serialize};

use super::{Document, Kind, part};
use crate::id::{JobId, TenantName};
use crate::time::Time;

/// A version of a pipeline's definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pipeline {
    /// Its id.
    pub id: String,
    /// The tenant it belongs to.
    pub tenant: TenantName,
    /// Its name.
    pub name: String,
    /// Number of its version, from 1; running flows keep theirs.
    pub version: u32,
    /// The definition.
    pub definition: serde_json::Value,
    /// When it was stored.
    pub created_at: Time,
    /// When it was deleted.
    #[serde(default)]
    pub deleted_at: Option<Time>,
}

impl Document for Pipeline {
    const KIND: Kind = Kind::Pipeline;

    fn key(&self) -> String {
        format!("{}/{:010}", part(&self.id), self.version)
    }

    fn tenant(&self) -> Option<&TenantName> {
        Some(&self.tenant)
    }

    fn ended_at(&self) -> Option<Time> {
        self.deleted_at
    }
}

/// A flow. Its key is its id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetFlow {
    /// Its id.
    pub id: String,
    /// The tenant it belongs to.
    pub tenant: TenantName,
    /// Its name.
    pub name: String,
    /// The pipeline it runs, with the version.
    #[serde(default)]
    pub pipeline: Option<(String, u32)>,
    /// Its phase.
    pub phase: String,
    /// State of its engine, as the engine wrote it.
    #[serde(default)]
    pub engine: serde_json::Value,
    /// Number of its last change.
    #[serde(default)]
    pub revision: u64,
    /// When it was accepted.
    pub created_at: Time,
    /// When it ended.
    #[serde(default)]
    pub ended_at: Option<Time>,
}

impl Document for FleetFlow {
    const KIND: Kind = Kind::Flow;

    fn key(&self) -> String {
        part(&self.id)
    }

    fn tenant(&self) -> Option<&TenantName> {
        Some(&self.tenant)
    }

    fn ended_at(&self) -> Option<Time> {
        self.ended_at
    }
}

/// A step of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowStep {
    /// The flow.
    pub flow: String,
    /// The step.
    pub step: String,
    /// Its phase.
    pub phase: String,
    /// Why.
    #[serde(default)]
    pub reason: String,
    /// The job that runs it.
    #[serde(default)]
    pub job: Option<JobId>,
    /// When its flow ended.
    #[serde(default)]
    pub ended_at: Option<Time>,
}

impl Document for FlowStep {
    const KIND: Kind = Kind::FlowStep;

    fn key(&self) -> String {
        format!("{}/{}", part(&self.flow), part(&self.step))
    }

    fn ended_at(&self) -> Option<Time> {
        self.ended_at
    }
}

/// A decision on a step that waited for one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// The flow.
    pub flow: String,
    /// The step.
    pub step: String,
    /// Who decided.
    pub who: String,
    /// When.
    pub when: Time,
    /// `approve` or `reject`.
    pub decision: String,
    /// When its flow ended.
    #[serde(default)]
    pub ended_at: Option<Time>,
}

impl Document for Approval {
    const KIND: Kind = Kind::Approval;

    fn key(&self) -> String {
        format!("{}/{}", part(&self.flow), part(&self.step))
    }

    fn ended_at(&self) -> Option<Time> {
        self.ended_at
    }
}
