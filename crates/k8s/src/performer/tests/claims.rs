//! Devices that are asked for by claims: templates with their pods, the choice of `auto`, what the cluster
//! says about devices.

use serde_json::{Value, json};

use super::{TestEnv, place, pods, serves};
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
fn with_claims(env: &mut TestEnv, classes: Kind, slices: Kind) {
    env.add(Kind::Node, host("node-1", json!({}), json!({})));
    env.add(classes, class("gpu.nvidia.com"));
    env.add(slices, slice());
    env.list(classes);
    env.list(slices);
}

const STABLE: (Kind, Kind) = (Kind::DeviceClass, Kind::ResourceSlice);
const BETA: (Kind, Kind) = (Kind::BetaDeviceClass, Kind::BetaResourceSlice);

fn templates(env: &TestEnv, kind: Kind) -> Vec<String> {
    env.server.list(kind).iter().map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_template_belongs_to_its_performer_and_goes_with_its_spec() {
    let mut env = TestEnv::new();
    with_claims(&mut env, STABLE.0, STABLE.1);
    env.submit("avs", claims("well", "dra"));
    env.rest();
    assert_eq!(place(&env), "Running/Running False/AsExpected", "{}", env.status("avs"));
    assert_eq!(env.condition("avs", "HardwareAvailable"), "True/NodesMatch");
    let [template] = <[Value; 1]>::try_from(env.server.list(Kind::ClaimTemplate)).unwrap();
    let owner = &template["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["controller"]), (&json!("Performer"), &json!(true)));
    assert_eq!(owner["uid"], env.object("avs")["metadata"]["uid"]);
    let hash = env.status("avs")["specHash"].as_str().unwrap().to_owned();
    assert_eq!(template["metadata"]["name"], format!("performer-avs-{}", &hash[..8]));
    let pod = env.server.get(Kind::Pod, "performer-avs").unwrap();
    assert_eq!(
        pod["spec"]["resourceClaims"][0],
        json!({"name": "gpu", "resourceClaimTemplateName": template["metadata"]["name"]})
    );
    assert_eq!(pod["spec"]["containers"][0]["resources"], json!({"claims": [{"name": "gpu"}]}), "no extended resource");
    assert_eq!((&pod["spec"]["nodeSelector"], &pod["spec"]["affinity"]), (&Value::Null, &Value::Null));
    env.writes_nothing_more();
    // The template of a spec nobody has any more goes.
    env.change("avs", |spec| spec["image"] = json!("other"));
    env.wait(60);
    let left = templates(&env, Kind::ClaimTemplate);
    assert_eq!((left.len(), left[0] == template["metadata"]["name"].as_str().unwrap()), (1, false));
    env.writes_nothing_more();
}

#[test]
fn the_version_that_is_served_is_used() {
    for (kinds, template, other) in
        [(STABLE, Kind::ClaimTemplate, Kind::BetaClaimTemplate), (BETA, Kind::BetaClaimTemplate, Kind::ClaimTemplate)]
    {
        let mut env = TestEnv::new();
        with_claims(&mut env, kinds.0, kinds.1);
        env.submit("avs", claims("well", "auto"));
        env.rest();
        assert_eq!(
            (place(&env).as_str(), env.status("avs")["allocation"].clone()),
            ("Running/Running False/AsExpected", json!("dra"))
        );
        assert_eq!((templates(&env, template).len(), templates(&env, other).len()), (1, 0));
        env.writes_nothing_more();
    }
}

#[test]
fn what_auto_has_chosen_stays_until_the_spec_changes() {
    let mut env = TestEnv::new();
    with_claims(&mut env, STABLE.0, STABLE.1);
    env.submit("avs", claims("well", "auto"));
    env.rest();
    assert_eq!(env.status("avs")["allocation"], "dra");
    // A node offers devices the other way now: `auto` would choose that.
    env.add(Kind::Node, super::gpu_host("node-2", 8));
    env.wait(60);
    env.change("avs", |spec| spec["version"] = json!("2"));
    env.rest();
    assert_eq!(
        (env.status("avs")["allocation"].clone(), pods(&env).len()),
        (json!("dra"), 1),
        "no pod shows the version"
    );
    env.restart();
    env.rest();
    assert_eq!(env.status("avs")["allocation"], "dra");
    env.writes_nothing_more();
}

#[test]
fn what_is_taken_back_asks_for_devices_as_it_did() {
    let mut env = TestEnv::new();
    with_claims(&mut env, STABLE.0, STABLE.1);
    env.submit("avs", claims("well", "auto"));
    env.rest();
    env.images.insert("bad".into(), "never");
    let labels = json!({"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"});
    env.add(Kind::Node, host("node-2", labels, json!({"nvidia.com/gpu": "8"})));
    env.change("avs", |spec| {
        spec["image"] = json!("bad");
        spec["upgrade"] = json!({"strategy": "Recreate", "progressDeadlineSeconds": 30});
    });
    env.wait(15);
    assert_eq!(env.status("avs")["allocation"], "devicePlugin", "{}", env.status("avs"));
    env.wait(120);
    assert_eq!((place(&env).as_str(), serves(&env)), ("Running/Running True/UpgradeFailed", true));
    let pod = env.server.list(Kind::Pod).pop().unwrap();
    assert_eq!(
        (&pod["spec"]["containers"][0]["image"], pod["spec"]["resourceClaims"].is_array()),
        (&json!("well"), true)
    );
    assert_eq!(templates(&env, Kind::ClaimTemplate).len(), 1);
    env.writes_nothing_more();
}

#[test]
fn no_crash_between_template_and_pod_makes_two_of_either() {
    let writes = every_fault(
        |env| {
            with_claims(env, STABLE.0, STABLE.1);
            env.submit("avs", claims("well", "dra"));
            env.wait(60);
            env.change("avs", |spec| spec["image"] = json!("other"));
            env.wait(120);
        },
        |env| format!("{} {:?} {:?}", place(env), pods(env).len(), templates(env, Kind::ClaimTemplate)),
    );
    assert!(writes > 15, "{writes}");
}

#[test]
fn device_classes_that_may_not_be_read_are_unknown_and_those_that_are_not_there_are_missing() {
    let mut env = super::env();
    env.submit("avs", claims("well", "dra"));
    env.rest();
    assert_eq!(env.condition("avs", "HardwareAvailable"), "Unknown/NodesNotReadable");
    env.list(Kind::DeviceClass);
    env.rest();
    assert_eq!(env.condition("avs", "HardwareAvailable"), "False/DeviceClassMissing");
    env.add(Kind::DeviceClass, class("gpu.nvidia.com"));
    env.add(Kind::ResourceSlice, slice());
    env.rest();
    assert_eq!(env.condition("avs", "HardwareAvailable"), "True/NodesMatch");
}
