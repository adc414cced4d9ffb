//! The Secret with keys that somebody else keeps: a change of it rolls the pods, by its metadata alone.

use serde_json::{Value, json};

use super::{TestEnv, env, spec};
use crate::api::Kind;
use crate::shell::fake::refused;

/// A time after which everything is looked at again.
const RESYNC: u64 = 301;

fn referring() -> Value {
    let mut spec = spec();
    spec["config"].as_object_mut().unwrap().remove("operatorKeys");
    spec["config"]["operatorKeysSecretRef"] = json!({"name": "mine"});
    spec
}

fn running(spec: Value) -> TestEnv {
    let mut env = env();
    env.server.put(Kind::Secret, json!({"metadata": {"name": "mine"}, "data": {"ecdsa": "a2V5"}}));
    env.submit("exec", spec);
    env.rest();
    assert_eq!(env.status("exec")["phase"], "Running", "{}", env.status("exec"));
    env
}

fn rolled(env: &TestEnv) -> (u64, Value) {
    let deployment = env.server.list(Kind::Deployment).remove(0);
    let path = "/spec/template/metadata/annotations/hourglass.eigenlayer.io~1reference-generation";
    let generation = env.status("exec")["referenceGeneration"].as_u64().unwrap_or_default();
    (generation, deployment.pointer(path).cloned().unwrap_or_default())
}

fn change(env: &TestEnv) {
    env.server.edit(Kind::Secret, "mine", |secret| secret["data"]["ecdsa"] = json!("b3RoZXI="));
}

#[test]
fn a_changed_secret_rolls_the_pods_once() {
    let mut env = running(referring());
    assert_eq!(rolled(&env), (0, Value::Null));
    assert_eq!(env.status("exec")["references"][0]["name"], "mine");
    change(&env);
    env.wait(RESYNC);
    assert_eq!(rolled(&env), (1, json!("1")));
    env.restart();
    env.rest();
    env.wait(RESYNC);
    assert_eq!(rolled(&env), (1, json!("1")), "another operator");
    env.server.edit(Kind::Executor, "exec", |object| object["status"] = json!({}));
    env.restart();
    env.rest();
    assert_eq!(rolled(&env), (1, json!("1")), "a lost status");
}

#[test]
fn a_crash_at_any_write_rolls_them_once() {
    for writes in 0..6 {
        let mut env = running(referring());
        change(&env);
        env.dies_after(writes);
        env.wait(RESYNC);
        env.rest();
        env.wait(RESYNC);
        assert_eq!(rolled(&env), (1, json!("1")), "after {writes} writes");
    }
}

#[test]
fn a_secret_that_may_not_be_read_is_reported_once_and_who_does_not_want_it_reads_nothing() {
    let mut env = env();
    env.server.put(Kind::Secret, json!({"metadata": {"name": "mine"}, "data": {}}));
    env.refuse("get", Kind::Secret, 3, refused(403, "Forbidden"));
    let mut spec = referring();
    spec["rollOnReferenceChange"] = json!(false);
    env.submit("exec", spec);
    env.change("exec", |spec| spec["rollOnReferenceChange"] = json!(true));
    env.rest();
    env.wait(RESYNC);
    assert_eq!((env.event_count("ReferenceForbidden"), rolled(&env)), (1, (0, Value::Null)));
}
