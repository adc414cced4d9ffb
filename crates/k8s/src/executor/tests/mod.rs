//! The controller of executors against a small API server and a cluster that takes one step at a time.

mod admission;
mod chaos;
mod children;
mod failures;
mod file;
mod foreign;
mod life;
mod reasons;
mod references;
mod rows;

use serde_json::{Value, json};

use super::Executors;
use crate::api::Kind;
use crate::hourglass::tests::{TestEnv as AnyTestEnv, host};
use crate::value::word;

type TestEnv = AnyTestEnv<Executors>;

fn spec() -> Value {
    json!({
        "image": "executor:1",
        "config": {
            "aggregatorEndpoint": "aggregator.example:9000",
            "operatorKeys": {"ecdsa": "KEY-OF-THE-OPERATOR"},
            "chains": [
                {"name": "ethereum", "rpc": "https://eth.example", "chainId": 1, "taskMailboxAddress": "0x1234567890abcdef1234567890abcdef12345678"},
                {"name": "base", "rpc": "https://base.example/v2/0123456789abcdef0123456789abcdef", "chainId": 8453, "taskMailboxAddress": "0x1234567890abcdef1234567890abcdef12345678"},
            ],
        },
    })
}

/// With members of its own.
fn with(members: Value) -> Value {
    let mut spec = spec();
    members.as_object().unwrap().iter().for_each(|(name, value)| spec[name] = value.clone());
    spec
}

fn env() -> TestEnv {
    let mut env = TestEnv::new();
    env.add(Kind::Node, host("node-1", json!({}), json!({})));
    env
}

fn running(spec: Value) -> TestEnv {
    let mut env = env();
    env.submit("exec", spec);
    env.rest();
    assert_eq!(env.status("exec")["phase"], "Running", "{}", env.status("exec"));
    env
}

/// Where it is: phase, state, and what is wrong.
fn place(env: &TestEnv) -> String {
    env.place("exec")
}

/// Checksums of the pods.
fn checksums(env: &TestEnv) -> Vec<String> {
    let path = "/metadata/annotations/hourglass.eigenlayer.io~1config-checksum";
    env.server.list(Kind::Pod).iter().map(|pod| word(pod, path).to_owned()).collect()
}
