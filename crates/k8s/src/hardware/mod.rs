//! Hardware requests in Kubernetes: reads nodes as machines and the constraints of pods, and writes merged placements into pods and claims.
//! Owns the form of these objects; `orlop_core::hardware` decides their content.

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

/// Why a hardware request cannot be written into a pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TranslateError {
    /// The pod itself cannot be read.
    #[error(transparent)]
    Pod(#[from] PodError),
    /// The request cannot be satisfied, by itself or together with what the pod asks for.
    #[error(transparent)]
    Hardware(#[from] HardwareError),
}

/// Writes a hardware request into a pod specification: node affinity, tolerations, runtime class, and the resources and devices of the
/// container. Gives the new pod specification and the merged placement. `claim` is the name of the ResourceClaimTemplate, where the
/// request needs one.
///
/// # Errors
/// Kubernetes cannot express the request, it contradicts the pod, or the pod cannot be read.
///
/// ```
/// use orlop_core::hardware::{HardwareInput, Substrate, Tables, resolve};
/// use orlop_k8s::hardware::translate;
/// let tables = Tables::default();
/// let input = HardwareInput { gpu_type: Some("a100".into()), gpu_count: Some(2), ..HardwareInput::default() };
/// let resolved = resolve(&input.requirements(&tables)?, &tables)?;
/// let pod = serde_json::json!({"containers": [{"name": "main", "image": "busybox"}]});
/// let (pod, _) = translate(&pod, "main", &resolved, &tables.vocabulary(Substrate::Kubernetes), "")?;
/// assert_eq!(pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"], "2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
