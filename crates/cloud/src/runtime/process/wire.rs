//! What travels over sockets between runtime, supervisor and launcher. Owns the messages and their framing: a message is taken
//! whole or not at all. Secrets travel here and nowhere else.

use std::fmt;
use std::io::{self, Read};
use std::path::PathBuf;

use orlop_core::time::Time;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::cgroup::{Bounds, Cgroup};
use super::child::Credentials;
use super::identity::Identity;
use super::layout::Layout;
use super::paths::Paths;
use super::rlimit::ResourceLimits;
use crate::runtime::pod::{ContainerPlan, EnvText, Mount, PodKey};

/// The longest message: 256 MiB.
const MESSAGE_MAX: u64 = 256 * 1024 * 1024;

/// What a supervisor is asked for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SupervisorCommand {
    /// Keep a pod.
    Keep(Box<KeepOrder>),
    /// Try what this machine allows.
    Probe,
}

/// A pod to keep.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct KeepOrder {
    /// The time by which the runtime goes: the supervisor's from its first pod on.
    pub(crate) now: Time,
    pub(crate) key: PodKey,
    pub(crate) directory: PathBuf,
    pub(crate) stdout: PathBuf,
    pub(crate) stderr: PathBuf,
    pub(crate) init: Vec<Container>,
    pub(crate) main: Container,
    pub(crate) outputs: Vec<String>,
    /// Files whose content is masked in the logs.
    pub(crate) secret_files: Vec<PathBuf>,
    pub(crate) further_groups: Vec<u32>,
    /// How often a failed container may be started again, all together.
    pub(crate) restart_limit: u32,
    /// Delays before starting again; the last one repeats.
    pub(crate) restart_delays_ms: Vec<u64>,
    pub(crate) grace_ms: u64,
    pub(crate) active_deadline_ms: Option<u64>,
    pub(crate) paths: Paths,
    /// Where the pod's control group is made.
    pub(crate) cgroup_parent: Option<PathBuf>,
    /// Names of variables of the supervisor's own environment that containers see.
    pub(crate) inherit: Vec<String>,
    /// The umask of containers; none: that of the supervisor.
    pub(crate) umask: Option<u32>,
    /// Limits of resources of each process.
    pub(crate) limits: ResourceLimits,
}

/// A container of a pod to keep.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Container {
    pub(crate) name: String,
    /// Command and arguments.
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<Variable>,
    pub(crate) working_dir: Option<String>,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) cpu_limit_milli: Option<u64>,
    pub(crate) cpu_request_milli: Option<u64>,
    pub(crate) memory_limit_bytes: Option<u64>,
    pub(crate) gpus: Vec<u32>,
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) last_words_path: String,
    pub(crate) last_words_from_log: bool,
}

/// A variable of a container's environment.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) secret: bool,
}

impl fmt::Debug for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = EnvText { value: self.value.clone(), secret: self.secret };
        write!(f, "{}={value:?}", self.name)
    }
}

impl From<&ContainerPlan> for Container {
    fn from(plan: &ContainerPlan) -> Self {
        let env = plan.env.iter().map(|(name, text)| Variable {
            name: name.clone(),
            value: text.value.clone(),
            secret: text.secret,
        });
        Self {
            name: plan.name.clone(),
            argv: plan.command.iter().chain(&plan.args).cloned().collect(),
            env: env.collect(),
            working_dir: plan.working_dir.clone(),
            mounts: plan.mounts.clone(),
            cpu_limit_milli: plan.cpu_limit_milli,
            cpu_request_milli: plan.cpu_request_milli,
            memory_limit_bytes: plan.memory_limit_bytes,
            gpus: plan.gpus.clone(),
            user: plan.user,
            group: plan.group,
            last_words_path: plan.termination_message_path.clone(),
            last_words_from_log: plan.message_falls_back_to_logs,
        }
    }
}

impl From<&Container> for Bounds {
    fn from(container: &Container) -> Self {
        Self {
            cpu_milli: container.cpu_limit_milli,
            weight_milli: container.cpu_request_milli,
            memory_bytes: container.memory_limit_bytes,
            pids: None,
        }
    }
}

/// What a supervisor answers to [`SupervisorCommand::Keep`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum KeepReply {
    /// It has the pod.
    Claimed(Identity),
    /// Another supervisor has or had it.
    Taken,
    /// It cannot keep the pod, and did not claim it: the kind of error and a message.
    Refused(Option<i32>, String),
}

/// A container's process to become.
#[derive(Debug)]
pub(crate) struct LaunchOrder {
    /// Process id of the supervisor.
    pub(crate) supervisor: i32,
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<Variable>,
    pub(crate) working_dir: String,
    pub(crate) credentials: Credentials,
    /// Open files, at most.
    pub(crate) files: u64,
    /// The group that limits it.
    pub(crate) cgroup: Option<Cgroup>,
    /// Limits of resources of the process.
    pub(crate) limits: ResourceLimits,
    /// Its umask; none: that of the supervisor.
    pub(crate) umask: Option<u32>,
    /// What to see instead of the machine's file system.
    pub(crate) view: Option<View>,
}

/// A view of the file system of a container's own.
#[derive(Debug)]
pub(crate) struct View {
    /// Whether a user namespace is needed for it.
    pub(crate) user_namespace: bool,
    /// Directory of the pod.
    pub(crate) directory: PathBuf,
    /// Mounts, those of the plan and that of the last words.
    pub(crate) mounts: Vec<Mount>,
    /// Files for output.
    pub(crate) outputs: Vec<String>,
}

/// What a launcher says before it becomes the container's process, or instead.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LaunchReply {
    /// What the container sees where.
    Layout(Layout),
    /// It cannot become the process: the exit code of shells for that and a message.
    Failed(i32, String),
}

/// Encodes a message: eight bytes of length, then JSON.
///
/// # Errors
/// When a path is not UTF-8.
pub(crate) fn encode<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(message)?;
    let mut bytes = Vec::with_capacity(json.len() + 8);
    bytes.extend_from_slice(&(json.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&json);
    Ok(bytes)
}

fn length_of(bytes: [u8; 8]) -> io::Result<u64> {
    let length = u64::from_le_bytes(bytes);
    if length > MESSAGE_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "this is not a message for a supervisor"));
    }
    Ok(length)
}

/// Takes the first message off what was received, if it is whole.
///
/// # Errors
/// When it is longer than a message may be, or of another form.
#[cfg(feature = "worker")]
pub(crate) fn take<T: DeserializeOwned>(received: &mut Vec<u8>) -> io::Result<Option<T>> {
    let Some((length, rest)) = received.split_first_chunk::<8>() else { return Ok(None) };
    let length = usize::try_from(length_of(*length)?).map_err(io::Error::other)?;
    let Some(json) = rest.get(..length) else { return Ok(None) };
    let message = serde_json::from_slice(json)?;
    received.drain(..8 + length);
    Ok(Some(message))
}

/// Reads one message; none at the end.
///
/// # Errors
/// When the other side went away within a message.
pub(crate) fn decode<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 8];
    if from.read(&mut length[..1])? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut length[1..])?;
    let length = length_of(length)?;
    let mut json = Vec::new();
    from.take(length).read_to_end(&mut json)?;
    if json.len() as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(serde_json::from_slice(&json)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_message_is_none() {
        let bytes = encode(&KeepReply::Taken).unwrap();
        assert!(decode::<KeepReply>(&mut &bytes[..0]).unwrap().is_none());
        for cut in 1..bytes.len() {
            assert!(decode::<KeepReply>(&mut &bytes[..cut]).is_err(), "{cut}");
        }
        assert!(decode::<KeepReply>(&mut &bytes[..]).unwrap().is_some());
        assert!(decode::<KeepReply>(&mut &b"POST / HTTP/1.1\r\n"[..]).is_err());
    }

    #[cfg(feature = "worker")]
    #[test]
    fn messages_are_taken_whole_or_not_at_all() {
        let mut received = [encode(&"one").unwrap(), encode(&"two").unwrap()].concat();
        received.pop();
        assert_eq!(take::<String>(&mut received).unwrap().as_deref(), Some("one"));
        assert_eq!(take::<String>(&mut received).unwrap(), None);
    }

    #[test]
    fn debug_shows_no_secret() {
        let variable = |secret| Variable { name: "A".to_owned(), value: "hunter22".to_owned(), secret };
        assert_eq!(format!("{:?} {:?}", variable(true), variable(false)), "A=EnvText(***) A=EnvText(\"hunter22\")");
    }
}
