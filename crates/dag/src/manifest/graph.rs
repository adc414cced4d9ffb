//! What the graph of a flow shows: cycles, found by the planner. Owns the way from its errors to violations.

use std::sync::Arc;

use orlop_core::spec::flow::{FlowSpec, JobFlow};

use super::path::FieldPath;
use super::report::Report;
use super::validate::{Limits, validate};
use super::violation::{FieldPart, Severity, Violation, Violations};
use crate::code::Code;
use crate::plan::{Plan, PlanError, PlanErrors};

impl From<PlanError> for Violation {
    fn from(error: PlanError) -> Self {
        let PlanError { code, path, message, help } = error;
        let path = path.parse().unwrap_or_else(|_| FieldPath::default());
        Self { severity: Severity::Error, code, path, message, help, at: None, part: FieldPart::Value }
    }
}

/// Plans a flow that keeps every rule of [`validate`].
///
/// ```
/// use orlop_core::spec::flow::{FlowSpec, JobFlow};
/// use orlop_core::spec::step::Step;
/// use orlop_dag::manifest::{Limits, checked};
/// let limits = Limits::elsewhere().templates_optional();
/// let flow = JobFlow::new("release", FlowSpec::new([Step::new("build"), Step::new("test").after(["build"])]));
/// assert_eq!(checked(&flow, &limits)?.len(), 2);
/// let unnamed = JobFlow::new("release", FlowSpec::new([Step::new("")]));
/// assert!(checked(&unnamed, &limits).unwrap_err().to_string().contains("spec.steps[0].name"));
/// # Ok::<(), orlop_dag::manifest::Report>(())
/// ```
///
/// # Errors
/// Everything that is wrong with it; warnings are in the report then, too.
pub fn checked(flow: &JobFlow, limits: &Limits) -> Result<Plan, Report> {
    let mut found = validate(flow, limits);
    match Plan::build(Arc::new(flow.spec.clone())) {
        Ok(plan) if !found.has_errors() => return Ok(plan),
        Ok(_) => {}
        Err(errors) => add(errors, &mut found),
    }
    Err(Report::new(found))
}

/// Adds why a flow has no plan. Where it breaks other rules only a cycle is added: the rest is known already.
fn add(errors: PlanErrors, found: &mut Violations) {
    let known = found.has_errors();
    found.extend(errors.into_iter().filter(|error| !known || error.code == Code::Cycle).map(Violation::from));
}

/// Adds what only the graph shows and gives the spec back. With more errors than are kept there is nothing to add.
pub(super) fn check(spec: FlowSpec, found: &mut Violations) -> FlowSpec {
    if found.more(Severity::Error) > 0 {
        return spec;
    }
    let spec = Arc::new(spec);
    if let Err(errors) = Plan::build(Arc::clone(&spec)) {
        add(errors, found);
    }
    Arc::try_unwrap(spec).unwrap_or_else(|shared| (*shared).clone())
}
