//! The executor a performer names: its scheduling fills what the performer leaves open, and people are told where it is missing.

use serde_json::{Value, json};

use super::{ADDRESS, Bed, place, pods};
use crate::api::Kind;
use crate::hourglass::API_VERSION;
use crate::hourglass::tests::host;

/// An executor with such defaults for performers.
fn put(bed: &Bed, defaults: &Value) {
    let config = json!({
        "aggregatorEndpoint": "aggregator.example:9000",
        "operatorKeysSecretRef": {"name": "mine"},
        "chains": [{"name": "ethereum", "rpc": "https://eth.example", "chainId": 1, "taskMailboxAddress": ADDRESS}],
        "kubernetes": {"namespace": "default", "defaultScheduling": defaults},
    });
    let spec = json!({"image": "executor:1", "config": config});
    bed.server.put(
        Kind::Executor,
        json!({"apiVersion": API_VERSION, "kind": "HourglassExecutor", "metadata": {"name": "exec"}, "spec": spec}),
    );
}

/// A performer that names it, and nodes of two pools.
fn bed() -> Bed {
    let mut bed = Bed::new();
    for pool in ["a", "b"] {
        bed.show(Kind::Node, host(&format!("node-{pool}"), json!({"pool": pool}), json!({})));
    }
    bed
}

fn submit(bed: &mut Bed) {
    bed.submit("avs", json!({"avsAddress": ADDRESS, "image": "well", "executorRef": "exec"}));
    bed.rest();
    assert_eq!(place(bed), "Running/Running False/AsExpected");
}

/// Selector of the pod that serves, and its number.
fn selector(bed: &Bed) -> (Value, u64) {
    let active = bed.status("avs")["active"].clone();
    let pod = bed.server.get(Kind::Pod, active["podName"].as_str().unwrap()).unwrap();
    (pod["spec"]["nodeSelector"].clone(), active["incarnation"].as_u64().unwrap())
}

#[test]
fn scheduling_of_the_executor_reaches_the_pod_and_a_change_of_it_is_an_upgrade() {
    let mut bed = bed();
    put(&bed, &json!({"nodeSelector": {"pool": "a"}, "tolerations": [{"key": "a", "operator": "Exists"}]}));
    submit(&mut bed);
    assert_eq!((selector(&bed), bed.told("ExecutorNotFound")), ((json!({"pool": "a"}), 1), 0));
    let pod = bed.server.get(Kind::Pod, "performer-avs").unwrap();
    assert_eq!(pod["spec"]["tolerations"], json!([{"key": "a", "operator": "Exists"}]));
    bed.server.edit(Kind::Executor, "exec", |exec| {
        exec["spec"]["config"]["kubernetes"]["defaultScheduling"] = json!({"nodeSelector": {"pool": "b"}});
    });
    bed.rest();
    assert_eq!((place(&bed).as_str(), pods(&bed).len()), ("Upgrading/PodRecreation False/AsExpected", 2));
    assert_eq!(bed.status("avs")["candidate"]["incarnation"], 2);
    bed.wait(60);
    assert_eq!((selector(&bed), place(&bed).as_str()), ((json!({"pool": "b"}), 2), "Running/Running False/AsExpected"));
    // What no pod shows of it changes nothing.
    bed.server.edit(Kind::Executor, "exec", |exec| exec["spec"]["image"] = json!("executor:2"));
    bed.writes_nothing_more();
}

#[test]
fn an_executor_that_goes_or_comes_is_another_rendering() {
    let mut bed = bed();
    put(&bed, &json!({"nodeSelector": {"pool": "a"}}));
    submit(&mut bed);
    bed.server.remove(Kind::Executor, "exec");
    bed.wait(60);
    assert_eq!((selector(&bed), bed.told("ExecutorNotFound")), ((Value::Null, 2), 1));
    put(&bed, &json!({"nodeSelector": {"pool": "b"}}));
    bed.wait(60);
    assert_eq!(selector(&bed), (json!({"pool": "b"}), 3));
    assert_eq!((place(&bed).as_str(), bed.told("ExecutorNotFound")), ("Running/Running False/AsExpected", 1));
    bed.writes_nothing_more();
}

#[test]
fn people_are_told_whenever_the_executor_is_missing_and_was_not() {
    let mut bed = bed();
    put(&bed, &json!({}));
    submit(&mut bed);
    assert_eq!((bed.told("ExecutorNotFound"), bed.status("avs")["executorMissing"].clone()), (0, Value::Null));
    // It has had no say, so nothing else changes.
    bed.server.remove(Kind::Executor, "exec");
    bed.rest();
    assert_eq!((bed.told("ExecutorNotFound"), bed.status("avs")["executorMissing"].clone()), (1, json!(true)));
    assert_eq!((place(&bed).as_str(), pods(&bed).len()), ("Running/Running False/AsExpected", 1));
    bed.writes_nothing_more();
    put(&bed, &json!({}));
    bed.rest();
    assert_eq!(bed.status("avs")["executorMissing"], Value::Null);
    bed.change("avs", |spec| spec["executorRef"] = json!("other"));
    bed.rest();
    assert_eq!(bed.told("ExecutorNotFound"), 2, "another one is missing");
    bed.writes_nothing_more();
}
