//! Devices by claims: pods, templates, and the choice of `auto`. Owns no production code.

use orlop_core::hardware::Substrate;
use orlop_core::hardware::gpu::Allocation;
use serde_json::{Value, json};

use super::{bare, given, need, pod, tables};
use crate::hardware::{DeviceFacts, allocation, claim_template, node};

fn template(mut input: Value) -> String {
    input["allocation"] = json!("dra");
    let (_, merged) = given(&bare(), input, json!({})).unwrap();
    let template = claim_template(&merged, "performer-x-0a1b2c3d", "avs", "v1").unwrap();
    template.pointer("/spec/spec/devices/requests/0/exactly").unwrap().to_string()
}

#[test]
fn s1_4_claims_take_the_place_of_resources_and_selectors() {
    insta::assert_snapshot!(pod(json!({"gpuType": "a100", "gpuCount": 2, "allocation": "dra"})), @r#"{"containers":[{"name":"performer","resources":{"claims":[{"name":"gpu"}]}}],"tolerations":[{"key":"nvidia.com/gpu","operator":"Exists","effect":"NoSchedule"}],"resourceClaims":[{"name":"gpu","resourceClaimTemplateName":"performer-x-0a1b2c3d"}]}"#);
    let (_, merged) = given(&bare(), json!({"gpuCount": 1, "allocation": "dra"}), json!({})).unwrap();
    insta::assert_snapshot!(claim_template(&merged, "performer-x-0a1b2c3d", "avs", "v1beta2").unwrap(), @r#"{"apiVersion":"resource.k8s.io/v1beta2","kind":"ResourceClaimTemplate","metadata":{"name":"performer-x-0a1b2c3d","namespace":"avs"},"spec":{"spec":{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":"gpu.nvidia.com","allocationMode":"ExactCount","count":1,"selectors":[{"cel":{"expression":"\"type\" in device.attributes[\"gpu.nvidia.com\"] && device.attributes[\"gpu.nvidia.com\"].type == \"gpu\""}}]}}]}}}}"#);
    assert_eq!(claim_template(&given(&bare(), json!({"gpuCount": 1}), json!({})).unwrap().1, "n", "s", "v1"), None);
}

#[test]
fn s1_4_every_need_is_one_guarded_condition() {
    insta::assert_snapshot!(template(json!({"gpuType": "A100-SXM4-40GB"})), @r#"{"deviceClassName":"gpu.nvidia.com","allocationMode":"ExactCount","count":1,"selectors":[{"cel":{"expression":"\"type\" in device.attributes[\"gpu.nvidia.com\"] && device.attributes[\"gpu.nvidia.com\"].type == \"gpu\""}},{"cel":{"expression":"\"productName\" in device.attributes[\"gpu.nvidia.com\"] && device.attributes[\"gpu.nvidia.com\"].productName in [\"A100-SXM4-40GB\", \"A100-SXM4-80GB\", \"NVIDIA A100-SXM4-40GB\", \"NVIDIA A100-SXM4-80GB\"]"}}]}"#);
    insta::assert_snapshot!(template(json!({"gpuType": "h100-nvlink", "gpuCount": 4})), @r#"{"deviceClassName":"gpu.nvidia.com","allocationMode":"ExactCount","count":4,"selectors":[{"cel":{"expression":"\"type\" in device.attributes[\"gpu.nvidia.com\"] && device.attributes[\"gpu.nvidia.com\"].type == \"gpu\""}},{"cel":{"expression":"\"productName\" in device.attributes[\"gpu.nvidia.com\"] && device.attributes[\"gpu.nvidia.com\"].productName in [\"H100 80GB HBM3\", \"NVIDIA H100 80GB HBM3\"]"}}]}"#);
    insta::assert_snapshot!(template(json!({"gpuMemoryGiB": 24})), @r#"{"deviceClassName":"gpu.nvidia.com","allocationMode":"ExactCount","count":1,"selectors":[{"cel":{"expression":"\"type\" in device.attributes[\"gpu.nvidia.com\"] && device.attributes[\"gpu.nvidia.com\"].type == \"gpu\""}},{"cel":{"expression":"\"memory\" in device.capacity[\"gpu.nvidia.com\"] && device.capacity[\"gpu.nvidia.com\"].memory.compareTo(quantity(\"22119Mi\")) >= 0"}}]}"#);
    insta::assert_snapshot!(template(json!({"gpuType": "mig-1g.5gb", "gpuCount": 2})), @r#"{"deviceClassName":"mig.nvidia.com","allocationMode":"ExactCount","count":2,"selectors":[{"cel":{"expression":"\"profile\" in device.attributes[\"gpu.nvidia.com\"] && device.attributes[\"gpu.nvidia.com\"].profile == \"1g.5gb\""}}]}"#);
    insta::assert_snapshot!(template(json!({"gpuType": "amd-mi300x"})), @r#"{"deviceClassName":"gpu.amd.com","allocationMode":"ExactCount","count":1,"selectors":[{"cel":{"expression":"\"type\" in device.attributes[\"gpu.amd.com\"] && device.attributes[\"gpu.amd.com\"].type == \"full\""}},{"cel":{"expression":"\"productName\" in device.attributes[\"gpu.amd.com\"] && device.attributes[\"gpu.amd.com\"].productName in [\"AMD Instinct MI300X OAM\", \"AMD Instinct MI300X\"]"}}]}"#);
    insta::assert_snapshot!(template(json!({"gpuType": "intel", "gpuMemoryGiB": 48})), @r#"{"deviceClassName":"gpu.intel.com","allocationMode":"ExactCount","count":1,"selectors":[{"cel":{"expression":"\"productName\" in device.attributes[\"gpu.intel.com\"] && device.attributes[\"gpu.intel.com\"].productName in [\"Max_1100\", \"Max_1550\"]"}}]}"#);
}

#[test]
fn s1_4_auto_claims_only_where_all_is_there_and_nothing_is_advertised() {
    let tables = tables(json!({}));
    let words = tables.vocabulary(Substrate::Kubernetes);
    let need = need(json!({"gpuCount": 1, "allocation": "auto"}), &tables).gpu.unwrap();
    let facts = DeviceFacts {
        versions: ["v1".to_owned()].into(),
        classes: Some(["gpu.nvidia.com".to_owned()].into()),
        drivers: ["gpu.nvidia.com".to_owned()].into(),
    };
    let node = |gpus: u32| {
        node(&json!({"metadata": {"name": "n"}, "status": {"allocatable": {"nvidia.com/gpu": gpus.to_string()}}}))
            .unwrap()
    };
    let choose = |facts: &DeviceFacts, gpus| allocation(&need, &words, facts, &[node(gpus)]);
    assert_eq!(choose(&facts, 0), Allocation::Dra);
    assert_eq!(choose(&facts, 1), Allocation::DevicePlugin);
    for (name, wanted) in [
        ("nvidia.com/mig-1g.5gb", Allocation::DevicePlugin),
        ("nvidia.com/gpu.shared", Allocation::DevicePlugin),
        ("nvidia.com/pgpu", Allocation::DevicePlugin),
        ("amd.com/gpu", Allocation::Dra),
        ("nvidia.com/license", Allocation::Dra),
    ] {
        let mut other = node(0);
        other.machine.allocatable.set(name.parse().unwrap(), 1);
        assert_eq!(allocation(&need, &words, &facts, &[other]), wanted, "{name}");
    }
    assert_eq!(
        choose(&DeviceFacts { versions: ["v1alpha3".to_owned()].into(), ..facts.clone() }, 0),
        Allocation::DevicePlugin
    );
    assert_eq!(choose(&DeviceFacts { classes: None, ..facts.clone() }, 0), Allocation::DevicePlugin);
    assert_eq!(choose(&DeviceFacts { drivers: Default::default(), ..facts.clone() }, 0), Allocation::DevicePlugin);
    assert_eq!((facts.version(), DeviceFacts::default().version()), (Some("v1"), None));
}
