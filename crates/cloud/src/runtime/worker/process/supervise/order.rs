//! What an agent orders of its supervisor, over a pipe. Owns the form: length and JSON. Secrets pass here and are written
//! to no file.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orlop_core::error::Problem;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::runtime::process::RoleProgram;
use crate::runtime::process::rlimit::ResourceLimits;
use crate::runtime::worker::JobRuntime;
#[cfg(feature = "docker")]
use crate::runtime::worker::docker::{ContainerOptions, ContainerRuntime};
use crate::runtime::worker::event::AttemptEvents;
use crate::runtime::worker::plan::AttemptPlan;
use crate::runtime::worker::process::{Enforce, ProcessOptions, ProcessRuntime};

/// The first order: what runs attempts, and what all of them need.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::runtime::worker) enum Tools {
    /// They are processes.
    Processes(Processes),
    /// They are containers.
    #[cfg(feature = "docker")]
    Containers(ContainerOptions),
}

/// What processes need.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::runtime::worker) struct Processes {
    work: PathBuf,
    secrets: Option<PathBuf>,
    worker: String,
    mark: String,
    gpu_vendors: Vec<String>,
    keep_failed: usize,
    /// Whether groups are made, and below which.
    grouped: bool,
    cgroup: Option<PathBuf>,
    launcher: Option<(PathBuf, Vec<String>)>,
    limits: ResourceLimits,
    users: bool,
}

/// To start an attempt whose control files are there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Start {
    pub(super) plan: AttemptPlan,
    /// What is left of the lease.
    pub(super) lease_ms: u64,
}

impl Tools {
    /// For a supervisor of processes.
    pub(in crate::runtime::worker) fn of_processes(options: &ProcessOptions) -> Self {
        let ProcessOptions { work, secrets, worker, mark, gpu_vendors, keep_failed, cgroup, limits, users, .. } =
            options.clone();
        let text = |argument: &OsString| argument.to_string_lossy().into_owned();
        let launcher = options.launcher.as_ref();
        let launcher = launcher.map(|program| (program.path.clone(), program.args.iter().map(text).collect()));
        let grouped = options.enforce != Enforce::Off;
        Self::Processes(Processes {
            work,
            secrets,
            worker,
            mark,
            gpu_vendors,
            keep_failed,
            grouped,
            cgroup,
            launcher,
            limits,
            users,
        })
    }

    /// The directory of attempts.
    pub(super) fn work(&self) -> &Path {
        match self {
            Self::Processes(processes) => &processes.work,
            #[cfg(feature = "docker")]
            Self::Containers(options) => &options.work,
        }
    }

    /// The runtime in the supervisor, which tells `events`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(super) fn runtime(&self, events: Arc<dyn AttemptEvents>) -> Result<Box<dyn JobRuntime>, Problem> {
        match self {
            Self::Processes(processes) => Ok(Box::new(ProcessRuntime::new(processes.options(), events)?)),
            #[cfg(feature = "docker")]
            Self::Containers(options) => {
                let options = ContainerOptions { inside: true, ..options.clone() };
                Ok(Box::new(ContainerRuntime::new(options, events)?))
            }
        }
    }
}

impl Processes {
    /// The choices for the runtime in the supervisor, which does nothing else.
    fn options(&self) -> ProcessOptions {
        let Self { work, secrets, worker, mark, gpu_vendors, keep_failed, grouped, cgroup, launcher, limits, users } =
            self.clone();
        let launcher =
            launcher.map(|(path, args)| RoleProgram { path, args: args.into_iter().map(Into::into).collect() });
        ProcessOptions {
            secrets,
            mark,
            gpu_vendors,
            keep_failed,
            exclusive: true,
            inside: true,
            enforce: if grouped { Enforce::Auto } else { Enforce::Off },
            cgroup,
            launcher,
            limits,
            users,
            ..ProcessOptions::new(worker, work)
        }
    }
}

/// Appends an order.
pub(super) fn put<T: Serialize>(order: &T, out: &mut Vec<u8>) -> io::Result<()> {
    let json = serde_json::to_vec(order)?;
    let len = u32::try_from(json.len()).map_err(io::Error::other)?;
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&json);
    Ok(())
}

/// Takes the first order off, if it is whole.
pub(super) fn next<T: DeserializeOwned>(bytes: &mut Vec<u8>) -> io::Result<Option<T>> {
    let Some((head, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let len = u32::from_le_bytes(*head) as usize;
    let Some(json) = rest.get(..len) else { return Ok(None) };
    let order = serde_json::from_slice(json)?;
    bytes.drain(..4 + len);
    Ok(Some(order))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_come_whole_or_not_at_all() {
        let mut bytes = Vec::new();
        put(&"one", &mut bytes).unwrap();
        put(&"two", &mut bytes).unwrap();
        let mut torn = bytes[..bytes.len() - 1].to_vec();
        assert_eq!(next::<String>(&mut torn).unwrap().as_deref(), Some("one"));
        assert_eq!(next::<String>(&mut torn).unwrap(), None);
    }
}
