//! Pods as processes of this machine, as the flow contract describes local processes.
//!
//! Every pod has a *shim*: a process that outlives the host that started it, runs the pod's containers one after the other,
//! enforces its limits, captures its output and writes down how it ended. The shim is a hidden part of the program that
//! embeds the runtime: [`ShimProgram`] says how to start it, and that program calls [`shim::main`].
//!
//! # At most one execution
//! A pod is run by the shim that makes the claim on the pod's directory, and a claim is made once (`record`). It is
//! written before anything runs and its maker holds a lock for life. So a later host finds a record of the end;
//! or a held lock: the pod lives, and its end is awaited through the kernel; or a claim without either: the shim died
//! with what it knew, the pod is Lost and what it left behind is ended. The order to a shim comes over a socket; a shim
//! that gets only a part of it, because its parent was killed, claims nothing.
//!
//! # Ends
//! The process of a container is killed by the kernel when its shim dies. Its descendants are the shim's to end, also
//! those that left their group and session: the shim is the reaper of all of them. Time a pod is frozen does not count
//! for its deadline; limits are kept by the shim and need no parent.
//!
//! # Secrets
//! Values marked as secret reach the shim over its socket and the container in its environment. They are written to no
//! file and no argument list of the runtime's, and masked in logs, last words and errors.
//!
//! # Privacy of paths
//! See [`Paths`]. No container of this runtime is a sandbox: it runs as this user, on this machine, and sees its files.

pub(crate) mod cgroup;
pub(crate) mod failure;
pub(crate) mod identity;
mod layout;
mod orphans;
mod paths;
mod probe;
mod record;
mod request;
mod runtime;
pub mod shim;
mod start;
pub(crate) mod tree;
mod watch;
mod wire;

pub use cgroup::Limits;
pub use paths::Paths;
pub use probe::Capabilities;
pub use record::ExitRecord;
pub use runtime::{ProcessOptions, ProcessRuntime};
pub use start::ShimProgram;

/// Variable in the environment of every process of a pod by which they are recognised.
pub(crate) const MARKER: &str = "ORLOP_POD";
