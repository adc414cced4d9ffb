//! What is said of a definition that is only looked at.

use orlop_core::spec::flow::FlowParameter;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::host::flow::Definition;

/// What a definition is, and what is wrong with it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FlowChecked)]
pub(crate) struct CheckedView {
    /// It has no errors
    pub(crate) valid: bool,
    pub(crate) flows: Vec<CheckedFlow>,
    /// `violations`: severity, code, path, message, help, at: file, line and column from 1; `omitted`: how many more there are
    #[schema(value_type = Object)]
    pub(crate) report: Value,
    /// Where there is one flow, of at most 10 000 steps: its graph, as of `GET /flows/{id}/graph` with `fold=never`
    #[schema(value_type = Option<Object>)]
    pub(crate) graph: Option<Value>,
}

/// A flow of a definition.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CheckedFlow {
    /// None where it is made at submission
    pub(crate) name: Option<String>,
    pub(crate) steps: usize,
    pub(crate) parameters: Vec<CheckedParameter>,
}

/// A parameter of a flow.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CheckedParameter {
    pub(crate) name: String,
    /// Its default
    pub(crate) value: Option<String>,
    /// A value has to be given
    pub(crate) required: bool,
    /// The values it may have; empty = any
    #[serde(rename = "enum")]
    pub(crate) choices: Vec<String>,
    /// What it is for
    pub(crate) description: Option<String>,
}

impl From<&Definition> for CheckedFlow {
    fn from(definition: &Definition) -> Self {
        let flow = &definition.manifest.flow;
        let parameter = |parameter: &FlowParameter| CheckedParameter {
            name: parameter.name.clone(),
            value: parameter.value.clone(),
            required: parameter.value.is_none() && parameter.value_from.is_none(),
            choices: parameter.choices.clone().unwrap_or_default(),
            description: parameter.description.clone(),
        };
        Self {
            name: Some(flow.metadata.name.clone()).filter(|name| !name.is_empty()),
            steps: definition.plan.len(),
            parameters: flow.spec.parameters.iter().map(parameter).collect(),
        }
    }
}
