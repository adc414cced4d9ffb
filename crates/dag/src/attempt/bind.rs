//! What the parameters of an attempt stand for. Owns the order of bindings; reads no ConfigMap
//! and no Secret itself: ConfigMap keys are handed out to be looked up, Secrets stay references.

use orlop_core::attempt::Address;
use orlop_core::spec::meta::KeyRef;
use serde_json::Value;

use super::resource;
use crate::engine::{State, flow_fact, read_path};
use crate::params::{FlowSource, InputSource, Scope, flow_source, input_source};
use crate::plan::Plan;

/// Why a parameter has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parameter `{name}`: {message}")]
pub struct Unresolved {
    /// Name of the parameter.
    pub name: String,
    /// What is wrong and what to do.
    pub message: String,
    /// Whether asking again can help: the value comes from a ConfigMap or Secret.
    pub retryable: bool,
}

/// The parameters of an attempt, as far as they are known without reading a ConfigMap.
#[derive(Clone, Debug, Default)]
pub struct Binding {
    /// The known parameters.
    pub scope: Scope,
    /// Inputs that are still to be read from ConfigMaps, by name. Bind their values to `scope` before the Job is built.
    pub config_maps: Vec<(String, KeyRef)>,
}

/// Binds the parameters of an attempt: those of the flow, then the step's inputs, then item and index.
///
/// # Errors
/// When an input reads a step that gave no such value, or the source of a parameter cannot be used.
pub fn bind(plan: &Plan, state: &State, at: Address, item: Option<&Value>) -> Result<Binding, Unresolved> {
    let mut binding = Binding::default();
    let fixed = |name: &str, message: String| Unresolved { name: name.to_owned(), message, retryable: false };
    for parameter in &plan.spec().parameters {
        let name = &parameter.name;
        if let Some(text) = state.meta().parameters.get(name) {
            binding.scope.bind(name, text);
        } else if let Ok(FlowSource::Secret(secret)) = flow_source(parameter) {
            binding.scope.bind_secret(name, secret.clone());
        }
    }
    let inputs = plan.step(at.step).map(orlop_core::spec::step::Step::input_parameters).unwrap_or_default();
    for input in inputs {
        let name = &input.name;
        match input_source(input).map_err(|fault| fixed(name, fault.to_string()))? {
            InputSource::Value(text) => binding.scope.bind(name, text),
            InputSource::Flow(fact) => binding.scope.bind(name, flow_fact(plan, state, fact)),
            InputSource::Secret(secret) => binding.scope.bind_secret(name, secret.clone()),
            InputSource::ConfigMap(key_ref) => {
                let mut key_ref = key_ref.clone();
                resource::rewrite_config_map(plan.spec(), &state.meta().name, &mut key_ref.name);
                binding.config_maps.push((name.clone(), key_ref));
            }
            InputSource::Path(path) => {
                let text = read_path(plan, state, &path.to_string()).map_err(|error| fixed(name, error.to_string()))?;
                binding.scope.bind(name, text);
            }
        }
    }
    if let (Some(item), Some(index)) = (item, at.item) {
        binding.scope.set_instance(item.clone(), index as usize);
    }
    Ok(binding)
}
