//! Every row of the lifecycle is taken.

use orlop_core::machine::performer::{MACHINE, PerformerState};
use serde_json::json;

use super::{TestEnv, env, gpu, gpu_host, pods, running, spec};
use crate::api::Kind;
use crate::hourglass::tests::steps::{Transitions, reported, table};
use crate::hourglass::tests::{host, quota};
use crate::shell::fake::{Fault, Server};

fn ways(env: &TestEnv) -> Transitions {
    Transitions::of::<PerformerState, _>(env)
}

/// States in which a performer may be deleted, and what brings it there.
fn deleted_in(habit: &'static str) -> Transitions {
    let mut env = env();
    env.images.insert("bad".into(), habit);
    env.submit("avs", spec("bad"));
    env.rest();
    env.server.request_deletion(Kind::Performer, "avs");
    env.wait(60);
    ways(&env)
}

/// The cluster takes so many steps, then something happens.
fn interrupted(steps: usize, then: impl Fn(&mut TestEnv)) -> Transitions {
    let mut env = env();
    env.submit("avs", spec("well"));
    env.few_steps(steps);
    then(&mut env);
    env.wait(60);
    ways(&env)
}

fn fail_pod(env: &mut TestEnv) {
    for name in pods(env) {
        env.server.edit(Kind::Pod, &name, |pod| pod["status"]["phase"] = json!("Failed"));
    }
}

fn delete(env: &mut TestEnv) {
    env.server.request_deletion(Kind::Performer, "avs");
}

fn all() -> Transitions {
    let mut all = Transitions::default();
    for steps in 0..8 {
        all.extend(interrupted(steps, fail_pod));
        all.extend(interrupted(steps, delete));
    }
    for habit in ["ImagePullBackOff", "CreateContainerConfigError", "never"] {
        all.extend(deleted_in(habit));
    }
    let mut slow = env();
    slow.images.insert("bad".into(), "never");
    slow.submit("avs", spec("bad"));
    slow.wait(700);
    all.extend(ways(&slow));
    let mut none = TestEnv::new();
    none.add(Kind::Node, host("node-1", json!({}), json!({})));
    none.submit("avs", gpu("well"));
    none.wait(20);
    all.extend(ways(&none));
    let mut full = TestEnv::new();
    full.add(Kind::Node, gpu_host("node-1", 1));
    full.submit("one", gpu("well"));
    full.rest();
    full.submit("avs", gpu("well"));
    full.wait(400);
    all.extend(ways(&full));
    let mut upgraded = running(spec("well"));
    upgraded.images.insert("bad".into(), "never");
    upgraded.change("avs", |spec| spec["image"] = json!("bad"));
    upgraded.wait(700);
    all.extend(ways(&upgraded));
    let mut invalid = running(spec("well"));
    invalid.change("avs", |spec| spec["hardwareRequirements"] = json!({"gpuType": "none-nvlink"}));
    invalid.rest();
    all.extend(ways(&invalid));
    let mut crashed = running(spec("well"));
    crashed.images.insert("bad".into(), "CrashLoopBackOff");
    crashed.change("avs", |spec| {
        spec["image"] = json!("bad");
        spec["upgrade"] = json!({"strategy": "Recreate"});
    });
    crashed.wait(60);
    all.extend(ways(&crashed));
    for steps in 0..6 {
        all.extend(ended_after(steps));
    }
    all.extend(between_writes());
    all.extend(before_a_pod());
    all.extend(before_an_upgrade());
    all.extend(stops());
    all.extend(goes_step_by_step());
    all
}

/// States in which a performer stays only as long as something else takes its time.
fn stops() -> Transitions {
    let mut upgraded = running(spec("well"));
    upgraded.change("avs", |spec| spec["image"] = json!("other"));
    upgraded.wait(60);
    // Its only node with that hardware has no room, then it goes, and another comes before that is a failure.
    let mut full = TestEnv::new();
    full.add(Kind::Node, gpu_host("node-1", 1));
    full.submit("one", gpu("well"));
    full.rest();
    full.submit("avs", gpu("well"));
    full.rest();
    full.add(Kind::Node, host("node-1", json!({}), json!({})));
    full.rest();
    full.add(Kind::Node, gpu_host("node-2", 1));
    full.server.edit(Kind::Pod, "performer-avs", |pod| {
        pod["spec"]["nodeName"] = json!("node-2");
        pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "True"}]);
    });
    full.rest();
    // A pod from before pods had numbers gets one, and is gone when it is looked for.
    let mut lost = env();
    lost.server.store().faults.push(Fault::DieAfter(2));
    lost.at_death = Some(|server| server.remove(Kind::Pod, "performer-avs"));
    let performer = lost.submit("avs", spec("well"));
    put_unnumbered(&lost, "performer-avs", &performer["metadata"]["uid"]);
    lost.wait(60);
    // Another one has to wait for somebody else's Service first.
    let mut late = env();
    late.server.put(Kind::Service, json!({"metadata": {"name": "performer-avs"}}));
    let performer = late.submit("avs", spec("well"));
    put_unnumbered(&late, "performer-avs", &performer["metadata"]["uid"]);
    late.rest();
    late.server.remove(Kind::Service, "performer-avs");
    late.wait(61);
    let mut all = Transitions::default();
    [upgraded, full, lost, late].iter().for_each(|env| all.extend(ways(env)));
    all
}

/// Somebody holds the Service of a performer that goes, also of one that has just begun.
fn goes_step_by_step() -> Transitions {
    let served = running(spec("well"));
    served.server.edit(Kind::Service, "performer-avs", |service| service["metadata"]["finalizers"] = json!(["theirs"]));
    served.server.request_deletion(Kind::Performer, "avs");
    let mut begun = env();
    begun.server.store().faults.push(Fault::DieAfter(2));
    begun.at_death = Some(|server| server.request_deletion(Kind::Performer, "avs"));
    let performer = begun.submit("avs", spec("well"));
    put_unnumbered(&begun, "performer-avs", &performer["metadata"]["uid"]);
    let owner = json!([{"kind": "Performer", "name": "avs", "uid": performer["metadata"]["uid"], "controller": true}]);
    let metadata = json!({"name": "performer-avs", "ownerReferences": owner, "finalizers": ["theirs"]});
    begun.server.put(Kind::Service, json!({ "metadata": metadata }));
    let mut all = Transitions::default();
    for mut env in [served, begun] {
        env.wait(5);
        env.server.remove(Kind::Service, "performer-avs");
        env.wait(60);
        all.extend(ways(&env));
    }
    all
}

/// The controller dies after each of its first writes, and somebody acts before another takes over.
fn between_writes() -> Transitions {
    let go: fn(&Server) = |server| server.request_deletion(Kind::Performer, "avs");
    let spoil: fn(&Server) = |server| {
        server.edit(Kind::Performer, "avs", |performer| {
            performer["spec"]["hardwareRequirements"] = json!({"gpuType": "none-nvlink"});
        });
    };
    let mut all = Transitions::default();
    for (writes, act, is_old) in
        (0..8).flat_map(|writes| [(writes, go, false), (writes, go, true), (writes, spoil, true)])
    {
        let mut env = TestEnv::with_faults(vec![Fault::DieAfter(writes)]);
        env.add(Kind::Node, host("node-1", json!({}), json!({})));
        env.at_death = Some(act);
        let performer = env.submit("avs", spec("well"));
        if is_old {
            // Its label is all that is written first.
            put_unnumbered(&env, "performer-avs", &performer["metadata"]["uid"]);
        }
        env.wait(60);
        all.extend(ways(&env));
    }
    all
}

/// A performer that serves is wanted otherwise, while there is a pod from before pods had numbers: that comes first.
fn before_an_upgrade() -> Transitions {
    let mut all = Transitions::default();
    let go: fn(&Server) = |server| server.request_deletion(Kind::Performer, "avs");
    let back: fn(&Server) =
        |server| server.edit(Kind::Performer, "avs", |performer| performer["spec"]["image"] = json!("well"));
    for (writes, act) in (0..4).flat_map(|writes| [(writes, go), (writes, back)]) {
        let mut env = running(spec("well"));
        let owner = env.server.list(Kind::Performer).first().map(|performer| performer["metadata"]["uid"].clone());
        put_unnumbered(&env, "old", &json!(owner));
        env.dies_after(writes);
        env.at_death = Some(act);
        env.change("avs", |spec| spec["image"] = json!("other"));
        env.wait(60);
        all.extend(ways(&env));
    }
    all
}

/// A pod from before pods had numbers.
fn put_unnumbered(env: &TestEnv, name: &str, owner: &serde_json::Value) {
    let owner = json!([{"kind": "Performer", "name": "avs", "uid": owner, "controller": true}]);
    let labels = json!({"app": "hourglass-performer", "hourglass.eigenlayer.io/performer": "avs"});
    let metadata = json!({"name": name, "labels": labels, "ownerReferences": owner});
    let container = json!({"name": "performer", "image": "well"});
    env.server.put(Kind::Pod, json!({"metadata": metadata, "spec": {"containers": [container]}, "status": {}}));
}

/// What happens where there is no pod yet, or none that a node takes.
fn before_a_pod() -> Transitions {
    let mut wrong = env();
    wrong.submit(
        "avs",
        json!({"avsAddress": super::ADDRESS, "image": "well", "hardwareRequirements": {"gpuType": "none-nvlink"}}),
    );
    wrong.rest();
    let mut refused = TestEnv::with_faults(vec![Fault::Refuse("create", Kind::Pod, 1, quota())]);
    refused.add(Kind::Node, host("node-1", json!({}), json!({})));
    refused.submit("avs", spec("well"));
    refused.wait(60);
    let mut large = env();
    large.submit(
        "avs",
        json!({"avsAddress": super::ADDRESS, "image": "well", "resources": {"requests": {"cpu": "100"}}}),
    );
    large.rest();
    large.server.request_deletion(Kind::Performer, "avs");
    large.wait(60);
    let mut all = Transitions::default();
    [wrong, refused, large].iter().for_each(|env| all.extend(ways(env)));
    all
}

/// Somebody wants it to go while it comes, is renewed or is made again, so many steps of the cluster after the beginning of that.
fn ended_after(steps: usize) -> Transitions {
    let mut coming = TestEnv::new();
    coming.add(Kind::Node, gpu_host("node-1", 1));
    coming.submit("avs", gpu("well"));
    let upgraded = running(spec("well"));
    upgraded.change("avs", |spec| spec["image"] = json!("other"));
    let again = running(spec("well"));
    again.change("avs", |spec| {
        spec["image"] = json!("other");
        spec["upgrade"] = json!({"strategy": "Recreate"});
    });
    let mut all = Transitions::default();
    for mut env in [coming, upgraded, again] {
        env.few_steps(steps);
        env.server.request_deletion(Kind::Performer, "avs");
        env.wait(700);
        all.extend(ways(&env));
    }
    let mut untouched = TestEnv::new();
    untouched.add(Kind::Node, host("node-1", json!({}), json!({})));
    untouched.submit("avs", gpu("well"));
    untouched.few_steps(steps);
    untouched.server.request_deletion(Kind::Performer, "avs");
    untouched.wait(700);
    all.extend(ways(&untouched));
    all
}

#[test]
fn every_step_that_is_written_is_one_of_the_table_and_no_new_gap_opens() {
    let all = all();
    let table = table(&MACHINE);
    assert_eq!((all.broken, all.astray(&table)), (0, Vec::new()), "not in the table");
    // What these scenes do not reach, and nothing else: a new gap is a failure, and so is one that is closed and still listed.
    assert_eq!(reported(table.difference(&all.taken)), NOT_REACHED);
    // What is only passed through: a first status says more than Pending, and who is gone has none.
    insta::assert_snapshot!(reported(table.difference(&all.stored)).join("\n"), @"
    - Pending
    Pending Creating
    Pending Failed
    Pending Terminating
    PodCleanup Gone
    ");
}

/// Steps of the table that the scenes above do not reach.
const NOT_REACHED: &[&str] = &[];
