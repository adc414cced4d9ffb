//! Running attempts on one machine: a `batch/v1` Job is emulated ([`job`]), and its pods run as processes or containers (the port
//! [`pod::PodRuntime`]). [`local::LocalSubstrate`] puts both together.

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
