//! What is fixed when a flow is submitted: the values of its parameters, its record, its first events.
//! Writes nothing.

use std::collections::BTreeMap;

use orlop_core::error::Problem;
use orlop_core::event::FlowEvent;
use orlop_core::name::{sha256_hex, short63};
use orlop_core::ports::journal::FlowRecord;
use orlop_core::spec::flow::{FlowParameter, FlowSpec, GROUP, JobFlow};
use orlop_core::spec::meta::KeyRef;
use orlop_core::spec::status::Decision;
use orlop_core::time::Time;
use orlop_dag::attempt::rewrite_config_map;
use orlop_dag::engine::FlowMeta;
use orlop_dag::params::{FlowSource, check_choice, check_given, flow_source, wrong_parameter};
use orlop_dag::plan::Plan;

use super::configs::{ConfigMaps, look_up};
use super::ledger::{RecordOptions, unreadable};

/// A flow to be submitted.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The object; its metadata holds name and namespace.
    pub flow: JobFlow,
    /// Values given for its parameters.
    pub parameters: BTreeMap<String, String>,
    /// Unique id, a random UUID of version 4.
    pub uid: String,
    /// The most attempts that may run at once; none: no limit.
    pub max_live: Option<u32>,
    /// Data of the program around the host, which the journal stores with the flow.
    pub driver: serde_json::Value,
}

impl Submission {
    /// A flow under a unique id, without values for its parameters and without limits.
    #[must_use]
    pub fn new(flow: JobFlow, uid: impl Into<String>) -> Self {
        let (parameters, driver) = (BTreeMap::new(), serde_json::Value::Null);
        Self { flow, parameters, uid: uid.into(), max_live: None, driver }
    }
}

/// The values of a flow's parameters that are not secret.
///
/// # Errors
/// The first parameter that has no value, or one that is not allowed; a given name the flow does not have.
pub async fn parameters(
    flow: &JobFlow,
    given: &BTreeMap<String, String>,
    configs: &dyn ConfigMaps,
) -> Result<BTreeMap<String, String>, Problem> {
    check_given(&flow.spec.parameters, given)?;
    let mut values = BTreeMap::new();
    for parameter in &flow.spec.parameters {
        let value = match (given.get(&parameter.name), flow_source(parameter)) {
            (Some(value), _) => value.clone(),
            (None, Ok(FlowSource::Value(value))) => value.to_owned(),
            (None, Ok(FlowSource::ConfigMap(key_ref))) => {
                let value = config_value(flow, parameter, key_ref, configs).await?;
                check_choice(parameter, &value)?;
                value
            }
            // Secrets stay references; what else has no value was refused.
            (None, _) => continue,
        };
        values.insert(parameter.name.clone(), value);
    }
    Ok(values)
}

async fn config_value(
    flow: &JobFlow,
    parameter: &FlowParameter,
    key_ref: &KeyRef,
    configs: &dyn ConfigMaps,
) -> Result<String, Problem> {
    let mut key_ref = key_ref.clone();
    let name = &flow.metadata.name;
    rewrite_config_map(&flow.spec, name, &mut key_ref.name);
    let value = look_up(&flow.spec, name, configs, &parameter.name, &key_ref).await;
    value.map_err(|error| wrong_parameter(error.to_string()))
}

/// The record of a flow to be written down, its parameters fixed. `first` is given to the engine before all else.
///
/// # Errors
/// As of [`parameters`].
pub async fn record(
    submission: Submission,
    first: Vec<FlowEvent>,
    configs: &dyn ConfigMaps,
    now: Time,
) -> Result<FlowRecord, Problem> {
    let Submission { mut flow, parameters: given, uid, max_live, driver } = submission;
    let values = parameters(&flow, &given, configs).await?;
    flow.status = None;
    flow.metadata.uid = Some(uid.clone());
    flow.metadata.creation_timestamp = Some(now);
    flow.metadata.namespace.get_or_insert_with(|| "default".to_owned());
    let meta = FlowMeta {
        uid: uid.clone(),
        name: flow.metadata.name.clone(),
        namespace: flow.metadata.namespace.clone().unwrap_or_default(),
        labels: flow.metadata.labels.clone(),
        annotations: flow.metadata.annotations.clone(),
        parameters: values,
        max_live,
        spec_hash: Some(spec_hash(&flow.spec)?),
        generation: flow.metadata.generation,
    };
    let timed = flow.spec.steps.iter().chain(&flow.spec.finally);
    let timeouts = timed.filter_map(|step| Some((step.name.clone(), step.timeout_millis?))).collect();
    let options =
        serde_json::to_value(RecordOptions { meta, driver, timeouts, first }).map_err(|error| unreadable(&error))?;
    Ok(FlowRecord { uid, flow, created_at: now, options })
}

/// The hash by which a flow that is given again is known to be the one that was submitted: SHA-256 in hex.
///
/// # Errors
/// Never for specs that were read; an error is a broken invariant.
pub fn spec_hash(spec: &FlowSpec) -> Result<String, Problem> {
    let spec = serde_json::to_vec(spec).map_err(|error| unreadable(&error))?;
    Ok(sha256_hex(&spec, 64))
}

/// What is given to the engine before all else: approvals that the object carries as annotations, and its `stop`.
#[must_use]
pub fn first_events(flow: &JobFlow, plan: &Plan, now: Time) -> Vec<FlowEvent> {
    let mut events = Vec::new();
    for step in flow.spec.steps.iter().filter(|step| step.is_manual()) {
        let keys = [format!("approved.{GROUP}/{}", short63(&step.name)), format!("{GROUP}/approved/{}", step.name)];
        let value = keys.iter().find_map(|key| flow.metadata.annotations.get(key)).map(String::as_str);
        let decision = match value {
            Some("true") => Decision::Approved,
            Some("rejected") => Decision::Rejected,
            _ => continue,
        };
        if let Some(at) = plan.address_of(&step.name) {
            events.push(FlowEvent::Approval { at, decision, by: None, verified: false, decided_at: now, reason: None });
        }
    }
    if let Some(mode) = flow.spec.stop {
        events.push(FlowEvent::Stop { mode, replaced: false });
    }
    events
}
