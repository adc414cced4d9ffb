//! What a controller is to the operator: a name with a switch, the resources it must be able to list, and a loop.

use async_trait::async_trait;

use super::Stop;

/// The controllers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Which {
    /// Flows: objects of the kind JobFlow.
    JobFlow,
    /// Performers: objects of the kind Performer.
    Performer,
    /// Executors: objects of the kind HourglassExecutor.
    Executor,
}

impl Which {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::JobFlow, Self::Performer, Self::Executor];

    /// Its name, as flags and labels have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::JobFlow => "jobflow",
            Self::Performer => "performer",
            Self::Executor => "executor",
        }
    }

    /// The file with the definition of its kind.
    #[must_use]
    pub const fn definition(self) -> &'static str {
        match self {
            Self::JobFlow => "deploy/crds/jobflows.workflow.kube-zen.io.yaml",
            Self::Performer => "deploy/crds/performers.hourglass.eigenlayer.io.yaml",
            Self::Executor => "deploy/crds/hourglassexecutors.hourglass.eigenlayer.io.yaml",
        }
    }
}

/// A controller as the operator runs it.
#[async_trait]
pub(super) trait Controls: Send + Sync {
    /// Works until `stop` comes; what is under way is finished first. It is called while this process leads and is dropped
    /// when it does not any more.
    async fn run(&self, stop: &Stop);
}
