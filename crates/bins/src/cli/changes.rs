//! Steps of a flow as they change, a line each. Owns what has been told already.

use std::collections::BTreeMap;

use orlop_core::machine::step::StepPhase;
use orlop_core::spec::status::FlowStatus;

use super::output;

/// What has been told.
#[derive(Debug, Default)]
pub(super) struct Told(BTreeMap<String, (StepPhase, String)>);

impl Told {
    /// Tells what has changed since the last time. Steps that have not begun are no news at first.
    pub(super) fn tell(&mut self, status: &FlowStatus) {
        for line in self.news(status) {
            output::tell(&line);
        }
    }

    fn news(&mut self, status: &FlowStatus) -> Vec<String> {
        let mut lines = Vec::new();
        for step in &status.steps {
            let now = (step.phase, step.reason.clone());
            let before = self.0.get(&step.name);
            if before == Some(&now) {
                continue;
            }
            if before.is_some() || step.phase != StepPhase::Pending {
                let why = if step.reason.is_empty() { String::new() } else { format!("/{}", step.reason) };
                lines.push(format!("{} {}{why}", step.name, step.phase));
            }
            self.0.insert(step.name.clone(), now);
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_is_told_once_and_waiting_steps_are_no_news() {
        let mut told = Told::default();
        let mut news = |steps: serde_json::Value| {
            told.news(&serde_json::from_value(json!({"phase": "Running", "steps": steps})).unwrap()).join(", ")
        };
        assert_eq!(news(json!([{"name": "a", "phase": "Running"}, {"name": "b", "phase": "Pending"}])), "a Running");
        assert_eq!(news(json!([{"name": "a", "phase": "Running"}, {"name": "b", "phase": "Pending"}])), "");
        let next = json!([{"name": "a", "phase": "Failed", "reason": "Timeout"}, {"name": "b", "phase": "Pending", "reason": "Blocked"}]);
        assert_eq!(news(next), "a Failed/Timeout, b Pending/Blocked");
    }
}
