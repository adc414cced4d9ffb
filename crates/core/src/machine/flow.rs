//! The lifecycle of a flow. Owns its phases as the API shows them and the table of transitions; never decides which guard holds
//! (the flow engine does).

use super::Machine;
use super::transition::rows;
use crate::named::named_enum;

named_enum! {
    /// The phase of a flow as the API shows it (`status.phase`).
    #[derive(Default)]
    pub enum FlowPhase("flow phase") {
        /// Nothing has started: the flow waits for its gate, its resources or its first step.
        #[default]
        Pending,
        /// At least one step has left `Pending`.
        Running,
        /// A manual step waits for its decision.
        Paused,
        /// A user suspended the flow, or a changed spec holds it; nothing starts.
        Suspended,
        /// Final: every step settled and the outcome is good.
        Succeeded,
        /// Final: anything else.
        Failed,
    }
}

impl FlowPhase {
    /// Whether it is final: Succeeded or Failed.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

named_enum! {
    /// What happens to a flow.
    pub enum Event("flow event") {
        Init = "init",
        SpecEdited = "spec edited before start",
        KeyAsked = "concurrency key asked",
        Admitted = "admitted",
        ResourcesReady = "resources ready",
        ResourcesFailed = "resources failed",
        StepStarted = "step left Pending",
        ApprovalOpened = "step waits for approval",
        ApprovalsEnded = "last approval ended",
        SuspendOn = "suspended or held",
        SuspendOff = "resumed or released",
        StepFailed = "untolerated step failure",
        BudgetExceeded = "retry or count over backoffLimit",
        DeadlineDue = "deadline due",
        Stopped = "stop",
        MainSettled = "last main step settled",
        AllSettled = "last step settled",
        TtlDue = "TTL due",
        FinalStatusWritten = "final status written",
        Ticked = "tick",
    }
}

named_enum! {
    /// What decides between transitions of a flow.
    pub enum Guard("flow guard") {
        SpecInvalid = "the spec is invalid",
        SuspendSet = "suspend is set",
        KeyHeld = "another flow holds the concurrency key and the policy is Forbid or Replace",
        NotRetryable = "the error is not retryable",
        MarkLeft = "the other of suspended and held is still set",
        ApprovalWaits = "a step waits for approval",
        StepsStarted = "a step has left Pending",
        NotOver = "steps are left to settle",
        FailFast = "failurePolicy is FailFast",
        CancelRunning = "failurePolicy is CancelRunning",
        Graceful = "the stop is graceful",
        FinallyAllowed = "finally is present and allowed",
        OutcomeGood = "the outcome is good",
        TtlZero = "the TTL is 0",
    }
}

/// Everything but Succeeded and Failed.
const LIVE: &[FlowPhase] = &[FlowPhase::Pending, FlowPhase::Running, FlowPhase::Paused, FlowPhase::Suspended];

/// All that changes nothing once a flow is over.
const LATE: &[Event] = &[
    Event::Init,
    Event::SpecEdited,
    Event::KeyAsked,
    Event::Admitted,
    Event::ResourcesReady,
    Event::ResourcesFailed,
    Event::StepStarted,
    Event::ApprovalOpened,
    Event::ApprovalsEnded,
    Event::SuspendOn,
    Event::SuspendOff,
    Event::StepFailed,
    Event::BudgetExceeded,
    Event::DeadlineDue,
    Event::Stopped,
    Event::MainSettled,
    Event::AllSettled,
    Event::FinalStatusWritten,
    Event::Ticked,
];

/// The life of a flow by its visible phase.
///
/// A suspended flow stays Suspended whatever its steps do. One can be suspended between its admission and the answer about its
/// resources: these can fail while it is Suspended too.
pub static MACHINE: Machine<FlowPhase, Event, Guard> = Machine {
    name: "flow",
    terminal: &[FlowPhase::Succeeded, FlowPhase::Failed],
    rows: rows! { FlowPhase, Event, Guard;
        "T1": [] on [Init] if SpecInvalid => Failed, "ValidationFailed or DAGCycle", "startTime = completionTime", "TtlTimer";
        "T2": [] on [Init] if SuspendSet => Suspended, "JobFlowCreated";
        "T2": [] on [Init] => Pending, "JobFlowCreated";
        "T2": [Pending, Suspended] on [SpecEdited] if SpecInvalid => Failed, "ValidationFailed or DAGCycle", "TtlTimer";
        "T2": [Pending, Suspended] on [SpecEdited] if SuspendSet => Suspended, "init again";
        "T2": [Pending, Suspended] on [SpecEdited] => Pending, "init again";
        "T3": [Pending] on [KeyAsked] if KeyHeld => same, "Blocked=True", "Replace: Stop{Terminate, Replaced} to holders";
        "T4": [Pending] on [Admitted] => same, "startTime", "specHash", "DeadlineTimer", "EnsureResources or roots ready";
        "T4": [in LIVE] on [ResourcesReady] => same, "resourceRefs", "roots ready";
        "T5": [Pending, Suspended] on [ResourcesFailed] if NotRetryable => Failed, "steps Skipped/FlowFailed", "JobFlowFailed";
        "T6": [Pending] on [StepStarted] => Running, "JobFlowStarted";
        "T6": [Pending] on [ApprovalOpened] => Paused, "JobFlowStarted", "FlowPaused";
        "T7": [Running] on [ApprovalOpened] => Paused, "FlowPaused";
        "kept": [Running, Paused, Suspended] on [StepStarted] => same;
        "kept": [Paused] on [ApprovalOpened] => same;
        "T8": [Paused] on [ApprovalsEnded] if NotOver => Running, "FlowResumed";
        "kept": [Suspended] on [ApprovalsEnded] => same;
        "T9": [in LIVE] on [SuspendOn] => Suspended, "no starts", "SuspendAttempt in mode Suspend", "FlowSuspended";
        "T10": [Suspended] on [SuspendOff] if MarkLeft => same;
        "T10": [Suspended] on [SuspendOff] if ApprovalWaits => Paused, "shift timers", "start queued work", "FlowResumed";
        "T10": [Suspended] on [SuspendOff] if StepsStarted => Running, "shift timers", "start queued work", "FlowResumed";
        "T10": [Suspended] on [SuspendOff] => Pending, "FlowResumed";
        "T11": [in LIVE] on [StepFailed] if FailFast => same, "halted(FlowFailed)";
        "T11": [in LIVE] on [StepFailed] if CancelRunning => same, "halted(FlowFailed)", "CancelAttempt for live ones";
        "T11": [in LIVE] on [StepFailed] => same, "remembered";
        "T12": [in LIVE] on [BudgetExceeded] if CancelRunning => same, "halted(BackoffLimitExceeded)", "CancelAttempt for live ones";
        "T12": [in LIVE] on [BudgetExceeded] => same, "halted(BackoffLimitExceeded)";
        "T13": [in LIVE] on [DeadlineDue] => same, "halted(ActiveDeadlineExceeded)", "CancelAttempt for live ones";
        "T14": [in LIVE] on [Stopped] if Graceful => same, "FlowStopped", "halted(Stopped)";
        "T14": [in LIVE] on [Stopped] => same, "FlowStopped", "halted(Terminated or Replaced)", "CancelAttempt for live ones";
        "kept": [Suspended] on [MainSettled] if FinallyAllowed => same, "outcome fixed", "finally waits";
        "T15": [Pending, Running, Paused] on [MainSettled] if FinallyAllowed => Running, "outcome fixed", "finally starts";
        "T16": [in LIVE] on [AllSettled] if OutcomeGood => Succeeded, "completionTime", "JobFlowCompleted", "release key", "TtlTimer";
        "T16": [in LIVE] on [AllSettled] => Failed, "completionTime", "JobFlowFailed", "release key", "TtlTimer";
        "ticked": [in LIVE] on [Ticked] => same;
        "T17": [Succeeded, Failed] on [TtlDue] => same, "DeleteFlow";
        "T17": [Succeeded, Failed] on [FinalStatusWritten] if TtlZero => same, "DeleteFlow";
        "T17": [Succeeded, Failed] on [in LATE] => same;
    },
};

#[cfg(test)]
mod tests {
    use super::super::{Named, laws};
    use super::*;

    #[test]
    fn phases_have_the_exact_api_texts() {
        let json = serde_json::to_string(FlowPhase::ALL).unwrap();
        assert_eq!(json, r#"["Pending","Running","Paused","Suspended","Succeeded","Failed"]"#);
    }

    #[test]
    fn every_phase_and_event() {
        laws::hold(&MACHINE, &[]);
        insta::assert_snapshot!(MACHINE.listing());
    }

    #[test]
    fn a_suspended_flow_returns_to_where_its_steps_are() {
        for phase in LIVE.iter().copied() {
            assert_eq!(MACHINE.step(phase, Event::SuspendOn, |_| false), Ok(FlowPhase::Suspended));
        }
        let resumed =
            |holds: &[Guard]| MACHINE.step(FlowPhase::Suspended, Event::SuspendOff, |guard| holds.contains(&guard));
        assert_eq!(resumed(&[]), Ok(FlowPhase::Pending));
        assert_eq!(resumed(&[Guard::StepsStarted]), Ok(FlowPhase::Running));
        assert_eq!(resumed(&[Guard::StepsStarted, Guard::ApprovalWaits]), Ok(FlowPhase::Paused));
        assert_eq!(resumed(&[Guard::StepsStarted, Guard::MarkLeft]), Ok(FlowPhase::Suspended));
    }

    #[test]
    fn nothing_changes_a_flow_that_is_over() {
        for event in Event::ALL.iter().copied() {
            assert_eq!(MACHINE.step(FlowPhase::Failed, event, |_| true), Ok(FlowPhase::Failed));
            assert_eq!(MACHINE.step(FlowPhase::Succeeded, event, |_| false), Ok(FlowPhase::Succeeded));
        }
    }

    #[test]
    fn refusals_name_what_is_allowed_instead() {
        let error = MACHINE.step(FlowPhase::Running, Event::KeyAsked, |_| true).unwrap_err();
        insta::assert_snapshot!(error, @"flow: Running does not take `concurrency key asked`; it takes: resources ready, step left Pending, step waits for approval, suspended or held, untolerated step failure, retry or count over backoffLimit, deadline due, stop, last main step settled, last step settled, tick");
        let error = MACHINE.step(FlowPhase::Paused, Event::ApprovalsEnded, |_| false).unwrap_err();
        insta::assert_snapshot!(error, @"flow: Paused takes `last approval ended` only if steps are left to settle");
        let error = MACHINE.step(None, Event::Stopped, |_| true).unwrap_err();
        insta::assert_snapshot!(error, @"flow: an object that does not exist yet does not take `stop`; it takes: init");
    }

    #[test]
    fn the_diagram_is_mermaid() {
        insta::assert_snapshot!(MACHINE.mermaid());
    }
}
