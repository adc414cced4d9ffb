//! Hosts, the programs around the engines: a host tells an engine what happens, stores it, and carries out what the engine decides.
//! [`flow`] is the host of one flow; the other modules are those of one machine, of a fleet's server and workers, and of Kubernetes.

#[cfg(all(unix, feature = "fleet"))]
pub mod client_token;
#[cfg(feature = "kube")]
pub mod cluster;
#[cfg(all(unix, feature = "run"))]
pub mod concurrency_key;
#[cfg(all(unix, feature = "run"))]
pub mod control;
pub mod flow;
#[cfg(feature = "run")]
pub mod home;
#[cfg(feature = "run")]
pub mod local;
#[cfg(feature = "kube")]
pub mod operator;
#[cfg(all(unix, feature = "fleet", feature = "cli"))]
pub(crate) mod private;
#[cfg(all(any(feature = "fleet", feature = "kube"), feature = "cli"))]
mod program;
#[cfg(feature = "provisioner")]
pub mod provisioner;
#[cfg(feature = "fleet")]
pub mod scheduler;
#[cfg(all(any(feature = "fleet", feature = "kube"), feature = "cli"))]
mod settings;
#[cfg(all(feature = "fleet", target_os = "linux"))]
pub mod worker;
