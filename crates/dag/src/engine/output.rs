//! Outputs of an attempt: what is complete, what is missing, what is too large.

use orlop_core::attempt::Address;
use orlop_core::event::AttemptResult;
use orlop_core::spec::status::{OutputValue, StepOutputs};

use super::state::Text;
use super::{Call, reason};

/// The most bytes of output values one step may record.
pub(crate) const STEP_OUTPUTS_MAX: u64 = 256 * 1024;
/// The most bytes of output values one flow may record.
pub(crate) const FLOW_OUTPUTS_MAX: u64 = 8 * 1024 * 1024;
/// Bytes of outputs at which people are warned: four fifths of what a flow may record.
const FLOW_OUTPUTS_NEAR: u64 = FLOW_OUTPUTS_MAX / 5 * 4;

impl Call<'_> {
    /// Records what an attempt gave. With `complete`, everything the step promises must be there; else (a tolerated
    /// failure) only what is.
    pub(super) fn record_outputs(
        &mut self,
        at: Address,
        result: &AttemptResult,
        complete: bool,
    ) -> Result<(), (Text, String)> {
        if let Some((why, message)) = &result.trouble {
            return Err((Text::Owned(why.clone()), message.clone()));
        }
        let Some(step) = self.plan.step(at.step) else { return Ok(()) };
        let mut outputs = StepOutputs { projections: result.projections.clone(), ..StepOutputs::default() };
        for output in step.output_parameters() {
            let value = result.outputs.get(&output.name).or(output.default.as_ref());
            match value {
                Some(value) => outputs.parameters.push(OutputValue { name: output.name.clone(), value: value.clone() }),
                None if complete => {
                    return Err((
                        reason::OUTPUT_MISSING.into(),
                        format!("the attempt gave no output `{}`", output.name),
                    ));
                }
                None => {}
            }
        }
        for artifact in step.output_artifacts() {
            match result.artifacts.iter().find(|found| found.name == artifact.name) {
                Some(found) => outputs.artifacts.push(found.clone()),
                None if complete && artifact.optional != Some(true) => {
                    let message = format!("the attempt gave no artifact `{}` at {}", artifact.name, artifact.path);
                    return Err((reason::OUTPUT_MISSING.into(), message));
                }
                None => {}
            }
        }
        self.check_size(&outputs)?;
        if let Some(node) = self.state.node_mut(at) {
            node.outputs = (!outputs.is_empty()).then(|| Box::new(outputs));
        }
        Ok(())
    }

    /// Takes what a failed attempt gave, for steps that read it: what is there, without defaults;
    /// nothing where it is too large to be recorded.
    pub(super) fn take_outputs(&mut self, at: Address, result: &AttemptResult) {
        let Some(step) = self.plan.step(at.step) else { return };
        let value = |name: &String| Some(OutputValue { name: name.clone(), value: result.outputs.get(name)?.clone() });
        let found = |name: &String| result.artifacts.iter().find(|found| found.name == *name).cloned();
        let outputs = StepOutputs {
            parameters: step.output_parameters().iter().filter_map(|output| value(&output.name)).collect(),
            artifacts: step.output_artifacts().iter().filter_map(|artifact| found(&artifact.name)).collect(),
            projections: result.projections.clone(),
        };
        if outputs.is_empty() || self.check_size(&outputs).is_err() {
            return;
        }
        if let Some(node) = self.state.node_mut(at) {
            node.outputs = Some(Box::new(outputs));
        }
    }

    /// Takes over what a step or instance gave in the flow that this one repeats. The arrays of a whole fan-out repeat what its
    /// instances gave, and do not count.
    pub(super) fn import_outputs(&mut self, at: Address, outputs: StepOutputs) {
        let is_fan_out = at.item.is_none() && self.plan.get(at.step.0).is_some_and(|step| step.fan_out.is_some());
        let bytes = if is_fan_out { 0 } else { bytes_of(&outputs) };
        let Some(node) = self.state.node_mut(at) else { return };
        node.outputs = (!outputs.is_empty()).then(|| Box::new(outputs));
        self.state.flow.output_bytes = self.state.flow.output_bytes.saturating_add(bytes);
    }

    /// What a failed attempt gave does not count once the step is tried again.
    pub(super) fn forget_outputs(&mut self, outputs: Option<&StepOutputs>) {
        let bytes = outputs.map_or(0, bytes_of);
        self.state.flow.output_bytes = self.state.flow.output_bytes.saturating_sub(bytes);
    }

    fn check_size(&mut self, outputs: &StepOutputs) -> Result<(), (Text, String)> {
        let bytes = bytes_of(outputs);
        let total = self.state.flow.output_bytes.saturating_add(bytes);
        let largest = || {
            let largest = sizes(outputs).max_by_key(|(_, bytes)| *bytes);
            largest.map(|(what, bytes)| format!("{what} takes {bytes}")).unwrap_or_default()
        };
        if bytes > STEP_OUTPUTS_MAX {
            let message = format!(
                "{} bytes of {bytes}, and a step may record {STEP_OUTPUTS_MAX} in all; hand it on as an artifact",
                largest()
            );
            return Err((reason::OUTPUT_TOO_LARGE.into(), message));
        }
        if total > FLOW_OUTPUTS_MAX {
            let message = format!(
                "all outputs of the flow together take {total} bytes, and it may record {FLOW_OUTPUTS_MAX}; here {} bytes: hand \
                 it on as an artifact",
                largest()
            );
            return Err((reason::OUTPUT_TOO_LARGE.into(), message));
        }
        if self.state.flow.output_bytes < FLOW_OUTPUTS_NEAR && total >= FLOW_OUTPUTS_NEAR {
            self.notice_outputs(total);
        }
        self.state.flow.output_bytes = total;
        Ok(())
    }
}

/// Bytes of recorded values.
pub(super) fn bytes_of(outputs: &StepOutputs) -> u64 {
    sizes(outputs).map(|(_, bytes)| bytes).sum()
}

/// Recorded values as people know them, with their bytes.
fn sizes(outputs: &StepOutputs) -> impl Iterator<Item = (String, u64)> {
    let length = |text: &String| u64::try_from(text.len()).unwrap_or(u64::MAX);
    let values =
        outputs.parameters.iter().map(move |output| (format!("output `{}`", output.name), length(&output.value)));
    let read =
        outputs.projections.iter().map(move |(path, value)| (format!("what others read at `{path}`"), length(value)));
    values.chain(read)
}
