//! The flows that every substrate must run with the same step outcomes: the conformance suite of the design.
//!
//! A case says what its steps do twice: as a shell script, for substrates that run programs, and as a play, for the
//! in-memory double.

mod case;
mod cases;
mod hosted;

use async_trait::async_trait;
use orlop_core::spec::status::FlowStatus;

pub use case::{Case, Control, Expectation, Trigger};
pub use cases::all;
pub use hosted::{Ground, Hosted, scripted};

/// Drives a flow on a substrate from submission to its end.
#[async_trait]
pub trait Harness: Send + Sync {
    /// Image whose `/bin/sh` runs the scripts; ignored where there are no images.
    fn image(&self) -> &str;

    /// Whether the flows' scripts really run; the double only plays.
    fn runs_scripts(&self) -> bool;

    /// Runs a case and gives the final status with every step record.
    ///
    /// # Errors
    /// A sentence, when the flow could not be driven to its end.
    async fn run(&self, case: &Case) -> Result<FlowStatus, String>;
}

/// Runs one case and names every difference from what it expects; none when it conforms.
pub async fn check(harness: &dyn Harness, case: &Case) -> Vec<String> {
    match harness.run(case).await {
        Ok(status) => case.differences(&status, harness.runs_scripts()),
        Err(message) => vec![format!("{}: could not be run: {message}", case.name)],
    }
}
