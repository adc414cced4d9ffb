//! Every row of the lifecycle is taken.

use orlop_core::machine::executor::{ExecutorState, MACHINE};
use serde_json::{Value, json};

use super::{TestEnv, env, running, spec};
use crate::api::Kind;
use crate::hourglass::tests::steps::{Transitions, reported, table};
use crate::shell::fake::{Fault, Server};

fn ways(env: &TestEnv) -> Transitions {
    Transitions::of::<ExecutorState, _>(env)
}

/// The cluster takes so many steps after a change, then something happens.
fn interrupted(change: fn(&mut Value), steps: usize, then: impl Fn(&mut TestEnv)) -> Transitions {
    let mut env = running(spec());
    env.change("exec", change);
    env.few_steps(steps);
    then(&mut env);
    env.wait(700);
    ways(&env)
}

/// The controller dies after each of its writes, and somebody acts before another takes over.
fn between_writes() -> Transitions {
    let go: fn(&Server) = |server| server.request_deletion(Kind::Executor, "exec");
    let again: fn(&Server) = |server| {
        server.edit(Kind::Executor, "exec", |executor| executor["spec"]["config"]["logLevel"] = json!("trace"));
    };
    let spoil: fn(&Server) =
        |server| server.edit(Kind::Executor, "exec", |executor| executor["spec"]["image"] = json!(5));
    let mut all = Transitions::default();
    for (writes, act) in (0..24).flat_map(|writes| [(writes, go), (writes, again), (writes, spoil)]) {
        let mut env = env();
        env.server.store().faults.push(Fault::DieAfter(writes));
        env.at_death = Some(act);
        env.submit("exec", spec());
        env.wait(5);
        if !env.server.list(Kind::Executor).is_empty() {
            env.change("exec", |spec| spec["config"]["logLevel"] = json!("debug"));
        }
        env.wait(5);
        all.extend(ways(&env));
    }
    // Nothing of it is ready for a minute; then it goes.
    let mut none = running(spec());
    for pod in none.server.list(Kind::Pod) {
        none.server.edit(Kind::Pod, crate::value::word(&pod, "/metadata/name"), |pod| {
            pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
            pod["status"]["containerStatuses"] =
                json!([{"name": "executor", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]);
        });
    }
    none.wait(70);
    none.server.request_deletion(Kind::Executor, "exec");
    none.wait(5);
    all.extend(ways(&none));
    all
}

fn fail(env: &mut TestEnv) {
    env.server.edit(Kind::Deployment, "exec", |deployment| {
        deployment["status"]["conditions"] =
            json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}]);
    });
}

#[test]
fn every_step_that_is_written_is_one_of_the_table_and_every_one_of_the_table_is_taken() {
    let mut all = Transitions::default();
    let change: fn(&mut Value) = |spec| spec["config"]["logLevel"] = json!("debug");
    let scale: fn(&mut Value) = |spec| spec["replicas"] = json!(2);
    for steps in 0..8 {
        for what in [change, scale] {
            all.extend(interrupted(what, steps, |_| {}));
            all.extend(interrupted(what, steps, fail));
            all.extend(interrupted(what, steps, |env| env.server.request_deletion(Kind::Executor, "exec")));
            all.extend(interrupted(what, steps, |env| env.change("exec", |spec| spec["image"] = json!("other"))));
            all.extend(interrupted(what, steps, |env| env.server.remove(Kind::Deployment, "exec")));
        }
        let ask: fn(&mut TestEnv) = |env| env.server.request_deletion(Kind::Executor, "exec");
        for then in [fail_if_there, ask] {
            let mut env = env();
            env.submit("exec", spec());
            env.few_steps(steps);
            then(&mut env);
            env.wait(700);
            all.extend(ways(&env));
        }
    }
    all.extend(between_writes());
    let mut ended = running(spec());
    ended.server.request_deletion(Kind::Executor, "exec");
    ended.wait(100);
    all.extend(ways(&ended));
    let mut invalid = env();
    invalid.submit("exec", json!({"image": 5}));
    invalid.rest();
    invalid.change("exec", |invalid| *invalid = spec());
    invalid.rest();
    all.extend(ways(&invalid));
    let table = table(&MACHINE);
    assert_eq!((all.broken, all.astray(&table)), (0, Vec::new()), "not in the table");
    assert_eq!(reported(table.difference(&all.taken)), [] as [String; 0], "steps that these scenes do not reach");
    // What is only passed through: a first status says more than Pending, and who is gone has none.
    insta::assert_snapshot!(reported(table.difference(&all.stored)).join("\n"), @"
    - Pending
    Cleanup Gone
    Pending Creating
    Pending Failed
    Pending Terminating
    ");
}

fn fail_if_there(env: &mut TestEnv) {
    if env.server.get(Kind::Deployment, "exec").is_some() {
        fail(env);
    }
}
