//! The cases, a file per family of rules.

mod artifacts;
mod control;
mod failures;
mod fanout;
mod jobs;
mod order;
mod values;

use super::Case;

/// Every case.
#[must_use]
pub fn all() -> Vec<Case> {
    [
        order::cases(),
        failures::cases(),
        control::cases(),
        fanout::cases(),
        values::cases(),
        artifacts::cases(),
        jobs::cases(),
    ]
    .concat()
}

/// A delay of a tenth of a second before each retry.
fn retries(limit: u32) -> serde_json::Value {
    serde_json::json!({"limit": limit, "backoff": {"type": "Fixed", "duration": "100ms"}})
}

/// An output read from a file.
fn output(name: &str, path: &str) -> serde_json::Value {
    serde_json::json!({"parameters": [{"name": name, "valueFrom": {"path": path}}]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_at_least_forty_cases_of_different_names() {
        let names: std::collections::BTreeSet<&str> = all().iter().map(|case| case.name).collect();
        assert_eq!(names.len(), all().len());
        assert!(names.len() >= 40, "{}", names.len());
    }

    #[test]
    fn every_case_plans() {
        for case in all() {
            let flow = case.flow("busybox").unwrap_or_else(|error| panic!("{}: {error}", case.name));
            let plan = orlop_dag::plan::Plan::build(std::sync::Arc::new(flow.spec));
            assert!(plan.is_ok(), "{}: {:?}", case.name, plan.err());
        }
    }
}
