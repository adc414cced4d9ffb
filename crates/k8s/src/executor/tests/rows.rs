//! Every row of the lifecycle is taken.

use orlop_core::machine::executor::{ExecutorState, MACHINE};
use serde_json::{Value, json};

use super::{Bed, bed, running, spec};
use crate::api::Kind;
use crate::hourglass::tests::steps::{Ways, table, told};
use crate::shell::fake::{Fault, Server};

fn ways(bed: &Bed) -> Ways {
    Ways::of::<ExecutorState, _>(bed)
}

/// The cluster takes so many steps after a change, then something happens.
fn interrupted(change: fn(&mut Value), steps: usize, then: impl Fn(&mut Bed)) -> Ways {
    let mut bed = running(spec());
    bed.change("exec", change);
    bed.few_steps(steps);
    then(&mut bed);
    bed.wait(700);
    ways(&bed)
}

/// The controller dies after each of its writes, and somebody acts before another takes over.
fn between_writes() -> Ways {
    let go: fn(&Server) = |server| server.request_deletion(Kind::Executor, "exec");
    let again: fn(&Server) = |server| {
        server.edit(Kind::Executor, "exec", |executor| executor["spec"]["config"]["logLevel"] = json!("trace"));
    };
    let spoil: fn(&Server) =
        |server| server.edit(Kind::Executor, "exec", |executor| executor["spec"]["image"] = json!(5));
    let mut all = Ways::default();
    for (writes, act) in (0..24).flat_map(|writes| [(writes, go), (writes, again), (writes, spoil)]) {
        let mut bed = bed();
        bed.server.store().faults.push(Fault::DieAfter(writes));
        bed.at_death = Some(act);
        bed.submit("exec", spec());
        bed.wait(5);
        if !bed.server.list(Kind::Executor).is_empty() {
            bed.change("exec", |spec| spec["config"]["logLevel"] = json!("debug"));
        }
        bed.wait(5);
        all.extend(ways(&bed));
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

fn fail(bed: &mut Bed) {
    bed.server.edit(Kind::Deployment, "exec", |deployment| {
        deployment["status"]["conditions"] =
            json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}]);
    });
}

#[test]
fn every_step_that_is_written_is_one_of_the_table_and_every_one_of_the_table_is_taken() {
    let mut all = Ways::default();
    let change: fn(&mut Value) = |spec| spec["config"]["logLevel"] = json!("debug");
    let scale: fn(&mut Value) = |spec| spec["replicas"] = json!(2);
    for steps in 0..8 {
        for what in [change, scale] {
            all.extend(interrupted(what, steps, |_| {}));
            all.extend(interrupted(what, steps, fail));
            all.extend(interrupted(what, steps, |bed| bed.server.request_deletion(Kind::Executor, "exec")));
            all.extend(interrupted(what, steps, |bed| bed.change("exec", |spec| spec["image"] = json!("other"))));
            all.extend(interrupted(what, steps, |bed| bed.server.remove(Kind::Deployment, "exec")));
        }
        let ask: fn(&mut Bed) = |bed| bed.server.request_deletion(Kind::Executor, "exec");
        for then in [fail_if_there, ask] {
            let mut bed = bed();
            bed.submit("exec", spec());
            bed.few_steps(steps);
            then(&mut bed);
            bed.wait(700);
            all.extend(ways(&bed));
        }
    }
    all.extend(between_writes());
    let mut ended = running(spec());
    ended.server.request_deletion(Kind::Executor, "exec");
    ended.wait(100);
    all.extend(ways(&ended));
    let mut invalid = bed();
    invalid.submit("exec", json!({"image": 5}));
    invalid.rest();
    invalid.change("exec", |invalid| *invalid = spec());
    invalid.rest();
    all.extend(ways(&invalid));
    let table = table(&MACHINE);
    assert_eq!((all.broken, all.astray(&table)), (0, Vec::new()), "not in the table");
    assert_eq!(told(table.difference(&all.taken)), [] as [String; 0], "steps that these scenes do not reach");
    // What is only passed through: a first status says more than Pending, and who is gone has none.
    insta::assert_snapshot!(told(table.difference(&all.stored)).join("\n"), @"
    - Pending
    Cleanup Gone
    Pending Creating
    Pending Failed
    Pending Terminating
    ");
}

fn fail_if_there(bed: &mut Bed) {
    if bed.server.get(Kind::Deployment, "exec").is_some() {
        fail(bed);
    }
}
