//! The life of a step. Owns its internal states and the API phases they show as; never counts retries or dependencies.

use super::named::{Named, named_enum, named_impls};

named_enum! {
    /// The phase of a step as the API shows it (`status.steps[].phase`).
    #[derive(Default)]
    pub enum StepPhase("step phase") {
        /// Waits for dependencies, a slot or the substrate's acceptance.
        #[default]
        Pending,
        /// The current attempt lives.
        Running,
        /// Settled well.
        Succeeded,
        /// Settled badly, or a retry is scheduled (reason `RetryScheduled`).
        Failed,
        /// Settled without an attempt that counts.
        Skipped,
        /// A manual step waits for its decision.
        PendingApproval,
    }
}

named_enum! {
    /// How a settled step ended.
    pub enum StepOutcome("step outcome") {
        /// The work was done, or its failure was declared harmless.
        Succeeded,
        /// The work failed, was refused or was cut off.
        Failed,
        /// The step never had to run.
        Skipped,
    }
}

impl StepOutcome {
    /// The API phase of a step that ended so.
    #[must_use]
    pub fn phase(self) -> StepPhase {
        match self {
            Self::Succeeded => StepPhase::Succeeded,
            Self::Failed => StepPhase::Failed,
            Self::Skipped => StepPhase::Skipped,
        }
    }
}

/// The internal state of a step, finer than its API phase. Its text is the variant's name, for `Done` the outcome's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum StepState {
    /// Waits for dependencies and references to settle.
    #[default]
    Waiting,
    /// Ready, waits for a slot.
    Queued,
    /// The substrate was asked to start the attempt and has not yet answered.
    Starting,
    /// The attempt was accepted and is not known to have ended.
    Active,
    /// The attempt was told to end and has not yet confirmed.
    Cancelling,
    /// The attempt failed, the next one waits for its delay.
    Backoff,
    /// A manual step waits for its decision.
    Awaiting,
    /// Settled, for ever.
    Done(StepOutcome),
}

impl StepState {
    /// The API phase this state shows as.
    #[must_use]
    pub fn phase(self) -> StepPhase {
        match self {
            Self::Waiting | Self::Queued | Self::Starting => StepPhase::Pending,
            Self::Active | Self::Cancelling => StepPhase::Running,
            Self::Backoff => StepPhase::Failed,
            Self::Awaiting => StepPhase::PendingApproval,
            Self::Done(outcome) => outcome.phase(),
        }
    }

    /// The outcome, once settled.
    #[must_use]
    pub fn outcome(self) -> Option<StepOutcome> {
        match self {
            Self::Done(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Whether the step can no longer change.
    #[must_use]
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Done(_))
    }

    /// Whether an attempt is started and not known to have ended. `Starting` counts: its request may have arrived.
    #[must_use]
    pub fn is_live(self) -> bool {
        matches!(self, Self::Starting | Self::Active | Self::Cancelling)
    }
}

impl Named for StepState {
    const KIND: &'static str = "step state";
    const ALL: &'static [Self] = &[
        Self::Waiting,
        Self::Queued,
        Self::Starting,
        Self::Active,
        Self::Cancelling,
        Self::Backoff,
        Self::Awaiting,
        Self::Done(StepOutcome::Succeeded),
        Self::Done(StepOutcome::Failed),
        Self::Done(StepOutcome::Skipped),
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "Waiting",
            Self::Queued => "Queued",
            Self::Starting => "Starting",
            Self::Active => "Active",
            Self::Cancelling => "Cancelling",
            Self::Backoff => "Backoff",
            Self::Awaiting => "Awaiting",
            Self::Done(outcome) => outcome.as_str(),
        }
    }
}

named_impls!(StepState);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_have_the_exact_api_texts() {
        let json = serde_json::to_string(StepPhase::ALL).unwrap();
        assert_eq!(json, r#"["Pending","Running","Succeeded","Failed","Skipped","PendingApproval"]"#);
    }

    #[test]
    fn s3_5_every_internal_state_shows_as_the_phase_of_the_specification() {
        let shown: Vec<String> = StepState::ALL.iter().map(|s| format!("{s}={}", s.phase())).collect();
        insta::assert_snapshot!(shown.join(" "), @"Waiting=Pending Queued=Pending Starting=Pending Active=Running Cancelling=Running Backoff=Failed Awaiting=PendingApproval Succeeded=Succeeded Failed=Failed Skipped=Skipped");
        for state in StepState::ALL.iter().copied() {
            assert_eq!(state.to_string().parse(), Ok(state));
            assert_eq!(state.is_settled(), state.outcome().is_some());
        }
    }
}
