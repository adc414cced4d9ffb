//! Steps of a flow as they change, a line each.

use std::collections::BTreeMap;

use orlop_core::machine::step::StepPhase;
use orlop_core::spec::status::{FlowStatus, StepStatus};

use super::failure::Failure;
use super::output;
use super::target::Reports;
use crate::view::text::one_line;

/// The most characters of a reason in a line.
const WIDTH: usize = 400;

/// What has been reported.
#[derive(Debug, Default)]
pub(super) struct ReportedChanges {
    steps: BTreeMap<String, (StepPhase, String, String)>,
    /// What the flow waits for.
    reason: String,
    /// The last status that was printed.
    status: String,
}

impl ReportedChanges {
    /// What has changed since the last time: steps, and what the flow as a whole waits for. Steps that have not begun and
    /// say nothing are no news at first.
    fn news(&mut self, name: &str, status: &FlowStatus) -> Vec<String> {
        let mut lines = self.steps(status);
        // What a step was just said to wait for is not said twice.
        let known = |step: &StepStatus| !step.message.is_empty() && status.message.contains(&step.message);
        let of_a_step = !lines.is_empty() && status.steps.iter().any(known);
        lines.extend(self.reason(name, status).filter(|_| !of_a_step));
        lines
    }

    /// Reports a status as it is asked for.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub(super) fn report(&mut self, reports: Reports, name: &str, status: &FlowStatus) -> Result<(), Failure> {
        match reports {
            Reports::Steps => self.news(name, status).iter().for_each(|line| output::tell(line)),
            Reports::Printed => self.news(name, status).iter().try_for_each(|line| output::print(line))?,
            Reports::Reasons => self.reason(name, status).iter().for_each(|line| output::tell(line)),
            Reports::Statuses if !status.phase.is_terminal() => {
                let line = serde_json::to_string(status).unwrap_or_default();
                if line != self.status {
                    output::print(&line)?;
                    self.status = line;
                }
            }
            Reports::Statuses | Reports::Nothing => {}
        }
        Ok(())
    }

    fn steps(&mut self, status: &FlowStatus) -> Vec<String> {
        let mut lines = Vec::new();
        for step in &status.steps {
            // How one went that is decided is reported by its phase and reason.
            let says = !matches!(step.phase, StepPhase::Succeeded | StepPhase::Skipped);
            let message = if says { one_line(&step.message, WIDTH) } else { String::new() };
            let now = (step.phase, step.reason.clone(), message);
            let before = self.steps.get(&step.name);
            if before == Some(&now) {
                continue;
            }
            if before.is_some() || step.phase != StepPhase::Pending || !now.2.is_empty() {
                let why = if step.reason.is_empty() { String::new() } else { format!("/{}", step.reason) };
                let message = if now.2.is_empty() { String::new() } else { format!(": {}", now.2) };
                lines.push(format!("{} {}{why}{message}", step.name, step.phase));
            }
            self.steps.insert(step.name.clone(), now);
        }
        lines
    }

    /// What a flow waits for that has not ended: how it ended is reported at its end.
    fn reason(&mut self, name: &str, status: &FlowStatus) -> Option<String> {
        if status.phase.is_terminal() || status.message == self.reason {
            return None;
        }
        self.reason.clone_from(&status.message);
        let says = !status.message.is_empty();
        says.then(|| format!("{name} {}: {}", status.phase, one_line(&status.message, WIDTH)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_is_reported_once_and_waiting_steps_are_no_news() {
        let mut reported = ReportedChanges::default();
        let mut news = |steps: serde_json::Value| {
            reported.steps(&serde_json::from_value(json!({"phase": "Running", "steps": steps})).unwrap()).join(", ")
        };
        assert_eq!(news(json!([{"name": "a", "phase": "Running"}, {"name": "b", "phase": "Pending"}])), "a Running");
        assert_eq!(news(json!([{"name": "a", "phase": "Running"}, {"name": "b", "phase": "Pending"}])), "");
        let next = json!([{"name": "a", "phase": "Failed", "reason": "Timeout"}, {"name": "b", "phase": "Pending", "reason": "Blocked"}]);
        assert_eq!(news(next), "a Failed/Timeout, b Pending/Blocked");
    }

    #[test]
    fn what_a_step_or_the_flow_waits_for_is_reported_once() {
        let mut reported = ReportedChanges::default();
        let status = |message: &str, step: &str| -> FlowStatus {
            let steps = json!([{"name": "a", "phase": "Running", "message": step}]);
            serde_json::from_value(json!({"phase": "Running", "message": message, "steps": steps})).unwrap()
        };
        let why = status("step a: ErrImagePull: no such image", "ErrImagePull: no such image");
        assert_eq!(reported.steps(&why), ["a Running: ErrImagePull: no such image"]);
        assert_eq!(reported.reason("etl", &why).unwrap(), "etl Running: step a: ErrImagePull: no such image");
        assert!(reported.steps(&why).is_empty() && reported.reason("etl", &why).is_none());
        let runs = status("", "");
        assert_eq!((reported.steps(&runs), reported.reason("etl", &runs)), (vec!["a Running".to_owned()], None));
        assert!(reported.reason("etl", &why).is_some(), "it waits again");
        let ended = FlowStatus { phase: orlop_core::machine::flow::FlowPhase::Failed, ..why };
        assert_eq!(reported.reason("etl", &ended), None, "how it ended is said at its end");
    }
}
