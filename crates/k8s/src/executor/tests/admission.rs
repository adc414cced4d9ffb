//! What admission makes of children is taken as it is: no child is written again and again.

use serde_json::{Value, json};

use super::{env, place, spec};
use crate::api::Kind;
use crate::hourglass::APPLIED_HASH;
use crate::shell::fake::Policy;

/// A registry of one's own for all images of Deployments.
fn mirror(object: &mut Value) {
    let image = &mut object["spec"]["template"]["spec"]["containers"][0]["image"];
    let own = image.as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    *image = json!(format!("mirror.example/{own}"));
}

fn always_pull(object: &mut Value) {
    object["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
}

fn port_name(object: &mut Value) {
    object["spec"]["ports"][0]["name"] = json!("their-name");
}

fn no_annotations(object: &mut Value) {
    object["metadata"].as_object_mut().unwrap().remove("annotations");
}

fn fewer_replicas(object: &mut Value) {
    object["spec"]["replicas"] = json!(1);
}

#[test]
fn a_child_that_admission_changes_is_written_twice_at_most_and_the_executor_runs() {
    let policies = [
        Policy { kind: Kind::Deployment, change: mirror },
        Policy { kind: Kind::Deployment, change: always_pull },
        Policy { kind: Kind::Deployment, change: no_annotations },
        Policy { kind: Kind::Service, change: port_name },
        Policy { kind: Kind::Service, change: no_annotations },
        Policy { kind: Kind::ConfigMap, change: no_annotations },
        Policy { kind: Kind::Secret, change: no_annotations },
        Policy { kind: Kind::Deployment, change: fewer_replicas },
    ];
    for (number, policy) in policies.into_iter().enumerate() {
        let kind = policy.kind;
        let mut env = env();
        env.server.store().policies.push(policy);
        env.submit("exec", spec());
        env.wait(1200);
        assert_eq!(place(&env), "Running/Running False/AsExpected", "policy {number} of {kind:?}");
        let of_kind = |write: &&String| write.split(' ').nth(1) == Some(kind.plural());
        let writes: Vec<String> = env.writes().iter().filter(of_kind).cloned().collect();
        assert!((1..=2).contains(&writes.len()), "policy {number} of {kind:?}: {writes:?}");
        // A new operator asks once what admission makes of it, and rests.
        env.restart();
        env.wait(1200);
        let writes = env.writes().iter().filter(of_kind).count();
        assert!(writes <= 3, "policy {number} of {kind:?}: {:?}", env.writes());
    }
}

#[test]
fn what_somebody_else_changes_is_put_back_once_a_minute_at_most_where_admission_changes_it_too() {
    let mut env = env();
    env.server.store().policies.push(Policy { kind: Kind::Deployment, change: mirror });
    env.submit("exec", spec());
    env.rest();
    let applies = |env: &super::TestEnv| env.writes().iter().filter(|write| write.contains("deployments")).count();
    let (before, name) = (applies(&env), crate::value::text(&env.server.list(Kind::Deployment)[0], "/metadata/name"));
    for _ in 0..30 {
        env.server.edit(Kind::Deployment, &name, |live| live["spec"]["minReadySeconds"] = json!(77));
        env.server.edit(Kind::Deployment, &name, |live| {
            live["metadata"]["annotations"][APPLIED_HASH] = json!("theirs");
        });
        env.wait(10);
    }
    let after = applies(&env);
    assert!(after > before && after <= before + 6, "{before} {after}: {:?}", env.writes());
}

#[test]
fn while_a_child_is_what_somebody_else_has_made_of_it_the_executor_is_neither_ready_nor_up_to_date() {
    type Change = fn(&mut Value);
    let changes: [(Kind, &str, Change); 3] = [
        (Kind::Deployment, "exec", |live| live["spec"]["template"]["spec"]["containers"][0]["image"] = json!("evil/x")),
        (Kind::Deployment, "exec", |live| live["spec"]["replicas"] = json!(2)),
        (Kind::Service, "executor-exec", |live| live["spec"]["selector"]["team"] = json!("x")),
    ];
    for (number, (kind, name, change)) in changes.into_iter().enumerate() {
        let mut env = super::running(spec());
        for _ in 0..2 {
            env.server.edit(kind, name, change);
            env.rest();
            assert_eq!(place(&env), "Running/Running False/AsExpected", "change {number} is put back at once");
            env.wait(4);
        }
        env.server.edit(kind, name, change);
        env.rest();
        let before = env.writes();
        for _ in 0..5 {
            assert_eq!(env.condition("exec", "Ready").split('/').next(), Some("False"), "change {number}");
            assert_ne!(env.condition("exec", "Progressing"), "False/UpToDate", "change {number}");
            env.wait(10);
        }
        assert_eq!(env.writes(), before, "it is told once and put back in its time");
        env.wait(70);
        assert_eq!(place(&env), "Running/Running False/AsExpected", "change {number}");
        assert_eq!(env.condition("exec", "Ready"), "True/DeploymentAvailable", "change {number}");
        env.writes_nothing_more();
    }
}
