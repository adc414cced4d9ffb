//! Who says when a flow may begin. Owns the port only; the order among flows is the gate's.

use async_trait::async_trait;
use orlop_core::error::PortError;

/// What a flow that wants to begin is told.
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

/// Lets flows begin.
#[async_trait]
pub trait Admission: Send {
    /// The next verdict. After [`AdmissionDecision::Wait`] the next call returns when there is news.
    ///
    /// # Errors
    /// When it cannot be told.
    async fn next(&mut self) -> Result<AdmissionDecision, PortError>;
}
