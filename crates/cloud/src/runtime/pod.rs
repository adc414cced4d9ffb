//! A pod of an attempt, and the port that runs it. A pod is a sequence of init containers and one main container; the emulation of Jobs
//! ([`job`](super::job)) decides how many pods an attempt has and what their ends mean.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use orlop_core::attempt::AttemptKey;
use orlop_core::error::Problem;
use orlop_core::time::Time;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// [`PodRuntime::kind`] of plain processes.
pub(crate) const PROCESS: &str = "Process";

/// Which images are pulled, whatever pods say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pull {
    /// Those that are not on the machine.
    Missing,
    /// All, each time.
    Always,
    /// None.
    Never,
}

/// A pod of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodKey {
    /// The attempt.
    pub attempt: AttemptKey,
    /// Number of the pod within the attempt, from 0, in creation order.
    pub pod: u32,
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.attempt, self.pod)
    }
}

/// Everything needed to run a pod, resolved: no placeholder, reference or volume name is left.
#[derive(Clone, Debug, PartialEq)]
pub struct PodPlan {
    /// Which pod.
    pub key: PodKey,
    /// Name of the pod and its container: the Job's name, for later pods with a suffix.
    pub name: String,
    /// Labels of the pod.
    pub labels: BTreeMap<String, String>,
    /// Containers that run first, one after the other; the first failure fails the pod.
    pub init: Vec<ContainerPlan>,
    /// The container that does the work.
    pub main: ContainerPlan,
    /// Whether a failed container is started again in place (`restartPolicy: OnFailure`), after
    /// [`restart_delay`](super::job::backoff::restart_delay).
    pub restart_on_failure: bool,
    /// How often that may happen in this pod, all containers together: what is left of the Job's `backoffLimit`. The
    /// failure after the last restart fails the pod.
    pub restart_limit: u32,
    /// Time between asking the pod to end and killing it.
    pub grace: Duration,
    /// Limit of the pod's time from its start, the time it was frozen not counted.
    pub active_deadline: Option<Duration>,
    /// Further groups of all containers: `fsGroup` and `supplementalGroups`.
    pub further_groups: Vec<u32>,
    /// Namespaces of the host it shares; only where the [policy](super::plan::TemplatePolicy) allows privileges.
    pub host_namespaces: HostNamespaces,
    /// Host name inside, where one is asked for and the runtime can give it.
    pub hostname: Option<String>,
    /// Further lines of the hosts file: address and names.
    pub host_aliases: Vec<(String, Vec<String>)>,
    /// Logins to registries that the pod brings along (`imagePullSecrets`), for runtimes that pull images.
    pub pull_secrets: Vec<PullSecret>,
    /// Files of this machine whose content is a secret that containers see: keys of mounted Secrets. They exist until the
    /// pod has ended, and what they hold is masked as the secrets of the environment are.
    pub secret_files: Vec<PathBuf>,
    /// Where standard output of all containers goes, with a time stamp before each line; appended to.
    pub stdout: PathBuf,
    /// Where standard error of all containers goes, likewise.
    pub stderr: PathBuf,
    /// Files and directories of this machine that were delivered for the main container, whose user is to own them.
    pub delivered: Vec<PathBuf>,
    /// Absolute paths inside the main container that outputs are read from at the end. A runtime whose pods share the
    /// machine's file system gives those outside of mounts a private place, so that two pods never write to one file.
    pub outputs: Vec<String>,
    /// Directory of this pod for the runtime's own records; exists and is the pod's alone.
    pub directory: PathBuf,
}

/// A Secret with logins to registries, looked up. Its debug form shows its name only.
#[derive(Clone, PartialEq, Eq)]
pub struct PullSecret {
    /// Its name.
    pub name: String,
    /// What it holds, in the form of the `docker` command's configuration; else why it cannot be used. Only a runtime
    /// that has to pull an image minds.
    pub config: Result<String, String>,
}

impl fmt::Debug for PullSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PullSecret").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Namespaces of the host that a pod shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostNamespaces {
    /// `hostNetwork`.
    pub network: bool,
    /// `hostPID`.
    pub pid: bool,
    /// `hostIPC`.
    pub ipc: bool,
}

/// A container of a pod, resolved. Command and arguments may hold secrets that the manifest put there: every one of them
/// is also a value of `env` marked as secret, or part of one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerPlan {
    /// Name of the container.
    pub name: String,
    /// Image, for runtimes that have images.
    pub image: Option<String>,
    /// Always, IfNotPresent or Never.
    pub image_pull_policy: Option<String>,
    /// Entry point; empty means the image's own.
    pub command: Vec<String>,
    /// Arguments.
    pub args: Vec<String>,
    /// Environment, in order; `$(VAR)` is expanded already.
    pub env: Vec<(String, EnvText)>,
    /// Directory to start in, as the container sees it.
    pub working_dir: Option<String>,
    /// Files and directories of the host that the container sees, parents before children.
    pub mounts: Vec<Mount>,
    /// CPU limit in millicores.
    pub cpu_limit_milli: Option<u64>,
    /// Memory limit in bytes.
    pub memory_limit_bytes: Option<u64>,
    /// CPU asked for, in millicores.
    pub cpu_request_milli: Option<u64>,
    /// Memory asked for, in bytes.
    pub memory_request_bytes: Option<u64>,
    /// GPUs of the machine it gets, by index; no other live pod has them.
    pub gpus: Vec<u32>,
    /// User to run as, where one is asked for.
    pub user: Option<u32>,
    /// Group to run as, where one is asked for.
    pub group: Option<u32>,
    /// File the container may write its last words to, as it sees it.
    pub termination_message_path: String,
    /// Whether the last log lines are its last words when it fails without any (`FallbackToLogsOnError`).
    pub message_falls_back_to_logs: bool,
    /// Whether the root file system is read-only.
    pub read_only_root: bool,
    /// Whether the container is privileged.
    pub privileged: bool,
    /// Capabilities to add.
    pub add_capabilities: Vec<String>,
    /// Capabilities to drop.
    pub drop_capabilities: Vec<String>,
    /// Seccomp profile, where one is asked for: `Unconfined`, `RuntimeDefault` or a file.
    pub seccomp: Option<String>,
}

/// A value of the environment.
#[derive(Clone, PartialEq, Eq)]
pub struct EnvText {
    /// The value.
    pub value: String,
    /// Whether it is or holds a secret: never written to disk, argv, logs or error texts.
    pub secret: bool,
}

impl fmt::Debug for EnvText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.secret { f.write_str("EnvText(***)") } else { write!(f, "EnvText({:?})", self.value) }
    }
}

/// A file or directory of the host that a container sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Where it is on the host; exists.
    pub source: PathBuf,
    /// Where the container sees it.
    pub target: String,
    /// Whether the container may not write to it.
    pub read_only: bool,
}

/// How a pod ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodExit {
    /// How it ended.
    pub result: PodResult,
    /// Its containers that terminated, init containers first.
    pub containers: Vec<ContainerExit>,
    /// When the first container started.
    pub started_at: Option<Time>,
    /// When the pod ended.
    pub ended_at: Time,
}

/// How a pod ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum PodResult {
    /// All containers ended with 0.
    Succeeded,
    /// A container failed, or the pod could not go on.
    Failed {
        /// NonZeroExit, Signalled, OOMKilled, DeadlineExceeded, or why it could not go on.
        reason: String,
        /// A sentence.
        message: String,
    },
    /// It was ended on request.
    Cancelled,
    /// Somebody else deleted it.
    Gone,
    /// There is no trace of it, or only of a part: its machine or its supervisor died.
    Lost,
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerExit {
    /// Name of the container.
    pub name: String,
    /// Exit code; 128 + n when ended by signal n.
    pub exit_code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether it ran out of memory.
    pub oom_killed: bool,
    /// Its last words, at most 4,096 bytes.
    pub message: String,
    /// Whether a secret was masked in them.
    #[serde(default)]
    pub masked: bool,
    /// Number of times it was started again in place.
    pub restarts: u32,
    /// When it started.
    pub started_at: Time,
    /// When it ended.
    pub ended_at: Time,
}

/// What runs pods on this machine.
#[async_trait]
pub trait PodRuntime: Send + Sync + 'static {
    /// Kind of the reference to what it creates for a pod whose container has this image: Process or Container.
    fn kind(&self, image: Option<&str>) -> &'static str;

    /// Starts a pod, or finds the one of that key: at most one execution per key ever, whatever crashes when.
    ///
    /// # Errors
    /// Invalid, Denied, Exists: can never run as it is. Transient, Capacity: ask again.
    async fn start(&self, plan: &PodPlan) -> Result<PodHandle, Problem>;

    /// Waits for the end of a pod, started by this process or an earlier one; Lost when there is no trace of it.
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    /// Transient when it cannot be seen now.
    async fn wait(&self, key: &PodKey, directory: &std::path::Path) -> Result<PodExit, Problem>;

    /// Whether what runs a pod can be reached, as that changes while [`PodRuntime::wait`] bears it: why it cannot, or nothing
    /// where it can. None for a runtime that needs nobody to reach its pods.
    fn outages(&self, _key: &PodKey, _directory: &std::path::Path) -> Option<watch::Receiver<Option<String>>> {
        None
    }

    /// Asks a pod to end, a frozen one too, and kills it with all its children after `grace`. Asked again, the earlier
    /// moment counts; asked while [`PodRuntime::start`] is at work, that may end early. Returns when it is under way; the
    /// end comes from [`PodRuntime::wait`]. A pod that has ended or never was is fine.
    ///
    /// # Errors
    /// Transient when it cannot be reached now.
    async fn stop(&self, key: &PodKey, directory: &std::path::Path, grace: Duration) -> Result<(), Problem>;

    /// Freezes a pod (`on`), so that its time limit stands still, or lets it go on.
    ///
    /// # Errors
    /// Transient when it cannot be reached now.
    async fn freeze(&self, key: &PodKey, directory: &std::path::Path, on: bool) -> Result<(), Problem>;

    /// A path inside the pod's main container as a path of this machine, for reading outputs after the end; the runtime
    /// may have to copy it out below `scratch` first. Asked for paths that no mount of the plan
    /// covers, and for those this process may not read. Symbolic
    /// links are the container's: they never lead to a file of this machine that the container does not see.
    ///
    /// # Errors
    /// NotFound; Transient when it cannot be seen now.
    async fn fetch(
        &self,
        key: &PodKey,
        plan: &PodPlan,
        inside: &str,
        scratch: &std::path::Path,
    ) -> Result<PathBuf, Problem>;

    /// Deletes what the runtime keeps of an ended pod outside its directory.
    ///
    /// # Errors
    /// Transient when it cannot be reached now.
    async fn remove(&self, key: &PodKey, directory: &std::path::Path) -> Result<(), Problem>;
}

/// What runs a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodHandle {
    /// Name: the pod's, or the container's.
    pub name: String,
    /// What runs it: process id and start time of its supervisor, or the container's id.
    pub id: String,
}
