//! The executor a performer names: its scheduling fills what the performer leaves open, and people are told where it is missing.

use serde_json::{Value, json};

use super::{ADDRESS, TestEnv, place, pods};
use crate::api::Kind;
use crate::hourglass::API_VERSION;
use crate::hourglass::tests::host;

/// An executor with such defaults for performers.
fn put(env: &TestEnv, defaults: &Value) {
    let config = json!({
        "aggregatorEndpoint": "aggregator.example:9000",
        "operatorKeysSecretRef": {"name": "mine"},
        "chains": [{"name": "ethereum", "rpc": "https://eth.example", "chainId": 1, "taskMailboxAddress": ADDRESS}],
        "kubernetes": {"namespace": "default", "defaultScheduling": defaults},
    });
    let spec = json!({"image": "executor:1", "config": config});
    env.server.put(
        Kind::Executor,
        json!({"apiVersion": API_VERSION, "kind": "HourglassExecutor", "metadata": {"name": "exec"}, "spec": spec}),
    );
}

/// A performer that names it, and nodes of two pools.
fn env() -> TestEnv {
    let mut env = TestEnv::new();
    for pool in ["a", "b"] {
        env.add(Kind::Node, host(&format!("node-{pool}"), json!({"pool": pool}), json!({})));
    }
    env
}

fn submit(env: &mut TestEnv) {
    env.submit("avs", json!({"avsAddress": ADDRESS, "image": "well", "executorRef": "exec"}));
    env.rest();
    assert_eq!(place(env), "Running/Running False/AsExpected");
}

/// Selector of the pod that serves, and its number.
fn selector(env: &TestEnv) -> (Value, u64) {
    let active = env.status("avs")["active"].clone();
    let pod = env.server.get(Kind::Pod, active["podName"].as_str().unwrap()).unwrap();
    (pod["spec"]["nodeSelector"].clone(), active["incarnation"].as_u64().unwrap())
}

#[test]
fn scheduling_of_the_executor_reaches_the_pod_and_a_change_of_it_is_an_upgrade() {
    let mut env = env();
    put(&env, &json!({"nodeSelector": {"pool": "a"}, "tolerations": [{"key": "a", "operator": "Exists"}]}));
    submit(&mut env);
    assert_eq!((selector(&env), env.event_count("ExecutorNotFound")), ((json!({"pool": "a"}), 1), 0));
    let pod = env.server.get(Kind::Pod, "performer-avs").unwrap();
    assert_eq!(pod["spec"]["tolerations"], json!([{"key": "a", "operator": "Exists"}]));
    env.server.edit(Kind::Executor, "exec", |exec| {
        exec["spec"]["config"]["kubernetes"]["defaultScheduling"] = json!({"nodeSelector": {"pool": "b"}});
    });
    env.rest();
    assert_eq!((place(&env).as_str(), pods(&env).len()), ("Upgrading/PodRecreation False/AsExpected", 2));
    assert_eq!(env.status("avs")["candidate"]["incarnation"], 2);
    env.wait(60);
    assert_eq!((selector(&env), place(&env).as_str()), ((json!({"pool": "b"}), 2), "Running/Running False/AsExpected"));
    // What no pod shows of it changes nothing.
    env.server.edit(Kind::Executor, "exec", |exec| exec["spec"]["image"] = json!("executor:2"));
    env.writes_nothing_more();
}

#[test]
fn an_executor_that_goes_or_comes_is_another_rendering() {
    let mut env = env();
    put(&env, &json!({"nodeSelector": {"pool": "a"}}));
    submit(&mut env);
    env.server.remove(Kind::Executor, "exec");
    env.wait(60);
    assert_eq!((selector(&env), env.event_count("ExecutorNotFound")), ((Value::Null, 2), 1));
    put(&env, &json!({"nodeSelector": {"pool": "b"}}));
    env.wait(60);
    assert_eq!(selector(&env), (json!({"pool": "b"}), 3));
    assert_eq!((place(&env).as_str(), env.event_count("ExecutorNotFound")), ("Running/Running False/AsExpected", 1));
    env.writes_nothing_more();
}

#[test]
fn people_are_reported_whenever_the_executor_is_missing_and_was_not() {
    let mut env = env();
    put(&env, &json!({}));
    submit(&mut env);
    assert_eq!((env.event_count("ExecutorNotFound"), env.status("avs")["executorMissing"].clone()), (0, Value::Null));
    // It has had no say, so nothing else changes.
    env.server.remove(Kind::Executor, "exec");
    env.rest();
    assert_eq!((env.event_count("ExecutorNotFound"), env.status("avs")["executorMissing"].clone()), (1, json!(true)));
    assert_eq!((place(&env).as_str(), pods(&env).len()), ("Running/Running False/AsExpected", 1));
    env.writes_nothing_more();
    put(&env, &json!({}));
    env.rest();
    assert_eq!(env.status("avs")["executorMissing"], Value::Null);
    env.change("avs", |spec| spec["executorRef"] = json!("other"));
    env.rest();
    assert_eq!(env.event_count("ExecutorNotFound"), 2, "another one is missing");
    env.writes_nothing_more();
}
