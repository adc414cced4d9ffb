//! Who says when a flow may begin.

use async_trait::async_trait;
use orlop_core::error::Problem;

/// The answer to a flow that wants to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdmissionDecision {
    /// It begins.
    Begin,
    /// It waits; ask again.
    Wait {
        /// For what.
        message: String,
    },
}

/// Decides when a flow may begin.
#[async_trait]
pub trait Admission: Send {
    /// The next verdict. After [`AdmissionDecision::Wait`] the next call returns when there is news.
    ///
    /// # Errors
    /// When it cannot be found out.
    async fn next(&mut self) -> Result<AdmissionDecision, Problem>;
}
