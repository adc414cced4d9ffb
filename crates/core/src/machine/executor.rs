//! The lifecycle of a `HourglassExecutor`. Owns its detailed states, the phases they show as
//! and the table of transitions; never looks at a cluster.

use super::transition::rows;
use super::{Machine, NoGuard};
use crate::named::named_enum;

named_enum! {
    /// The phase of an executor as the API shows it (`status.phase`).
    #[derive(Default)]
    pub enum ExecutorPhase("executor phase") {
        /// Seen, not yet taken on.
        #[default]
        Pending,
        /// Its children are made.
        Creating,
        /// It serves.
        Running,
        /// A new configuration or template rolls out.
        Updating,
        /// Only the number of replicas changes.
        Scaling,
        /// It is being deleted.
        Terminating,
        /// A report, not an end: it is tried again.
        Failed,
    }
}

named_enum! {
    /// The detailed state of an executor (`status.state`); those within a phase are reasons of `Progressing`.
    #[derive(Default)]
    pub enum ExecutorState("executor state") {
        /// Seen, not yet taken on.
        #[default]
        Pending,
        /// Valid and held by the finalizer.
        Creating,
        /// ConfigMap and Secret were applied.
        ConfigMapCreation,
        /// Both hold the wanted hash; the Deployment is made.
        DeploymentCreation,
        /// The Deployment exists; its pods look for nodes.
        PodScheduling,
        /// All wanted pods are bound; they start.
        PodCreation,
        /// It serves.
        Running,
        /// Configuration or template differs from what was applied.
        Updating,
        /// New ConfigMap and Secret were applied.
        ConfigMapUpdate,
        /// The new Deployment was applied; pods are replaced.
        RollingUpdate,
        /// Only the number of replicas differs.
        Scaling,
        /// Something keeps it from working.
        Failed,
        /// Deletion was asked for.
        Terminating,
        /// Children are removed in order.
        Cleanup,
        /// Children and finalizer are gone.
        Gone,
    }
}

impl ExecutorState {
    /// The phase this state shows as; none once the object is gone.
    #[must_use]
    pub fn phase(self) -> Option<ExecutorPhase> {
        Some(match self {
            Self::Pending => ExecutorPhase::Pending,
            Self::Creating
            | Self::ConfigMapCreation
            | Self::DeploymentCreation
            | Self::PodScheduling
            | Self::PodCreation => ExecutorPhase::Creating,
            Self::Running => ExecutorPhase::Running,
            Self::Updating | Self::ConfigMapUpdate | Self::RollingUpdate => ExecutorPhase::Updating,
            Self::Scaling => ExecutorPhase::Scaling,
            Self::Failed => ExecutorPhase::Failed,
            Self::Terminating | Self::Cleanup => ExecutorPhase::Terminating,
            Self::Gone => return None,
        })
    }
}

named_enum! {
    /// What is seen of an executor.
    pub enum Event("executor event") {
        Seen = "object seen",
        Taken = "spec valid, finalizer set",
        SpecInvalid = "spec invalid or Conflict",
        ConfigApplied = "ConfigMap and Secret applied",
        ConfigHashInPlace = "both hold the wanted hash, Deployment applied",
        DeploymentObserved = "Deployment exists, generation observed",
        PodsBound = "all wanted pods bound",
        AllReady = "updated = ready = replicas, no old pod",
        TemplateDiffers = "config hash or pod template differs",
        ReplicasDiffer = "only replicas differ",
        NoneReady = "no replica ready for 60 s, or Deployment lost",
        Failing = "API error, ReplicaFailure or ProgressDeadlineExceeded",
        RetryDue = "retry due or cause gone",
        Deleted = "deletion",
        Finalizing = "finalizer processing",
        ChildrenGone = "children gone",
    }
}

const LIVING: &[ExecutorState] = &[
    ExecutorState::Pending,
    ExecutorState::Creating,
    ExecutorState::ConfigMapCreation,
    ExecutorState::DeploymentCreation,
    ExecutorState::PodScheduling,
    ExecutorState::PodCreation,
    ExecutorState::Running,
    ExecutorState::Updating,
    ExecutorState::ConfigMapUpdate,
    ExecutorState::RollingUpdate,
    ExecutorState::Scaling,
    ExecutorState::Failed,
];

const CREATING_UPDATING_SCALING: &[ExecutorState] = &[
    ExecutorState::Creating,
    ExecutorState::ConfigMapCreation,
    ExecutorState::DeploymentCreation,
    ExecutorState::PodScheduling,
    ExecutorState::PodCreation,
    ExecutorState::Updating,
    ExecutorState::ConfigMapUpdate,
    ExecutorState::RollingUpdate,
    ExecutorState::Scaling,
];

/// The life of an executor.
///
/// A spec that turns invalid shows as Failed from every state while the children stay as they are.
pub static MACHINE: Machine<ExecutorState, Event, NoGuard> = Machine {
    name: "executor",
    terminal: &[ExecutorState::Gone],
    rows: rows! { ExecutorState, Event, NoGuard;
        "Pending": [] on [Seen] => Pending;
        "Pending": [Pending] on [Taken] => Creating, "AddFinalizer";
        "Pending": [Pending] on [SpecInvalid] => Failed, "WriteStatus";
        "Creating": [Creating] on [ConfigApplied] => ConfigMapCreation, "Apply ConfigMap", "Apply Secret";
        "Creating": [ConfigMapCreation] on [ConfigHashInPlace] => DeploymentCreation, "Apply Deployment";
        "Creating": [DeploymentCreation] on [DeploymentObserved] => PodScheduling;
        "Creating": [PodScheduling] on [PodsBound] => PodCreation;
        "Creating": [PodCreation] on [AllReady] => Running;
        "Running": [Running] on [TemplateDiffers] => Updating;
        "Running": [Running] on [ReplicasDiffer] => Scaling, "Apply Deployment";
        "Running": [Running] on [NoneReady] => Failed, "WriteStatus";
        "Updating": [Updating] on [ConfigApplied] => ConfigMapUpdate, "Apply ConfigMap", "Apply Secret";
        "Updating": [ConfigMapUpdate] on [ConfigHashInPlace] => RollingUpdate, "Apply Deployment";
        "Updating": [RollingUpdate] on [AllReady] => Running;
        "Updating": [Updating, ConfigMapUpdate, RollingUpdate] on [TemplateDiffers] => Updating;
        "Scaling": [Scaling] on [AllReady] => Running;
        "Scaling": [Scaling] on [TemplateDiffers] => Updating;
        "Failed": [in CREATING_UPDATING_SCALING] on [Failing] => Failed, "WriteStatus";
        "validate": [in CREATING_UPDATING_SCALING] on [SpecInvalid] => Failed, "WriteStatus";
        "validate": [Running] on [SpecInvalid] => Failed, "WriteStatus";
        "Failed": [Failed] on [RetryDue] => Creating;
        "Terminating": [in LIVING] on [Deleted] => Terminating, "WriteStatus";
        "Terminating": [Terminating] on [Finalizing] => Cleanup, "Delete Service, PDB, Deployment, ConfigMap, Secret";
        "Terminating": [Cleanup] on [ChildrenGone] => Gone, "RemoveFinalizer";
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
        let json = serde_json::to_string(ExecutorPhase::ALL).unwrap();
        assert_eq!(json, r#"["Pending","Creating","Running","Updating","Scaling","Terminating","Failed"]"#);
    }

    #[test]
    fn every_state_shows_as_its_phase() {
        let shown: Vec<String> =
            ExecutorState::ALL.iter().map(|s| format!("{s}={}", s.phase().map_or("-", Named::as_str))).collect();
        insta::assert_snapshot!(shown.join(" "), @"Pending=Pending Creating=Creating ConfigMapCreation=Creating DeploymentCreation=Creating PodScheduling=Creating PodCreation=Creating Running=Running Updating=Updating ConfigMapUpdate=Updating RollingUpdate=Updating Scaling=Scaling Failed=Failed Terminating=Terminating Cleanup=Terminating Gone=-");
    }

    #[test]
    fn a_pass_that_sees_only_the_result_names_the_steps_between() {
        let way = MACHINE.path(ExecutorState::Creating, ExecutorState::Running).unwrap();
        let way: Vec<&str> = way.into_iter().map(Named::as_str).collect();
        insta::assert_snapshot!(way.join(" → "), @"Creating → ConfigMapCreation → DeploymentCreation → PodScheduling → PodCreation → Running");
        assert_eq!(MACHINE.path(ExecutorState::Gone, ExecutorState::Running), None);
        assert_eq!(MACHINE.path(ExecutorState::Cleanup, ExecutorState::Running), None);
    }

    #[test]
    fn deletion_is_taken_in_every_living_state() {
        for state in LIVING.iter().copied() {
            assert_eq!(MACHINE.step(state, Event::Deleted, |guard| match guard {}), Ok(ExecutorState::Terminating));
        }
    }
}
