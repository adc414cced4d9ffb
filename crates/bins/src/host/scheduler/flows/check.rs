//! Definitions that are only looked at: everything that is wrong with them, and what they would be.

use std::sync::Arc;

use orlop_core::error::{Code, Problem};
use orlop_core::spec::job::StepBackend;
use orlop_dag::layout::{Fold, PlanLayout, of_plan};
use orlop_dag::manifest::{Report, TextLimits};
use serde_json::Value;

use super::Flows;
use super::pipeline::definition_text;
use super::submit::limits;
use crate::host::flow::{Definition, definitions};

/// What a definition is.
pub(crate) struct Checked {
    /// Its flows; none where it is wrong.
    pub(crate) flows: Vec<Definition>,
    /// What is wrong, and warnings.
    pub(crate) report: Report,
    /// The graph, where it holds one flow that can be drawn.
    pub(crate) graph: Option<PlanLayout>,
}

fn check(text: &str, backend: StepBackend) -> Checked {
    match definitions("definition", text, limits(backend), TextLimits::default()) {
        Err(report) => Checked { flows: Vec::new(), report, graph: None },
        Ok((flows, report)) => {
            let graph = match flows.as_slice() {
                [one] => of_plan(&one.plan, Fold::Never).ok(),
                _ => None,
            };
            Checked { flows, report, graph }
        }
    }
}

impl Flows {
    /// Looks at a definition; nothing is kept of it. A few are read at once, beside what the server does meanwhile.
    ///
    /// # Errors
    /// The server itself fails.
    pub(crate) async fn check(&self, definition: &Value, backend: StepBackend) -> Result<Checked, Problem> {
        let text = definition_text(definition);
        let permit = Arc::clone(&self.inner.readers).acquire_owned().await;
        let reading = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            check(&text, backend)
        });
        reading.await.map_err(|error| Problem::coded(Code::Internal, error.to_string()))
    }
}
