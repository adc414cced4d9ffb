//! What a substrate on one machine is made of: directories, limits and the ports behind it.

use super::{Clock, SystemClock};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orlop_core::ports::artifact::ArtifactStore;

use crate::download::Download;
use crate::runtime::plan::TemplatePolicy;
use crate::runtime::plan::request::Machine;

/// Where files in memory are kept on Linux.
const MEMORY_DIR: &str = "/dev/shm";

/// Directories and limits.
#[derive(Clone, Debug)]
pub struct LocalOptions {
    /// Directory of the run; made where it is missing.
    pub run_dir: PathBuf,
    /// Directory with further claims, `<claim>/`.
    pub volumes_dir: Option<PathBuf>,
    /// Directory with Secrets, `<name>/<key>`.
    pub secrets_dir: Option<PathBuf>,
    /// Directory with ConfigMaps, `<name>/<key>`.
    pub configs_dir: Option<PathBuf>,
    /// Directory in memory for secret files and volumes of `medium: Memory`; without one they lie on disk.
    pub memory_dir: Option<PathBuf>,
    /// What the machine has; requests are counted against it.
    pub machine: Machine,
    /// What templates may ask for.
    pub policy: TemplatePolicy,
    /// Directory that containers begin in that run as plain processes and name none themselves; shown to them as it is.
    pub workdir: Option<PathBuf>,
}

impl LocalOptions {
    /// Options with a run directory: all resources of this machine, no privileges, and no further directories.
    #[must_use]
    pub fn new(run_dir: impl Into<PathBuf>) -> Self {
        let memory = Path::new(MEMORY_DIR);
        Self {
            run_dir: run_dir.into(),
            volumes_dir: None,
            secrets_dir: None,
            configs_dir: None,
            memory_dir: memory.is_dir().then(|| memory.to_owned()),
            machine: Machine::detect(),
            policy: TemplatePolicy::default(),
            workdir: None,
        }
    }
}

/// What a substrate uses beside its runtime.
#[derive(Clone)]
pub struct LocalPorts {
    /// Store of artifacts.
    pub store: Arc<dyn ArtifactStore>,
    /// Client for artifacts of kind `http`; without one they are unavailable.
    pub download: Option<Arc<dyn Download>>,
    /// Clock.
    pub clock: Arc<dyn Clock>,
}

impl LocalPorts {
    /// A store, no downloads, the clock of this machine.
    #[must_use]
    pub fn new(store: Arc<dyn ArtifactStore>) -> Self {
        Self { store, download: None, clock: Arc::new(SystemClock) }
    }
}
