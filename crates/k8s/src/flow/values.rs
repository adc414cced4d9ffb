//! Values of flow parameters. Owns that a flow keeps the values it began with: those that come from ConfigMaps are kept in one
//! of its own, so that a later controller reads the same ones, whatever becomes of where they came from.

use std::collections::BTreeMap;

use orlop_core::error::Class;
use orlop_core::name::short63;
use orlop_core::ports::substrate::FlowOwner;
use orlop_core::spec::flow::{FlowParameter, FlowSpec, JobFlow};
use orlop_core::spec::meta::KeyRef;
use orlop_dag::attempt::{config_map_template, rewrite_config_map};
use orlop_dag::params::{FlowSource, config_map_value, flow_source};
use serde_json::Value;

use super::Controller;
use crate::api::{Api, ApiError, Kind, Request};
use crate::observe::{self, Ownership};
use crate::render;

/// Values by name.
pub(super) type Values = BTreeMap<String, String>;

/// Values of the parameters of a flow.
pub(super) struct Resolved {
    /// Those that are known.
    pub(super) values: Values,
    /// What is wrong with the first that is not, as a sentence.
    pub(super) fault: Option<String>,
}

/// Where a parameter takes its value from, if that is a ConfigMap that is no template of the flow.
fn outside<'a>(parameter: &'a FlowParameter, spec: &FlowSpec, flow: &str) -> Option<&'a KeyRef> {
    match flow_source(parameter) {
        Ok(FlowSource::ConfigMap(key_ref)) => {
            let mut name = key_ref.name.clone();
            rewrite_config_map(spec, flow, &mut name);
            config_map_template(spec, flow, &name).is_none().then_some(key_ref)
        }
        _ => None,
    }
}

impl<A: Api> Controller<A> {
    /// Values of the parameters of a flow whose spec has this hash: those it began with.
    pub(super) async fn parameters(&self, flow: &JobFlow, hash: &str) -> Result<Resolved, ApiError> {
        let all = &flow.spec.parameters;
        if !all.iter().any(|parameter| outside(parameter, &flow.spec, &flow.metadata.name).is_some()) {
            return self.resolve(flow).await;
        }
        let owner = FlowOwner {
            uid: flow.metadata.uid.clone().unwrap_or_default(),
            name: flow.metadata.name.clone(),
            namespace: flow.metadata.namespace.clone().unwrap_or_default(),
        };
        let name = short63(&format!("{}-parameters-{}", owner.name, hash.get(..8).unwrap_or(hash)));
        match self.api.send(&Request::get(Kind::ConfigMap, &owner.namespace, &name)).await {
            Ok(kept) => return Ok(of_kept(&kept, &owner)),
            Err(error) if error.code == Some(404) => {}
            Err(error) => return Err(error),
        }
        let resolved = self.resolve(flow).await?;
        if resolved.fault.is_some() {
            return Ok(resolved);
        }
        let Some(object) = render::parameters(&name, &resolved.values, &owner) else { return Ok(resolved) };
        match self.api.send(&Request::create(Kind::ConfigMap, object)).await {
            Ok(_) => Ok(resolved),
            Err(error) if error.class() == Class::Exists => {
                let kept = self.api.send(&Request::get(Kind::ConfigMap, &owner.namespace, &name)).await?;
                Ok(of_kept(&kept, &owner))
            }
            Err(error) => Err(error),
        }
    }

    /// Values as they stand now where they come from.
    async fn resolve(&self, flow: &JobFlow) -> Result<Resolved, ApiError> {
        let mut resolved = Resolved { values: Values::new(), fault: None };
        for parameter in &flow.spec.parameters {
            let fault = match self.value(flow, parameter).await? {
                Ok(Some(value)) if parameter.choices.as_ref().is_some_and(|all| !all.contains(&value)) => {
                    format!("parameter `{}` is `{value}`, which its `enum` does not list", parameter.name)
                }
                Ok(Some(value)) => {
                    resolved.values.insert(parameter.name.clone(), value);
                    continue;
                }
                Ok(None) => continue,
                Err(fault) => fault,
            };
            resolved.fault.get_or_insert(fault);
        }
        Ok(resolved)
    }

    /// The value of one; none of one that is secret. The inner error is a sentence.
    async fn value(
        &self,
        flow: &JobFlow,
        parameter: &FlowParameter,
    ) -> Result<Result<Option<String>, String>, ApiError> {
        let name = &parameter.name;
        Ok(match flow_source(parameter) {
            Err(fault) => Err(format!("parameter `{name}`: {fault}")),
            Ok(FlowSource::Secret(_)) => Ok(None),
            Ok(FlowSource::Value(value)) => Ok(Some(value.to_owned())),
            Ok(FlowSource::Submission) => {
                Err(format!("parameter `{name}` has no value; set its `value` when the flow is created"))
            }
            Ok(FlowSource::ConfigMap(key_ref)) => {
                let mut key_ref = key_ref.clone();
                rewrite_config_map(&flow.spec, &flow.metadata.name, &mut key_ref.name);
                let namespace = flow.metadata.namespace.as_deref().unwrap_or_default();
                let found = self.config_map(&flow.spec, &flow.metadata.name, namespace, &key_ref.name).await?;
                let value = config_map_value(found.as_ref(), &key_ref);
                value.map(Some).map_err(|fault| format!("parameter `{name}`: {fault}"))
            }
        })
    }
}

/// The values that a flow has kept.
fn of_kept(map: &Value, owner: &FlowOwner) -> Resolved {
    let foreign = match observe::owner(map, &owner.uid) {
        Ownership::Ours => None,
        Ownership::Foreign(owner) => Some(owner),
    };
    let values = match foreign {
        None => render::kept_parameters(map),
        Some(_) => None,
    };
    let fault = values.is_none().then(|| {
        let name = map.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let whose = foreign.map_or_else(String::new, |owner| format!(" and belongs to {owner}"));
        format!("ConfigMap `{name}`, in which values of parameters are kept, is not as this operator wrote it{whose}; delete it")
    });
    Resolved { values: values.unwrap_or_default(), fault }
}
