//! Flows that every substrate must run with the same outcome of each step: a conformance suite for a substrate of your own.
//!
//! Each case says in two ways what its steps do: as a shell script, for substrates that run programs, and as a script for
//! [`ScriptedSubstrate`](orlop_core::testing::ScriptedSubstrate), the substrate in memory. [`Hosted::new`] makes a harness for any
//! substrate and journal.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use orlop::conformance::{all, check, scripted};
//! let harness = scripted(); // the substrate in memory
//! let case = &all()[0];
//! assert_eq!(check(&harness, case).await, Vec::<String>::new());
//! # }
//! ```

mod case;
mod cases;
mod hosted;

use async_trait::async_trait;
use orlop_core::spec::status::FlowStatus;

pub use case::{Case, Control, Expectation, Trigger};
pub use cases::all;
pub use hosted::{Ground, Hosted, scripted};

/// Runs a flow on a substrate from its submission to its end.
#[async_trait]
pub trait Harness: Send + Sync {
    /// Image whose `/bin/sh` runs the scripts; ignored where there are no images.
    fn image(&self) -> &str;

    /// Whether the scripts of the flows really run; the substrate in memory only imitates them.
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
