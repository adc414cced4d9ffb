//! What can be wrong with a verb about a flow. Owns the sentences and their classes.

use orlop_core::error::Class;

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
    /// The flow has no such step, or none a person decides about.
    #[error("flow `{flow}` has no {what} `{step}`")]
    NoStep {
        /// Name of the flow.
        flow: String,
        /// What was looked for.
        what: &'static str,
        /// Name of the step.
        step: String,
    },
    /// A step that is named to be repeated is none of the flow; the sentence says so.
    #[error("{0}")]
    NoRepeat(String),
    /// The flow has ended.
    #[error("flow `{0}` has ended; nothing can change it")]
    Ended(String),
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
            Self::NotFound { .. } | Self::NoStep { .. } | Self::NoRepeat(_) => Class::NotFound,
            Self::Ended(_) | Self::Conflict(_) => Class::Conflict,
            Self::Invalid(_) => Class::Invalid,
            Self::Unreadable { .. } => Class::Fatal,
            Self::Moving(_) => Class::Transient,
            // A controller waits for new credentials; a user gets the error now.
            Self::Api { source, .. } if source.code == Some(401) => Class::Denied,
            Self::Api { source, .. } => source.class(),
        }
    }
}
