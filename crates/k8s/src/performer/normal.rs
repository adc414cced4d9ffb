//! The spec by which pods are told apart: defaults filled in, those of the executor merged, without what no pod
//! shows. Owns that form and its hash; tables and flags of the operator are outside, so neither restarts a performer.

use orlop_core::hardware::HardwareInput;
use orlop_core::name::sha256_hex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::hourglass::spec::{
    DefaultScheduling, LocalName, PerformerConfig, PerformerSpec, PullPolicy, Scheduling, SecurityProfile,
};
use crate::value::canonical;

/// Changes when the same spec is rendered to another pod: then all are replaced.
const EPOCH: &str = "1";

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NormalSpec {
    /// Address of the service.
    pub avs_address: String,
    /// Image of the container.
    pub image: String,
    /// When it is pulled.
    #[serde(default)]
    pub image_pull_policy: PullPolicy,
    /// Credentials of registries.
    #[serde(default)]
    pub image_pull_secrets: Vec<LocalName>,
    /// How the container runs.
    #[serde(default)]
    pub config: PerformerConfig,
    /// Its resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Value>,
    /// Where the pod may run; the short form of node affinity is folded.
    #[serde(default)]
    pub scheduling: Scheduling,
    /// Hardware the machine must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware_requirements: Option<HardwareInput>,
    /// What the pod may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_profile: Option<SecurityProfile>,
    /// When a restart was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted_at: Option<String>,
    /// How often ConfigMaps and Secrets that its variables are from have changed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reference_generation: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl NormalSpec {
    /// The normal form of a spec, with the scheduling of its executor where it does not say its own.
    #[must_use]
    pub fn of(spec: &PerformerSpec, defaults: Option<&DefaultScheduling>) -> Self {
        let mut scheduling = spec.scheduling.clone().unwrap_or_default();
        if let Some(affinity) = scheduling.node_affinity.take() {
            scheduling.affinity = Some(with_nodes(scheduling.affinity.take(), affinity));
        }
        if let Some(defaults) = defaults {
            fill(&mut scheduling, defaults);
        }
        Self {
            avs_address: spec.avs_address.clone(),
            image: spec.image.clone(),
            image_pull_policy: spec.image_pull_policy,
            image_pull_secrets: spec.image_pull_secrets.clone(),
            config: spec.config.clone(),
            resources: spec.resources.clone().filter(|resources| *resources != json!({})),
            scheduling,
            hardware_requirements: spec
                .hardware_requirements
                .clone()
                .filter(|desired| *desired != HardwareInput::default()),
            security_profile: spec.security_profile,
            restarted_at: None,
            reference_generation: 0,
        }
    }

    /// Its hash.
    #[must_use]
    pub fn hash(&self) -> String {
        let text = canonical(&serde_json::to_value(self).unwrap_or_default());
        sha256_hex(format!("{EPOCH}\n{text}").as_bytes(), 64)
    }
}

/// An affinity with a part for nodes. One that is none stays as it is: rendering reports what is wrong.
fn with_nodes(whole: Option<Value>, nodes: Value) -> Value {
    let mut whole = whole.unwrap_or_else(|| json!({}));
    if let Some(members) = whole.as_object_mut() {
        members.insert("nodeAffinity".to_owned(), nodes);
    }
    whole
}

/// Fills what is not set, field by field.
fn fill(scheduling: &mut Scheduling, defaults: &DefaultScheduling) {
    if let Some(selector) = defaults.node_selector.as_ref().filter(|_| scheduling.node_selector.is_empty()) {
        scheduling.node_selector.clone_from(selector);
    }
    if let Some(tolerations) = defaults.tolerations.as_ref().filter(|_| scheduling.tolerations.is_empty()) {
        scheduling.tolerations.clone_from(tolerations);
    }
    if scheduling.runtime_class.is_none() {
        scheduling.runtime_class.clone_from(&defaults.runtime_class);
    }
    let own = scheduling.affinity.as_ref().is_some_and(|affinity| affinity.get("nodeAffinity").is_some());
    if let Some(affinity) = defaults.node_affinity.as_ref().filter(|_| !own) {
        scheduling.affinity = Some(with_nodes(scheduling.affinity.take(), affinity.clone()));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn spec(value: Value) -> PerformerSpec {
        let mut whole = json!({"avsAddress": "0x1", "image": "i"});
        value.as_object().unwrap().iter().for_each(|(name, value)| whole[name] = value.clone());
        serde_json::from_value(whole).unwrap()
    }

    fn hash(value: Value) -> String {
        NormalSpec::of(&spec(value), None).hash()
    }

    #[test]
    fn what_no_pod_shows_is_outside_the_hash() {
        let plain = hash(json!({}));
        for same in [
            json!({"version": "2"}),
            json!({"executorRef": "e"}),
            json!({"upgrade": {"strategy": "Recreate"}}),
            json!({"config": {}}),
            json!({"config": {"grpcPort": 9090}, "imagePullPolicy": "IfNotPresent"}),
            json!({"resources": {}, "scheduling": {}, "hardwareRequirements": {}}),
        ] {
            assert_eq!(hash(same.clone()), plain, "{same}");
        }
        for other in [
            json!({"config": {"grpcPort": 9091}}),
            json!({"image": "j"}),
            json!({"scheduling": {"nodeSelector": {"a": "b"}}}),
            json!({"hardwareRequirements": {"gpuCount": 1}}),
            json!({"securityProfile": "baseline"}),
        ] {
            assert_ne!(hash(other.clone()), plain, "{other}");
        }
    }

    #[test]
    fn the_short_form_of_node_affinity_is_the_long_one() {
        let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}});
        let short = hash(json!({"scheduling": {"nodeAffinity": affinity}}));
        assert_eq!(short, hash(json!({"scheduling": {"affinity": {"nodeAffinity": affinity}}})));
    }

    #[test]
    fn the_executor_fills_unset_fields_one_by_one() {
        let defaults = DefaultScheduling {
            node_selector: Some(BTreeMap::from([("pool".into(), "gpu".into())])),
            tolerations: Some(vec![json!({"key": "gpu", "operator": "Exists"})]),
            runtime_class: Some("kata".into()),
            node_affinity: Some(json!({"x": 1})),
        };
        let own = spec(json!({"scheduling": {"nodeSelector": {"mine": "1"}, "affinity": {"podAffinity": {}}}}));
        let scheduling = NormalSpec::of(&own, Some(&defaults)).scheduling;
        assert_eq!(scheduling.node_selector.into_keys().collect::<Vec<_>>(), ["mine"]);
        assert_eq!((scheduling.tolerations.len(), scheduling.runtime_class.as_deref()), (1, Some("kata")));
        assert_eq!(scheduling.affinity, Some(json!({"podAffinity": {}, "nodeAffinity": {"x": 1}})));
    }
}
