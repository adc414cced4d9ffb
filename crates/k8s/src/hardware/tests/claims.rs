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
fn claims_take_the_place_of_resources_and_selectors() {
    insta::assert_snapshot!(pod(json!({"gpuType": "a100", "gpuCount": 2, "allocation": "dra"})), @r#"{"containers":[{"name":"performer","resources":{"claims":[{"name":"gpu"}]}}],"resourceClaims":[{"name":"gpu","resourceClaimTemplateName":"performer-x-0a1b2c3d"}],"tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]}"#);
    let (_, merged) = given(&bare(), json!({"gpuCount": 1, "allocation": "dra"}), json!({})).unwrap();
    insta::assert_snapshot!(claim_template(&merged, "performer-x-0a1b2c3d", "avs", "v1beta2").unwrap(), @r#"{"apiVersion":"resource.k8s.io/v1beta2","kind":"ResourceClaimTemplate","metadata":{"name":"performer-x-0a1b2c3d","namespace":"avs"},"spec":{"spec":{"devices":{"requests":[{"exactly":{"allocationMode":"ExactCount","count":1,"deviceClassName":"gpu.nvidia.com","selectors":[{"cel":{"expression":"\"type\" in device.attributes[\"gpu.nvidia.com\"] && device.attributes[\"gpu.nvidia.com\"].type == \"gpu\""}}]},"name":"gpu"}]}}}}"#);
    assert_eq!(claim_template(&given(&bare(), json!({"gpuCount": 1}), json!({})).unwrap().1, "n", "s", "v1"), None);
}

#[test]
fn every_need_is_one_guarded_condition() {
    insta::assert_snapshot!(template(json!({"gpuType": "A100-SXM4-40GB"})), @r#"{"allocationMode":"ExactCount","count":1,"deviceClassName":"gpu.nvidia.com","selectors":[{"cel":{"expression":"\"type\" in device.attributes[\"gpu.nvidia.com\"] && device.attributes[\"gpu.nvidia.com\"].type == \"gpu\""}},{"cel":{"expression":"\"productName\" in device.attributes[\"gpu.nvidia.com\"] && device.attributes[\"gpu.nvidia.com\"].productName in [\"A100-SXM4-40GB\", \"A100-SXM4-80GB\", \"NVIDIA A100-SXM4-40GB\", \"NVIDIA A100-SXM4-80GB\"]"}}]}"#);
    insta::assert_snapshot!(template(json!({"gpuType": "h100-nvlink", "gpuCount": 4})), @r#"{"allocationMode":"ExactCount","count":4,"deviceClassName":"gpu.nvidia.com","selectors":[{"cel":{"expression":"\"type\" in device.attributes[\"gpu.nvidia.com\"] && device.attributes[\"gpu.nvidia.com\"].type == \"gpu\""}},{"cel":{"expression":"\"productName\" in device.attributes[\"gpu.nvidia.com\"] && device.attributes[\"gpu.nvidia.com\"].productName in [\"H100 80GB HBM3\", \"NVIDIA H100 80GB HBM3\"]"}}]}"#);
    insta::assert_snapshot!(template(json!({"gpuMemoryGiB": 24})), @r#"{"allocationMode":"ExactCount","count":1,"deviceClassName":"gpu.nvidia.com","selectors":[{"cel":{"expression":"\"type\" in device.attributes[\"gpu.nvidia.com\"] && device.attributes[\"gpu.nvidia.com\"].type == \"gpu\""}},{"cel":{"expression":"\"memory\" in device.capacity[\"gpu.nvidia.com\"] && device.capacity[\"gpu.nvidia.com\"].memory.compareTo(quantity(\"22119Mi\")) >= 0"}},{"cel":{"expression":"!(\"brand\" in device.attributes[\"gpu.nvidia.com\"]) || !device.attributes[\"gpu.nvidia.com\"].brand.startsWith(\"NvidiaV\")"}}]}"#);
    insta::assert_snapshot!(template(json!({"gpuType": "mig-1g.5gb", "gpuCount": 2})), @r#"{"allocationMode":"ExactCount","count":2,"deviceClassName":"mig.nvidia.com","selectors":[{"cel":{"expression":"\"profile\" in device.attributes[\"gpu.nvidia.com\"] && device.attributes[\"gpu.nvidia.com\"].profile == \"1g.5gb\""}}]}"#);
    insta::assert_snapshot!(template(json!({"gpuType": "amd-mi300x"})), @r#"{"allocationMode":"ExactCount","count":1,"deviceClassName":"gpu.amd.com","selectors":[{"cel":{"expression":"\"type\" in device.attributes[\"gpu.amd.com\"] && device.attributes[\"gpu.amd.com\"].type == \"amdgpu\""}},{"cel":{"expression":"\"productName\" in device.attributes[\"gpu.amd.com\"] && device.attributes[\"gpu.amd.com\"].productName in [\"AMD_Instinct_MI300X\", \"AMD_Instinct_MI300X_OAM\"]"}}]}"#);
    insta::assert_snapshot!(template(json!({"gpuType": "intel", "gpuMemoryGiB": 48})), @r#"{"allocationMode":"ExactCount","count":1,"deviceClassName":"gpu.intel.com","selectors":[{"cel":{"expression":"\"model\" in device.attributes[\"gpu.intel.com\"] && device.attributes[\"gpu.intel.com\"].model in [\"Max 1100\", \"Max 1550\"]"}}]}"#);
}

#[test]
fn an_exact_name_is_the_drivers_attribute() {
    insta::assert_snapshot!(template(json!({"gpuType": "RTX 5880 Ada"})), @r#"{"allocationMode":"ExactCount","count":1,"deviceClassName":"gpu.nvidia.com","selectors":[{"cel":{"expression":"\"type\" in device.attributes[\"gpu.nvidia.com\"] && device.attributes[\"gpu.nvidia.com\"].type == \"gpu\""}},{"cel":{"expression":"\"productName\" in device.attributes[\"gpu.nvidia.com\"] && device.attributes[\"gpu.nvidia.com\"].productName in [\"NVIDIA RTX 5880 Ada\", \"RTX 5880 Ada\"]"}},{"cel":{"expression":"!(\"brand\" in device.attributes[\"gpu.nvidia.com\"]) || !device.attributes[\"gpu.nvidia.com\"].brand.startsWith(\"NvidiaV\")"}}]}"#);
    insta::assert_snapshot!(template(json!({"gpuType": "AMD Instinct MI400X"})), @r#"{"allocationMode":"ExactCount","count":1,"deviceClassName":"gpu.amd.com","selectors":[{"cel":{"expression":"\"type\" in device.attributes[\"gpu.amd.com\"] && device.attributes[\"gpu.amd.com\"].type == \"amdgpu\""}},{"cel":{"expression":"\"productName\" in device.attributes[\"gpu.amd.com\"] && device.attributes[\"gpu.amd.com\"].productName in [\"AMD_Instinct_MI400X\", \"Instinct_MI400X\"]"}}]}"#);
    insta::assert_snapshot!(template(json!({"gpuType": "intel-Max_1750"})), @r#"{"allocationMode":"ExactCount","count":1,"deviceClassName":"gpu.intel.com","selectors":[{"cel":{"expression":"\"model\" in device.attributes[\"gpu.intel.com\"] && device.attributes[\"gpu.intel.com\"].model in [\"Max 1750\", \"Max_1750\"]"}}]}"#);
}

#[test]
fn auto_claims_only_where_all_is_there_and_nothing_is_advertised() {
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

/// Slices as the drivers of AMD (1.0.0) and Intel (2026) publish them.
#[test]
fn devices_of_amd_and_intel_are_read_and_asked_for_as_their_drivers_name_them() {
    let catalogue = tables(json!({})).catalogue;
    let read = |driver: &str, devices: Value| {
        let slice = json!({"spec": {"nodeName": "n", "driver": driver, "devices": devices}});
        crate::hardware::slices(&slice, &catalogue).unwrap().1
    };
    let amd = |name: &str, kind: &str| {
        json!({"name": name, "attributes": {"type": {"string": kind}, "productName": {"string": "AMD_Instinct_MI300X_OAM"}},
            "capacity": {"memory": {"value": "196592Mi"}}})
    };
    let found = read("gpu.amd.com", json!([amd("gpu-0-128", "amdgpu"), amd("gpu-1-129", "amdgpu-partition")]));
    assert_eq!(found.len(), 1, "a partition is no whole device");
    assert_eq!((found[0].model.as_ref().unwrap().as_str(), found[0].memory_gib), ("mi300x", Some(192)));
    let asked = template(json!({"gpuType": "amd-mi300x"}));
    assert!(asked.contains(r#"type == \"amdgpu\""#) && asked.contains(r#"\"AMD_Instinct_MI300X_OAM\""#), "{asked}");
    let flex = json!([{"name": "0000-00-02-0-0x56c0", "attributes": {
        "model": {"string": "Flex 170"}, "family": {"string": "Data Center Flex"}}, "capacity": {"memory": {"value": "14248Mi"}}}]);
    let found = read("gpu.intel.com", flex);
    assert_eq!((found[0].model.as_ref().unwrap().as_str(), found[0].memory_gib), ("flex170", Some(16)));
    let asked = template(json!({"gpuType": "intel-flex-170"}));
    assert!(asked.contains(r#".model in [\"Flex 170\"]"#), "{asked}");
}
