//! Tests of the translation to Kubernetes: each row of its tables as the pod that comes out. Owns what they share.

mod claims;
mod devices_of;
mod gpu_rows;
mod laws;
mod nodes;
mod nodes_of;
mod tee_rows;
mod users;

use orlop_core::hardware::merge::Merged;
use orlop_core::hardware::{HardwareInput, Resolved, Substrate, Tables, resolve};
use serde_json::{Value, json};

use super::{TranslateError, translate};

fn tables(file: Value) -> Tables {
    Tables::default().overlaid(serde_json::from_value(file).unwrap())
}

fn need(input: Value, tables: &Tables) -> Resolved {
    let input: HardwareInput = serde_json::from_value(input).unwrap();
    resolve(&input.requirements(tables).unwrap(), tables).unwrap()
}

/// The pod of a need and a user, and what it came to.
fn given(pod: &Value, input: Value, file: Value) -> Result<(Value, Merged), TranslateError> {
    let tables = tables(file);
    let need = need(input, &tables);
    translate(pod, "performer", &need, &tables.vocabulary(Substrate::Kubernetes), "performer-x-0a1b2c3d")
}

fn bare() -> Value {
    json!({"containers": [{"name": "performer"}]})
}

/// The pod of a need with tables of a file.
fn with(input: Value, file: Value) -> String {
    let (pod, merged) = given(&bare(), input, file).unwrap();
    let notes: Vec<String> = merged.notes.iter().map(|note| format!(" {note}")).collect();
    format!("{pod}{}", notes.concat())
}

/// The pod of a need.
fn pod(input: Value) -> String {
    with(input, json!({}))
}
