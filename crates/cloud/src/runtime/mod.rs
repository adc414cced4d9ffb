//! Running attempts on one machine. Owns the port between the emulation of a `batch/v1` Job and what really runs its
//! pods: processes or containers.

mod blocking;
pub mod confidential;
#[cfg(feature = "docker")]
pub mod docker;
#[cfg(any(feature = "docker", all(feature = "process", target_os = "linux")))]
mod failure;
pub mod job;
pub mod local;
pub mod logs;
pub mod plan;
pub mod pod;
#[cfg(all(feature = "process", target_os = "linux"))]
pub mod process;
pub mod volume;
#[cfg(feature = "worker")]
pub mod worker;
