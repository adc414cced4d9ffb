//! Checks of resource templates.

use serde_json::json;

use super::{Stage, SubstrateWorlds};
use crate::ports::substrate::{FlowOwner, Substrate};
use crate::spec::flow::ResourceTemplates;
use crate::testing::suite::{CheckResult, same};

fn owner<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> FlowOwner {
    let name = format!("suite-{}", stage.number);
    FlowOwner { uid: stage.key("step").flow.to_string(), name, namespace: "default".to_owned() }
}

fn templates() -> ResourceTemplates {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "scratch" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Mi" } } },
    });
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings" }, "data": { "mode": "fast" },
    });
    ResourceTemplates { volume_claim_templates: vec![claim], config_map_templates: vec![map] }
}

pub(super) async fn no_templates_give_no_resources<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let found = stage.open().await.ensure_resources(&owner(stage), &ResourceTemplates::default()).await?;
    same("the resources", &found, &Vec::new())
}

pub(super) async fn resources_are_named_after_the_flow<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    if !stage.worlds.has_resources() {
        return Ok(());
    }
    let owner = owner(stage);
    let found = stage.open().await.ensure_resources(&owner, &templates()).await?;
    let found: Vec<(String, String)> = found.into_iter().map(|object| (object.kind, object.name)).collect();
    let named = |kind: &str, name: &str| (kind.to_owned(), format!("{}-{name}", owner.name));
    same("the resources", &found, &vec![named("PersistentVolumeClaim", "scratch"), named("ConfigMap", "settings")])
}

pub(super) async fn resources_are_ensured_twice_alike<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    if !stage.worlds.has_resources() {
        return Ok(());
    }
    let substrate = stage.open().await;
    let first = substrate.ensure_resources(&owner(stage), &templates()).await?;
    same("the resources", &substrate.ensure_resources(&owner(stage), &templates()).await?, &first)?;
    drop(substrate);
    let substrate = stage.open().await;
    same("the next host's", &substrate.ensure_resources(&owner(stage), &templates()).await?, &first)
}
