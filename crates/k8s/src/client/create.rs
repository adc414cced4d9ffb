//! New flows: submitted, and repeated. Owns the mark by which a submission whose answer was lost is found
//! again, and what of an old flow a new one takes over.

use std::collections::BTreeMap;

use orlop_core::error::{Class, Problem};
use orlop_core::id::dns1123_subdomain;
use orlop_core::name::repeated;
use orlop_core::spec::flow::{FlowSpec, JobFlow, RetryOf};
use orlop_dag::params::check_given;
use orlop_dag::repeat::{may_repeat, no_step};
use serde_json::Value;

use super::{FlowClient, first, text};
use crate::api::{Api, ApiError, Kind, Request};
use crate::convert;

/// The annotation with the key of a submission: repeated with the same key, it takes effect once.
pub const KEY: &str = "workflow.kube-zen.io/submission-key";

/// Beginnings of annotations that belong to one run and are not handed to the next.
const OF_ONE_RUN: [&str; 5] = ["approved.", "approval.", "gone.", "gone-by.", "kubectl.kubernetes.io/"];

/// A flow that is to be created.
#[derive(Clone, Debug)]
pub struct NewFlow {
    /// The flow, with its name.
    pub flow: JobFlow,
    /// Values of parameters, in place of those in the flow.
    pub parameters: BTreeMap<String, String>,
    /// The idempotency key: creating a flow again with the same name and key gives the flow that exists.
    pub key: String,
}

impl<A: Api> FlowClient<A> {
    /// Creates a flow. Called again with the same name and key, it gives the flow that exists, so a call whose response was lost can be
    /// repeated.
    ///
    /// # Errors
    /// When the flow breaks a rule, a parameter cannot have its value, the name is taken, or the server refuses.
    pub async fn create(&self, new: NewFlow) -> Result<JobFlow, Problem> {
        let NewFlow { mut flow, parameters, key } = new;
        set(&mut flow.spec, &parameters)?;
        flow.status = None;
        flow.metadata.namespace = Some(self.namespace.clone());
        flow.metadata.annotations.insert(KEY.to_owned(), key.clone());
        let object = convert::write(&flow);
        convert::read(&object, &self.limits).map_err(|found| Problem::new(Class::Invalid, first(found)))?;
        let name = flow.metadata.name;
        match self.send(&Request::create(Kind::JobFlow, object), || format!("creating flow `{name}`")).await {
            Ok(object) => self.read(&object).await,
            Err(error) => self.created(&name, &key, error).await,
        }
    }

    /// The flow of a submission that was refused or got no answer, if it is there all the same.
    async fn created(&self, name: &str, key: &str, error: Problem) -> Result<JobFlow, Problem> {
        let Some(source) = ApiError::of(&error) else { return Err(error) };
        let taken = source.class() == Class::Exists;
        if !taken && !source.outcome_is_unknown() {
            return Err(error);
        }
        let object = match self.object(name).await {
            Ok(object) => object,
            // What the server said first says more.
            Err(_) => return Err(error),
        };
        let ours = object.pointer("/metadata/annotations").and_then(|all| all.get(KEY)).and_then(Value::as_str);
        if ours == Some(key) {
            return self.read(&object).await;
        }
        let namespace = &self.namespace;
        Err(Problem::new(
            Class::Exists,
            format!(
                "the name is taken: there is a flow `{name}` in namespace `{namespace}` (uid {}); choose another \
                 with --name, give every flow a new name with `metadata.generateName`, or delete it",
                text(&object, "/metadata/uid")
            ),
        ))
    }

    /// Repeats a flow that has ended, as a new flow: the steps that failed, those named in `repeat`, and all steps after them run again.
    /// Without a name the new flow is named after the old one with the first free number, such as `release-r2`.
    ///
    /// # Errors
    /// When the flow is not there, has not ended or has no such step; as of [`FlowClient::create`].
    pub async fn repeat(&self, old: &str, repeat: RetryOptions) -> Result<JobFlow, Problem> {
        let old = self.find(old).await?;
        let name = old.metadata.name.clone();
        let phase = old.status.as_ref().map(|status| status.phase).unwrap_or_default();
        may_repeat(&name, phase, &repeat.steps, repeat.force).map_err(|why| Problem::new(Class::Conflict, why))?;
        let spec = match repeat.spec {
            Some(changed) => with_values_of(changed, &old.spec),
            None => old.spec,
        };
        let is_fan_out = |step: &str| spec.steps.iter().any(|known| known.name == step && known.is_fan_out());
        let known = |step: &str| spec.steps.iter().chain(&spec.finally).any(|known| known.name == step);
        if let Some(step) = repeat.steps.iter().find(|step| !known(step)) {
            return Err(Problem::new(Class::NotFound, no_step(&name, step, is_fan_out)));
        }
        let uid = old.metadata.uid.clone().unwrap_or_default();
        let mut flow = JobFlow::new(&name, spec);
        flow.metadata.labels = old.metadata.labels;
        flow.metadata.annotations = old.metadata.annotations;
        flow.metadata.annotations.retain(|key, _| !OF_ONE_RUN.iter().any(|prefix| key.starts_with(prefix)));
        flow.spec.retry_of =
            Some(RetryOf { name: name.clone(), uid, steps: repeat.steps, force: repeat.force.then_some(true) });
        flow.spec.stop = None;
        flow.spec.suspend = None;
        let (parameters, key) = (repeat.parameters, repeat.key);
        if let Some(new) = repeat.name {
            dns1123_subdomain(&new).map_err(|error| Problem::new(Class::Invalid, error.to_string()))?;
            flow.metadata.name = new;
            return self.create(NewFlow { flow, parameters, key }).await;
        }
        let stem = repeated(&name);
        for number in 2..=MOST {
            flow.metadata.name = format!("{stem}-r{number}");
            let new = NewFlow { flow: flow.clone(), parameters: parameters.clone(), key: key.clone() };
            match self.create(new).await {
                Err(error) if error.class == Class::Exists => {}
                made => return made,
            }
        }
        Err(Problem::new(Class::Conflict, format!("`{stem}-r2` to `{stem}-r{MOST}` are all taken; give a name")))
    }
}

/// A changed spec, with the values that the old one has of parameters to which it gives none itself.
fn with_values_of(mut changed: FlowSpec, old: &FlowSpec) -> FlowSpec {
    for parameter in changed.parameters.iter_mut().filter(|one| one.value.is_none() && one.value_from.is_none()) {
        let known = old.parameters.iter().find(|known| known.name == parameter.name);
        parameter.value = known.and_then(|known| known.value.clone());
    }
    changed
}

/// The highest number that is tried.
const MOST: u32 = 1000;

/// How a flow is repeated.
#[derive(Clone, Debug, Default)]
pub struct RetryOptions {
    /// Steps that run again too, with all that comes after them.
    pub steps: Vec<String>,
    /// Whether a flow that Succeeded is repeated though no step is named.
    pub force: bool,
    /// A changed spec, in place of the old one.
    pub spec: Option<FlowSpec>,
    /// Other values of parameters.
    pub parameters: BTreeMap<String, String>,
    /// Name of the new flow.
    pub name: Option<String>,
    /// The idempotency key, see [`NewFlow::key`].
    pub key: String,
}

/// Writes values into the parameters of a spec: on Kubernetes a flow is all there is of a submission.
fn set(spec: &mut FlowSpec, values: &BTreeMap<String, String>) -> Result<(), Problem> {
    check_given(&spec.parameters, values)?;
    for parameter in &mut spec.parameters {
        if let Some(value) = values.get(&parameter.name) {
            parameter.value = Some(value.clone());
            parameter.value_from = None;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_changed_spec_has_its_own_values_and_else_those_that_were_given() {
        let spec = |parameters: Value| -> FlowSpec {
            serde_json::from_value(json!({"steps": [], "parameters": parameters})).expect("a spec")
        };
        let old = spec(json!([{"name": "who", "value": "me"}, {"name": "mode", "value": "old"}]));
        let changed = spec(json!([{"name": "mode", "value": "new"}, {"name": "who"}, {"name": "more"}]));
        let values: Vec<_> = with_values_of(changed, &old).parameters.into_iter().map(|one| one.value).collect();
        assert_eq!(values, [Some("new".to_owned()), Some("me".to_owned()), None]);
    }
}
