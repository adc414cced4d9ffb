//! What the graph of a flow shows: cycles, found by the planner. Owns the way from its errors to violations.

use std::sync::Arc;

use orlop_core::spec::flow::FlowSpec;

use super::path::FieldPath;
use super::violation::{FieldPart, Severity, Violation, Violations};
use crate::plan::{Plan, PlanError};

impl From<PlanError> for Violation {
    fn from(error: PlanError) -> Self {
        let PlanError { rule, path, message, help } = error;
        let path = path.parse().unwrap_or_else(|_| FieldPath::default());
        Self { severity: Severity::Error, rule, path, message, help, at: None, part: FieldPart::Value }
    }
}

/// Adds what only the graph shows and gives the spec back. Of a flow that breaks other rules only a cycle is told: the
/// rest is known already. With more errors than are kept there is nobody to tell.
pub(super) fn check(spec: FlowSpec, found: &mut Violations) -> FlowSpec {
    if found.more(Severity::Error) > 0 {
        return spec;
    }
    let spec = Arc::new(spec);
    if let Err(errors) = Plan::build(Arc::clone(&spec)) {
        let known = found.has_errors();
        found.extend(errors.into_iter().filter(|error| !known || error.rule == "V1").map(Violation::from));
    }
    Arc::try_unwrap(spec).unwrap_or_else(|shared| (*shared).clone())
}
