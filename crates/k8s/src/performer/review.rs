//! Whether a spec can have a pod, as far as that is known without a cluster: what the webhook is asked before a performer is
//! stored. Owns that question; what a pod looks like is in `render`.

use orlop_core::hardware::gpu::Allocation;
use serde_json::Value;

use super::normal::NormalSpec;
use super::render::{Invalid, Rendered, render};
use super::status::warnings;
use crate::hourglass::Config;
use crate::hourglass::children::Meta;
use crate::hourglass::cluster::Cluster;
use crate::hourglass::spec::PerformerSpec;

/// Translates the spec of an object, and gives what its writer should know. Neither its executor, whose scheduling may be taken
/// over, nor the nodes are known here: where devices are asked for in the way the cluster prefers, one of both ways is enough.
///
/// # Errors
/// Why it has no pod.
pub(crate) fn review(object: &Value, config: &Config) -> Result<Vec<String>, Invalid> {
    let spec = object.get("spec").cloned().unwrap_or_default();
    let spec: PerformerSpec = serde_json::from_value(spec)
        .map_err(|error| Invalid { reason: "InvalidSpec", message: format!("cannot be read: {error}") })?;
    let (meta, cluster) = (Meta::of(object), Cluster::default());
    let render_as = |kept: Allocation| -> Result<Rendered, Invalid> {
        render(NormalSpec::of(&spec, None), &meta, config, &cluster, Some(kept))
    };
    let open = spec.hardware_requirements.as_ref().is_some_and(|desired| desired.allocation == Some(Allocation::Auto));
    let desired = match render_as(Allocation::DevicePlugin) {
        Err(error) if open => render_as(Allocation::Dra).map_err(|_| error)?,
        answer => answer?,
    };
    Ok(warnings(&desired).map(|(reason, message)| format!("{reason}: {message}")).collect())
}
