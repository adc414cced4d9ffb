//! Definitions that are only checked: everything that is wrong with them, and what they would be.

use std::sync::Arc;
use std::time::Duration;

use orlop_core::error::{Code, Problem};
use orlop_core::spec::job::StepBackend;
use orlop_dag::layout::{Fold, PlanLayout, of_plan};
use orlop_dag::manifest::{Report, TextLimits};
use serde_json::Value;

use super::Flows;
use super::pipeline::definition_text;
use super::submit::limits;
use crate::host::flow::{Definition, definitions};

/// The most steps, and the most edges, of a graph that is shown.
const STEPS: usize = 10_000;
const EDGES: usize = 50_000;

/// What a definition is.
pub(crate) struct Checked {
    /// Its flows; none where it is wrong.
    pub(crate) flows: Vec<Definition>,
    /// What is wrong, and warnings.
    pub(crate) report: Report,
    /// The graph, where it holds one flow that is not too large to be shown.
    pub(crate) graph: Option<PlanLayout>,
}

fn edges(definition: &Definition) -> usize {
    let spec = &definition.manifest.flow.spec;
    spec.steps.iter().chain(&spec.finally).map(|step| step.dependencies.len()).sum()
}

fn check(text: &str, backend: StepBackend) -> Checked {
    match definitions("definition", text, limits(backend), TextLimits::default()) {
        Err(report) => Checked { flows: Vec::new(), report, graph: None },
        Ok((flows, report)) => {
            let graph = match flows.as_slice() {
                [one] if one.plan.len() <= STEPS && edges(one) <= EDGES => of_plan(&one.plan, Fold::Never).ok(),
                _ => None,
            };
            Checked { flows, report, graph }
        }
    }
}

impl Flows {
    /// Checks a definition; nothing is kept of it. `present` makes the answer, on the thread that has read the text.
    ///
    /// # Errors
    /// RateLimited while as many as may be are checked; an error of the server or of `present`.
    pub(crate) async fn check(
        &self,
        definition: &Value,
        backend: StepBackend,
        present: impl FnOnce(Checked) -> Result<Value, Problem> + Send + 'static,
    ) -> Result<Value, Problem> {
        let permit = Arc::clone(&self.inner.checkers).try_acquire_owned().map_err(|_| {
            let problem = Problem::coded(Code::RateLimited, "other definitions are being checked; ask again");
            problem.retry_after(Duration::from_secs(1))
        })?;
        let text = definition_text(definition);
        let reading = tokio::task::spawn_blocking(move || {
            // Held to the end, also where the caller has gone.
            let _permit = permit;
            present(check(&text, backend))
        });
        reading.await.unwrap_or_else(|error| Err(Problem::coded(Code::Internal, error.to_string())))
    }
}
