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
use crate::hourglass::tests::{Bed as AnyBed, host};
use crate::value::word;

type Bed = AnyBed<Executors>;

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

fn bed() -> Bed {
    let mut bed = Bed::new();
    bed.show(Kind::Node, host("node-1", json!({}), json!({})));
    bed
}

fn running(spec: Value) -> Bed {
    let mut bed = bed();
    bed.submit("exec", spec);
    bed.rest();
    assert_eq!(bed.status("exec")["phase"], "Running", "{}", bed.status("exec"));
    bed
}

/// Where it is: phase, state, and what is wrong.
fn place(bed: &Bed) -> String {
    bed.place("exec")
}

/// Checksums of the pods.
fn checksums(bed: &Bed) -> Vec<String> {
    let path = "/metadata/annotations/hourglass.eigenlayer.io~1config-checksum";
    bed.server.list(Kind::Pod).iter().map(|pod| word(pod, path).to_owned()).collect()
}
