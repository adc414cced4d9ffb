//! Creation of flows in a cluster. Owns their names and namespaces.

use orlop_core::name::sha256_hex;
use orlop_core::spec::flow::JobFlow;
use orlop_k8s::client;

use super::super::failure::Failure;
use super::super::globals::{GlobalArgs, Target};
use super::super::manifest::flow_name;
use super::super::target::{Created, NewFlow};
use super::with_hint;
use super::{Kube, created};

/// Creates the flow of a file. Without a name it has one that follows from the key.
///
/// # Errors
/// When the file is refused, or the server refuses it.
pub(super) async fn create(globals: &GlobalArgs, new: &NewFlow<'_>) -> Result<Created, Failure> {
    let (_, loaded) = new.read(Target::Kube)?;
    let key = new.key.map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned);
    let mut flow: JobFlow = loaded.manifest.flow.clone();
    flow.metadata.name = flow_name(&loaded.manifest, new.name, &sha256_hex(key.as_bytes(), 8));
    flow.metadata.generate_name = None;
    if new.suspend {
        flow.spec.suspend = Some(true);
    }
    let target = Kube::of(placed(globals, &flow)?);
    let cluster = target.cluster().await?;
    let parameters = new.parameters.iter().cloned().collect();
    let made = cluster.flows.create(client::NewFlow { flow, parameters, key }).await.map_err(with_hint)?;
    let made = created(made, &cluster.namespace);
    Ok(Created { target: Some(Box::new(target)), ..made })
}

/// Where a flow is created: in the namespace it names, which must not contradict the options.
fn placed(globals: &GlobalArgs, flow: &JobFlow) -> Result<GlobalArgs, Failure> {
    let (own, mut globals) = (&flow.metadata.namespace, globals.clone());
    match (own, &globals.namespace) {
        (Some(own), Some(given)) if own != given => {
            let name = &flow.metadata.name;
            return Err(Failure::usage(format!(
                "flow `{name}` says namespace `{own}`, and -n says `{given}`; leave one of them out"
            )));
        }
        (Some(own), None) => globals.namespace = Some(own.clone()),
        _ => {}
    }
    Ok(globals)
}
