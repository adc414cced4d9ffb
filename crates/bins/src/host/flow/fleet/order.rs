//! What a worker learns about a step: the attempt with everything that is needed to run it, as one variable of a job's environment,
//! and the names both sides know.

use orlop_core::attempt::AttemptSpec;
use orlop_core::error::{Class, Problem};
use orlop_core::spec::flow::ResourceTemplates;
use serde::{Deserialize, Serialize};

/// The command of a job that is a step: agents run the attempt of its order instead.
pub const COMMAND: &str = "orlop-step";
/// Variable of the job's environment that holds the order.
pub const VARIABLE: &str = "FLOW_STEP";
/// Output of the job that tells how the attempt ended.
pub const END: &str = "flow_step_end";

/// Folder in the job's directory with the artifacts that the step needs, as a store of artifacts has them.
pub const GIVEN: &str = ".given";
/// The same for artifacts that the step leaves.
pub const LEFT: &str = ".left";

/// The form this version writes and reads.
const VERSION: u32 = 1;
/// The longest order: an environment variable may not be longer on Linux, and a job's specification has room for it.
const MAX: usize = 120 << 10;

/// What runs the containers of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepBackend {
    /// Containers where a step names an image, else processes.
    #[default]
    Docker,
    /// Processes, whatever image a step names.
    Process,
}

/// An attempt as a worker gets it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepOrder {
    /// Form of the order.
    pub version: u32,
    /// The attempt.
    pub attempt: AttemptSpec,
    /// Claims and ConfigMaps of its flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub templates: Option<ResourceTemplates>,
    /// What runs its containers.
    #[serde(default)]
    pub backend: StepBackend,
}

impl StepOrder {
    /// The order to run an attempt.
    #[must_use]
    pub fn new(attempt: AttemptSpec, templates: Option<ResourceTemplates>, backend: StepBackend) -> Self {
        Self { version: VERSION, attempt, templates, backend }
    }

    /// The order as text without placeholders: two braces in a row stand in texts only, where JSON has another spelling
    /// for them.
    ///
    /// # Errors
    /// Invalid with reason TemplateInvalid when it is too long to be handed on.
    pub fn encode(&self) -> Result<String, Problem> {
        let invalid = |message: String| Problem::new(Class::Invalid, message).with_reason("TemplateInvalid");
        let text = serde_json::to_string(self).map_err(|error| invalid(error.to_string()))?;
        let text = text.replace("{{", "\\u007b\\u007b");
        if text.len() > MAX {
            let message = format!(
                "the step with its inputs has {} bytes as JSON, at most {MAX} can be sent to a \
                 worker; move data into an artifact",
                text.len()
            );
            return Err(invalid(message));
        }
        Ok(text)
    }

    /// The order of a text.
    ///
    /// # Errors
    /// Invalid when it is none, or of a newer version.
    pub fn decode(text: &str) -> Result<Self, Problem> {
        let read: Self = serde_json::from_str(text)
            .map_err(|error| Problem::new(Class::Invalid, "the order of a step cannot be read").because(error))?;
        if read.version != VERSION {
            let message = format!(
                "the order of a step has form {}, this worker reads form {VERSION}; update the worker",
                read.version
            );
            return Err(Problem::new(Class::Invalid, message));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use orlop_core::attempt::AttemptKey;
    use serde_json::json;

    use super::*;

    fn order(script: &str) -> StepOrder {
        let key = AttemptKey { flow: "u".into(), step: "s".into(), item: Some(3), attempt: 2 };
        let attempt = AttemptSpec {
            key,
            flow_name: "f".into(),
            namespace: "default".into(),
            job_name: "f-s".into(),
            template: Arc::new(json!({"spec": {"a": {}, "command": [script]}})),
            inputs: Vec::new(),
            output_files: Vec::new(),
            output_artifacts: Vec::new(),
        };
        StepOrder::new(attempt, None, StepBackend::Process)
    }

    #[test]
    fn an_order_reads_back_and_holds_no_placeholder() {
        let sent = order("echo {{item}} '{{{{' \"}}\" \0 \\u007b");
        let text = sent.encode().unwrap();
        assert!(!text.contains("{{") && !text.contains('\0'));
        assert_eq!(StepOrder::decode(&text).unwrap(), sent);
    }

    #[test]
    fn what_no_worker_can_take_is_refused() {
        let error = order(&"x".repeat(MAX)).encode().unwrap_err();
        assert_eq!(error.reason, Some("TemplateInvalid"));
        let newer = order("true").encode().unwrap().replace("\"version\":1", "\"version\":9");
        insta::assert_snapshot!(StepOrder::decode(&newer).unwrap_err(), @"the order of a step has form 9, this worker reads form 1; update the worker");
        assert!(StepOrder::decode("{}").is_err());
    }
}
