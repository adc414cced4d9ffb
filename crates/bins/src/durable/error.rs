//! Why a step or a flow of functions failed.

use std::fmt;

use orlop_core::error::Problem;
use orlop_core::machine::step::StepPhase;

/// Why a function failed. Any error becomes one by `?`; the step is tried again as its retries allow.
///
/// ```
/// use orlop::durable::StepError;
/// fn parsed(text: &str) -> Result<u32, StepError> {
///     if text.is_empty() {
///         return Err(StepError::permanent("nothing was given"));
///     }
///     Ok(text.parse()?)
/// }
/// assert!(!parsed("x").unwrap_err().is_permanent());
/// assert!(parsed("").unwrap_err().is_permanent());
/// ```
pub struct StepError {
    message: String,
    permanent: bool,
    exit_code: i32,
}

impl StepError {
    /// A failure that another attempt may mend.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), permanent: false, exit_code: 1 }
    }

    /// A failure that a retry cannot fix: the step fails at once.
    #[must_use]
    pub fn permanent(message: impl Into<String>) -> Self {
        Self { permanent: true, ..Self::new(message) }
    }

    /// The same failure with an exit code, 1 without it: the `podFailurePolicy` of a flow looks at it.
    #[must_use]
    pub fn with_exit_code(self, exit_code: i32) -> Self {
        Self { exit_code, ..self }
    }

    /// Whether the step fails at once.
    #[must_use]
    pub const fn is_permanent(&self) -> bool {
        self.permanent
    }

    pub(super) const fn exit_code(&self) -> i32 {
        self.exit_code
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Debug for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for StepError {
    /// The error with its causes.
    fn from(error: E) -> Self {
        let error = error.into();
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message.push_str(": ");
            message.push_str(&error.to_string());
            cause = error.source();
        }
        Self::new(message)
    }
}

/// Why a flow of functions cannot be started or gives no value.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The flow is invalid, or its journal cannot be used.
    #[error("{}", .0.chain())]
    Flow(#[from] Problem),
    /// The flow has not ended, and this program does not run it any more: it was closed. Start it again.
    #[error("flow `{flow}` has not ended and is not run here any more; start it again")]
    NotRunning {
        /// The flow, as `<name>/<id>`.
        flow: String,
    },
    /// A step has no value: it failed, or it did not run.
    #[error("step `{step}` of flow `{flow}` has no value: it is {phase}{}", because(.reason, .message))]
    NoValue {
        /// The flow, as `<name>/<id>`.
        flow: String,
        /// The step.
        step: String,
        /// How the step ended.
        phase: StepPhase,
        /// Why, one word.
        reason: String,
        /// Why, a sentence.
        message: String,
    },
    /// A value is not of the type that is asked for.
    #[error("the value of step `{step}` is of another type: {error}")]
    Type {
        /// The step.
        step: String,
        /// What does not fit.
        #[source]
        error: serde_json::Error,
    },
    /// The input of a flow cannot be written as JSON.
    #[error("the input of the flow cannot be written as JSON: {0}")]
    Input(#[source] serde_json::Error),
}

impl fmt::Debug for Error {
    /// As people read it: `main` shows errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn because(reason: &str, message: &str) -> String {
    match (reason, message) {
        ("", "") => String::new(),
        (reason, "") => format!(" ({reason})"),
        (reason, message) => format!(" ({reason}: {message})"),
    }
}
