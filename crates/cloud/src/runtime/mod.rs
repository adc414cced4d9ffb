//! Running attempts on one machine. Owns the port between the emulation of a `batch/v1` Job and what really runs its
//! pods: processes or containers.

pub mod job;
pub mod logs;
pub mod pod;
