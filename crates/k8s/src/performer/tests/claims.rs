//! Devices that are asked for by claims: templates with their pods, the choice of `auto`, what the cluster
//! says about devices.

use serde_json::{Value, json};

use super::{Bed, place, pods, serves};
use crate::api::Kind;
use crate::hourglass::tests::{every_fault, host};

fn claims(image: &str, allocation: &str) -> Value {
    json!({
        "avsAddress": super::ADDRESS,
        "image": image,
        "hardwareRequirements": {"gpuType": "h100", "gpuCount": 1, "allocation": allocation},
    })
}

fn class(name: &str) -> Value {
    json!({"metadata": {"name": name, "uid": name}})
}

fn slice() -> Value {
    let device = json!({
        "name": "gpu-0",
        "attributes": {"productName": {"string": "NVIDIA H100 80GB HBM3"}, "type": {"string": "gpu"}},
        "capacity": {"memory": {"value": "81559Mi"}},
    });
    json!({"metadata": {"name": "slice", "uid": "slice"}, "spec": {"nodeName": "node-1", "driver": "gpu.nvidia.com", "devices": [device]}})
}

/// A cluster that hands out devices by claims, in this version of the API.
fn with_claims(bed: &mut Bed, classes: Kind, slices: Kind) {
    bed.show(Kind::Node, host("node-1", json!({}), json!({})));
    bed.show(classes, class("gpu.nvidia.com"));
    bed.show(slices, slice());
    bed.list(classes);
    bed.list(slices);
}

const STABLE: (Kind, Kind) = (Kind::DeviceClass, Kind::ResourceSlice);
const BETA: (Kind, Kind) = (Kind::BetaDeviceClass, Kind::BetaResourceSlice);

fn templates(bed: &Bed, kind: Kind) -> Vec<String> {
    bed.server.list(kind).iter().map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_template_belongs_to_its_performer_and_goes_with_its_spec() {
    let mut bed = Bed::new();
    with_claims(&mut bed, STABLE.0, STABLE.1);
    bed.submit("avs", claims("well", "dra"));
    bed.rest();
    assert_eq!(place(&bed), "Running/Running False/AsExpected", "{}", bed.status("avs"));
    assert_eq!(bed.condition("avs", "HardwareAvailable"), "True/NodesMatch");
    let [template] = <[Value; 1]>::try_from(bed.server.list(Kind::ClaimTemplate)).unwrap();
    let owner = &template["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["controller"]), (&json!("Performer"), &json!(true)));
    assert_eq!(owner["uid"], bed.object("avs")["metadata"]["uid"]);
    let hash = bed.status("avs")["specHash"].as_str().unwrap().to_owned();
    assert_eq!(template["metadata"]["name"], format!("performer-avs-{}", &hash[..8]));
    let pod = bed.server.get(Kind::Pod, "performer-avs").unwrap();
    assert_eq!(
        pod["spec"]["resourceClaims"][0],
        json!({"name": "gpu", "resourceClaimTemplateName": template["metadata"]["name"]})
    );
    assert_eq!(pod["spec"]["containers"][0]["resources"], json!({"claims": [{"name": "gpu"}]}), "no extended resource");
    assert_eq!((&pod["spec"]["nodeSelector"], &pod["spec"]["affinity"]), (&Value::Null, &Value::Null));
    bed.writes_nothing_more();
    // The template of a spec nobody has any more goes.
    bed.change("avs", |spec| spec["image"] = json!("other"));
    bed.wait(60);
    let left = templates(&bed, Kind::ClaimTemplate);
    assert_eq!((left.len(), left[0] == template["metadata"]["name"].as_str().unwrap()), (1, false));
    bed.writes_nothing_more();
}

#[test]
fn the_version_that_is_served_is_used() {
    for (kinds, template, other) in
        [(STABLE, Kind::ClaimTemplate, Kind::BetaClaimTemplate), (BETA, Kind::BetaClaimTemplate, Kind::ClaimTemplate)]
    {
        let mut bed = Bed::new();
        with_claims(&mut bed, kinds.0, kinds.1);
        bed.submit("avs", claims("well", "auto"));
        bed.rest();
        assert_eq!(
            (place(&bed).as_str(), bed.status("avs")["allocation"].clone()),
            ("Running/Running False/AsExpected", json!("dra"))
        );
        assert_eq!((templates(&bed, template).len(), templates(&bed, other).len()), (1, 0));
        bed.writes_nothing_more();
    }
}

#[test]
fn what_auto_has_chosen_stays_until_the_spec_changes() {
    let mut bed = Bed::new();
    with_claims(&mut bed, STABLE.0, STABLE.1);
    bed.submit("avs", claims("well", "auto"));
    bed.rest();
    assert_eq!(bed.status("avs")["allocation"], "dra");
    // A node offers devices the other way now: `auto` would choose that.
    bed.show(Kind::Node, super::gpu_host("node-2", 8));
    bed.wait(60);
    bed.change("avs", |spec| spec["version"] = json!("2"));
    bed.rest();
    assert_eq!(
        (bed.status("avs")["allocation"].clone(), pods(&bed).len()),
        (json!("dra"), 1),
        "no pod shows the version"
    );
    bed.restart();
    bed.rest();
    assert_eq!(bed.status("avs")["allocation"], "dra");
    bed.writes_nothing_more();
}

#[test]
fn what_is_taken_back_asks_for_devices_as_it_did() {
    let mut bed = Bed::new();
    with_claims(&mut bed, STABLE.0, STABLE.1);
    bed.submit("avs", claims("well", "auto"));
    bed.rest();
    bed.images.insert("bad".into(), "never");
    let labels = json!({"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"});
    bed.show(Kind::Node, host("node-2", labels, json!({"nvidia.com/gpu": "8"})));
    bed.change("avs", |spec| {
        spec["image"] = json!("bad");
        spec["upgrade"] = json!({"strategy": "Recreate", "progressDeadlineSeconds": 30});
    });
    bed.wait(15);
    assert_eq!(bed.status("avs")["allocation"], "devicePlugin", "{}", bed.status("avs"));
    bed.wait(120);
    assert_eq!((place(&bed).as_str(), serves(&bed)), ("Running/Running True/UpgradeFailed", true));
    let pod = bed.server.list(Kind::Pod).pop().unwrap();
    assert_eq!(
        (&pod["spec"]["containers"][0]["image"], pod["spec"]["resourceClaims"].is_array()),
        (&json!("well"), true)
    );
    assert_eq!(templates(&bed, Kind::ClaimTemplate).len(), 1);
    bed.writes_nothing_more();
}

#[test]
fn no_crash_between_template_and_pod_makes_two_of_either() {
    let writes = every_fault(
        |bed| {
            with_claims(bed, STABLE.0, STABLE.1);
            bed.submit("avs", claims("well", "dra"));
            bed.wait(60);
            bed.change("avs", |spec| spec["image"] = json!("other"));
            bed.wait(120);
        },
        |bed| format!("{} {:?} {:?}", place(bed), pods(bed).len(), templates(bed, Kind::ClaimTemplate)),
    );
    assert!(writes > 15, "{writes}");
}

#[test]
fn device_classes_that_may_not_be_read_are_unknown_and_those_that_are_not_there_are_missing() {
    let mut bed = super::bed();
    bed.submit("avs", claims("well", "dra"));
    bed.rest();
    assert_eq!(bed.condition("avs", "HardwareAvailable"), "Unknown/NodesNotReadable");
    bed.list(Kind::DeviceClass);
    bed.rest();
    assert_eq!(bed.condition("avs", "HardwareAvailable"), "False/DeviceClassMissing");
    bed.show(Kind::DeviceClass, class("gpu.nvidia.com"));
    bed.show(Kind::ResourceSlice, slice());
    bed.rest();
    assert_eq!(bed.condition("avs", "HardwareAvailable"), "True/NodesMatch");
}
