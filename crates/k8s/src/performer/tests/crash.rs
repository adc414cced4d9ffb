//! A controller that dies at every write, before it, after it, or that hears no answer.

use serde_json::json;

use super::{TestEnv, place, pods, selected, spec};
use crate::api::Kind;
use crate::hourglass::tests::{every_fault, host};

fn start(env: &mut TestEnv) {
    env.add(Kind::Node, host("node-1", json!({}), json!({})));
    env.submit("avs", spec("well"));
    env.wait(5);
}

/// Everything but when it was.
fn outcome(env: &TestEnv) -> String {
    format!("{} {:?} {}", place(env), pods(env), selected(env))
}

#[test]
fn a_crash_at_every_write_of_an_upgrade_changes_nothing() {
    let play = |env: &mut TestEnv| {
        start(env);
        env.change("avs", |spec| spec["image"] = json!("other"));
        env.wait(120);
    };
    let writes = every_fault(play, outcome);
    assert!(writes > 15, "{writes}");
}

#[test]
fn a_crash_at_every_write_of_a_rollback_changes_nothing() {
    for strategy in ["Auto", "Recreate"] {
        let play = |env: &mut TestEnv| {
            env.images.insert("bad".into(), "never");
            start(env);
            env.change("avs", |spec| {
                spec["image"] = json!("bad");
                spec["upgrade"] = json!({"strategy": strategy, "progressDeadlineSeconds": 30});
            });
            env.wait(200);
        };
        let writes = every_fault(play, outcome);
        assert!(writes > 15, "{writes}");
    }
}

#[test]
fn a_crash_at_every_write_after_failures_changes_nothing() {
    let play = |env: &mut TestEnv| {
        start(env);
        let name = pods(env).pop().unwrap_or_default();
        env.server.edit(Kind::Pod, &name, |pod| pod["status"]["phase"] = json!("Failed"));
        env.wait(60);
    };
    every_fault(play, outcome);
}

#[test]
fn a_crash_at_every_write_of_a_deletion_leaves_nothing() {
    let play = |env: &mut TestEnv| {
        start(env);
        env.server.request_deletion(Kind::Performer, "avs");
        env.wait(120);
    };
    let left = |env: &TestEnv| {
        let kinds = [Kind::Performer, Kind::Pod, Kind::Service, Kind::Revision];
        format!("{:?}", kinds.map(|kind| env.server.list(kind).len()))
    };
    every_fault(play, left);
}
