//! The lifecycle of a `Performer`. Owns its detailed states, the phases they show as and the
//! table between them; the plan decides what is done.

use super::transition::rows;
use super::{Machine, NoGuard};
use crate::named::named_enum;

named_enum! {
    /// The phase of a performer as the API shows it (`status.phase`).
    #[derive(Default)]
    pub enum PerformerPhase("performer phase") {
        /// Seen, not yet taken on.
        #[default]
        Pending,
        /// Its pod is made and started.
        Creating,
        /// A pod serves.
        Running,
        /// A candidate with the new spec is brought up.
        Upgrading,
        /// It is being deleted.
        Terminating,
        /// A report, not an end: it is tried again.
        Failed,
    }
}

named_enum! {
    /// The detailed state of a performer (`status.state`); those within a phase are reasons of `Progressing`.
    #[derive(Default)]
    pub enum PerformerState("performer state") {
        /// Seen, not yet taken on.
        #[default]
        Pending,
        /// Reconciliation has begun.
        Creating,
        /// An incarnation is reserved in the status; its pod is made.
        PodCreation,
        /// The pod exists and waits for the scheduler.
        Scheduling,
        /// The scheduler has judged the pod.
        NodeSelection,
        /// Its requirements are checked against the nodes.
        HardwareValidation,
        /// A node was chosen.
        PodBinding,
        /// The kubelet took it; its image is fetched.
        ImagePull,
        /// The image is there; the container starts.
        ContainerStart,
        /// The container runs; it has to become ready behind the Service.
        ServiceCreation,
        /// A pod serves.
        Running,
        /// The wanted spec differs from the serving one.
        Upgrading,
        /// A candidate is reserved and brought up.
        PodRecreation,
        /// Something keeps it from working.
        Failed,
        /// Deletion was asked for.
        Terminating,
        /// The Service is removed first.
        ServiceCleanup,
        /// The Service is gone, the pods go.
        PodCleanup,
        /// Pods and finalizer are gone.
        Gone,
    }
}

impl PerformerState {
    /// The phase this state shows as; none once the object is gone.
    #[must_use]
    pub fn phase(self) -> Option<PerformerPhase> {
        Some(match self {
            Self::Pending => PerformerPhase::Pending,
            Self::Creating
            | Self::PodCreation
            | Self::Scheduling
            | Self::NodeSelection
            | Self::HardwareValidation
            | Self::PodBinding
            | Self::ImagePull
            | Self::ContainerStart
            | Self::ServiceCreation => PerformerPhase::Creating,
            Self::Running => PerformerPhase::Running,
            Self::Upgrading | Self::PodRecreation => PerformerPhase::Upgrading,
            Self::Failed => PerformerPhase::Failed,
            Self::Terminating | Self::ServiceCleanup | Self::PodCleanup => PerformerPhase::Terminating,
            Self::Gone => return None,
        })
    }
}

named_enum! {
    /// What is seen of a performer.
    pub enum Event("performer event") {
        Seen = "object seen",
        Begun = "reconciliation starts",
        SpecInvalid = "spec invalid or Conflict",
        CreateRefused = "create refused",
        Reserved = "incarnation or candidate reserved in status",
        PodExists = "pod exists",
        Judged = "scheduler has judged it",
        Checked = "requirements checked against nodes",
        Bound = "bound",
        KubeletAccepted = "kubelet accepted it",
        ImagePresent = "image present",
        ContainerRunning = "container running",
        Serving = "Service selects it, pod Ready",
        WantedDiffers = "wanted hash differs",
        RolledBack = "rolled back or spec reverted, active serves",
        NothingServes = "nothing serves",
        Unschedulable = "unschedulable 300 s although hardware exists",
        NoHardware = "HardwareAvailable=False for 10 s",
        ImageError = "ImagePullBackOff or InvalidImageName",
        ContainerError = "CreateContainerConfigError, RunContainerError or CrashLoopBackOff",
        ReadinessDeadline = "progress deadline",
        PodLost = "pod failed, succeeded, unknown, deleted or its node lost",
        RetryDue = "backoff elapsed or cause gone",
        Deleted = "deletion",
        ServiceDeleted = "Service deleted",
        ServiceGone = "Service gone, pods deleted",
        PodsGone = "pods gone, finalizer removed",
    }
}

const LIVING: &[PerformerState] = &[
    PerformerState::Pending,
    PerformerState::Creating,
    PerformerState::PodCreation,
    PerformerState::Scheduling,
    PerformerState::NodeSelection,
    PerformerState::HardwareValidation,
    PerformerState::PodBinding,
    PerformerState::ImagePull,
    PerformerState::ContainerStart,
    PerformerState::ServiceCreation,
    PerformerState::Running,
    PerformerState::Upgrading,
    PerformerState::PodRecreation,
    PerformerState::Failed,
];

/// States with a pod whose loss fails the performer; an upgrade has its own rule.
const WITH_POD: &[PerformerState] = &[
    PerformerState::Scheduling,
    PerformerState::NodeSelection,
    PerformerState::HardwareValidation,
    PerformerState::PodBinding,
    PerformerState::ImagePull,
    PerformerState::ContainerStart,
    PerformerState::ServiceCreation,
    PerformerState::Running,
];

/// The life of a performer. Failed is a report: a pod that is kept leads back through Creating as its steps are seen.
pub static MACHINE: Machine<PerformerState, Event, NoGuard> = Machine {
    name: "performer",
    terminal: &[PerformerState::Gone],
    rows: rows! { PerformerState, Event, NoGuard;
        "Pending": [] on [Seen] => Pending;
        "Pending": [Pending] on [Begun] => Creating, "AddFinalizer";
        "Pending": [Pending, Creating, PodCreation] on [SpecInvalid, CreateRefused] => Failed, "WriteStatus";
        "Creating": [Creating] on [Reserved] => PodCreation, "WriteStatus candidate", "Create pod";
        "Creating": [PodCreation] on [PodExists] => Scheduling;
        "Creating": [Scheduling] on [Judged] => NodeSelection;
        "Creating": [NodeSelection] on [Checked] => HardwareValidation;
        "Creating": [HardwareValidation] on [Bound] => PodBinding;
        "Creating": [PodBinding] on [KubeletAccepted] => ImagePull;
        "Creating": [ImagePull] on [ImagePresent] => ContainerStart;
        "Creating": [ContainerStart] on [ContainerRunning] => ServiceCreation, "Create Service";
        "Creating": [ServiceCreation] on [Serving] => Running, "WriteStatus active";
        "Running": [Running] on [WantedDiffers] => Upgrading;
        "Running": [Running] on [ContainerError] => Failed, "ContainerStartFailed";
        "Running": [Running] on [SpecInvalid] => Failed, "InvalidSpec", "pod keeps serving";
        "Upgrading": [Upgrading] on [Reserved] => PodRecreation, "WriteStatus candidate", "Create pod";
        "Upgrading": [PodRecreation] on [Serving] => Running, "Apply Service", "WriteStatus active";
        "Upgrading": [Upgrading, PodRecreation] on [RolledBack] => Running, "Delete candidate";
        "Upgrading": [PodRecreation] on [NothingServes] => Failed, "WriteStatus";
        "Failed": [NodeSelection] on [Unschedulable] => Failed, "SchedulingFailed", "pod kept";
        "Failed": [HardwareValidation] on [NoHardware] => Failed, "HardwareUnavailable", "pod kept";
        "Failed": [ImagePull] on [ImageError] => Failed, "ImagePullFailed", "pod kept";
        "Failed": [ContainerStart] on [ContainerError] => Failed, "ContainerConfigError or ContainerStartFailed", "pod kept";
        "Failed": [ServiceCreation] on [ReadinessDeadline] => Failed, "ReadinessTimeout", "pod kept";
        "Failed": [in WITH_POD] on [PodLost] => Failed, "PodFailed, PodDeleted or NodeLost", "WriteStatus retry", "Delete pod";
        "Failed": [Failed] on [RetryDue] => Creating;
        "Terminating": [in LIVING] on [Deleted] => Terminating, "WriteStatus", "Delete Service";
        "Terminating": [Terminating] on [ServiceDeleted] => ServiceCleanup;
        "Terminating": [ServiceCleanup] on [ServiceGone] => PodCleanup, "Delete pods";
        "Terminating": [PodCleanup] on [PodsGone] => Gone, "RemoveFinalizer";
    },
};

#[cfg(test)]
mod tests {
    use super::super::{Named, laws};
    use super::*;

    #[test]
    fn every_state_and_event() {
        laws::hold(&MACHINE, &[]);
        insta::assert_snapshot!(MACHINE.listing());
    }

    #[test]
    fn phases_have_the_exact_api_texts() {
        let json = serde_json::to_string(PerformerPhase::ALL).unwrap();
        assert_eq!(json, r#"["Pending","Creating","Running","Upgrading","Terminating","Failed"]"#);
    }

    #[test]
    fn every_state_shows_as_its_phase() {
        let shown: Vec<String> =
            PerformerState::ALL.iter().map(|s| format!("{s}={}", s.phase().map_or("-", Named::as_str))).collect();
        insta::assert_snapshot!(shown.join(" "), @"Pending=Pending Creating=Creating PodCreation=Creating Scheduling=Creating NodeSelection=Creating HardwareValidation=Creating PodBinding=Creating ImagePull=Creating ContainerStart=Creating ServiceCreation=Creating Running=Running Upgrading=Upgrading PodRecreation=Upgrading Failed=Failed Terminating=Terminating ServiceCleanup=Terminating PodCleanup=Terminating Gone=-");
    }

    #[test]
    fn failed_is_a_report_and_leads_back_step_by_step() {
        let way = MACHINE.path(PerformerState::Failed, PerformerState::Running).unwrap();
        let way: Vec<&str> = way.into_iter().map(Named::as_str).collect();
        insta::assert_snapshot!(way.join(" → "), @"Failed → Creating → PodCreation → Scheduling → NodeSelection → HardwareValidation → PodBinding → ImagePull → ContainerStart → ServiceCreation → Running");
    }

    #[test]
    fn nothing_leads_back_from_deletion() {
        for state in [PerformerState::Terminating, PerformerState::ServiceCleanup, PerformerState::PodCleanup] {
            assert!(MACHINE.reachable(state).iter().all(|state| !LIVING.contains(state)));
        }
    }
}
