//! Copies of a worker's state directory, on the real programs: while the first agent is connected, the second stays out.

use std::process::Command;

use serde_json::{Value, json};

use super::programs::{Programs, json as get, until};

#[test]
fn an_agent_with_a_copied_state_directory_is_kept_out_and_told_what_to_do() {
    let programs = Programs::new();
    let server = programs.leader("s1", &[]);
    let _first = programs.worker("w1", &[&server.grpc], &[]);
    let connected = |worker: &Value| worker["connected"] == true;
    let before = until("the worker", || get(&server.rest, "/workers/w1").filter(connected));
    let (from, to) = (programs.path("w1-state"), programs.path("copy-state"));
    let copied = Command::new("cp").arg("-a").args([from, to]).status().expect("cp runs");
    assert!(copied.success());
    let _copy = programs.worker_with("copy", "w1", &[&server.grpc], &[]);
    let refusals = || programs.log("copy").matches("of which this one is a copy").count();
    until("the refusal", || (refusals() > 0).then_some(()));
    assert!(programs.log("copy").contains("--state DIR"), "{}", programs.log("copy"));
    let small = ["submit", "--cpu", "100m", "--memory", "1Mi", "--array", "0-19", "--wait", "--", "sleep", "0.05"];
    let id = programs.good(&server.rest, &small).trim().to_owned();
    let attempts = get(&server.rest, &format!("/jobs/{id}/attempts?limit=100")).expect("its attempts");
    let states: Vec<&Value> = attempts["items"].as_array().expect("a list").iter().map(|one| &one["state"]).collect();
    assert!(states.len() == 20 && states.iter().all(|state| **state == json!("Succeeded")), "{states:?}");
    let after = get(&server.rest, "/workers/w1").expect("the worker");
    assert_eq!((&before["registered_at"], &before["incarnation"]), (&after["registered_at"], &after["incarnation"]));
    assert!(refusals() <= 2, "it asks again after a while only: {}", programs.log("copy"));
}
