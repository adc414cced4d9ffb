//! Retry from failed: what failed runs again in a new flow.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::error::{Code, Problem};
use orlop_core::id::dns1123_subdomain;
use orlop_core::name::repeated;
use orlop_core::ports::fleet_store::FleetFlow;
use orlop_core::ports::journal::FlowJournal as _;
use orlop_core::spec::flow::RetryOf;
use orlop_dag::repeat::{Parent, Wanted, imports, is_of, may_repeat, no_step};
use serde::Deserialize as _;
use serde_json::Value;

use super::facts::{Driver, tenant};
use super::submit::{NewFlow, unavailable};
use super::{Accepted, Flows};
use crate::host::flow::{RecordOptions, plan_of, replay};

/// How a flow is repeated.
#[derive(Clone, Debug, Default)]
pub struct Again {
    /// Steps that run again too, with all that come after them.
    pub steps: Vec<String>,
    /// Whether a flow that Succeeded is repeated though no step is named.
    pub force: bool,
    /// A changed definition, in place of the old one.
    pub definition: Option<Value>,
    /// Other values of parameters.
    pub parameters: BTreeMap<String, String>,
    /// Name of the new flow; none: the old one with a number.
    pub name: Option<String>,
    /// Who asks.
    pub by: String,
    /// Follows the new flow through logs and events.
    pub correlation_id: Option<String>,
}

impl Flows {
    /// Submits a flow that has ended again; what succeeded is taken over.
    ///
    /// # Errors
    /// Conflict when it has not ended; NotFound when it has no such step; and as of [`Flows::submit`].
    pub async fn retry(&self, flow: &FleetFlow, again: Again) -> Result<Accepted, Problem> {
        let mut stored = self.inner.journal.load(&flow.id).await.map_err(unavailable)?;
        let plan = plan_of(&mut stored).map_err(unavailable)?;
        let state = replay(&plan, &stored).map_err(unavailable)?;
        may_repeat(&flow.name, state.phase(), &again.steps, again.force)
            .map_err(|text| Problem::coded(Code::Conflict, text))?;
        let driver = Driver::of(&stored.record).map_err(unavailable)?;
        let driver = Driver { by: again.by, correlation_id: again.correlation_id, ..driver };
        let options = RecordOptions::deserialize(&stored.record.options)
            .map_err(|error| Problem::coded(Code::Internal, error.to_string()))?;
        let tenant = tenant(&stored.record).map_err(unavailable)?;
        let name = match again.name {
            Some(name) => {
                dns1123_subdomain(&name).map_err(|error| Problem::field("name", error.to_string()))?;
                name
            }
            None => {
                let known = self.named(Some(std::slice::from_ref(&tenant)), |_| true).await?;
                let taken: BTreeSet<String> = known.into_iter().map(|known| known.name).collect();
                free_name(&flow.name, &taken)
            }
        };
        let parent = Parent { plan: &plan, state: &state };
        let changed = match &again.definition {
            Some(definition) => Some(self.definition(definition, driver.backend, Some(&flow.name)).await?),
            None => None,
        };
        let mut new = match &changed {
            Some(definition) => NewFlow {
                parameters: parent.given_parameters(&definition.plan),
                ..NewFlow::of(definition, tenant, Some(&name), Driver { names: BTreeMap::new(), ..driver })?
            },
            None => NewFlow {
                flow: stored.record.flow.clone(),
                tenant,
                parameters: options.meta.parameters,
                driver,
                first: Vec::new(),
                uid: uuid::Uuid::new_v4().to_string(),
            },
        };
        let new_plan = changed.as_ref().map_or(&plan, |definition| &definition.plan);
        is_of(&flow.name, new_plan, &plan).map_err(|why| Problem::field("manifest", why))?;
        let steps: Vec<String> = again.steps.iter().map(|step| new.driver.internal(step).to_owned()).collect();
        if let Some(step) = steps.iter().find(|step| new_plan.index_of(step).is_none()) {
            let message = no_step(&flow.name, step, |step| new_plan.is_fan_out(step));
            return Err(Problem::coded(Code::NotFound, message));
        }
        new.parameters.extend(again.parameters);
        new.first = imports(new_plan, parent, Wanted { steps: &steps, parameters: &new.parameters });
        new.flow.metadata.name = name;
        new.flow.spec.stop = None;
        new.flow.spec.suspend = None;
        let force = again.force.then_some(true);
        new.flow.spec.retry_of = Some(RetryOf { name: flow.name.clone(), uid: flow.id.clone(), steps, force });
        self.submit(new).await
    }
}

/// The old name with the first number behind it that nobody has.
fn free_name(name: &str, taken: &BTreeSet<String>) -> String {
    let stem = repeated(name);
    let numbered = (2_u64..).map(|number| format!("{stem}-r{number}"));
    numbered.into_iter().find(|name| !taken.contains(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_that_is_repeated_is_named_by_its_number() {
        let taken = BTreeSet::from(["etl-r2".to_owned()]);
        assert_eq!(free_name("etl", &taken), "etl-r3");
        assert_eq!(free_name("etl-r2", &taken), "etl-r3");
        assert_eq!(free_name("etl-red", &taken), "etl-red-r2");
    }
}
