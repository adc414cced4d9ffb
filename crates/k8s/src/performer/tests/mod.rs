//! The controller of performers against a small API server and a cluster that takes one step at a time.

mod chaos;
mod claims;
mod classes;
mod crash;
mod deadlines;
mod errors;
mod executors;
mod failures;
mod foreign;
mod images;
mod kept;
mod life;
mod pods;
mod reasons;
mod references;
mod rows;
mod surge;
mod upgrades;

use serde_json::{Value, json};

use super::{INCARNATION, Performers};
use crate::api::Kind;
use crate::hourglass::tests::{TestEnv as AnyTestEnv, host};
use crate::value::word;

type TestEnv = AnyTestEnv<Performers>;

const ADDRESS: &str = "0x1234567890abcdef1234567890abcdef12345678";

fn spec(image: &str) -> Value {
    json!({"avsAddress": ADDRESS, "image": image})
}

fn gpu(image: &str) -> Value {
    json!({"avsAddress": ADDRESS, "image": image, "hardwareRequirements": {"gpuType": "nvidia", "gpuCount": 1}})
}

/// A node with that many GPUs.
fn gpu_host(name: &str, count: u32) -> Value {
    host(name, json!({"nvidia.com/gpu.present": "true"}), json!({"nvidia.com/gpu": count.to_string()}))
}

/// A test environment with a node.
fn env() -> TestEnv {
    let mut env = TestEnv::new();
    env.add(Kind::Node, host("node-1", json!({}), json!({})));
    env
}

/// A performer that serves.
fn running(spec: Value) -> TestEnv {
    let mut env = env();
    env.submit("avs", spec);
    env.rest();
    assert_eq!(env.status("avs")["phase"], "Running", "{}", env.status("avs"));
    env
}

/// Where it is: phase, state, and what is wrong.
fn place(env: &TestEnv) -> String {
    env.place("avs")
}

fn pods(env: &TestEnv) -> Vec<String> {
    env.server.list(Kind::Pod).iter().map(|pod| word(pod, "/metadata/name").to_owned()).collect()
}

/// Somebody wants another image, upgraded to in a way of its own.
fn another(env: &TestEnv, image: &str, upgrade: Value) {
    env.change("avs", |spec| {
        spec["image"] = json!(image);
        spec["upgrade"] = upgrade;
    });
}

/// Number of the pod that the Service selects.
fn selected(env: &TestEnv) -> String {
    let service = env.server.get(Kind::Service, "performer-avs").unwrap_or_default();
    service["spec"]["selector"][INCARNATION].as_str().unwrap_or("-").to_owned()
}

fn serves(env: &TestEnv) -> bool {
    let number = selected(env);
    let is = |pod: &&Value| pod["metadata"]["labels"][INCARNATION] == number.as_str();
    env.server.list(Kind::Pod).iter().find(is).is_some_and(|pod| {
        crate::value::item(pod, "/status/conditions", "type", "Ready").is_some_and(|ready| ready["status"] == "True")
    })
}
