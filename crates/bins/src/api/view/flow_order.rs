//! What is asked about flows and pipelines: bodies of requests.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

/// A flow to be run: a definition in either form with what it needs. A definition alone is as good.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = FlowOrder)]
pub(crate) struct FlowOrder {
    /// A JobFlow object or a pipeline, as JSON or as a text of YAML
    #[schema(value_type = Object)]
    pub(crate) definition: Value,
    /// Values of its parameters, or variables
    pub(crate) parameters: BTreeMap<String, String>,
    /// Its name, in place of the one in the definition
    pub(crate) name: Option<String>,
    /// Whose it is
    pub(crate) tenant: Option<String>,
    /// `docker` (steps that name an image are containers) or `process`
    pub(crate) backend: Option<String>,
    /// Start suspended
    pub(crate) suspend: bool,
}

/// A definition to be looked at.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = FlowCheck)]
pub(crate) struct CheckFlow {
    /// JobFlow objects or a pipeline, as JSON or as a text of YAML, whose lines findings name
    #[schema(value_type = Object)]
    pub(crate) definition: Value,
    /// `docker` (steps that name an image are containers) or `process`
    pub(crate) backend: Option<String>,
}

/// A definition to be kept. A definition alone is as good.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = PipelineOrder)]
pub(crate) struct PipelineOrder {
    /// A pipeline or a JobFlow object, as JSON or as a text of YAML
    #[schema(value_type = Object)]
    pub(crate) definition: Value,
    /// Whose it is
    pub(crate) tenant: Option<String>,
}

/// A new version of a definition that is kept. A definition alone is as good.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = PipelineVersion)]
pub(crate) struct PipelineVersion {
    /// A pipeline or a JobFlow object, as JSON or as a text of YAML
    #[schema(value_type = Object)]
    pub(crate) definition: Value,
}

/// A run of a pipeline: its definition and tenant are the pipeline's.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = PipelineRun)]
pub(crate) struct PipelineRun {
    /// Values of its parameters, or variables
    pub(crate) parameters: BTreeMap<String, String>,
    /// Its name, in place of the one in the definition
    pub(crate) name: Option<String>,
    /// `docker` (steps that name an image are containers) or `process`
    pub(crate) backend: Option<String>,
    /// Start suspended
    pub(crate) suspend: bool,
}

impl From<PipelineRun> for FlowOrder {
    fn from(run: PipelineRun) -> Self {
        let PipelineRun { parameters, name, backend, suspend } = run;
        Self { parameters, name, backend, suspend, ..Self::default() }
    }
}

/// How a flow is ended.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = FlowCancel)]
pub(crate) struct CancelFlow {
    /// Live attempts finish and `finally` runs; else they are cancelled
    pub(crate) graceful: bool,
}

/// How a flow is repeated.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = FlowRetry)]
pub(crate) struct RetryFlow {
    /// Steps that run again too, with all that come after them
    pub(crate) steps: Vec<String>,
    /// Repeat a flow that Succeeded though no step is named
    pub(crate) force: bool,
    /// A changed definition, in place of the old one: what it changes runs again
    #[schema(value_type = Option<Object>)]
    pub(crate) definition: Option<Value>,
    /// Other values of parameters
    pub(crate) parameters: BTreeMap<String, String>,
    /// Name of the new flow
    pub(crate) name: Option<String>,
}

/// Nothing to say.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = Nothing)]
pub(crate) struct NoOrder {}

/// Why a step is decided so.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = Decision)]
pub(crate) struct DecisionOrder {
    /// At most 1024 bytes
    pub(crate) reason: Option<String>,
}
