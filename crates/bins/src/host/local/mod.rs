//! The substrate of runs on this machine, put together from a run directory, an artifact store and the runtimes of processes and containers.

mod by_image;
mod configs;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use orlop_cloud::artifact::{CasStore, Limits};
use orlop_cloud::download::Download;
use orlop_cloud::runtime::local::{LocalOptions, LocalPorts, LocalSubstrate};
use orlop_cloud::runtime::plan::TemplatePolicy;
use orlop_cloud::runtime::pod::{PodRuntime, Pull};
use orlop_cloud::runtime::process::{ProcessRuntime, RoleProgram};
use orlop_core::error::{Class, Problem};
use orlop_core::ports::substrate::Substrate;
use orlop_dag::manifest::substrate::Runtime;
use serde::{Deserialize, Serialize};

pub use configs::DirectoryConfigMaps;

use by_image::ByImage;

use super::flow::Keep;

/// The reason of an error where steps are to run in containers, and no container engine answers.
pub const NO_ENGINE: &str = "NoEngine";
/// The reason of an error where steps are to run in containers, and this program was built without them.
pub const NOT_BUILT: &str = "NotBuilt";

/// What a run on this machine may use; kept with the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalSetup {
    /// What runs pods.
    #[serde(rename = "backend")]
    pub runtime: Runtime,
    /// Directory with Secrets, `<name>/<key>`.
    pub secrets_dir: Option<PathBuf>,
    /// Directory with ConfigMaps, `<name>/<key>`.
    pub configs_dir: Option<PathBuf>,
    /// Directory with claims, `<claim>/`.
    pub volumes_dir: Option<PathBuf>,
    /// Directories that steps may mount.
    pub allow_host_path: Vec<PathBuf>,
    /// Whether steps may have privileges.
    pub allow_privileged: bool,
    /// `backoffLimit` of Jobs that give none.
    pub job_backoff_default: u32,
    /// The most bytes an artifact may have.
    pub artifact_max_bytes: Option<u64>,
    /// Directory that steps begin in that run as plain processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workdir: Option<PathBuf>,
    /// Directory of the manifest: relative paths of the machine begin there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// Which images are pulled, whatever steps say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull: Option<Pull>,
    /// Whether containers and private directories of ended steps stay until the run is deleted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keep: bool,
    /// Whether the run goes by itself a while after its end: nobody named it, nor asked to keep it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub expires: bool,
    /// What names of containers begin with.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// Address of the container engine, as in `DOCKER_HOST`; none: where engines are looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// GPUs of this machine that steps may have; none: all of them.
    #[serde(skip)]
    pub gpus: Option<Vec<u32>>,
}

impl LocalSetup {
    /// The substrate of a run in a directory. `processes` runs pods without an image; `images` says
    /// whether any step names an image.
    ///
    /// # Errors
    /// When the directory is in use, cannot be used, or the container engine does not answer.
    pub async fn substrate(
        &self,
        run_dir: &Path,
        processes: Arc<dyn PodRuntime>,
        images: bool,
    ) -> Result<Arc<dyn Substrate>, Problem> {
        let limits = self.limits();
        let store = CasStore::open(run_dir, limits)?;
        let mut options = LocalOptions::new(run_dir);
        options.volumes_dir.clone_from(&self.volumes_dir);
        options.secrets_dir.clone_from(&self.secrets_dir);
        options.configs_dir.clone_from(&self.configs_dir);
        options.policy = TemplatePolicy {
            backoff_default: self.job_backoff_default,
            allow_privileged: self.allow_privileged,
            allow_host_path: self.allow_host_path.clone(),
            folder: self.folder.clone(),
        };
        options.workdir.clone_from(&self.workdir);
        if let Some(gpus) = &self.gpus {
            options.machine.gpus.clone_from(gpus);
        }
        let runtime = self.pods(processes, images).await?;
        let ports = LocalPorts { download: download(limits)?, ..LocalPorts::new(Arc::new(store)) };
        Ok(Arc::new(LocalSubstrate::open(runtime, options, ports)?))
    }

    /// Limits of artifacts, on their way out of a container too.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let limits = Limits::default();
        Limits { max_bytes: self.artifact_max_bytes.unwrap_or(limits.max_bytes), ..limits }
    }

    async fn pods(&self, processes: Arc<dyn PodRuntime>, images: bool) -> Result<Arc<dyn PodRuntime>, Problem> {
        Ok(match self.runtime {
            _ if !images => processes,
            Runtime::Process => processes,
            Runtime::Docker => engine(self).await?,
            Runtime::ByImage => Arc::new(ByImage::new(engine(self).await?, processes)),
        })
    }

    /// What becomes of steps that have ended.
    #[must_use]
    pub const fn kept(&self) -> Keep {
        if self.keep { Keep::Everything } else { Keep::Nothing }
    }

    /// ConfigMaps beside those of the flow.
    #[must_use]
    pub fn configs(&self) -> DirectoryConfigMaps {
        DirectoryConfigMaps::new(self.configs_dir.clone())
    }
}

/// What fetches artifacts over HTTP.
#[cfg(feature = "remote-artifacts")]
fn download(limits: Limits) -> Result<Option<Arc<dyn Download>>, Problem> {
    use orlop_cloud::http::{HttpDownload, Options};
    Ok(Some(Arc::new(HttpDownload::new(Options { max_bytes: limits.max_bytes, ..Options::default() })?)))
}

/// Nothing fetches artifacts in this build.
#[cfg(not(feature = "remote-artifacts"))]
fn download(_limits: Limits) -> Result<Option<Arc<dyn Download>>, Problem> {
    Ok(None)
}

/// An engine that is not there cannot be reached, however that is known.
#[cfg(feature = "docker")]
fn without(error: Problem) -> Problem {
    let class = if error.class == Class::NotFound { Class::Transient } else { error.class };
    Problem { class, ..error }.with_reason(NO_ENGINE)
}

/// The container engine of this machine.
#[cfg(feature = "docker")]
async fn engine(setup: &LocalSetup) -> Result<Arc<dyn PodRuntime>, Problem> {
    use orlop_cloud::runtime::docker::{DockerOptions, DockerRuntime};
    let mut options = DockerOptions::default();
    options.copies = setup.limits();
    options.prefix.clone_from(&setup.prefix);
    options.address.clone_from(&setup.engine);
    options.pull = setup.pull;
    Ok(Arc::new(DockerRuntime::connect(options).await.map_err(without)?))
}

/// This program was built without containers.
#[cfg(not(feature = "docker"))]
async fn engine(_setup: &LocalSetup) -> Result<Arc<dyn PodRuntime>, Problem> {
    Err(Problem::new(Class::Invalid, "this program was built without container support").with_reason(NOT_BUILT))
}

/// The hidden argument under which a program of ours is the supervisor of pods and attempts.
pub const SUPERVISOR: &str = "__supervisor";

/// Whether this program has looked whether it was started as the supervisor.
static INITIALIZED: AtomicBool = AtomicBool::new(false);

/// Notes that this program answers where it is started as the supervisor.
pub(crate) fn initialized() {
    INITIALIZED.store(true, Ordering::Relaxed);
}

/// To be called first of all in `main` by a program that runs steps as processes: the runtime starts the program again as the
/// supervisor of its pods, which outlives it. Where it gives an exit code, the program was that supervisor, and ends.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// fn main() -> ExitCode {
///     if let Some(code) = orlop::host::local::init() {
///         return code;
///     }
///     println!("here begins the program");
///     ExitCode::SUCCESS
/// }
/// ```
#[must_use]
pub fn init() -> Option<ExitCode> {
    initialized();
    let asked = std::env::args_os().nth(1).is_some_and(|argument| argument == SUPERVISOR);
    asked.then(orlop_cloud::runtime::process::supervisor::main)
}

/// The process runtime, with this program started again as its supervisor, by [`SUPERVISOR`].
///
/// # Errors
/// Invalid where the program did not call [`init`] at its beginning: started again, it would do its work again in place of a
/// supervisor's. When the program does not know where it is.
pub fn processes() -> Result<Arc<dyn PodRuntime>, Problem> {
    if !INITIALIZED.load(Ordering::Relaxed) {
        let message = "this program does not answer as the supervisor of its steps; call `orlop::host::local::init()` first of all in \
                       `main`, and return the exit code that it gives";
        return Err(Problem::new(Class::Invalid, message));
    }
    let path = if cfg!(target_os = "linux") {
        // The program as it runs: an upgrade of its file, or its removal, does not change the run.
        PathBuf::from("/proc/self/exe")
    } else {
        std::env::current_exe().map_err(|error| {
            Problem::new(Class::Fatal, "the program cannot find itself to start the supervisor of pods").because(error)
        })?
    };
    Ok(Arc::new(ProcessRuntime::new(RoleProgram { path, args: vec![SUPERVISOR.into()] })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_answer_as_its_own_supervisor_is_told_so() {
        // The program of the tests answers as no supervisor.
        let error = processes().err().expect("it is refused");
        assert_eq!(error.class, Class::Invalid);
        assert!(error.message.contains("call `orlop::host::local::init()` first"), "{error}");
        assert!(init().is_none());
        assert!(processes().is_ok());
    }
}
