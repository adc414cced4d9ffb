//! Hardware needs in Kubernetes: nodes read as machines, pods read as users, and
//! what is merged written into pods and claims. Owns the form of these objects; what they must say is decided in
//! `orlop_core::hardware`.

mod affinity;
mod allocation;
mod availability;
mod claim;
mod node;
mod pod;
#[cfg(test)]
mod tests;
mod user;

use orlop_core::hardware::merge::{Merged, merge};
use orlop_core::hardware::{HardwareError, Resolved, Resources, Vocabulary, place};
use serde_json::Value;

pub use affinity::PodError;
pub use allocation::{DeviceFacts, allocation};
pub use availability::{Availability, Reason, availability};
pub use claim::claim_template;
pub use node::{Node, node, runtime_class, slices};
pub use pod::write;
pub use user::read;

/// A pod that cannot be given what it needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TranslateError {
    /// The pod itself cannot be read.
    #[error(transparent)]
    Pod(#[from] PodError),
    /// The need, or what it comes to together with the pod.
    #[error(transparent)]
    Hardware(#[from] HardwareError),
}

/// The pod specification with everything a need asks for, and what it came to. The container gets the devices.
///
/// # Errors
/// Kubernetes has no words for the need, it contradicts the pod, or the pod cannot be read.
pub fn translate(
    pod: &Value,
    container: &str,
    resolved: &Resolved,
    words: &Vocabulary,
    claim: &str,
) -> Result<(Value, Merged), TranslateError> {
    let user = read(pod, container)?;
    let placement = place(resolved, &Resources::default(), words)?;
    let merged = merge(&user, &placement)?;
    let written = write(pod, container, &merged, claim)?;
    Ok((written, merged))
}
