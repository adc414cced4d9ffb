//! What can be wrong with a verb about a flow. Owns the sentences and their classes.

use orlop_core::error::Class;
use orlop_dag::approval::ApprovalError;
use orlop_dag::params::ParameterError;

use crate::api::ApiError;

/// Why a verb had no success.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// There is no such flow.
    #[error("there is no flow `{name}` in namespace `{namespace}`")]
    NotFound {
        /// Its name.
        name: String,
        /// Where it was looked for.
        namespace: String,
    },
    /// The flow has no such step.
    #[error("flow `{flow}` has no step or instance `{step}`")]
    NoStep {
        /// Name of the flow.
        flow: String,
        /// Name of the step.
        step: String,
    },
    /// The flow has no such step that a person decides about.
    #[error(transparent)]
    Approval(#[from] ApprovalError),
    /// A parameter has no value, or one it may not have.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// A step that is named to be repeated is none of the flow; the sentence says so.
    #[error("{0}")]
    NoRepeat(String),
    /// The flow has ended.
    #[error("flow `{flow}` has ended: it is {phase}; nothing can change it")]
    Ended {
        /// Name of the flow.
        flow: String,
        /// How it ended.
        phase: String,
    },
    /// Something else is in the way; the sentence says what.
    #[error("{0}")]
    Conflict(String),
    /// A value or a name cannot be used; the sentence says why.
    #[error("{0}")]
    Invalid(String),
    /// What is stored is not what this version reads.
    #[error("flow `{name}` cannot be read: {why}")]
    Unreadable {
        /// Its name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// Records of its steps are not where the status says: a newer status has others, or somebody has deleted them.
    #[error("the steps of flow `{0}` are not where its status says they are; try again")]
    Moving(String),
    /// The server refused, or did not answer.
    #[error("{doing}: {source}")]
    Api {
        /// What was being done.
        doing: String,
        /// What the server said.
        source: ApiError,
    },
}

impl ClientError {
    /// What the caller may do about it.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::NotFound { .. }
            | Self::NoStep { .. }
            | Self::NoRepeat(_)
            | Self::Approval(ApprovalError::NoStep { .. }) => Class::NotFound,
            Self::Ended { .. } | Self::Conflict(_) | Self::Approval(ApprovalError::NotManual(_)) => Class::Conflict,
            Self::Invalid(_) | Self::Parameter(_) => Class::Invalid,
            Self::Unreadable { .. } => Class::Fatal,
            Self::Moving(_) => Class::Transient,
            // A controller waits for new credentials; a user gets the error now.
            Self::Api { source, .. } if source.code == Some(401) => Class::Denied,
            Self::Api { source, .. } => source.class(),
        }
    }
}
