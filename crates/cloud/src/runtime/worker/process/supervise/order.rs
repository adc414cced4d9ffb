//! What an agent orders of its supervisor, over a pipe: messages as between runtime and supervisor of pods. Secrets pass here and are
//! written to no file.

use std::path::Path;
use std::sync::Arc;

use orlop_core::error::Problem;
use serde::{Deserialize, Serialize};

use crate::runtime::worker::JobRuntime;
#[cfg(feature = "docker")]
use crate::runtime::worker::docker::{ContainerOptions, ContainerRuntime};
use crate::runtime::worker::event::AttemptEvents;
use crate::runtime::worker::plan::AttemptPlan;
use crate::runtime::worker::process::{Enforce, ProcessOptions, ProcessRuntime};

/// The first order: the options of the runtime in the supervisor, which are those of the agent's own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::runtime::worker) enum RuntimeOptions {
    /// Of processes.
    Processes(ProcessOptions),
    /// Of containers.
    #[cfg(feature = "docker")]
    Containers(ContainerOptions),
}

/// To start an attempt whose control files are there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Start {
    pub(super) plan: AttemptPlan,
    /// What is left of the lease.
    pub(super) lease_ms: u64,
}

impl RuntimeOptions {
    /// The directory of attempts.
    pub(super) fn work(&self) -> &Path {
        match self {
            Self::Processes(options) => &options.work,
            #[cfg(feature = "docker")]
            Self::Containers(options) => &options.work,
        }
    }

    /// Opens the runtime, which reports to `events`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(super) fn open(&self, events: Arc<dyn AttemptEvents>) -> Result<Box<dyn JobRuntime>, Problem> {
        match self.clone() {
            Self::Processes(options) => {
                // What is required was judged by the agent. A supervisor runs nothing but attempts.
                let enforce = if options.enforce == Enforce::Off { Enforce::Off } else { Enforce::Auto };
                let options = ProcessOptions { enforce, exclusive: true, inside: true, ..options };
                Ok(Box::new(ProcessRuntime::new(options, events)?))
            }
            #[cfg(feature = "docker")]
            Self::Containers(options) => {
                let options = ContainerOptions { inside: true, ..options };
                Ok(Box::new(ContainerRuntime::new(options, events)?))
            }
        }
    }
}
