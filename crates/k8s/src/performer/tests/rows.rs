//! Every row of the lifecycle of section 5.2 is taken.

use std::collections::BTreeSet;

use orlop_core::machine::Named;
use orlop_core::machine::performer::{Event, MACHINE, PerformerState};
use serde_json::json;

use super::{Bed, bed, gpu, gpu_host, pods, running, spec};
use crate::api::{ApiError, Kind};
use crate::hourglass::tests::host;
use crate::shell::small::{Fault, Server};

type Steps = BTreeSet<(Option<&'static str>, &'static str)>;

/// States in which a performer may be deleted, and what brings it there.
fn deleted_in(habit: &'static str) -> Steps {
    let mut bed = bed();
    bed.images.insert("bad".into(), habit);
    bed.submit("avs", spec("bad"));
    bed.rest();
    bed.server.ask_to_go(Kind::Performer, "avs");
    bed.wait(60);
    bed.steps()
}

/// The cluster takes so many steps, then something happens.
fn interrupted(steps: usize, then: impl Fn(&mut Bed)) -> Steps {
    let mut bed = bed();
    bed.submit("avs", spec("well"));
    bed.few_steps(steps);
    then(&mut bed);
    bed.wait(60);
    bed.steps()
}

fn fail_pod(bed: &mut Bed) {
    for name in pods(bed) {
        bed.server.edit(Kind::Pod, &name, |pod| pod["status"]["phase"] = json!("Failed"));
    }
}

fn delete(bed: &mut Bed) {
    bed.server.ask_to_go(Kind::Performer, "avs");
}

fn all() -> Steps {
    let mut all = Steps::new();
    for steps in 0..8 {
        all.extend(interrupted(steps, fail_pod));
        all.extend(interrupted(steps, delete));
    }
    for habit in ["ImagePullBackOff", "CreateContainerConfigError", "never"] {
        all.extend(deleted_in(habit));
    }
    let mut slow = bed();
    slow.images.insert("bad".into(), "never");
    slow.submit("avs", spec("bad"));
    slow.wait(700);
    all.extend(slow.steps());
    let mut none = Bed::new();
    none.show(Kind::Node, host("node-1", json!({}), json!({})));
    none.submit("avs", gpu("well"));
    none.wait(20);
    all.extend(none.steps());
    let mut full = Bed::new();
    full.show(Kind::Node, gpu_host("node-1", 1));
    full.submit("one", gpu("well"));
    full.rest();
    full.submit("avs", gpu("well"));
    full.wait(400);
    all.extend(full.steps());
    let mut upgraded = running(spec("well"));
    upgraded.images.insert("bad".into(), "never");
    upgraded.change("avs", |spec| spec["image"] = json!("bad"));
    upgraded.wait(700);
    all.extend(upgraded.steps());
    let mut invalid = running(spec("well"));
    invalid.change("avs", |spec| spec["hardwareRequirements"] = json!({"gpuType": "none"}));
    invalid.rest();
    all.extend(invalid.steps());
    let mut crashed = running(spec("well"));
    crashed.images.insert("bad".into(), "CrashLoopBackOff");
    crashed.change("avs", |spec| {
        spec["image"] = json!("bad");
        spec["upgrade"] = json!({"strategy": "Recreate"});
    });
    crashed.wait(60);
    all.extend(crashed.steps());
    for steps in 0..6 {
        all.extend(ended_after(steps));
    }
    all.extend(between_writes());
    all.extend(before_a_pod());
    all.extend(before_an_upgrade());
    all
}

/// The controller dies after each of its first writes, and somebody acts before another takes over.
fn between_writes() -> Steps {
    let go: fn(&Server) = |server| server.ask_to_go(Kind::Performer, "avs");
    let spoil: fn(&Server) = |server| {
        server.edit(Kind::Performer, "avs", |performer| {
            performer["spec"]["hardwareRequirements"] = json!({"gpuType": "none"});
        });
    };
    let mut all = Steps::new();
    for (writes, act, is_old) in
        (0..8).flat_map(|writes| [(writes, go, false), (writes, go, true), (writes, spoil, true)])
    {
        let mut bed = Bed::with_faults(vec![Fault::DieAfter(writes)]);
        bed.show(Kind::Node, host("node-1", json!({}), json!({})));
        bed.at_death = Some(act);
        let performer = bed.submit("avs", spec("well"));
        if is_old {
            // Its label is all that is written first.
            put_unnumbered(&bed, "performer-avs", &performer["metadata"]["uid"]);
        }
        bed.wait(60);
        all.extend(bed.steps());
    }
    all
}

/// A performer that serves is wanted otherwise, while there is a pod from before pods had numbers: that comes first.
fn before_an_upgrade() -> Steps {
    let mut all = Steps::new();
    for writes in 0..4 {
        let mut bed = running(spec("well"));
        let owner = bed.server.list(Kind::Performer).first().map(|performer| performer["metadata"]["uid"].clone());
        put_unnumbered(&bed, "old", &json!(owner));
        let before = bed.writes().len();
        bed.server.store().faults.push(Fault::DieAfter(before + writes));
        bed.at_death = Some(|server| server.ask_to_go(Kind::Performer, "avs"));
        bed.change("avs", |spec| spec["image"] = json!("other"));
        bed.wait(60);
        all.extend(bed.steps());
    }
    all
}

/// A pod from before pods had numbers.
fn put_unnumbered(bed: &Bed, name: &str, owner: &serde_json::Value) {
    let owner = json!([{"kind": "Performer", "uid": owner, "controller": true}]);
    let labels = json!({"app": "hourglass-performer", "hourglass.eigenlayer.io/performer": "avs"});
    let metadata = json!({"name": name, "labels": labels, "ownerReferences": owner});
    let container = json!({"name": "performer", "image": "well"});
    bed.server.put(Kind::Pod, json!({"metadata": metadata, "spec": {"containers": [container]}, "status": {}}));
}

/// What happens where there is no pod yet, or none that a node takes.
fn before_a_pod() -> Steps {
    let mut wrong = bed();
    wrong.submit(
        "avs",
        json!({"avsAddress": super::ADDRESS, "image": "well", "hardwareRequirements": {"gpuType": "none"}}),
    );
    wrong.rest();
    let full = json!({"reason": "Forbidden", "message": "exceeded quota: few, requested: pods=1"});
    let full = ApiError::from_status(403, &full);
    let mut refused = Bed::with_faults(vec![Fault::Refuse("create", Kind::Pod, 1, full)]);
    refused.show(Kind::Node, host("node-1", json!({}), json!({})));
    refused.submit("avs", spec("well"));
    refused.wait(60);
    let mut large = bed();
    large.submit(
        "avs",
        json!({"avsAddress": super::ADDRESS, "image": "well", "resources": {"requests": {"cpu": "100"}}}),
    );
    large.rest();
    large.server.ask_to_go(Kind::Performer, "avs");
    large.wait(60);
    [wrong, refused, large].iter().flat_map(Bed::steps).collect()
}

/// Somebody wants it to go while it comes, is renewed or is made again, so many steps of the cluster after the beginning of that.
fn ended_after(steps: usize) -> Steps {
    let mut coming = Bed::new();
    coming.show(Kind::Node, gpu_host("node-1", 1));
    coming.submit("avs", gpu("well"));
    let upgraded = running(spec("well"));
    upgraded.change("avs", |spec| spec["image"] = json!("other"));
    let again = running(spec("well"));
    again.change("avs", |spec| {
        spec["image"] = json!("other");
        spec["upgrade"] = json!({"strategy": "Recreate"});
    });
    let mut all = Steps::new();
    for mut bed in [coming, upgraded, again] {
        bed.few_steps(steps);
        bed.server.ask_to_go(Kind::Performer, "avs");
        bed.wait(700);
        all.extend(bed.steps());
    }
    let mut untouched = Bed::new();
    untouched.show(Kind::Node, host("node-1", json!({}), json!({})));
    untouched.submit("avs", gpu("well"));
    untouched.few_steps(steps);
    untouched.server.ask_to_go(Kind::Performer, "avs");
    untouched.wait(700);
    all.extend(untouched.steps());
    all
}

#[test]
fn s5_2_every_step_that_is_written_is_one_of_the_table_and_no_new_gap_opens() {
    let taken = all();
    let mut table = Steps::new();
    let states: Vec<Option<PerformerState>> =
        std::iter::once(None).chain(PerformerState::ALL.iter().copied().map(Some)).collect();
    for from in states {
        for event in Event::ALL {
            table.extend(MACHINE.transitions(from, *event).map(|row| (from.map(Named::as_str), row.to.as_str())));
        }
    }
    let strange: Vec<_> = taken.iter().filter(|step| !table.contains(*step)).collect();
    assert!(strange.is_empty(), "not in the table: {strange:?}");
    let missed: Vec<_> = table.iter().filter(|step| !taken.contains(*step)).collect();
    let told: Vec<String> = missed.iter().map(|(from, to)| format!("{} {to}", from.unwrap_or("-"))).collect();
    // What these scenes do not reach, and nothing else: a new gap is a failure, and so is one that is closed and still listed.
    assert_eq!(told, NOT_REACHED);
}

/// Steps of the table that the scenes above do not reach.
const NOT_REACHED: &[&str] = &[];
