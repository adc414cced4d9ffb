//! What ends a host before its flow has ended.

use orlop_core::error::PortError;
use orlop_dag::params::ParameterError;
use orlop_dag::plan::PlanError;

/// Why a host cannot go on. What was written stays; another host can take over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The spec has no plan.
    #[error("the flow cannot be planned: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Plan(Vec<PlanError>),
    /// A parameter has no value, or one it may not have.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// The journal cannot be read or written.
    #[error("the journal of the flow cannot be used: {}", .0.chain())]
    Journal(PortError),
    /// What is stored cannot be read.
    #[error("what is stored of the flow cannot be read: {0}; use the version that wrote it")]
    Unreadable(String),
    /// The gate cannot be asked.
    #[error("the concurrency limiter cannot be asked: {}", .0.chain())]
    Admission(PortError),
}
