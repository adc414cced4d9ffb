//! Pods as processes of this machine.
//!
//! A *supervisor* runs the pods: a process that outlives the host that started it, runs the containers of each pod one after the
//! other, enforces their limits, captures their output and records how they ended. It is a hidden role of your own program:
//! [`RoleProgram`] says with which arguments your program is started as supervisor, and `main` then calls [`supervisor::main`]:
//!
//! ```no_run
//! use std::process::ExitCode;
//! use orlop_cloud::runtime::process::{ProcessRuntime, RoleProgram, supervisor};
//!
//! fn main() -> ExitCode {
//!     if std::env::args().nth(1).as_deref() == Some("__supervisor") {
//!         return supervisor::main();
//!     }
//!     let path = std::env::current_exe().expect("this program has a path");
//!     let pods = ProcessRuntime::new(RoleProgram { path, args: vec!["__supervisor".into()] });
//!     // `pods` is a `PodRuntime`: hand it to `LocalSubstrate::open`, or call `start` and `wait` with plans of pods.
//!     drop(pods);
//!     ExitCode::SUCCESS
//! }
//! ```
//!
//! # At most one execution
//! A pod is run by the supervisor that makes the claim on the pod's directory, and a claim is made once (`record`). It is
//! written before anything runs and its maker holds a lock until the end is written. So a later host finds a record of the end;
//! or a held lock: the pod lives, and its end is awaited through the kernel; or a claim without either: the supervisor died
//! with what it knew, the pod is Lost and what it left behind is ended. An order to a supervisor comes over a socket; of an order
//! that came in part only, because its parent was killed, nothing is claimed.
//!
//! # Ends
//! The process of a container is killed by the kernel when its supervisor dies. Its descendants are the supervisor's to end, also
//! those that left their group and session: the supervisor is the reaper of all of them, and tells those of one pod from those of
//! others by group, session, mark and mounts (`tree`). Time a pod is frozen does not count for its deadline; limits are kept by the
//! supervisor and need no parent.
//!
//! # Secrets
//! Values marked as secret reach the supervisor over its socket and the container in its environment. They are written to no
//! file and no argument list of the runtime's, and masked in logs, last words and errors.
//!
//! # Privacy of paths
//! See [`Paths`]. No container of this runtime is a sandbox: it runs as this user, on this machine, and sees its files.

pub(crate) mod cgroup;
pub(crate) mod child;
pub(crate) mod failure;
pub(crate) mod identity;
mod layout;
mod orphans;
mod paths;
mod probe;
mod record;
mod request;
pub(crate) mod rlimit;
mod runtime;
mod start;
pub mod supervisor;
pub(crate) mod tree;
mod watch;
pub(crate) mod watcher;
pub(crate) mod wire;

pub use cgroup::Limits;
pub use paths::Paths;
pub use probe::Capabilities;
pub use record::ExitRecord;
pub use rlimit::{ResourceLimit, ResourceLimits};
pub use runtime::{ProcessOptions, ProcessRuntime};
pub use start::RoleProgram;

/// Variable in the environment of every process of a pod by which they are recognised.
pub(crate) const MARKER: &str = "ORLOP_POD";
