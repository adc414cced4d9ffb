//! What the server keeps of a flow beside its object and its state.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_core::error::{Class, Problem};
use orlop_core::id::TenantName;
use orlop_core::ports::journal::FlowRecord;
use orlop_core::spec::job::StepBackend;
use serde::{Deserialize, Serialize};

use crate::host::flow::RecordOptions;
use crate::host::flow::fleet::FlowFacts;

/// What the server must know to go on with a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Driver {
    /// Id and version of the pipeline it is a run of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<(String, u32)>,
    /// What runs the containers of its steps.
    pub backend: StepBackend,
    /// Who submitted it.
    pub by: String,
    /// Follows it through logs and events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// Names of steps as a pipeline spells them, where that differs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, String>,
}

impl Driver {
    /// What is kept of a flow.
    ///
    /// # Errors
    /// Fatal when it cannot be read.
    pub(super) fn of(record: &FlowRecord) -> Result<Self, Problem> {
        let unreadable =
            |error: serde_json::Error| Problem::new(Class::Fatal, "the stored flow cannot be read").because(error);
        let options = RecordOptions::deserialize(&record.options).map_err(unreadable)?;
        match options.driver {
            serde_json::Value::Null => Ok(Self::default()),
            driver => serde_json::from_value(driver).map_err(unreadable),
        }
    }

    /// The name of a step as its pipeline spells it.
    pub(super) fn shown<'n>(&'n self, step: &'n str) -> &'n str {
        self.names.get(step).map_or(step, String::as_str)
    }

    /// The name of a step in the flow, given as its pipeline spells it or as it is.
    pub(super) fn internal<'n>(&'n self, step: &'n str) -> &'n str {
        self.names.iter().find(|(_, shown)| *shown == step).map_or(step, |(name, _)| name)
    }
}

/// Whose flow a record is.
///
/// # Errors
/// Fatal when the namespace is no tenant.
pub(super) fn tenant(record: &FlowRecord) -> Result<TenantName, Problem> {
    let parsed = record.namespace().parse();
    parsed.map_err(|error| Problem::new(Class::Fatal, "the flow has no tenant").because(error))
}

/// What jobs of a flow's steps have in common.
///
/// # Errors
/// As of [`Driver::of`].
pub(super) fn facts(record: &FlowRecord) -> Result<FlowFacts, Problem> {
    let driver = Driver::of(record)?;
    Ok(FlowFacts {
        templates: record.flow.spec.resource_templates.clone().map(Arc::new),
        backend: driver.backend,
        correlation_id: driver.correlation_id,
        ..FlowFacts::new(tenant(record)?)
    })
}
